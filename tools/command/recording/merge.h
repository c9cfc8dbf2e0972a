/* SPDX-License-Identifier: MIT
 *
 * The streams of a recording in one order, by their times, and where those do not tell, by the addresses: an address is
 * allocated and freed in turn. */
#ifndef MERGE_H
#define MERGE_H

#include "recording.h"
#include "stream.h"

typedef enum phase {
  PHASE_FRESH,
  PHASE_BEGUN, /* a realloc(): its old block may be somebody else's from now on */
  PHASE_PLAIN, /* a realloc() of a block that nobody knows: it allocates */
  PHASE_DONE   /* it had to be before its time */
} phase_t;

typedef struct branch {
  stream_t stream;
  phase_t phase;
  uint32_t waits; /* of this event for those of others */
} branch_t;

/* Object pools go with the heap that they are in, so that finds them; 0: there is none. */
typedef struct heap_tree {
  uint32_t parent, first_pool, next_pool, previous_pool;
} heap_tree_t;

/* What is in the heap: the least `ns` is on top; of two, what waits for the other is below. */
typedef struct turn {
  uint64_t ns;
  uint32_t waits, branch;
} turn_t;

typedef struct merge {
  stream_file_t file;
  branch_t *branches;
  turn_t *turns;
  size_t count; /* of turns */
  size_t branch_count;
  slots_t slots;
  heap_tree_t *heaps; /* by number */
  uint32_t heap_count;
  uint64_t looks; /* at what is next of other streams */
  uint64_t unknown, missed;
  uint64_t frames[RECORDING_FRAMES_MOST]; /* of the last event, and its name */
  char name[RECORDING_NAME_MOST + 1];
} merge_t;

/* `branches` have their chunks; turns have room for as many. */
void merge_begin(merge_t *merge);

/* The next event, with slots. False: there is none any more. */
bool merge_next(merge_t *merge, event_t *event);

#endif
