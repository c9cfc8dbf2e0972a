/* SPDX-License-Identifier: MIT
 * C and T: threads, and the magazines they have. */
#include "check/parts.h"
#include "heap/heap.h"
#include <stddef.h>

/* C2, of one class: as many full magazines as counted. The count bounds the walk. */
static void check_stock(const bin_t *bin, const stock_t *stock)
{
  size_t count = 0;
  for (void **magazine = stock->full; magazine; magazine = magazine_below(magazine), count++) {
    expect(count < stock->count, "C2", "more magazines in a stock than counted, or a cycle", magazine);
    expect(census_entries(bin, magazine + MAGAZINE_WORDS - 1, "C1") > 0, "C2", "a magazine in a stock is not full", magazine);
  }
  expect_count(stock->count, count, "C2", "magazines in the stock");
  check_empties(stock->empties);
}

/* C1, of the loaded magazine. Its top entry stands beside it. */
static void check_loaded(const bin_t *bin, const loaded_t *loaded)
{
  void **slot = loaded->below;
  if (slot == MAGAZINE_SENTINEL) {
    expect(!loaded->top, "C1", "an entry without a magazine", loaded->top);
    return;
  }
  if (!loaded->top) {
    bool ends = slot == magazine_of(slot + 1) || !slot[0];
    expect(ends && !slot[1], "C1", "an empty magazine has no NULL at its floor, and none below", slot);
    return;
  }
  census_block(bin, loaded->top, "C1");
  census_entries(bin, slot, "C1");
}

/* A class without magazines must have none loaded either, or the fast path would serve blocks that no bin knows of. */
static void check_magazines(const heap_t *heap, const magazines_t *magazines)
{
  for (unsigned c = 0; c <= CLASS_CACHED; c++) {
    const loaded_t *loaded = &magazines->cache->of[c];
    if (c && heap->bins[c] && heap->bins[c]->cached) {
      check_loaded(heap->bins[c], loaded);
      check_stock(heap->bins[c], &magazines->of[c]);
      expect(magazines_count(magazines, c) <= magazines_most(magazines, heap->bins[c]), "C2",
             "magazines with more blocks than they may have", loaded);
    } else {
      expect(!loaded->top && loaded->below == MAGAZINE_SENTINEL && !magazines->of[c].full, "C1",
             "a magazine of a class that has none", loaded);
    }
  }
}

/* Magazines of lost threads are left out: their threads may have had a block in their hands. */
void check_magazines_of_heap(const heap_t *heap)
{
  for (thread_t *thread = threads_first(); thread; thread = thread->next) {
    if (heap == &default_heap)
      check_magazines(heap, &thread->default_magazines);
    for (const heap_cache_t *cache = NULL; (cache = thread_next_cache(thread, cache)) != NULL;)
      if (cache->heap == heap)
        check_magazines(heap, &cache->magazines);
  }
}

/* The list of heaps is walked instead of reading the mark: a wrong pointer could lead anywhere. */
static bool is_heap(const heap_t *wanted)
{
  heap_t *heap = heaps_first();
  while (heap && heap != wanted)
    heap = heap->next;
  return heap != NULL;
}

static bool has_cache(const thread_t *thread, const heap_t *heap, const cache_t *cache)
{
  const magazines_t *magazines = thread_magazines_if_any(thread, heap);
  return magazines && magazines->cache == cache;
}

static const heap_cache_t *cache_at(const cache_t *cache)
{
  return (const heap_cache_t *)((const char *)cache - offsetof(heap_cache_t, cache));
}

/* What a thread has of other heaps is found in four ways, which must agree: by its chains, by its list of due caches, by the
 * heap's list of caches within reach, and by its slots. */
