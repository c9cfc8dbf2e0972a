/* SPDX-License-Identifier: MIT */
#include "show.h"
#include "command.h"
#include "heaps.h"
#include <stdlib.h>
#include <string.h>

/* ---- sums ---- */

typedef struct live {
  uint64_t size, since;
  uint32_t site;
  bool is_there;
} live_t;

static void *take_array(size_t count, size_t size)
{
  void *array = calloc(count, size);
  if (!array)
    command_fail(COMMAND_FAILED, "show: no memory");
  return array;
}

static size_t row_of(uint64_t size)
{
  size_t row = 0;
  while (size > 16 && row + 1 < SIZE_ROWS) {
    size = (size + 1) / 2;
    row++;
  }
  return row;
}

/* From a microsecond on, by tens; the last column is of what was never freed. */
static size_t column_of(uint64_t ns)
{
  size_t column = 0;
  for (ns /= 1000; ns && column + 2 < LIFE_COLUMNS; ns /= 10)
    column++;
  return column;
}

static total_t *site_of(show_t *show, uint32_t site)
{
  return &show->sites[site < show->callers.stack_count ? show->callers.same[site] : 0];
}

static void add(total_t *to, sum_t sum, const live_t *live, int sign)
{
  to->bytes[sum] += (uint64_t)sign * live->size;
  to->blocks[sum] += (uint64_t)sign;
}

static void end_block(show_t *show, live_t *live, uint64_t now)
{
  if (!live->is_there)
    return;
  add(site_of(show, live->site), SUM_END, live, -1);
  add(&show->all, SUM_END, live, -1);
  show->lives[row_of(live->size)][column_of(now - live->since)]++;
  live->is_there = false;
}

static void begin_block(show_t *show, live_t *live, const act_t *act)
{
  *live = (live_t){act->size, act->ns, act->site, true};
  add(site_of(show, act->site), SUM_END, live, 1);
  add(site_of(show, act->site), SUM_ALLOCATED, live, 1);
  add(&show->all, SUM_END, live, 1);
  add(&show->all, SUM_ALLOCATED, live, 1);
}

static void note_point(show_t *show, uint64_t ns, uint64_t last)
{
  size_t at = (size_t)((double)ns / ((double)last + 1) * POINTS);
  point_t *point = &show->points[at];
  show->point_count = at + 1;
  point->last = show->all.bytes[SUM_END];
  if (show->all.bytes[SUM_END] < point->bytes && point->ns)
    return;
  point->ns = ns;
  point->bytes = show->all.bytes[SUM_END];
  point->blocks = show->all.blocks[SUM_END];
}

static size_t act_of_peak(const trace_t *trace)
{
  uint64_t *sizes = take_array(trace->slots + 1, sizeof *sizes), live = 0, most = 0;
  size_t peak = 0;
  for (size_t i = 0; i < trace->count; i++) {
    const act_t *act = &trace->acts[i];
    uint64_t size = act->op == RECORDING_FREE ? 0 : act->size;
    live += size - sizes[act->slot];
    sizes[act->slot] = size;
    if (live > most) {
      most = live;
      peak = i;
    }
  }
  free(sizes);
  return peak;
}

static void keep_peak(show_t *show)
{
  for (size_t i = 0; i <= show->callers.stack_count; i++) {
    show->sites[i].bytes[SUM_PEAK] = show->sites[i].bytes[SUM_END];
    show->sites[i].blocks[SUM_PEAK] = show->sites[i].blocks[SUM_END];
  }
  show->all.bytes[SUM_PEAK] = show->all.bytes[SUM_END];
  show->all.blocks[SUM_PEAK] = show->all.blocks[SUM_END];
}

/* Parts of the time in which nothing happened are as the one before. */
static void fill_points(show_t *show, uint64_t last)
{
  for (size_t i = 1; i < show->point_count; i++)
    if (!show->points[i].ns)
      show->points[i] = (point_t){.ns = last / POINTS * i, .bytes = show->points[i - 1].last, .last = show->points[i - 1].last};
}

void show_sum(show_t *show)
{
  const trace_t *trace = &show->trace;
  live_t *blocks = take_array(trace->slots + 1, sizeof *blocks);
  show->sites = take_array(show->callers.stack_count + 1, sizeof *show->sites);
  size_t peak = act_of_peak(trace);
  uint64_t last = trace->count ? trace->acts[trace->count - 1].ns : 0;
  for (size_t i = 0; i < trace->count; i++) {
    const act_t *act = &trace->acts[i];
    end_block(show, &blocks[act->slot], act->ns);
    if (act->op != RECORDING_FREE)
      begin_block(show, &blocks[act->slot], act);
    note_point(show, act->ns, last);
    if (i == peak) {
      keep_peak(show);
      show->peak_ns = act->ns;
    }
  }
  fill_points(show, last);
  for (uint32_t slot = 0; slot < trace->slots; slot++)
    if (blocks[slot].is_there)
      show->lives[row_of(blocks[slot].size)][LIFE_COLUMNS - 1]++;
  free(blocks);
}

