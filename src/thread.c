/* SPDX-License-Identifier: MIT */
#include "thread.h"
#include "metadata.h"
#include <stddef.h>
#include <string.h>

enum { REACH_TRIES = 200 };   /* looks at a busy thread; after the first few, each lets others run */

static thread_t nobody = {.heap_at = {NOT_A_HEAP}};
THREAD_LOCAL thread_t *thread_self = &nobody;
static THREAD_LOCAL bool without;   /* a record: the thread is ending, or its end could not be arranged */

static void (*flush_thread)(thread_t *thread);
lock_t threads_lock;
bool threads_can_be_reached;

static thread_t *live, *unused;
static heap_cache_t *unused_caches;
static uint8_t next_shard;
static uint32_t count;

static void count_threads(void) { __atomic_store_n(&pool_threads, count ? count : 1, __ATOMIC_RELAXED); }

/* ---- records ---- */

static thread_t *record_take(void)
{
  lock_acquire(&threads_lock);
  thread_t *thread = unused;
  if (thread)
    unused = thread->next;
  lock_release(&threads_lock);
  return thread ? thread : metadata_take(sizeof *thread, METADATA_ALIGNMENT);
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

static void store_place(thread_t *thread, size_t i, struct pool_heap *heap) { __atomic_store_n(&thread->heap_at[i], heap, BUSY_ORDER); }

static void empty_place(thread_t *thread, const struct pool_heap *heap)
{
  if (thread_has_placed(thread, heap) || thread_has_within_reach(thread, heap))
    store_place(thread, thread_place(heap), NOT_A_HEAP);
}

static void forget_cache(thread_t *thread, heap_cache_t **at)
{
  heap_cache_t *cache = *at;
  empty_place(thread, cache->heap);
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

/* ---- the beginning and the end of a thread ---- */

static void thread_end(void *argument)
{
  thread_t *thread = argument;
  thread_self = &nobody;
  without = true;
  lock_acquire(&threads_lock);   /* a heap that is being destroyed meanwhile takes its caches first, or finds them flushed */
  flush_thread(thread);
  live_leave(thread);
  lock_release(&threads_lock);
}

void threads_init(void (*flush)(thread_t *thread))
{
  flush_thread = flush;
  os_on_thread_exit(thread_end);
  threads_can_be_reached = os_can_fence_others();
}

COLD static thread_t *thread_start(void)
{
  thread_t *thread = record_take();
  if (!thread)
    return NULL;
  thread->shard = __atomic_fetch_add(&next_shard, 1, __ATOMIC_RELAXED);
  magazines_init(&thread->front, &magazine_front_cache, thread->shard);
  memset(&thread->spares, 0, sizeof thread->spares);
  thread->heap_at[0] = NOT_A_HEAP;
  live_enter(thread);
  bool alone = os_single_threaded();
  thread_self = thread;                     /* first: arranging the end may allocate */
  /* The memory of the thread that was there alone lasts as long as the process, so that one may go on where its end cannot be
   * arranged. Nobody else may: the system takes a thread's memory when it ends, with what the manager has there. */
  if (!os_thread_on_exit(thread) && !alone)
    thread_end(thread);
  return without ? NULL : thread;
}

thread_t *thread_current(void)
{
  thread_t *thread = thread_self;
  if (likely(thread != &nobody))
    return thread;
  return without ? NULL : thread_start();
}

void thread_abandon(void)
{
  thread_self = &nobody;
  without = true;
  magazines_abandon(&magazine_front_cache);
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
  return cache ? cache : metadata_take(sizeof *cache, METADATA_ALIGNMENT);
}

static heap_cache_t *cache_of(magazines_t *magazines) { return (heap_cache_t *)((char *)magazines - offsetof(heap_cache_t, magazines)); }

static magazines_t *make_magazines(thread_t *thread, struct pool_heap *heap)
{
  heap_cache_t *cache = cache_take();
  if (!cache)
    return NULL;
  cache->heap = heap;
  magazines_init(&cache->magazines, &cache->cache, thread->shard);
  lock_acquire(&threads_lock);
  cache->next = thread->heaps;
  thread->heaps = cache;
  lock_release(&threads_lock);
  return &cache->magazines;
}

static magazines_t *placed_magazines(const thread_t *thread, const struct pool_heap *heap)
{
  if (!thread_has_placed(thread, heap) && !thread_has_within_reach(thread, heap))
    return NULL;
  return &((heap_cache_t *)((char *)thread->cache_at[thread_place(heap)] - offsetof(heap_cache_t, cache)))->magazines;
}

/* Under the lock the cache is in nobody's hands but the thread's. */
static magazines_t *find_magazines(thread_t *thread, struct pool_heap *heap, bool placed, bool reached)
{
  lock_acquire(&threads_lock);
  magazines_t *magazines = thread_magazines_if_any(thread, heap);
  if (magazines && placed) {
    thread->cache_at[thread_place(heap)] = magazines->cache;
    store_place(thread, thread_place(heap), reached ? within_reach(heap) : heap);
  }
  lock_release(&threads_lock);
  return magazines;
}

/* A cache that is claimed is not entered: the one who claimed it holds the lock until it is done. */
magazines_t *thread_enter(thread_t *thread, struct pool_heap *heap, bool placed, bool reached)
{
  for (;;) {
    magazines_t *magazines = placed_magazines(thread, heap);
    if (!magazines)
      magazines = find_magazines(thread, heap, placed, reached);
    if (!magazines && !make_magazines(thread, heap))
      return NULL;
    if (!magazines)
      continue;
    thread_set_busy(thread);
    if (!__atomic_load_n(&cache_of(magazines)->claimed, BUSY_ORDER))
      return magazines;
    thread_leave(thread);
    lock_acquire(&threads_lock);
    lock_release(&threads_lock);
  }
}

void threads_visit(struct pool_heap *heap, bool forget, threads_visit_fn *visit)
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

/* ---- reaching into other threads ---- */

static heap_cache_t *cache_of_other(thread_t *thread, const struct pool_heap *heap)
{
  magazines_t *magazines = thread == thread_self ? NULL : thread_magazines_if_any(thread, heap);
  return magazines && magazines_any(magazines) ? cache_of(magazines) : NULL;
}

static bool claim(struct pool_heap *heap)
{
  bool any = false;
  for (thread_t *thread = live; thread; thread = thread->next) {
    heap_cache_t *cache = cache_of_other(thread, heap);
    if (!cache)
      continue;
    __atomic_store_n(&cache->claimed, true, BUSY_ORDER);
    empty_place(thread, heap);
    any = true;
  }
  return any;
}

/* It is a few instructions, or waits for the lock of a pool, which nobody holds who waits here. But it may have been interrupted by
 * a signal whose handler waits for this very thread. */
static bool comes_out(const thread_t *thread)
{
  for (int i = 0; i < REACH_TRIES; i++) {
    if (!__atomic_load_n(&thread->busy, __ATOMIC_ACQUIRE))
      return true;
    if (i >= REACH_TRIES / 10)
      os_yield();
  }
  return false;
}

void threads_reach(struct pool_heap *heap, threads_visit_fn *visit)
{
  if (os_single_threaded() || !threads_can_be_reached)
    return;
  lock_acquire(&threads_lock);
  bool fenced = claim(heap) && os_fence_others();
  for (thread_t *thread = live; thread; thread = thread->next) {
    magazines_t *magazines = thread_magazines_if_any(thread, heap);
    heap_cache_t *cache = magazines ? cache_of(magazines) : NULL;
    if (!cache || !cache->claimed)
      continue;
    if (fenced && comes_out(thread))
      visit(magazines, heap);
    __atomic_store_n(&cache->claimed, false, BUSY_ORDER);
  }
  lock_release(&threads_lock);
}

/* ---- all threads ---- */

thread_t *threads_first(void) { return live; }

void threads_forget_others(void (*forget)(thread_t *thread))
{
  for (thread_t *thread = live; thread; thread = thread->next)
    if (thread != thread_self)
      forget(thread);
  live = thread_self == &nobody ? NULL : thread_self;
  if (live)
    live->next = live->previous = NULL;
  count = live != NULL;
  count_threads();
}
