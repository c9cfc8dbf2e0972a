/* SPDX-License-Identifier: MIT
 * What a user of the library does first, and names that such a user may have: nothing of the library's is in their way. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>

/* These are names of the library's own files. */
int settings = 1, default_heap = 2, heaps_lock = 3, threads_lock = 4;
static int calls;
void fatal(const char *what);
void warn(const char *what);
void fatal(const char *what) { calls += what[0] == '!'; }
void warn(const char *what) { calls += what[0] == '!'; }

static void check(bool good, const char *what)
{
  if (good)
    return;
  printf("wrong: %s\n", what);
  exit(1);
}

static void *use_blocks(void *context)
{
  enum { BLOCKS = 1000 };
  char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = pool_alloc(i * 41);
    check(blocks[i] != NULL, "pool_alloc");
    memset(blocks[i], (int)i, i * 41);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    check(i == 0 || blocks[i][i * 41 - 1] == (char)i, "the contents of a block");
    pool_free(blocks[i]);
  }
  return context;
}

static void use_heap(void)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "first", .budget = 1 << 20});
  check(heap != NULL, "pool_heap_create");
  size_t count = 0;
  while (pool_heap_alloc(heap, 100))
    count++;
  pool_stats_t stats;
  check(count > 5000 && pool_heap_stats(heap, &stats) && stats.live_blocks == count && stats.held_bytes <= 1 << 20, "a budget");
  pool_heap_destroy(heap);
}

static void use_objects(void)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 48, .capacity = 10});
  check(pool != NULL, "object_pool_create");
  void *object = object_pool_get(pool);
  check(object && object_pool_live(pool) == 1, "object_pool_get");
  object_pool_put(pool, object);
  object_pool_destroy(pool);
}

int main(void)
{
  enum { THREADS = 3 };
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    check(pthread_create(&threads[i], NULL, use_blocks, NULL) == 0, "pthread_create");
  use_blocks(NULL);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  use_heap();
  use_objects();
  fatal("!");
  warn("!");
  check(calls == 2 && settings == 1 && default_heap == 2 && heaps_lock == 3 && threads_lock == 4, "the program's own names");
  return 0;
}
