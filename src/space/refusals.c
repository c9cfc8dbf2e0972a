/* SPDX-License-Identifier: MIT */
#include "space/refusals.h"

enum { ANSWERS_MOST = 64 };

static uint64_t unmaps; /* how often any thread has unmapped something */

/* Few bytes, because the loader has little room for thread-local data. If 256 unmappings look like none, an attempt is answered
 * in vain, and the last one of its request makes the call. */
static THREAD_LOCAL uint32_t least_kib; /* refused; 0: nothing is remembered */
THREAD_LOCAL uint32_t refusals_searched;
static THREAD_LOCAL uint32_t changes_before;
static THREAD_LOCAL uint8_t unmaps_before, answers;

static uint32_t kib_of(size_t size) { return (uint32_t)min_size(size / KIB, UINT32_MAX); }

bool refusals_have_answered(void) { return answers != 0; }

void refusals_forget(void)
{
  least_kib = refusals_searched = 0;
  answers = 0;
}

static bool is_remembered(size_t size)
{
  return least_kib && kib_of(size) >= least_kib && unmaps_before == (uint8_t)__atomic_load_n(&unmaps, __ATOMIC_RELAXED);
}

/* Returns whether this attempt makes the call after all. The count stays above 0 when it overflows. */
static bool is_time_to_ask(void)
{
  if (!++answers)
    answers = ANSWERS_MOST;
  return answers % ANSWERS_MOST == 0;
}

void refusals_note_search(size_t size, uint64_t changes)
{
  refusals_searched = kib_of(size);
  changes_before = (uint32_t)changes;
}

/* A search may need less from the system than a whole run: the system's refusal alone tells nothing about it. An attempt that
 * is to make the call comes to refusals_map_at() next, and is counted there. */
bool refusals_answer_search(size_t size, uint64_t changes)
{
  return kib_of(size) >= refusals_searched && changes_before == (uint32_t)changes && is_remembered(size) &&
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
    least_kib = kib_of(size);
    unmaps_before = (uint8_t)before;
  } else if (kib_of(size) >= least_kib) {
    least_kib = 0;
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
