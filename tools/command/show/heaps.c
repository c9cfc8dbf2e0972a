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

static const show_t *sorted;

static int by_first_kind(const void *a, const void *b)
{
  const total_t *one = &sorted->heaps[*(const uint32_t *)a].of, *other = &sorted->heaps[*(const uint32_t *)b].of;
  for (size_t i = 0; i < sorted->kind_count; i++) {
    sum_t sum = sorted->kinds[i].sum;
    if (one->bytes[sum] != other->bytes[sum])
      return one->bytes[sum] < other->bytes[sum] ? 1 : -1;
  }
  return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

uint32_t heaps_order(const show_t *show, uint32_t order[HEAP_NAMES_MOST])
{
  uint32_t count = 0;
  for (uint32_t i = 0; i < show->trace.heaps.count; i++)
    if (!total_is_none(&show->heaps[i].of))
      order[count++] = i;
  sorted = show;
  qsort(order, count, sizeof *order, by_first_kind);
  return count;
}

static void print_heap(const show_t *show, uint32_t number, FILE *to)
{
  const heap_name_t *name = &show->trace.heaps.names[number];
  char room[COMMAND_BYTES];
  for (size_t i = 0; i < show->kind_count; i++) {
    const total_t *of = &show->heaps[number].of;
    fprintf(to, " %10s %10llu", command_bytes(room, (double)of->bytes[show->kinds[i].sum]),
            (unsigned long long)of->blocks[show->kinds[i].sum]);
  }
  fputs("  ", to);
  command_print(name->name ? name->name : "?", to);
  fputs(name->kind == RECORDING_KIND_OBJECT_POOL ? " (object pool)\n" : "\n", to);
}

void heaps_print(const show_t *show, FILE *to)
{
  uint32_t order[HEAP_NAMES_MOST], count = heaps_order(show, order);
  fputc('\n', to);
  for (size_t i = 0; i < show->kind_count; i++)
    fprintf(to, " %21s", show->kinds[i].name);
  fputs("  heap\n", to);
  for (uint32_t i = 0; i < count; i++)
    print_heap(show, order[i], to);
}
