/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include "unit.h"

static void write_sample(text_t *text)
{
  text_string(text, "n=");
  text_number(text, 18446744073709551615u);
  text_char(text, ' ');
  text_pointer(text, (const void *)(uintptr_t)0xdeadbeef);
  text_quoted(text, "a\"b\\c\n\x1f");
}

static const char sample[] = "n=18446744073709551615 0xdeadbeef\"a\\\"b\\\\c\\u000a\\u001f\"";

/* As snprintf: what there is room for, always terminated, and the length of the whole. */
static void every_buffer_size(void **state)
{
  (void)state;
  for (size_t size = 0; size <= sizeof sample + 3; size++) {
    char buffer[128];
    memset(buffer, '#', sizeof buffer);
    text_t text = {buffer, size, 0};
    write_sample(&text);
    assert_int_equal(text_finish(&text), strlen(sample));
    assert_int_equal(buffer[size], '#');
    if (!size)
      continue;
    size_t written = min_size(size - 1, strlen(sample));
    assert_memory_equal(buffer, sample, written);
    assert_int_equal(buffer[written], 0);
  }
}

static void no_buffer(void **state)
{
  (void)state;
  text_t text = {NULL, 0, 0};
  write_sample(&text);
  assert_int_equal(text_finish(&text), strlen(sample));
}

static void numbers(void **state)
{
  (void)state;
  static const uint64_t some[] = {0, 1, 9, 10, 99, 100, 12345678901234567890u, UINT64_MAX};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    char buffer[32], expected[32];
    text_t text = {buffer, sizeof buffer, 0};
    text_number(&text, some[i]);
    text_finish(&text);
    snprintf(expected, sizeof expected, "%lu", some[i]);
    assert_string_equal(buffer, expected);
    text = (text_t){buffer, sizeof buffer, 0};
    text_pointer(&text, (const void *)some[i]);
    text_finish(&text);
    snprintf(expected, sizeof expected, "0x%lx", some[i]);
    assert_string_equal(buffer, expected);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_buffer_size),
    cmocka_unit_test(no_buffer),
    cmocka_unit_test(numbers),
  };
  return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
