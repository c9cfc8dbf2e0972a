/* SPDX-License-Identifier: MIT */
#include "space/refusals.h"
#include "os/thread_local.h"

enum { ANSWERS_MOST = 64 };

static uint64_t unmaps; /* how often any thread has unmapped something */

static THREAD_LOCAL struct {
  size_t least;    /* refused; 0: nothing is remembered */
  uint64_t unmaps; /* before that refusal */
  uint32_t answers;
} own;

bool refusals_have_answered(void) { return own.answers != 0; }

void refusals_forget(void)
{
  own.least = 0;
  own.answers = 0;
}

static bool is_remembered(size_t size)
{
  return own.least && size >= own.least && own.unmaps == __atomic_load_n(&unmaps, __ATOMIC_RELAXED);
}

/* What is unmapped during the call makes its refusal void. os_forbid() refuses only for a while. */
os_mapped_t refusals_map_at(void *address, size_t size)
{
  if (is_remembered(size) && ++own.answers % ANSWERS_MOST)
    return OS_NO_MEMORY;
  uint64_t before = __atomic_load_n(&unmaps, __ATOMIC_RELAXED), forbidden = os_forbidden_count();
  os_mapped_t mapped = os_map_at(address, size);
  if (mapped == OS_NO_MEMORY && os_forbidden_count() == forbidden) {
    own.least = size;
    own.unmaps = before;
  } else if (size >= own.least) {
    own.least = 0;
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
