/* SPDX-License-Identifier: MIT
 * What a heap does not need goes back while the program is busy elsewhere: by the clock, at the slow paths of others. */
#include "base/bits.h"
#include "debug/head.h"
#include "heap/granular.h"
#include "heap/heap.h"
#include "heap/tick.h"
#include "levels.h"
#include "os_fake.h"
#include "unit.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>

enum { MOST = 30000, KEPT_LEAST = 0, EPOCHS = 20 };

static void *blocks[MOST];

static size_t fill(pool_heap_t *heap, size_t size, size_t bytes)
{
  size_t count = 0;
  for (; count * size < bytes; count++) {
    must(count < MOST && (blocks[count] = pool_heap_alloc(heap, size)) != NULL);
    memset(blocks[count], 7, size);
  }
  return count;
}

/* The program goes on in its default heap. */
static void be_busy(size_t epochs)
{
  for (size_t i = 0; i < epochs; i++) {
    os_fake.now_ms += 30;
    for (size_t k = 0; k < 64; k++)
      pool_free(pool_alloc(70000));
  }
}

/* Of blocks of which threads keep magazines, and of others. */
static void reserve_goes_back(void *argument)
{
  const size_t *size = argument;
  manager_up();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = 32 << 20});
  must(heap);
  size_t count = fill(heap, *size, 24 << 20);
  be_busy(1);
  while (count--)
    pool_heap_free(heap, blocks[count]);
  must(heap->region.space.dirty_units > KEPT_LEAST);
  be_busy(EPOCHS);
  must(heap->region.space.dirty_units <= KEPT_LEAST && check_everything());
}

/* Large blocks, freed in turn from two reserves: each is ticked by its own frees. */
static void reserves_in_turn(void *argument)
{
  enum { LARGE = 300000, PAIRS = 40 };
  pool_heap_t *heaps[2];
  (void)argument;
  manager_up();
  for (size_t i = 0; i < 2; i++)
    must((heaps[i] = pool_heap_create(&(pool_heap_options_t){.reserve = 32 << 20})) != NULL);
  for (size_t i = 0; i < 2 * PAIRS; i++)
    must((blocks[i] = pool_heap_alloc(heaps[i % 2], LARGE)) != NULL);
  for (size_t i = 0; i < 2 * PAIRS; i++) {
    os_fake.now_ms += 10;
    pool_heap_free(heaps[i % 2], blocks[i]);
  }
  must(heaps[0]->region.space.purged_bytes > 0 && heaps[1]->region.space.purged_bytes > 0 && check_everything());
}

/* A few large blocks, where the small ones beside them are quiet and stay. */
static void large_beside_quiet_small(void *argument)
{
  enum { LARGE = 4 << 20, MANY = 6 };
  (void)argument;
  manager_up();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = 64 << 20});
  must(heap);
  fill(heap, 1000, 100000);
  for (size_t i = 0; i < MANY; i++) {
    must((blocks[i] = pool_heap_alloc(heap, LARGE)) != NULL);
    memset(blocks[i], 7, LARGE);
  }
  be_busy(EPOCHS);
  for (size_t i = 0; i < MANY; i++)
    pool_heap_free(heap, blocks[i]);
  be_busy(EPOCHS);
  must(heap->region.space.dirty_units <= KEPT_LEAST && check_everything());
}

/* What the system does not take is not asked for at every tick of a region that nobody uses. */
static void refused_and_left_alone(void *argument)
{
  (void)argument;
  manager_up();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = 32 << 20});
  must(heap);
  size_t count = fill(heap, 20000, 24 << 20);
  be_busy(1);
  while (count--)
    pool_heap_free(heap, blocks[count]);
  os_fake.fail_kinds = 1 << OS_PURGE;
  be_busy(EPOCHS);
  uint64_t before = os_fake.count[OS_PURGE];
  be_busy(EPOCHS);
  must(heap->region.space.dirty_units > KEPT_LEAST && os_fake.count[OS_PURGE] - before < EPOCHS);
  os_fake_heal();
  pool_heap_free(heap, pool_heap_alloc(heap, 20000));
  be_busy(EPOCHS);
  must(heap->region.space.dirty_units <= KEPT_LEAST && check_everything());
}

/* What a reset leaves, also of a heap that nobody had used for long. */
static void reset_goes_back(void *argument)
{
  const size_t *quiet = argument;
  pool_stats_t stats;
  manager_up();
  pool_heap_t *heap = pool_heap_create(NULL);
  must(heap);
  fill(heap, 1000, 10 << 20);
  be_busy(*quiet);
  pool_heap_reset(heap);
  be_busy(EPOCHS);
  pool_heap_stats(heap, &stats);
  must(stats.held_bytes <= 1 << 20 && check_everything());
}

