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

/* Evaluates the call if this thread is recorded, and is not recording already. */
#define RECORD(call) \
  do { \
    if (begin_record()) { \
      int kept = errno; \
      call; \
      end_record(); \
      errno = kept; \
    } \
  } while (0)

static inline bool begin_record(void)
{
  if (likely(!*recorder_is_on) || stream.busy)
    return false;
  stream.busy = true;
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

#endif
