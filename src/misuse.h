/* SPDX-License-Identifier: MIT
 *
 * How a misused manager ends: one line on standard error, with fixed words that a test can match, then abort(). It lives
 * here and not in base/ because writing is the system's. */
#ifndef MISUSE_H
#define MISUSE_H

#include <stddef.h>

enum { FATAL_CALL_SIZE = 12 }; /* one size in all definitions, or an optimizer at link time warns */

/* The call that a message names if a misuse is found late: while a magazine is emptied, or when a block is given out again. The
 * call that did it is over then. The malloc library says "free" and "malloc". */
extern const char fatal_free_call[FATAL_CALL_SIZE], fatal_alloc_call[FATAL_CALL_SIZE];

#define NOT_A_BLOCK     "not a block of any heap"
#define NOT_OF_HEAP     "a block of another heap"
#define FREED_TWICE     "freed twice"
#define NOT_A_HEAP_TEXT "not a live heap"

/* Called before abort(), whose signal may have a handler. */
extern void (*fatal_before_abort)(void);

/* tidepool: call(0xaddress): what */
_Noreturn void fatal_misuse(const char *call, const void *address, const char *what);

/* tidepool: call(0xaddress): what at offset N of a block of M bytes */
_Noreturn void fatal_damage(const char *call, const void *address, const char *what, size_t offset, size_t size);

/* tidepool: what */
_Noreturn void fatal(const char *what);

/* tidepool: subject: what    (and the program goes on) */
void warn(const char *subject, const char *what);

#endif