/* Phases of other sizes, of each of which some blocks survive: pages without a survivor go, by themselves or by a trim. */
enum { SURVIVORS_MOST = 4000, LONG_AFTER = 200 };
static char *survivors[SURVIVORS_MOST];
static size_t survivor_sizes[SURVIVORS_MOST], survivor_count;

typedef struct drift {
  unsigned flags;
  bool trims;
  size_t every, survivor_pages; /* one block of so many survives, and may hold so many pages, its neighbours' share with it */
} drift_t;

static void survive(char *block, size_t size)
{
  must(survivor_count < SURVIVORS_MOST);
  survivor_sizes[survivor_count] = size;
  survivors[survivor_count++] = block;
}

static void live_through_phases(pool_heap_t *heap, size_t every)
{
  for (size_t size = 48; size < 3000; size += size / 4) {
    size_t count = fill(heap, size, 1 << 20);
    for (size_t i = 0; i < count; i++)
      if (i % every == every / 2)
        survive(blocks[i], size);
      else
        pool_heap_free(heap, blocks[i]);
  }
}

static size_t resident_pages_of_survivors(void)
{
  static char *last;
  size_t resident = 0;
  for (size_t i = 0; i < survivor_count; i++) {
    char *page = (char *)round_down((uintptr_t)survivors[i], UNIT);
    unsigned char there[UNIT / 4096];
    must(page >= last && mincore(page, UNIT, there) == 0);
    for (size_t p = 0; page > last && p < UNIT / os_page_size(); p++)
      resident += there[p] & 1;
    last = page;
  }
  return resident;
}

static int by_address(const void *a, const void *b)
{
  const char *const *x = a, *const *y = b;
  return (*x > *y) - (*x < *y);
}

static void pages_between_survivors(void *argument)
{
  const drift_t *drift = argument;
  manager_up();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.flags = drift->flags});
  must(heap);
  live_through_phases(heap, drift->every);
  for (size_t i = 0; i < LONG_AFTER && !drift->trims; i++) {
    be_busy(1);
    for (size_t size = 48; size < 3000; size += size / 4)
      for (size_t k = 0; k < 32; k++)
        pool_heap_free(heap, pool_heap_alloc(heap, size));
  }
  if (drift->trims)
    must(pool_heap_trim(heap, 0) > 4 << 20);
  for (size_t i = 0; i < survivor_count; i++)
    must(*survivors[i] == 7 && memcmp(survivors[i], survivors[i] + 1, survivor_sizes[i] - 1) == 0);
  qsort(survivors, survivor_count, sizeof *survivors, by_address);
  must(resident_pages_of_survivors() <= survivor_count * drift->survivor_pages && check_everything());
}

/* Pages of small budgets, which their own heaps do not use any more: all of them go, and no call has more than a step. One look
 * does not come to all of the heaps. */
static void granules_go_back_by_steps(void *argument)
{
  enum { HEAPS = 70, PAGES = 40, PAGE = 4096, CALLS_MOST = 2 };
  pool_heap_t *heaps[HEAPS];
  (void)argument;
  manager_up();
  for (size_t i = 0; i < HEAPS; i++) {
    must((heaps[i] = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20})) != NULL);
    size_t count = fill(heaps[i], PAGE, PAGES * PAGE);
    while (count--)
      pool_heap_free(heaps[i], blocks[count]);
  }
  for (size_t i = 0; i < 4 * EPOCHS * 64; i++) {
    uint64_t before = os_fake.count[OS_PURGE];
    os_fake.now_ms += i % 64 == 0 ? 30 : 0;
    void *block = pool_alloc(70000);
    must(os_fake.count[OS_PURGE] - before <= CALLS_MOST);
    before = os_fake.count[OS_PURGE];
    pool_free(block);
    must(os_fake.count[OS_PURGE] - before <= CALLS_MOST);
  }
  for (size_t i = 0; i < HEAPS; i++) {
    pool_stats_t stats;
    pool_heap_stats(heaps[i], &stats);
    must(stats.purged_bytes == PAGES * PAGE);
  }
  must(check_everything());
}

/* A look at the clock that comes to a small budget among many heaps goes through some of them; and a round goes on where the
 * heap that it had come to has ended. */
