/* SPDX-License-Identifier: MIT
 * For which pages of an arena huge ones are wished: a map of the wishes is kept beside it. */
#include "arenas.h"
#include "os_fake.h"
#include "space/arena.h"
#include <string.h>

enum { UNITS = 4096, PAGE_UNITS = 32, LEAST = ALL_HUGE_TO, BLOCK = 4096 };

/* Of each unit: the last wish since it was mapped. */
static enum { NONE, HUGE, SMALL } wishes[UNITS];
static size_t wish_count, open_count;
static arena_t *arena;

static size_t count(int wish, size_t from, size_t to)
{
  size_t found = 0;
  for (size_t i = from; i < to; i++)
    found += (int)wishes[i] == wish;
  return found;
}

static bool is_open(void) { return arena->open_page != NO_PAGE; }

/* Of the lowest pages none is huge, and of the next ones all are. Above, at most one page is open, and all else is one mapping
 * to the system. */
static void check_wishes(void)
{
  if (arena->huge_pages == HUGE_PAGES_NEVER)
    return;
  size_t mapped = arena->committed, low = min_size(mapped, HUGE_PAGES_FROM), middle = min_size(mapped, LEAST);
  must(count(NONE, 0, low) == low && count(HUGE, low, middle) == middle - low);
  size_t huge = count(HUGE, middle, UNITS), none = count(NONE, middle, mapped);
  must(none == 0 && (huge == 0 || huge == PAGE_UNITS) && (huge != 0) == is_open());
  must(!huge || count(HUGE, arena->open_page * PAGE_UNITS, (arena->open_page + 1) * PAGE_UNITS) == PAGE_UNITS);
}

static void note(const char *address, size_t size, bool wanted)
{
  size_t from = (size_t)(address - arena->base) / UNIT;
  must(size && size % UNIT == 0 && (uintptr_t)address % UNIT == 0 && from + size / UNIT <= UNITS);
  wish_count++;
  open_count += wanted && from >= LEAST;
  for (size_t i = from; i < from + size / UNIT; i++)
    wishes[i] = wanted ? HUGE : SMALL;
}

static void begin(uint8_t huge_pages)
{
  bring_up(2);
  os_fake.wished = note;
  arena = create(0, UNITS);
  arena->huge_pages = huge_pages;
}

static run_t *take(size_t units)
{
  run_t *run;
  past_t past;
  must(arena_take(arena, units, 1, &run, &past) == TAKEN);
  return run;
}

/* What stands in the run, of which so many blocks of that size were handed out at some time. */
static void become(run_t *run, run_kind_t kind, size_t block_size, double handed_out)
{
  run->capacity = (uint32_t)(run->units * UNIT / block_size);
  run->fresh = (uint32_t)(run->capacity * handed_out);
  run_become(run, kind, NULL);
}

/* A slab of small blocks, full. */
static run_t *take_full(size_t units)
{
  run_t *run = take(units);
  huge_pages_open(arena, run);
  become(run, RUN_SLAB, BLOCK, 1);
  check_wishes();
  return run;
}

static void give(run_t *run)
{
  size_t at = (size_t)(run - arena->runs);
  arena_set_start(arena, at, false);
  arena_give(arena, at, at + run->units);
}

static void purge_all(void)
{
  for (size_t below = SIZE_MAX, from, to; arena_highest_dirty(arena, below, &from, &to); below = from) {
    arena_begin_purge(arena, from, to);
    arena_end_purge(arena, from, to, true);
  }
}

static void fill_to(size_t units)
{
  while (arena->used_end < units)
    take_full(1);
}

/* ---- growth ---- */

/* Each page is opened as the first slab is in it, from the first that has enough full ones below it. */
static void grows(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t units = 1; arena->used_end + units <= UNITS; units = units % 7 + 1) {
    take_full(units);
    must(arena->committed <= HUGE_PAGES_FROM ? wish_count == 0 : arena->committed % PAGE_UNITS == 0);
    must(arena->used_end <= LEAST ? !is_open() : arena->open_page == (arena->used_end - 1) / PAGE_UNITS);
  }
  must(open_count >= (UNITS - LEAST) / PAGE_UNITS && open_count <= (UNITS - LEAST) / PAGE_UNITS + 1);
}

/* ---- what is not known to be touched ---- */

typedef struct filling {
  run_kind_t kind;
  size_t block_size;
  double handed_out;
  bool is_dense;
} filling_t;

