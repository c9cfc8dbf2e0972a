/* SPDX-License-Identifier: MIT
 * The interface of profile.h. */
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include "heap/invalid.h"
#include "heap/life.h"
#include "misuse.h"
#include "option.h"
#include <errno.h>
#include <tidepool/profile.h>

static bool done_or(int error)
{
  if (error)
    errno = error;
  return !error;
}

static bool no_debug_library(const char *call)
{
  invalid(INVALID_NEEDS_DEBUG, (uintptr_t)call);
  return false;
}

bool pool_profile_start(uint64_t sample_bytes)
{
  uint64_t most = (uint64_t)1 << SAMPLE_BYTES_LOG2_MOST;
  if (!observer)
    return no_debug_library("pool_profile_start()");
  if (sample_bytes > most) {
    invalid(INVALID_SAMPLE_BYTES, (uintptr_t)(sample_bytes < UINTPTR_MAX ? sample_bytes : UINTPTR_MAX), (uintptr_t)most);
    return false;
  }
  if (!manager_ready())
    return done_or(ENOMEM);
  return done_or(observer->profile_start(sample_bytes));
}

void pool_profile_stop(void)
{
  if (observer)
    observer->profile_stop();
}

bool pool_profile_write(pool_heap_t *heap, int fd)
{
  if (heap && !heap_is_live(heap))
    fatal_misuse("pool_profile_write", heap, NOT_A_HEAP_TEXT);
  return observer ? done_or(observer->profile_write(heap, fd)) : no_debug_library("pool_profile_write()");
}
