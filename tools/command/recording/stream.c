/* SPDX-License-Identifier: MIT */
#include "stream.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- numbers ---- */

static bool get_number(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
  *number = 0;
  for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
    uint8_t byte = *(*at)++;
    *number |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return shift < 63 || byte < 2;
  }
  return false;
}

static uint64_t signed_of(uint64_t zigzag) { return zigzag >> 1 ^ -(zigzag & 1); }

static bool get(stream_t *stream, uint64_t *number) { return get_number(&stream->at, stream->end, number); }

static bool get_least(stream_t *stream, uint32_t *number, uint64_t most)
{
  uint64_t all;
  bool fits = get(stream, &all) && all <= most;
  *number = fits ? (uint32_t)all : 0;
  return fits;
}

static bool get_time(stream_t *stream)
{
  uint64_t by;
  if (!get(stream, &by) || by > STREAM_NS_MOST - stream->ns)
    return false;
  stream->ns += by;
  return true;
}

static bool get_address(stream_t *stream, uint64_t *address)
{
  uint64_t by;
  if (!get(stream, &by))
    return false;
  stream->place += signed_of(by);
  *address = stream->is_fine ? stream->place : stream->place * 8;
  return true;
}

/* ---- events ---- */

static bool get_block(stream_t *stream, raw_event_t *event)
{
  return get_address(stream, &event->address) && get(stream, &event->size) && get_least(stream, &event->site, UINT32_MAX);
}

static bool get_alignment(stream_t *stream, raw_event_t *event)
{
  uint32_t log2;
  bool is_one = get_least(stream, &log2, 63);
  event->alignment_log2 = (uint8_t)log2;
  return is_one;
}

static bool get_realloc(stream_t *stream, raw_event_t *event)
{
  return get_time(stream) && get_address(stream, &event->old) && get(stream, &event->took_ns) &&
         event->took_ns <= STREAM_NS_MOST && get_block(stream, event);
}

static bool skip_frames(stream_t *stream, raw_event_t *event)
{
  uint64_t frame;
  event->bytes = stream->at;
  for (uint32_t i = 0; i < event->count; i++)
    if (!get(stream, &frame))
      return false;
  return true;
}

static bool skip_name(stream_t *stream, raw_event_t *event)
{
  event->bytes = stream->at;
  if ((size_t)(stream->end - stream->at) <= event->count)
    return false;
  stream->at += event->count;
  return true;
}

static bool get_heap(stream_t *stream, uint32_t *heap) { return get_least(stream, heap, RECORDING_HEAPS_MOST); }

static bool get_description(stream_t *stream, raw_event_t *event)
{
  uint32_t kind;
  bool is_one = get_time(stream) && get_heap(stream, &event->heap) && get_heap(stream, &event->parent) &&
                get_least(stream, &kind, RECORDING_KINDS - 1) && get(stream, &event->size) &&
                get_least(stream, &event->count, RECORDING_NAME_MOST) && skip_name(stream, event);
  event->kind = is_one ? (uint8_t)kind : 0;
  return is_one;
}

/* False: what stands there is no event. */
static bool get_event(stream_t *stream, raw_event_t *event)
{
  switch (event->op) {
  case RECORDING_END:
    return true;
  case RECORDING_ALLOC:
  case RECORDING_ZEROED:
    return get_time(stream) && get_block(stream, event);
  case RECORDING_ALIGNED:
    return get_time(stream) && get_block(stream, event) && get_alignment(stream, event);
  case RECORDING_FREE:
    return get_time(stream) && get_address(stream, &event->address);
  case RECORDING_REALLOC:
    return get_realloc(stream, event);
  case RECORDING_FAILED:
    return get_time(stream) && get(stream, &event->size) && get_least(stream, &event->site, UINT32_MAX);
  case RECORDING_SITE:
    return get_least(stream, &event->site, UINT32_MAX) && get_least(stream, &event->count, RECORDING_FRAMES_MOST) &&
           skip_frames(stream, event);
  case RECORDING_MODULE:
    return get(stream, &event->added) && get(stream, &event->address) && get(stream, &event->size) &&
           get_least(stream, &event->count, RECORDING_NAME_MOST) && skip_name(stream, event);
  case RECORDING_THREAD:
    return get_least(stream, &stream->thread, RECORDING_THREADS_MOST);
  case RECORDING_HEAP:
    return get_description(stream, event);
  case RECORDING_IN:
    return get_heap(stream, &stream->heap);
  case RECORDING_FINE:
    stream->place *= stream->is_fine ? 1 : 8;
    return stream->is_fine = true;
  case RECORDING_DROP:
    return get_time(stream) && get_heap(stream, &event->heap);
  default:
    return false;
  }
}

