/* SPDX-License-Identifier: MIT
 *
 * A recording as it is replayed: what each thread does, in a file in memory that the process that replays it maps. That process
 * has nothing else to remember, so its malloc holds what the recorded program's would. */
#ifndef PLAN_H
#define PLAN_H

#include "recording/recording.h"
#include <limits.h>
#include <stdio.h>

enum { PLAN_MAGIC = 0x6e616c70, PLAN_SAMPLES = 200, PLAN_NONE = UINT32_MAX };

typedef struct operation {
  uint32_t slot;
  uint32_t op : 4, alignment_log2 : 6, size_high : 22;
  uint32_t size_low;
} operation_t;

static inline uint64_t operation_size(operation_t of) { return (uint64_t)of.size_high << 32 | of.size_low; }

/* Operations that one thread does without another between them. */
typedef struct batch {
  uint32_t first;  /* operation; the batch ends where the next one begins */
  uint32_t thread; /* from 0 on */
  uint32_t next;   /* of the same thread; PLAN_NONE: the thread ends */
} batch_t;

/* What is live of a slot. */
typedef struct plan_slot {
  char *block;
  uint64_t size;
} plan_slot_t;

/* What a run has measured: times in nanoseconds, memory in bytes. */
typedef enum figure {
  FIGURE_CALLS, /* inside the allocator */
  FIGURE_P50,   /* of one call */
  FIGURE_P99,
  FIGURE_P999,
  FIGURE_LONGEST,
  FIGURE_PEAK, /* resident, above what there was before */
  FIGURE_MEAN,
  FIGURE_AT_PEAK, /* resident where most was live */
  FIGURE_FAULTS,
  FIGURE_ELAPSED, /* from the first call to the last */
  FIGURE_CLOCK,   /* what one look at the clock takes, which is not in the others */
  FIGURE_FAILED,  /* allocations that were not served */
  FIGURE_END_BYTES,
  FIGURE_END_BLOCKS,
  FIGURE_PEAK_BYTES, /* live */
  FIGURES
} figure_t;

typedef struct result {
  uint64_t of[FIGURES];
  char library[PATH_MAX]; /* that malloc is of */
  char why[128];          /* it failed */
  uint32_t is_done;
} result_t;

/* Behind it lie the operations, the batches with one more that ends the last, each thread's first batch, and the operations
 * before which resident memory is looked at. */
typedef struct plan {
  uint32_t magic, is_probe; /* a probe only says which library its malloc is of */
  uint32_t operation_count, batch_count, thread_count, slot_count, sample_count;
  uint32_t peak_operation; /* after which most is live */
  uint64_t bytes, operations_at, batches_at, threads_at, samples_at;
  uint64_t end_bytes, end_blocks, peak_bytes;
  uint32_t stop;     /* who is to look at the process has it wait before this operation; PLAN_NONE: it is not to wait */
  uint32_t is_there; /* it waits; a futex, */
  uint64_t slots;    /* and there its slots are */
  result_t result;
} plan_t;

/* Reads all of the recording. Returns the descriptor of the file; < 0: `why` says it. */
int plan_make(recording_t *recording, char why[256]);

/* Maps it; NULL: it is none. */
plan_t *plan_map(int file);

#endif
