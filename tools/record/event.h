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

/* Evaluates the call if this thread is recorded, and is not recording already: what malloc() does, or a heap. `keeps`: the
 * thread will allocate more. */
#define RECORD(call)          RECORD_AS(NULL, true, call)
#define RECORD_FREE(call)     RECORD_AS(NULL, false, call)
#define RECORD_IN(heap, call) RECORD_AS(heap, true, call)
#define RECORD_AS(heap, keeps, call) \
  do { \
    if (begin_record(heap, keeps)) { \
      self.frame = __builtin_frame_address(0); \
      int kept = errno; \
      if (likely(self.stream->at)) \
        call; \
      end_record(); \
      errno = kept; \
    } \
  } while (0)

static inline void end_record(void)
{
  stream_t *of = self.stream;
  bool keeps = self.is_watched && !self.has_ended;
  if (!keeps)
    self.stream = NULL;
  __atomic_store_n(&of->state, keeps ? STREAM_OWNED : STREAM_FREE, __ATOMIC_RELEASE);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  self.busy = false;
}

/* Who stops the recording waits for threads that are in an event, and for those that did not see yet that it is over: the
 * state is there before the page is looked at again, and the fence of os_fence_others() is between what it stores and what it
 * sees of the states. */
static inline bool begin_record(const void *heap, bool keeps)
{
  if (likely(!*recorder_is_on) || self.busy)
    return false;
  self.busy = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a handler that forks takes the stream of a thread that is not busy */
  if (likely(self.stream != NULL))
    __atomic_store_n(&self.stream->state, STREAM_IN_EVENT, __ATOMIC_RELAXED);
  else if (!stream_take(keeps && !self.has_ended)) {
    self.busy = false;
    return false;
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (unlikely(!__atomic_load_n(recorder_is_on, __ATOMIC_ACQUIRE)) || (recorder_only && heap != recorder_only)) {
    end_record();
    return false;
  }
  if (unlikely(self.stream->recording != recorder_number || !self.stream->at || self.stream->thread != self.thread ||
               self.recording != recorder_number))
    stream_renew();
  return true;
}

/* The names of the next library. False: there are none, or they are just being looked for. */
HIDDEN bool names_find(void);
HIDDEN void operators_find(void);
HIDDEN void pools_find(void);
#endif
