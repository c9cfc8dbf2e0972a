/* SPDX-License-Identifier: MIT
 * The interface of a bin: single blocks, whole magazines, queries, and returning memory. */
#ifndef BIN_H
#define BIN_H

#include "bin/types.h"

typedef struct bin_make {
  unsigned size_class;
  size_t block_size;
  struct pool_heap *heap;
  space_t *space;
  budget_t *budget;
  uint8_t plane;
  bool single_thread;   /* no lock */
  bool tight;           /* choose a slab length that wastes little, as bin_units_for() assumes */
  bool purges;          /* may purge free parts of slabs that are in use */
  depot_t *depots;      /* zeroed; NULL if threads keep no magazines of this bin */
  unsigned shards_most; /* the most depots, a power of two; 0 means DEPOT_SHARDS */
} bin_make_t;
void bin_init(bin_t *bin, const bin_make_t *make);

/* Returns how many units of a region serve `bytes` of blocks of one size. */
size_t bin_units_for(size_t block_size, size_t bytes);

/* Counts the blocks of a bin, of which `in_threads` are in magazines of threads. Walks the depots under the lock. */
typedef struct bin_figures {
  size_t block_size, live_blocks, cached_blocks, slabs, held_bytes, idle_bytes;
  size_t returned_bytes; /* the part of idle_bytes that is purged */
} bin_figures_t;
bin_figures_t bin_figures(bin_t *bin, size_t in_threads);

/* Returns whether the block is in a depot. Walks the depots under the lock. */
bool bin_depot_holds(bin_t *bin, const void *block);

/* Exchanges an empty magazine, given by its floor, or NULL, for one with entries. Returns its top entry. If there is no memory,
 * it returns NULL and keeps the empty one. `capacity` is the number of blocks wanted from slabs. `number` is the thread's; it
 * chooses the depot while the bin has no more than DEPOT_SHARDS, and is only a hint. */
void **bin_exchange_empty(bin_t *bin, void **empty, unsigned capacity, unsigned number);

/* Exchanges a magazine with entries up to `top` for an empty one of `capacity`, and returns its floor. It needs no memory:
 * without another magazine the entries go to the slabs, and the magazine itself is returned. */
void **bin_exchange_full(bin_t *bin, void **top, unsigned capacity, unsigned number);

/* Returns the floor of an empty magazine, or NULL without memory. */
void **bin_new_magazine(bin_t *bin, unsigned capacity, unsigned number);

/* Takes a magazine and its entries, if any (the top may be the floor). */
void bin_give_magazine(bin_t *bin, void **top, unsigned number);

/* Takes a magazine and forgets its entries, which are not put back. */
void bin_drop_magazine(bin_t *bin, void **top, unsigned number);

/* Frees all blocks at once. The slabs stay, as if just opened. */
void bin_reset(bin_t *bin);

/* Ends a bin: gives its slabs to the space and its magazines to other bins. A tick may still access the bin. */
void bin_destroy(bin_t *bin);

/* Blocks without magazines. bin_take() stores the lowest block last, and returns how many it took; further calls may find more.
 * *past, if not NULL, describes their contents. Such blocks count for the first shard. */
size_t bin_take(bin_t *bin, void **blocks, size_t want, block_past_t *past);
void bin_put(bin_t *bin, void *const *blocks, size_t count);

/* bin_take_free() takes one block if an open slab has a free one. bin_has_free() returns whether that is so. */
bool bin_take_free(bin_t *bin, void **block, block_past_t *past);
bool bin_has_free(bin_t *bin);

/* Returns the index of the block at an address in a slab, handed out or not. An index beyond the last block means none. */
static inline size_t bin_block_index(const bin_t *bin, const run_t *slab, const void *address)
{
  return (size_t)((const char *)address - slab->start) * bin->inverse >> INVERSE_SHIFT;
}

/* Returns whether the block around `address`, in `slab`, is outside the slab: with a caller, in a magazine or in a depot.
 * *block is its beginning, even if it is free in the slab, or NULL if no block was ever handed out there or the slab is no
 * longer the bin's. For a single-threaded bin the caller holds the lock of the slab's space, which keeps the slab. */
bool bin_ask(bin_t *bin, const run_t *slab, const void *address, char **block);

/* Sets a bit of *live for each block WORD_BITS * w and up of the bin's slab at `start` that is outside the slab. Returns false
 * if there are no more blocks, or the slab is gone. */
bool bin_live_word(bin_t *bin, const run_t *slab, const char *start, size_t w, word_t *live);

/* Returns depot magazines that were not needed since the last call to the slabs, and unused slabs to the space. */
void bin_tick(bin_t *bin, uint64_t now_ms);

/* Ticks up to `most` due bins within `steps` (step_budget.h); returns how many. The caller's lock keeps bins from ending. */
unsigned bins_tick(unsigned most, size_t steps, uint64_t now_ms);

void bin_drain(bin_t *bin);

/* Returns whether a slab may become unused if so many blocks come back. */
bool bin_may_end_slab(bin_t *bin, size_t blocks);

size_t bin_purge(bin_t *bin);

#endif
