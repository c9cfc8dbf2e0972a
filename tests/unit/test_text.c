/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include "unit.h"
#include <inttypes.h>

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
    snprintf(expected, sizeof expected, "%" PRIu64, some[i]);
    assert_string_equal(buffer, expected);
    text = (text_t){buffer, sizeof buffer, 0};
    text_pointer(&text, (const void *)(uintptr_t)some[i]);
    text_finish(&text);
    snprintf(expected, sizeof expected, "0x%" PRIxPTR, (uintptr_t)some[i]);
    assert_string_equal(buffer, expected);
  }
}

/* Whoever reads a text that was cut reads whole characters. */
static void cut_between_characters(void **state)
{
  (void)state;
  static const char string[] = "a\u00e9\u20ac\U0001f30a!";
  static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11}; /* bytes that n leave */
  for (size_t size = 1; size <= sizeof string; size++) {
    char buffer[16];
    memset(buffer, '#', sizeof buffer);
    text_t text = {buffer, size, 0};
    text_string(&text, string);
    assert_int_equal(text_finish(&text), strlen(string));
    assert_int_equal(strlen(buffer), whole[size - 1]);
    assert_memory_equal(buffer, string, whole[size - 1]);
  }
}

/* What is no UTF-8 is none afterwards either, but for a cut. */
static void bytes_that_are_no_character_are_kept(void **state)
{
  (void)state;
  char buffer[5];
  text_t text = {buffer, sizeof buffer, 0};
  text_string(&text, "\x80\x80\x80\x80\x80\x80");
  text_finish(&text);
  assert_string_equal(buffer, "\x80\x80\x80\x80");
}

static void quotes(const char *string, const char *expected)
{
  char buffer[128];
  text_t text = {buffer, sizeof buffer, 0};
  text_quoted(&text, string);
  text_finish(&text);
  assert_string_equal(buffer, expected);
}

/* A JSON text is UTF-8, whatever somebody's name is. */
static void quoted_is_utf8(void **state)
{
  (void)state;
  quotes("\u00e9\u20ac\U0001f30a\x7f", "\"\u00e9\u20ac\U0001f30a\x7f\"");
  quotes("\xf4\x8f\xbf\xbf\xed\x9f\xbf", "\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\"");
  quotes("gr\xfcn", "\"gr\\ufffdn\"");                                                                   /* Latin-1 */
  quotes("\x80|\xc3|\xe2\x82|\xf0\x9f\x8c", "\"\\ufffd|\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\""); /* cut off */
  quotes("\xc0\x80 \xe0\x80\x80", "\"\\ufffd\\ufffd \\ufffd\\ufffd\\ufffd\""); /* longer than need be */
  quotes("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");                         /* half of a pair */
  quotes("\xf4\x90\x80\x80\xff", "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");   /* beyond the last character */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_buffer_size),
    cmocka_unit_test(no_buffer),
    cmocka_unit_test(numbers),
    cmocka_unit_test(cut_between_characters),
    cmocka_unit_test(bytes_that_are_no_character_are_kept),
    cmocka_unit_test(quoted_is_utf8),
  };
  return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
