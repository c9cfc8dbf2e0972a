/* SPDX-License-Identifier: MIT
 * Makes heaps of all kinds, and blocks in them of which some are freed again, so that there is something in each place that a
 * block can be in. Then it prints what the heaps say of themselves, and waits for the end of its input. With "churn" threads
 * allocate and free all the time instead. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>
#include <unistd.h>

enum { HEAPS = 12, BLOCKS = 4096, THREADS = 4 };

static pool_heap_t *heaps[HEAPS];
static const char *names[HEAPS];
static size_t heap_count;

static pool_heap_t *make(const char *name, pool_heap_options_t options)
{
  options.name = name;
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap) {
    perror(name);
    exit(1);
  }
  names[heap_count] = name;
  return heaps[heap_count++] = heap;
}

/* Frees every `nth` block; 0: none. */
static void fill(pool_heap_t *heap, size_t count, size_t size, size_t nth)
{
  static void *blocks[BLOCKS];
  for (size_t i = 0; i < count; i++) {
    blocks[i] = pool_heap_alloc(heap, size);
    if (!blocks[i])
      exit(2);
  }
  for (size_t i = 0; nth && i < count; i += nth)
    pool_heap_free(heap, blocks[i]);
}

static void *cache_some(void *ready)
{
  for (size_t i = 0; i < heap_count; i++)
    fill(heaps[i], 20, 200, 1);
  pthread_barrier_wait(ready);
  for (;;)
    pause();
  return NULL;
}

static void begin_thread(void *(*run)(void *), void *argument)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, argument) != 0)
    exit(3);
}

static void make_heaps(void)
{
  static _Alignas(64) char buffer[10 << 20], small_buffer[1 << 16];
  static const size_t sizes[] = {64, 208, 1008, 4000};
  fill(make("slabs", (pool_heap_options_t){0}), 1024, 1000, 4);
  fill(heaps[0], 3000, 16, 2);
  fill(heaps[0], 40, 20000, 3);
  fill(make("bounded", (pool_heap_options_t){.budget = 64 << 20}), 2000, 500, 3);
  fill(make("granules", (pool_heap_options_t){.budget = 256 << 10}), 300, 300, 5);
  fill(make("kept", (pool_heap_options_t){.budget = 1 << 20}), 1000, 200, 3);
  fill(make("units", (pool_heap_options_t){.reserve = 12 << 20}), 2000, 250, 4);
  fill(make("reserve", (pool_heap_options_t){.reserve = 16 << 20}), 3000, 900, 2);
  fill(make("guest", (pool_heap_options_t){.memory = small_buffer, .memory_size = sizeof small_buffer}), 100, 100, 3);
  fill(
    make("guest of slabs",
         (pool_heap_options_t){.memory = buffer, .memory_size = sizeof buffer, .size_classes = sizes, .size_class_count = 4}),
    500, 208, 3);
  fill(make("large", (pool_heap_options_t){0}), 20, 300000, 2);
  fill(heaps[heap_count - 1], 4, 300 << 20, 2);
  fill(make("checked", (pool_heap_options_t){.flags = POOL_HEAP_CHECKED}), 500, 100, 2);
  fill(make("single", (pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD}), 500, 100, 0);
}

static void use_default(void)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.name = "objects", .object_size = 100, .capacity = 1000});
  if (!pool || !object_pool_get(pool))
    exit(4);
  for (size_t i = 0; i < 1000; i++) {
    void *kept = pool_alloc(i), *freed = pool_alloc(i * 100);
    pool_free(kept ? freed : NULL);
  }
}

static void print(const char *name, const pool_stats_t *stats)
{
  printf("%zu %zu %zu %zu %zu %s\n", stats->live_blocks, stats->live_bytes, stats->cached_bytes, stats->idle_bytes,
         stats->held_bytes, name);
}

static void *churn(void *argument)
{
  static pool_heap_t *shared;
  void *blocks[256] = {NULL};
  uint64_t dice = (uintptr_t)argument + 1;
  if (!__atomic_load_n(&shared, __ATOMIC_ACQUIRE))
    __atomic_store_n(&shared, pool_heap_create(&(pool_heap_options_t){.name = "churned"}), __ATOMIC_RELEASE);
  for (;;) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    size_t i = dice >> 56, size = dice >> 30 & (dice & 512 ? 0x3ff : dice & 1024 ? 0x1ffff : 0x7fffff);
    pool_free(blocks[i]);
    blocks[i] = dice & 2048 ? pool_heap_alloc(shared, size) : pool_alloc(size);
    if ((dice >> 40) % 4096 == 0)
      pool_heap_destroy(pool_heap_create(&(pool_heap_options_t){.name = "short", .budget = 1 << 18}));
  }
  return NULL;
}

int main(int argc, char **argv)
{
  pthread_barrier_t ready;
  pool_stats_t stats;
  pool_free(pool_alloc(1)); /* with the first use of the library it begins to share */
  if (argc > 1 && !strcmp(argv[1], "churn")) {
    for (uintptr_t i = 0; i < THREADS; i++)
      begin_thread(churn, (void *)i);
  } else {
    pthread_barrier_init(&ready, NULL, 2);
    make_heaps();
    use_default();
    heap_count--; /* the last is one thread's alone */
    begin_thread(cache_some, &ready);
    pthread_barrier_wait(&ready);
    heap_count++;
    for (size_t i = 0; i < heap_count; i++) {
      pool_heap_stats(heaps[i], &stats);
      print(names[i], &stats);
    }
    pool_heap_stats(pool_heap_default(), &stats);
    print("default", &stats);
  }
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF)
    continue;
  return 0;
}
