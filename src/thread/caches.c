/* SPDX-License-Identifier: MIT
 * A heap's cache is found in four ways: by the fast path in its slot, by the slow path in its chain, by a tick in the list of
 * due caches, and by other threads in the heap's list of caches within reach. All except the slot are under threads_lock. */
#include "thread/caches.h"
#include "base/list.h"
#include "space/metadata.h"
#include "space/sleeper.h"
#include <stddef.h>

enum { CHAINS_LEAST_LOG2 = 4 };

lock_t threads_lock;
bool threads_can_be_reached;
static heap_cache_t *unused_caches;

/* ---- slots ---- */

static void store_slot(thread_t *thread, size_t i, struct pool_heap *heap)
{
  __atomic_store_n(&thread->heap_at[i], heap, BUSY_ORDER);
}

/* True also if the fast paths do not find it there. */
static bool is_in_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return heap_in_slot(__atomic_load_n(&thread->heap_at[cache_slot_of(heap)], BUSY_ORDER)) == heap;
}

/* Another heap with the same byte may have taken the slot. Its cache stays. */
static void empty_slot(thread_t *thread, const struct pool_heap *heap)
{
  if (is_in_slot(thread, heap))
    store_slot(thread, cache_slot_of(heap), NOT_A_HEAP);
}

/* The lock is needed because a thread that has claimed a cache may empty its slot at the same time. */
void thread_empty_slots(thread_t *thread)
{
  lock_acquire(&threads_lock);
  for (size_t i = 0; i < CACHE_SLOTS; i++)
    if (thread->heap_at[i])
      store_slot(thread, i, NOT_A_HEAP);
  lock_release(&threads_lock);
}

/* ---- the caches of a thread, under threads_lock ---- */

static heap_cache_t **chain_of(const thread_t *thread, const struct pool_heap *heap)
{
  return &thread->chains[(uintptr_t)heap * 0x9e3779b97f4a7c15u >> (WORD_BITS - thread->chains_log2)];
}

static heap_cache_t *first_from(const thread_t *thread, heap_cache_t *const *chain)
{
  heap_cache_t *const *end = thread->chains + ((size_t)1 << thread->chains_log2);
  while (chain < end && !*chain)
    chain++;
  return chain < end ? *chain : NULL;
}

heap_cache_t *thread_next_cache(const thread_t *thread, const heap_cache_t *cache)
{
  if (!thread->chains)
    return NULL;
  if (!cache)
    return first_from(thread, thread->chains);
  return cache->next ? cache->next : first_from(thread, chain_of(thread, cache->heap) + 1);
}

/* A thread that has only used the default heap has no chains. */
static heap_cache_t *find_cache(const thread_t *thread, const struct pool_heap *heap)
{
  heap_cache_t *cache = thread->chains ? *chain_of(thread, heap) : NULL;
  while (cache && cache->heap != heap)
    cache = cache->next;
  return cache;
}

static void chain_enter(thread_t *thread, heap_cache_t *cache)
{
  heap_cache_t **chain = chain_of(thread, cache->heap);
  cache->next = *chain;
  *chain = cache;
}

/* Keeps at least as many heads as caches, so that a chain has one or two caches. Without memory for more heads the chains grow
 * longer. Returns false if there are no chains at all. */
static bool widen_chains(thread_t *thread)
{
  uint32_t log2 = thread->chains_log2, more = thread->chains ? log2 + 1 : CHAINS_LEAST_LOG2;
  if (thread->chains && thread->cache_count < (uint32_t)1 << log2)
    return true;
  heap_cache_t **chains = metadata_take(sizeof *chains << more, METADATA_ALIGNMENT), **old = thread->chains;
  if (!chains)
    return old;
  thread->chains = chains;
  thread->chains_log2 = more;
  for (size_t i = 0; old && i < (size_t)1 << log2; i++)
    for (heap_cache_t *cache = old[i], *next; cache; cache = next) {
      next = cache->next;
      chain_enter(thread, cache);
    }
  metadata_give(old, sizeof *old << log2);
  return true;
}

