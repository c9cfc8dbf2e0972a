/* SPDX-License-Identifier: MIT
 * How long slabs are, and how many blocks magazines and stocks of a class hold. */
#include "bin/slabs.h"

enum {
  MAGAZINE_SHARE = 16,            /* a magazine holds this part of a class's blocks, divided among the threads */
  MAGAZINE_LEAST_BYTES = 8 << 10, /* the least that it holds */
  MAGAZINE_MOST_BYTES = 64 << 10, /* the most that it holds */

  STOCK_BYTES = 192 << 10, /* full magazines that a thread keeps */
  STOCK_LEAST = 1,
  STOCK_CAPACITY = 250, /* a thread counts its magazines of a class in a byte */
  STOCK_MOST = 32,      /* magazines in a stock, unless the class is large */
  STOCK_SHARE = 64,     /* of a large class a stock holds this part of the blocks */

  SLAB_BLOCKS_LEAST = 8,
  SLAB_WASTE = 32,            /* this part of a slab at most, if that can be */
  SLAB_BLOCKS_LEAST_SMALL = 2 /* in a region of small units: a class may cost little */
};

uint32_t bin_threads = 1;

/* A small program keeps little in its magazines, and a busy class of a large one is seldom at its bin: random slots of up to 8
 * KiB spent a third of their instructions there when a magazine held 16 KiB. The two figures are read without the lock, so the
 * stores are atomic.
 *
 * Example: a program with one thread opens its first slab of 1 KiB blocks. The slab has 64 blocks. A sixteenth of them is 4,
 * and 8 KiB are 8 blocks: the capacity is 8, and the stock has 24 magazines. Of 1,024 blocks a sixteenth is 64, so the capacity
 * is the most, 62, and the stock has 3 magazines. */
void slabs_size_magazines(bin_t *bin)
{
  size_t size = bin->block_size, threads = __atomic_load_n(&bin_threads, __ATOMIC_RELAXED);
  size_t share = bin->capacity / (MAGAZINE_SHARE * threads);
  size_t k = max_size(share, MAGAZINE_LEAST_BYTES / size);
  k = min_size(k, min_size(MAGAZINE_MOST_BYTES / size, MAGAZINE_CAPACITY_MOST));
  k = max_size(k, MAGAZINE_LEAST);
  size_t stock = max_size(min_size(STOCK_BYTES / (k * size), STOCK_MOST), bin->capacity / (STOCK_SHARE * k));
  __atomic_store_n(&bin->magazine_capacity, (uint8_t)k, __ATOMIC_RELAXED);
  __atomic_store_n(&bin->stock_most, (uint8_t)min_size(max_size(stock, STOCK_LEAST), STOCK_CAPACITY), __ATOMIC_RELAXED);
}

static size_t blocks_least(unsigned unit_log2) { return unit_log2 == UNIT_LOG2 ? SLAB_BLOCKS_LEAST : SLAB_BLOCKS_LEAST_SMALL; }

size_t slabs_least_bytes(size_t block_size, unsigned unit_log2) { return blocks_least(unit_log2) * block_size; }

/* Under a budget (`tight`) the end of a slab that is too short for a block counts. So the slab is made longer until at most a
 * 32nd of it is wasted; if no length up to about three times the least does that, the one that wastes the least part is
 * taken. */
size_t slabs_bytes_for(size_t block_size, unsigned unit_log2, bool tight)
{
  size_t units = units_for(slabs_least_bytes(block_size, unit_log2), unit_log2), best = units << unit_log2;
  for (size_t u = units; tight && u <= 3 * units + 2 && best % block_size > best / SLAB_WASTE; u++) {
    size_t bytes = u << unit_log2;
    best = bytes % block_size * best < best % block_size * bytes ? bytes : best;
  }
  return best;
}
