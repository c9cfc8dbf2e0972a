/* SPDX-License-Identifier: MIT
 * What is kept of the mappings that were given back: how much and how many, for how long, and who gets it. */
#include "mappings.h"
#include "option.h"
#include "os_fake.h"

/* What was freed is there for the next, as it was, without a call. */
static void kept_for_the_next(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  huge_t *huge = take(8 * MIB);
  char *start = huge_start(huge);
  memset(start, 7, 8 * MIB);
  huge_give(huge);
  must(kept_bytes() == 8 * MIB && ranges_kept() == 1 && all_is_known());
  uint64_t calls = calls_for_memory();
  for (size_t i = 0; i < 100; i++) {
    bool zeroed;
    huge = huge_take(8 * MIB, 1, &owner, &owned, &zeroed);
    must(huge && huge_start(huge) == start && !zeroed && start[5 * MIB] == 7);
    huge_give(huge);
  }
  must(calls_for_memory() == calls && kept_bytes() == 8 * MIB);
}

/* A smaller block has the low end, and when it is back they are one again. */
static void cut_and_joined(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_kept(16 * MIB);
  char *start = huge_start(huge_next(NULL, NULL));
  uint64_t calls = calls_for_memory();
  for (size_t turn = 0; turn < 20; turn++) {
    huge_t *parts[5];
    for (size_t i = 0; i < 5; i++) {
      parts[i] = take((i + 1) * MIB);
      must(huge_start(parts[i]) == start + i * (i + 1) / 2 * MIB && huge_start(parts[i])[100] == 7);
    }
    must(kept_bytes() == MIB && ranges_kept() == 1);
    for (size_t i = 0; i < 5; i++)
      huge_give(parts[(i * (turn % 4 + 1) + turn) % 5]);
    must(kept_bytes() == 16 * MIB && ranges_kept() == 1 && huge_start(huge_next(NULL, NULL)) == start);
  }
  must(calls_for_memory() == calls);
}

/* The shortest that will do; the middle of one where it must be aligned. */
static void the_one_that_suits(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  settings.purge_delay_ms = PURGE_NEVER;
  huge_t *blocks[3];
  for (size_t i = 0; i < 3; i++) {
    blocks[i] = take((3 + 2 * i) * MIB);
    take(PAGE); /* between them */
  }
  char *starts[] = {huge_start(blocks[0]), huge_start(blocks[1]), huge_start(blocks[2])};
  huge_give(blocks[1]);
  huge_give(blocks[2]);
  huge_give(blocks[0]);
  if (ranges_kept() < 3)
    return; /* the system has put them next to each other */
  huge_t *huge = take(2 * MIB), *more = take(4 * MIB);
  must(huge_start(huge) == starts[0] && huge_start(more) == starts[1]);
  bool zeroed;
  huge_t *aligned = huge_take(4 * MIB, 2 * MIB, &owner, &owned, &zeroed);
  must(aligned && huge_start(aligned) == (char *)round_up((uintptr_t)starts[2], 2 * MIB));
  must(all_is_known());
  huge_give(aligned);
  huge_give(huge);
  huge_give(more);
  must(ranges_kept() == 3 && kept_bytes() == 15 * MIB);
  for (size_t i = 0; i < 3; i++)
    must(huge_start(huge_next(NULL, starts[i])) == starts[i]);
}

/* Half of it is there: it grows, and its pages are used again. */
static void grown_from_what_is_kept(void *argument)
{
  const bool *remaps = argument;
  window_up();
  have_records();
  have_kept(8 * MIB);
  os_fake.fail_kinds = *remaps ? 0 : 1 << OS_REMAP;
  uint64_t maps = os_fake.count[OS_MAP];
  bool zeroed;
  huge_t *huge = huge_take(12 * MIB, 1, &owner, &owned, &zeroed);
  must(huge && huge_size(huge) == 12 * MIB && zeroed == !*remaps && os_fake.count[OS_MAP] == maps + !*remaps);
  must(huge_start(huge)[0] == (*remaps ? 7 : 0) && huge_start(huge)[12 * MIB - 1] == 0);
  must(kept_bytes() == (*remaps ? 0 : 8 * MIB) && all_is_known());
  os_fake_heal();
  huge_t *long_one = huge_take(17 * MIB, 1, &owner, &owned, &zeroed); /* less than half of it is there */
  must(long_one && zeroed);
}

static void take_and_give(size_t count, size_t size)
{
  huge_t *blocks[BLOCKS];
  for (size_t i = 0; i < count; i++)
    blocks[i] = take(size);
  for (size_t i = 0; i < count; i++)
    huge_give(blocks[i]);
}

