/* SPDX-License-Identifier: MIT
 *
 * The reader of recordings (../record/recording.h): the events of all threads in one order, with blocks that have slots. A file
 * of any contents may be given: what is read takes memory by what is in the file, and what can be read of a damaged one is. */
#ifndef RECORDING_READER_H
#define RECORDING_READER_H

#include "../../record/recording.h"
#include "slots.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct event {
  recording_op_t op; /* ALLOC, ZEROED, ALIGNED, FREE, REALLOC, FAILED, SITE, MODULE or HEAP; 0 is none of these */
  uint32_t thread;   /* from 1 on */
  uint64_t ns;       /* since the recording began; never less than that of the event before */
  uint32_t slot;     /* a block keeps it until it is freed, also when a realloc() moves it */
  uint32_t site;     /* 0: it is not known */
  uint32_t heap;     /* 0: malloc() */
  uint64_t address, size;
  uint64_t old_size;      /* FREE and REALLOC: what the block had */
  uint8_t alignment_log2; /* ALIGNED */

  /* SITE: `site` and its functions, innermost first. MODULE: address, size, and what is added to the file's addresses.
   * HEAP: `heap`, its name, its kind, its parent (0: none), and as its size the budget, or that of its objects. All of them
   * hold until the next event. */
  uint32_t frame_count;
  const uint64_t *frames;
  uint64_t added;
  const char *name;
  uint32_t parent;
  uint8_t kind; /* recording_kind_t */
} event_t;

/* What the file says of itself, and what reading it has found so far. */
typedef struct recording_facts {
  recording_head_t head;
  char *command; /* words with a space between, without what a terminal would obey */
  uint64_t file_bytes;
  uint64_t chunks, damaged_chunks, empty_chunks, missing_chunks;
  recording_foot_t foot; /* zeroes: it does not say */
  bool is_cut_off;
  bool is_written;   /* its program goes on: what it writes after the file was opened is not read */
  uint64_t until_ns; /* when that was, since the recording began */
  uint64_t until_today_ns;
  uint64_t events;  /* of blocks, FAILED among them */
  uint32_t threads; /* the highest number */
  uint64_t last_ns;
  uint64_t live_bytes, live_blocks, peak_bytes, peak_ns, peak_blocks;
  uint64_t peak_event; /* the number of the event with which it came, from 1 on */
  uint64_t unknown;    /* frees of blocks that nobody had allocated, which are left out */
  uint64_t missed;     /* blocks that must have been freed, since another had their address: a free was put in */
  uint64_t failed;
} recording_facts_t;

typedef struct recording recording_t;

/* NULL: `why` says so. */
recording_t *recording_open(const char *path, char why[256]);

/* False: there is none any more, or no memory, and recording_error() says that. */
bool recording_next(recording_t *recording, event_t *event);
const char *recording_error(const recording_t *recording);

const recording_facts_t *recording_facts(const recording_t *recording);

/* One line of what is missing in it, once all is read. False: nothing is. */
bool recording_lacks(const recording_facts_t *facts, char text[256]);

void recording_close(recording_t *recording);

#endif
