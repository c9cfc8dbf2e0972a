/* SPDX-License-Identifier: MIT
 * Huge blocks where the system refuses: what cannot be unmapped is kept, and no refusal costs much. */
#include "mappings.h"
#include "option.h"
#include "os_fake.h"

/* What it does not unmap is kept, without its memory if that can be had; and it is zero. */
static void not_unmapped(void *argument)
{
  const bool *purged = argument;
  window_up();
  have_records();
  settings.purge_delay_ms = 0;
  os_fake.fail_kinds = 1 << OS_UNMAP | (*purged ? 0 : 1 << OS_PURGE);
  os_fake.fail_halfway = true;
  huge_t *huge = take(4 * MIB);
  char *start = huge_start(huge);
  memset(start, 7, 4 * MIB);
  huge_give(huge);
  must(all_is_known() && ranges_kept() == 1 && kept_bytes() == (*purged ? 0 : 4 * MIB));
  for (size_t i = 0; i < 3; i++) {
    bool zeroed;
    huge = huge_take(MIB, 1, &owner, &owned, &zeroed);
    must(huge && huge_start(huge) == start && zeroed == *purged && (!zeroed || all_zero(start, MIB)));
    must(kept_bytes() == (*purged ? 0 : 3 * MIB));
    memset(start, 7, MIB);
    huge_give(huge);
    must(all_is_known() && kept_bytes() == (*purged ? 0 : 4 * MIB));
  }
  os_fake_heal();
  must(kept_trim(PAGE) == (*purged ? 0 : 4 * MIB - PAGE) && ranges_kept() == 1 && all_is_known());
  must(kept_trim(0) == (*purged ? 0 : PAGE) && kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
}

/* While system calls are forbidden blocks come from what is kept and go there; afterwards it goes to the system. */
static void forbidden(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_kept(16 * MIB);
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
  must(kept_trim(0) == 0 && ranges_kept() == 1 && kept_bytes() == 16 * MIB && os_fake.calls == calls);
  os_forbid(false);
  pass_epochs(TICKS_OF_A_PEAK);
  must(kept_bytes() == 0 && all_is_known());
}

/* No memory for a record: nothing is taken, and nothing is lost. */
static void no_records(void *argument)
{
  enum { MANY = 480 };
  huge_t *blocks[MANY]; /* whose records are in one piece of metadata */
  size_t count = 0;
  bool zeroed;
  (void)argument;
  window_up();
  settings.purge_delay_ms = PURGE_NEVER;
  huge_t *kept = take(8 * MIB);
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  huge_give(kept);
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
  must(all_is_known() && kept_trim(0) > 0 && ranges_kept() == 0 && all_is_known());
}

/* A system that has no memory left gets what is kept first. */
static void kept_makes_room(void *argument)
{
  const bool *clean = argument;
  window_up();
  have_records();
  if (*clean) {
    settings.purge_delay_ms = 0;
    os_fake.fail_kinds = 1 << OS_UNMAP;
    huge_give(take(8 * MIB));
    os_fake_heal();
    must(ranges_kept() == 1 && kept_bytes() == 0);
  } else {
    have_kept(8 * MIB);
  }
  os_fake.fail_from = os_fake.calls + 1;
  os_fake.fail_to = os_fake.fail_from + 1;
  bool zeroed;
  huge_t *huge = huge_take(20 * MIB, 1, &owner, &owned, &zeroed);
  must(huge && zeroed && os_fake.failed > 0 && ranges_kept() == 0 && all_is_known());
}

/* At the limit of mappings the system takes none. With a delay of 0 what is freed then costs a call or two, not one for each
 * that waits. */
static void refused_in_constant_time(void *argument)
{
  enum { MANY = 2000 };
  static huge_t *blocks[MANY];
  bool zeroed;
  (void)argument;
  window_up();
  settings.purge_delay_ms = 0;
  for (size_t i = 0; i < MANY; i++)
    must((blocks[i] = huge_take(5 * MIB, 1, &owner, &owned, &zeroed)) != NULL);
  os_fake.fail_kinds = 1 << OS_UNMAP;
  uint64_t calls = calls_for_memory();
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(blocks[i]);
  must(ranges_kept() > 0 && calls_for_memory() - calls <= 8 * MANY);
  calls = calls_for_memory();
  for (size_t i = 0; i < 100; i++) {
    huge_t *huge = huge_take(5 * MIB, 1, &owner, &owned, &zeroed);
    must(huge);
    huge_give(huge);
  }
  must(calls_for_memory() - calls <= 400);
  os_fake.fail_kinds = 0;
  kept_trim(0);
  must(ranges_kept() == 0);
}

/* A system that refused is asked again after a tick, not only when the next one comes. */
static void asked_again_after_a_tick(void *argument)
{
  enum { MANY = 1000 };
  static huge_t *row[MANY];
  const bool *clean = argument;
  window_up();
  have_records();
  take_row(row, MANY, PAGE);
  note_others();
  os_fake.fail_kinds = 1 << OS_UNMAP | (*clean ? 0 : 1 << OS_PURGE);
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(row[i]);
  pass_epochs(4 * TICKS_OF_A_PEAK);
  must(ranges_kept() == MANY / 2 && kept_bytes() == (*clean ? 0 : MANY / 2 * PAGE));
  uint64_t calls = os_fake.calls;
  tick_whole();
  must(os_fake.calls - calls <= 1000);
  os_fake_heal();
  pass_epochs(4 * TICKS_OF_A_PEAK);
  must(ranges_kept() == 0 && all_is_known());
}

/* What goes from between two blocks makes two mappings of one. The system has so many, and others want some. */
static void no_more_mappings_than_half(void *argument)
{
  enum { MANY = 80000, SPLITS_MOST = 32 << 10 };
  static huge_t *row[MANY];
  (void)argument;
  window_up();
  take_row(row, MANY, PAGE);
  settings.purge_delay_ms = 100;
  for (size_t i = 0; i < MANY; i += 2) {
    huge_start(row[i])[0] = 7;
    huge_give(row[i]);
  }
  kept_trim(0);
  must(kept_bytes() == 0 && MANY / 2 - ranges_kept() <= SPLITS_MOST);
  bool zeroed;
  huge_t *again = huge_take(PAGE, 1, &owner, &owned, &zeroed);
  must(again && zeroed && all_zero(huge_start(again), PAGE));
  huge_give(again);
  for (size_t i = 1; i < MANY; i += 2)
    huge_give(row[i]);
  kept_trim(0);
  must(ranges_kept() == 0 && kept_bytes() == 0);
}

/* A request that the system refuses costs some calls, however much it refused to unmap. */
static void refusals_are_cheap(void *argument)
{
  enum { MANY = 4000 };
  static huge_t *row[MANY];
  bool zeroed;
  (void)argument;
  window_up();
  take_row(row, MANY, PAGE);
  os_fake.fail_kinds = 1 << OS_UNMAP | 1 << OS_MAP | 1 << OS_REMAP;
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(row[i]);
  kept_trim(0);
  must(ranges_kept() == MANY / 2 && kept_bytes() == 0);
  for (size_t i = 0; i < 20; i++) {
    uint64_t calls = os_fake.calls;
    must(!huge_take(MIB, 1, &owner, &owned, &zeroed) && !huge_resize(row[1], 2 * MIB, true) && kept_trim(0) == 0);
    must(os_fake.calls - calls <= 100);
  }
  os_fake_heal();
  kept_trim(0);
  must(ranges_kept() == 0);
}

/* What nothing can serve empties nothing. */
static void hopeless(void *argument)
{
  bool zeroed;
  (void)argument;
  window_up();
  have_records();
  huge_t *block = take(4 * MIB);
  have_kept(8 * MIB);
  os_memory_most = os_fake.mapped_most = os_fake.mapped_bytes + 13 * MIB;
  for (size_t i = 0; i < 3; i++) {
    must(!huge_take(GIB, 1, &owner, &owned, &zeroed) && !huge_take(os_memory_most + 1, 1, &owner, &owned, &zeroed));
    must(!huge_resize(block, GIB, true) && !huge_resize(block, 5 * MIB + os_memory_most, true));
    must(kept_bytes() == 8 * MIB && all_is_known());
  }
  must(huge_take(21 * MIB, 1, &owner, &owned, &zeroed) && kept_bytes() == 0 && all_is_known());
}

IN_CHILD(no_more_mappings_than_half)
IN_CHILD(refusals_are_cheap)
IN_CHILD(hopeless)

IN_CHILD(refused_in_constant_time)

WITH(asked_again_after_a_tick, bool, false, true)

WITH(not_unmapped, bool, false, true)
IN_CHILD(forbidden)
IN_CHILD(no_records)
WITH(kept_makes_room, bool, false, true)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_more_mappings_than_half_test),
    cmocka_unit_test(refusals_are_cheap_test),
    cmocka_unit_test(hopeless_test),
    cmocka_unit_test(refused_in_constant_time_test),
    cmocka_unit_test(asked_again_after_a_tick_test),
    cmocka_unit_test(not_unmapped_test),
    cmocka_unit_test(forbidden_test),
    cmocka_unit_test(no_records_test),
    cmocka_unit_test(kept_makes_room_test),
  };
  return cmocka_run_group_tests_name("huge_refusals", tests, NULL, NULL);
}
