/* SPDX-License-Identifier: MIT
 *
 * The caches of all threads share one budget of bytes. Each thread has an allowance from it, for its magazines of all heaps and
 * its spares. A magazine counts as if it were full, with its own 512 bytes.
 *
 * A thread's share is the budget divided by the number of threads. Its allowance begins with 1/16 of the share, and grows by
 * such steps while the thread caches more, up to the share and until the budget is spent. So a thread that caches little has a
 * small allowance, also while it sleeps. Each thread has at least ALLOWANCE_LEAST: 1,000 threads hold at most the budget and 16
 * MiB.
 *
 *   W1 the allowances of all live threads add up to what is granted
 *   W2 left == allowed - bytes counted for magazines of the default heap and for spares; of_heaps == bytes counted for
 *      magazines of other heaps
 *
 * W1 holds whenever threads_lock is free and no thread is in a call; W2 while the thread is in no call. */
#ifndef ALLOWANCE_H
#define ALLOWANCE_H

#include "base/bits.h"
#include "bin/types.h"

enum {
  ALLOWANCE_LEAST = 16 << 10,
  ALLOWANCE_STEPS = 16,          /* in a share */
  THREADS_MANY = 5,              /* with fewer threads, more exchanges would cost more than the memory saves */
  ALLOWANCE_MAGAZINE = 4,        /* the largest magazine takes 1/4 of an allowance, so that a few classes have room */
  MAGAZINE_BYTES_MOST = 97 << 10 /* the most that a magazine counts */
};

/* Only the owner changes the fields. The exception is of_heaps: a thread that flushes the magazines of a heap lowers it. */
typedef struct allowance {
  uint32_t slow_paths; /* taken so far; a thread checks its allowance after every few of them */
  ptrdiff_t left;      /* bytes that the thread may still cache; below 0 it checks at once */
  size_t allowed;
  size_t of_heaps;
  bool tight; /* the largest magazines would exceed their part, or threads are many; any thread may read it */
} allowance_t;

/* With many threads, a class begins with magazines of two blocks, which double after every eight exchanges with the bin. So a
 * thread that does little leaves most of a page to other threads. */
static inline bool threads_are_many(void) { return __atomic_load_n(&bin_threads, __ATOMIC_RELAXED) >= THREADS_MANY; }

extern INTERNAL allowance_t allowance_of_nobody;

/* Sets the budget at startup, before any thread has an allowance. It is at most 1/32 of a memory limit. */
void allowances_init(size_t budget);
size_t allowances_budget(void);

/* Divides the budget among `threads`. Called under threads_lock. */
void allowances_divide(size_t threads);

/* Takes back all allowances except the caller's, or all if `own` is NULL. For the child of a fork. */
void allowances_forget_others(const allowance_t *own);

void allowance_begin(allowance_t *allowance);
void allowance_end(allowance_t *allowance);

/* Grows the allowance by a step. Returns false if the thread has its share or the budget is spent. */
bool allowance_grow(allowance_t *allowance);

/* Returns an unused step, and everything beyond the share. */
void allowance_shrink(allowance_t *allowance);

static inline ptrdiff_t allowance_left(const allowance_t *allowance)
{
  return allowance->left - (ptrdiff_t)__atomic_load_n(&allowance->of_heaps, __ATOMIC_RELAXED);
}

/* Counts bytes that the thread caches more. A thread beyond its allowance checks it at the next slow path. Other threads need
 * no comparison at each slow path. */
static inline void allowance_look_soon(allowance_t *allowance) { allowance->slow_paths = UINT32_MAX; }
static inline void allowance_use(allowance_t *allowance, ptrdiff_t bytes)
{
  allowance->left -= bytes;
  if (unlikely(allowance->left < 0))
    allowance_look_soon(allowance);
}

size_t allowance_share(void);

size_t allowances_granted(void);

#endif
