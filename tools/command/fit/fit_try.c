/* SPDX-License-Identifier: MIT
 *
 * A trial does what was recorded on a heap of this very process. Nothing is written to the blocks. */
#include "command.h"
#include "fit.h"
#include <stdlib.h>
#include <tidepool.h>

enum { LOOKS = 1000 }; /* at the heap, which are as far apart as calls go */

typedef struct run {
  pool_heap_t *heap;
  void **blocks;
  uint64_t *sizes; /* that were asked for */
  uint64_t usable, asked;
  trial_t *trial;
} run_t;

/* Asking how much a block has costs more than all the rest, so it is asked when it comes and when it goes. */
static void count(run_t *run, uint32_t slot, int sign)
{
  if (!run->blocks[slot])
    return;
  run->usable += (uint64_t)sign * pool_usable_size(run->blocks[slot]);
  run->asked += (uint64_t)sign * run->sizes[slot];
}

static void *serve(const run_t *run, const act_t *act)
{
  void *block = run->blocks[act->slot];
  if (act->op == RECORDING_REALLOC) /* one to no bytes, which kept its block where it was recorded, would free it here */
    return pool_heap_realloc(run->heap, block, act->size + !act->size);
  if (act->op == RECORDING_ALIGNED && act->alignment_log2 > 4)
    return pool_heap_aligned_alloc(run->heap, (size_t)1 << act->alignment_log2, act->size);
  return pool_heap_alloc(run->heap, act->size);
}

static void refuse(run_t *run, size_t i)
{
  if (!run->trial->refused++)
    run->trial->first_refused = i;
}

/* What was refused is not there: a realloc() of it is an allocation, and a free of it nothing. */
static void act_on(run_t *run, const act_t *act, size_t i)
{
  count(run, act->slot, -1);
  if (act->op == RECORDING_FREE) {
    pool_heap_free(run->heap, run->blocks[act->slot]);
    run->blocks[act->slot] = NULL;
    return;
  }
  void *block = serve(run, act);
  if (block) {
    run->blocks[act->slot] = block;
    run->sizes[act->slot] = act->size;
  } else {
    refuse(run, i);
  }
  count(run, act->slot, 1);
}

static void look(run_t *run, double share)
{
  pool_stats_t stats;
  pool_heap_stats(run->heap, &stats);
  run->trial->mean += share * (double)stats.held_bytes;
  run->trial->internal += share * (double)(run->usable - run->asked);
  if (run->usable > run->trial->peak_usable)
    run->trial->peak_usable = run->usable;
}

static void play(run_t *run, const trace_t *trace, bool until_refused)
{
  size_t every = trace->count / LOOKS + 1;
  uint64_t looked = 0, last = trace->acts[trace->count - 1].ns + 1;
  for (size_t i = 0; i < trace->count && !(until_refused && run->trial->refused); i++) {
    act_on(run, &trace->acts[i], i);
    if (i % every && i + 1 < trace->count)
      continue;
    uint64_t until = i + 1 < trace->count ? trace->acts[i + 1].ns : last;
    look(run, (double)(until - looked) / (double)last);
    looked = until;
  }
}

void fit_try(const trace_t *trace, const classes_t *classes, uint64_t budget, bool until_refused, trial_t *trial)
{
  run_t run = {.trial = trial};
  pool_stats_t stats;
  *trial = (trial_t){.refused = 0};
  run.blocks = calloc(trace->slots + 1, sizeof *run.blocks);
  run.sizes = calloc(trace->slots + 1, sizeof *run.sizes);
  if (!run.blocks || !run.sizes)
    command_fail(COMMAND_FAILED, "fit: no memory");
  run.heap = pool_heap_create(&(pool_heap_options_t){
    .name = "fit", .budget = budget, .size_classes = classes->count ? classes->of : NULL, .size_class_count = classes->count});
  trial->is_made = run.heap != NULL;
  if (run.heap && trace->count)
    play(&run, trace, until_refused);
  if (run.heap) {
    pool_heap_stats(run.heap, &stats);
    trial->peak = stats.peak_held_bytes;
    pool_heap_destroy(run.heap);
  }
  free(run.blocks);
  free(run.sizes);
}
