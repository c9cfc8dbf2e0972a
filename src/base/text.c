/* SPDX-License-Identifier: MIT
 *
 * Bytes are appended one by one, and counted even if they have no room. UTF-8 matters in two places: quoting replaces invalid
 * bytes, and truncation must not cut a character. */
#include "base/text.h"
#include "base/machine.h"
#include <stdbool.h>

void text_char(text_t *text, char c)
{
  if (text->length < text->size)
    text->buffer[text->length] = c;
  text->length++;
}

void text_string(text_t *text, const char *string)
{
  while (*string)
    text_char(text, *string++);
}

/* Removes and returns the last digit by long division: on a 32-bit machine, 64-bit division is a library function of 0.7 KB. */
static unsigned take_digit(uint64_t *number, unsigned base)
{
  if (ADDRESS_BITS > 32) {
    unsigned digit = (unsigned)(*number % base);
    *number /= base;
    return digit;
  }
  uint32_t words[2] = {(uint32_t)(*number >> 32), (uint32_t)*number}, rest = 0;
  for (int i = 0; i < 2; i++) {
    uint32_t high = rest << 16 | words[i] >> 16, low = high % base << 16 | (words[i] & 0xffff);
    words[i] = high / base << 16 | low / base;
    rest = low % base;
  }
  *number = (uint64_t)words[0] << 32 | words[1];
  return rest;
}

static void text_digits(text_t *text, uint64_t number, unsigned base)
{
  char digits[20];
  size_t n = 0;
  do
    digits[n++] = "0123456789abcdef"[take_digit(&number, base)];
  while (number);
  while (n)
    text_char(text, digits[--n]);
}

void text_number(text_t *text, uint64_t number) { text_digits(text, number, 10); }

void text_grouped(text_t *text, uint64_t number)
{
  if (number >= 1000)
    text_grouped(text, number / 1000);
  if (number < 1000) {
    text_number(text, number);
    return;
  }
  text_char(text, ',');
  for (unsigned unit = 100; unit; unit /= 10)
    text_char(text, (char)('0' + number / unit % 10));
}

void text_pointer(text_t *text, const void *pointer)
{
  text_string(text, "0x");
  text_digits(text, (uintptr_t)pointer, 16);
}

/* ---- UTF-8 ---- */

static bool continues(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* Returns the length of the character that begins with byte `c`; 1 if `c` begins no multi-byte character. */
static size_t length_after(char c)
{
  unsigned char first = (unsigned char)c;
  return first < 0xc2 || first > 0xf4 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Returns the length of the character at the beginning of `string`; 0 if it is invalid. After four of the first bytes some
 * second bytes are invalid: the result would be an overlong form, a UTF-16 surrogate, or beyond the last code point. */
static size_t character_length(const char *string)
{
  unsigned char first = (unsigned char)string[0], second = first ? (unsigned char)string[1] : 0;
  size_t length = length_after(string[0]);
  if (length == 1)
    return first < 0x80;
  for (size_t i = 1; i < length; i++)
    if (!continues(string[i]))
      return 0;
  bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
               (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : length;
}

/* Returns the end of a text truncated at `end`, without a cut character. At most three bytes follow a character's first one. */
static size_t end_of_whole(const char *buffer, size_t end)
{
  size_t start = end;
  while (start > 0 && end - start < 3 && continues(buffer[start - 1]))
    start--;
  return start > 0 && start - 1 + length_after(buffer[start - 1]) > end ? start - 1 : end;
}

/* JSON allows no raw control character in a string. */
static void control_quoted(text_t *text, unsigned char c)
{
  text_string(text, "\\u00");
  text_char(text, (char)('0' + (c >> 4)));
  text_digits(text, c & 15, 16);
}

/* The result is valid JSON, whatever bytes the name of a heap has. */
void text_quoted(text_t *text, const char *string)
{
  text_char(text, '"');
  while (*string) {
    size_t length = character_length(string);
    if (!length) {
      text_string(text, "\\ufffd");
      string++;
    } else if ((unsigned char)*string < 0x20) {
      control_quoted(text, (unsigned char)*string++);
    } else {
      if (*string == '"' || *string == '\\')
        text_char(text, '\\');
      while (length--)
        text_char(text, *string++);
    }
  }
  text_char(text, '"');
}

/* A text of size 0 has no room for the terminator: its caller only wants the length. */
size_t text_finish(text_t *text)
{
  if (text->size)
    text->buffer[text->length < text->size ? text->length : end_of_whole(text->buffer, text->size - 1)] = 0;
  return text->length;
}

void text_name(char *buffer, size_t size, const char *name, const char *prefix, uint32_t *last_number)
{
  text_t text = {buffer, size, 0};
  text_string(&text, name ? name : prefix);
  if (!name)
    text_number(&text, __atomic_add_fetch(last_number, 1, __ATOMIC_RELAXED));
  text_finish(&text);
}
