/* SPDX-License-Identifier: MIT
 * What is kept of the mappings that were given back: how much and how many, for how long, and who gets it. */
#include "mappings.h"
#include "option.h"
#include "os_fake.h"

/* The first time it goes; what is asked for again is there, as it was, without a call. */
static void kept_for_the_next(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  huge_t *huge = take(8 * MIB);
  huge_give(huge);
  must(kept_bytes() == 0 && all_is_known());
  huge = take(8 * MIB);
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
  breathe(16 * MIB);
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
  breathe(8 * MIB);
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

/* As much as was asked for again, at most what is live or 32 MiB; nothing without a delay, everything with none that ends. */
static void how_much(void *argument)
{
  huge_t *blocks[20];
  (void)argument;
  window_up();
  have_records();
  for (size_t turn = 0; turn < 4; turn++) {
    for (size_t i = 0; i < 20; i++)
      blocks[i] = take(4 * MIB);
    for (size_t i = 0; i < 20; i++)
      huge_give(blocks[i]);
    must(kept_bytes() <= (turn ? BREATH : 0) && (!turn || kept_bytes() > BREATH - 4 * MIB));
    must(all_is_known());
  }
  huge_t *large = take(60 * MIB);
  for (size_t i = 0; i < 20; i++)
    blocks[i] = take(4 * MIB);
  for (size_t i = 0; i < 20; i++)
    huge_give(blocks[i]);
  must(kept_bytes() > BREATH && kept_bytes() <= 60 * MIB + 4 * MIB);
  settings.purge_delay_ms = 0;
  huge_give(large);
  must(kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
  settings.purge_delay_ms = PURGE_NEVER;
  for (size_t i = 0; i < 20; i++)
    blocks[i] = take(4 * MIB);
  for (size_t i = 0; i < 20; i++)
    huge_give(blocks[i]);
  must(kept_bytes() == 80 * MIB);
  must(kept_trim(30 * MIB) == 50 * MIB && kept_bytes() == 30 * MIB && all_is_known());
  must(kept_trim(31 * MIB) == 0 && kept_trim(30 * MIB - 1) == PAGE && kept_trim(0) == 30 * MIB - PAGE);
  must(kept_bytes() == 0 && ranges_kept() == 0 && all_is_known());
}

/* With a delay, no more ranges than a few. */
static void how_many(void *argument)
{
  static huge_t *blocks[400];
  (void)argument;
  window_up();
  have_records();
  breathe(4 * MIB);
  for (size_t i = 0; i < 400; i++)
    blocks[i] = take(PAGE);
  for (size_t i = 0; i < 400; i += 2) {
    huge_give(blocks[i]);
    must(ranges_kept() <= KEPT_RANGES);
  }
  for (size_t i = 1; i < 400; i += 2) {
    huge_give(blocks[i]);
    must(ranges_kept() <= KEPT_RANGES);
  }
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

/* Half of what a whole delay did not need goes, and so does the last of it; what it needed stays for the next. */
static void ticked(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  breathe(16 * MIB);
  pass_delays(1);
  must(kept_bytes() == 16 * MIB); /* it was taken in this one */
  for (size_t turn = 0; turn < 8; turn++) {
    size_t kept = kept_bytes();
    for (size_t i = 0; i < 3; i++)
      huge_give(take(10 * MIB));
    tick_whole();
    must(kept_bytes() == kept); /* too early */
    for (size_t i = 1; i < TICKS_PER_DELAY; i++)
      tick_whole();
    must(kept_bytes() >= 10 * MIB && kept_bytes() <= 10 * MIB + (kept - 10 * MIB) / 2 && all_is_known());
  }
  must(kept_bytes() == 10 * MIB);
  pass_delays(1);
  must(kept_bytes() == 5 * MIB);
  pass_delays(8);
  must(kept_bytes() == 0 && all_is_known());
}

/* Very many ranges are tried some at a time. What is taken between two steps is not in their way. */
static void ticked_in_steps(void *argument)
{
  static huge_t *row[4 * KEPT_RANGES];
  (void)argument;
  window_up();
  have_records();
  breathe(32 * MIB);
  pass_delays(1);
  size_t kept = kept_bytes(), steps = 0;
  must(kept == 32 * MIB);
  for (size_t i = 0; i < TICKS_PER_DELAY; i++)
    kept_tick();
  must(kept_tick_is_under_way() && kept_bytes() == kept);
  huge_t *huge = take(5 * MIB);
  for (; kept_tick_is_under_way(); steps++)
    kept_step(os_fake.now_ms);
  must(steps >= 1 && kept_bytes() >= kept / 2 - 5 * MIB && kept_bytes() <= kept / 2);
  huge_give(huge);
  take_row(row, 4 * KEPT_RANGES, PAGE);
  for (size_t i = 0; i < 4 * KEPT_RANGES; i += 2)
    huge_give(row[i]);
  pass_delays(40);
  must(kept_bytes() == 0 && all_is_known());
}

/* The ticks that follow go on with what one of them began. */
static void ticked_on(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  breathe(32 * MIB);
  pass_delays(1);
  must(kept_bytes() == 32 * MIB);
  for (size_t i = 1; i < 2 * TICKS_PER_DELAY; i++) {
    kept_tick();
    kept_step(os_fake.now_ms);
    size_t steps = i < TICKS_PER_DELAY ? 0 : i + 1 - TICKS_PER_DELAY;
    must(kept_bytes() == 32 * MIB - steps * 4 * MIB && all_is_known());
  }
  kept_step(os_fake.now_ms);
  must(kept_bytes() == 16 * MIB && !kept_tick_is_under_way());
}

/* The next purge delay's may want less to go, since something was needed meanwhile. What was to go goes all the same. */
static void ticked_less_far(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  for (size_t i = 0; i < 40; i++)
    breathe(32 * MIB);
  pass_delays(1);
  must(kept_bytes() == 32 * MIB);
  for (size_t i = 0; i < TICKS_PER_DELAY; i++)
    kept_tick();
  must(kept_tick_is_under_way());
  huge_give(take(20 * MIB));
  must(kept_bytes() == 32 * MIB);
  for (size_t i = 0; i < TICKS_PER_DELAY; i++)
    kept_tick();
  while (kept_tick_is_under_way())
    kept_step(os_fake.now_ms);
  must(kept_bytes() <= 16 * MIB && all_is_known());
}

/* What was asked for again is forgotten with time: half of it with each delay. */
static void forgotten(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  breathe(16 * MIB);
  pass_delays(8);
  must(kept_bytes() == 0);
  huge_give(take(16 * MIB));
  must(kept_bytes() == 0 || kept_bytes() == 16 * MIB);
  pass_delays(40);
  huge_give(take(16 * MIB));
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
  for (size_t i = 0; i < 4; i++) { /* more than once, so that it is kept */
    huge_t *other = huge_take(16 * MIB, 1, &owner, &owned, &zeroed);
    must(other);
    huge_give(other);
  }
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
IN_CHILD(ticked_in_steps)
IN_CHILD(ticked_on)
IN_CHILD(ticked_less_far)
IN_CHILD(the_oldest_first)

IN_CHILD(forgotten)

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
    cmocka_unit_test(ticked_in_steps_test),
    cmocka_unit_test(ticked_on_test),
    cmocka_unit_test(ticked_less_far_test),
    cmocka_unit_test(the_oldest_first_test),
    cmocka_unit_test(forgotten_test),
  };
  return cmocka_run_group_tests_name("huge_kept", tests, NULL, NULL);
}
