/* SPDX-License-Identifier: MIT
 *
 * Heaps: those that all use, of every kind, and those that one thread makes and another ends. */
#include "races.h"

enum { HEAP_BLOCKS = 60 };

pool_heap_t *shared[SHARED_AND_BEYOND];
static const char *const shared_names[] = {"tight", "above", "below", "checked", "zeroing", "reserved", "free", "beyond"};
pool_heap_t *sparks_heap;
_Atomic(pool_heap_t *) heap_board[HEAP_BOARD];
char memories[THREADS_MOST][MEMORY_BYTES];

/* The heap's budget may have been set lower meanwhile. */
static bool help_out(pool_heap_t *heap, size_t bytes, unsigned attempt, void *context)
{
  (void)bytes, (void)context;
  if (attempt == 0)
    pool_heap_trim(heap, 0);
  return attempt == 0 || (attempt == 1 && pool_heap_set_budget(heap, (size_t)8 << 20));
}

void create_shared_heaps(void)
{
  static pool_heap_options_t options[SHARED_AND_BEYOND];
  options[TIGHT] = (pool_heap_options_t){.budget = (size_t)4 << 20, .on_exhausted = help_out};
  options[ABOVE] = (pool_heap_options_t){.budget = (size_t)20 << 20};
  options[BELOW] = (pool_heap_options_t){.budget = FIXED_BUDGET};
  options[CHECKED] = (pool_heap_options_t){.flags = POOL_HEAP_CHECKED};
  options[ZEROING] = (pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE};
  options[RESERVED] = (pool_heap_options_t){.reserve = (size_t)2 << 20, .purge_delay_ms = 1};
  for (size_t i = 0; i < SHARED_AND_BEYOND; i++) {
    options[i].name = shared_names[i];
    if (i == BELOW)
      options[i].parent = shared[ABOVE];
    must(shared[i] = pool_heap_create(&options[i]));
  }
  must(sparks_heap = pool_heap_create(&(pool_heap_options_t){.name = "sparks"}));
  must(sparks = object_pool_create(&(object_pool_options_t){
         .name = "sparks", .object_size = OBJECT_BYTES, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = sparks_heap}));
  must(embers = object_pool_create(&(object_pool_options_t){
         .name = "embers", .object_size = sizeof(uint64_t), .capacity = (size_t)racer_count * EMBERS, .heap = sparks_heap}));
}

bool is_limited(const pool_heap_t *heap) { return heap == shared[TIGHT] || heap == shared[ABOVE] || heap == shared[BELOW]; }

pool_heap_t *some_heap(racer_t *racer)
{
  size_t n = below(&racer->dice, 2 * SHARED);
  return n < SHARED ? shared[n] : pool_heap_default();
}

/* ---- heaps that come and go ---- */

/* A heap in a caller's memory, or for one thread alone, is its maker's to end. */
static pool_heap_t *create_heap(racer_t *racer, void **block, bool *mine)
{
  static const size_t own_classes[] = {32, 64, 112, 512, 4096, 40960};
  size_t kind = below(&racer->dice, 11);
  pool_heap_options_t options = {0};
  *mine = true;
  *block = NULL;
  switch (kind) {
  case 0:
    options.memory = memories[racer->number];
    options.memory_size = MEMORY_BYTES;
    break;
  case 1:
    options.memory = *block = pool_alloc(MEMORY_BYTES);
    options.memory_size = *block ? MEMORY_BYTES : 0;
    break;
  case 2:
    options.flags = POOL_HEAP_SINGLE_THREAD;
    options.budget = one_in(&racer->dice, 2) ? 2 << 20 : 0;
    break;
  default:
    *mine = false;
  }
  switch (kind) {
  case 3:
    options.budget = (100 + below(&racer->dice, 4000)) << 10;
    break;
  case 4:
    options.reserve = (1 + below(&racer->dice, 20)) << 18;
    break;
  case 5:
    options.reserve = (9 + below(&racer->dice, 4)) << 20;
    break;
  case 6:
    options.flags = POOL_HEAP_CHECKED;
    break;
  case 7:
    options.flags = POOL_HEAP_ZERO_ON_FREE;
    options.budget = (size_t)16 << 20;
    break;
  case 8:
    options.size_classes = own_classes;
    options.size_class_count = 6;
    break;
  case 9:
    options.budget = (size_t)1 << 20;
    options.overflow = shared[BEYOND];
    break;
  default:
    break;
  }
  if (one_in(&racer->dice, 3))
    options.parent = shared[ABOVE];
  if ((options.reserve || kind == 3 || kind == 9) && one_in(&racer->dice, 2))
    options.purge_delay_ms = 1;
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    pool_free(*block);
  return heap;
}

