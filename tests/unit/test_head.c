/* SPDX-License-Identifier: MIT */
#include "base/fill.h"
#include "debug/head.h"
#include "unit.h"

enum {
  USABLE = 512,
  ROOM = USABLE - HEAD_BYTES,
  SUMMED = 3 * sizeof(uintptr_t) + 2 * sizeof(uint32_t),
  HEAD = SUMMED + 2 * sizeof(uintptr_t)
};

static _Alignas(256) char memory[USABLE];
static char *const block = memory + HEAD_FRONT;

static headed_t by(const char *call) { return (headed_t){memory, USABLE, NULL, call, false, false, 77, false}; }

static headed_t in_granules(const char *call) { return (headed_t){memory, USABLE, NULL, call, true, false, 0, false}; }

static head_look_t look(void) { return head_look(memory, USABLE); }

static void open_and_close(void **state)
{
  (void)state;
  memset(memory, 0, USABLE);
  assert_int_equal(look().state, HEAD_NONE);
  for (size_t size = 0; size <= ROOM; size++) {
    assert_ptr_equal(head_open(by("call"), size, 1, size > 0), block);
    assert_int_equal(look().state, HEAD_LIVE);
    assert_ptr_equal(look().block, block);
    assert_int_equal(look().size, size);
    for (size_t i = 0; i < size; i++)
      assert_int_equal((unsigned char)block[i], 0xcd);
    memset(block, 0xee, size);
    assert_true(head_close(by("call")));
    assert_int_equal(look().state, HEAD_FREED);
    assert_ptr_equal(look().block, block);
    assert_int_equal(look().size, size);
    assert_true(is_dead(memory + HEAD, USABLE - HEAD));
    assert_false(head_close(by("call")));
  }
}

/* Sums are short where words are, and may be the same by chance. */
static void never_taken_for_the_other(void **state)
{
  (void)state;
  enum { SUM = 1 + 2 * sizeof(uint32_t) / sizeof(uintptr_t) + 1 }; /* the word behind two sizes and two sites */
  memset(memory, 0, USABLE);
  for (size_t i = 0; i < 1000; i++) {
    head_open(by("call"), i % ROOM, 1, i > 0);
    uintptr_t live = ((const uintptr_t *)(const void *)memory)[SUM];
    assert_true(head_close(by("call")));
    assert_true((live ^ ((const uintptr_t *)(const void *)memory)[SUM]) & 1 << KIND_BITS);
  }
}

/* Whatever the alignment, the block has it if what holds it does. */
static void alignments(void **state)
{
  (void)state;
  memset(memory, 0, USABLE);
  for (size_t alignment = 1; alignment <= 256; alignment *= 2) {
    size_t front = max_size(alignment, HEAD_FRONT);
    assert_int_equal(headed_size(100, alignment), 100 + front + HEAD_BEHIND);
    char *at = head_open(by("call"), 100, alignment, alignment > 1);
    assert_ptr_equal(at, memory + front);
    assert_int_equal((uintptr_t)at % alignment, 0);
    assert_ptr_equal(look().block, at);
    assert_true(head_close(by("call")));
  }
  assert_true(headed_size(SIZE_MAX, 1) == SIZE_MAX && headed_size(SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1) == SIZE_MAX);
}

/* What granules leave says nothing but that it was returned. */
static void granules(void **state)
{
  (void)state;
  memset(memory, 0, USABLE);
  head_open(in_granules("call"), 100, 1, false);
  assert_true(head_close(in_granules("call")));
  assert_ptr_equal(look().block, block);
  head_drop(in_granules("call"));
  assert_true(is_dead(memory, USABLE));
  assert_int_equal(look().state, HEAD_FREED);
  assert_null(look().block);
  assert_non_null(head_open(in_granules("call"), 200, 1, true));
}

static void shorten(void **state)
{
  (void)state;
  for (size_t size = ROOM; size; size--) {
    head_open(by("call"), ROOM, 1, false);
    memset(block, 0xee, ROOM);
    head_shorten(by("call"), size);
    assert_int_equal(look().size, size);
    for (size_t i = 0; i < size; i++)
      assert_int_equal((unsigned char)block[i], 0xee);
    assert_true(head_close(by("call")));
  }
}

/* A head that was changed in any bit but those of the link, or lies elsewhere, is not believed. */
static void any_bit_of_the_head(void **state)
{
  static _Alignas(256) char elsewhere[USABLE];
  (void)state;
  for (int returned = 0; returned < 2; returned++) {
    head_open(by("call"), 100, 1, false);
    if (returned)
      head_close(by("call"));
    for (size_t bit = 0; bit < SUMMED * 8; bit++) {
      memory[bit / 8] = (char)(memory[bit / 8] ^ 1 << bit % 8);
      assert_int_equal(look().state, HEAD_NONE);
      memory[bit / 8] = (char)(memory[bit / 8] ^ 1 << bit % 8);
    }
    memcpy(elsewhere, memory, USABLE);
    assert_int_equal(head_look(elsewhere, USABLE).state, HEAD_NONE);
    for (size_t usable = 0; usable < HEAD_BYTES + 100; usable++)
      assert_int_equal(head_look(memory, usable).state, HEAD_NONE);
  }
}

typedef struct damage {
  size_t size;
  ptrdiff_t at; /* from the block */
} damage_t;

static void flip(ptrdiff_t at) { block[at] = (char)(block[at] ^ 1); }

static void write_and_close(void *argument)
{
  const damage_t *damage = argument;
  head_open(by("some_call"), damage->size, 1, false);
  flip(damage->at);
  head_close(by("some_call"));
}

