/* SPDX-License-Identifier: MIT */
#include "debug/profile.h"
#include "debug/guard_pages.h"
#include "debug/profile_text.h"
#include "debug/sample_pages.h"
#include "debug/sampling.h"
#include "heap/blocks.h"
#include "heap/large.h"
#include "option.h"
#include "os/tool.h"
#include <errno.h>

uint32_t profile_number;

/* ---- counting ---- */

static uint64_t draw_distance(void) { return sampling_gap(profile_sample_bytes()); }

COLD static void start_counting(thread_t *thread, uint32_t number)
{
  if (thread_start_counting(thread, number))
    thread->count_left = draw_distance();
}

COLD bool profile_let_go(thread_t *thread)
{
  bool goes = thread->counts && thread->counts != profile_under_way();
  if (goes) {
    thread_stop_counting(thread);
    thread->count_left = 0;
  }
  return !thread->counts;
}

/* A thread without a record draws each time. */
static bool profile_counts(thread_t *thread, size_t size)
{
  uint32_t number = profile_under_way();
  size += !size;
  if (!number)
    return false;
  if (!thread)
    return draw_distance() <= size;
  if (unlikely(thread->counts != number))
    start_counting(thread, number);
  if (unlikely(!thread->counts)) /* there is no memory for counting */
    return draw_distance() <= size;
  if (thread->count_left > size) {
    thread->count_left -= size;
    return false;
  }
  thread->count_left = draw_distance();
  return true;
}

/* ---- blocks ----
 *
 * A sample has the size of any block of its class: realloc() must treat it alike, or the samples that realloc() leaves in place
 * would not represent blocks in slabs. If blocks have heads, each realloc() moves them, and a sample has the requested size. */

/* No block fills its last page: programs keep pointers to its end, which must not lead a leak search to another block. */
static size_t pages_bytes(size_t size, size_t alignment)
{
  size_t page = os_page_size();
  return round_up(size + 1, page) + (alignment > page ? alignment : 0);
}

static bool take_in_pages(huge_standalone_t *of, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  (void)heap;
  size_t bytes = pages_bytes(size, alignment);
  char *start = sample_pages_take(bytes, zeroed);
  if (!start)
    return false;
  of->huge.range = (range_t){.start = (uintptr_t)start, .size = bytes};
  of->offset = round_up((uintptr_t)start, alignment) - (uintptr_t)start;
  of->asked = size;
  return true;
}

static void give_in_pages(const huge_standalone_t *of, const char *call)
{
  (void)call;
  profile_leave(of->huge.entry, huge_block(&of->huge));
  sample_pages_give(huge_start(&of->huge), huge_size(&of->huge));
}

static void cancel(profile_entry_t *entry)
{
  profile_cancel(entry);
  profile_write_if_asked();
}

static size_t largest_in_pages(size_t bytes) { return max_size(round_down(bytes, os_page_size()), 1) - 1; }

static const block_source_t pages_source = {
  .take = take_in_pages, .bytes = pages_bytes, .largest = largest_in_pages, .give = give_in_pages, .as_class = true};

/* Probes in the form that OpenTelemetry profilers expect. */
static void tell_of_sample(const void *block, size_t size)
{
  PROBE3(otel_memory, alloc, block, (uint64_t)size, sampling_weight(size, profile_sample_bytes()));
}

/* The entry is made first, because no stack is taken inside a gate. No thread can free the block before it has its entry. */
NOINLINE static void *take_in_profile(heap_t *heap, request_t *r, unsigned size_class)
{
  KEEPS_FRAME();
  profile_entry_t *entry = profile_enter(heap, r->size, origin_caller(r->by));
  profile_write_at_peak();
  if (!entry)
    return NULL;
  size_t size = heap_is_headed(heap) ? r->size : heap_block_size(heap, size_class);
  void *block = standalone_take(heap, &pages_source, r, size), *before;
  if (block && huge_note_entry(block, entry, &before))
    tell_of_sample(block, r->size);
  else
    cancel(entry);
  return block;
}

