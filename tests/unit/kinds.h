/* SPDX-License-Identifier: MIT
 * What the tests of heaps of every kind share: the kinds, and blocks with contents. */
#ifndef KINDS_H
#define KINDS_H

#include "unit.h"
#include <tidepool/heap.h>
#include <tidepool/stats.h>

enum { BLOCKS = 20000 };
extern _Alignas(4096) char buffer[12 << 20];
extern void *blocks[BLOCKS];

pool_heap_t *heap_new(const pool_heap_options_t *options); /* never NULL */
pool_stats_t figures(pool_heap_t *heap);                   /* which agree */

/* Until it is full, or there are enough. */
size_t fill(pool_heap_t *heap, size_t size, size_t most);
void verify(size_t size, size_t count); /* what fill() wrote */
void free_all(pool_heap_t *heap, size_t count);
void for_each_kind(void (*test)(void *));

/* For a walk of blocks of at least 200 bytes, which it stops at the 17th. */
bool count_block(const pool_block_t *block, void *context);
size_t usable_of(size_t count); /* of the first so many of blocks[] */

#endif
