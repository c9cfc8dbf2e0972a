/* SPDX-License-Identifier: MIT
 *
 * One call of the program. What the other library calls by the recorder's names meanwhile is none. An exception ends it too. */
#ifndef EVENT_H
#define EVENT_H

#include "recorder.h"
#include <errno.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

typedef struct event {
  bool is_recorded;
} event_t;

static inline event_t begin_event(void)
{
  bool records = unlikely(*recorder_is_on) && !stream.busy;
  if (records) {
    stream.busy = true;
    if (unlikely(!stream.at))
      stream_take();
  }
  return (event_t){records};
}

static inline void end_event(event_t *event)
{
  if (!event->is_recorded)
    return;
  if (unlikely(stream.has_ended))
    stream_park();
  stream.busy = false;
}
#define EVENT event_t event __attribute__((cleanup(end_event))) = begin_event()

#define KEEP_ERRNO(call) \
  do { \
    int kept = errno; \
    call; \
    errno = kept; \
  } while (0)

#endif
