/* SPDX-License-Identifier: MIT
 *
 * What the names of malloc and of tidepool tell the recorder. None of these allocates, and all keep errno. */
#ifndef RECORDER_H
#define RECORDER_H

#include "recording.h"
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#define HIDDEN      __attribute__((visibility("hidden")))
#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

typedef enum stream_state {
  STREAM_FREE,
  STREAM_OWNED,   /* a thread has it, which is not in an event */
  STREAM_IN_EVENT /* a thread has it, and writes; who stops the recording waits for that */
} stream_state_t;

/* What a thread writes to. It lies in memory of the recorder's own, in a list that only grows, so that each writer is seen
 * whoever it is: also a thread that is about to end, whose own memory will soon be another's. */
typedef struct stream {
  uint32_t state;
  uint32_t recording; /* the number of the one that the rest is of */
  uint8_t *at, *end;  /* NULL: it has no chunk */
  uint8_t *coming;    /* a chunk that it is about to have */
  uint64_t last_ns, last_place;
  uint32_t number, chunks;
  uint32_t thread, heap; /* of what is written from here on in its chunk */
  bool is_fine;          /* its addresses are whole ones from here on in its chunk */
  struct stream *next;
} stream_t;

/* `busy`: the thread is in an event, and what is allocated there, or by a signal's handler meanwhile, is not recorded. Only a
 * thread whose end the recorder will hear of keeps a stream from one event to the next. */
typedef struct self {
  stream_t *stream;
  const void *allocated,
    *freed;                 /* what was recorded last, and what an operator delete is at: one call may be made by another */
  const void *const *frame; /* of the function that the program has called */
  const void *operators;    /* of C++, that the thread is in */
  const void *ending;       /* the object pool that the thread destroys: its hooks put nothing any more */
  uint32_t failures;        /* that were recorded */
  uint32_t thread;          /* from 1 on, */
  uint32_t recording;       /* in this one */
  bool busy, is_watched, has_ended;
} self_t;

extern HIDDEN __thread self_t self __attribute__((tls_model("initial-exec")));

/* Whether this process is recorded. It lies on a page that a child of a fork finds empty, as it finds the word that says that
 * this is the process: no handler of pthread_atfork() is called in a child of clone() alone. */
enum { RECORDER_HERE = 1 };
extern HIDDEN uint8_t *recorder_is_on;
static inline bool recorder_is_here(void) { return likely(recorder_is_on[RECORDER_HERE] != 0); }
extern HIDDEN uint32_t recorder_number; /* of the recording; changed only while none is on */

/* The one heap or object pool that is recorded; NULL: all are, and malloc(). */
extern HIDDEN const void *recorder_only;
extern HIDDEN recording_kind_t recorder_only_kind;
HIDDEN void recorder_begin(void);
HIDDEN void recorder_go_on_in_child(void);

/* What must not be left half done: the thread is not cancelled, and no signal's handler runs, which might fork, but one of a
 * fault. */
typedef struct calm {
  sigset_t signals;
  int cancel;
} calm_t;
HIDDEN calm_t calm_begin(void);
HIDDEN void calm_end(calm_t *before);

/* Nanoseconds of a clock that never goes back; and since the recording began. */
HIDDEN uint64_t clock_now(void);
HIDDEN uint64_t recorder_now(void);
HIDDEN uint64_t recorder_began(void);

/* The heap is a number, and 0 is malloc(). A realloc() began when clock_now() said so, perhaps before the recording did. */
HIDDEN void record_block(uint32_t heap, recording_op_t op, const void *block, size_t size, size_t alignment,
                         const void *caller);
HIDDEN void record_free(const void *block);
HIDDEN void record_realloc(uint32_t heap, uint64_t began, const void *old, const void *block, size_t size, const void *caller);
HIDDEN void record_drop(uint32_t heap);

/* The number of a heap or an object pool, which is described when it is seen first; 0 of NULL. */
HIDDEN uint32_t heap_number(const void *heap, recording_kind_t kind);

