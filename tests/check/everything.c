/* SPDX-License-Identifier: MIT
 * Nothing here believes a counter: what the manager keeps a count of is walked and counted anew. */
#include "check/check.h"
#include "check/parts.h"
#include "heap/heap.h"
#include "heap/tick.h"

static const heap_t *heap_of_run(const run_t *run)
{
  return run->kind == RUN_SLAB ? ((const bin_t *)run->owner)->heap : run->owner;
}

/* Returns the invariant that says in which list of its heap a run is. */
static const char *name_of_list(const run_t *run)
{
  return run->kind == RUN_SLAB ? "B2" : run->kind == RUN_REGION ? "A2" : "H3";
}

/* In the process's space a run without an owner is lost memory, but for units that cannot be mapped, which have no size, and
 * records of the default heap. In a region it holds records of the guest. */
static void check_census(const census_t *census, const void *only)
{
  size_t unit = 0, forgotten = 0;
  for (run_t *run; (run = run_from(census->arena, unit)) != NULL; unit = unit_behind(census->arena, run)) {
    const heap_t *owner = heap_of_run(run);
    bool fixed = census->arena->space->own_arena != NULL;
    forgotten += !owner && !fixed && run->kind == RUN_REGION && !run->size ? run->units : 0;
    expect(owner || fixed || run->kind == RUN_REGION, "A2", "a run of the process is nobody's", run->start);
    if (owner && (!only || owner == only))
      expect(bit_test(census->runs, (size_t)(run - census->arena->runs)), name_of_list(run), "a run is in no list", run->start);
  }
  expect_count(census->arena->forgotten, forgotten, "A2", "units that are nobody's");
}

/* Checks that every run of a heap (NULL: of any) was counted by a list, except those that hold records of guests. */
static void check_all_counted(const heap_t *only) { census_each(check_census, only); }

static void check_spaces(void)
{
  check_space(&space_of_process);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (heap_own_arena(heap))
      check_space(&heap->region.space);
}

static void check_list_of_heaps(void)
{
  const heap_t *first = heaps_first(), *previous = NULL;
  for (heap_t *heap = first ? first->next : NULL; heap; previous = heap, heap = heap->next)
    expect(heap->previous == previous, "heap.next", "the list of heaps does not lead back", heap);
}

/* A wrong count would let a parent end before its children. */
static void check_users(void)
{
  for (heap_t *heap = heaps_first(); heap; heap = heap->next) {
    size_t users = 0;
    for (heap_t *other = heaps_first(); other; other = other->next)
      users += (other->parent == heap) + (other->overflow == heap);
    expect_count(heap->users, users, "heap.users", "heaps whose parent or overflow it is");
  }
}

/* The moment is quiet for the program, but not for the thread that returns memory, which is ended and begun again. */
static bool end_background(void)
{
  bool was_there = background_is_there();
  if (was_there)
    background_stop();
  return was_there;
}

/* Checks one heap, or all. What is checked without the census comes first, because the census follows the lists that it
 * checks. */
static bool check_heaps(const heap_t *only)
{
  bool had_background = end_background();
  check_list_of_heaps();
  check_users();
  check_threads();
  check_spaces();
  check_left();
  census_begin(&space_of_process);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if ((heap->space || heap_has_granules(heap)) && (!only || heap == only))
      check_heap_lists(heap);
  check_all_counted(only);
  census_end();
  if (had_background)
    background_start();
  return true;
}

bool check_heap(heap_t *heap) { return check_heaps(heap); }
bool check_everything(void) { return check_heaps(NULL); }