/* A cache enters at the end, so that a tick visits the longest-waiting ones first. */
static void due_cache_enter(thread_t *thread, heap_cache_t *cache)
{
  cache->due = true;
  QUEUE_APPEND(thread->due_first, thread->due_last, cache, due_next, due_previous);
  thread->due_count++;
}

static void due_cache_leave(thread_t *thread, heap_cache_t *cache)
{
  QUEUE_REMOVE(thread->due_first, thread->due_last, cache, due_next, due_previous);
  cache->due = false;
  thread->due_count--;
}

/* The owner reads the link without the lock, to see whether the cache is in the list (may_be_used()). */
static void set_link(heap_cache_t *cache, heap_cache_t **link) { __atomic_store_n(&cache->reach_link, link, __ATOMIC_RELAXED); }

static void reach_enter(reach_list_t *reach, heap_cache_t *cache)
{
  if (cache->reach_link)
    return;
  cache->reach_next = reach->first;
  if (cache->reach_next)
    set_link(cache->reach_next, &cache->reach_next);
  set_link(cache, &reach->first);
  __atomic_store_n(&reach->first, cache, __ATOMIC_RELAXED);
  sleeper_note();
}

/* A flushed cache leaves the list until its owner enters it again. */
static void reach_leave(heap_cache_t *cache)
{
  if (!cache->reach_link)
    return;
  __atomic_store_n(cache->reach_link, cache->reach_next, __ATOMIC_RELAXED);
  if (cache->reach_next)
    set_link(cache->reach_next, cache->reach_link);
  set_link(cache, NULL);
}

/* Removes every reference to the cache first, because another heap may take it the next moment. */
static void forget_cache(thread_t *thread, heap_cache_t *cache)
{
  reach_leave(cache);
  heap_cache_t **at = chain_of(thread, cache->heap);
  while (*at != cache)
    at = &(*at)->next;
  *at = cache->next;
  empty_slot(thread, cache->heap);
  if (cache->due)
    due_cache_leave(thread, cache);
  thread->cache_count--;
  cache->next = unused_caches;
  unused_caches = cache;
}

magazines_t *thread_magazines_if_any(const thread_t *thread, const struct pool_heap *heap)
{
  heap_cache_t *cache = find_cache(thread, heap);
  return cache ? &cache->magazines : NULL;
}

void thread_visit_cache(thread_t *thread, struct pool_heap *heap, bool forget, threads_visit_fn *visit)
{
  heap_cache_t *cache = find_cache(thread, heap);
  if (cache)
    visit(&cache->magazines, heap);
  if (cache && forget)
    forget_cache(thread, cache);
}

/* The lost thread may have been exchanging a magazine, so its magazines are forgotten, not given to the bin. */
void thread_drop_cache(thread_t *thread, struct pool_heap *heap, bool forget)
{
  heap_cache_t *cache = find_cache(thread, heap);
  if (cache)
    magazines_init(&cache->magazines, &cache->cache, thread->number, &thread->allowance, true);
  if (cache && forget)
    forget_cache(thread, cache);
}

void thread_forget_caches(thread_t *thread)
{
  for (heap_cache_t *cache; (cache = thread_next_cache(thread, NULL)) != NULL;)
    forget_cache(thread, cache);
}

/* ---- ticks ---- */

void thread_begin_tick(thread_t *thread)
{
  lock_acquire(&threads_lock);
  thread->due_left = thread->due_count;
  lock_release(&threads_lock);
}

/* Heaps destroyed since the tick began have taken their caches, so `due_left` may exceed the list. A cache that still has
 * magazines becomes due again, behind all others. */
void thread_tick_caches(thread_t *thread, unsigned most, threads_visit_fn *tick)
{
  lock_acquire(&threads_lock);
  thread->due_left = (uint32_t)min_size(thread->due_left, thread->due_count);
  for (; most && thread->due_left; most--, thread->due_left--) {
    heap_cache_t *cache = thread->due_first;
    tick(&cache->magazines, cache->heap);
    due_cache_leave(thread, cache);
    if (magazines_any(&cache->magazines))
      due_cache_enter(thread, cache);
  }
  lock_release(&threads_lock);
}

