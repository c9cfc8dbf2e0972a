/* SPDX-License-Identifier: MIT
 * What the files of the stressor share: workers, what all of them use, and the steps they take. */
#ifndef STRESS_H
#define STRESS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>

_Noreturn void must_failed(const char *file, int line, const char *condition);
#define must(condition) ((condition) ? (void)0 : must_failed(__FILE__, __LINE__, #condition))
#include "kept.h"

enum {
  THREADS_MOST = 64,
  PLACES = 512, /* blocks one thread keeps */
  BOARD = 256,  /* blocks left for whoever comes by */
  BATCH = 64,
  BYTES_EACH = 48 << 20, /* a thread keeps no more than that */
  ROUND_LEAST_MS = 20,
  ROUND_MOST_MS = 120,
  STUCK_SECONDS = 600, /* a child that takes longer waits for something that never comes */
  SHARED = 4,          /* heaps that all use; the last has no limit */
  HEAP_BOARD = 8,      /* heaps left for whoever comes by */
  HEAP_BLOCKS = 150,
  MEMORY_BYTES = 200 << 10
};

/* What one thread after the other goes on with. */
typedef struct worker {
  pthread_t thread, before;
  bool succeeds; /* `before` is to be joined */
  unsigned number;
  uint64_t dice;
  kept_t kept[PLACES];
  size_t bytes;
  uint64_t steps, forks, ends, refused;
  size_t restarts_left; /* for one round */
} worker_t;

extern _Atomic(char *) board[BOARD];
extern pool_heap_t *shared[SHARED];

/* Blocks. Each step does something with the place `kept`, which may hold a block already. */
void drop(worker_t *worker, kept_t *kept);
void step_aligned(worker_t *worker, kept_t *kept);
void step_allocate(worker_t *worker, kept_t *kept);
void step_ask(worker_t *worker, kept_t *kept);
void step_batch(worker_t *worker, kept_t *kept);
void step_figures(worker_t *worker, kept_t *kept);
void step_hand_over(worker_t *worker, kept_t *kept);
void step_huge(worker_t *worker, kept_t *kept);
void step_reallocate(worker_t *worker, kept_t *kept);
void step_resize(worker_t *worker, kept_t *kept);
void step_zeroed(worker_t *worker, kept_t *kept);

/* Heaps. */
void create_shared_heaps(void);
void destroy_heaps(void);
void step_heap(worker_t *worker, kept_t *kept);

#endif
