/* SPDX-License-Identifier: MIT
 * The top bit of the byte tells that the numbers are missing: the thread found no place for them, or has lost its record. */
#include "heap/invalid.h"
#include "base/text.h"
#include "misuse.h"
#include "thread/thread.h"
#include <errno.h>

enum { WITHOUT_NUMBERS = 0x80 };

static const char *const texts[][2] = {{"no argument was wrong so far", "no argument was wrong so far"},
#define INVALID_PAIR(name, without, with, remedy) {without, with},
                                       INVALID_TEXTS(INVALID_PAIR)
#undef INVALID_PAIR
};
_Static_assert(sizeof texts / sizeof *texts <= WITHOUT_NUMBERS, "a byte has room for all");

static THREAD_LOCAL uint8_t last;

/* Firmware has one place. It is here, because the compiler then leaves it out if nothing reads it. */
static thread_invalid_t *place_of_thread(bool claims)
{
  static thread_invalid_t of_firmware;
  return HAS_SYSTEM ? invalid_place(&last, claims) : &of_firmware;
}

COLD void *invalid_note(invalid_t what, const uintptr_t numbers[3])
{
  thread_invalid_t *place = place_of_thread(true);
  last = (uint8_t)(place ? what : what | WITHOUT_NUMBERS);
  for (int i = 0; place && i < 3; i++)
    place->numbers[i] = numbers[i];
  errno = EINVAL;
  return NULL;
}

COLD void *invalid_heap(const struct pool_heap *heap, const char *call)
{
  if (heap)
    fatal_misuse(call, heap, NOT_A_HEAP_TEXT);
  return invalid(INVALID_HEAP_IS_NULL, (uintptr_t)call);
}

static void say_number(text_t *text, char form, uintptr_t number)
{
  if (form == 's')
    text_string(text, (const char *)number);
  else if (form == 'x')
    text_pointer(text, (const void *)number);
  else
    text_number(text, number);
}

/* The text is made anew for each call and is the same each time. */
const char *invalid_text(void)
{
  thread_invalid_t *place = place_of_thread(false);
  const char *const *of = texts[last & ~WITHOUT_NUMBERS];
  if (!place || !last || last & WITHOUT_NUMBERS)
    return of[0];
  text_t text = {place->text, sizeof place->text, 0};
  const uintptr_t *number = place->numbers;
  for (const char *c = of[1]; *c; c++)
    if (*c == '%')
      say_number(&text, *++c, *number++);
    else
      text_char(&text, *c);
  text_finish(&text);
  return place->text;
}
