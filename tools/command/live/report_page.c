/* SPDX-License-Identifier: MIT
 *
 * The report as a page, without a script: of each process its heaps, with bars of what they hold, and its object pools. A heap
 * with a budget has a bar in a frame, which is the budget. Others are drawn to one scale, that of the one which has held most.
 */
#include "page/page.h"
#include "report.h"
#include <stdlib.h>

static const double LEAST_REM = 5.6; /* has room for millions of blocks */

/* ---- figures ---- */

/* A cell says what its column is called, for where the table is narrow. */
static void write_figure(const char *label, json_int_t figure, bool is_bytes, FILE *to)
{
  fprintf(to, "<td data-label=\"%s\" class=\"n\">", label);
  if (figure == UNKNOWN)
    fputc('?', to);
  else
    (is_bytes ? page_bytes : page_count)((uint64_t)figure, to);
  fputs("</td>", to);
}

static void write_exhausted(json_int_t count, FILE *to)
{
  if (count > 0) {
    fputs("<td data-label=\"exhausted\" class=\"n mark\">", to);
    page_count((uint64_t)count, to);
    fputs("</td>", to);
  } else
    write_figure("exhausted", count, false, to);
}

static void write_name(const char *name, FILE *to)
{
  fputs("<th class=\"s\">", to);
  page_text(name, to);
  fputs("</th>", to);
}

enum { NEARLY_PERCENT = 90 };

static void write_limit(const char *label, json_int_t used, json_int_t limit, bool is_bytes, FILE *to)
{
  if (limit <= 0) {
    fprintf(to, "<td data-label=\"%s\" class=\"n\">%s</td><td></td>", label, limit ? "?" : "none");
    return;
  }
  double percent = 100 * (double)used / (double)limit;
  write_figure(label, limit, is_bytes, to);
  if (used == UNKNOWN)
    fputs("<td></td>", to);
  else
    fprintf(to, "<td data-label=\"used\" class=\"n%s\">%.0f %%</td>", percent >= NEARLY_PERCENT ? " mark" : "", percent);
}

/* ---- bars ---- */

typedef struct part {
  size_t figure;
  const char *name;
} part_t;

/* What is held is these together. */
static const part_t parts[] = {
  {HEAP_LIVE, "live"}, {HEAP_CACHED, "cached"}, {HEAP_IDLE, "idle"}, {HEAP_RECORDS, "records"}, {HEAP_CHILDREN, "children"}};
enum { PARTS = sizeof parts / sizeof *parts };

/* No bar is longer than its room, whatever the figures are. */
static double percent_of(json_int_t figure, double whole)
{
  double percent = figure > 0 && whole > 0 ? 100 * (double)figure / whole : 0;
  return percent < 100 ? percent : 100;
}

static void write_bar(const row_t *row, json_int_t most, FILE *to)
{
  json_int_t budget = row->of[HEAP_BUDGET];
  double whole = (double)(budget > 0 ? budget : most), left = 100;
  fprintf(to, "<td class=\"wide\"><div class=\"bar%s\">", budget > 0 ? " of" : "");
  for (size_t i = 0; i < PARTS; i++) {
    double percent = percent_of(row->of[parts[i].figure], whole);
    percent = percent < left ? percent : left;
    left -= percent;
    if (percent > 0)
      fprintf(to, "<i class=\"%s\" style=\"width:%.2f%%\"></i>", parts[i].name, percent);
  }
  if (row->of[HEAP_PEAK] > 0)
    fprintf(to, "<b style=\"left:%.2f%%\"></b>", percent_of(row->of[HEAP_PEAK], whole));
  fputs("</div></td>", to);
}

static void write_legend(FILE *to)
{
  fputs("<p class=\"legend\">", to);
  for (size_t i = 0; i < PARTS; i++)
    fprintf(to, "<span><i class=\"key %s\"></i>%s</span>", parts[i].name, parts[i].name);
  fputs("<span><i class=\"key most\"></i>peak, the most that was held</span><span><i class=\"key frame\"></i>the budget"
        "</span></p>\n<p class=\"note\">Heaps without a budget have bars of one scale, and so have processes.</p>\n",
        to);
}

/* ---- heaps ---- */

static json_int_t most_of(const report_t *report)
{
  json_int_t most = 0;
  for (size_t i = 0; i < report->heap_count; i++) {
    const json_int_t *of = report->heaps[i].of;
    json_int_t held = of[HEAP_PEAK] > of[HEAP_HELD] ? of[HEAP_PEAK] : of[HEAP_HELD];
    if (of[HEAP_BUDGET] <= 0 && held > most)
      most = held;
  }
  return most;
}