static void filled(void *argument)
{
  const filling_t *filling = argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < UNITS; i++) {
    run_t *run = take(1);
    huge_pages_open(arena, run);
    become(run, filling->kind, filling->block_size, filling->handed_out);
  }
  must(is_open() == filling->is_dense && count(HUGE, HUGE_PAGES_FROM, LEAST) == LEAST - HUGE_PAGES_FROM);
}
WITH(filled, filling_t, {RUN_SLAB, BLOCK, 1, true}, {RUN_SLAB, 16, 1, true}, {RUN_SLAB, 512, .95, true},
     {RUN_SLAB, 512, .9, false}, {RUN_SLAB, BLOCK, .01, false}, {RUN_SLAB, FILLED_BLOCK_MOST, 1, true},
     {RUN_SLAB, 20480, 1, false}, {RUN_LARGE, BLOCK, 1, false}, {RUN_SPARE, BLOCK, 1, false}, {RUN_REGION, BLOCK, 1, false},
     {RUN_NONE, BLOCK, 1, false})

/* A quarter of what lies below may be free or open slabs, and an eighth large blocks. */
typedef struct share {
  size_t open, large, free; /* of each 64 units */
  bool is_dense;
} share_t;

static void partly(void *argument)
{
  const share_t *share = argument;
  static run_t *runs[UNITS];
  begin(HUGE_PAGES_AUTO);
  for (size_t i = 0; i < UNITS / 2; i++)
    runs[i] = take(1);
  for (size_t i = 0; i < UNITS / 2; i++) {
    size_t at = i * 29 % 64;
    bool is_large = at < share->large, is_open = !is_large && at < share->large + share->open;
    become(runs[i], is_large ? RUN_LARGE : RUN_SLAB, BLOCK, is_open ? .2 : 1);
  }
  for (size_t i = 0; i < UNITS / 2; i++)
    if (i * 29 % 64 >= 64 - share->free)
      give(runs[i]);
  run_t *next;
  past_t past;
  must(arena_take(arena, PAGE_UNITS, PAGE_UNITS, &next, &past) == TAKEN); /* no hole is so long */
  huge_pages_open(arena, next);
  must(is_open() == share->is_dense);
}
WITH(partly, share_t, {0, 0, 0, true}, {16, 0, 0, true}, {17, 0, 0, false}, {0, 8, 0, true}, {0, 9, 0, false}, {0, 0, 16, true},
     {0, 0, 17, false}, {6, 5, 5, true}, {6, 6, 5, false}, {8, 8, 0, true}, {9, 8, 0, false}, {0, 64, 0, false})

/* A page is opened by the first run in it, which is a slab, and if it holds no memory. */
static void opened_by_the_first(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  fill_to(2 * LEAST);
  size_t page = 2 * LEAST / PAGE_UNITS - 1, opened = open_count;
  must(opened && (arena->open_page == page || arena->open_page == NO_PAGE));
  become(take(1), RUN_LARGE, BLOCK, 1);
  fill_to(2 * LEAST + PAGE_UNITS);
  must(open_count == opened);
  run_t *full = take_full(1);
  must(arena->open_page == page + 2);
  give(full); /* and holds memory now */
  opened = open_count;
  fill_to(2 * LEAST + 3 * PAGE_UNITS - 1);
  must(arena->open_page == page + 3 && open_count == opened + 1);
  take_full(2); /* which ends in the next page */
  must(arena->open_page == page + 4 && open_count == opened + 2);
  fill_to(2 * LEAST + 4 * PAGE_UNITS);
  must(open_count == opened + 2);
}

/* What was given back whole is opened again. */
static void opened_again(void *argument)
{
  static run_t *runs[PAGE_UNITS];
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  fill_to(2 * LEAST);
  for (size_t i = 0; i < PAGE_UNITS; i++)
    runs[i] = take_full(1);
  fill_to(3 * LEAST);
  size_t page = 2 * LEAST / PAGE_UNITS;
  for (size_t holes = 0; holes < 2; holes++) {
    for (size_t i = 0; i < PAGE_UNITS; i++)
      give(runs[i]);
    purge_all();
    arena_unmap_idle(arena, holes);
    must(arena->hole_count == holes && arena->open_page != page);
    for (size_t unit = page * PAGE_UNITS; holes && unit < (page + 1) * PAGE_UNITS; unit++)
      wishes[unit] = NONE;
    for (size_t unit = arena->committed; unit < UNITS; unit++)
      wishes[unit] = NONE;
    for (size_t i = 0; i < PAGE_UNITS; i++) {
      runs[i] = take_full(1);
      must(runs[i] == &arena->runs[2 * LEAST + i] && arena->open_page == page);
    }
    give(take_full(PAGE_UNITS)); /* another is open */
  }
}

/* The other settings. */
static void never(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_NEVER);
  fill_to(UNITS);
  must(wish_count == 0);
}

