/* SPDX-License-Identifier: MIT
 * The steps of the stressor with blocks. */
#include "stress.h"
#include <stdlib.h>

static size_t some_size(uint64_t *dice)
{
  size_t n = below(dice, 1000);
  if (n < 700)
    return below(dice, 600);
  if (n < 900)
    return below(dice, 5000);
  if (n < 980)
    return below(dice, 70 << 10);
  if (n < 997)
    return below(dice, 600 << 10);
  return below(dice, 12 << 20);
}

static void put(worker_t *worker, kept_t *kept, void *block, size_t size, size_t alignment)
{
  must(block != NULL);
  must((uintptr_t)block % (alignment > 16 ? alignment : 16) == 0);
  must(pool_usable_size(block) >= size);
  *kept = (kept_t){block, size, roll(&worker->dice), kept->heap};
  worker->bytes += size;
  fill(kept);
}

void drop(worker_t *worker, kept_t *kept)
{
  if (!kept->block)
    return;
  verify(kept, kept->size);
  errno = 77;
  if (kept->heap && one_in(&worker->dice, 2))
    pool_heap_free(kept->heap, kept->block);
  else if (one_in(&worker->dice, 8))
    pool_free_sized(kept->block, kept->size);
  else
    pool_free(kept->block);
  must(errno == 77);
  worker->bytes -= kept->size;
  kept->block = NULL;
}

static bool is_limited(const pool_heap_t *heap)
{
  for (size_t i = 0; i < SHARED - 1; i++)
    if (heap == shared[i])
      return true;
  return false;
}

/* One of the shared heaps, or NULL for the default one. */
static pool_heap_t *some_heap(worker_t *worker)
{
  size_t n = below(&worker->dice, 4 * SHARED);
  return n < SHARED ? shared[n] : NULL;
}

/* `block`, or where the heap had none, one of the default heap. */
static void *or_default(kept_t *kept, pool_heap_t *heap, void *block, size_t size)
{
  kept->heap = block ? heap : NULL;
  must(block || (errno == ENOMEM && is_limited(heap)));
  return block ? block : pool_alloc(size);
}

void step_allocate(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice);
  pool_heap_t *heap = some_heap(worker);
  drop(worker, kept);
  put(worker, kept, or_default(kept, heap, heap ? pool_heap_alloc(heap, size) : pool_alloc(size), size), size, 16);
}

void step_zeroed(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice);
  drop(worker, kept);
  pool_heap_t *heap = some_heap(worker);
  char *block = heap ? pool_heap_calloc(heap, size, 1) : pool_calloc(size, 1);
  kept->heap = heap;
  if (!block) {
    must(is_limited(heap));
    return;
  }
  size_t usable = pool_usable_size(block);
  must(block[0] == 0 && memcmp(block, block + 1, usable - 1) == 0);
  put(worker, kept, block, size, 16);
}

void step_aligned(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice), alignment = (size_t)1 << below(&worker->dice, one_in(&worker->dice, 50) ? 22 : 14);
  drop(worker, kept);
  kept->heap = NULL;
  put(worker, kept, pool_aligned_alloc(alignment, size), size, alignment);
}

void step_reallocate(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice) + 1, had = kept->block ? kept->size : 0;
  if (kept->block)
    verify(kept, kept->size);
  char *block = pool_realloc(kept->block, size);
  if (!block) {
    must(kept->block && is_limited(pool_heap_of(kept->block))); /* which may be one of no bytes */
    verify(kept, kept->size);
    return;
  }
  kept->heap = kept->block ? kept->heap : NULL;
  kept_t moved = {block, kept->size, kept->key, NULL};
  if (had)
    verify(&moved, size < had ? size : had);
  worker->bytes -= had;
  put(worker, kept, block, size, 16);
}

void step_resize(worker_t *worker, kept_t *kept)
{
  if (!kept->block)
    return;
  size_t size = 1 + below(&worker->dice, kept->size * 2 + 1), had = kept->size;
  if (!pool_resize_in_place(kept->block, size))
    return;
  verify(kept, size < had ? size : had);
  worker->bytes -= had;
  put(worker, kept, kept->block, size, 16);
}

void step_batch(worker_t *worker, kept_t *kept)
{
  void *blocks[BATCH];
  size_t size = below(&worker->dice, 2000), count = 1 + below(&worker->dice, BATCH);
  (void)kept;
  must(pool_alloc_batch(size, blocks, count) == count);
  for (size_t i = 0; i < count; i++)
    memset(blocks[i], (int)i, size);
  for (size_t i = 0; i < count; i++)
    must(size == 0 || (((char *)blocks[i])[0] == (char)i && ((char *)blocks[i])[size - 1] == (char)i));
  pool_free_batch(blocks, count);
}

/* A block of mine for one of somebody else's, or for none. */
void step_hand_over(worker_t *worker, kept_t *kept)
{
  bool labelled = kept->block && kept->size >= sizeof(label_t);
  if (kept->block && !labelled)
    return;
  if (labelled)
    worker->bytes -= kept->size;
  char *block = atomic_exchange(&board[below(&worker->dice, BOARD)], labelled ? kept->block : NULL);
  *kept = (kept_t){0};
  if (!block)
    return;
  label_t label;
  memcpy(&label, block, sizeof label);
  *kept = (kept_t){block, label.size, label.key, NULL};
  worker->bytes += kept->size;
  verify(kept, kept->size);
}

void step_ask(worker_t *worker, kept_t *kept)
{
  size_t usable = 0;
  if (!kept->block)
    return;
  const char *inside = kept->block + (kept->size ? below(&worker->dice, kept->size) : 0);
  must(pool_in_use(inside));
  must(pool_block_start(inside, &usable) == kept->block && usable == pool_usable_size(kept->block));
  pool_heap_t *heap = pool_heap_of(inside);
  must(heap && (!kept->heap || heap == kept->heap || is_limited(kept->heap)));
}

void step_figures(worker_t *worker, kept_t *kept)
{
  pool_stats_t stats;
  char text[256];
  (void)kept;
  if (one_in(&worker->dice, 4)) {
    pool_trim(below(&worker->dice, 8 << 20));
    return;
  }
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(pool_heap_stats_json(pool_heap_default(), text, sizeof text) > 0);
}

/* Larger than an arena gives; only its ends are touched. */
void step_huge(worker_t *worker, kept_t *kept)
{
  size_t size = ((size_t)257 << 20) + below(&worker->dice, (size_t)64 << 20),
         more = size + below(&worker->dice, (size_t)64 << 20);
  (void)kept;
  char *block = pool_alloc(size);
  if (!block) {
    worker->refused++;
    return;
  }
  block[0] = block[size - 1] = 5;
  char *moved = pool_realloc(block, more);
  must(!moved || (moved[0] == 5 && moved[size - 1] == 5));
  pool_free(moved ? moved : block);
}
