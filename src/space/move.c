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

/* Moving page tables drops the memory of the destination, whose pages are then faulted in again. Copying a filled block to a
 * destination that has memory costs less than those faults. */
static bool is_better_copied(const run_t *run, size_t bytes, const run_t *place)
{
  return place->fresh >= place->units - place->units / 4 && seems_filled(run, bytes);
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
  arena_t *arena = arena_of(&space_of_process, place->start), *old = arena_of(&space_of_process, run->start);
  size_t at = (size_t)(place - arena->runs), from = (size_t)(run - old->runs), bytes = run_bytes(run);
  bool may_be_huge = huge_pages_any(old, from, from + run->units); /* of a sparse run, a copy holds less */
  if (arena_moved_units() + units > MOVED_MOST || is_better_copied(run, bytes, place) ||
      (may_be_huge && !seems_filled(run, bytes))) {
    copy_run(run, place, bytes, wipes);
    return place;
  }
  huge_pages_begin_move(old, run);
  os_mapped_t mapped = os_remap_to(run->start, bytes, place->start, run_bytes(place));
  if (mapped == OS_NO_MEMORY) {
    give_unmapped(place);
    return NULL;
  }
  lock_acquire(&space_of_process.lock);
  huge_pages_note_moved(arena, at, at + place->units, may_be_huge);
  if (mapped == OS_MAPPED)
    arena_mark_moved(arena, at, at + place->units);
  lock_release(&space_of_process.lock);
  if (mapped == OS_MAPPED)
    give_unmapped(run);
  else
    copy_run(run, place, bytes, wipes);
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