static void always(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_ALWAYS);
  for (size_t i = 0; i < UNITS; i++) {
    take(1);
    must(count(HUGE, 0, arena->committed) == arena->committed && arena->committed % PAGE_UNITS == 0 &&
         count(NONE, arena->committed, UNITS) == UNITS - arena->committed);
  }
  huge_pages_split(arena, arena->base + UNIT, arena->base + PAGE_UNITS * UNIT);
  huge_pages_split(arena, arena->base + UNIT, arena->base + PAGE_UNITS * UNIT);
  must(os_fake.splits == 2); /* it may be huge again */
}

/* ---- what is in the way ---- */

/* The end is given back and mapped again: its wishes went with it. */
static void shrinks(void *argument)
{
  static run_t *runs[UNITS];
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  for (size_t least = UNITS / 2 + 5; least > 8; least = least / 3 * 2) {
    for (size_t i = 0; i < UNITS - PAGE_UNITS; i++)
      runs[i] = runs[i] ? runs[i] : take_full(1);
    for (size_t i = least; i < UNITS - PAGE_UNITS; i++, runs[i - 1] = NULL)
      give(runs[i]);
    purge_all();
    size_t end = huge_pages_may_be(arena, least / PAGE_UNITS) ? round_up(least, PAGE_UNITS) : least;
    arena_unmap_idle(arena, SIZE_MAX);
    must(arena->committed == end);
    for (size_t i = end; i < UNITS; i++)
      wishes[i] = NONE;
    check_wishes();
    must(bits_next_set(arena->huge, (end - 1) / PAGE_UNITS + 1, HUGE_PAGES_MOST) == HUGE_PAGES_MOST);
  }
}

/* The system would keep the memory of a huge page that is unmapped in part. One that was split can end anywhere. */
static void cut(void *argument)
{
  const bool *is_split = argument;
  size_t page = LEAST - PAGE_UNITS, end = page + 5;
  begin(HUGE_PAGES_AUTO);
  fill_to(end);
  give(take(LEAST - end));
  if (*is_split)
    huge_pages_split(arena, arena->base + end * UNIT, arena->base + LEAST * UNIT);
  purge_all();
  must(arena_unmap_idle(arena, SIZE_MAX) && arena->committed == (*is_split ? end : LEAST));
  must(huge_pages_may_be(arena, page / PAGE_UNITS) == !*is_split);
  take(LEAST);
  must(count(HUGE, end, LEAST) == LEAST - end && count(*is_split ? SMALL : HUGE, page, end) == end - page);
}
WITH(cut, bool, false, true)

/* A step that is refused is made as short as it can be, and ends anywhere. No page is opened that is not mapped whole. */
static void short_steps(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  fill_to(2 * LEAST);
  fill_to(arena->committed);
  size_t opened = open_count;
  for (size_t i = 0; i < 1000; i++) {
    os_fake.mapped_most = os_fake.mapped_bytes + UNIT + 64 * KIB; /* records may want some too */
    take_full(1);
    must(open_count == opened);
  }
  os_fake.mapped_most = 0;
  fill_to(UNITS);
  must(arena->open_page == UNITS / PAGE_UNITS - 1);
}

/* ---- memory that goes back ---- */

/* Only the huge pages at both ends of it may be others' too. One that has been split stays so, but for the open one. */
static void split(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  fill_to(UNITS);
  char *base = arena->base;
  size_t page = PAGE_UNITS * UNIT, open = arena->open_page, behind = open - 6;
  huge_pages_split(arena, base + 4096, base + 2 * page + 8192);
  must(os_fake.splits == 0); /* never wished for */
  huge_pages_split(arena, base + LEAST * UNIT - 2 * page, base + LEAST * UNIT - page);
  huge_pages_split(arena, base + behind * page, base + (behind + 2) * page);
  must(os_fake.splits == 0);
  huge_pages_split(arena, base + behind * page, base + (behind + 2) * page + 8192);
  must(os_fake.splits == 1 && os_fake.split_last == base + (behind + 2) * page + 8192);
  huge_pages_split(arena, base + behind * page + 4096, base + (behind + 2) * page + UNIT);
  must(os_fake.splits == 2 && os_fake.split_last == base + behind * page + 4096);
  huge_pages_split(arena, base + behind * page + UNIT, base + behind * page + 2 * UNIT);
  must(os_fake.splits == 2);
  for (size_t i = 1; i <= 3; i++) {
    huge_pages_split(arena, base + open * page + UNIT, base + (open + 1) * page);
    must(os_fake.splits == 2 + i); /* it may be huge again */
  }
}

