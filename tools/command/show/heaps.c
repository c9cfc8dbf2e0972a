/* SPDX-License-Identifier: MIT */
#include "heaps.h"
#include "command.h"
#include <stdlib.h>
#include <string.h>

typedef struct block {
  uint64_t size;
  uint32_t heap;
  bool is_there;
} block_t;

static void change(heap_total_t *heaps, const block_t *block, sum_t sum, int sign)
{
  heaps[block->heap].of.bytes[sum] += (uint64_t)sign * block->size;
  heaps[block->heap].of.blocks[sum] += (uint64_t)sign;
}

static void act_on(heap_total_t *heaps, block_t *block, const act_t *act)
{
  if (block->is_there)
    change(heaps, block, SUM_END, -1);
  *block = (block_t){act->size, act->heap, act->op != RECORDING_FREE};
  if (!block->is_there)
    return;
  change(heaps, block, SUM_END, 1);
  change(heaps, block, SUM_ALLOCATED, 1);
}

static void keep_point(heap_total_t *heaps, size_t count, size_t point)
{
  for (size_t i = 0; i < count; i++)
    heaps[i].points[point] = heaps[i].of.bytes[SUM_END];
}

static void keep_peak(heap_total_t *heaps, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    heaps[i].of.bytes[SUM_PEAK] = heaps[i].of.bytes[SUM_END];
    heaps[i].of.blocks[SUM_PEAK] = heaps[i].of.blocks[SUM_END];
  }
}

/* A point is the moment in its part of the time in which most was live, so what heaps have then is no more than that. */
heap_total_t *heaps_sum(const show_t *show)
{
  const trace_t *trace = &show->trace;
  size_t count = trace->heaps.count, point = 0;
  heap_total_t *heaps = calloc(count, sizeof *heaps);
  block_t *blocks = calloc((size_t)trace->slots + 1, sizeof *blocks);
  uint64_t live = 0, most = 0;
  if (!heaps || !blocks)
    command_fail(COMMAND_FAILED, "show: no memory");
  for (size_t i = 0; i < trace->count; i++) {
    const act_t *act = &trace->acts[i];
    block_t *block = &blocks[act->slot];
    for (; point < show->point_count && show->points[point].ns < act->ns; point++)
      keep_point(heaps, count, point);
    live -= block->is_there ? block->size : 0;
    act_on(heaps, block, act);
    live += block->is_there ? block->size : 0;
    if (live <= most)
      continue;
    most = live;
    keep_peak(heaps, count);
  }
  for (; point < show->point_count; point++)
    keep_point(heaps, count, point);
  free(blocks);
  return heaps;
}

bool heaps_are_several(const show_t *show) { return show->trace.heaps.count > 1; }

static const heap_total_t *sorted;

static int by_peak(const void *a, const void *b)
{
  const total_t *one = &sorted[*(const uint32_t *)a].of, *other = &sorted[*(const uint32_t *)b].of;
  if (one->bytes[SUM_PEAK] != other->bytes[SUM_PEAK])
    return one->bytes[SUM_PEAK] < other->bytes[SUM_PEAK] ? 1 : -1;
  return (one->bytes[SUM_ALLOCATED] < other->bytes[SUM_ALLOCATED]) - (one->bytes[SUM_ALLOCATED] > other->bytes[SUM_ALLOCATED]);
}

static void print_heap(const show_t *show, const heap_total_t *heap, uint32_t number, FILE *to)
{
  const heap_name_t *name = &show->trace.heaps.names[number];
  char rooms[SUMS][COMMAND_BYTES];
  for (sum_t sum = 0; sum < SUMS; sum++)
    fprintf(to, " %10s %10llu", command_bytes(rooms[sum], (double)heap->of.bytes[sum]),
            (unsigned long long)heap->of.blocks[sum]);
  fputs("  ", to);
  command_print(name->name ? name->name : "?", to);
  fputs(name->kind == RECORDING_KIND_OBJECT_POOL ? " (object pool)\n" : "\n", to);
}

void heaps_print(const show_t *show, const heap_total_t *heaps, FILE *to)
{
  uint32_t order[HEAP_NAMES_MOST], count = 0;
  for (uint32_t i = 0; i < show->trace.heaps.count; i++)
    if (heaps[i].of.blocks[SUM_ALLOCATED])
      order[count++] = i;
  sorted = heaps;
  qsort(order, count, sizeof *order, by_peak);
  fprintf(to, "\n %21s %21s %21s  heap\n", "live at the peak", "live at the end", "allocated");
  for (uint32_t i = 0; i < count; i++)
    print_heap(show, &heaps[order[i]], order[i], to);
}
