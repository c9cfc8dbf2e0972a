/* SPDX-License-Identifier: MIT
 * A yard by itself: where places lie, that two have a page of nobody between them, which are used again, and what is known of
 * an address. */
#include "debug/guard_area.h"
#include "os_fake.h"
#include "space/huge.h"
#include "unit.h"

enum { PAGES = 256, LIVE = 40, FREED = 20 };
#define PAGE os_page_size()

static guard_area_t yard = {.live_most = LIVE, .freed_most = FREED};

static void begin(void)
{
  os_fake_heal();
  yard.bytes_most = PAGES * PAGE;
  must(guard_area_begin(&yard) && guard_area_begin(&yard) && yard.pages == PAGES);
}

static bool has_writable_pages(const guard_area_place_t *place)
{
  char *start = guard_area_pages(&yard, place);
  for (size_t i = 0; i < guard_area_pages_bytes(place); i += PAGE)
    start[i]++;
  return true;
}

/* Any sizes and alignments at random: places never touch, and every question finds its place. */
static void apart_from_each_other(void *argument)
{
  enum { TURNS = 20000 };
  guard_area_place_t *places[LIVE];
  size_t count = 0;
  dice_t dice = {3};
  (void)argument;
  begin();
  for (size_t step = 0; step < TURNS; step++) {
    if (count < LIVE && dice_below(&dice, 2)) {
      size_t size = dice_below(&dice, 4 * PAGE), alignment = (size_t)1 << dice_below(&dice, 14);
      guard_area_place_t *place = guard_area_take(&yard, size, alignment);
      if (!place)
        continue;
      must((uintptr_t)place->block % max_size(alignment, 16) == 0 && place->block >= guard_area_pages(&yard, place));
      must(size == 0 || (place->block + size <= guard_area_pages(&yard, place) + guard_area_pages_bytes(place) &&
                         has_writable_pages(place)));
      must(size == 0 || guard_area_pages(&yard, place) + guard_area_pages_bytes(place) - (place->block + size) <
                          (ptrdiff_t)max_size(alignment, 16));
      for (size_t i = 0; i < count; i++)
        must(place->page + place->pages < places[i]->page || places[i]->page + places[i]->pages < place->page);
      must(guard_area_place_at(&yard, place->block, false) == place);
      places[count++] = place;
    } else if (count) {
      size_t i = dice_below(&dice, count);
      char *block = places[i]->block;
      guard_area_give(&yard, places[i]);
      must(guard_area_place_at(&yard, block, false) == places[i] && places[i]->state == GUARD_AREA_FREED);
      places[i] = places[--count];
    }
    must(yard.live == count && yard.freed <= FREED);
  }
}

/* The oldest that is freed is forgotten first; nothing is used again before the end of the yard has been reached. */
static void oldest_first(void *argument)
{
  (void)argument;
  begin();
  char *first = NULL, *last = NULL;
  size_t taken = 0;
  for (bool again = false; !again; taken++) {
    guard_area_place_t *place = guard_area_take(&yard, 16, 1);
    must(place != NULL);
    again = last && place->block < last;
    first = first ? first : place->block;
    must(!again || place->block == first);
    last = place->block;
    guard_area_give(&yard, place);
    must(yard.freed == min_size(taken + 1, FREED));
  }
  must(taken > PAGES / 2 - PAGES / 8);
}

/* Between two an access is put down to the one that is nearer. */
static void nearest(void *argument)
{
  (void)argument;
  begin();
  guard_area_place_t *a = guard_area_take(&yard, 100, 1), *b = guard_area_take(&yard, 3000, 1);
  char *end = guard_area_pages(&yard, a) + PAGE;
  must(end + PAGE == guard_area_pages(&yard, b));
  must(!guard_area_place_at(&yard, end, false) && guard_area_place_at(&yard, end, true) == a);
  must(guard_area_place_at(&yard, end + PAGE - 1, true) == b && guard_area_place_at(&yard, end - PAGE - 1, true) == a);
  must(!guard_area_place_at(&yard, yard.start + PAGES * PAGE, true) && !guard_area_holds(&yard, yard.start - 1));
}

/* What the system does not open is not taken, and what it does not close never serves again. */
static void refused(void *argument)
{
  (void)argument;
  begin();
  guard_area_place_t *kept = guard_area_take(&yard, 100, 1);
  os_fake.fail_kinds = 1 << OS_OPEN;
  for (size_t i = 0; i < 2 * PAGES; i++)
    must(!guard_area_take(&yard, 100, 1) && yard.live == 1);
  os_fake.fail_kinds = 1 << OS_CLOSE;
  guard_area_give(&yard, kept);
  must(yard.live == 1 && yard.freed == 0 && kept->state == GUARD_AREA_LEAVING); /* and accessible: so it serves nobody */
  guard_area_place_t *place = guard_area_take(&yard, 100, 1);
  must(place && place != kept && kept->state == GUARD_AREA_LEAVING);
  os_fake_heal();
  guard_area_give(&yard, place);
  must(yard.live == 0 && yard.freed == 2 && kept->state == GUARD_AREA_FREED);
  for (size_t i = 0; i < 4 * PAGES; i++) {
    place = guard_area_take(&yard, 100, 1);
    must(place);
    guard_area_give(&yard, place);
  }
  must(yard.live == 0);
}

/* A system that has no addresses has no yard; one that has few has a short one. */
static void no_addresses(void *argument)
{
  (void)argument;
  os_fake_heal();
  yard.bytes_most = PAGES * PAGE;
  for (uint64_t n = 1; n <= 3; n++) {
    os_fake.fail_from = os_fake.calls + n;
    os_fake.fail_to = os_fake.fail_from + PAGES;
    must(!guard_area_begin(&yard) || n == 4);
    os_fake_heal();
    os_fake.fail_from = os_fake.fail_to = 0;
  }
  os_memory_limit = 128 * PAGE * 8;
  must(guard_area_begin(&yard) && yard.pages == 128);
}

IN_CHILD(apart_from_each_other)
IN_CHILD(oldest_first)
IN_CHILD(nearest)
IN_CHILD(refused)
IN_CHILD(no_addresses)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(apart_from_each_other_test),
    cmocka_unit_test(oldest_first_test),
    cmocka_unit_test(nearest_test),
    cmocka_unit_test(refused_test),
    cmocka_unit_test(no_addresses_test),
  };
  return cmocka_run_group_tests_name("yard", tests, NULL, NULL);
}