/* ---- entering a cache ---- */

/* Unused caches serve any heap and any thread, so there is one list of them. */
static heap_cache_t *cache_take(void)
{
  lock_acquire(&threads_lock);
  heap_cache_t *cache = unused_caches;
  if (cache)
    unused_caches = cache->next;
  lock_release(&threads_lock);
  return cache ? cache : metadata_take(sizeof *cache, METADATA_ALIGNMENT);
}

static heap_cache_t *cache_of(magazines_t *magazines)
{
  return (heap_cache_t *)((char *)magazines - offsetof(heap_cache_t, magazines));
}

/* The cache is complete before it enters a chain, where other threads find it. Without memory for chains it is given back. */
static bool make_magazines(thread_t *thread, struct pool_heap *heap)
{
  heap_cache_t *cache = cache_take();
  if (!cache)
    return false;
  cache->heap = heap;
  cache->owner = thread;
  magazines_init(&cache->magazines, &cache->cache, thread->number, &thread->allowance, true);
  lock_acquire(&threads_lock);
  bool room = widen_chains(thread);
  if (room) {
    chain_enter(thread, cache);
    due_cache_enter(thread, cache);
    thread->cache_count++;
  } else {
    cache->next = unused_caches;
    unused_caches = cache;
  }
  lock_release(&threads_lock);
  return room;
}

/* The cache in a slot is the heap's only if the slot names the heap. */
static magazines_t *magazines_in_slot(const thread_t *thread, const struct pool_heap *heap)
{
  if (!is_in_slot(thread, heap))
    return NULL;
  return &((heap_cache_t *)((char *)thread->cache_at[cache_slot_of(heap)] - offsetof(heap_cache_t, cache)))->magazines;
}

/* The slow way to the thread's cache. The lock keeps other threads from claiming it meanwhile. */
static magazines_t *find_magazines(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach)
{
  lock_acquire(&threads_lock);
  magazines_t *magazines = thread_magazines_if_any(thread, heap);
  if (magazines && in_slot) {
    thread->cache_at[cache_slot_of(heap)] = magazines->cache;
    struct pool_heap *slot = reach ? within_reach(heap) : heap;
    store_slot(thread, cache_slot_of(heap), thread->counts ? while_counting(slot) : slot);
  }
  if (magazines && reach)
    reach_enter(reach, cache_of(magazines));
  lock_release(&threads_lock);
  return magazines;
}

/* Must come before the thread is busy. A thread that claims the cache holds the lock and waits until the owner is not busy, so
 * an owner that waited for the lock while busy would deadlock. */
static void note_use(thread_t *thread, heap_cache_t *cache)
{
  if (likely(cache->due))
    return;
  lock_acquire(&threads_lock);
  due_cache_enter(thread, cache);
  lock_release(&threads_lock);
}

/* Called while the owner is busy. A claimed cache belongs to another thread until that releases the lock. A cache that was
 * flushed and left the list meanwhile must enter the list again, or no thread could reach its blocks. */
static bool may_be_used(const heap_cache_t *cache, const reach_list_t *reach)
{
  return !__atomic_load_n(&cache->claimed, __ATOMIC_SEQ_CST) &&
         (!reach || __atomic_load_n(&cache->reach_link, __ATOMIC_RELAXED));
}

/* If the cache was just claimed, this waits for the lock until the claim is over, and searches again. */
magazines_t *thread_enter(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach)
{
  for (;;) {
    magazines_t *magazines = magazines_in_slot(thread, heap);
    if (!magazines)
      magazines = find_magazines(thread, heap, in_slot, reach);
    if (!magazines && !make_magazines(thread, heap))
      return NULL;
    if (!magazines)
      continue;
    note_use(thread, cache_of(magazines));
    thread_set_busy(thread);
    if (may_be_used(cache_of(magazines), reach))
      return magazines;
    thread_leave(thread);
    lock_acquire(&threads_lock);
    lock_release(&threads_lock);
  }
}

