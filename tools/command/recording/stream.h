/* SPDX-License-Identifier: MIT
 *
 * One stream of a recording: its chunks, one after the other, and the event that comes next. */
#ifndef STREAM_H
#define STREAM_H

#include "../../record/recording.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nobody's clock gets so far; sums of less than two such times do not overflow. */
#define STREAM_NS_MOST (UINT64_C(1) << 62)

typedef struct chunk {
  uint32_t stream, index; /* in the file, from 1 on */
  uint32_t number;        /* in its stream; 0: older recordings do not say */
} chunk_t;

/* An event as it stands in the file. */
typedef struct raw_event {
  recording_op_t op; /* RECORDING_END: there is none any more */
  uint64_t ns, took_ns;
  uint64_t old, address, size;
  uint32_t site, heap, parent;
  uint8_t alignment_log2, kind;
  uint32_t count; /* of frames, or bytes of a name */
  uint64_t added;
  const uint8_t *bytes; /* the frames or the name, in the chunk */
} raw_event_t;

typedef struct stream {
  const chunk_t *chunk, *chunks_end; /* those that were not read yet */
  uint8_t *bytes;                    /* of a chunk; NULL: it has none */
  const uint8_t *at, *end;
  uint64_t ns, place;
  uint32_t thread, heap; /* of what is allocated */
  bool is_fine;          /* addresses are whole ones, and not eighths */
  raw_event_t next;
} stream_t;

/* What of the file has to do with all streams. */
typedef struct stream_file {
  int descriptor;
  uint64_t damaged; /* chunks that were not read to their end */
  bool no_memory;
} stream_file_t;

/* Reads the next event; at the end the memory of the stream is given back. */
void stream_advance(stream_t *stream, stream_file_t *file);

/* The frames of a site; `room` is for RECORDING_FRAMES_MOST. */
void stream_frames(const raw_event_t *site, uint64_t *room);

#endif
