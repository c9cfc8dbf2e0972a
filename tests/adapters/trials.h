/* SPDX-License-Identifier: MIT
 * What the tests of libraries with one allocator for the whole process share. Each trial is a child of its own, in which the
 * library is new: it installs a heap, does a piece of work, and ends the library. Included before the adapter, whose requests
 * then can be made to fail. */
#ifndef TRIALS_H
#define TRIALS_H

#include "../heap/heaps.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- requests that fail: `fail_count` of them from the n-th on ---- */

static _Atomic size_t requests;
static size_t fail_from, fail_count;

static bool fails(void)
{
  size_t n = atomic_fetch_add(&requests, 1) + 1;
  return n >= fail_from && n - fail_from < fail_count;
}

/* Which requests a trial was refused is kept where its parent sees it. */
enum { NOTED_REQUESTS = 1 << 16 };
static bool *refused_requests;

static void *note(void *block)
{
  if (!block && refused_requests && requests <= NOTED_REQUESTS)
    refused_requests[requests - 1] = true;
  return block;
}

static inline void *alloc_or_fail(pool_heap_t *heap, size_t size) { return fails() ? NULL : note(pool_heap_alloc(heap, size)); }

static inline void *calloc_or_fail(pool_heap_t *heap, size_t count, size_t size)
{
  return fails() ? NULL : note(pool_heap_calloc(heap, count, size));
}

static inline void *realloc_or_fail(void *block, size_t size) { return size && fails() ? NULL : pool_realloc(block, size); }

static inline void *heap_realloc_or_fail(pool_heap_t *heap, void *block, size_t size)
{
  return size && fails() ? NULL : note(pool_heap_realloc(heap, block, size));
}

#define pool_heap_alloc   alloc_or_fail
#define pool_heap_calloc  calloc_or_fail
#define pool_heap_realloc heap_realloc_or_fail
#define pool_realloc      realloc_or_fail

/* ---- trials ---- */

/* All was done, and the library was ended; false: it said that there is no memory. */
typedef bool work_fn(pool_heap_t *heap);

typedef struct outcome {
  bool done;
  size_t requests, kept, peak;
} outcome_t;

typedef struct trial {
  work_fn *work;
  pool_heap_options_t options;
  size_t fail_from, fail_count;
  outcome_t *outcome;
} trial_t;

/* What was refused may have left anything behind. */
static void run_trial(void *argument)
{
  const trial_t *trial = argument;
  pool_heap_t *heap = pool_heap_create(&trial->options);
  if (!heap)
    return;
  fail_from = trial->fail_from;
  fail_count = trial->fail_count;
  bool done = trial->work(heap);
  pool_stats_t s = stats_of(heap);
  must(!s.budget || s.peak_held_bytes <= s.budget);
  must(done || s.exhausted_count || requests >= fail_from);
  *trial->outcome = (outcome_t){done, requests, s.live_blocks, s.peak_held_bytes};
  if (!done)
    return;
  must(check_heap(heap));
  pool_heap_destroy(heap);
}

static inline outcome_t try_to(work_fn *work, pool_heap_options_t options, size_t from, size_t count)
{
  outcome_t *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(shared != MAP_FAILED);
  in_child(run_trial, &(trial_t){work, options, from, count, shared});
  outcome_t outcome = *shared;
  munmap(shared, sizeof *shared);
  return outcome;
}

/* On heaps of several kinds the work is done. Returns what the library kept, which is as much on each of them. */
static inline size_t works_on_any_heap(work_fn *work)
{
  outcome_t first = try_to(work, (pool_heap_options_t){0}, 0, 0);
  assert_true(first.done && first.requests > 0);
  static char memory[32 << 20];
  const pool_heap_options_t kinds[] = {{.budget = 8 * first.peak},
                                       {.flags = POOL_HEAP_CHECKED},
                                       {.flags = POOL_HEAP_ZERO_ON_FREE},
                                       {.memory = memory, .memory_size = sizeof memory}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    outcome_t next = try_to(work, kinds[i], 0, 0);
    assert_true(next.done);
    assert_int_equal(next.kept, first.kept);
  }
  return first.kept;
}

/* For a library that crashes when certain requests are refused, whoever refuses them. `plainly` does the same work without a
 * heap, on the C library's functions, where is_refused_again() says which request is refused. A trial that crashes is left out
 * if this one does too, by the same signal, with the same requests refused. What the heap did wrong this one does not do. */
static inline bool is_refused_again(void)
{
  size_t n = ++requests;
  return n <= NOTED_REQUESTS && refused_requests[n - 1];
}

static void run_plainly(void *plainly) { (*(work_fn **)plainly)(NULL); }

static inline outcome_t try_or_crash_alike(work_fn *work, work_fn *plainly, pool_heap_options_t options)
{
  outcome_t *shared = mmap(NULL, sizeof *shared + NOTED_REQUESTS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  must(shared != MAP_FAILED);
  refused_requests = (bool *)(shared + 1);
  int end = end_of_child(run_trial, &(trial_t){.work = work, .options = options, .outcome = shared});
  if (WIFSIGNALED(end)) {
    int plain_end = end_of_child(run_plainly, &plainly);
    assert_true(WIFSIGNALED(plain_end) && WTERMSIG(plain_end) == WTERMSIG(end));
  } else
    assert_int_equal(end, 0);
  outcome_t outcome = *shared;
  munmap(shared, sizeof *shared + NOTED_REQUESTS);
  refused_requests = NULL;
  return outcome;
}

/* From far too small, even for a heap, to enough: it is done, or the library says no. How much it takes is its own affair.
 * `plainly`: NULL, or as above. */
static inline void works_or_says_no(work_fn *work, work_fn *plainly)
{
  unsigned refused = 0, done = 0;
  for (size_t budget = 1 << 10; done < 2; budget += budget / 3) {
    pool_heap_options_t options = {.budget = budget};
    outcome_t outcome = plainly ? try_or_crash_alike(work, plainly, options) : try_to(work, options, 0, 0);
    assert_true(budget < (size_t)1 << 30);
    refused += !outcome.done;
    done += outcome.done;
  }
  assert_true(refused);
}

/* One request alone, or all from it on: it is done all the same, or the library says no. Up to some hundred trials. */
static inline void each_request_fails_in_turn(work_fn *work)
{
  unsigned refused = 0;
  size_t last = try_to(work, (pool_heap_options_t){0}, 0, 0).requests;
  for (size_t n = 1; n <= last; n += 1 + n / 20) {
    refused += !try_to(work, (pool_heap_options_t){.flags = POOL_HEAP_CHECKED}, n, 1).done;
    refused += !try_to(work, (pool_heap_options_t){0}, n, SIZE_MAX).done;
  }
  assert_true(refused);
}

/* The tests of a library that keeps nothing once it has ended. Who has more to say writes that test out. */
#define TEST_OF(name, ...) \
  static void name(void **state) \
  { \
    (void)state; \
    __VA_ARGS__; \
  }
#define WORKS_ON_ANY_HEAP(work)  TEST_OF(works, assert_int_equal(works_on_any_heap(work), 0))
#define ANY_BUDGET(work)         TEST_OF(any_budget, works_or_says_no(work, NULL))
#define EACH_REQUEST_FAILS(work) TEST_OF(each_request_fails, each_request_fails_in_turn(work))

#endif
