/* SPDX-License-Identifier: MIT
 * The lengths of slabs, and the sizes of magazines and stocks of a class. */
#include "bin/slabs.h"

enum {
  MAGAZINE_SHARE = 16,            /* a magazine holds 1/16 of a class's blocks, divided among the threads */
  MAGAZINE_LEAST_BYTES = 8 << 10, /* a magazine holds at least this much */
  MAGAZINE_MOST_BYTES = 64 << 10, /* a magazine holds at most this much */

  STOCK_BYTES = 192 << 10,
  STOCK_LEAST = 1,
  STOCK_CAPACITY = 250, /* a thread counts its magazines of a class in a byte */
  STOCK_MOST = 32,      /* magazines in a stock, unless the class is large */
  STOCK_SHARE = 64,     /* a stock holds 1/64 of the blocks of a large class */

  SLAB_BLOCKS_LEAST = 8,
  SLAB_WASTE = 32 /* at most 1/32 of a slab is wasted, if possible */
};

uint32_t bin_threads = 1;

/* A small program keeps little in its magazines, and a busy class of a large one seldom visits its bin: random slots of up to 8
 * KiB spent a third of their instructions there with magazines of 16 KiB. Readers take no lock, so the stores are atomic.
 *
 * Example: a program with one thread opens its first slab of 1 KiB blocks, with 64 blocks. A sixteenth is 4, and 8 KiB are 8
 * blocks: the capacity is 8, and the stock has 24 magazines. A sixteenth of 1,024 blocks is 64: the capacity is the maximum,
 * 62, and the stock has 3 magazines. */
void slabs_size_magazines(bin_t *bin)
{
  size_t size = bin->block_size, threads = __atomic_load_n(&bin_threads, __ATOMIC_RELAXED);
  size_t share = bin->capacity / (MAGAZINE_SHARE * threads);
  size_t k = max_size(share, MAGAZINE_LEAST_BYTES / size);
  k = min_size(k, min_size(MAGAZINE_MOST_BYTES / size, MAGAZINE_CAPACITY_MOST));
  k = max_size(k, MAGAZINE_LEAST);
  size_t stock = max_size(min_size(STOCK_BYTES / (k * size), STOCK_MOST), bin->capacity / (STOCK_SHARE * k));
  __atomic_store_n(&bin->magazine_capacity, (uint8_t)k, __ATOMIC_RELAXED);
  if (k > bin->magazine_most)
    __atomic_store_n(&bin->magazine_most, (uint8_t)k, __ATOMIC_RELAXED);
  __atomic_store_n(&bin->stock_most, (uint8_t)min_size(max_size(stock, STOCK_LEAST), STOCK_CAPACITY), __ATOMIC_RELAXED);
}

size_t slabs_least_bytes(size_t block_size) { return SLAB_BLOCKS_LEAST * block_size; }

/* The end of a slab that is too short for a block counts against a budget (`tight`). So the slab grows until at most 1/32 of it
 * is wasted. If no length up to about three times the minimum does that, it gets the one with the lowest share of waste. */
size_t slabs_bytes_for(size_t block_size, bool tight)
{
  size_t units = units_for(slabs_least_bytes(block_size)), best = units << UNIT_LOG2;
  for (size_t u = units; tight && u <= 3 * units + 2 && best % block_size > best / SLAB_WASTE; u++) {
    size_t bytes = u << UNIT_LOG2;
    best = bytes % block_size * best < best % block_size * bytes ? bytes : best;
  }
  return best;
}
