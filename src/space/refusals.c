/* SPDX-License-Identifier: MIT
 * What a thread was refused is in two of its words. */
#include "space/budget.h"
#include "space/class_map.h"

enum { ANSWERS_MOST = 64 };
#define STEP            ((size_t)4 << 10)
#define REMEMBERED_MOST (UINT16_MAX * STEP)

static uint64_t unmaps; /* how often any thread has unmapped something */

/* Few bytes, because the loader has little room for thread-local data. If 256 unmappings or changes look like none, an attempt
 * is answered in vain, and the last one of its request makes the call. */
static THREAD_LOCAL uint16_t least; /* steps that were refused; 0: nothing is remembered */
THREAD_LOCAL uint8_t refusals_searched;
static THREAD_LOCAL uint8_t unmaps_before, changes_before, answers;

static uint16_t steps_of(size_t size) { return (uint16_t)min_size(size / STEP, UINT16_MAX); }

bool refusals_have_answered(void) { return answers != 0; }

void refusals_forget(void)
{
  least = refusals_searched = 0;
  answers = 0;
}

static bool is_remembered(size_t size)
{
  return least && steps_of(size) >= least && unmaps_before == (uint8_t)__atomic_load_n(&unmaps, __ATOMIC_RELAXED);
}

/* Returns whether this attempt makes the call after all. The count stays above 0 when it overflows. */
static bool is_time_to_ask(void)
{
  if (!++answers)
    answers = ANSWERS_MOST;
  return answers % ANSWERS_MOST == 0;
}

void refusals_note_search(size_t units, uint64_t changes)
{
  refusals_searched = units <= UINT8_MAX ? (uint8_t)units : 0;
  changes_before = (uint8_t)changes;
}

/* A search may need less from the system than a whole run: the system's refusal alone tells nothing about it. An attempt that
 * is to make the call comes to refusals_map_at() next, and is counted there. */
bool refusals_answer_search(size_t units, uint64_t changes)
{
  return units >= refusals_searched && changes_before == (uint8_t)changes && is_remembered(units << UNIT_LOG2) &&
         (answers + 1) % ANSWERS_MOST && !is_time_to_ask();
}

/* What is unmapped during the call makes its refusal void. os_forbid() refuses only for a while. */
os_mapped_t refusals_map_at(void *address, size_t size)
{
  if (is_remembered(size) && !is_time_to_ask())
    return OS_NO_MEMORY;
  uint64_t before = __atomic_load_n(&unmaps, __ATOMIC_RELAXED), forbidden = os_forbidden_count();
  os_mapped_t mapped = os_map_at(address, size);
  if (mapped == OS_NO_MEMORY && os_forbidden_count() == forbidden) {
    least = size < REMEMBERED_MOST ? steps_of(size) : 0; /* or the next try with a little less would be answered */
    unmaps_before = (uint8_t)before;
  } else if (steps_of(size) >= least) {
    least = 0;
  }
  return mapped;
}

void refusals_note_unmap(void) { __atomic_fetch_add(&unmaps, 1, __ATOMIC_RELAXED); }

bool refusals_unmap(void *address, size_t size)
{
  bool unmapped = os_unmap(address, size);
  if (unmapped)
    refusals_note_unmap();
  return unmapped;
}