/* What was just made: its size is its budget, or that of its objects; and what else may serve in its place. */
HIDDEN void heap_describe(const void *heap, const void *parent, const void *overflow, uint64_t size, const char *name);
HIDDEN uint64_t heap_size(const void *heap);
HIDDEN const void *heap_parent(const void *heap);
HIDDEN const void *heap_overflow(const void *heap);
HIDDEN void heap_forget(const void *heap);
HIDDEN void heaps_go_on_in_child(void);
extern HIDDEN const char *(*heap_name_of)(const void *heap);

/* The number of the stack that ends with this address. False: there is no memory for the table. */
HIDDEN uint32_t site_of_caller(const void *caller);
HIDDEN bool sites_begin(unsigned frames);
/* How many modules the loader has unloaded so far, for who is about to take its lock anyway; and that there are more. */
HIDDEN uint64_t sites_unloaded(void);
HIDDEN void sites_forget_modules(void);

/* Memory that reads as zero, of this process alone; NULL: there is none. */
HIDDEN void *take_memory(size_t bytes);

/* ---- streams ---- */

/* A stream for the thread, which is in an event from here on; NULL: there is no memory. `keeps`: until the thread ends. */
HIDDEN stream_t *stream_take(bool keeps);
/* Has it a chunk of this recording, in which the events are this thread's. */
HIDDEN void stream_renew(void);

/* Room for so many bytes in the thread's chunk; self.stream->at is where. False: there is none, and the recording has ended. */
HIDDEN bool stream_has_room(size_t bytes);

HIDDEN bool streams_begin(void);
/* Waits for threads that are in an event, for so many milliseconds, and ends what all have written. False: one is in it still,
 * as this thread is if it interrupted itself. */
HIDDEN bool streams_end(unsigned most_ms);
HIDDEN void streams_renew(void);
/* False: the fork was in the middle of an event of this thread. */
HIDDEN bool streams_go_on_in_child(void);
HIDDEN void clock_begin(void);

static inline void put_byte(uint8_t byte) { *self.stream->at++ = byte; }

/* An event's first byte is written last: who reads the file of a process that was killed in the middle of it finds the end. */
static inline uint8_t *begin_put(void) { return self.stream->at++; }
static inline void end_put(uint8_t *first, recording_op_t op) { __atomic_store_n(first, (uint8_t)op, __ATOMIC_RELEASE); }

static inline void put_number(uint64_t number)
{
  for (; number > 0x7f; number >>= 7)
    put_byte((uint8_t)number | 0x80);
  put_byte((uint8_t)number);
}

/* The times of a stream never decrease. */
static inline void put_time(uint64_t now)
{
  stream_t *of = self.stream;
  put_number(now > of->last_ns ? now - of->last_ns : 0);
  of->last_ns = now > of->last_ns ? now : of->last_ns;
}

static inline void put_difference(uint64_t to, uint64_t from)
{
  uint64_t by = to - from;
  put_number(by << 1 ^ (uint64_t)((int64_t)by >> 63));
}

/* ---- the file ---- */

/* It has a descriptor that the program may close; it is opened again then. */
HIDDEN bool file_begin(const char *path, unsigned frames);
HIDDEN bool file_begin_at(int file, unsigned frames); /* one that the program has open; false: errno says why not */
/* Mapped, and reads as zero; NULL: the recording has ended, and it was said why. *coming is where it will be, for a child that
 * another thread's fork makes meanwhile, until the caller has noted it elsewhere. In calm. */
HIDDEN uint8_t *file_next_chunk(uint8_t **coming);
HIDDEN void file_count_chunk(void);
HIDDEN void file_leave_chunk(uint8_t *chunk); /* before it is forgotten, and then given */
HIDDEN void file_give_chunk(uint8_t *chunk);
HIDDEN void file_replace_chunk(uint8_t *chunk); /* by memory of the process's own */
HIDDEN void file_end(void);
HIDDEN void file_close(void);
HIDDEN void file_go_on_in_child(bool in_event);

#endif
