/* SPDX-License-Identifier: MIT
 * The interface of profile.h. */
#include "heap/profile.h"
#include "heap/heap.h"
#include "heap/invalid.h"
#include "heap/profile_text.h"
#include "heap/startup.h"
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

bool pool_profile_start(uint64_t sample_bytes)
{
  uint64_t most = (uint64_t)1 << SAMPLE_BYTES_LOG2_MOST;
  if (sample_bytes > most) {
    invalid(INVALID_SAMPLE_BYTES, (uintptr_t)(sample_bytes < UINTPTR_MAX ? sample_bytes : UINTPTR_MAX), (uintptr_t)most);
    return false;
  }
  if (!manager_ready())
    return done_or(ENOMEM);
  return done_or(profile_start(sample_bytes ? sample_bytes : PROFILE_SAMPLE_BYTES));
}

void pool_profile_stop(void)
{
  if (profile_under_way())
    profile_stop();
}

bool pool_profile_write(pool_heap_t *heap, int fd)
{
  if (heap && !heap_is_live(heap))
    fatal_misuse("pool_profile_write", heap, NOT_A_HEAP_TEXT);
  return done_or(profile_write(heap, fd));
}
