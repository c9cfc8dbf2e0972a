/* SPDX-License-Identifier: MIT
 * Bugs that only users of pool.h, heap.h and object_pool.h can have. */
#include "bugs.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void free_block_of_malloc(void) { release(malloc(SMALL)); }
static void realloc_block_of_malloc(void) { resize(malloc(SMALL)); }

static void free_sized_of_static(void)
{
  pool_free_sized(hidden(static_memory), 64);
  TRIM(0);
}

static void free_batch_with_a_stranger(void)
{
  void *blocks[] = {block_of(SMALL), NULL, hidden(static_memory), block_of(SMALL)};
  pool_free_batch(blocks, 4);
  TRIM(0);
}

static void free_batch_with_a_block_twice(void)
{
  void *block = block_of(SMALL), *blocks[] = {block, block_of(SMALL), block};
  pool_free_batch(blocks, 3);
  TRIM(0);
}

/* Bugs in a heap of the program's own. */
static pool_heap_t *heap_with(unsigned flags)
{
  pool_heap_options_t options = {.flags = flags};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    _exit(3);
  return heap;
}

static char *block_of_heap(pool_heap_t *heap, size_t size)
{
  char *block = pool_heap_alloc(heap, size);
  if (!block)
    _exit(3);
  memset(block, 1, size);
  return hidden(block);
}

static void heap_free_static(void)
{
  pool_heap_t *heap = heap_with(0);
  pool_heap_free(heap, hidden(static_memory));
  pool_heap_trim(heap, 0);
}

static void heap_free_twice(void)
{
  pool_heap_t *heap = heap_with(0);
  char *block = block_of_heap(heap, SMALL);
  pool_heap_free(heap, block);
  pool_heap_free(heap, block);
  pool_heap_trim(heap, 0);
}

static void twice_at_once_in(pool_heap_t *heap)
{
  char *block = block_of_heap(heap, SMALL);
  pool_heap_free(heap, block);
  pool_heap_free(heap, block);
  went_on();
}

static void heap_at_once_twice(void) { twice_at_once_in(heap_with(0)); }
static void heap_at_once_twice_with_a_budget(void)
{
  twice_at_once_in(pool_heap_create(&(pool_heap_options_t){.budget = 16 << 20}));
}
static void heap_at_once_twice_uncached(void)
{
  static const size_t sizes[] = {112, 224};
  twice_at_once_in(pool_heap_create(&(pool_heap_options_t){.budget = 16 << 20, .size_classes = sizes, .size_class_count = 2}));
}
static void heap_at_once_twice_in_granules(void)
{
  twice_at_once_in(pool_heap_create(&(pool_heap_options_t){.budget = 1 << 19}));
}

static void heap_at_once_odd(void)
{
  pool_heap_t *heap = heap_with(0);
  pool_heap_free(heap, block_of_heap(heap, SMALL) + 1);
  went_on();
}

static void heap_free_after_destroy(void)
{
  pool_heap_t *heap = heap_with(0);
  char *block = block_of_heap(heap, SMALL);
  pool_heap_destroy(heap);
  release(block);
}

static void heap_free_after_reset(void)
{
  pool_heap_t *heap = heap_with(0);
  char *block = block_of_heap(heap, SMALL);
  pool_heap_reset(heap);
  pool_heap_free(heap, block);
  pool_heap_trim(heap, 0);
}

static void heap_checked_free_twice(void)
{
  pool_heap_t *heap = heap_with(POOL_HEAP_CHECKED);
  char *block = block_of_heap(heap, SMALL);
  pool_heap_free(heap, block);
  pool_heap_free(heap, block);
}

static void heap_checked_write_after_free(void)
{
  pool_heap_t *heap = heap_with(POOL_HEAP_CHECKED);
  char *block = block_of_heap(heap, SMALL);
  pool_heap_free(heap, block);
  block[10] = 'x';
  for (int i = 0; i < 100000; i++)
    block_of_heap(heap, SMALL);
}

static void heap_checked_overrun(void)
{
  pool_heap_t *heap = heap_with(POOL_HEAP_CHECKED);
  char *block = block_of_heap(heap, SMALL);
  block[SMALL] = 'x';
  pool_heap_free(heap, block);
}

/* The default heap's free is the right one for blocks of every heap. */
static void heap_checked_overrun_seen_by_pool_free(void)
{
  char *block = block_of_heap(heap_with(POOL_HEAP_CHECKED), SMALL);
  block[SMALL] = 'x';
  pool_free(block);
}

/* Bugs with an object pool. */
static object_pool_t *object_pool_in(pool_heap_t *heap)
{
  object_pool_options_t options = {.name = "mine", .object_size = SMALL, .capacity = 10, .heap = heap};
  object_pool_t *pool = object_pool_create(&options);
  if (!pool)
    _exit(3);
  return pool;
}

static void *object_of(object_pool_t *pool)
{
  void *object = object_pool_get(pool);
  if (!object)
    _exit(3);
  return hidden(object);
}

static void object_pool_put_static(void) { object_pool_put(object_pool_in(NULL), hidden(static_memory)); }

static void object_pool_put_twice(void)
{
  object_pool_t *pool = object_pool_in(NULL);
  void *object = object_of(pool);
  object_pool_put(pool, object);
  object_pool_put(pool, object);
}

