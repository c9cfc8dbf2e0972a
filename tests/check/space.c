/* SPDX-License-Identifier: MIT
 * A and F: arenas. S1 and M1: slabs, and what the class map says of them and of everything else. */
#include "bin/bin.h"
#include "check/check.h"
#include "check/parts.h"

/* ---- A and F: arenas ---- */

/* Counts the three lengths by looking at every bit of [from, to). It is written anew, so that an error of trees.c is not
 * believed. */
static uint64_t node_for(const word_t *map, size_t from, size_t to)
{
  size_t low = 0, run = 0, longest = 0;
  for (size_t i = from; i < to; i++) {
    run = bit_test(map, i) ? run + 1 : 0;
    low += run == i + 1 - from;
    longest = max_size(longest, run);
  }
  return low | (uint64_t)run << SPAN_LENGTH_BITS | (uint64_t)longest << (2 * SPAN_LENGTH_BITS);
}

/* F1. Each word's node is compared with its bits, and the nodes on one way up the tree with all the bits below; it is another
 * way each time, because the whole tree would take too long. An arena that was cut before its first unit has no words. */
static void check_tree(const arena_t *arena)
{
  static size_t turn;
  const span_tree_t *tree = &arena->room;
  size_t words = (arena->unit_count + WORD_BITS - 1) / WORD_BITS, bits = WORD_BITS;
  for (size_t w = 0; w < words; w++)
    expect(tree->node[tree->leaves + w] == node_for(tree->map, w * WORD_BITS, (w + 1) * WORD_BITS), "F1",
           "a word's node is wrong", &tree->map[w]);
  for (size_t i = words ? tree->leaves + turn++ % words : 0; i; i /= 2, bits *= 2) {
    /* The first node of the level that node i is in, and how many nodes that has. */
    size_t first = i, level = 1;
    while (first > 1) {
      first /= 2;
      level *= 2;
    }
    size_t from = (i - level) * bits, end = words * WORD_BITS, missing = from + bits > end;
    uint64_t node = tree->node[i], counted = from >= end ? 0 : node_for(tree->map, from, min_size(from + bits, end));
    if (missing) /* what lies beyond the map is clear, so nothing reaches the high end */
      counted &= ~(((uint64_t)1 << (2 * SPAN_LENGTH_BITS)) - ((uint64_t)1 << SPAN_LENGTH_BITS));
    expect(node == counted, "F1", "a node is wrong", &tree->node[i]);
  }
}

/* A5. Regions have no marks. */
static void check_huge(const arena_t *arena)
{
  if (!arena->slots || arena->space->own_arena)
    return;
  size_t end = round_up(arena->committed, HUGE_PAGE_UNITS) / HUGE_PAGE_UNITS;
  expect(bits_next_set(arena->huge, end, HUGE_PAGES_MOST) == HUGE_PAGES_MOST, "A5", "a page that is not mapped is marked huge",
         arena);
  expect(bits_next_set(arena->holes, end, HUGE_PAGES_MOST) == HUGE_PAGES_MOST, "A5", "a page beyond committed is a hole",
         arena);
  for (size_t page = bits_next_set(arena->holes, 0, end); page < end; page = bits_next_set(arena->holes, page + 1, end)) {
    size_t from = page * HUGE_PAGE_UNITS, to = from + HUGE_PAGE_UNITS;
    expect(!bit_test(arena->huge, page), "A5", "a hole is marked huge", arena);
    expect(bits_next_clear(arena->room.map, from, to) == to, "A6", "a unit of a hole is in use", arena);
    expect(bits_next_set(arena->dirty, from, to) == to, "A6", "a unit of a hole is dirty", arena);
  }
  expect_count(arena->hole_count, bits_count(arena->holes, 0, HUGE_PAGES_MOST), "A6", "holes of an arena");
}

