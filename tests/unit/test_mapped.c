/* SPDX-License-Identifier: MIT
 *
 * The figures account for every byte that is mapped: live, cached, free, returned, metadata. In random lives the sum over all
 * heaps is what the system was asked for and not given back, and what is called returned has no page behind it. */
#include "heap/heap.h"
#include "os_fake.h"
#include "space/huge.h"
#include "unit.h"
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <tidepool/heap.h>
#include <tidepool/stats.h>

enum { HEAPS = 10, SLOTS_OF_LIFE = 400, STEPS_OF_LIFE = 3000, CHECK_EACH = 25, LIVES = 8 };

typedef struct life {
  dice_t dice;
  pool_heap_t *heaps[HEAPS]; /* the first is the default heap */
  struct {
    char *block;
    size_t size, heap;
  } slots[SLOTS_OF_LIFE];
  bool fails; /* the system refuses one call in a few */
} life_t;

static pool_stats_t figures_of(pool_heap_t *heap)
{
  pool_stats_t s;
  must(pool_heap_stats(heap, &s));
  return s;
}

/* What holds of each heap by itself. */
static void adds_up(const pool_stats_t *s)
{
  must(s->held_bytes == s->live_bytes + s->cached_bytes + s->idle_bytes + s->metadata_bytes + s->children_bytes);
  must(s->mapped_bytes ==
       s->live_bytes + s->cached_bytes + s->free_bytes + s->returned_bytes + s->metadata_bytes + s->children_bytes);
  must(s->free_bytes <= s->idle_bytes && s->mapped_bytes >= s->held_bytes);
}

/* Returns how many bytes of pages are in memory between the class map and the end of the last open slot. */
static size_t resident_in_window(void)
{
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  size_t resident = 0;
  uintptr_t from = (uintptr_t)class_window.map - MAP_PLANE, to = (uintptr_t)window_slot(window_slots_open());
  must(maps != NULL);
  while (fgets(line, sizeof line, maps)) {
    uintptr_t start, end;
    static unsigned char pages[1 << 18];
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) != 2 || end <= from || start >= to)
      continue;
    for (; start < end; start += sizeof pages * os_fake.page_size) {
      size_t bytes = min_size(end - start, sizeof pages * os_fake.page_size);
      must(mincore((void *)start, bytes, pages) == 0);
      for (size_t i = 0; i < bytes / os_fake.page_size; i++)
        resident += (pages[i] & 1) * os_fake.page_size;
    }
  }
  fclose(maps);
  return resident;
}

static void account_for_all(const life_t *life)
{
  size_t mapped = 0, backed = 0;
  for (size_t i = 0; i < HEAPS; i++) {
    if (!life->heaps[i])
      continue;
    pool_stats_t s = figures_of(life->heaps[i]);
    adds_up(&s);
    mapped += s.mapped_bytes - s.children_bytes;
    backed += s.mapped_bytes - s.children_bytes - s.returned_bytes;
  }
  must(mapped == os_fake.mapped_bytes);
  if (!life->fails)
    must(resident_in_window() + huge_mapped_bytes() <= backed);
}

static pool_heap_t *some_heap_made(life_t *life)
{
  pool_heap_t *parent = NULL;
  for (size_t i = 1; i < HEAPS && !parent; i++)
    parent = life->heaps[i] && dice_below(&life->dice, 3) == 0 ? life->heaps[i] : NULL;
  const pool_heap_options_t kinds[] = {{.parent = parent},
                                       {.budget = 64 << 20},
                                       {.budget = 512 << 10},
                                       {.budget = 3 << 20},
                                       {.budget = 8 << 20, .flags = POOL_HEAP_DENSE},
                                       {.reserve = 1 << 20},
                                       {.reserve = 7 << 20, .parent = parent},
                                       {.reserve = 20 << 20},
                                       {.reserve = 9 << 20, .flags = POOL_HEAP_PREFAULT},
                                       {.flags = POOL_HEAP_SINGLE_THREAD},
                                       {.flags = POOL_HEAP_CHECKED},
                                       {.flags = POOL_HEAP_ZERO_ON_FREE, .parent = parent}};
  return pool_heap_create(&kinds[dice_below(&life->dice, sizeof kinds / sizeof *kinds)]);
}

static bool is_parent(const life_t *life, const pool_heap_t *heap)
{
  for (size_t i = 1; i < HEAPS; i++)
    if (life->heaps[i] && life->heaps[i]->parent == heap)
      return true;
  return false;
}

static void make_or_destroy(life_t *life)
{
  size_t i = 1 + dice_below(&life->dice, HEAPS - 1);
  if (!life->heaps[i]) {
    life->heaps[i] = some_heap_made(life);
  } else if (!is_parent(life, life->heaps[i]) && dice_below(&life->dice, 2)) {
    pool_heap_destroy(life->heaps[i]);
    life->heaps[i] = NULL;
    for (size_t k = 0; k < SLOTS_OF_LIFE; k++)
      life->slots[k].block = life->slots[k].heap == i ? NULL : life->slots[k].block;
  }
}