static void object_pool_put_after_destroy(void)
{
  object_pool_t *pool = object_pool_in(NULL);
  void *object = object_of(pool);
  object_pool_destroy(pool);
  object_pool_put(pool, object);
}

static void object_pool_get_after_destroy(void)
{
  object_pool_t *pool = object_pool_in(NULL);
  object_pool_put(pool, object_of(pool));
  object_pool_destroy(pool);
  if (object_pool_get(pool) == NULL)
    _exit(4);
}

static void object_pool_put_after_heap_destroy(void)
{
  pool_heap_t *heap = heap_with(0);
  object_pool_t *pool = object_pool_in(heap);
  void *object = object_of(pool);
  pool_heap_destroy(heap);
  object_pool_put(pool, object);
}

static void object_pool_get_after_heap_reset(void)
{
  pool_heap_t *heap = heap_with(0);
  object_pool_t *pool = object_pool_in(heap);
  object_pool_put(pool, object_of(pool));
  pool_heap_reset(heap);
  if (object_pool_get(pool) == NULL)
    _exit(4);
}

static void object_pool_write_after_put(void)
{
  object_pool_t *pool = object_pool_in(NULL);
  char *object = object_of(pool);
  object_pool_put(pool, object);
  object[20] = 'x';
  for (int i = 0; i < 10; i++)
    object_of(pool);
}

static object_pool_t *written_in(pool_heap_t *heap)
{
  object_pool_t *pool = object_pool_in(heap);
  char *object = object_of(pool);
  object_pool_put(pool, object);
  object[20] = 'x';
  return pool;
}

static void object_pool_write_after_put_at_destroy(void) { object_pool_destroy(written_in(NULL)); }
static void object_pool_write_after_put_at_exit(void) { written_in(NULL); }
static void object_pool_write_after_put_at_heap_destroy(void)
{
  pool_heap_t *heap = heap_with(0);
  written_in(heap);
  pool_heap_destroy(heap);
}
static void object_pool_write_after_put_at_heap_reset(void)
{
  pool_heap_t *heap = heap_with(0);
  written_in(heap);
  pool_heap_reset(heap);
}

/* What a thread has cached waits there. */
static pool_heap_t *heap_with_a_block_twice(void)
{
  pool_heap_t *heap = heap_with(0);
  char *block = hidden(pool_heap_alloc(heap, SMALL)), *between = hidden(pool_heap_alloc(heap, SMALL));
  pool_heap_free(heap, block);
  pool_heap_free(heap, between);
  pool_heap_free(heap, block);
  return heap;
}

static void heap_destroyed_with_a_block_twice(void) { pool_heap_destroy(heap_with_a_block_twice()); }
static void heap_reset_with_a_block_twice(void) { pool_heap_reset(heap_with_a_block_twice()); }

const bug_t pool_bugs[] = {
  {"object-pool-write-after-put", object_pool_write_after_put},
  {"object-pool-write-after-put-at-destroy", object_pool_write_after_put_at_destroy},
  {"object-pool-write-after-put-at-exit", object_pool_write_after_put_at_exit},
  {"object-pool-write-after-put-at-heap-destroy", object_pool_write_after_put_at_heap_destroy},
  {"object-pool-write-after-put-at-heap-reset", object_pool_write_after_put_at_heap_reset},
  {"heap-destroyed-with-a-block-twice", heap_destroyed_with_a_block_twice},
  {"heap-reset-with-a-block-twice", heap_reset_with_a_block_twice},
  {"free-block-of-malloc", free_block_of_malloc},
  {"realloc-block-of-malloc", realloc_block_of_malloc},
  {"free-sized-of-static", free_sized_of_static},
  {"free-batch-with-a-stranger", free_batch_with_a_stranger},
  {"free-batch-with-a-block-twice", free_batch_with_a_block_twice},
  {"heap-free-static", heap_free_static},
  {"heap-free-twice", heap_free_twice},
  {"heap-at-once-twice", heap_at_once_twice},
  {"heap-at-once-twice-with-a-budget", heap_at_once_twice_with_a_budget},
  {"heap-at-once-twice-uncached", heap_at_once_twice_uncached},
  {"heap-at-once-twice-in-granules", heap_at_once_twice_in_granules},
  {"heap-at-once-odd", heap_at_once_odd},
  {"heap-free-after-destroy", heap_free_after_destroy},
  {"heap-free-after-reset", heap_free_after_reset},
  {"heap-checked-free-twice", heap_checked_free_twice},
  {"heap-checked-write-after-free", heap_checked_write_after_free},
  {"heap-checked-overrun", heap_checked_overrun},
  {"heap-checked-overrun-seen-by-pool-free", heap_checked_overrun_seen_by_pool_free},
  {"object-pool-put-static", object_pool_put_static},
  {"object-pool-put-twice", object_pool_put_twice},
  {"object-pool-put-after-destroy", object_pool_put_after_destroy},
  {"object-pool-get-after-destroy", object_pool_get_after_destroy},
  {"object-pool-put-after-heap-destroy", object_pool_put_after_heap_destroy},
  {"object-pool-get-after-heap-reset", object_pool_get_after_heap_reset},
  {NULL, NULL},
};