/* ---- reaching into other threads ---- */

static void claim(heap_cache_t *cache)
{
  __atomic_store_n(&cache->claimed, true, BUSY_ORDER);
  empty_slot(cache->owner, cache->heap);
}

/* Claims the caches of other threads, whose empty slots send them to the slow path. Returns whether there are any to flush. */
static bool claim_others(const reach_list_t *reach)
{
  bool any = false;
  for (heap_cache_t *cache = reach->first, *next; cache; cache = next) {
    next = cache->reach_next;
    /* A lost thread may have been exchanging its magazines, so they are never flushed. */
    if (cache->owner->is_lost)
      reach_leave(cache);
    if (cache->owner->is_lost || cache->owner == thread_self)
      continue;
    claim(cache);
    any = true;
  }
  return any;
}

/* The owner may be busy while it waits for a bin's lock, which no waiting thread holds here. Or a signal handler that
 * interrupted it waits for this thread, so the wait must end. A cache of a thread that stays busy stays in the list. */
static void flush_claimed(heap_cache_t *cache, threads_visit_fn *flush)
{
  if (!lock_flag_clears(&cache->owner->busy, 0))
    return;
  flush(&cache->magazines, cache->heap);
  reach_leave(cache);
}

/* Without the fence, no thread is known to be idle, so nothing is flushed. Returns whether the cache is empty. */
static bool end_claim(heap_cache_t *cache, bool fenced, threads_visit_fn *flush)
{
  if (cache->claimed && fenced)
    flush_claimed(cache, flush);
  if (cache->claimed)
    __atomic_store_n(&cache->claimed, false, __ATOMIC_RELEASE);
  return !cache->reach_link;
}

void threads_reach(reach_list_t *reach, threads_visit_fn *flush)
{
  if (os_single_threaded() || !threads_can_be_reached || !__atomic_load_n(&reach->first, __ATOMIC_RELAXED))
    return;
  lock_acquire(&threads_lock);
  bool fenced = claim_others(reach) && os_fence_others();
  for (heap_cache_t *cache = reach->first, *next; cache; cache = next) {
    next = cache->reach_next;
    end_claim(cache, fenced, flush);
  }
  lock_release(&threads_lock);
}

/* ---- unused caches ---- */

/* Returns the next cache of a thread that is within reach and may have magazines. */
static heap_cache_t *next_within_reach(heap_cache_t *cache)
{
  while (cache && !cache->reach_link)
    cache = cache->due_next;
  return cache;
}

/* Returns the next cache within reach of a list of threads, or the first if `cache` is NULL. */
static heap_cache_t *each_within_reach(thread_t *first, heap_cache_t *cache)
{
  thread_t *thread = cache ? cache->owner : first;
  heap_cache_t *next = next_within_reach(cache ? cache->due_next : thread ? thread->due_first : NULL);
  while (!next && thread && (thread = thread->next) != NULL)
    next = next_within_reach(thread->due_first);
  return next;
}

static bool cache_is_unused(heap_cache_t *cache, unsigned looks)
{
  uint64_t stamp = magazines_stamp(&cache->magazines);
  cache->unused_for = stamp == cache->stamp ? cache->unused_for + 1 : 0;
  cache->stamp = stamp;
  return cache->unused_for >= looks;
}

/* One fence serves all claimed caches. */
bool threads_reach_unused_of(thread_t *first, unsigned looks, threads_visit_fn *flush)
{
  bool any = false, left = false;
  for (heap_cache_t *cache = NULL; (cache = each_within_reach(first, cache)) != NULL;)
    if (cache_is_unused(cache, looks)) {
      claim(cache);
      any = true;
    }
  bool fenced = any && os_fence_others();
  for (heap_cache_t *cache = NULL; (cache = each_within_reach(first, cache)) != NULL;)
    left |= !end_claim(cache, fenced, flush);
  return left;
}
