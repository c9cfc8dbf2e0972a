/* SPDX-License-Identifier: MIT
 * One loop for each way to get memory from a heap or an object pool of one's own, for instructions.py to count. */
#include "micro.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>

enum { SIZE = 64, CAPACITY = 1000, SMALL_HEAP = 100, LARGE_HEAP = 20000 };

static void use(void *block) { __asm__ volatile("" : : "r"(block) : "memory"); }

typedef struct work {
  pool_heap_t *heap;
  object_pool_t *pool;
  long count;
} work_t;

static void *alloc_and_free(void *argument)
{
  const work_t *work = argument;
  for (long i = work->count; i > 0; i--) {
    void *block = pool_heap_alloc(work->heap, SIZE);
    use(block);
    pool_heap_free(work->heap, block);
  }
  return NULL;
}

static void heap_zeroed(long count)
{
  pool_heap_t *heap = pool_heap_create(NULL);
  while (count-- > 0) {
    void *block = pool_heap_zalloc(heap, SIZE);
    use(block);
    pool_heap_free(heap, block);
  }
}

/* What of a zeroed block, and of one that moves, is the C library's part, which depends on the processor. */
static char memory[2 * SIZE];
static void *(*volatile set)(void *, int, size_t) = memset;
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void zeroes(long count)
{
  while (count-- > 0)
    use(set(memory, 0, SIZE));
}
enum { INDEX_PAGES = 12, PAGE = 4096 };
static void cleared_index(long count)
{
  static char index[INDEX_PAGES][PAGE];
  for (long i = 0; i < count * INDEX_PAGES; i++)
    use(set(index[i % INDEX_PAGES], 0, PAGE));
}
static void copies(long count)
{
  while (count-- > 0)
    use(copy(memory, memory + SIZE, SIZE));
}

static void heap_resized(long count, size_t size)
{
  pool_heap_t *heap = pool_heap_create(NULL);
  while (count-- > 0) {
    void *block = pool_heap_realloc(heap, pool_heap_alloc(heap, SIZE), size);
    use(block);
    pool_heap_free(heap, block);
  }
}
static void heap_kept(long count) { heap_resized(count, SIZE - 1); }
static void heap_moved(long count) { heap_resized(count, 2 * SIZE); }

static void *get_and_put(void *argument)
{
  const work_t *work = argument;
  for (long i = work->count; i > 0; i--) {
    void *object = object_pool_get(work->pool);
    use(object);
    object_pool_put(work->pool, object);
  }
  return NULL;
}

static void in_another_thread(void *(*run)(void *), work_t *work)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, work) != 0)
    exit(1);
  pthread_join(thread, NULL);
}

static object_pool_t *pool_of(unsigned flags)
{
  return object_pool_create(&(object_pool_options_t){.object_size = SIZE, .capacity = CAPACITY, .flags = flags});
}

static void heap(long count) { alloc_and_free(&(work_t){.heap = pool_heap_create(NULL), .count = count}); }
static void heap_of_another(long count)
{
  in_another_thread(alloc_and_free, &(work_t){.heap = pool_heap_create(NULL), .count = count});
}
static void object_single(long count) { get_and_put(&(work_t){.pool = pool_of(OBJECT_POOL_SINGLE_THREAD), .count = count}); }
static void object_shared(long count) { get_and_put(&(work_t){.pool = pool_of(0), .count = count}); }
static void object_threads(long count) { in_another_thread(get_and_put, &(work_t){.pool = pool_of(0), .count = count}); }

static void fill(pool_heap_t *heap, long count)
{
  while (count-- > 0)
    use(pool_heap_alloc(heap, SIZE));
}

/* No block is freed: the end of all of them is one call, and that of the heap another. */
static void heap_reset(long count)
{
  pool_heap_t *heap = pool_heap_create(NULL);
  for (; count > 0; count -= LARGE_HEAP) {
    fill(heap, LARGE_HEAP);
    pool_heap_reset(heap);
  }
}

static void heap_life(long count)
{
  for (; count > 0; count -= SMALL_HEAP) {
    pool_heap_t *heap = pool_heap_create(NULL);
    fill(heap, SMALL_HEAP);
    pool_heap_destroy(heap);
  }
}

