/* SPDX-License-Identifier: MIT */
#include "heap/guard.h"
#include "unit.h"

enum { USABLE = 256, ROOM = USABLE - GUARD_BYTES };

static _Alignas(16) unsigned char block[USABLE];

static guarded_t by(const char *call) { return (guarded_t){block, USABLE, NULL, call, false}; }

static void open_and_close(void **state)
{
  (void)state;
  for (size_t size = 0; size <= ROOM; size++) {
    guard_open(by("call"), size, size > 0);
    assert_int_equal(guard_size(block, USABLE), size);
    for (size_t i = 0; i < size; i++)
      assert_int_equal(block[i], 0xcd);
    memset(block, 0xee, size);
    guard_close(by("call"));
    assert_int_equal(guard_size(block, USABLE), 0);
    assert_int_equal(guard_size_before(block, USABLE), size);
    for (size_t i = 0; i < ROOM; i++)
      assert_int_equal(block[i], (0x1deadb0bu >> i % 4 * 8) & 0xff);
  }
}

static void shorten(void **state)
{
  (void)state;
  for (size_t size = ROOM; size; size--) {
    guard_open(by("call"), ROOM, false);
    memset(block, 0xee, ROOM);
    guard_shorten(by("call"), size);
    assert_int_equal(guard_size(block, USABLE), size);
    for (size_t i = 0; i < size; i++)
      assert_int_equal(block[i], 0xee);
    guard_close(by("call"));
  }
}

typedef struct damage {
  size_t size, at;
} damage_t;

static void write_past_the_end(void *argument)
{
  const damage_t *damage = argument;
  guard_open(by("some_call"), damage->size, false);
  block[damage->at] ^= 1;
  guard_close(by("some_call"));
}

static void write_past_the_end_and_shorten(void *argument)
{
  const damage_t *damage = argument;
  guard_open(by("some_call"), damage->size, false);
  block[damage->at] ^= 1;
  guard_shorten(by("some_call"), damage->size - 1);
}

static void write_past_what_was_shortened(void *argument)
{
  const damage_t *damage = argument;
  guard_open(by("first_call"), damage->size + 1, false);
  guard_shorten(by("first_call"), damage->size);
  block[damage->at] ^= 1;
  guard_close(by("some_call"));
}

static void write_after_return(void *argument)
{
  const damage_t *damage = argument;
  guard_open(by("some_call"), damage->size, false);
  guard_close(by("some_call"));
  block[damage->at] ^= 1;
  guard_open(by("other_call"), damage->size, true);
}

static void past_the_end(void **state)
{
  (void)state;
  for (size_t at = 100; at < USABLE; at += at == 100 ? 1 : 37) {
    damage_t damage = {100, at};
    char words[80];
    snprintf(words, sizeof words, at < ROOM ? "written past its end at offset %zu of a block of 100 bytes" : "past its end",
             at);
    aborts_with(write_past_the_end, &damage, words);
    aborts_with(write_past_the_end, &damage, "tidepool: some_call(0x");
    aborts_with(write_past_the_end_and_shorten, &damage, words);
    aborts_with(write_past_what_was_shortened, &damage, words);
  }
}

/* A trailer with any byte changed is not believed. */
static void into_the_trailer(void **state)
{
  (void)state;
  for (size_t at = ROOM; at < USABLE; at++) {
    damage_t damage = {100, at};
    aborts_with(write_past_the_end, &damage, "written past its end at offset 240 of a block of 256 bytes");
  }
}

static void after_it_was_returned(void **state)
{
  (void)state;
  for (size_t at = 0; at < USABLE; at += at < ROOM - 51 ? 51 : 1) {
    damage_t damage = {100, at};
    char words[160];
    snprintf(words, sizeof words,
             at < ROOM ? "other_call(0x%llx): written to after it was freed at offset %zu of a block of 100 bytes\n"
                       : "other_call(0x%llx): written to after it was freed at offset ",
             (unsigned long long)(uintptr_t)block, at);
    aborts_with(write_after_return, &damage, words);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(open_and_close),        cmocka_unit_test(shorten),
    cmocka_unit_test(past_the_end),          cmocka_unit_test(into_the_trailer),
    cmocka_unit_test(after_it_was_returned),
  };
  return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
