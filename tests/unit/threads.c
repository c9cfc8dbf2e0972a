/* SPDX-License-Identifier: MIT */
#include "threads.h"
#include "heap/heap.h"
#include <tidepool/pool.h>

size_t records(void)
{
  size_t n = 0;
  for (thread_t *thread = threads_first(); thread; thread = thread->next)
    n++;
  return n;
}

void *use(void *argument)
{
  void *blocks[200];
  (void)argument;
  must(pool_alloc_batch(100, blocks, 200) == 200);
  must(thread_is_usable(thread_self) && thread_current() == thread_self);
  pool_free_batch(blocks, 200);
  return NULL;
}

pthread_barrier_t all_there, all_seen;