/* A heap with a small budget is made and destroyed. Clearing its index is the C library's part. */
static void budget_life(long count)
{
  while (count-- > 0)
    pool_heap_destroy(pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20}));
}

/* Blocks of 8 to 512 bytes at random, in a buffer that they fill to three quarters. */
static void small_heap(long count, size_t bytes, size_t classes)
{
  enum { MOST = 512, LEAST = 8, MEAN = 260 };
  static const size_t sizes[] = {64, 128, 256, 384, 512};
  size_t slots = bytes / 4 * 3 / MEAN;
  void **slot = calloc(slots, sizeof *slot);
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){
    .memory = malloc(bytes), .memory_size = bytes, .size_classes = classes ? sizes : NULL, .size_class_count = classes});
  unsigned long long random = 88172645463325252u;
  for (; count > 0; count--) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    void **of = &slot[(unsigned)random % slots];
    pool_heap_free(heap, *of);
    *of = pool_heap_alloc(heap, LEAST + (size_t)(random >> 32) % (MOST - LEAST + 1));
  }
}

static void small_64k(long count) { small_heap(count, 64 << 10, 0); }
/* Each hundredth is a request that no hole is long enough for, though many are of its class. */
static void small_refused(long count)
{
  enum { MEMORY = 256 << 10, HOLE = 128, ASKED = 144 };
  static void *holes[MEMORY / HOLE];
  size_t found = 0;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = malloc(MEMORY), .memory_size = MEMORY});
  while ((holes[found] = pool_heap_alloc(heap, HOLE)) != NULL && pool_heap_alloc(heap, 1))
    found++;
  while (pool_heap_alloc(heap, 1)) {}
  while (found)
    pool_heap_free(heap, holes[--found]);
  for (; count > 0; count -= 100)
    use(pool_heap_alloc(heap, ASKED));
}
static void small_1m(long count) { small_heap(count, 1 << 20, 0); }
static void small_classes(long count) { small_heap(count, 1 << 20, 5); }

/* Large blocks, which are looked up by address, beside many heaps in memory of the caller. */
static void beside_guests(long count)
{
  enum { GUESTS = 2000, ROOM = 16 << 10, LARGE = 300000 };
  pool_heap_t *heap = pool_heap_create(NULL);
  for (int i = 0; i < GUESTS; i++)
    use(pool_heap_create(&(pool_heap_options_t){.memory = pool_alloc(ROOM), .memory_size = ROOM}));
  for (; count > 0; count--) {
    void *block = pool_heap_alloc(heap, LARGE);
    use(block);
    pool_free(block);
  }
}

/* The end of all blocks of a heap, beside those of others, which it does not look at. */
static void beside_huge(long count)
{
  enum { OTHERS = 1000, HUGE = 5 << 20 };
  pool_heap_t *heap = pool_heap_create(NULL);
  for (int i = 0; i < OTHERS; i++)
    use(pool_alloc(HUGE));
  for (; count > 0; count--) {
    use(pool_heap_alloc(heap, HUGE));
    pool_heap_reset(heap);
  }
}

static const struct {
  const char *name;
  void (*run)(long count);
} patterns[] = {
  {"heap64", heap},
  {"heap64_of_another", heap_of_another},
  {"heap_zeroed", heap_zeroed},
  {"memset64", zeroes},
  {"heap_kept", heap_kept},
  {"heap_moved", heap_moved},
  {"memcpy64", copies},
  {"heap_reset", heap_reset},
  {"heap_life", heap_life},
  {"budget_life", budget_life},
  {"memset48k", cleared_index},
  {"small_64k", small_64k},
  {"small_1m", small_1m},
  {"small_classes", small_classes},
  {"small_refused", small_refused},
  {"beside_guests", beside_guests},
  {"beside_huge", beside_huge},
  {"object_single", object_single},
  {"object_shared", object_shared},
  {"object_threads", object_threads},
};

static bool run_pattern(const char *name, long count)
{
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
    if (strcmp(name, patterns[i].name) == 0) {
      patterns[i].run(count);
      return true;
    }
  return false;
}

int main(int argc, char **argv) { return run_patterns(argc, argv); }