/* All of it with a delay, and nothing without one. */
static void how_much(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  settings.purge_delay_ms = 100;
  take_and_give(20, 4 * MIB);
  uint64_t calls = calls_for_memory();
  for (size_t turn = 0; turn < 4; turn++) {
    take_and_give(20, 4 * MIB);
    must(kept_bytes() == 80 * MIB && all_is_known());
  }
  must(calls_for_memory() == calls);
  settings.purge_delay_ms = 0;
  take_and_give(20, 4 * MIB);
  must(kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
  settings.purge_delay_ms = PURGE_NEVER;
  take_and_give(20, 4 * MIB);
  must(kept_bytes() == 80 * MIB);
  must(kept_trim(30 * MIB) == 50 * MIB && kept_bytes() == 30 * MIB && all_is_known());
  must(kept_trim(31 * MIB) == 0 && kept_trim(30 * MIB - 1) == PAGE && kept_trim(0) == 30 * MIB - PAGE);
  must(kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
}

/* However many ranges it is in. */
static void how_many(void *argument)
{
  enum { MANY = 4000 };
  static huge_t *blocks[MANY];
  (void)argument;
  window_up();
  have_records();
  take_row(blocks, MANY, PAGE);
  settings.purge_delay_ms = 100;
  uint64_t calls = calls_for_memory();
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(blocks[i]);
  must(ranges_kept() == MANY / 2 && calls_for_memory() == calls);
  size_t epochs = 0;
  for (; kept_bytes(); epochs++)
    tick_whole();
  must(epochs >= TICKS_OF_A_PEAK && epochs < 4 * TICKS_OF_A_PEAK && ranges_kept() == 0);
}

/* With a delay that never ends nothing goes back, however many ranges it is in, and each is found again, however old. */
static void never_given_back(void *argument)
{
  enum { MANY = 2000 };
  static huge_t *pages[MANY], *longer[MANY];
  (void)argument;
  window_up();
  take_row(longer, MANY, 3 * PAGE);
  take_row(pages, MANY, PAGE);
  uint64_t calls = calls_for_memory();
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(longer[i]);
  for (size_t i = 0; i < MANY; i += 2)
    huge_give(pages[i]);
  must(ranges_kept() == MANY && kept_bytes() == MANY / 2 * 4 * PAGE);
  for (size_t i = 0; i < MANY; i += 2)
    longer[i] = take(3 * PAGE);
  for (size_t i = 0; i < MANY; i += 2)
    pages[i] = take(PAGE);
  must(ranges_kept() == 0 && calls_for_memory() == calls);
  for (size_t i = 0; i < MANY; i++) {
    huge_give(pages[i]);
    huge_give(longer[i]);
  }
  must(kept_bytes() == MANY * 4 * PAGE && calls_for_memory() == calls);
  huge_t *huge = take(MIB);
  pattern_write(huge_start(huge), MIB, 1);
  size_t kept = kept_bytes();
  must(huge_resize(huge, MIB / 2, true) && huge_size(huge) == MIB / 2 && kept_bytes() == kept + MIB / 2);
  must(pattern_kept(huge_start(huge), MIB / 2, MIB, 1) && huge_next(NULL, huge_start(huge)) != NULL);
  os_fake.fail_kinds = 1 << OS_REMAP;
  must(huge_resize(huge, 64 * MIB, true) && kept_bytes() == kept + MIB); /* moved as a copy */
  must(pattern_kept(huge_start(huge), MIB / 2, MIB, 1));
  os_fake_heal();
  huge_give(huge);
  must(kept_bytes() == kept + 65 * MIB);
}

/* What a whole delay did not need goes; what it needed stays for the next. */
static void ticked(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_kept(16 * MIB);
  for (size_t turn = 1; turn < 20; turn++) {
    for (size_t i = 0; i < 3; i++)
      huge_give(take(10 * MIB));
    tick_whole();
    must(kept_bytes() == (turn < TICKS_OF_A_PEAK ? 16 : 10) * MIB && all_is_known());
  }
  pass_epochs(LOW_WATER_EPOCHS - 1);
  must(kept_bytes() == 10 * MIB);
  pass_epochs(2);
  must(kept_bytes() == 0 && all_is_known());
}

/* Where the program comes by seldom, an epoch may be as long as a delay. */
static void ticked_seldom(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_kept(3 * MIB);
  kept_tick(1000);
  must(!kept_tick_is_under_way()); /* it was not there yet as the epoch began */
  kept_tick(1000);
  must(kept_tick_is_under_way());
  kept_step(os_fake.now_ms);
  must(kept_bytes() == 0);
}

/* Very many ranges are tried some at a time. What is taken between two steps is not in their way, and what is given waits. */
static void ticked_in_steps(void *argument)
{
  size_t steps = 0;
  (void)argument;
  window_up();
  have_records();
  huge_t *live = take(50 * MIB);
  have_kept(32 * MIB);
  for (size_t i = 0; i < TICKS_OF_A_PEAK; i++)
    kept_tick(1);
  must(kept_tick_is_under_way() && kept_bytes() == 32 * MIB);
  kept_step(os_fake.now_ms);
  must(kept_bytes() == 28 * MIB);
  huge_t *huge = take(5 * MIB);
  kept_step(os_fake.now_ms);
  must(kept_bytes() == 19 * MIB);
  huge_give(live);
  for (; kept_tick_is_under_way(); steps++)
    kept_step(os_fake.now_ms);
  must(steps >= 5 && kept_bytes() == (19 + 50 - 24) * MIB);
  huge_give(huge);
  pass_epochs(TICKS_OF_A_PEAK);
  must(kept_bytes() == 0 && all_is_known());
}

/* The ticks that follow go on with what one of them began. */
static void ticked_on(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_kept(32 * MIB);
  for (size_t i = 1; i < TICKS_OF_A_PEAK + 8; i++) {
    kept_tick(1);
    kept_step(os_fake.now_ms);
    size_t steps = i < TICKS_OF_A_PEAK ? 0 : i + 1 - TICKS_OF_A_PEAK;
    must(kept_bytes() == 32 * MIB - steps * 4 * MIB && all_is_known());
  }
  must(kept_bytes() == 0);
}

/* The next tick may want less to go, since something was needed meanwhile. What was to go goes all the same. */
static void ticked_less_far(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  have_kept(32 * MIB);
  for (size_t i = 0; i < TICKS_OF_A_PEAK; i++)
    kept_tick(1);
  must(kept_tick_is_under_way());
  huge_give(take(20 * MIB));
  must(kept_bytes() == 32 * MIB);
  kept_tick(1);
  while (kept_tick_is_under_way())
    kept_step(os_fake.now_ms);
  must(kept_bytes() == 0 && all_is_known());
}

/* The range that has been kept for longest goes first, whichever shelf it is on. */
static void the_oldest_first(void *argument)
{
  static const size_t sizes[] = {3 * MIB, 3 * MIB, 9 * MIB};
  static const size_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  (void)argument;
  window_up();
  have_records();
  settings.purge_delay_ms = PURGE_NEVER;
  for (size_t n = 0; n < sizeof orders / sizeof *orders; n++) {
    huge_t *blocks[3];
    char *starts[3];
    huge_give(take(16 * MIB)); /* one range, for the blocks and walls between them */
    for (size_t i = 0; i < 3; i++) {
      blocks[i] = take(sizes[i]);
      starts[i] = huge_start(blocks[i]);
      take(PAGE);
    }
    kept_trim(0);
    for (size_t i = 0; i < 3; i++)
      huge_give(blocks[orders[n][i]]);
    must(ranges_kept() == 3 && kept_bytes() == 15 * MIB);
    for (size_t i = 0; i < 3; i++) {
      size_t size = sizes[orders[n][i]];
      must(kept_trim(kept_bytes() - size) == size && ranges_kept() == 2 - i && all_is_known());
      for (size_t k = i + 1; k < 3; k++) {
        huge_t *kept = huge_next(NULL, starts[orders[n][k]]);
        must(kept && huge_start(kept) == starts[orders[n][k]]);
      }
    }
  }
}

/* What is kept counts where memory is limited: it goes before a block is refused its growth. */
static void grows_into_what_is_kept(void *argument)
{
  bool zeroed;
  (void)argument;
  window_up();
  huge_t *block = huge_take(20 * MIB, 1, &owner, &owned, &zeroed);
  must(block);
  pattern_write(huge_start(block), 20 * MIB, 1);
  huge_t *other = huge_take(16 * MIB, 1, &owner, &owned, &zeroed);
  must(other);
  huge_give(other);
  must(kept_bytes() == 16 * MIB);
  os_fake.mapped_most = os_fake.mapped_bytes + 4 * MIB;
  must(huge_resize(block, 30 * MIB, true) && huge_size(block) == 30 * MIB);
  must(pattern_kept(huge_start(block), 20 * MIB, 20 * MIB, 1) && kept_bytes() == 0);
  os_fake.mapped_most = 0;
}

IN_CHILD(never_given_back)

IN_CHILD(grows_into_what_is_kept)

IN_CHILD(kept_for_the_next)
IN_CHILD(cut_and_joined)
IN_CHILD(the_one_that_suits)
WITH(grown_from_what_is_kept, bool, false, true)
IN_CHILD(how_much)
IN_CHILD(how_many)
IN_CHILD(ticked)
IN_CHILD(ticked_seldom)
IN_CHILD(ticked_in_steps)
IN_CHILD(ticked_on)
IN_CHILD(ticked_less_far)
IN_CHILD(the_oldest_first)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(never_given_back_test),
    cmocka_unit_test(grows_into_what_is_kept_test),
    cmocka_unit_test(kept_for_the_next_test),
    cmocka_unit_test(cut_and_joined_test),
    cmocka_unit_test(the_one_that_suits_test),
    cmocka_unit_test(grown_from_what_is_kept_test),
    cmocka_unit_test(how_much_test),
    cmocka_unit_test(how_many_test),
    cmocka_unit_test(ticked_test),
    cmocka_unit_test(ticked_seldom_test),
    cmocka_unit_test(ticked_in_steps_test),
    cmocka_unit_test(ticked_on_test),
    cmocka_unit_test(ticked_less_far_test),
    cmocka_unit_test(the_oldest_first_test),
  };
  return cmocka_run_group_tests_name("huge_kept", tests, NULL, NULL);
}