/* Some objects of a pool stay, with the pool, until the heap drops them. */
static void use_objects(racer_t *racer, pool_heap_t *heap, bool mine)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 1 + below(&racer->dice, 300),
                                                                    .capacity = 10,
                                                                    .when_full = OBJECT_POOL_GROW,
                                                                    .heap = heap,
                                                                    .flags = mine ? OBJECT_POOL_SINGLE_THREAD : 0});
  void *objects[40];
  if (!pool)
    return;
  size_t got = object_pool_get_batch(pool, objects, 40);
  must(object_pool_live(pool) == got);
  object_pool_put_batch(pool, objects, got / 2);
  if (one_in(&racer->dice, 2))
    object_pool_destroy(pool);
}

static size_t live_of(const kept_t *kept, const pool_heap_t *heap)
{
  size_t live = 0;
  for (size_t i = 0; i < HEAP_BLOCKS; i++)
    live += kept[i].block && pool_heap_of(kept[i].block) == heap;
  return live;
}

/* Nobody else is in the heap, so what it says is exact, whatever the others do. */
static void use_heap(racer_t *racer, pool_heap_t *heap)
{
  kept_t kept[HEAP_BLOCKS];
  size_t before = 0, walked = 0;
  pool_stats_t stats;
  must(pool_heap_walk(heap, count_block, &before));
  for (size_t i = 0; i < HEAP_BLOCKS; i++) {
    size_t size = below(&racer->dice, one_in(&racer->dice, 10) ? 200000 : 500);
    kept[i] = (kept_t){pool_heap_alloc(heap, size), size, roll(&racer->dice), heap};
    if (!kept[i].block)
      continue;
    fill(&kept[i]);
    atomic_store_explicit(&seen[below(&racer->dice, SEEN)], kept[i].block, memory_order_relaxed);
    if (one_in(&racer->dice, 8)) {
      must(pool_in_use(kept[i].block));
      ask(some_address(racer, kept[i].block));
    }
  }
  for (size_t i = 0; i < HEAP_BLOCKS; i++)
    if (kept[i].block) {
      verify(&kept[i], kept[i].size);
      bool overflowed = pool_heap_of(kept[i].block) != heap;
      if (overflowed || one_in(&racer->dice, 3)) {
        pool_heap_free(heap, kept[i].block);
        kept[i].block = NULL;
      }
    }
  size_t live = before + live_of(kept, heap);
  must(pool_heap_walk(heap, count_block, &walked) && walked == live);
  must(pool_heap_stats(heap, &stats) && stats.live_blocks == live && (!stats.budget || stats.held_bytes <= stats.budget));
}

static void end_heap(racer_t *racer, pool_heap_t *heap)
{
  size_t walked = 0;
  if (one_in(&racer->dice, 2)) {
    pool_heap_reset(heap);
    must(pool_heap_walk(heap, count_block, &walked) && walked == 0);
    if (one_in(&racer->dice, 2))
      use_heap(racer, heap);
  }
  if (one_in(&racer->dice, 4))
    pool_heap_trim(heap, 0);
  pool_heap_destroy(heap);
}

/* One thread makes it, another may end it, while the first goes on with something else or ends itself. */
void step_heap(racer_t *racer, kept_t *kept)
{
  bool mine;
  void *block;
  (void)kept;
  pool_heap_t *heap = create_heap(racer, &block, &mine);
  if (!heap)
    return;
  racer->heaps++;
  use_heap(racer, heap);
  if (one_in(&racer->dice, 2))
    use_objects(racer, heap, mine);
  if (!mine)
    heap = atomic_exchange(&heap_board[below(&racer->dice, HEAP_BOARD)], heap);
  if (heap)
    end_heap(racer, heap);
  pool_free(block);
}
