/* SPDX-License-Identifier: MIT
 * Where a thread keeps the numbers and the text of its last wrong argument. */
#include "heap/heap.h"
#include "heap/invalid.h"

/* The owner keeps this place; a later thread with the same address of its thread-local data shares it. */
static struct {
  const uint8_t *owner;
  thread_invalid_t place;
} without_record;

/* Only the owner ever finds its own address there and uses the place, so no memory order is needed. */
static bool claim_place(const uint8_t *last)
{
  const uint8_t *nobody = NULL;
  return __atomic_compare_exchange_n(&without_record.owner, &nobody, last, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
         nobody == last;
}

/* The manager is not brought up for this: that would make it too late to set options. */
thread_invalid_t *invalid_place(const uint8_t *last, bool claims)
{
  if (__atomic_load_n(&without_record.owner, __ATOMIC_RELAXED) == last)
    return &without_record.place;
  if (thread_is_usable(thread_self))
    return &thread_self->invalid;
  thread_t *thread = claims && manager_is_up() ? thread_current() : NULL;
  if (thread)
    return &thread->invalid;
  return claims && claim_place(last) ? &without_record.place : NULL;
}