static void rounds_among_many_heaps(void *argument)
{
  enum { SMALL = 20, EACH = 100, PAGES = 20, PAGE = 4096 };
  pool_heap_t *heaps[SMALL], *others[SMALL][EACH];
  (void)argument;
  manager_up();
  for (size_t i = 0; i < SMALL; i++) {
    must((heaps[i] = pool_heap_create(&(pool_heap_options_t){.budget = 256 << 10})) != NULL);
    size_t count = fill(heaps[i], PAGE, PAGES * PAGE);
    while (count--)
      pool_heap_free(heaps[i], blocks[count]);
    for (size_t k = 0; k < EACH; k++)
      must((others[i][k] = pool_heap_create(NULL)) != NULL);
  }
  size_t left = SMALL * EACH, most = 0;
  for (size_t i = 0; i < 40 * EPOCHS * 64; i++) {
    const heap_t *before = heaps_round_at;
    os_fake.now_ms += i % 64 == 0 ? 30 : 0;
    pool_free(pool_alloc(70000));
    size_t steps = 0;
    for (const heap_t *heap = before; heap && heap != heaps_round_at; heap = heap->next)
      steps++;
    most = max_size(most, steps);
    if (left && heaps_round_at && heaps_round_at != before)
      for (size_t k = 0; k < SMALL * EACH; k++)
        if (others[k / EACH][k % EACH] == heaps_round_at) {
          pool_heap_destroy(others[k / EACH][k % EACH]);
          others[k / EACH][k % EACH] = NULL;
          left--;
        }
  }
  must(most == 32 && left < SMALL * EACH);
  for (size_t i = 0; i < SMALL; i++) {
    pool_stats_t stats;
    pool_heap_stats(heaps[i], &stats);
    must(stats.purged_bytes == PAGES * PAGE);
  }
  must(check_everything());
}

enum { PAGE = 4096, PAGES = 200, DELAY_MS = 1000 };

static size_t purged_of(pool_heap_t *heap)
{
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  return stats.purged_bytes;
}

/* A round over the pages that went on for long is not the one before for what was freed behind it. */
static void granules_stay_for_the_delay(void *argument)
{
  enum { FIRST = 34, LATER = 16, LONG = 600 << 10 };
  (void)argument;
  manager_up();
  os_fake.now_ms += DELAY_MS;
  pool_heap_t *heap =
    pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20, .purge_delay_ms = DELAY_MS, .flags = POOL_HEAP_SINGLE_THREAD});
  must(heap);
  fill(heap, PAGE, (FIRST + LATER) * PAGE);
  void *last = pool_heap_alloc(heap, LONG);
  for (size_t i = 0; i < FIRST + LATER; i++) {
    os_fake.now_ms += i == FIRST ? DELAY_MS + 100 : 0;
    pool_heap_free(heap, blocks[i]);
  }
  os_fake.now_ms += DELAY_MS + 100;
  size_t before = purged_of(heap);
  must(before > 0);
  pool_heap_free(heap, last);
  for (size_t i = 0; i < PAGES; i++)
    pool_heap_free(heap, pool_heap_alloc(heap, PAGE));
  must(purged_of(heap) - before <= (FIRST + LATER) * PAGE && check_everything());
  os_fake.now_ms += 2 * DELAY_MS;
  for (size_t i = 0; i < PAGES; i++)
    pool_heap_free(heap, pool_heap_alloc(heap, PAGE));
  must(purged_of(heap) > LONG && check_everything());
}

/* A trim asks the system once for pages that lie side by side, and keeps as much as it was told to. */
static void a_trim_gives_back_runs(void *argument)
{
  enum { STAYS = 100, KEPT = 10 };
  (void)argument;
  manager_up();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20});
  must(heap);
  fill(heap, PAGE, PAGES * PAGE);
  for (size_t i = 0; i < PAGES; i++)
    if (i != STAYS)
      pool_heap_free(heap, blocks[i]);
  uint64_t before = os_fake.count[OS_PURGE];
  must(pool_heap_trim(heap, KEPT * PAGE) == (PAGES - 1 - KEPT) * PAGE && os_fake.count[OS_PURGE] - before == 2);
  must(pool_heap_trim(heap, 0) == KEPT * PAGE && os_fake.count[OS_PURGE] - before == 3 && check_everything());
}

