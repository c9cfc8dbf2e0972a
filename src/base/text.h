/* SPDX-License-Identifier: MIT
 *
 * Text without allocation and without stdio: for messages of a program that is about to end, and for JSON. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Appending beyond `size` only counts, as in snprintf(): `length` is the length of the whole text. */
typedef struct text {
  char *buffer;
  size_t size;
  size_t length;
} text_t;

void text_char(text_t *text, char c);
void text_string(text_t *text, const char *string);
void text_number(text_t *text, uint64_t number);
void text_grouped(text_t *text, uint64_t number);     /* 10,080 */
void text_pointer(text_t *text, const void *pointer); /* 0x and hexadecimal digits */
void text_quoted(text_t *text, const char *string);   /* as a JSON string; invalid UTF-8 bytes become U+FFFD */
size_t text_finish(text_t *text);                     /* terminates, between characters; returns the whole length */

/* Copies as much of a name as there is room for. NULL: makes one of `prefix` and the next number. */
void text_name(char *buffer, size_t size, const char *name, const char *prefix, uint32_t *last_number);

#endif
