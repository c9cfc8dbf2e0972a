/* SPDX-License-Identifier: MIT
 *
 * At exit the live blocks of all heaps are searched for from what a program can still reach: all memory of the process that is
 * not the manager's, so its data, the stacks, what is local to threads, and what another allocator or the program itself has
 * mapped. A word that is an address in a block leads to it, whatever the word is meant to be, and the block may lead to others.
 * What is not found is lost: no pointer to it was left, or only such as are in lost blocks (H.-J. Boehm and M. Weiser, "Garbage
 * collection in an uncooperative environment", 1988).
 *
 * The manager's records know each block, and so its own memory is passed over; likewise the stack of this search. */
#include "heap/leaks.h"
#include "heap/fork.h"
#include "heap/report.h"
#include "heap/walled.h"
#include "misuse.h"
#include "option.h"
#include "space/class_map.h"
#include "space/huge.h"
#include <string.h>

enum { BUFFER = 64 << 10, RANGES_SPARE = 64, BLOCKS_SPARE = 64 };

/* ---- memory for the moment ---- */

static void *take_array(size_t count, size_t size)
{
  return count <= PTRDIFF_MAX / 2 / size ? os_map(round_up(max_size(count, 1) * size, os_page_size()), os_page_size()) : NULL;
}

static void give_array(void *array, size_t count, size_t size)
{
  if (array)
    os_unmap(array, round_up(max_size(count, 1) * size, os_page_size()));
}

/* ---- what is live ---- */

typedef struct live {
  uintptr_t start;
  size_t size;
  const heap_t *heap;
  site_t site;
  bool reached, said;
} live_t;

typedef struct span {
  uintptr_t start, end;
} span_t;

typedef struct search {
  live_t *blocks;
  size_t room, count;
  uint32_t *to_scan; /* of reached blocks */
  size_t scans;
  span_t *passed; /* by address: what is no root */
  size_t passed_room, passed_count;
  uintptr_t stack; /* an address in this thread's, from where on it is the program's */
  uintptr_t *buffer;
  const heap_t *heap; /* whose blocks are being added */
  bool failed;        /* some memory could not be looked at */
} search_t;

static bool count_block(const pool_block_t *block, site_t site, void *context)
{
  (void)block, (void)site;
  ++*(size_t *)context;
  return true;
}

static bool add_live(const pool_block_t *block, site_t site, void *context)
{
  search_t *s = context;
  if (s->count < s->room)
    s->blocks[s->count++] = (live_t){(uintptr_t)block->start, max_size(block->size, 1), s->heap, site, false, false};
  return s->count < s->room;
}

/* One thread's heap is looked at where that is the only thread; nobody caches blocks of the others while leaks are wanted. */
static void each_heap(void (*visit)(heap_t *heap, bool beside, search_t *s), search_t *s)
{
  bool alone = os_single_threaded() && !fork_lost_threads;
  lock_acquire(&heaps_lock);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (!heap->lock.solo || alone)
      visit(heap, !alone, s);
  lock_release(&heaps_lock);
}

static void count_heap(heap_t *heap, bool beside, search_t *s)
{
  heap_walk_sites(heap, beside, count_block, &s->room);
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
  heap_walk_sites(heap, beside, add_live, s);
  if (heap_is_guest(heap))
    pass(s, (uintptr_t)heap->region.start, heap->region.size);
}

/* ---- in order of addresses ---- */

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
DEFINE_SORT(sort_spans, span_t, start)

/* The block around an address; NULL: none. The innermost, where a heap lives in a block of another. */
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

/* A page that cannot be read is left out. */
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