/* Small ones mostly, large ones seldom, and huge ones hardly ever. */
static size_t some_size(life_t *life)
{
  size_t kind = dice_below(&life->dice, 100);
  size_t most = kind < 60 ? 2000 : kind < 85 ? 60000 : kind < 97 ? 2 << 20 : kind < 99 ? 20 << 20 : (size_t)300 << 20;
  return 1 + dice_below(&life->dice, most);
}

/* Writes to all of a block, but for huge ones: the pages must be there for the test to mean anything. */
static void touch(char *block, size_t size)
{
  for (size_t at = 0; block && at < size && at < 4 << 20; at += 512)
    block[at] = 1;
}

static void change_block(life_t *life)
{
  size_t k = dice_below(&life->dice, SLOTS_OF_LIFE), heap = dice_below(&life->dice, HEAPS), size = some_size(life);
  char *block = life->slots[k].block;
  if (block && dice_below(&life->dice, 4) == 0) {
    char *moved = pool_heap_realloc(life->heaps[life->slots[k].heap], block, size);
    life->slots[k].block = moved ? moved : block;
    touch(moved, size);
  } else if (block) {
    pool_free(block);
    life->slots[k].block = NULL;
  } else if (life->heaps[heap]) {
    life->slots[k].block = pool_heap_alloc(life->heaps[heap], size);
    life->slots[k].heap = heap;
    touch(life->slots[k].block, size);
  }
}

static void free_many(life_t *life)
{
  for (size_t k = 0; k < SLOTS_OF_LIFE; k++)
    if (life->slots[k].block && dice_below(&life->dice, 8)) {
      pool_free(life->slots[k].block);
      life->slots[k].block = NULL;
    }
}

static void step(life_t *life)
{
  size_t kind = dice_below(&life->dice, 200);
  os_fake.fail_from = life->fails && kind % 5 == 0 ? os_fake.calls + 1 + dice_below(&life->dice, 3) : 0;
  os_fake.fail_to = os_fake.fail_from ? os_fake.fail_from + 1 + dice_below(&life->dice, 2) : 0;
  os_fake.occupied = kind % 2;
  if (life->fails && kind >= 195)
    os_fake.fail_kinds ^= 1u << (dice_below(&life->dice, 2) ? OS_UNMAP : OS_MAP_AT);
  if (kind < 3)
    make_or_destroy(life);
  else if (kind < 4)
    free_many(life);
  else if (kind < 6)
    pool_trim(dice_below(&life->dice, 2) * (4 << 20));
  else if (kind < 30)
    os_fake.now_ms += dice_below(&life->dice, 60);
  else
    change_block(life);
}

static void live(void *argument)
{
  const size_t *number = argument;
  static life_t life;
  os_fake_heal();
  life = (life_t){.dice = {*number}, .fails = *number % 3 == 2};
  must(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0); /* a huge page would be in memory as a whole */
  os_fake.grants_nothing = true;
  life.heaps[0] = pool_heap_default();
  pool_free(pool_alloc(1));
  for (size_t i = 1; i <= STEPS_OF_LIFE; i++) {
    step(&life);
    os_fake.fail_from = os_fake.fail_to = 0;
    if (i % CHECK_EACH == 0)
      account_for_all(&life);
  }
  free_many(&life);
  pool_trim(0);
  account_for_all(&life);
  must(check_everything());
}

static void random_lives(void **state)
{
  (void)state;
  for (size_t i = 0; i < some_of(3 * LIVES); i++)
    in_child(live, &i);
}

/* A peak that is freed is free at first, and then returned: its addresses stay below what is still live. */
static void a_peak(void *argument)
{
  enum { COUNT = 400, SIZE = 60000 };
  static char *blocks[COUNT];
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < COUNT; i++)
    touch(blocks[i] = pool_alloc(SIZE), SIZE);
  for (size_t i = 0; i + 1 < COUNT; i++)
    pool_free(blocks[i]);
  pool_stats_t before = figures_of(pool_heap_default());
  must(before.free_bytes >= (size_t)300 * SIZE);
  pool_trim((size_t)100 * SIZE);
  pool_stats_t after = figures_of(pool_heap_default());
  must(after.free_bytes <= (size_t)110 * SIZE && after.free_bytes >= (size_t)90 * SIZE);
  must(after.mapped_bytes == os_fake.mapped_bytes && before.mapped_bytes - after.mapped_bytes + after.returned_bytes >=
                                                       before.returned_bytes + before.free_bytes - after.free_bytes);
}