/* A page that all are huge around is no longer requested once a part of it was purged. */
static void split_among_all(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  fill_to(UNITS);
  size_t unit = LEAST - PAGE_UNITS, wished = wish_count;
  char *start = arena->base + unit * UNIT;
  for (size_t i = 0; i < 3; i++)
    huge_pages_split(arena, start + 3 * UNIT + 4096, start + PAGE_UNITS * UNIT);
  must(os_fake.splits == 1 && os_fake.split_last == start + 3 * UNIT + 4096 && wish_count == wished + 1);
  must(count(SMALL, 0, LEAST) == 4 && count(SMALL, unit, unit + 4) == 4);
  start -= PAGE_UNITS * UNIT;
  huge_pages_split(arena, start, start + 7 * UNIT); /* what follows may belong to somebody else */
  must(count(SMALL, 0, LEAST) == 4 + 7 && count(SMALL, unit - PAGE_UNITS, unit - PAGE_UNITS + 7) == 7);
  start -= 2 * PAGE_UNITS * UNIT;
  huge_pages_split(arena, start - 4096, start);
  must(count(SMALL, 0, LEAST) == 4 + 7 + PAGE_UNITS && count(SMALL, 0, unit - 3 * PAGE_UNITS) == PAGE_UNITS);
}

/* The end of a page of 2 MiB is not that of a longer one, which is split there as well. */
static void split_longer(void *argument)
{
  const size_t *size = argument;
  size_t page = PAGE_UNITS * UNIT;
  bool longer = *size > page;
  settings.huge_pages = HUGE_PAGES_ALWAYS;
  os_fake.huge_page_size = *size;
  os_fake.page_size = 16 << 10;
  must(huge_pages_choose() == HUGE_PAGES_ALWAYS);
  begin(HUGE_PAGES_AUTO);
  fill_to(UNITS);
  char *border = (char *)round_up((uintptr_t)arena->base + 2 * LEAST * UNIT, *size);
  huge_pages_split(arena, border, border + page);
  must(os_fake.splits == longer && (!longer || os_fake.split_last == border + page));
  huge_pages_split(arena, border + page, border + 2 * page);
  must(os_fake.splits == 2 * longer);
}
WITH(split_longer, size_t, 1 << 20, 2 << 20, 32 << 20)

/* While a child has it too, the system does not split a huge page. Pages that become huge later are split once. */
static void split_after_a_fork(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  fill_to(UNITS);
  size_t page = arena->open_page - 2;
  char *start = arena->base + page * PAGE_UNITS * UNIT;
  huge_pages_note_fork(arena);
  for (size_t i = 1; i <= 3; i++) {
    huge_pages_split(arena, start + UNIT, start + PAGE_UNITS * UNIT);
    must(os_fake.splits == i);
  }
  huge_pages_unmap(arena, (page - 1) * PAGE_UNITS, UNITS); /* what is mapped there next is new */
  huge_pages_split(arena, start + UNIT, start + PAGE_UNITS * UNIT);
  must(os_fake.splits == 3);
  bits_set(arena->huge, page, page + 1);
  huge_pages_split(arena, start + UNIT, start + UNIT + 1);
  must(os_fake.splits == 4);
}

/* Under a limit on memory what is mapped beyond what is needed stays small. */
static void limited(void *argument)
{
  (void)argument;
  begin(HUGE_PAGES_AUTO);
  os_memory_limit = 512 * MIB;
  for (size_t i = 0; i < UNITS; i++) {
    take_full(1);
    must(arena->committed <= i + 1 + (512 * MIB / 256 >> UNIT_LOG2));
  }
}

IN_CHILD(grows)
IN_CHILD(opened_by_the_first)
IN_CHILD(opened_again)
IN_CHILD(never)
IN_CHILD(always)
IN_CHILD(shrinks)
IN_CHILD(short_steps)
IN_CHILD(limited)
IN_CHILD(split)
IN_CHILD(split_among_all)
IN_CHILD(split_after_a_fork)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(grows_test),
    cmocka_unit_test(filled_test),
    cmocka_unit_test(partly_test),
    cmocka_unit_test(opened_by_the_first_test),
    cmocka_unit_test(opened_again_test),
    cmocka_unit_test(never_test),
    cmocka_unit_test(always_test),
    cmocka_unit_test(shrinks_test),
    cmocka_unit_test(cut_test),
    cmocka_unit_test(short_steps_test),
    cmocka_unit_test(limited_test),
    cmocka_unit_test(split_test),
    cmocka_unit_test(split_among_all_test),
    cmocka_unit_test(split_longer_test),
    cmocka_unit_test(split_after_a_fork_test),
  };
  return cmocka_run_group_tests_name("huge_pages", tests, NULL, NULL);
}
