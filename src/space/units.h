/* SPDX-License-Identifier: MIT
 *
 * The units of an arena: mapping them in steps, taking them as runs, giving them back, and returning them to the system.
 *
 * Functions are called under the lock of the arena's space. */
#ifndef UNITS_H
#define UNITS_H

#include "space/arena.h"

/* How many of the units just taken hold old data, and whether that of some others was returned. */
typedef struct past {
  size_t dirty;
  bool mixed;
} past_t;

taken_t arena_commit_all(arena_t *arena);

/* Takes a run of `units`, whose first address is a multiple of `alignment` units. */
taken_t arena_take(arena_t *arena, size_t units, size_t alignment, run_t **run, past_t *past);

/* Takes a run below unit `end`, which is at most `committed`, so the arena does not grow. */
taken_t arena_take_below(arena_t *arena, size_t end, size_t units, size_t alignment, run_t **run, past_t *past);

/* Adds the units behind a run. Returns false if they are not free or there is no memory. */
bool arena_lengthen(arena_t *arena, run_t *run, size_t units, past_t *past);

/* Makes units [from, to) of an ended or shortened run free and dirty. */
void arena_give(arena_t *arena, size_t from, size_t to);

/* Maps units [from, to) of an ended run, whose pages have moved elsewhere, as free and clean, or forgets them. */
void arena_give_unmapped(arena_t *arena, size_t from, size_t to);

/* Removes units [from, to), which are free or in no run, for good, because they cannot be mapped. */
void arena_forget(arena_t *arena, size_t from, size_t to);

/* Notes that pages have moved into these units (move.c). arena_moved_units() counts such units until they are unmapped. */
void arena_mark_moved(arena_t *arena, size_t from, size_t to);
size_t arena_moved_units(void);

/* arena_highest_dirty() finds the highest dirty units [*from, *to) below `below`, at most a word of them. Returns false if
 * there are none. arena_highest_dirty_page() finds the highest 2 MiB page that may be huge and is dirty as a whole. */
bool arena_highest_dirty(const arena_t *arena, size_t below, size_t *from, size_t *to);
bool arena_highest_dirty_page(const arena_t *arena, size_t below, size_t *from, size_t *to);

/* Units are neither free nor dirty during the system call that purges them, so that no thread takes them. */
void arena_begin_purge(arena_t *arena, size_t from, size_t to);
void arena_end_purge(arena_t *arena, size_t from, size_t to, bool purged);

/* Unmaps the units behind the last used or dirty one, and their records. Also unmaps at most `most_holes` stretches of 2 MiB
 * pages without such units below it. Touches no memory. Returns false if some idle addresses are still mapped. */
bool arena_unmap_idle(arena_t *arena, size_t most_holes);

uint64_t arena_maps(void);

void arena_set_start(arena_t *arena, size_t unit, bool is_start);

#endif
