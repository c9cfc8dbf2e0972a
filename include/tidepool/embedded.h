/* SPDX-License-Identifier: MIT
 *
 * tidepool/embedded.h: the functions that a firmware may define for the profile `embedded`, and its errno.
 *
 * A firmware may define any of the three functions below. The library has weak definitions of them: no lock, and a trap for
 * misuse. Define yours in an object file that is linked by name: a linker does not search an archive for a symbol that has a
 * weak definition. */
#ifndef TIDEPOOL_EMBEDDED_H
#define TIDEPOOL_EMBEDDED_H

#include <tidepool/visibility.h>

POOL_BEGIN_DECLS

/* The library holds this lock where several contexts of the firmware may work at once: tasks of an RTOS, interrupts, cores. It
 * must nest, because a context that holds it may take it again. Use a recursive mutex, or disable interrupts with a count and
 * restore their state.
 *
 * The lock is held for some microseconds, but not while a function of the firmware runs (a hook, a callback, a visitor). A
 * single-threaded heap or object pool takes it only for figures.
 *
 * The weak definitions do nothing. */
POOL_API void pool_embedded_lock(void);
POOL_API void pool_embedded_unlock(void);

/* The library reports misuse here, and the function must not return: "pool_heap_free", the address that it was called with,
 * "freed twice". The texts are constants. The function may restart the firmware. It must not use the heap, which may hold the
 * lock.
 *
 * The weak definition traps. */
POOL_API __attribute__((noreturn)) void pool_embedded_abort(const char *call, const void *address, const char *what);

/* Replaces errno: 12 (ENOMEM) or 22 (EINVAL) after a call that failed. */
POOL_API extern int pool_embedded_errno;

POOL_END_DECLS

#endif