/* Free blocks of pages in a slab that stays hold no memory after a trim: they are returned, and held. */
static void blocks_in_slabs(void *argument)
{
  enum { COUNT = 800 };
  static char *blocks[COUNT];
  (void)argument;
  const size_t size = max_size(16 << 10, os_fake.page_size);
  os_fake_heal();
  pool_heap_t *heap = pool_heap_create(NULL);
  for (size_t i = 0; i < COUNT; i++)
    touch(blocks[i] = pool_heap_alloc(heap, size), size);
  for (size_t i = 0; i < COUNT; i++)
    if (i % 8)
      pool_heap_free(heap, blocks[i]);
  must(figures_of(heap).returned_bytes == 0);
  pool_heap_trim(heap, 0);
  pool_stats_t s = figures_of(heap);
  adds_up(&s);
  must(s.returned_bytes == COUNT / 8 * 7 * size && s.idle_bytes == s.returned_bytes + s.free_bytes);
  for (size_t i = 1; i < COUNT; i += 8)
    must((blocks[i] = pool_heap_alloc(heap, size)) != NULL);
  must(figures_of(heap).returned_bytes < s.returned_bytes);
  pool_heap_destroy(heap);
}

/* Of a block that is no multiple of a page, only the pages that lie inside of it went back. */
static void between_live_blocks(void *argument)
{
  enum { COUNT = 500 };
  const size_t *size = argument;
  static char *blocks[COUNT];
  os_fake_heal();
  must(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  for (size_t i = 0; i < COUNT; i++)
    touch(blocks[i] = pool_alloc(*size), *size);
  for (size_t i = 0; i < COUNT; i += 2)
    pool_free(blocks[i]);
  pool_trim(0);
  pool_stats_t s = figures_of(pool_heap_default());
  must(s.returned_bytes >= (*size > 2 * os_fake.page_size ? COUNT / 2 * (*size / 4) : 0));
  must(resident_in_window() <= s.mapped_bytes - s.returned_bytes);
}

/* A reserve that has ended counts as long as the system refuses to unmap it, first with its memory and then without. */
static void an_ended_reserve(void *argument)
{
  (void)argument;
  os_fake_heal();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = 32 << 20});
  touch(pool_heap_alloc(heap, 4 << 20), 4 << 20);
  os_fake.fail_kinds = 1u << OS_UNMAP;
  pool_heap_destroy(heap);
  pool_stats_t s = figures_of(pool_heap_default());
  adds_up(&s);
  must(s.mapped_bytes == os_fake.mapped_bytes && s.returned_bytes >= 32 << 20);
  os_fake.fail_kinds = 0;
  pool_trim(0);
  s = figures_of(pool_heap_default());
  must(s.mapped_bytes == os_fake.mapped_bytes && s.mapped_bytes < 32 << 20);
}

/* A reserve that nobody has used is mapped and held, and has no page behind it. */
static void an_unused_reserve(void *argument)
{
  (void)argument;
  os_fake_heal();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.reserve = 32 << 20});
  pool_stats_t s = figures_of(heap);
  adds_up(&s);
  must(s.returned_bytes >= 32 << 20 && s.free_bytes < 1 << 20 && s.held_bytes >= 32 << 20);
  char *block = pool_heap_alloc(heap, 1 << 20);
  touch(block, 1 << 20);
  pool_heap_free(heap, block);
  s = figures_of(heap);
  must(s.free_bytes >= 1 << 20 && s.free_bytes < 2 << 20);
  pool_heap_destroy(heap);
  heap = pool_heap_create(&(pool_heap_options_t){.reserve = 32 << 20, .flags = POOL_HEAP_PREFAULT});
  s = figures_of(heap);
  must(s.returned_bytes == 0 && s.free_bytes >= 32 << 20);
  pool_heap_destroy(heap);
}

/* Huge pages count when they are asked for, and no more once their addresses have gone. */
static void what_is_advised(void *argument)
{
  enum { COUNT = 3000, SIZE = 16 << 10 };
  static char *blocks[COUNT];
  (void)argument;
  os_fake_heal();
  must(pool_option_set("huge_pages", "always"));
  for (size_t i = 0; i < COUNT; i++)
    blocks[i] = pool_alloc(SIZE);
  pool_stats_t s = figures_of(pool_heap_default());
  must(s.advised_bytes >= (size_t)COUNT * SIZE && s.advised_bytes <= s.mapped_bytes + (4 << 20));
  for (size_t i = 0; i < COUNT; i++)
    pool_free(blocks[i]);
  pool_trim(0);
  must(figures_of(pool_heap_default()).advised_bytes <= 4 << 20);
}

IN_CHILD(a_peak)
WITH(between_live_blocks, size_t, 9 << 10, 10 << 10, 15000, 20000, 40000)
IN_CHILD(blocks_in_slabs)
IN_CHILD(an_unused_reserve)
IN_CHILD(an_ended_reserve)
IN_CHILD(what_is_advised)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_lives),
    cmocka_unit_test(a_peak_test),
    cmocka_unit_test(blocks_in_slabs_test),
    cmocka_unit_test(an_ended_reserve_test),
    cmocka_unit_test(an_unused_reserve_test),
    cmocka_unit_test(what_is_advised_test),
    cmocka_unit_test(between_live_blocks_test),
  };
  return cmocka_run_group_tests_name("mapped", tests, NULL, NULL);
}