/* What a heap's children hold is in its own figure as well as in theirs, and counts once. */
static row_t total_of(const report_t *report)
{
  row_t total = {.name = "all"};
  for (size_t f = 0; f < HEAP_FIGURES; f++)
    total.of[f] = UNKNOWN;
  for (size_t i = 0; i < report->heap_count; i++)
    for (size_t f = 0; f < HEAP_FIGURES; f++)
      total.of[f] = report_sum_of(total.of[f], report->heaps[i].of[f]);
  if (total.of[HEAP_CHILDREN] > 0 && total.of[HEAP_HELD] >= total.of[HEAP_CHILDREN])
    total.of[HEAP_HELD] -= total.of[HEAP_CHILDREN];
  return total;
}

static void write_heap(const row_t *row, json_int_t most, FILE *to)
{
  fputs("<tr class=\"line\">", to);
  write_name(row->name, to);
  write_bar(row, most, to);
  write_figure("held", row->of[HEAP_HELD], true, to);
  write_limit("budget", row->of[HEAP_HELD], row->of[HEAP_BUDGET], true, to);
  write_figure("peak", row->of[HEAP_PEAK], true, to);
  for (size_t i = 0; i < PARTS; i++)
    write_figure(parts[i].name, row->of[parts[i].figure], true, to);
  write_figure("blocks", row->of[HEAP_BLOCKS], false, to);
  write_exhausted(row->of[HEAP_EXHAUSTED], to);
  fputs("</tr>\n", to);
}

/* Budgets of heaps and the peaks that these had at other times are no sums. */
static void write_total(const report_t *report, FILE *to)
{
  row_t total = total_of(report);
  fputs("<tr class=\"line total\">", to);
  write_name(total.name, to);
  fputs("<td></td>", to);
  write_figure("held", total.of[HEAP_HELD], true, to);
  fputs("<td></td><td></td><td></td>", to);
  for (size_t i = 0; i < PARTS - 1; i++)
    write_figure(parts[i].name, total.of[parts[i].figure], true, to);
  fputs("<td></td>", to);
  write_figure("blocks", total.of[HEAP_BLOCKS], false, to);
  write_exhausted(total.of[HEAP_EXHAUSTED], to);
  fputs("</tr>\n", to);
}

static void write_heaps(const report_t *report, FILE *to)
{
  const row_t **sorted = report_by_held(report);
  json_int_t most = most_of(report);
  page_begin_cards(LEAST_REM, to);
  fputs("<tr><th class=\"s\">", to);
  page_word("heap", to);
  fputs("</th><th></th>", to);
  page_head_word("held", to);
  page_head_word("budget", to);
  fputs("<th></th>", to);
  page_head_word("peak", to);
  for (size_t i = 0; i < PARTS; i++)
    page_head_word(parts[i].name, to);
  page_head_word("blocks", to);
  page_head_word("exhausted", to);
  fputs("</tr></thead><tbody>\n", to);
  for (size_t i = 0; i < report->heap_count; i++)
    write_heap(sorted ? sorted[i] : &report->heaps[i], most, to);
  if (report->heap_count > 1)
    write_total(report, to);
  page_end_table(to);
  free(sorted);
}

/* ---- object pools ---- */

static void write_object_pool(const row_t *row, FILE *to)
{
  json_int_t live = row->of[OBJECTS_LIVE], capacity = row->of[OBJECTS_CAPACITY];
  fputs("<tr class=\"line\">", to);
  write_name(row->name, to);
  fputs("<td class=\"wide\">", to);
  if (capacity > 0)
    fprintf(to, "<div class=\"bar of\"><i class=\"live\" style=\"width:%.2f%%\"></i></div>",
            percent_of(live, (double)capacity));
  fputs("</td>", to);
  write_figure("live", live, false, to);
  write_limit("capacity", live, capacity, false, to);
  write_figure("object size", row->of[OBJECTS_SIZE], true, to);
  write_figure("arrays", row->of[OBJECTS_ARRAYS], false, to);
  write_figure("held", row->of[OBJECTS_HELD], true, to);
  fputs("<td data-label=\"heap\" class=\"s\">", to);
  page_text(row->heap ? row->heap : "?", to);
  fputs("</td></tr>\n", to);
}

