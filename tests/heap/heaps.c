/* SPDX-License-Identifier: MIT */
#include "heaps.h"

/* What a heap holds depends on when idle memory was last looked for. These tests are about other things, so that is to be in
 * seven weeks; those that are about it say so themselves, and the unit tests move the clock. */
__attribute__((constructor)) static void leave_time_out(void) { must(pool_option_set("purge_delay_ms", "4000000000")); }

pool_heap_t *heap_with(pool_heap_options_t options)
{
  pool_heap_t *heap = pool_heap_create(&options);
  assert_non_null(heap);
  return heap;
}

pool_heap_t *heap_with_budget(size_t budget) { return heap_with((pool_heap_options_t){.budget = budget}); }

pool_stats_t stats_of(pool_heap_t *heap)
{
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats));
  return stats;
}

void refuses(pool_heap_options_t options, int error)
{
  errno = UNTOUCHED;
  assert_null(pool_heap_create(&options));
  assert_int_equal(errno, error);
}

bool visit_nothing(const pool_block_t *block, void *context)
{
  (void)block, (void)context;
  return true;
}

/* ---- lists ---- */

bool list_take(list_t *list, pool_heap_t *heap, size_t size)
{
  void **block = pool_heap_alloc(heap, size);
  if (!block)
    return false;
  *block = list->first;
  list->first = block;
  list->count++;
  return true;
}

size_t list_exhaust(list_t *list, pool_heap_t *heap, size_t size)
{
  size_t before = list->count;
  while (list_take(list, heap, size)) {}
  return list->count - before;
}

void list_take_many(list_t *list, pool_heap_t *heap, size_t size, size_t count)
{
  for (size_t i = 0; i < count; i++)
    must(list_take(list, heap, size));
}

void *list_pop(list_t *list)
{
  void **block = list->first;
  must(block);
  list->first = *block;
  list->count--;
  return block;
}

void list_free(list_t *list, pool_heap_t *heap)
{
  while (list->first)
    pool_heap_free(heap, list_pop(list));
}

/* ---- threads ---- */

enum { THREADS_MOST = 64 };

typedef struct started {
  thread_body_fn *body;
  void *context;
  size_t index;
} started_t;

static void *thread_main(void *argument)
{
  const started_t *started = argument;
  started->body(started->index, started->context);
  return NULL;
}

void run_threads(size_t count, thread_body_fn *body, void *context)
{
  pthread_t threads[THREADS_MOST];
  started_t started[THREADS_MOST];
  must(count <= THREADS_MOST);
  for (size_t i = 0; i < count; i++) {
    started[i] = (started_t){body, context, i};
    must(pthread_create(&threads[i], NULL, thread_main, &started[i]) == 0);
  }
  for (size_t i = 0; i < count; i++)
    must(pthread_join(threads[i], NULL) == 0);
}
