/* SPDX-License-Identifier: MIT
 *
 * The live blocks of all heaps are searched for at exit, from all memory that the program can still reach: all memory of the
 * process that is not the manager's. That includes its data, stacks, thread-local data, and mappings of other allocators and of
 * the program. A word that is an address in a block leads to it, whatever the word means, and the block may lead to others.
 * Blocks that are not found are lost: pointers to them are gone, or only in lost blocks (H.-J. Boehm and M. Weiser, "Garbage
 * collection in an uncooperative environment", 1988).
 *
 * The manager's records know each block, so its own memory is skipped. So is the stack of this search.
 *
 * Threads that still run move their pointers while memory is read, and free listed blocks. The search then runs twice, and only
 * blocks that are unchanged at the end are lost. */
#include "debug/leak_search.h"
#include "debug/guard_pages.h"
#include "debug/sample_pages.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "heap/tick.h"
#include "space/class_map.h"
#include "space/huge.h"
#include <string.h>

enum {
  BUFFER = 64 << 10,
  RANGES_SPARE = 64,
  BLOCKS_SPARE = 64,
  LONG_BLOCK = 1 << 20,  /* the system is asked which of its pages were touched */
  STACK_MARGIN = 1 << 10 /* stack of functions called from where note_stack() is */
};

/* ---- temporary memory ---- */

static void *take_array(size_t count, size_t size)
{
  return count <= PTRDIFF_MAX / 2 / size ? os_map(round_up(max_size(count, 1) * size, os_page_size()), os_page_size()) : NULL;
}

static void give_array(void *array, size_t count, size_t size)
{
  if (array)
    os_unmap(array, round_up(max_size(count, 1) * size, os_page_size()));
}

/* ---- live blocks ---- */

static bool count_block(const walked_t *walked, void *context)
{
  (void)walked;
  ++*(size_t *)context;
  return true;
}

/* Called where the stack is deep and may hold addresses of blocks that the search has put there. */
static void note_stack(search_t *s)
{
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (here - STACK_MARGIN < s->depth)
    s->depth = here - STACK_MARGIN;
}

static bool add_live(const walked_t *walked, void *context)
{
  search_t *s = context;
  const pool_block_t *block = &walked->block;
  note_stack(s);
  if (s->count < s->room)
    s->blocks[s->count++] = (live_t){.start = (uintptr_t)block->start,
                                     .size = max_size(block->size, 1),
                                     .heap = s->heap,
                                     .number = walked->number,
                                     .site = walked->site,
                                     .of_guest = heap_is_guest(s->heap)};
  return s->count < s->room;
}

/* Single-threaded heaps are visited if no other thread is left. No thread caches blocks of the others during a leak search. */
static void each_heap(void (*visit)(heap_t *heap, bool beside, search_t *s), search_t *s)
{
  bool alone = helpers_are_alone() && !fork_lost_threads;
  lock_acquire(&heaps_lock);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (!heap->lock.solo || alone)
      visit(heap, !alone, s);
  lock_release(&heaps_lock);
}

static void count_heap(heap_t *heap, bool beside, search_t *s)
{
  heap_walk(heap, beside ? WALK_BESIDE : WALK_ALONE, count_block, &s->room);
  s->passed_room++;
}

static void pass(search_t *s, uintptr_t start, size_t size)
{
  if (s->passed_count < s->passed_room && size)
    s->passed[s->passed_count++] = (span_t){start, start + size};
}

static void add_heap(heap_t *heap, bool beside, search_t *s)
{
  s->heap = heap;
  heap_walk(heap, beside ? WALK_BESIDE : WALK_ALONE, add_live, s);
  if (heap_is_guest(heap))
    pass(s, (uintptr_t)heap->region.start, heap->region.size);
}

/* ---- sorting ---- */

#define DEFINE_SORT(name, type, key) \
  static void name##_sink(type *of, size_t i, size_t count) \
  { \
    type moved = of[i]; \
    for (size_t child; (child = 2 * i + 1) < count; i = child) { \
      if (child + 1 < count && of[child + 1].key > of[child].key) \
        child++; \
      if (of[child].key <= moved.key) \
        break; \
      of[i] = of[child]; \
    } \
    of[i] = moved; \
  } \
  static void name(type *of, size_t count) \
  { \
    for (size_t i = count / 2; i--;) \
      name##_sink(of, i, count); \
    while (count > 1) { \
      type last = of[--count]; \
      of[count] = of[0]; \
      of[0] = last; \
      name##_sink(of, 0, count); \
    } \
  }

