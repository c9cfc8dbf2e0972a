/* SPDX-License-Identifier: MIT */
#include "thread.h"
#include "metadata.h"
#include <stddef.h>

static thread_t nobody = {.heap_at = {NOT_A_HEAP}};
THREAD_LOCAL thread_t *thread_self = &nobody;
static THREAD_LOCAL bool ended;

void (*thread_flush)(thread_t *thread);
void (*thread_second)(void);
lock_t threads_lock;

static thread_t *live, *unused;
static heap_cache_t *unused_caches;
static uint8_t next_shard;

static uint32_t count;

static void count_threads(void) { __atomic_store_n(&pool_threads, count ? count : 1, __ATOMIC_RELAXED); }

static thread_t *record_take(void)
{
  lock_acquire(&threads_lock);
  thread_t *thread = unused;
  if (thread)
    unused = thread->next;
  lock_release(&threads_lock);
  return thread ? thread : metadata_take(sizeof *thread, 64);
}

static void live_enter(thread_t *thread)
{
  lock_acquire(&threads_lock);
  thread->previous = NULL;
  thread->next = live;
  if (live)
    live->previous = thread;
  live = thread;
  count++;
  count_threads();
  lock_release(&threads_lock);
}

static void forget_cache(thread_t *thread, heap_cache_t **at)
{
  heap_cache_t *cache = *at;
  size_t i = thread_place(cache->heap);
  if (__atomic_load_n(&thread->heap_at[i], __ATOMIC_RELAXED) == cache->heap)
    __atomic_store_n(&thread->heap_at[i], NOT_A_HEAP, __ATOMIC_RELAXED);
  *at = cache->next;
  cache->next = unused_caches;
  unused_caches = cache;
}

static void live_leave(thread_t *thread)
{
  while (thread->heaps)
    forget_cache(thread, &thread->heaps);
  *(thread->previous ? &thread->previous->next : &live) = thread->next;
  if (thread->next)
    thread->next->previous = thread->previous;
  thread->next = unused;
  unused = thread;
  count--;
  count_threads();
}

static void thread_end(void *argument)
{
  thread_t *thread = argument;
  thread_self = &nobody;
  ended = true;
  lock_acquire(&threads_lock);   /* a heap that is being destroyed meanwhile takes its caches first, or finds them flushed */
  thread_flush(thread);
  live_leave(thread);
  lock_release(&threads_lock);
}

void thread_notice_second(thread_t *thread)
{
  static bool noticed;
  if (thread->end_arranged || os_single_threaded())
    return;
  thread->end_arranged = true;
  if (!__atomic_exchange_n(&noticed, true, __ATOMIC_RELAXED))
    thread_second();
  if (!os_thread_on_exit(thread_end, thread))
    thread_end(thread);
}

COLD static thread_t *thread_start(void)
{
  thread_t *thread = record_take();
  if (!thread)
    return NULL;
  thread->shard = __atomic_fetch_add(&next_shard, 1, __ATOMIC_RELAXED);
  magazines_init(&thread->front, &magazine_front_cache, thread->shard);
  thread->heap_at[0] = NOT_A_HEAP;
  live_enter(thread);
  thread->end_arranged = false;
  thread_self = thread;                     /* first: arranging the end may allocate */
  thread_notice_second(thread);
  return ended ? NULL : thread;
}

thread_t *thread_current(void)
{
  thread_t *thread = thread_self;
  if (likely(thread != &nobody))
    return thread;
  return ended ? NULL : thread_start();
}

/* ---- caches of other heaps ---- */

magazines_t *thread_magazines_if_any(const thread_t *thread, const struct pool_heap *heap)
{
  heap_cache_t *cache = thread->heaps;
  while (cache && cache->heap != heap)
    cache = cache->next;
  return cache ? &cache->magazines : NULL;
}

static heap_cache_t *cache_take(void)
{
  lock_acquire(&threads_lock);
  heap_cache_t *cache = unused_caches;
  if (cache)
    unused_caches = cache->next;
  lock_release(&threads_lock);
  return cache ? cache : metadata_take(sizeof *cache, 64);
}

/* Relaxed, here and where a destroyed heap is forgotten: a thread that reads another heap's entry half-changed finds that it
 * is not the one it looks for, and takes the slow path. */
static void place(thread_t *thread, struct pool_heap *heap, cache_t *cache)
{
  size_t i = thread_place(heap);
  thread->cache_at[i] = cache;
  __atomic_store_n(&thread->heap_at[i], heap, __ATOMIC_RELAXED);
}

static magazines_t *placed_magazines(const thread_t *thread, const struct pool_heap *heap)
{
  size_t i = thread_place(heap);
  if (__atomic_load_n(&thread->heap_at[i], __ATOMIC_RELAXED) != heap)
    return NULL;
  return &((heap_cache_t *)((char *)thread->cache_at[i] - offsetof(heap_cache_t, cache)))->magazines;
}

magazines_t *thread_magazines(thread_t *thread, struct pool_heap *heap, bool placed)
{
  magazines_t *magazines = placed_magazines(thread, heap);
  if (likely(magazines))
    return magazines;
  lock_acquire(&threads_lock);
  magazines = thread_magazines_if_any(thread, heap);
  lock_release(&threads_lock);
  if (!magazines) {
    heap_cache_t *cache = cache_take();
    if (!cache)
      return NULL;
    cache->heap = heap;
    magazines = &cache->magazines;
    magazines_init(magazines, &cache->cache, thread->shard);
    lock_acquire(&threads_lock);
    cache->next = thread->heaps;
    thread->heaps = cache;
    lock_release(&threads_lock);
  }
  if (placed)
    place(thread, heap, magazines->cache);
  return magazines;
}

void threads_visit(struct pool_heap *heap, bool forget, void (*visit)(magazines_t *, struct pool_heap *))
{
  lock_acquire(&threads_lock);
  for (thread_t *thread = live; thread; thread = thread->next)
    for (heap_cache_t **at = &thread->heaps; *at;) {
      if ((*at)->heap != heap) {
        at = &(*at)->next;
        continue;
      }
      visit(&(*at)->magazines, heap);
      if (forget)
        forget_cache(thread, at);
      else
        at = &(*at)->next;
    }
  lock_release(&threads_lock);
}

thread_t *threads_first(void) { return live; }

void threads_forget_others(void)
{
  live = thread_self == &nobody ? NULL : thread_self;
  if (live)
    live->next = live->previous = NULL;
  count = live != NULL;
  count_threads();
}
