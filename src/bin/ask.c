/* SPDX-License-Identifier: MIT
 * Queries come from any thread. A single-threaded bin has no lock for them, so they read it while its owner changes it. */
#include "bin/bin.h"
#include "os/lock.h"

static void ask_begin(bin_t *bin)
{
  if (!bin->lock.solo)
    closure_acquire(LOCKS_OF_BINS, &bin->lock);
}

static void ask_end(bin_t *bin)
{
  if (!bin->lock.solo)
    lock_release(&bin->lock);
}

/* This reads whole words while the bitmap changes. The bit of a block that is neither taken nor put is constant until its slab
 * is emptied. slab_empty() makes all blocks fresh before it clears their bits, so a bit is believed only if its block is still
 * not fresh afterwards. */
READS_BESIDE_OWNER static bool ask_beside_owner(const bin_t *bin, const run_t *slab, const void *address, char **block)
{
  const volatile run_t *as_it_is = slab;
  size_t index = bin_block_index(bin, slab, address);
  bool ours = index < as_it_is->fresh;
  *block = ours ? as_it_is->start + index * bin->block_size : NULL;
  bool is_free = ours && ((const volatile word_t *)as_it_is->bitmap)[index / WORD_BITS] >> index % WORD_BITS & 1;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return ours && !is_free && index < as_it_is->fresh;
}

/* The run was found without this lock. It may have been closed since, and have another owner. */
bool bin_ask(bin_t *bin, const run_t *slab, const void *address, char **block)
{
  if (bin->lock.solo)
    return ask_beside_owner(bin, slab, address, block);
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  bool ours = run_kind(slab) == RUN_SLAB && run_owner(slab) == bin;
  size_t index = ours ? bin_block_index(bin, slab, address) : 0;
  ours = ours && index < slab->fresh;
  *block = ours ? slab->start + index * bin->block_size : NULL;
  bool out = ours && !bit_test(slab->bitmap, index);
  lock_release(&bin->lock);
  return out;
}

/* The walk found the slab some visits ago. It may have been closed since, or reopened elsewhere. */
bool bin_live_word(bin_t *bin, const run_t *slab, const char *start, size_t w, word_t *live)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  bool there = run_kind(slab) == RUN_SLAB && run_owner(slab) == bin && slab->start == start && w * WORD_BITS < slab->fresh;
  if (there) {
    size_t left = slab->fresh - w * WORD_BITS;
    *live = ~slab->bitmap[w] & (left < WORD_BITS ? bit_of(left) - 1 : ~(word_t)0);
  }
  lock_release(&bin->lock);
  return there;
}

static size_t depot_blocks(bin_t *bin)
{
  bool found = false;
  ask_begin(bin);
  size_t blocks = depots_count(&bin->depots, NULL, &found);
  ask_end(bin);
  return blocks;
}

/* Figures are read one by one while threads continue. The limits keep all results non-negative. */
bin_figures_t bin_figures(bin_t *bin, size_t in_threads)
{
  size_t cached = in_threads + depot_blocks(bin);
  size_t out = __atomic_load_n(&bin->outstanding, __ATOMIC_RELAXED), held = __atomic_load_n(&bin->held_bytes, __ATOMIC_RELAXED);
  size_t idle = held - min_size(held, out * bin->block_size),
         returned = __atomic_load_n(&bin->returned_bytes, __ATOMIC_RELAXED);
  cached = min_size(cached, out);
  return (bin_figures_t){.block_size = bin->block_size,
                         .live_blocks = out - cached,
                         .cached_blocks = cached,
                         .slabs = __atomic_load_n(&bin->slab_count, __ATOMIC_RELAXED),
                         .held_bytes = held,
                         .idle_bytes = idle,
                         .returned_bytes = min_size(returned, idle)};
}

/* A block in a depot is free, though its slab counts it as outstanding. */
bool bin_depot_holds(bin_t *bin, const void *block)
{
  bool found = false;
  ask_begin(bin);
  depots_count(&bin->depots, block, &found);
  ask_end(bin);
  return found;
}

bool bin_has_free(bin_t *bin)
{
  closure_acquire(LOCKS_OF_BINS, &bin->lock);
  bool has = slabs_have_free(bin);
  lock_release(&bin->lock);
  return has;
}
