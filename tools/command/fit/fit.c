/* SPDX-License-Identifier: MIT
 *
 * Blocks of one size take the smallest class that is no smaller. Which classes leave the least over is found size by size: the
 * best of n classes up to a size is the best of n - 1 up to a smaller one, and a class for what is between (a shortest path of
 * n steps). Sizes are steps of 16 bytes, so there are at most 16,384. */
#include "fit.h"
#include "command.h"
#include <math.h>
#include <stdlib.h>

static void *take_array(size_t count, size_t size)
{
  void *array = calloc(count, size);
  if (!array)
    command_fail(COMMAND_FAILED, "fit: no memory");
  return array;
}

/* ---- what is live ---- */

typedef struct block {
  uint64_t size, since;
} block_t;

static size_t step_of(uint64_t size) { return size ? (size_t)((size + FIT_STEP - 1) / FIT_STEP) : 1; }

static void end_block(sizes_t *sizes, block_t *block, uint64_t now)
{
  if (block->size && step_of(block->size) <= sizes->steps)
    sizes->held[step_of(block->size)] += (double)(now - block->since) + 1;
  block->size = 0;
}

void sizes_measure(sizes_t *sizes, const trace_t *trace)
{
  block_t *blocks = take_array(trace->slots + 1, sizeof *blocks);
  uint64_t last = trace->count ? trace->acts[trace->count - 1].ns : 0;
  *sizes = (sizes_t){.steps = FIT_CLASS_MOST / FIT_STEP, .duration = (double)last + 1};
  sizes->held = take_array(sizes->steps + 1, sizeof *sizes->held);
  for (size_t i = 0; i < trace->count; i++) {
    const act_t *act = &trace->acts[i];
    end_block(sizes, &blocks[act->slot], act->ns);
    if (act->op != RECORDING_FREE)
      blocks[act->slot] = (block_t){act->size + !act->size, act->ns};
  }
  for (size_t slot = 0; slot < trace->slots; slot++)
    end_block(sizes, &blocks[slot], last);
  free(blocks);
}

void sizes_free(sizes_t *sizes) { free(sizes->held); }

/* ---- classes ---- */

/* Sizes that blocks have, in ascending order, with the sums up to each of how much is live and of how many bytes that is. */
typedef struct table {
  size_t *steps;
  double *held, *bytes;
  size_t count;
} table_t;

enum { TABLE_MOST = 2048 };

/* Where there are very many sizes, neighbours go together. */
static void make_table(table_t *table, const sizes_t *sizes)
{
  size_t used = 0, at = 0;
  for (size_t step = 1; step <= sizes->steps; step++)
    used += sizes->held[step] > 0;
  size_t together = used / TABLE_MOST + 1;
  table->steps = take_array(used / together + 2, sizeof *table->steps);
  table->held = take_array(used / together + 2, sizeof *table->held);
  table->bytes = take_array(used / together + 2, sizeof *table->bytes);
  table->count = 0;
  for (size_t step = 1; step <= sizes->steps; step++) {
    if (sizes->held[step] <= 0)
      continue;
    if (at++ % together == 0) {
      table->count++;
      table->held[table->count] = table->held[table->count - 1];
      table->bytes[table->count] = table->bytes[table->count - 1];
    }
    table->steps[table->count] = step;
    table->held[table->count] += sizes->held[step];
    table->bytes[table->count] += sizes->held[step] * (double)step;
  }
}

static void free_table(table_t *table)
{
  free(table->steps);
  free(table->held);
  free(table->bytes);
}

/* What one class leaves over of the sizes behind `from` and up to `to`, which is its own. */
static double waste(const table_t *table, size_t from, size_t to)
{
  return (double)table->steps[to] * (table->held[to] - table->held[from]) - (table->bytes[to] - table->bytes[from]);
}

/* The last class is the largest size. */
static void find_best(const table_t *table, size_t classes, double *best, uint16_t *before)
{
  size_t n = table->count;
  for (size_t to = 1; to <= n; to++) {
    best[to] = waste(table, 0, to);
    before[to] = 0;
  }
  for (size_t c = 2; c <= classes; c++)
    for (size_t to = n; to >= c; to--) { /* from the end: best[from] is still that of one class less */
      double least = INFINITY;
      for (size_t from = c - 1; from < to; from++) {
        double sum = best[from] + waste(table, from, to);
        if (sum < least) {
          least = sum;
          before[c * (n + 1) + to] = (uint16_t)from;
        }
      }
      best[to] = least;
    }
}

void sizes_fit(const sizes_t *sizes, size_t most, classes_t *classes)
{
  table_t table;
  make_table(&table, sizes);
  size_t n = table.count, count = most < n ? most : n;
  double *best = take_array(n + 1, sizeof *best);
  uint16_t *before = take_array((count + 1) * (n + 1), sizeof *before);
  find_best(&table, count, best, before);
  classes->count = count;
  for (size_t c = count, to = n; c; to = c > 1 ? before[c * (n + 1) + to] : 0, c--)
    classes->of[c - 1] = table.steps[to] * FIT_STEP;
  free(best);
  free(before);
  free_table(&table);
}
