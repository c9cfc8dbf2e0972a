/* SPDX-License-Identifier: MIT */
#include "dirty.h"
#include "os_fake.h"

run_t *take(space_t *space, size_t units)
{
  static int owner;
  run_t *run = space_take(space, units, 1);
  must(run && run->units == units);
  must(!run->zeroed || all_zero(run->start, units << UNIT_LOG2));
  run_become(run, RUN_LARGE, &owner);
  memset(run->start, 7, units << UNIT_LOG2);
  return run;
}

void make_dirty(space_t *space, size_t units)
{
  run_t *runs[100];
  size_t count = 0;
  for (size_t left = units, n; left; left -= n)
    runs[count++] = take(space, n = min_size(left, space_longest_run()));
  while (count)
    space_give(space, runs[--count]);
}

size_t committed(size_t slot) { return space_arena_at(slot)->committed; }

size_t records(size_t slot)
{
  const arena_t *arena = space_arena_at(slot);
  return (size_t)(arena->runs_end - (const char *)arena) + (size_t)(arena->long_bitmaps_end - (char *)arena->long_bitmaps);
}

uint64_t purges(void) { return os_fake.count[OS_PURGE]; }

bool tick_whole(space_t *space, uint64_t now_ms)
{
  bool due = space_tick(space, now_ms);
  while (space_purge_is_under_way(space)) {
    size_t dirty = space->dirty_units;
    space_purge_step(space, 1);
    must(dirty - space->dirty_units <= STEP);
    check_space(space);
  }
  return due;
}