/* A1 and A4, by whole words of the bitmaps. */
static void check_sets(const arena_t *arena)
{
  size_t end = arena->unit_count;
  for (size_t w = 0; w < (end + WORD_BITS - 1) / WORD_BITS; w++) {
    expect(!(arena->start[w] & arena->room.map[w]), "A1", "a run starts at a free unit", &arena->start[w]);
    expect(!(arena->dirty[w] & ~arena->room.map[w]), "A1", "a unit in use is dirty", &arena->dirty[w]);
  }
  expect(bits_next_set(arena->dirty, arena->committed, end) == end, "A1", "a unit beyond committed is dirty", arena);
  expect(bits_next_clear(arena->room.map, arena->committed, end) == end, "A1", "a unit beyond committed is in use", arena);
  expect(bits_next_clear(arena->room.map, arena->used_end, end) == end, "arena.used_end", "a unit beyond it is in use", arena);
  expect(!arena->slots || bits_next_set(arena->dirty, arena->used_end, end) == end, "arena.used_end",
         "a unit beyond it is dirty", arena);
  expect_count(arena->dirty_count, bits_count(arena->dirty, 0, end), "A4", "dirty units of an arena");
  check_huge(arena);
  check_tree(arena);
}

static size_t arena_count(const space_t *space) { return space->own_arena ? 1 : window_slots_open(); }

/* Returns the i-th arena of the space; NULL: the slot is not the space's. */
static arena_t *arena_at(const space_t *space, size_t i)
{
  arena_t *arena = space->own_arena ? space->own_arena : space_arena_at(i);
  return arena && arena->space == space ? arena : NULL;
}

/* A2: between the runs everything is free, and inside them nothing is. */
static void check_runs(const arena_t *arena)
{
  size_t unit = 0;
  for (run_t *run; (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run)) {
    size_t at = (size_t)(run - arena->runs), end = unit_behind(arena, run);
    expect(bits_next_clear(arena->room.map, unit, at) == at, "A2", "a unit in use belongs to no run", run->start);
    expect(run->units && end <= arena->used_end, "A2", "a run has no units, or too many", run->start);
    expect(bits_next_set(arena->room.map, at, end) == end, "A2", "a run reaches into free units", run->start);
    expect(bits_next_set(arena->start, at + 1, end) == end, "A2", "a run starts inside another", run->start);
    expect(run->start == arena->base + (at << UNIT_LOG2), "A2", "a run is not where its descriptor is", run->start);
  }
  expect(bits_next_clear(arena->room.map, unit, arena->unit_count) == arena->unit_count, "A2",
         "a unit behind the last run is in use", arena);
}

/* A3, and the noted longest stretch of each arena: a wrong one would hide room, or make every search stop there. */
static void check_units(const space_t *space)
{
  size_t used = 0, dirty = 0;
  for (size_t i = 0; i < arena_count(space); i++) {
    const arena_t *arena = arena_at(space, i);
    size_t end = arena ? arena->unit_count : 0;
    used += end - (arena ? bits_count(arena->room.map, 0, end) + arena->forgotten : 0);
    dirty += arena ? bits_count(arena->dirty, 0, end) : 0;
    expect(!arena || space->own_arena || space_longest_in(i) == span_longest(&arena->room), "A3",
           "the longest free stretch is another", arena);
  }
  expect_count(space->used_units, used, "A3", "units in use");
  expect_count(space->dirty_units, dirty, "A3", "dirty units");
}

/* ---- S1 and M1: slabs, what the class map says of them and of everything else ---- */

/* S3. No block with a byte in a purged part is in use. */
static void check_purged(const run_t *slab, size_t size)
{
  size_t part = slab->purged ? slab_part_bytes(slab) : 0;
  for (size_t i = 0; slab->purged && i < slab->capacity; i++)
    for (size_t p = i * size / part; p <= (i * size + size - 1) / part; p++)
      expect(bit_test(slab->bitmap, i) || p >= WORD_BITS || !(slab->purged >> p & 1), "S3",
             "a purged part has a block that is not free", slab->start + i * size);
}

