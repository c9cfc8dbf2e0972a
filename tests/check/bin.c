/* SPDX-License-Identifier: MIT
 * B and D: the slabs and the depots of a bin. */
#include "bin/bin.h"
#include "check/check.h"
#include "check/parts.h"

/* Says in which list a slab should be. It is written anew, so that an error of slabs.c is not believed. */
static unsigned list_for(const run_t *slab, bool reset)
{
  if (reset && slab->fresh == 0)
    return SLAB_RESET;
  if (slab->free_count == 0)
    return SLAB_NONE_FREE;
  if (slab_idle(slab) == 0)
    return SLAB_SETTLED;
  for (unsigned list = SLAB_PARTIAL_1; list < SLAB_PARTIAL_4; list++)
    if (slab->free_count <= list * (slab->capacity / 4))
      return list;
  return SLAB_PARTIAL_4;
}

/* B2, of one slab: the list that it is in, and who may have fresh blocks. */
static void check_listed_slab(const bin_t *bin, const run_t *slab, unsigned list)
{
  census_run(bin->space, slab, "B2", "a slab is in two lists, or twice in one");
  expect(slab->kind == RUN_SLAB && slab->owner == bin, "B2", "a list has a slab of another bin", slab);
  expect(slab->list == list && list_for(slab, list == SLAB_RESET) == list, "B2",
         "a slab is in a list its free count does not say", slab->start);
  expect(slab->fresh == slab->capacity || slab == bin->current || list == SLAB_RESET, "B2",
         "a slab that is neither the current one nor reset has fresh blocks", slab->start);
  expect(slab != bin->current || list != SLAB_RESET, "B2", "the current slab is among the reset ones", slab->start);
}

/* B1 to B4, of all slabs of a bin. Each slab is counted off in the census, so a list that leads in a circle ends the program
 * too. */
static void check_slab_lists(bin_t *bin)
{
  size_t slabs = 0, partial = 0, capacity = 0, out = 0, idle = 0, returned = 0;
  bool current = false, unused = false;
  for (unsigned list = 0; list < SLAB_LISTS; list++) {
    const run_t *previous = NULL;
    for (run_t *slab = bin->slabs[list]; slab; previous = slab, slab = slab->next) {
      check_listed_slab(bin, slab, list);
      expect(slab->previous == previous, "B2", "a list does not lead back", slab->start);
      slabs++;
      partial += list >= SLAB_PARTIAL_1 && list <= SLAB_SETTLED;
      capacity += slab->capacity;
      out += slab->fresh - slab->free_count;
      idle += slab_idle(slab);
      returned += slab_parts_length(slab, slab->purged);
      current |= slab == bin->current;
      unused |= slab_is_unused(slab);
    }
  }
  expect(current || !bin->current, "B2", "the current slab is in no list", bin->current);
  expect_count(bin->slab_count, slabs, "B2", "slabs of a bin");
  expect_count(bin->partial_count, partial, "B2", "partial slabs of a bin");
  expect_count(bin->capacity, capacity, "B2", "capacity of a bin");
  expect_count(bin->outstanding, out, "B1", "blocks out of the slabs");
  expect_count(bin->idle, idle, "B3", "idle blocks");
  expect_count(bin->returned_bytes, returned, "B3", "bytes of slabs that were returned");
  expect(!unused || bin->may_have_unused, "B4", "a bin does not know of its unused slab", bin);
}

/* C3. Nobody counts them, so a circle is found by a magazine that is met again. */
void check_empties(void *const *magazine)
{
  void *const *remembered = NULL;
  for (size_t steps = 1; magazine; magazine = magazine_below((void **)(uintptr_t)magazine), steps++) {
    expect(magazine != remembered, "C3", "a list of empty magazines is a circle", magazine);
    expect(!magazine[MAGAZINE_WORDS - 1], "C3", "an empty magazine ends with something else than NULL", magazine);
    if (is_power_of_two(steps))
      remembered = magazine;
  }
}

/* The count bounds the walk, so that a circle ends it. */
static void check_depot(const bin_t *bin, const depot_t *depot)
{
  size_t count = 0;
  for (void **magazine = depot->newest; magazine; magazine = magazine_below(magazine), count++) {
    expect(count < depot->count, "D1", "more magazines in the depot than counted, or a cycle", magazine);
    expect(census_entries(bin, magazine_last(magazine), "D1") > 0, "D1", "an empty magazine in the depot", magazine);
  }
  expect_count(depot->count, count, "D1", "magazines in the depot");
  check_empties(depot->empties);
  expect(depot->low <= count && count <= depot->high, "D1", "a depot beyond its own low or high mark", depot);
}

/* D3. */
static void check_use_of_depots(const bin_t *bin)
{
  const bin_t *previous = bin->with_depots_previous;
  bool listed = previous ? previous->with_depots_next == bin : bins_with_depots == bin;
  expect(listed == (bin->depots.shards && !bin->lock.solo), "D3", "depots in use and not in the list for forks, or unused",
         bin);
  expect((bin->depots.of == depots_of_nobody) == !bin->depots.shards, "D3",
         "depots that are not in use, or in use and not there", bin);
}

/* D1 and D2, of all depots of a bin. */
static void check_depots(const bin_t *bin)
{
  size_t count = 0, uncounted = 0;
  int32_t step = depots_step(&bin->depots);
  for (unsigned i = 0; i < depots_shards(&bin->depots); i++) {
    const depot_t *depot = depot_at(&bin->depots, i);
    check_depot(bin, depot);
    expect(-step < depot->uncounted && depot->uncounted < step, "D1", "a depot has more uncounted than it may", depot);
    expect(depot->count || !depot->uncounted, "D1", "an empty depot has magazines uncounted", depot);
    count += depot->count;
    uncounted += (size_t)depot->uncounted;
  }
  expect_count(bin->depots.count + uncounted, count, "D1", "magazines in all depots");
  expect(!count || bin->due || bin->lock.solo, "D2", "a bin that no tick will look at has magazines in its depots", bin);
}

void check_bin_lists(bin_t *bin)
{
  expect(bin->magazine_capacity >= 2 && bin->magazine_capacity <= MAGAZINE_CAPACITY_MOST, "D1", "a size no magazine can have",
         bin);
  check_slab_lists(bin);
  check_use_of_depots(bin);
  check_depots(bin);
}

bool check_bin(bin_t *bin)
{
  check_space(bin->space);
  census_begin(bin->space);
  check_bin_lists(bin);
  census_end();
  return true;
}
