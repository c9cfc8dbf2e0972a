/* SPDX-License-Identifier: MIT
 *
 * What others do with a bin: blocks one by one, or whole magazines of them; questions; giving back; the end. */
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
  bool tight;           /* slabs are as long as leaves little over, as bin_units_for() reckons */
  bool purges;          /* may give back the memory of blocks while others of their slab are in use */
  depot_t *depots;      /* zeroed; NULL: no thread may keep magazines of it */
  unsigned shards_most; /* how many depots it may have, a power of two; 0: DEPOT_SHARDS */
} bin_make_t;
void bin_init(bin_t *bin, const bin_make_t *make);

/* Returns how many units of a region serve so many bytes of blocks of one size. */
size_t bin_units_for(size_t block_size, size_t bytes, unsigned unit_log2);

/* How many blocks are where, `in_threads` of them in magazines of threads. Walks the depots, under the lock. */
typedef struct bin_figures {
  size_t block_size, live_blocks, cached_blocks, slabs, held_bytes, idle_bytes;
  size_t returned_bytes; /* of idle_bytes: of blocks that hold no memory */
} bin_figures_t;
bin_figures_t bin_figures(bin_t *bin, size_t in_threads);

/* Says whether the block is in a depot. It walks them, under the lock. */
bool bin_depot_holds(bin_t *bin, const void *block);

/* An empty magazine, by its floor, (or NULL) for one with entries; returns its top entry. NULL: no memory, and the empty one is
 * the bin's. `capacity` is how many blocks are wanted if they come from slabs. `number` is the thread's, and chooses a depot
 * where the bin has no more than its record; any will do. */
void **bin_exchange_empty(bin_t *bin, void **empty, unsigned capacity, unsigned number);

/* A magazine with entries up to `top` for an empty one of that capacity, whose floor is returned. Needs no memory: where there
 * is none for another magazine, the entries go back to the slabs and their own magazine is the empty one. */
void **bin_exchange_full(bin_t *bin, void **top, unsigned capacity, unsigned number);

/* Returns the floor of an empty magazine. NULL: no memory. */
void **bin_new_magazine(bin_t *bin, unsigned capacity, unsigned number);

/* Takes a magazine and its entries for good. It may have none (top at the floor). */
void bin_give_magazine(bin_t *bin, void **top, unsigned number);

/* Takes a magazine whose entries do not count any more: they are not put back. */
void bin_drop_magazine(bin_t *bin, void **top, unsigned number);

/* Every block is back at once: the slabs are as if just opened, and stay. */
void bin_reset(bin_t *bin);

/* For a heap that ends: slabs go back to the space, and magazines serve other bins. A tick may still look at the bin until
 * ticks are kept away. */
void bin_destroy(bin_t *bin);

/* Blocks without magazines. take: the lowest is stored last; returns how many, possibly fewer than are to be had in several
 * calls; *past (NULL: not wanted) is what is known of what they hold. Of no shard: they count as the first one's. */
size_t bin_take(bin_t *bin, void **blocks, size_t want, block_past_t *past);
void bin_put(bin_t *bin, void *const *blocks, size_t count);

/* Takes one block, if a slab that is there already has one free. The second says whether that is so. */
bool bin_take_free(bin_t *bin, void **block, block_past_t *past);
bool bin_has_free(bin_t *bin);

/* Which block of a slab an address is in, handed out or not; beyond the last: none. */
static inline size_t bin_block_index(const bin_t *bin, const run_t *slab, const void *address)
{
  return (size_t)((const char *)address - slab->start) * bin->inverse >> INVERSE_SHIFT;
}

/* Says whether the block around `address`, inside `slab`, is out of the slab: with a caller, in a magazine or in a depot.
 * *block: where it starts, also if it is free in the slab; NULL: no block was ever handed out there, or the slab is not the
 * bin's any more. For a bin of one thread the caller holds the lock of the slab's space, which keeps the slab as it is. */
bool bin_ask(bin_t *bin, const run_t *slab, const void *address, char **block);

/* Which of the blocks WORD_BITS * w and on of `slab`, a slab of the bin at `start`, are out of it: *live has a bit for each.
 * False: there are no more, or the slab is gone. */
bool bin_live_word(bin_t *bin, const run_t *slab, const char *start, size_t w, word_t *live);

/* Depot magazines that nobody needed since the last call go back to the slabs, unused slabs to the space. */
void bin_tick(bin_t *bin, uint64_t now_ms);

/* Ticks at most `most` of the bins that are due, with so many steps of step_budget.h. Returns how many it has ticked. The
 * caller holds the lock that keeps bins from ending. */
unsigned bins_tick(unsigned most, size_t steps, uint64_t now_ms);

/* Empties the depots and closes the unused slabs. */
void bin_drain(bin_t *bin);

/* Gives the memory of free blocks in slabs that stay back to the system. Returns its bytes. */
size_t bin_purge(bin_t *bin);

#endif
