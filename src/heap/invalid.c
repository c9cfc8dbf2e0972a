/* SPDX-License-Identifier: MIT
 * The top bit of the byte tells that the numbers are missing: the thread found no place for them, or has lost its record. */
#include "heap/invalid.h"
#include "base/text.h"
#include "heap/heap.h"
#include <errno.h>

enum { WITHOUT_NUMBERS = 0x80 };

static const char *const texts[][2] = {{"no argument was wrong so far", "no argument was wrong so far"},
#define INVALID_PAIR(name, without, with, remedy) {without, with},
                                       INVALID_TEXTS(INVALID_PAIR)
#undef INVALID_PAIR
};
_Static_assert(sizeof texts / sizeof *texts <= WITHOUT_NUMBERS, "a byte has room for all");

static THREAD_LOCAL uint8_t last;

/* The address of its thread-local data identifies a thread. The owner keeps this place; a later thread there shares it. */
static struct {
  const uint8_t *owner;
  thread_invalid_t place;
} without_record;

/* Only the owner ever finds its own address there and uses the place, so no memory order is needed. */
static bool claim_place(void)
{
  if (!HAS_SYSTEM)
    return true;
  const uint8_t *nobody = NULL;
  return __atomic_compare_exchange_n(&without_record.owner, &nobody, &last, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
         nobody == &last;
}

/* Returns where the thread's numbers are already; NULL: nowhere. */
static thread_invalid_t *own_place(void)
{
  if (!HAS_SYSTEM)
    return &without_record.place;
  if (__atomic_load_n(&without_record.owner, __ATOMIC_RELAXED) == &last)
    return &without_record.place;
  return HAS_SYSTEM && thread_is_usable(thread_self) ? &thread_self->invalid : NULL;
}

/* The manager is not brought up for this: that would make it too late to set options. */
static thread_invalid_t *find_place(void)
{
  thread_invalid_t *place = own_place();
  thread_t *thread = HAS_SYSTEM && !place && manager_is_up() ? thread_current() : NULL;
  if (thread)
    place = &thread->invalid;
  return place || !claim_place() ? place : &without_record.place;
}

COLD void *invalid_note(invalid_t what, const uintptr_t numbers[3])
{
  thread_invalid_t *place = find_place();
  last = (uint8_t)(place ? what : what | WITHOUT_NUMBERS);
  for (int i = 0; place && i < 3; i++)
    place->numbers[i] = numbers[i];
  errno = EINVAL;
  return NULL;
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
  thread_invalid_t *place = own_place();
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
