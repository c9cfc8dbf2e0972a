/* SPDX-License-Identifier: MIT */
#include "space/refusals.h"

enum { ANSWERS_MOST = 64 };

/* Only hints, so every access is relaxed. A refusal that another thread's unmapping overtakes is remembered in vain. */
static size_t least = SIZE_MAX; /* refused; SIZE_MAX: nothing is remembered */
static uint32_t answers;        /* without a system call, since the last one */

bool refusals_have_answered(void) { return __atomic_load_n(&answers, __ATOMIC_RELAXED) != 0; }

void refusals_forget(void)
{
  __atomic_store_n(&least, SIZE_MAX, __ATOMIC_RELAXED);
  __atomic_store_n(&answers, 0, __ATOMIC_RELAXED);
}

/* os_forbid() refuses for one thread, so its refusals are not remembered. */
os_mapped_t refusals_map_at(void *address, size_t size)
{
  size_t refused = __atomic_load_n(&least, __ATOMIC_RELAXED);
  if (size >= refused) {
    if (__atomic_add_fetch(&answers, 1, __ATOMIC_RELAXED) <= ANSWERS_MOST)
      return OS_NO_MEMORY;
    refusals_forget();
    refused = SIZE_MAX;
  }
  uint64_t forbidden = os_forbidden_count();
  os_mapped_t mapped = os_map_at(address, size);
  if (mapped == OS_NO_MEMORY && os_forbidden_count() == forbidden && size < refused)
    __atomic_store_n(&least, size, __ATOMIC_RELAXED);
  return mapped;
}

bool refusals_unmap(void *address, size_t size)
{
  bool unmapped = os_unmap(address, size);
  if (unmapped)
    refusals_forget();
  return unmapped;
}