DEFINE_SORT(sort_live, live_t, start)
DEFINE_SORT(sort_by_heap, live_t, heap)
DEFINE_SORT(sort_spans, span_t, start)

/* Returns the block around an address, the innermost if a heap lives in a block of another; NULL: none. */
static live_t *live_around(const search_t *s, uintptr_t address)
{
  size_t from = 0, to = s->count;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (s->blocks[middle].start <= address)
      from = middle + 1;
    else
      to = middle;
  }
  live_t *live = from ? &s->blocks[from - 1] : NULL;
  return live && address - live->start < live->size ? live : NULL;
}

/* ---- the search ---- */

static void look_at_words(search_t *s, const uintptr_t *words, size_t count)
{
  uintptr_t first = s->blocks[0].start, end = s->blocks[s->count - 1].start + s->blocks[s->count - 1].size;
  for (size_t i = 0; i < count; i++) {
    if (words[i] < first || words[i] >= end)
      continue;
    live_t *live = live_around(s, words[i]);
    if (live && !live->reached) {
      live->reached = true;
      s->to_scan[s->scans++] = (uint32_t)(live - s->blocks);
    }
  }
}

static void look_at(search_t *s, uintptr_t start, uintptr_t end)
{
  start = round_up(start, sizeof(uintptr_t));
  for (size_t step; start < end && end - start >= sizeof(uintptr_t); start += step) {
    step = round_down(min_size(end - start, BUFFER), sizeof(uintptr_t));
    if (!os_copy_memory(s->buffer, start, step)) {
      step = min_size(step, os_page_size() - (start & (os_page_size() - 1)));
      if (!os_copy_memory(s->buffer, start, step)) {
        s->failed = true;
        continue;
      }
    }
    look_at_words(s, s->buffer, step / sizeof(uintptr_t));
  }
}

static void look_between_own(search_t *s, uintptr_t start, uintptr_t end)
{
  for (size_t i = 0; i < s->passed_count && start < end; i++) {
    const span_t *span = &s->passed[i];
    if (span->end <= start || span->start >= end)
      continue;
    if (span->start > start)
      look_at(s, start, span->start);
    start = span->end;
  }
  if (start < end)
    look_at(s, start, end);
}

/* Only the part of this thread's stack above the search counts: below it are words of calls that have returned. Static data may
 * lie below a stack, so only what the search has used is skipped, or all in the first thread's stack. */
static void look_at_root(uintptr_t start, uintptr_t end, bool is_stack, void *context)
{
  search_t *s = context;
  note_stack(s);
  uintptr_t passed = is_stack && s->stack >= start && s->stack < end ? start : s->depth;
  if (start < passed)
    look_between_own(s, start, passed < end ? passed : end);
  if (s->stack < end)
    look_between_own(s, start > s->stack ? start : s->stack, end);
}

static void look_at_touched(uintptr_t start, uintptr_t end, bool is_stack, void *context)
{
  search_t *s = context;
  (void)is_stack;
  look_at(s, start > s->block.start ? start : s->block.start, end < s->block.end ? end : s->block.end);
}

/* A caller's memory may be shared, and then other processes may have touched its pages. */
static void look_at_block(search_t *s, const live_t *live)
{
  uintptr_t page = os_page_size();
  s->block = (span_t){live->start, live->start + live->size};
  if (live->size < LONG_BLOCK || live->of_guest)
    look_at(s, s->block.start, s->block.end);
  else
    os_visit_touched(round_down(s->block.start, page), round_up(s->block.end, page), look_at_touched, s);
}

static void pass_mappings(search_t *s)
{
  lock_acquire(&huge_lock);
  for (range_t *range = range_at_or_above(huge_ranges, 0); range; range = range_at_or_above(huge_ranges, range->start + 1))
    pass(s, range->start, range->size);
  lock_release(&huge_lock);
}

