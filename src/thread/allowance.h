/* SPDX-License-Identifier: MIT
 *
 * The caches of all threads have one budget of bytes. Each thread has an allowance of it, for its magazines of all heaps and
 * its spares: a magazine counts as if it were full, with its own 512 bytes.
 *
 * A thread begins with a 16th of its share, which is the budget divided by the threads. The allowance grows by such a step
 * where the thread holds more, up to its share and as long as the budget lasts. So a thread that uses its caches little keeps
 * little, and a thread that begins to sleep keeps no more than it was allowed. Each thread has at least ALLOWANCE_LEAST, even
 * if the budget is spent: 1,000 threads hold at most the budget and 16 MiB.
 *
 *   W1 the allowances of all live threads add up to what is granted
 *   W2 left == allowed - what the magazines of the default heap and the spares count; of_heaps == what those of other heaps
 * count
 *
 * W1 holds whenever threads_lock is free and no thread is in a call; W2 while the thread is in no call. */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include "base/bits.h"
#include "bin/types.h"

enum {
  ALLOWANCE_LEAST = 16 << 10,
  ALLOWANCE_STEPS = 16,          /* in a share */
  THREADS_MANY = 5,              /* with fewer, more exchanges cost more than the memory */
  ALLOWANCE_MAGAZINE = 4,        /* this part of it is the most of one magazine, so that a few classes have room */
  MAGAZINE_BYTES_MOST = 97 << 10 /* no magazine counts more */
};

/* The owner alone changes all but of_heaps, which whoever flushes a heap's magazines lowers. */
typedef struct allowance {
  uint32_t slow_paths; /* taken so far. A thread looks at its allowance after some of them, */
  ptrdiff_t left;      /* and at once where this is below 0 */
  size_t allowed;
  size_t of_heaps;
  bool tight; /* the largest magazines would be more than their part, or threads are many. Read by any thread */
} allowance_t;

/* Beside many threads each class begins with magazines of two blocks, which double after each eight exchanges with the bin: a
 * thread that does little leaves the rest of a page to others. */
static inline bool threads_are_many(void) { return __atomic_load_n(&bin_threads, __ATOMIC_RELAXED) >= THREADS_MANY; }

/* For magazines of no thread. */
extern INTERNAL allowance_t allowance_of_nobody;

/* Settled at bring-up, before any thread has an allowance. Under a limit on memory it is at most a 32nd of that. */
void allowances_init(size_t budget);
size_t allowances_budget(void);

/* What each of so many threads may have is settled, under threads_lock. */
void allowances_divide(size_t threads);

/* All that was granted is the caller's, or nobody's: the other threads are lost in a fork. */
void allowances_forget_others(const allowance_t *own);

void allowance_begin(allowance_t *allowance);
void allowance_end(allowance_t *allowance);

/* Grows by a step. False: the thread has its share, or the budget is spent. */
bool allowance_grow(allowance_t *allowance);

/* Gives a step back that is not used, and what is more than the share. */
void allowance_shrink(allowance_t *allowance);

static inline ptrdiff_t allowance_left(const allowance_t *allowance)
{
  return allowance->left - (ptrdiff_t)__atomic_load_n(&allowance->of_heaps, __ATOMIC_RELAXED);
}

/* The caches hold so many bytes more. Of a thread that holds more than it is allowed the next slow path counts as one at which
 * it looks: to compare at each would cost the other slow paths. */
static inline void allowance_look_soon(allowance_t *allowance) { allowance->slow_paths = UINT32_MAX; }
static inline void allowance_use(allowance_t *allowance, ptrdiff_t bytes)
{
  allowance->left -= bytes;
  if (unlikely(allowance->left < 0))
    allowance_look_soon(allowance);
}

/* Returns the share of a thread. */
size_t allowance_share(void);

/* What is granted to all threads. */
size_t allowances_granted(void);

#endif
