/* SPDX-License-Identifier: MIT
 * A run that cannot grow in place moves: mremap() moves its page tables and reads no byte. Moved pages are a mapping of their
 * own, and Linux limits the mappings of a process. So moved units are counted, and beyond a bound runs are copied. */
#include "os/lock.h"
#include "os/os.h"
#include "space/space.h"
#include <string.h>

enum {
  MOVE_LEAST_UNITS = 16,  /* 1 MiB: copying less takes about the same time */
  MOVED_MOST = 256 << 10, /* units: 16,384 mappings of the least size, of 65,530 that Linux allows */
  SAMPLES = 8,            /* pages of a run that are read to tell whether it is filled */
  SAMPLES_EMPTY = 1,      /* samples of a filled run that may be empty */
  WORDS_OF_SAMPLE = 8     /* words that are read in each */
};

/* Frees a run where nothing is mapped any more, because the pages have moved or the system failed. */
static void give_unmapped(run_t *run)
{
  arena_t *arena = arena_of(&space_of_process, run->start);
  size_t at = (size_t)(run - arena->runs), units = run->units;
  LOCKED(&space_of_process.lock);
  arena_set_start(arena, at, false);
  run_become(run, RUN_NONE, NULL);
  arena_give_unmapped(arena, at, at + units);
  space_of_process.used_units -= units;
  space_note_change(&space_of_process);
  space_note_longest(arena);
}

static bool is_written(const char *page)
{
  const volatile word_t *words = (const volatile word_t *)page;
  size_t step = os_page_size() / sizeof *words / WORDS_OF_SAMPLE;
  for (size_t i = 0; i < WORDS_OF_SAMPLE; i++)
    if (words[i * step + i])
      return true;
  return false;
}

/* Samples one page in each eighth of the run. Reading is safe, because the caller is resizing the block, and a copy would read
 * all of it. A sample of a page without memory costs a page fault, so the second one ends the search. */
static bool seems_filled(const run_t *run, size_t bytes)
{
  size_t page = os_page_size(), part = bytes / page / SAMPLES, empty = 0;
  for (size_t i = 0; i < SAMPLES && empty <= SAMPLES_EMPTY; i++)
    empty += !is_written(run->start + (i * part + i * 7 % part) * page);
  return empty <= SAMPLES_EMPTY;
}

static bool may_hold_huge_pages(const run_t *run) { return huge_pages_may_hold(arena_of(&space_of_process, run->start), run); }

/* Moving page tables drops the memory of the destination, whose pages are then faulted in again. Copying a filled block to a
 * destination that has memory, or huge pages, costs less than those faults. Of huge pages around either end a part would be
 * unmapped, and the kernel keeps them whole. */
static bool is_better_copied(const run_t *run, size_t bytes, const run_t *place)
{
  bool is_backed = place->fresh >= place->units - place->units / 4;
  return may_hold_huge_pages(run) || may_hold_huge_pages(place) || (is_backed && seems_filled(run, bytes));
}

/* Skips pages of zeros, so that pages without memory stay so in the copy. The destination reads as zero. */
static void copy_pages(char *to, const char *from, size_t bytes)
{
  size_t page = os_page_size();
  for (size_t at = 0; at < bytes; at += page)
    if (from[at] || memcmp(from + at, from + at + 1, page - 1) != 0)
      memcpy(to + at, from + at, page);
}

/* A block that seems sparse is worth a system call that clears the destination. */
static void copy_run(run_t *run, const run_t *place, size_t bytes, bool wipes)
{
  if (place->zeroed || (!seems_filled(run, bytes) && os_purge(place->start, bytes)))
    copy_pages(place->start, run->start, bytes);
  else
    memcpy(place->start, run->start, bytes);
  if (wipes && !os_purge(run->start, bytes))
    memset(run->start, 0, bytes);
  space_give(&space_of_process, run);
}

static run_t *move_to(run_t *run, size_t units, bool wipes)
{
  run_t *place = space_take(&space_of_process, units, 1);
  if (!place)
    return NULL;
  arena_t *arena = arena_of(&space_of_process, place->start);
  size_t at = (size_t)(place - arena->runs), bytes = run_bytes(run);
  os_mapped_t mapped = OS_OCCUPIED;
  if (arena_moved_units() + units <= MOVED_MOST && !is_better_copied(run, bytes, place))
    mapped = os_remap_to(run->start, bytes, place->start, run_bytes(place));
  if (mapped == OS_NO_MEMORY) {
    give_unmapped(place);
    return NULL;
  }
  if (mapped == OS_OCCUPIED) {
    copy_run(run, place, bytes, wipes);
    return place;
  }
  lock_acquire(&space_of_process.lock);
  arena_mark_moved(arena, at, at + place->units);
  lock_release(&space_of_process.lock);
  give_unmapped(run);
  return place;
}

bool space_may_move(const run_t *run, size_t units)
{
  return run->units >= MOVE_LEAST_UNITS && units > run->units && units <= space_longest_grown();
}

/* The gate holds off forks while both runs have units. */
run_t *space_move(run_t *run, size_t units, bool wipes)
{
  INSIDE_GATE(GATE_SYSTEM);
  return move_to(run, units, wipes);
}
