/* SPDX-License-Identifier: MIT
 *
 * tidepool/embedded.h: what the profile `embedded` asks of a firmware, and what it has in place of errno.
 *
 * A firmware may define any of the three functions below. One that it does not define is the library's own, which is weak:
 * there is no lock, and a misuse traps. Define them in an object that is linked by its name: a linker does not look into an
 * archive for what it has a weak definition of. */
#ifndef TIDEPOOL_EMBEDDED_H
#define TIDEPOOL_EMBEDDED_H

#include <tidepool/visibility.h>

POOL_BEGIN_DECLS

/* The library calls these around what several contexts of the firmware may do at once: tasks of an RTOS, interrupts, cores. A
 * context that holds the lock may take it again, so it has to nest: interrupts that are disabled, with a count, and left as
 * they were found, or a recursive mutex. It is held for some microseconds, and not while a function of the firmware runs (a
 * hook, a callback, a visitor). A heap or object pool that is single-threaded takes it for its figures alone.
 *
 * The library's own do nothing. */
POOL_API void pool_embedded_lock(void);
POOL_API void pool_embedded_unlock(void);

/* A misuse ends here: "pool_heap_free", the address that it was called with, "freed twice". The texts are constants. The
 * function does not return. It may start the firmware anew; the heap may hold the lock, and is not used any more.
 *
 * The library's own traps. */
POOL_API __attribute__((noreturn)) void pool_embedded_abort(const char *call, const void *address, const char *what);

/* In place of errno: 12 (ENOMEM) or 22 (EINVAL) after a call that failed. */
POOL_API extern int pool_embedded_errno;

POOL_END_DECLS

#endif