static void write_object_pools(const report_t *report, FILE *to)
{
  if (!report->objects_count)
    return;
  page_begin_cards(LEAST_REM, to);
  fputs("<tr><th class=\"s\">", to);
  page_word("object pool", to);
  fputs("</th><th></th><th>live</th>", to);
  page_head_word("capacity", to);
  fputs("<th></th><th>object size</th>", to);
  page_head_word("arrays", to);
  fputs("<th>held</th><th class=\"s\">heap</th></tr></thead><tbody>\n", to);
  for (size_t i = 0; i < report->objects_count; i++)
    write_object_pool(&report->objects[i], to);
  page_end_table(to);
}

/* ---- processes ---- */

static void write_process_name(const report_t *report, FILE *to)
{
  if (report->pid != UNKNOWN)
    fprintf(to, "process %lld", (long long)report->pid);
  else if (report->line)
    fprintf(to, "line %zu", report->line);
  else
    fputs("a process", to);
}

static void write_summary_of(const report_t *report, json_int_t most, FILE *to)
{
  row_t total = total_of(report);
  total.of[HEAP_BUDGET] = total.of[HEAP_PEAK] = total.of[HEAP_CHILDREN] = UNKNOWN;
  fputs("<tr class=\"line\"><th class=\"s\">", to);
  write_process_name(report, to);
  fputs("</th>", to);
  write_bar(&total, most, to);
  write_figure("held", total.of[HEAP_HELD], true, to);
  for (size_t i = 0; i < PARTS - 1; i++)
    write_figure(parts[i].name, total.of[parts[i].figure], true, to);
  write_figure("blocks", total.of[HEAP_BLOCKS], false, to);
  write_exhausted(total.of[HEAP_EXHAUSTED], to);
  write_figure("heaps", (json_int_t)report->heap_count, false, to);
  write_figure("object pools", (json_int_t)report->objects_count, false, to);
  fputs("</tr>\n", to);
}

/* Of one process alone its table says all. */
static void write_summary(const report_t *reports, size_t count, FILE *to)
{
  json_int_t most = 0;
  if (count < 2)
    return;
  for (size_t i = 0; i < count; i++) {
    json_int_t held = total_of(&reports[i]).of[HEAP_HELD];
    most = held > most ? held : most;
  }
  fputs("<h2>All processes</h2>\n", to);
  page_begin_cards(LEAST_REM, to);
  fputs("<tr><th></th><th></th><th>held</th>", to);
  for (size_t i = 0; i < PARTS - 1; i++)
    fprintf(to, "<th>%s</th>", parts[i].name);
  fputs("<th>blocks</th><th>exhausted</th><th>heaps</th><th>object pools</th></tr></thead><tbody>\n", to);
  for (size_t i = 0; i < count; i++)
    write_summary_of(&reports[i], most, to);
  page_end_table(to);
}

static const page_word_t words[] = {
  {"heap", "A part of the program&#39;s memory with a name. All that is allocated from it can be limited, reset and destroyed "
           "together."},
  {"held", "Memory that the heap has: live, cached, idle, records and children together."},
  {"budget", "The most that the heap may hold. A request beyond it is refused."},
  {"peak", "The most that the heap has held."},
  {"live", "Blocks that are allocated and not freed, as large as their size class."},
  {"cached", "Freed blocks that a thread keeps for its next requests."},
  {"idle", "Free memory of the heap, which serves its next requests."},
  {"records", "What the heap needs to know its own memory."},
  {"children", "What heaps hold that were made as children of this one. It is in their own rows as well."},
  {"blocks", "How many blocks are live."},
  {"exhausted", "How many requests got no memory, because the budget or the system had none."},
  {"object pool", "A store of objects of one type, which the program gets and puts."},
  {"capacity", "The most objects that the object pool may have."},
  {"arrays", "In how many pieces of memory the objects are."},
};

void report_write_page(const report_t *reports, size_t count, const char *title, const char *note, FILE *to)
{
  page_begin(title, NULL, to);
  fputs("<p class=\"note\">", to);
  page_text(note, to);
  fputs(" <a href=\"#words\">What the words mean</a></p>\n", to);
  write_legend(to);
  write_summary(reports, count, to);
  for (size_t i = 0; i < count; i++) {
    fputs("<h2>", to);
    write_process_name(&reports[i], to);
    fputs("</h2>\n", to);
    write_heaps(&reports[i], to);
    write_object_pools(&reports[i], to);
  }
  page_begin_words(to);
  page_write_words(words, sizeof words / sizeof *words, to);
  page_end_words(to);
  page_end(to);
}
