/* SPDX-License-Identifier: MIT
 * A heap's cache is found in four ways: by the fast path in its slot, by the slow path in its chain, by a tick in the list of
 * due caches, and by other threads in the heap's list of caches within reach. All except the slot are under threads_lock. */
#include "base/list.h"
#include "option.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/metadata.h"
#include "thread/magazines.h"
#include "thread/thread.h"

enum { CHAINS_LEAST_LOG2 = 4 };

lock_t threads_lock;
bool threads_can_be_reached;

/* Unused caches serve any heap and any thread. */
static metadata_kind_t caches = {
  .size = sizeof(heap_cache_t), .alignment = METADATA_ALIGNMENT, .link = offsetof(heap_cache_t, next)};

/* ---- slots ---- */

static void store_slot(thread_t *thread, size_t i, struct pool_heap *heap)
{
  __atomic_store_n(&thread->heap_at[i], heap, CLAIM_ORDER);
}

/* True also if the fast paths do not find it there. */
static bool is_in_slot(const thread_t *thread, const struct pool_heap *heap)
{
  return heap_in_slot(__atomic_load_n(&thread->heap_at[cache_slot_of(heap)], CLAIM_ORDER)) == heap;
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
  LOCKED(&threads_lock);
  for (size_t i = 0; i < CACHE_SLOTS; i++)
    if (thread->heap_at[i])
      store_slot(thread, i, NOT_A_HEAP);
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

static void reach_enter(reach_list_t *reach, heap_cache_t *cache)
{
  if (cache->reach_link)
    return;
  cache->reach_next = reach->first;
  if (cache->reach_next)
    cache->reach_next->reach_link = &cache->reach_next;
  cache->reach_link = &reach->first;
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
    cache->reach_next->reach_link = cache->reach_link;
  cache->reach_link = NULL;
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
  metadata_give_kind(&caches, cache);
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
  LOCKED(&threads_lock);
  thread->due_left = thread->due_count;
}

/* Heaps destroyed since the tick began have taken their caches, so `due_left` may exceed the list. A cache that still has
 * magazines becomes due again, behind all others. */
void thread_tick_caches(thread_t *thread, unsigned most, threads_visit_fn *tick)
{
  LOCKED(&threads_lock);
  thread->due_left = (uint32_t)min_size(thread->due_left, thread->due_count);
  for (; most && thread->due_left; most--, thread->due_left--) {
    heap_cache_t *cache = thread->due_first;
    tick(&cache->magazines, cache->heap);
    due_cache_leave(thread, cache);
    if (magazines_any(&cache->magazines))
      due_cache_enter(thread, cache);
  }
}

/* ---- entering a cache ---- */

/* The cache is complete before it enters a chain, where other threads find it. Without memory for chains it is given back. */
static bool make_magazines(thread_t *thread, struct pool_heap *heap)
{
  LOCKED(&threads_lock);
  heap_cache_t *cache = metadata_take_kind(&caches);
  if (!cache)
    return false;
  cache->heap = heap;
  cache->owner = thread;
  magazines_init(&cache->magazines, &cache->cache, thread->number, &thread->allowance, true);
  bool room = widen_chains(thread);
  if (room) {
    chain_enter(thread, cache);
    due_cache_enter(thread, cache);
    thread->cache_count++;
  } else {
    metadata_give_kind(&caches, cache);
  }
  return room;
}

/* Returns the cache in the heap's slot if it needs no lock; the thread is then busy with it. No claim can be made meanwhile,
 * and the cache is in the list of reach, because a claim would have emptied the slot. */
static heap_cache_t *enter_slot(thread_t *thread, const struct pool_heap *heap)
{
  thread_set_busy(thread);
  if (is_in_slot(thread, heap)) {
    heap_cache_t *cache = CONTAINER_OF(thread->cache_at[cache_slot_of(heap)], heap_cache_t, cache);
    if (likely(cache->due))
      return cache;
  }
  thread_leave(thread);
  return NULL;
}

/* The slow way to the thread's cache. The thread becomes busy under the lock, so no claim is under way. It must not be busy
 * before, because a claiming thread waits under the lock until it is not. */
static heap_cache_t *enter_chain(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach)
{
  LOCKED(&threads_lock);
  heap_cache_t *cache = find_cache(thread, heap);
  if (cache && in_slot) {
    thread->cache_at[cache_slot_of(heap)] = &cache->cache;
    struct pool_heap *slot = reach ? within_reach(heap) : heap;
    store_slot(thread, cache_slot_of(heap), thread->counts ? while_counting(slot) : slot);
  }
  if (cache && reach)
    reach_enter(reach, cache);
  if (cache && !cache->due)
    due_cache_enter(thread, cache);
  if (cache)
    thread_set_busy(thread);
  return cache;
}

magazines_t *thread_enter(thread_t *thread, struct pool_heap *heap, bool in_slot, reach_list_t *reach)
{
  heap_cache_t *cache = enter_slot(thread, heap);
  while (!cache && !(cache = enter_chain(thread, heap, in_slot, reach)))
    if (!make_magazines(thread, heap))
      return NULL;
  return &cache->magazines;
}

/* ---- reaching into other threads ---- */

/* The empty slot sends the owner to the slow path. */
static void claim(claim_t **claims, heap_cache_t *cache)
{
  empty_slot(cache->owner, cache->heap);
  claim_push(claims, &cache->claim, &cache->owner->busy);
}

/* An owner may be busy while it waits for a bin's lock, which no claiming thread holds here. A cache of a thread that stays
 * busy stays in the list. */
static void flush_claimed(claim_t *claims, threads_visit_fn *flush)
{
  for (claim_t *claim = claims_settle(claims, 0); claim; claim = claim->next) {
    heap_cache_t *cache = CONTAINER_OF(claim, heap_cache_t, claim);
    flush(&cache->magazines, cache->heap);
    reach_leave(cache);
  }
}

void threads_reach(reach_list_t *reach, threads_visit_fn *flush)
{
  claim_t *claims = NULL;
  if (os_single_threaded() || !threads_can_be_reached || !__atomic_load_n(&reach->first, __ATOMIC_RELAXED))
    return;
  LOCKED(&threads_lock);
  for (heap_cache_t *cache = reach->first, *next; cache; cache = next) {
    next = cache->reach_next;
    /* A lost thread may have been exchanging its magazines, so they are never flushed. */
    if (cache->owner->is_lost)
      reach_leave(cache);
    else if (cache->owner != thread_self)
      claim(&claims, cache);
  }
  flush_claimed(claims, flush);
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

bool threads_reach_unused_of(thread_t *first, unsigned looks, threads_visit_fn *flush)
{
  claim_t *claims = NULL;
  for (heap_cache_t *cache = NULL; (cache = each_within_reach(first, cache)) != NULL;)
    if (cache_is_unused(cache, looks))
      claim(&claims, cache);
  flush_claimed(claims, flush);
  return each_within_reach(first, NULL) != NULL;
}

/* ---- allowances ---- */

allowance_t allowance_of_nobody = {.left = PTRDIFF_MAX / 2, .allowed = PTRDIFF_MAX / 2};

enum { LIMIT_SHARE = 32 }; /* the rest of the limit is for the program's memory */

/* These are bounds that publish nothing, so every access is relaxed. */
static size_t budget = CACHE_BYTES_DEFAULT, share = CACHE_BYTES_DEFAULT, granted;

void allowances_init(size_t bytes)
{
  budget = min_size(bytes, os_memory_limit == SIZE_MAX ? SIZE_MAX : os_memory_limit / LIMIT_SHARE);
  allowances_divide(1);
}

size_t allowances_budget(void) { return budget; }

void allowances_divide(size_t threads)
{
  __atomic_store_n(&share, max_size(budget / max_size(threads, 1), ALLOWANCE_LEAST), __ATOMIC_RELAXED);
}

size_t allowance_share(void) { return __atomic_load_n(&share, __ATOMIC_RELAXED); }
size_t allowances_granted(void) { return __atomic_load_n(&granted, __ATOMIC_RELAXED); }

static void change(allowance_t *allowance, ptrdiff_t by)
{
  allowance->allowed += (size_t)by;
  allowance->left += by;
  bool tight = threads_are_many() || allowance->allowed / ALLOWANCE_MAGAZINE < MAGAZINE_BYTES_MOST;
  __atomic_store_n(&allowance->tight, tight, __ATOMIC_RELAXED);
}

/* Steps shrink as the budget is spent, so that late threads get a part of it. */
static size_t step(size_t spent)
{
  size_t unspent = budget - min_size(budget, spent);
  return max_size(min_size(allowance_share(), unspent) / ALLOWANCE_STEPS, ALLOWANCE_LEAST);
}

void allowance_end(allowance_t *allowance) { __atomic_fetch_sub(&granted, allowance->allowed, __ATOMIC_RELAXED); }

void allowances_forget_others(const allowance_t *own) { __atomic_store_n(&granted, own ? own->allowed : 0, __ATOMIC_RELAXED); }

bool allowance_grow(allowance_t *allowance)
{
  size_t spent = allowances_granted(), more;
  do {
    more = step(spent);
    if (spent + more > budget || allowance->allowed + more > allowance_share())
      return false;
  } while (!__atomic_compare_exchange_n(&granted, &spent, spent + more, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  change(allowance, (ptrdiff_t)more);
  return true;
}

void allowance_begin(allowance_t *allowance)
{
  *allowance = (allowance_t){0};
  if (allowance_grow(allowance))
    return;
  __atomic_fetch_add(&granted, ALLOWANCE_LEAST, __ATOMIC_RELAXED);
  change(allowance, ALLOWANCE_LEAST);
}

void allowance_shrink(allowance_t *allowance)
{
  size_t most = allowance_share(), has = allowance->allowed, keeps = has,
         less = max_size(has / ALLOWANCE_STEPS, ALLOWANCE_LEAST);
  if (allowance_left(allowance) > (ptrdiff_t)(2 * less))
    keeps = max_size(has - less, ALLOWANCE_LEAST);
  keeps = min_size(keeps, most);
  __atomic_fetch_sub(&granted, has - keeps, __ATOMIC_RELAXED);
  change(allowance, (ptrdiff_t)keeps - (ptrdiff_t)has);
}
