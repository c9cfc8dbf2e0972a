/* SPDX-License-Identifier: MIT
 *
 * How a misused manager ends: one line on standard error, with fixed words that a test can match, then abort(). It lives
 * here and not in base/ because writing is the system's. */
#ifndef MISUSE_H
#define MISUSE_H

#include <stddef.h>

enum { FATAL_CALL_SIZE = 12 }; /* one size in all definitions, or an optimizer at link time warns */

/* The calls that a message names for blocks of the default heap. Those that allocate have no room on their fast paths for a
 * name, and a free that is found late is over by then. The malloc library says "free" and "malloc". */
extern const char fatal_free_call[FATAL_CALL_SIZE], fatal_alloc_call[FATAL_CALL_SIZE], fatal_calloc_call[FATAL_CALL_SIZE];

struct pool_heap;

#define NOT_A_BLOCK     "not a block of any heap"
#define NOT_OF_HEAP     "a block of another heap"
#define FREED_TWICE     "freed twice"
#define FREED_BEFORE    "freed before"
#define NOT_A_HEAP_TEXT "not a live heap"

/* Called before abort(), whose signal may have a handler. */
extern void (*fatal_before_abort)(void);

/* Returns a heap's name; NULL for the default heap, whose blocks are just blocks. NULL itself: no heap has a name yet. */
extern const char *(*fatal_heap_name)(const struct pool_heap *heap);

/* tidepool: call(0xaddress): what */
_Noreturn void fatal_misuse(const char *call, const void *address, const char *what);

/* tidepool: call(0xaddress): what: a block of N bytes of heap "name"
 * tidepool: call(0xaddress): what, given to heap "name"
 *
 * `heap` is whose block it is, NULL where nothing is known of it. `size` is what was asked for where its heap knows that, and
 * else what the block holds. `given_to` is the heap that the call was made with, NULL for none. */
_Noreturn void fatal_misuse_of_block(const char *call, const void *address, const char *what, const struct pool_heap *heap,
                                     size_t size, const struct pool_heap *given_to);

/* The same of a block that was freed some time ago, which is seen only now. The call is over, and which one it was is not known
 * any more: the free is named that blocks of such a heap are meant for. */
_Noreturn void fatal_late_misuse(const void *address, const char *what, const struct pool_heap *heap, size_t size,
                                 const struct pool_heap *given_to);

/* tidepool: call(0xaddress): what at offset N of a block of M bytes of heap "name"; N is negative in front of the block */
_Noreturn void fatal_damage(const char *call, const void *address, const char *what, ptrdiff_t offset,
                            const struct pool_heap *heap, size_t size);

/* tidepool: what */
_Noreturn void fatal(const char *what);

/* tidepool: subject: what    (and the program goes on) */
void warn(const char *subject, const char *what);

#endif