/* Of this thread's stack what is above the search, and elsewhere what is between the manager's. */
static void look_at_root(uintptr_t start, uintptr_t end, void *context)
{
  search_t *s = context;
  if (s->stack >= start && s->stack < end)
    start = s->stack;
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

/* Everything that was mapped for the search is passed over, and what is the manager's. */
static void pass_own(search_t *s)
{
  size_t size;
  char *metadata = window_metadata(&size);
  pass(s, (uintptr_t)metadata, size);
  pass(s, class_window.start, window_slots_open() << SLOT_LOG2);
  pass(s, (uintptr_t)s->blocks, s->room * sizeof *s->blocks);
  pass(s, (uintptr_t)s->to_scan, s->room * sizeof *s->to_scan);
  pass(s, (uintptr_t)s->passed, s->passed_room * sizeof *s->passed);
  pass(s, (uintptr_t)s->buffer, BUFFER);
  walled_visit_notes(pass_notes, s);
  pass_mappings(s);
  sort_spans(s->passed, s->passed_count);
}

static bool begin(search_t *s)
{
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

static void end_search(search_t *s)
{
  give_array(s->blocks, s->room, sizeof *s->blocks);
  give_array(s->to_scan, s->room, sizeof *s->to_scan);
  give_array(s->passed, s->passed_room, sizeof *s->passed);
  give_array(s->buffer, BUFFER, 1);
}

/* False: the system does not show the process its memory, and nothing can be said of what is reached. */
static bool run(search_t *s)
{
  uintptr_t word = 0;
  pass_own(s);
  if (!os_copy_memory(&word, (uintptr_t)&s->count, sizeof word) || !os_visit_memory(look_at_root, s))
    return false;
  while (s->scans) {
    const live_t *live = &s->blocks[s->to_scan[--s->scans]];
    look_at(s, live->start, live->start + live->size);
  }
  return true;
}

/* ---- what is said ---- */

static void say_leaks(const heap_t *heap, const char *how, tallies_t *tallies, size_t reached, size_t reached_bytes,
                      void (*write)(const char *text, size_t length))
{
  text_t text = report_begin(report_places(tallies, SITES_ON_A_LINE));
  if (!text.buffer)
    return;
  text.size--; /* for the end of the line */
  text_string(&text, "tidepool: ");
  say_heap_name(&text, heap);
  text_string(&text, ENDED_WITH);
  if (tallies->blocks) {
    say_blocks(&text, tallies->blocks, tallies->bytes);
    text_string(&text, how);
    if (heap->headed) {
      text_string(&text, ": ");
      say_tallies(&text, tallies);
    }
  }
  if (reached) {
    text_string(&text, tallies->blocks ? "; " : "");
    say_blocks(&text, reached, reached_bytes);
    text_string(&text, tallies->blocks ? " more can be reached" : " live, all of which can be reached");
  }
  size_t length = min_size(text.length, text.size++);
  text.buffer[length++] = '\n';
  write(text.buffer, length);
  report_end(&text);
}

/* Of the default heap, which a C library and others use as well, what is reached is said only beside what is lost. True: a line
 * was written. */
static bool say_heap_at_exit(search_t *s, size_t first, bool searched)
{
  const heap_t *heap = s->blocks[first].heap;
  tallies_t lost = {0};
  size_t reached = 0, reached_bytes = 0;
  for (size_t i = first; i < s->count; i++) {
    live_t *live = &s->blocks[i];
    if (live->heap != heap)
      continue;
    live->said = true;
    if (live->reached) {
      reached++;
      reached_bytes += live->size;
    } else {
      tallies_add(&lost, live->site, live->size);
    }
  }
  bool told = lost.blocks || !heap_is_default(heap);
  if (told)
    say_leaks(heap, searched ? " lost" : " live", &lost, reached, reached_bytes, os_write_kept_error);
  tallies_end(&lost);
  return told;
}

static void say_what_was_not_searched(const search_t *s, bool searched)
{
  char line[192];
  text_t text = {line, sizeof line, 0};
  unsigned threads = os_threads();
  if (searched && threads == 1 && !s->failed)
    return;
  text_string(&text, "tidepool: leaks: ");
  if (!searched)
    text_string(&text, "the memory of the process cannot be searched for pointers");
  else if (s->failed)
    text_string(&text, "some memory of the process could not be read");
  else if (threads) {
    text_number(&text, threads - 1);
    text_string(&text, threads == 2 ? " other thread was running, whose" : " other threads were running, whose");
    text_string(&text, " registers were not searched");
  } else
    text_string(&text, "registers of other threads, if there are any, were not searched");
  text_char(&text, '\n');
  os_write_kept_error(line, min_size(text.length, sizeof line));
}

/* A function of its own: above its frame is what its caller has saved of registers. */
NOINLINE static void search_from(void)
{
  search_t s = {.stack = (uintptr_t)__builtin_frame_address(0)};
  if (begin(&s)) {
    bool searched = run(&s), told = false;
    for (size_t i = 0; i < s.count; i++)
      if (!s.blocks[i].said)
        told |= say_heap_at_exit(&s, i, searched);
    if (told)
      say_what_was_not_searched(&s, searched);
  }
  end_search(&s);
}

void leaks_at_exit(void)
{
  __builtin_unwind_init(); /* what registers hold may be all that leads to a block */
  search_from();
  __asm__ volatile(""); /* no tail call */
}

static bool add_tally(const pool_block_t *block, site_t site, void *context)
{
  tallies_add(context, site, block->size);
  return true;
}

void leaks_at_destroy(heap_t *heap)
{
  tallies_t live = {0};
  heap_walk_sites(heap, false, add_tally, &live);
  if (live.blocks)
    say_leaks(heap, " live", &live, 0, 0, os_write_error);
  tallies_end(&live);
}
