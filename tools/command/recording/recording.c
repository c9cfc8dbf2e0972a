/* SPDX-License-Identifier: MIT */
#include "recording.h"
#include "../../record/claim.h"
#include "merge.h"
#include "utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* So many chunks in a row without a mark end the file: no program has so many threads that begin one. A file can be a hole. */
enum { EMPTY_MOST = 4096, STEPS_NS = 1000000000 };

struct recording {
  recording_facts_t facts;
  merge_t merge;
  chunk_t *chunks;
};

/* ---- the head ---- */

static bool open_file(recording_t *recording, const char *path, char why[256])
{
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  recording->merge.file.descriptor = file;
  if (file < 0 || fstat(file, &about) != 0) {
    snprintf(why, 256, "%s", strerror(errno));
    return false;
  }
  if (!S_ISREG(about.st_mode)) {
    snprintf(why, 256, "it is no file of a disk");
    return false;
  }
  return true;
}

static bool head_is_good(const recording_head_t *head, char why[256])
{
  if (memcmp(head->magic, RECORDING_MAGIC, sizeof head->magic) != 0)
    snprintf(why, 256, "%s",
             !memcmp(head->magic, "heap pro", 8) ? "it is a profile, which tidepool show reads" : "it is no recording");
  else if (head->byte_order != RECORDING_BYTE_ORDER)
    snprintf(why, 256, "it was recorded on a machine of another byte order");
  else if (head->version != RECORDING_VERSION)
    snprintf(why, 256, "it is a recording of version %u, and this program reads version %u", head->version, RECORDING_VERSION);
  else
    return true;
  return false;
}

