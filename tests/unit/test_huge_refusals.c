/* SPDX-License-Identifier: MIT
 * Huge blocks where the system refuses: what cannot be unmapped is left for the next, and no refusal costs much. */
#include "mappings.h"
#include "os_fake.h"
#include <stdio.h>

/* What it does not unmap is left, without its memory if that can be had; and it is zero. */
static void not_unmapped(void *argument)
{
  const bool *purged = argument;
  window_up();
  have_records();
  os_fake.fail_kinds = 1 << OS_UNMAP | (*purged ? 0 : 1 << OS_PURGE);
  os_fake.fail_halfway = true;
  huge_t *huge = take(4 * MIB);
  char *start = huge_start(huge);
  memset(start, 7, 4 * MIB);
  huge_give(huge);
  must(all_is_known() && ranges_left() == 1 && huge_left_bytes() == (*purged ? 0 : 4 * MIB));
  for (size_t i = 0; i < 3; i++) {
    bool zeroed;
    huge = huge_take(MIB, 1, &owner, &owned, &zeroed);
    must(huge && huge_start(huge) == start && zeroed == *purged && (!zeroed || all_zero(start, MIB)));
    must(huge_left_bytes() == (*purged ? 0 : 3 * MIB));
    memset(start, 7, MIB);
    huge_give(huge);
    must(all_is_known() && huge_left_bytes() == (*purged ? 0 : 4 * MIB));
  }
  os_fake_heal();
  must(huge_unmap_left() == (*purged ? 0 : 4 * MIB) && huge_left_bytes() == 0 && ranges_left() == 0 && all_is_known());
}

/* While system calls are forbidden blocks come from what is left and go there; afterwards it goes to the system. */
static void forbidden(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_left(16 * MIB);
  uint64_t calls = os_fake.calls;
  huge_t *live = take(5 * MIB);
  os_forbid(true);
  bool zeroed;
  for (size_t i = 0; i < 50; i++) {
    huge_t *a = take((1 + i % 5) * MIB), *b = take((1 + i % 6) * MIB);
    must(!huge_take(30 * MIB, 1, &owner, &owned, &zeroed));
    must(!huge_resize(a, 20 * MIB, true) && huge_resize(b, 5000, true));
    huge_give(b);
    huge_give(a);
  }
  huge_give(live);
  huge_give(take(6 * MIB));
  must(huge_unmap_left() == 0 && ranges_left() == 1 && huge_left_bytes() == 16 * MIB && os_fake.calls == calls);
  os_forbid(false);
  must(huge_unmap_left() == 16 * MIB && huge_left_bytes() == 0 && all_is_known());
}

/* An aligned block leaves what is before and behind it. */
static void aligned(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  for (size_t alignment = PAGE; alignment <= 4 * MIB; alignment *= 2) {
    have_left(16 * MIB);
    os_forbid(true);
    bool zeroed;
    huge_t *huge = huge_take(2 * MIB, alignment, &owner, &owned, &zeroed);
    must(huge && !zeroed && (uintptr_t)huge_start(huge) % alignment == 0 && huge_left_bytes() == 14 * MIB && all_is_known());
    huge_give(huge);
    must(ranges_left() == 1 && huge_left_bytes() == 16 * MIB);
    os_forbid(false);
    huge_unmap_left();
    must(ranges_left() == 0 && all_is_known());
  }
}

/* No memory for a record: nothing is taken, and nothing is lost. */
static void no_records(void *argument)
{
  enum { MANY = 200 };
  huge_t *blocks[MANY]; /* whose records are in the first chunk of metadata */
  size_t count = 0;
  bool zeroed;
  (void)argument;
  window_up();
  have_left(8 * MIB);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  others_bytes = os_fake.mapped_bytes - bytes_of(NULL);
  while (count < MANY && (blocks[count] = huge_take(PAGE, 1, &owner, &owned, &zeroed)) != NULL) {
    must(all_is_known());
    count++;
  }
  must(all_is_known());
  must(count == MANY || bytes_of(NULL) > 0);
  for (size_t i = 0; i < count; i++)
    huge_give(blocks[i]);
  os_fake_heal();
  huge_unmap_left();
  must(ranges_left() == 0 && all_is_known());
}