static void write_and_shorten(void *argument)
{
  const damage_t *damage = argument;
  head_open(by("some_call"), damage->size, 1, false);
  flip(damage->at);
  head_shorten(by("some_call"), damage->size - 1);
}

static void write_to_what_was_shortened(void *argument)
{
  const damage_t *damage = argument;
  head_open(by("first_call"), damage->size + 1, 1, false);
  head_shorten(by("first_call"), damage->size);
  flip(damage->at);
  head_close(by("some_call"));
}

static void write_after_return(void *argument)
{
  const damage_t *damage = argument;
  head_open(by("some_call"), damage->size, 1, false);
  head_close(by("some_call"));
  flip(damage->at);
  head_open(by("other_call"), damage->size, 1, true);
}

/* Also to the link, which a block has that is not in quarantine any more. */
static void link_after_return(void **state)
{
  (void)state;
  for (ptrdiff_t at = (ptrdiff_t)SUMMED - HEAD_FRONT; at < (ptrdiff_t)HEAD - HEAD_FRONT; at++)
    aborts_with(write_after_return, &(damage_t){100, at}, "written to after it was freed at offset ");
}

static void write_to_granules(void *argument)
{
  const damage_t *damage = argument;
  head_open(in_granules("some_call"), damage->size, 1, false);
  head_close(in_granules("some_call"));
  head_drop(in_granules("some_call"));
  flip(damage->at);
  head_open(in_granules("other_call"), damage->size, 1, true);
}

static void in_every_way(damage_t damage, const char *what)
{
  char words[120];
  snprintf(words, sizeof words, "tidepool: some_call(0x%llx): %s at offset %td of a block of 100 bytes\n",
           (unsigned long long)(uintptr_t)block, what, damage.at);
  aborts_with(write_and_close, &damage, words);
  aborts_with(write_and_shorten, &damage, words);
  aborts_with(write_to_what_was_shortened, &damage, words);
}

static void past_the_end(void **state)
{
  (void)state;
  for (ptrdiff_t at = 100; at < USABLE - HEAD_FRONT; at += at == 100 ? 1 : 37)
    in_every_way((damage_t){100, at}, "written past its end");
  in_every_way((damage_t){100, USABLE - HEAD_FRONT - 1}, "written past its end");
}

static void before_the_beginning(void **state)
{
  (void)state;
  for (ptrdiff_t at = -1; at >= (ptrdiff_t)HEAD - HEAD_FRONT; at--)
    in_every_way((damage_t){100, at}, "written before its beginning");
  for (ptrdiff_t at = (ptrdiff_t)SUMMED - HEAD_FRONT; at < (ptrdiff_t)HEAD - HEAD_FRONT; at++) {
    damage_t damage = {100, at}; /* to the link, of which the last byte is named */
    char words[120];
    snprintf(words, sizeof words, "written before its beginning at offset %td of a block of 100 bytes\n",
             (ptrdiff_t)HEAD - HEAD_FRONT - 1);
    aborts_with(write_and_close, &damage, words);
  }
}

static void nearest_in_front(void *argument)
{
  (void)argument;
  head_open(by("some_call"), 100, 1, false);
  memset(block - 8, 0, 4);
  head_close(by("some_call"));
}

static void damaged_head(void *argument)
{
  head_open(by("some_call"), 100, 1, false);
  memset(memory, 0, *(size_t *)argument);
  head_damaged(by("some_call"), block);
}

/* Of several wrong bytes the nearest is named. Of a head it is not known which, nor how long the block was. */
static void nearest(void **state)
{
  (void)state;
  aborts_with(nearest_in_front, NULL, "written before its beginning at offset -5 of a block of 100 bytes\n");
  size_t head = SUMMED, more = HEAD + 10;
  char words[120];
  snprintf(words, sizeof words, "written before its beginning at offset %td of a block of %d bytes\n",
           (ptrdiff_t)SUMMED - 1 - HEAD_FRONT, ROOM);
  aborts_with(damaged_head, &head, words);
  snprintf(words, sizeof words, "written before its beginning at offset %td of a block of %d bytes\n",
           (ptrdiff_t)HEAD + 9 - HEAD_FRONT, ROOM);
  aborts_with(damaged_head, &more, words);
}

static void after_it_was_returned(void **state)
{
  (void)state;
  for (ptrdiff_t at = (ptrdiff_t)HEAD - HEAD_FRONT; at < USABLE - HEAD_FRONT; at += 17) {
    damage_t damage = {100, at};
    char words[160];
    snprintf(words, sizeof words, "other_call(0x%llx): written to after it was freed at offset %td of a block of 100 bytes\n",
             (unsigned long long)(uintptr_t)block, at);
    aborts_with(write_after_return, &damage, words);
  }
  for (ptrdiff_t at = -HEAD_FRONT; at < USABLE - HEAD_FRONT; at += 17) {
    damage_t damage = {100, at};
    char words[160];
    snprintf(words, sizeof words, "other_call(0x%llx): written to after it was freed at offset %td of a block of 512 bytes\n",
             (unsigned long long)(uintptr_t)memory, at + HEAD_FRONT);
    aborts_with(write_to_granules, &damage, words);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(open_and_close),
    cmocka_unit_test(alignments),
    cmocka_unit_test(granules),
    cmocka_unit_test(shorten),
    cmocka_unit_test(any_bit_of_the_head),
    cmocka_unit_test(link_after_return),
    cmocka_unit_test(past_the_end),
    cmocka_unit_test(never_taken_for_the_other),
    cmocka_unit_test(before_the_beginning),
    cmocka_unit_test(nearest),
    cmocka_unit_test(after_it_was_returned),
  };
  return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
