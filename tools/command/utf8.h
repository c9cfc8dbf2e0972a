/* SPDX-License-Identifier: MIT */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* How many follow a byte that begins a character; a byte that begins none: -1. */
static inline int utf8_followers(unsigned char first)
{
  if (first < 0x80)
    return 0;
  if (first < 0xc2 || first > 0xf4)
    return -1;
  return first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
}

/* How many bytes the character has that the text begins with, which ends with a 0; 0: it begins with none. */
static inline size_t utf8_length(const unsigned char *text)
{
  int followers = utf8_followers(*text);
  for (int i = 1; i <= followers; i++)
    if ((text[i] & 0xc0) != 0x80)
      return 0;
  bool is_odd = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
                (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f);
  return followers < 0 || is_odd ? 0 : (size_t)followers + 1;
}

/* Whether a terminal obeys the character. */
static inline bool utf8_is_control(const unsigned char *text)
{
  return *text < ' ' || *text == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
}

/* Leaves nothing in a text that a terminal obeys, or that is no character. */
static inline void utf8_clean(char *text)
{
  for (unsigned char *at = (unsigned char *)text; *at;) {
    size_t length = utf8_length(at);
    bool is_good = length && !utf8_is_control(at);
    for (size_t i = 0; i < (length ? length : 1); i++)
      if (!is_good)
        at[i] = '?';
    at += length ? length : 1;
  }
}

#endif