static size_t count_mappings(void)
{
  size_t count = 0;
  lock_acquire(&huge_lock);
  for (range_t *range = range_at_or_above(huge_ranges, 0); range; range = range_at_or_above(huge_ranges, range->start + 1))
    count++;
  lock_release(&huge_lock);
  return count;
}

static void pass_notes(uintptr_t start, size_t size, void *context) { pass(context, start, size); }

/* Skips everything that was mapped for the search, and the manager's memory. */
static void pass_own(search_t *s)
{
  size_t size;
  char *metadata = window_metadata(&size);
  pass(s, (uintptr_t)metadata, size);
  char *pages = sample_pages_stretch(&size);
  pass(s, (uintptr_t)pages, size);
  pass(s, class_window.start, window_slots_open() << SLOT_LOG2);
  pass(s, (uintptr_t)s->blocks, s->room * sizeof *s->blocks);
  pass(s, (uintptr_t)s->to_scan, s->room * sizeof *s->to_scan);
  pass(s, (uintptr_t)s->passed, s->passed_room * sizeof *s->passed);
  pass(s, (uintptr_t)s->buffer, BUFFER);
  guard_pages_visit_notes(pass_notes, s);
  pass_mappings(s);
  sort_spans(s->passed, s->passed_count);
}

bool leak_search_begin(search_t *s)
{
  s->depth = s->stack;
  each_heap(count_heap, s);
  if (!s->room)
    return false;
  s->room += s->room / 8 + BLOCKS_SPARE;
  s->passed_room += count_mappings() + RANGES_SPARE;
  s->blocks = take_array(s->room, sizeof *s->blocks);
  s->to_scan = take_array(s->room, sizeof *s->to_scan);
  s->passed = take_array(s->passed_room, sizeof *s->passed);
  s->buffer = take_array(BUFFER, 1);
  if (!s->blocks || !s->to_scan || !s->passed || !s->buffer || s->room > UINT32_MAX)
    return false;
  each_heap(add_heap, s);
  sort_live(s->blocks, s->count);
  return s->count != 0;
}

void leak_search_end(search_t *s)
{
  give_array(s->blocks, s->room, sizeof *s->blocks);
  give_array(s->to_scan, s->room, sizeof *s->to_scan);
  give_array(s->passed, s->passed_room, sizeof *s->passed);
  give_array(s->buffer, BUFFER, 1);
}

static bool look_everywhere(search_t *s)
{
  if (!os_visit_memory(look_at_root, s))
    return false;
  while (s->scans)
    look_at_block(s, &s->blocks[s->to_scan[--s->scans]]);
  return true;
}

/* Finds a pointer that was moved from unsearched to searched memory, unless it is moved again. */
static void look_once_more(search_t *s)
{
  for (size_t i = 0; i < s->count; i++)
    if (s->blocks[i].reached)
      look_at_block(s, &s->blocks[i]);
  look_everywhere(s);
}

/* Returns whether the block was freed since it was listed, or its heap destroyed. Another block may be there. */
static bool is_gone(const live_t *live)
{
  located_t at = heap_locate((const void *)live->start);
  return !at.live || at.heap != live->heap || (uintptr_t)at.start != live->start || max_size(at.size, 1) != live->size ||
         at.head.number != live->number;
}

static bool mark_gone(search_t *s)
{
  bool lost = false;
  for (size_t i = 0; i < s->count; i++) {
    live_t *live = &s->blocks[i];
    live->gone = !live->reached && is_gone(live);
    lost |= !live->reached && !live->gone;
  }
  return lost;
}

/* Threads that export figures have no blocks. This library's has ended, but another copy of the library may have one. */
static unsigned threads_of_program(void)
{
  unsigned all = os_threads();
  return all ? all - (unsigned)min_size(all - 1, os_started_threads()) : 0;
}

static bool run(search_t *s)
{
  uintptr_t word = 0;
  pass_own(s);
  s->threads = threads_of_program();
  if (!os_copy_memory(&word, (uintptr_t)&s->count, sizeof word) || !look_everywhere(s))
    return false;
  if (s->threads != 1 && mark_gone(s)) {
    look_once_more(s);
    mark_gone(s);
  }
  return true;
}

bool leak_search_find(search_t *s)
{
  bool searched = run(s);
  sort_by_heap(s->blocks, s->count);
  return searched;
}
