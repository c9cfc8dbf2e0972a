/* SPDX-License-Identifier: MIT */
#include "debug/profile.h"
#include "debug/profile_text.h"
#include "debug/sample_pages.h"
#include "debug/sampling.h"
#include "heap/large.h"
#include "option.h"
#include "os/probe.h"
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
bool profile_counts(thread_t *thread, size_t size)
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

static bool take_in_pages(huge_apart_t *apart, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  (void)heap;
  size_t bytes = pages_bytes(size, alignment);
  char *start = sample_pages_take(bytes, zeroed);
  if (!start)
    return false;
  apart->huge.range = (range_t){.start = (uintptr_t)start, .size = bytes};
  apart->offset = round_up((uintptr_t)start, alignment) - (uintptr_t)start;
  apart->asked = size;
  return true;
}

static void give_in_pages(const huge_apart_t *apart, const char *call)
{
  (void)call;
  profile_leave(apart->huge.entry, huge_block(&apart->huge));
  sample_pages_give(huge_start(&apart->huge), huge_size(&apart->huge));
}

static void cancel(profile_entry_t *entry)
{
  profile_cancel(entry);
  profile_write_if_asked();
}

static size_t largest_in_pages(size_t bytes) { return max_size(round_down(bytes, os_page_size()), 1) - 1; }

static const apart_source_t pages_source = {
  .take = take_in_pages, .bytes = pages_bytes, .largest = largest_in_pages, .give = give_in_pages, .as_class = true};

/* Probes in the form that OpenTelemetry profilers expect. */
static void tell_of_sample(const void *block, size_t size)
{
  PROBE3(otel_memory, alloc, block, (uint64_t)size, sampling_weight(size, profile_sample_bytes()));
}

/* The entry is made first, because no stack is taken inside a gate. No thread can free the block before it has its entry. */
void *profile_take(heap_t *heap, size_t size, size_t alignment, const char *call, const void *caller, block_past_t *past,
                   size_t *usable)
{
  KEEPS_FRAME();
  profile_entry_t *entry = profile_enter(heap, size, caller);
  profile_write_at_peak();
  if (!entry)
    return NULL;
  *usable = heap_is_headed(heap) ? size : heap_block_size(heap, heap_class_for(heap, size, alignment));
  void *block = apart_take(heap, &pages_source, *usable, alignment, call, past), *before;
  if (block && huge_note_entry(block, entry, &before))
    tell_of_sample(block, size);
  else
    cancel(entry);
  return block;
}

void profile_note_large(heap_t *heap, void *block, size_t size, const void *caller)
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

void profile_note_resized(heap_t *heap, void *block, size_t size, const void *caller)
{
  KEEPS_FRAME();
  if (profile_counts(thread_current(), size))
    profile_note_large(heap, block, size, caller);
  else
    large_note_entry(block, NULL);
}

/* ---- start and stop ---- */

/* Hides the spares while a profile runs, so that a thread that uses only spares begins to count. */
static void hide_spares(bool counts) { __atomic_store_n(&spare_size_at_once, counts ? 0 : SPARE_SIZE_MOST, __ATOMIC_RELAXED); }

static void set_apart(heap_t *heap, bool counts)
{
  if (!heap->region.kind && !heap->apart_source)
    __atomic_store_n(&heap->apart, counts || settings.guard_sample, __ATOMIC_RELAXED);
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
  set_apart(&default_heap, true);
  hide_spares(true);
  profile_watch_signal();
}

void profile_begin_heap(heap_t *heap) { set_apart(heap, true); }

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
      set_apart(heap, true);
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
    set_apart(heap, false);
  lock_release(&heaps_lock);
}
