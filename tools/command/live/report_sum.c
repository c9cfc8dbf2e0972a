/* SPDX-License-Identifier: MIT
 * What all heaps of a process have together. */
#include "command.h"
#include "report.h"
#include <stdint.h>

json_int_t report_sum_of(json_int_t a, json_int_t b)
{
  if (a == UNKNOWN || b == UNKNOWN)
    return a == UNKNOWN ? b : a;
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

row_t report_sum(const report_t *report)
{
  row_t sum = {.name = ""};
  static const uint8_t with_children[] = {HEAP_HELD, HEAP_MAPPED};
  for (size_t f = 0; f < HEAP_FIGURES; f++) {
    sum.of[f] = report->heap_count ? UNKNOWN : 0;
    for (size_t i = 0; i < report->heap_count; i++)
      sum.of[f] = report_sum_of(sum.of[f], report->heaps[i].of[f]);
  }
  for (size_t i = 0; i < sizeof with_children; i++) {
    json_int_t *of = &sum.of[with_children[i]];
    if (*of != UNKNOWN && sum.of[HEAP_CHILDREN] != UNKNOWN)
      *of -= sum.of[HEAP_CHILDREN] < *of ? sum.of[HEAP_CHILDREN] : *of;
  }
  return sum;
}

void report_print_mapped(const row_t *sum, const char *before, FILE *to)
{
  static const struct {
    uint8_t figure;
    const char *name;
  } parts[] = {{HEAP_MAPPED, "mapped:"}, {HEAP_LIVE, "live,"},         {HEAP_CACHED, "cached,"},
               {HEAP_FREE, "free,"},     {HEAP_RETURNED, "returned,"}, {HEAP_RECORDS, "records"}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts && sum->of[HEAP_MAPPED] != UNKNOWN; i++) {
    char room[COMMAND_BYTES];
    fprintf(to, "%s%s %s", i ? " " : before, command_bytes(room, (double)sum->of[parts[i].figure]), parts[i].name);
  }
}
