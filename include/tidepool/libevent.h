/* SPDX-License-Identifier: MIT
 *
 * tidepool/libevent.h: all of libevent's memory on one heap. libevent has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "events", .budget = 4 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_libevent_install(heap);                 (before any other call of libevent, evthread_use_pthreads() too)
 *     ... event_base_dispatch() ...                (NULL or -1: the heap is exhausted)
 *     event_base_free(base);
 *     libevent_global_shutdown();
 *     pool_heap_destroy(heap);
 *
 * libevent does not check that it is unused: see hooks.h for a late installation. If threads use it after
 * evthread_use_pthreads(), the heap must not be single-threaded. If libevent cannot allocate a lock, it silently works without:
 * leave room in the budget for bases and bufferevents before threads share them. This header does not compile if libevent was
 * built without replaceable functions (event_set_mem_functions()). */
#ifndef TIDEPOOL_LIBEVENT_H
#define TIDEPOOL_LIBEVENT_H

#include <event2/event.h>
#include <tidepool/hooks.h>

POOL_HOOKS(libevent)

/* Makes libevent allocate from `heap`. */
static inline void pool_libevent_install(pool_heap_t *heap)
{
  pool_libevent_heap = heap;
  event_set_mem_functions(pool_libevent_malloc, pool_libevent_realloc, pool_libevent_free);
}

#endif