static void note_large(heap_t *heap, void *block, size_t size, const void *caller)
{
  KEEPS_FRAME();
  profile_entry_t *entry = profile_enter(heap, size, caller);
  profile_write_at_peak();
  if (!entry)
    return;
  if (large_note_entry(block, entry))
    tell_of_sample(block, size);
  else
    cancel(entry);
}

static bool is_sample(const heap_t *heap, const request_t *r)
{
  unsigned c = heap->flags & HEAP_CACHED ? heap_class_for(heap, r->size, r->alignment) : 0;
  return r->drawn || (settings.guard_sample && sample_is_due(sample_blocks(heap, c)));
}

/* A request is counted once, however often it is tried, and whichever heap of an overflow chain serves it. */
static bool is_for_profile(request_t *r)
{
  if (!r->counted) {
    r->counted = true;
    r->in_profile = profile_counts(thread_current(), r->size);
  }
  return r->in_profile;
}

/* A request without a class is served as usual and enters the profile afterwards. */
static void *take_watched(heap_t *heap, request_t *r)
{
  KEEPS_FRAME();
  if (r->together)
    return heap_take_plain(heap, r);
  guard_pages_load_if_wanted();
  unsigned size_class = heap_class_for(heap, size_with_head(heap, r), r->alignment);
  bool counts = is_for_profile(r);
  void *block = NULL;
  if (counts && size_class)
    block = take_in_profile(heap, r, size_class);
  else if (!counts && is_sample(heap, r))
    block = sample_take(heap, r);
  if (block)
    return block;
  block = heap_take_plain(heap, r);
  if (block && counts && !size_class)
    note_large(heap, block, r->size, origin_caller(r->by));
  return block;
}

void profile_note_resized(heap_t *heap, void *block, size_t size, const void *caller)
{
  KEEPS_FRAME();
  if (profile_counts(thread_current(), size))
    note_large(heap, block, size, caller);
  else
    large_note_entry(block, NULL);
}

/* ---- start and stop ---- */

/* Hides the spares while a profile runs, so that a thread that uses only spares begins to count. */
static void hide_spares(bool counts) { __atomic_store_n(&spare_size_at_once, counts ? 0 : SPARE_SIZE_MOST, __ATOMIC_RELAXED); }

void profile_watch_heap(heap_t *heap)
{
  bool watched = profile_under_way() || settings.guard_sample;
  if (!heap->region.kind && !heap->source && watched != (heap->take == take_watched))
    __atomic_store_n(&heap->take, watched ? take_watched : NULL, __ATOMIC_RELEASE);
}

static uint32_t next_number(void)
{
  static uint32_t last;
  last += 1 + (last == UINT32_MAX);
  return last;
}

/* The manager is coming up: only the default heap exists, and no thread has a record. */
void profile_start_first(void)
{
  profile_forget_lines(settings.sample_bytes ? settings.sample_bytes : PROFILE_SAMPLE_BYTES);
  slow_paths_are_observed = true;
  __atomic_store_n(&profile_number, next_number(), __ATOMIC_RELEASE);
  profile_watch_heap(&default_heap);
  hide_spares(true);
  profile_watch_signal();
}

/* The number is set before the heaps are told: a heap that is created meanwhile is told here or when it enters the list. */
int profile_start(uint64_t sample_bytes)
{
  os_load_stacks();
  lock_acquire(&heaps_lock);
  bool busy = profile_under_way() != 0;
  if (!busy) {
    profile_forget_lines(sample_bytes);
    __atomic_store_n(&profile_number, next_number(), __ATOMIC_RELEASE);
    __atomic_store_n(&slow_paths_are_observed, true, __ATOMIC_RELAXED);
    hide_spares(true);
    for (heap_t *heap = heaps_first(); heap; heap = heap->next)
      profile_watch_heap(heap);
  }
  lock_release(&heaps_lock);
  profile_write_if_asked();
  thread_t *thread = thread_current();
  if (!busy && thread)
    start_counting(thread, profile_under_way());
  return busy ? EBUSY : 0;
}

void profile_stop(void)
{
  lock_acquire(&heaps_lock);
  __atomic_store_n(&profile_number, 0, __ATOMIC_RELAXED);
  hide_spares(false);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    profile_watch_heap(heap);
  lock_release(&heaps_lock);
}
