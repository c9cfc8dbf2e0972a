/* SPDX-License-Identifier: MIT */
#include "base/text.h"

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

static void text_digits(text_t *text, uint64_t number, unsigned base)
{
  char digits[20];
  size_t n = 0;
  do
    digits[n++] = "0123456789abcdef"[number % base];
  while (number /= base);
  while (n)
    text_char(text, digits[--n]);
}

void text_number(text_t *text, uint64_t number) { text_digits(text, number, 10); }

void text_pointer(text_t *text, const void *pointer)
{
  text_string(text, "0x");
  text_digits(text, (uintptr_t)pointer, 16);
}

void text_quoted(text_t *text, const char *string)
{
  text_char(text, '"');
  for (; *string; string++) {
    unsigned char c = (unsigned char)*string;
    if (c < 0x20) {
      text_string(text, "\\u00");
      text_char(text, (char)('0' + (c >> 4)));
      text_digits(text, c & 15, 16);
    } else {
      if (c == '"' || c == '\\')
        text_char(text, '\\');
      text_char(text, (char)c);
    }
  }
  text_char(text, '"');
}

size_t text_finish(text_t *text)
{
  if (text->size)
    text->buffer[text->length < text->size ? text->length : text->size - 1] = 0;
  return text->length;
}