static void check_caches(const thread_t *thread)
{
  size_t caches = 0, due = 0;
  for (const heap_cache_t *cache = NULL; (cache = thread_next_cache(thread, cache)) != NULL; caches++) {
    expect(is_heap(cache->heap), "thread.chains", "a cache of a heap that is gone", cache->heap);
    expect(thread_magazines_if_any(thread, cache->heap) == &cache->magazines, "thread.chains",
           "two caches of one heap, or one in a wrong chain", cache->heap);
    expect(!cache->reach_link || *cache->reach_link == cache, "heap.reach", "the list does not lead back", cache);
    expect(cache->reach_link || !(cache->heap->flags & HEAP_WITHIN_REACH) || !magazines_any(&cache->magazines), "heap.reach",
           "what nobody will reach for", cache->heap);
    expect(cache->due || !magazines_any(&cache->magazines), "thread.due_first", "a cache that no census will look at",
           cache->heap);
  }
  expect_count(thread->cache_count, caches, "thread.chains", "caches of heaps");
  for (const heap_cache_t *cache = thread->due_first; cache; cache = cache->due_next, due++) {
    expect(cache->due && (cache->due_next ? cache->due_next->due_previous : thread->due_last) == cache, "thread.due_first",
           "the list does not lead back", cache);
    expect(thread_magazines_if_any(thread, cache->heap) == &cache->magazines, "thread.due_first",
           "a cache that the thread has not", cache);
  }
  expect_count(thread->due_count, due, "thread.due_first", "caches that are due");
  for (size_t i = 0; i < CACHE_SLOTS; i++) {
    uintptr_t at = (uintptr_t)thread->heap_at[i];
    heap_t *heap = (heap_t *)(at & ~(uintptr_t)3);
    if (heap && thread->heap_at[i] != NOT_A_HEAP) {
      expect(cache_slot_of(heap) == i && has_cache(thread, heap, thread->cache_at[i]), "thread.heap_at",
             "a place without its cache", heap);
      expect((thread->counts != 0) == ((at & 2) != 0), "thread.heap_at", "a place that the fast paths may or may not find",
             heap);
      expect(!!(heap->flags & HEAP_WITHIN_REACH) == (at & 1), "thread.heap_at", "a place that others may or may not reach into",
             heap);
      expect(!(heap->flags & HEAP_WITHIN_REACH) || cache_at(thread->cache_at[i])->reach_link, "heap.reach",
             "a place that nobody will reach into", heap);
    }
  }
}

static size_t counted_in(const magazines_t *magazines, heap_t *heap)
{
  size_t bytes = 0;
  FOR_EACH_BIN(bin, heap)
    if (bin_has_magazines(bin))
      bytes += magazines_counted(magazines, bin);
  return bytes;
}

/* W2. */
static void check_allowance(const thread_t *thread)
{
  const allowance_t *allowance = &thread->allowance;
  size_t own = counted_in(&thread->default_magazines, &default_heap) + (thread_spare_units(&thread->spares) << UNIT_LOG2),
         heaps = 0;
  for (heap_cache_t *cache = NULL; (cache = thread_next_cache(thread, cache)) != NULL;)
    heaps += counted_in(&cache->magazines, cache->heap);
  expect_count((size_t)((ptrdiff_t)allowance->allowed - allowance->left), own, "W2", "bytes in caches of the default heap");
  expect_count(allowance->of_heaps, heaps, "W2", "bytes in caches of other heaps");
}

/* T1, W1. The sentinel must still be empty: every class without a magazine pops from it. */
void check_threads(void)
{
  size_t threads = 0, allowed = 0;
  bool self = !thread_is_usable(thread_self);
  const thread_t *previous = NULL;
  for (thread_t *thread = threads_first(); thread; previous = thread, thread = thread->next, threads++) {
    expect(thread->previous == previous, "T1", "the list of threads does not lead back", thread);
    expect(thread_is_usable(thread), "T1", "a thread that has ended is in the list", thread);
    self |= thread == thread_self;
    check_caches(thread);
    check_allowance(thread);
    allowed += thread->allowance.allowed;
  }
  expect_count(allowances_granted(), allowed, "W1", "bytes that threads are allowed");
  expect(self, "T1", "the calling thread is not in the list", thread_self);
  expect_count(bin_threads, max_size(threads, 1), "T1", "threads");
  for (unsigned i = 0; i < MAGAZINE_WORDS; i++)
    expect(!magazine_sentinel[i], "C1", "something is in the magazine that is empty and full", magazine_sentinel[i]);
}