static uint64_t now_of(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The recorder has a lock on what it writes to. Streams are read one after the other, and what one has written meanwhile may be
 * of blocks that another had before: so all end at one moment. That comes first: what the head and the length say is of later.
 */
static void note_moment(recording_t *recording)
{
  recording_facts_t *facts = &recording->facts;
  facts->is_written = claim_is_written(recording->merge.file.descriptor);
  facts->until_ns = now_of(CLOCK_MONOTONIC);
  facts->until_today_ns = now_of(CLOCK_REALTIME);
}

/* What is not known is taken for it. */
static bool is_own_clock(uint64_t of)
{
  uint64_t own = claim_of_process().clocks;
  return !of || !own || of == own;
}

/* By the recorder's clock. An older one has said only what time of the day it was, and one in another namespace has another
 * clock. The clock of the day is set in steps, so its last second is left out: any moment will do that is not in the future. */
static void set_moment(recording_facts_t *facts)
{
  const recording_foot_t *foot = &facts->foot;
  bool knows = foot->began_ns && foot->began_ns <= facts->until_ns && is_own_clock(foot->clocks);
  uint64_t moment = knows ? facts->until_ns : facts->until_today_ns - STEPS_NS;
  uint64_t began = knows ? foot->began_ns : facts->head.started_ns;
  facts->is_written = facts->is_written && !facts->head.ended_ns && !facts->head.error;
  facts->until_ns = moment > began ? moment - began : 0;
}

/* The words of the command, as far as they are there. */
static void read_command(recording_facts_t *facts, char *text, size_t length)
{
  size_t at = 0;
  for (uint32_t words = facts->head.words; at < length && words; at++) {
    words -= !text[at];
    text[at] = text[at] ? text[at] : ' ';
  }
  text[at ? at - 1 : 0] = '\0';
  utf8_clean(text);
  facts->command = text;
}

static bool read_head(recording_t *recording, char why[256])
{
  recording_head_t *head = &recording->facts.head;
  char *chunk = calloc(1, RECORDING_CHUNK + 1);
  ssize_t length = chunk ? pread(recording->merge.file.descriptor, chunk, RECORDING_CHUNK, 0) : -1;
  if (length < 0)
    snprintf(why, 256, "%s", strerror(errno));
  else
    memcpy(head, chunk, sizeof *head);
  if (length == 0)
    snprintf(why, 256, "it is empty");
  if (length <= 0 || !head_is_good(head, why)) {
    free(chunk);
    return false;
  }
  memcpy(&recording->facts.foot, chunk + RECORDING_FOOT_AT, sizeof recording->facts.foot);
  memset(chunk + RECORDING_FOOT_AT, 0, sizeof recording->facts.foot);
  size_t words = (size_t)length > sizeof *head ? (size_t)length - sizeof *head : 0;
  memmove(chunk, chunk + sizeof *head, words + 1);
  read_command(&recording->facts, chunk, words);
  set_moment(&recording->facts);
  return true;
}

/* After the head, which says how many chunks there are. */
static bool read_length(recording_t *recording, char why[256])
{
  struct stat about;
  if (fstat(recording->merge.file.descriptor, &about) == 0) {
    recording->facts.file_bytes = (uint64_t)about.st_size;
    return true;
  }
  snprintf(why, 256, "%s", strerror(errno));
  return false;
}

/* ---- chunks ---- */

static bool add_chunk(recording_t *recording, chunk_t chunk)
{
  uint64_t count = recording->facts.chunks;
  if ((count & (count + 1)) == 0) { /* as many as a power of two less one */
    chunk_t *larger = realloc(recording->chunks, (2 * count + 1) * sizeof *larger);
    if (!larger)
      return false;
    recording->chunks = larger;
  }
  recording->chunks[count] = chunk;
  recording->facts.chunks++;
  return true;
}

/* A chunk that nobody began is no damage: its program was killed. */
static bool find_chunks(recording_t *recording)
{
  recording_facts_t *facts = &recording->facts;
  uint64_t empty = 0, most = facts->file_bytes / RECORDING_CHUNK;
  for (uint64_t i = 1; i <= most && i < UINT32_MAX && empty < EMPTY_MOST; i++) {
    recording_chunk_t head;
    uint64_t from = i * RECORDING_CHUNK;
    if (pread(recording->merge.file.descriptor, &head, sizeof head, (off_t)from) < (ssize_t)sizeof head)
      break;
    bool is_marked = head.mark == RECORDING_CHUNK_MARK;
    empty = is_marked ? 0 : empty + 1;
    facts->empty_chunks += !is_marked && !head.mark;
    recording->merge.file.damaged += !is_marked && head.mark;
    if (is_marked && !add_chunk(recording, (chunk_t){head.stream, (uint32_t)i, head.number}))
      return false;
  }
  bool has_numbers = !facts->chunks; /* else it is an older recorder's, which had the command's words where the count is */
  for (uint64_t i = 0; i < facts->chunks; i++)
    has_numbers |= recording->chunks[i].number != 0;
  facts->foot.begun_chunks = has_numbers ? facts->foot.begun_chunks : 0;
  facts->is_cut_off = facts->file_bytes % RECORDING_CHUNK != 0 || most <= facts->foot.begun_chunks;
  return true;
}

/* A stream without one of its chunks, or with one twice. One that is missing at the end shows in the number of all, where the
 * program has come to its end. */
static void count_missing(recording_t *recording)
{
  recording_facts_t *facts = &recording->facts;
  const chunk_t *chunks = recording->chunks;
  for (uint64_t i = 0; i < facts->chunks; i++) {
    uint32_t before = i && chunks[i].stream == chunks[i - 1].stream ? chunks[i - 1].number : 0;
    if (chunks[i].number > before)
      facts->missing_chunks += chunks[i].number - before - 1;
    else
      recording->merge.file.damaged += facts->foot.begun_chunks != 0;
  }
  if (facts->missing_chunks > facts->foot.begun_chunks) { /* such numbers are damage */
    facts->missing_chunks = 0;
    recording->merge.file.damaged++;
  }
  uint64_t here = facts->chunks + recording->merge.file.damaged + facts->missing_chunks;
  if (!facts->is_written && facts->foot.begun_chunks > here)
    facts->missing_chunks += facts->foot.begun_chunks - here;
}

static int compare_chunks(const void *one, const void *other)
{
  const chunk_t *a = one, *b = other;
  if (a->stream != b->stream)
    return a->stream < b->stream ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

/* ---- streams ---- */

static bool make_branches(recording_t *recording)
{
  merge_t *merge = &recording->merge;
  const chunk_t *chunks = recording->chunks;
  uint64_t count = recording->facts.chunks;
  for (uint64_t i = 0; i < count; i++)
    merge->branch_count += !i || chunks[i].stream != chunks[i - 1].stream;
  merge->branches = calloc(merge->branch_count + 1, sizeof *merge->branches);
  merge->turns = calloc(merge->branch_count + 1, sizeof *merge->turns);
  if (!merge->branches || !merge->turns)
    return false;
  branch_t *branch = merge->branches - 1;
  for (uint64_t i = 0; i < count; i++) {
    if (!i || chunks[i].stream != chunks[i - 1].stream)
      (++branch)->stream.chunk = &chunks[i];
    branch->stream.chunks_end = &chunks[i + 1];
  }
  return true;
}

recording_t *recording_open(const char *path, char why[256])
{
  recording_t *recording = calloc(1, sizeof *recording);
  if (recording)
    recording->merge.file.descriptor = -1;
  bool is_open = recording && open_file(recording, path, why);
  if (is_open)
    note_moment(recording);
  is_open = is_open && read_head(recording, why) && read_length(recording, why);
  if (is_open && find_chunks(recording)) {
    if (recording->chunks)
      qsort(recording->chunks, recording->facts.chunks, sizeof *recording->chunks, compare_chunks);
    count_missing(recording);
    if (make_branches(recording)) {
      merge_begin(&recording->merge);
      return recording;
    }
  }
  if (is_open || !recording)
    snprintf(why, 256, "no memory");
  if (recording)
    recording_close(recording);
  return NULL;
}

void recording_close(recording_t *recording)
{
  merge_t *merge = &recording->merge;
  for (size_t i = 0; merge->branches && i < merge->branch_count; i++)
    free(merge->branches[i].stream.bytes);
  if (merge->file.descriptor >= 0)
    close(merge->file.descriptor);
  slots_finish(&merge->slots);
  free(merge->heaps);
  free(merge->branches);
  free(merge->turns);
  free(recording->chunks);
  free(recording->facts.command);
  free(recording);
}

/* ---- what is read ---- */

static bool is_of_block(recording_op_t op) { return op >= RECORDING_ALLOC && op <= RECORDING_FAILED; }

static void count_event(recording_t *recording, event_t *event)
{
  recording_facts_t *facts = &recording->facts;
  facts->last_ns = event->ns > facts->last_ns ? event->ns : facts->last_ns;
  event->ns = facts->last_ns;
  if (!is_of_block(event->op))
    return;
  facts->events++;
  facts->failed += event->op == RECORDING_FAILED;
  facts->threads = event->thread > facts->threads ? event->thread : facts->threads;
  facts->live_bytes += (event->op == RECORDING_FREE || event->op == RECORDING_FAILED ? 0 : event->size) - event->old_size;
  facts->live_blocks = recording->merge.slots.live;
  if (facts->live_bytes <= facts->peak_bytes)
    return;
  facts->peak_bytes = facts->live_bytes;
  facts->peak_blocks = facts->live_blocks;
  facts->peak_ns = facts->last_ns;
  facts->peak_event = facts->events;
}

bool recording_next(recording_t *recording, event_t *event)
{
  bool is_one = merge_next(&recording->merge, event) && !(recording->facts.is_written && event->ns > recording->facts.until_ns);
  if (is_one)
    count_event(recording, event);
  recording->facts.damaged_chunks = recording->merge.file.damaged;
  recording->facts.unknown = recording->merge.unknown;
  recording->facts.missed = recording->merge.missed;
  return is_one;
}

const char *recording_error(const recording_t *recording) { return recording->merge.file.no_memory ? "no memory" : NULL; }

const recording_facts_t *recording_facts(const recording_t *recording) { return &recording->facts; }

/* ---- what is missing ---- */

bool recording_lacks(const recording_facts_t *facts, char text[256])
{
  size_t length = 0;
  *text = '\0';
  if (facts->head.error)
    length += (size_t)snprintf(text, 256, "; it ended before the program: %s", strerror((int)facts->head.error));
  else if (facts->is_written)
    length += (size_t)snprintf(text, 256, "; the program goes on, and what it did so far was read");
  else if (!facts->head.ended_ns)
    length += (size_t)snprintf(text, 256, "; the program did not end by exit(): it was killed, or goes on");
  if (facts->is_cut_off)
    length += (size_t)snprintf(text + length, 256 - length, "; the file is cut off");
  if (facts->missing_chunks)
    length += (size_t)snprintf(text + length, 256 - length, "; parts that are missing: %llu",
                               (unsigned long long)facts->missing_chunks);
  if (facts->damaged_chunks)
    snprintf(text + length, 256 - length, "; %llu of %llu parts could not be read to their end",
             (unsigned long long)facts->damaged_chunks, (unsigned long long)facts->chunks);
  memmove(text, text + (*text ? 2 : 0), strlen(text) + (*text ? 0 : 1));
  return *text;
}
