/* SPDX-License-Identifier: MIT
 * The heaps of the stressor: those that all share, and those that one makes and another ends. */
#include "stress.h"

pool_heap_t *shared[SHARED];
static _Atomic(pool_heap_t *) heap_board[HEAP_BOARD];
static char memories[THREADS_MOST][MEMORY_BYTES];

static pool_heap_t *create_heap(worker_t *worker, bool *mine)
{
  size_t kind = below(&worker->dice, 7);
  pool_heap_options_t options = {0};
  *mine = kind == 3 || kind == 4;
  switch (kind) {
  case 0:
    break;
  case 1:
    options.budget = (100 + below(&worker->dice, 4000)) << 10;
    break;
  case 2:
    options.reserve = (1 + below(&worker->dice, 20)) << 18;
    break;
  case 3:
    options.memory = memories[worker->number];
    options.memory_size = MEMORY_BYTES;
    break;
  case 4:
    options.flags = POOL_HEAP_SINGLE_THREAD;
    break;
  case 5:
    options.flags = POOL_HEAP_CHECKED;
    break;
  default:
    options.budget = (size_t)16 << 20;
    options.parent = shared[2];
    break;
  }
  return pool_heap_create(&options);
}

static void fill_heap(worker_t *worker, pool_heap_t *heap)
{
  kept_t kept[HEAP_BLOCKS];
  size_t live = 0, walked = 0;
  for (size_t i = 0; i < HEAP_BLOCKS; i++) {
    size_t size = below(&worker->dice, one_in(&worker->dice, 20) ? 60000 : 500);
    kept[i] = (kept_t){pool_heap_alloc(heap, size), size, roll(&worker->dice), heap};
    if (kept[i].block)
      fill(&kept[i]);
  }
  for (size_t i = 0; i < HEAP_BLOCKS; i++) {
    if (!kept[i].block)
      continue;
    verify(&kept[i], kept[i].size);
    if (one_in(&worker->dice, 3))
      pool_heap_free(heap, kept[i].block);
    else
      live++;
  }
  must(pool_heap_walk(heap, count_block, &walked) && walked == live);
}

static void end_heap(worker_t *worker, pool_heap_t *heap)
{
  size_t walked = 0;
  if (one_in(&worker->dice, 2)) {
    pool_heap_reset(heap);
    must(pool_heap_walk(heap, count_block, &walked) && walked == 0);
    if (one_in(&worker->dice, 2))
      fill_heap(worker, heap);
  }
  pool_heap_destroy(heap);
}

/* One thread makes it, another may end it, while the first goes on with something else or ends itself. */
void step_heap(worker_t *worker, kept_t *kept)
{
  bool mine;
  (void)kept;
  pool_heap_t *heap = create_heap(worker, &mine);
  if (!heap)
    return;
  fill_heap(worker, heap);
  if (!mine)
    heap = atomic_exchange(&heap_board[below(&worker->dice, HEAP_BOARD)], heap);
  if (heap)
    end_heap(worker, heap);
}

void create_shared_heaps(void)
{
  shared[3] = pool_heap_create(NULL);
  shared[0] = pool_heap_create(&(pool_heap_options_t){.name = "small", .budget = (size_t)3 << 20, .overflow = shared[3]});
  shared[2] = pool_heap_create(&(pool_heap_options_t){.name = "above", .budget = (size_t)40 << 20});
  shared[1] = pool_heap_create(&(pool_heap_options_t){.name = "below", .budget = (size_t)30 << 20, .parent = shared[2]});
  for (size_t i = 0; i < SHARED; i++)
    must(shared[i] != NULL);
}

void destroy_heaps(void)
{
  pool_stats_t stats;
  for (size_t i = 0; i < HEAP_BOARD; i++)
    pool_heap_destroy(heap_board[i]);
  for (size_t i = 0; i < SHARED; i++)
    must(pool_heap_stats(shared[i], &stats) && stats.live_blocks == 0 &&
         (!stats.budget || stats.peak_held_bytes <= stats.budget));
  for (size_t i = 0; i < SHARED; i++)
    pool_heap_destroy(shared[i]);
}
