/* SPDX-License-Identifier: MIT
 *
 * One call of the program. What the other library calls by the recorder's names meanwhile is one too: it calls the program's
 * own functions, as those that find memory where there is none. */
#ifndef EVENT_H
#define EVENT_H

#include "recorder.h"
#include <errno.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

/* Evaluates the call if this thread is recorded, and is not recording already: what malloc() does, or a heap. */
#define RECORD(call) RECORD_IN(NULL, call)
#define RECORD_IN(heap, call) \
  do { \
    if (begin_record(heap)) { \
      int kept = errno; \
      call; \
      end_record(); \
      errno = kept; \
    } \
  } while (0)

/* Who stops the recording waits for threads that are busy, and for those that did not see yet that it is over. */
static inline bool begin_record(const void *heap)
{
  if (likely(!*recorder_is_on) || stream.busy || (recorder_only && heap != recorder_only))
    return false;
  stream.busy = true;
  __asm__ volatile("" ::: "memory");
  if (unlikely(!*(volatile uint8_t *)recorder_is_on)) {
    stream.busy = false;
    return false;
  }
  if (unlikely(!stream.at))
    stream_take();
  return true;
}

static inline void end_record(void)
{
  if (unlikely(stream.has_ended))
    stream_park();
  stream.busy = false;
}

/* The names of the next library. False: there are none, or they are just being looked for. */
HIDDEN bool names_find(void);
HIDDEN void operators_find(void);
HIDDEN void pools_find(void);

#endif