/* S1 and S3, of one slab. */
static void check_slab(const arena_t *arena, const run_t *slab)
{
  const bin_t *bin = slab->owner;
  expect(run_bytes(slab) >= bin->block_size && slab->size_class == bin->size_class, "S1", "a slab is not like its bin's",
         slab->start);
  size_t most = arena->long_bitmaps ? SIZE_MAX : SHORT_BITMAP_WORDS * WORD_BITS;
  expect_count(slab->capacity, min_size(run_bytes(slab) / bin->block_size, most), "S1", "capacity of a slab");
  expect_count(slab->free_count, bits_count(slab->bitmap, 0, slab->capacity), "S1", "free blocks of a slab");
  expect(slab->settled <= slab->free_count, "S3", "more settled blocks than free ones", slab->start);
  expect(!slab->purged || slab->settled, "S3", "a slab with purged parts has no settled block", slab->start);
  check_purged(slab, bin->block_size);
  expect(slab->free_count <= slab->fresh && slab->fresh <= slab->capacity, "S1",
         "more free than fresh blocks, or more than there are", slab->start);
  size_t words_end = round_up(slab->capacity, WORD_BITS);
  expect(bits_next_set(slab->bitmap, slab->fresh, words_end) == words_end, "S1", "a bit is set beyond the fresh mark",
         slab->start);
}

/* A byte of each plane for each unit: a wrong one sends a free to the wrong bin, or to the slow path. */
static void check_map(const char *from, const char *to, unsigned own, unsigned heap)
{
  for (const char *at = from; at < to; at += UNIT) {
    expect(class_map_of(at) == own, "M1", "the default plane has a wrong class", at);
    expect(class_map_of_heap_block(at) == heap, "M1", "the heap plane has a wrong class", at);
  }
}

static bool is_in_map(const arena_t *arena) { return arena->slots != 0; }

static void check_map_of_free(const arena_t *arena, const char *from, const char *to)
{
  if (is_in_map(arena))
    check_map(from, to, 0, 0);
}

/* M1: only the plane of the slab's bin has the class, and the other has 0. A run that is no slab has 0 in both. */
static void check_map_of_run(const arena_t *arena, const run_t *run, const char *end)
{
  const bin_t *bin = run->kind == RUN_SLAB ? run->owner : NULL;
  unsigned plane = bin ? bin->plane : BIN_PLANE_NONE;
  if (is_in_map(arena))
    check_map(run->start, end, plane == BIN_PLANE_DEFAULT ? run->size_class : 0, plane == BIN_PLANE_HEAP ? run->size_class : 0);
}

/* M1 for all units of the arena, in the runs and between them, and the slabs among the runs. */
static void check_arena_contents(const arena_t *arena)
{
  const char *mapped = is_in_map(arena) ? window_slot(arena->slot) : arena->base;
  size_t unit = 0;
  for (run_t *run; (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run)) {
    const char *end = run->start + run_bytes(run);
    expect(run->kind == RUN_SLAB || run->kind == RUN_LARGE || run->kind == RUN_SPARE || run->kind == RUN_REGION, "A2",
           "a run is of no kind", run->start);
    expect(run->owner || run->kind == RUN_REGION, "A2", "a run has no owner", run->start);
    if (run->kind == RUN_SLAB)
      check_slab(arena, run);
    check_map_of_free(arena, mapped, run->start);
    check_map_of_run(arena, run, end);
    mapped = end;
  }
  check_map_of_free(arena, mapped, arena->base + ((size_t)arena->unit_count << UNIT_LOG2));
}

/* The sets come first: the runs are found by them. */
bool check_space(space_t *space)
{
  for (size_t i = 0; i < arena_count(space); i++) {
    const arena_t *arena = arena_at(space, i);
    if (!arena)
      continue;
    check_sets(arena);
    check_runs(arena);
    check_arena_contents(arena);
  }
  check_units(space);
  return true;
}
