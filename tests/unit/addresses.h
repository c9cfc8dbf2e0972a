/* SPDX-License-Identifier: MIT
 * What the tests of addresses share: heaps, and what is known of an address in one of their blocks and of any other. */
#ifndef ADDRESSES_H
#define ADDRESSES_H

#include "levels.h"
#include "unit.h"
#include <tidepool/heap.h>
#include <tidepool/pool.h>

enum { BLOCKS = 300 };
extern _Alignas(4096) char buffer[6 << 20];

pool_heap_t *new_heap(pool_heap_options_t options);
pool_heap_t *new_guest(void *memory, size_t size);
void is_block(pool_heap_t *heap, char *block, size_t size);

/* Of the heap, but no block. */
void is_nobodys(const pool_heap_t *heap, const char *address);
void free_default(void *block);

#endif
