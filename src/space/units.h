/* SPDX-License-Identifier: MIT
 *
 * The units of an arena: they are mapped in steps, taken as runs, given, and go back to the system.
 *
 * Functions are called under the lock of the space that the arena belongs to. */
#ifndef UNITS_H
#define UNITS_H

#include "space/arena.h"

/* How many of the units that were just taken hold old data. */
typedef struct past {
  size_t dirty;
} past_t;

/* Maps all units. */
taken_t arena_commit_all(arena_t *arena);

/* A run of `units`, its first address a multiple of `alignment` units. */
taken_t arena_take(arena_t *arena, size_t units, size_t alignment, run_t **run, past_t *past);

/* Takes a run below unit `end`, which is at most `committed`: the arena does not grow. */
taken_t arena_take_below(arena_t *arena, size_t end, size_t units, size_t alignment, run_t **run, past_t *past);

/* Units behind a run are added to it. False: they are not free, or there is no memory. */
bool arena_lengthen(arena_t *arena, run_t *run, size_t units, past_t *past);

/* Units [from, to) of a run that is no more, or only shorter, are free and dirty. */
void arena_give(arena_t *arena, size_t from, size_t to);

/* Maps units [from, to) of a run that is no more, whose pages have moved elsewhere: they are free and clean. If the system
 * refuses, they are forgotten. */
void arena_give_unmapped(arena_t *arena, size_t from, size_t to);

/* Takes units [from, to), which are free or of no run, out of use for good, because they cannot be mapped. */
void arena_forget(arena_t *arena, size_t from, size_t to);

/* Notes that pages have moved into these units (move.c). arena_moved_units() counts them, in all arenas, until they are
 * unmapped. */
void arena_mark_moved(arena_t *arena, size_t from, size_t to);
size_t arena_moved_units(void);

/* The highest dirty units below `below`, at most one word of them: [*from, *to). False: there are none. The second finds the
 * highest page of 2 MiB that may be huge and is dirty as a whole. */
bool arena_highest_dirty(arena_t *arena, size_t below, size_t *from, size_t *to);
bool arena_highest_dirty_page(const arena_t *arena, size_t below, size_t *from, size_t *to);

/* While the system is asked to take the memory of free units they are neither free nor dirty, so that nobody takes them. */
void arena_begin_purge(arena_t *arena, size_t from, size_t to);
void arena_end_purge(arena_t *arena, size_t from, size_t to, bool purged);

/* Unmaps the units behind the last one that is used or dirty, and their records. Before it, unmaps at most `most_holes`
 * stretches of 2 MiB pages without such a unit. Touches no memory. */
void arena_unmap_idle(arena_t *arena, size_t most_holes);

/* Says that a run starts there, or none any more. */
void arena_set_start(arena_t *arena, size_t unit, bool is_start);

#endif