/* A locked page stays, and what a refused call has taken of the others does not look like a write to free memory. */
static void a_locked_page_stays(void *argument)
{
  enum { LOCKED = 100 };
  (void)argument;
  manager_up();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20, .flags = POOL_HEAP_CHECKED});
  must(heap);
  size_t count = fill(heap, PAGE - HEAD_BYTES, PAGES * (PAGE - HEAD_BYTES));
  os_fake.locked = blocks[LOCKED];
  os_fake.locked_end = os_fake.locked + 1;
  os_fake.fail_halfway = true;
  while (count--)
    pool_heap_free(heap, blocks[count]);
  must(pool_heap_trim(heap, 0) == (PAGES - 1) * PAGE);
  fill(heap, PAGE - HEAD_BYTES, PAGES * (PAGE - HEAD_BYTES));
  must(check_everything());
}

/* With system pages that are longer than pages of granules, those without a block are returned: by the clock, or by a trim.
 * Nothing else is, and then nothing waits. */
typedef struct longer_pages {
  size_t page;
  bool trims;
} longer_pages_t;

static size_t bytes_without(const longer_pages_t *longer, char *const *stay, size_t count, size_t pages)
{
  const char *base = (char *)round_down((uintptr_t)stay[0], longer->page);
  size_t bytes = 0;
  for (const char *at = base; at < base + pages * PAGE; at += longer->page) {
    bool survives = false;
    for (size_t i = 0; i < count; i++)
      survives |= stay[i] >= at && stay[i] < at + longer->page;
    bytes += survives ? 0 : min_size(longer->page, (size_t)(base + pages * PAGE - at));
  }
  return bytes;
}

static void granules_of_longer_pages(void *argument)
{
  enum { MANY = 900, EACH = 37 };
  const longer_pages_t *longer = argument;
  os_fake.page_size = longer->page;
  manager_up();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 8 << 20});
  must(heap);
  char *stay[MANY / EACH + 1];
  size_t count = 0;
  fill(heap, PAGE, MANY * PAGE);
  for (size_t i = 0; i < MANY; i++)
    if (i % EACH == 0)
      stay[count++] = blocks[i];
    else
      pool_heap_free(heap, blocks[i]);
  size_t wanted = bytes_without(longer, stay, count, MANY);
  must(wanted > 0 && wanted < (MANY - count) * PAGE);
  if (longer->trims)
    must(pool_heap_trim(heap, 0) == wanted);
  else
    be_busy(EPOCHS);
  bool left = false;
  must(purged_of(heap) == wanted && !granular_tick(heap, os_fake.now_ms, &left) && !left && pool_heap_trim(heap, 0) == 0);
  for (size_t i = 0; i < count; i++)
    must(stay[i][0] == 7 && stay[i][PAGE - 1] == 7);
  while (count--)
    pool_heap_free(heap, stay[count]);
  must(pool_heap_trim(heap, 0) == MANY * PAGE - wanted && check_everything());
}

WITH(reserve_goes_back, size_t, 1000, 20000, 100000)
IN_CHILD(reserves_in_turn)
IN_CHILD(large_beside_quiet_small)
IN_CHILD(refused_and_left_alone)
IN_CHILD(granules_go_back_by_steps)
IN_CHILD(rounds_among_many_heaps)
IN_CHILD(granules_stay_for_the_delay)
IN_CHILD(a_trim_gives_back_runs)
IN_CHILD(a_locked_page_stays)
WITH(granules_of_longer_pages, longer_pages_t, {16 << 10, false}, {16 << 10, true}, {64 << 10, false}, {64 << 10, true})
WITH(reset_goes_back, size_t, 0, 1, EPOCHS)
WITH(pages_between_survivors, drift_t, {false, false, 500, 4}, {false, true, 500, 4}, {true, false, 500, 4},
     {true, true, 500, 4}, {0, false, 3000, 12}, {0, true, 3000, 12})

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(reserve_goes_back_test),        cmocka_unit_test(reserves_in_turn_test),
    cmocka_unit_test(large_beside_quiet_small_test), cmocka_unit_test(refused_and_left_alone_test),
    cmocka_unit_test(reset_goes_back_test),          cmocka_unit_test(granules_go_back_by_steps_test),
    cmocka_unit_test(rounds_among_many_heaps_test),  cmocka_unit_test(granules_stay_for_the_delay_test),
    cmocka_unit_test(a_trim_gives_back_runs_test),   cmocka_unit_test(a_locked_page_stays_test),
    cmocka_unit_test(pages_between_survivors_test),  cmocka_unit_test(granules_of_longer_pages_test),
  };
  return cmocka_run_group_tests_name("heap_ticks", tests, time_stands_still, NULL);
}
