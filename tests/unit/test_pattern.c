/* SPDX-License-Identifier: MIT
 * At any length and any alignment: what was filled has the pattern and nothing beside it has, and a byte that is changed is
 * found, wherever it is. */
#include "base/fill.h"
#include "unit.h"

enum { ROOM = 256, LONGEST = 150, BESIDE = 0x77 };

static const pattern_t pattern = {{0x0b, 0xdb, 0xea, 0x1d}}, same = {{0xfb, 0xfb, 0xfb, 0xfb}};
static char memory[ROOM];

static void fills_so_much(void **state)
{
  (void)state;
  for (size_t begin = 0; begin < 32; begin++)
    for (size_t size = 0; size <= LONGEST; size++) {
      memset(memory, BESIDE, sizeof memory);
      pattern_fill(memory + begin, size, pattern);
      for (size_t i = 0; i < ROOM; i++)
        assert_int_equal((unsigned char)memory[i], i - begin < size ? pattern.bytes[(i - begin) % PATTERN_BYTES] : BESIDE);
    }
}

static void finds_the_first(pattern_t filled)
{
  for (size_t begin = 0; begin < 20; begin++)
    for (size_t size = 0; size <= LONGEST; size++) {
      char *from = memory + begin, *to = from + size;
      memset(memory, BESIDE, sizeof memory);
      pattern_fill(from, size, filled);
      assert_null(pattern_find_other(from, to, filled));
      for (char *at = from; at < to; at++) {
        *at = (char)(*at ^ 0x40);
        assert_ptr_equal(pattern_find_other(from, to, filled), at);
        to[-1] = (char)(to[-1] ^ 0x20); /* a second one behind it, or another change of it */
        assert_ptr_equal(pattern_find_other(from, to, filled), at);
        to[-1] = (char)(to[-1] ^ 0x20);
        *at = (char)(*at ^ 0x40);
      }
    }
}

static void finds_what_is_other(void **state)
{
  (void)state;
  finds_the_first(pattern);
  finds_the_first(same);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fills_so_much),
    cmocka_unit_test(finds_what_is_other),
  };
  return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