/* ---- as text ---- */

static const show_t *sorted_of;
static sum_t sorted_by;

static int by_bytes(const void *a, const void *b)
{
  uint64_t first = sorted_of->sites[*(const uint32_t *)a].bytes[sorted_by],
           second = sorted_of->sites[*(const uint32_t *)b].bytes[sorted_by];
  return (first < second) - (first > second);
}

static void print_stack(const show_t *show, uint32_t site, FILE *to)
{
  const call_stack_t *stack = site < show->callers.stack_count ? &show->callers.stacks[site] : NULL;
  if (!stack || !stack->count)
    fputs("?", to);
  for (uint32_t i = 0; stack && i < stack->count; i++) {
    fputs(i ? " < " : "", to);
    command_print(show->callers.names[stack->names[i]], to);
  }
}

/* Of n blocks, of which each was hit with probability p, the number is known to a part of sqrt((1 - p) / (n p)). */
void show_print_few(const show_t *show, uint64_t blocks, uint64_t samples, FILE *to)
{
  double hit = blocks ? (double)samples / (double)blocks : 1;
  if (show->is_profile && show->distance && 1 - hit > (double)samples / SAMPLES_FEW)
    fprintf(to, "  [by %llu sample%s]", (unsigned long long)samples, samples == 1 ? "" : "s");
}

static void print_sites(const show_t *show, sum_t sum, const char *title, size_t most, FILE *to)
{
  size_t count = show_site_count(show);
  uint32_t *order = take_array(count, sizeof *order);
  for (size_t i = 0; i < count; i++)
    order[i] = (uint32_t)i;
  sorted_of = show;
  sorted_by = sum;
  qsort(order, count, sizeof *order, by_bytes);
  fprintf(to, "\n%s: ", title);
  char room[COMMAND_BYTES];
  fprintf(to, "%s in %llu blocks\n", command_bytes(room, (double)show->all.bytes[sum]),
          (unsigned long long)show->all.blocks[sum]);
  for (size_t i = 0; i < count && i < most && show->sites[order[i]].blocks[sum]; i++) {
    const total_t *total = &show->sites[order[i]];
    fprintf(to, "%10s %5.1f %% %10llu  ", command_bytes(room, (double)total->bytes[sum]),
            show->all.bytes[sum] ? 100.0 * (double)total->bytes[sum] / (double)show->all.bytes[sum] : 0,
            (unsigned long long)total->blocks[sum]);
    print_stack(show, order[i], to);
    show_print_few(show, total->blocks[sum], total->samples[sum], to);
    fputc('\n', to);
  }
  free(order);
}

static size_t count_places(const show_t *show)
{
  size_t count = 0;
  for (size_t i = 0; i < show_site_count(show); i++)
    count += !total_is_none(&show->sites[i]);
  return count;
}

void show_print_samples(const show_t *show, FILE *to)
{
  if (show->distance)
    fprintf(to, "Estimates by a sample of one byte in %llu on average, which hit %llu blocks in use and %llu in all.",
            (unsigned long long)show->distance, (unsigned long long)show->sampled[SUM_END],
            (unsigned long long)show->sampled[SUM_ALLOCATED]);
  else
    fputs("Each block is in the profile.", to);
}

void show_print(const show_t *show, FILE *to, size_t sites)
{
  char when[64];
  command_print(show->title, to);
  if (show->is_profile) {
    fprintf(to, "\n%zu places. ", count_places(show));
    show_print_samples(show, to);
  } else
    fprintf(to, "\n%zu calls, %zu places, %.3f s", show->trace.count, count_places(show),
            (double)show->trace.facts.last_ns / 1e9);
  fputc('\n', to);
  if (show->heaps)
    heaps_print(show, to);
  for (size_t i = 0; i < show->kind_count; i++) {
    bool is_peak = show->kinds[i].sum == SUM_PEAK;
    snprintf(when, sizeof when, "%s, after %.3f s", show->kinds[i].name, (double)show->peak_ns / 1e9);
    print_sites(show, show->kinds[i].sum, is_peak ? when : show->kinds[i].name, sites, to);
  }
}