void stream_frames(const raw_event_t *site, uint64_t *room)
{
  const uint8_t *at = site->bytes;
  uint64_t last = 0, by = 0;
  for (uint32_t i = 0; i < site->count; i++) {
    get_number(&at, at + 10, &by); /* it was read before, so it ends */
    last += signed_of(by);
    room[i] = last;
  }
}

/* ---- chunks ---- */

/* False: nothing of it can be read. What a file that was cut off has no more ends it as a damage would. */
static bool read_chunk(stream_t *stream, int file)
{
  recording_chunk_t head;
  uint64_t from = (uint64_t)stream->chunk->index * RECORDING_CHUNK;
  ssize_t length = pread(file, stream->bytes, RECORDING_CHUNK, (off_t)from);
  stream->chunk++;
  if (length < (ssize_t)sizeof head)
    return false;
  memcpy(&head, stream->bytes, sizeof head);
  if (head.mark != RECORDING_CHUNK_MARK || head.from_ns > STREAM_NS_MOST || !head.thread ||
      head.thread > RECORDING_THREADS_MOST)
    return false;
  stream->at = stream->bytes + sizeof head;
  stream->end = stream->bytes + length;
  stream->ns = head.from_ns > stream->ns ? head.from_ns : stream->ns;
  stream->place = 0;
  stream->thread = head.thread;
  stream->heap = 0;
  stream->is_fine = false;
  return true;
}

static void end(stream_t *stream)
{
  free(stream->bytes);
  stream->bytes = NULL;
  stream->chunk = stream->chunks_end;
  stream->at = stream->end = NULL;
  stream->next = (raw_event_t){.op = RECORDING_END};
}

/* False: there is none any more. */
static bool next_chunk(stream_t *stream, stream_file_t *file)
{
  if (!stream->bytes)
    stream->bytes = malloc(RECORDING_CHUNK);
  file->no_memory |= !stream->bytes;
  while (stream->bytes && stream->chunk < stream->chunks_end) {
    if (read_chunk(stream, file->descriptor))
      return true;
    file->damaged++;
  }
  end(stream);
  return false;
}

/* Each chunk ends with a 0, so one without was cut off. */
static bool read_event(stream_t *stream, stream_file_t *file)
{
  raw_event_t event = {.op = RECORDING_END, .heap = stream->heap};
  bool is_whole = stream->at < stream->end;
  if (is_whole) {
    event.op = *stream->at++;
    is_whole = get_event(stream, &event);
  }
  file->damaged += !is_whole;
  event.ns = stream->ns;
  stream->next = event;
  return is_whole && event.op != RECORDING_END;
}

/* Others only say how those are read that follow. */
static bool is_event(recording_op_t op) { return op != RECORDING_THREAD && op != RECORDING_IN && op != RECORDING_FINE; }

void stream_advance(stream_t *stream, stream_file_t *file)
{
  for (;;) {
    if (!stream->at && !next_chunk(stream, file))
      return;
    if (!read_event(stream, file))
      stream->at = NULL;
    else if (is_event(stream->next.op))
      return;
  }
}