/* A system that has no memory left gets what was left first. */
static void left_makes_room(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_left(8 * MIB);
  os_fake.fail_from = os_fake.calls + 1;
  os_fake.fail_to = os_fake.fail_from + 1;
  bool zeroed;
  huge_t *huge = huge_take(20 * MIB, 1, &owner, &owned, &zeroed);
  must(huge && zeroed && os_fake.failed > 0 && ranges_left() == 0 && all_is_known());
}

/* A request that the system refuses costs some calls, however much it refused to unmap; and so does a free. */
static void refusals_are_cheap(void *argument)
{
  enum { MANY = 4000, CALLS_MOST = 100 };
  static huge_t *blocks[MANY];
  bool zeroed;
  (void)argument;
  window_up();
  for (size_t i = 0; i < MANY; i++)
    blocks[i] = take(PAGE * (1 + i % 2));
  os_fake.fail_kinds = 1 << OS_UNMAP | 1 << OS_MAP | 1 << OS_REMAP;
  for (size_t i = 0; i < MANY; i += 2) {
    uint64_t calls = calls_for_memory();
    huge_give(blocks[i]);
    must(calls_for_memory() - calls <= 2);
  }
  must(ranges_left() > MANY / 4 && huge_left_bytes() == 0);
  for (size_t i = 0; i < 20; i++) {
    uint64_t calls = os_fake.calls;
    must(!huge_take(MIB, 1, &owner, &owned, &zeroed) && !huge_resize(blocks[1], 2 * MIB, true) && huge_unmap_left() == 0);
    must(os_fake.calls - calls <= CALLS_MOST);
  }
  os_fake_heal();
  huge_unmap_left();
  must(ranges_left() == 0);
}

static size_t mappings(void)
{
  size_t lines = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  must(maps);
  for (int c; (c = getc(maps)) != EOF;)
    lines += c == '\n';
  fclose(maps);
  return lines;
}

/* What goes from between two blocks makes two mappings of one. The system has so many, and others want some. */
static void no_more_mappings_than_half(void *argument)
{
  enum { MANY = 80000, MOST = 33 << 10 };
  static huge_t *blocks[MANY];
  (void)argument;
  window_up();
  have_left((size_t)MANY * PAGE); /* so that one is behind the other */
  for (size_t i = 0; i < MANY; i++)
    blocks[i] = take(PAGE);
  for (size_t i = 0; i < MANY; i += 2) {
    huge_start(blocks[i])[0] = 7;
    huge_give(blocks[i]);
  }
  must(huge_left_bytes() == 0 && mappings() <= MOST);
  for (size_t i = 1; i < MANY; i += 2)
    huge_give(blocks[i]);
  while (ranges_left()) {
    size_t before = ranges_left();
    huge_unmap_left();
    must(ranges_left() < before);
  }
}

WITH(not_unmapped, bool, false, true)
IN_CHILD(forbidden)
IN_CHILD(aligned)
IN_CHILD(no_records)
IN_CHILD(left_makes_room)
IN_CHILD(refusals_are_cheap)
IN_CHILD(no_more_mappings_than_half)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(not_unmapped_test),
    cmocka_unit_test(forbidden_test),
    cmocka_unit_test(aligned_test),
    cmocka_unit_test(no_records_test),
    cmocka_unit_test(left_makes_room_test),
    cmocka_unit_test(refusals_are_cheap_test),
    cmocka_unit_test(no_more_mappings_than_half_test),
  };
  return cmocka_run_group_tests_name("huge_refusals", tests, NULL, NULL);
}
