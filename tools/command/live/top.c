/* SPDX-License-Identifier: MIT */
#include "top.h"
#include "command.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const top_keys[TOP_KEYS] = {"held", "change", "live", "blocks", "exhausted", "name"};
const char top_letters[TOP_KEYS + 1] = "hclben";

/* ---- looks ---- */

enum { PATIENCE_MS = 500, STOPPED_PATIENCE_MS = 1 }; /* one that did not answer the last time is not waited for */

static void read_command(look_t *look)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/comm", (int)look->pid);
  FILE *comm = fopen(path, "re");
  if (comm && fgets(look->command, sizeof look->command, comm))
    look->command[strcspn(look->command, "\n")] = 0;
  if (comm)
    fclose(comm);
}

static double now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool ask(look_t *look, report_t *report)
{
  int patience = look->age > 0 && !live_goes_on(&look->live) ? STOPPED_PATIENCE_MS : PATIENCE_MS;
  return live_ask(&look->live, patience, look->why) && report_parse_live(report, &look->live, look->why);
}

/* Without an answer the report that there is stays. */
static bool look_again(look_t *look)
{
  report_t report;
  if (!ask(look, &report)) {
    if (!look->now.text || live_is_over(&look->live))
      return false;
    look->why[0] = '\0';
    look->age = now_s() - look->at;
    look->seconds = 0;
    return true;
  }
  double now = now_s();
  report_free(&look->before);
  look->before = look->now;
  look->now = report;
  look->seconds = look->before.text ? now - look->at : 0;
  look->at = now;
  look->age = look->live.age;
  look->why[0] = '\0'; /* of one of several libraries there may be none */
  read_command(look);
  return true;
}

static void end_look(look_t *look)
{
  report_free(&look->now);
  report_free(&look->before);
  live_close(&look->live);
}

static look_t *find_look(top_t *top, pid_t pid)
{
  for (size_t i = 0; i < top->count; i++)
    if (top->looks[i].pid == pid)
      return &top->looks[i];
  return NULL;
}

/* NULL: it has ended between two looks, or cannot be looked at. */
static look_t *add_look(top_t *top, pid_t pid, char why[256])
{
  live_t live;
  if (!live_open(&live, pid, why))
    return NULL;
  top->looks = reallocarray(top->looks, top->count + 1, sizeof *top->looks);
  if (!top->looks)
    command_fail(COMMAND_FAILED, "no memory");
  top->looks[top->count] = (look_t){.pid = pid, .live = live};
  return &top->looks[top->count++];
}

static bool look_at_one(top_t *top)
{
  look_t *look = top->count ? top->looks : add_look(top, top->pid, top->why);
  if (!look)
    return false;
  if (look_again(look) && !(look->age > 0 && live_is_over(&look->live)))
    return true;
  snprintf(top->why, sizeof top->why, "%s", look->why[0] ? look->why : "it has ended");
  return false;
}

static void drop_looks(top_t *top)
{
  size_t kept = 0;
  for (size_t i = 0; i < top->count; i++) {
    if (top->looks[i].is_there)
      top->looks[kept++] = top->looks[i];
    else
      end_look(&top->looks[i]);
  }
  top->count = kept;
}

static bool look_at_all(top_t *top)
{
  size_t count;
  char why[256];
  pid_t *pids = live_list(&count);
  for (size_t i = 0; i < top->count; i++)
    top->looks[i].is_there = false;
  for (size_t i = 0; i < count; i++) {
    look_t *look = find_look(top, pids[i]);
    if (look && live_is_over(&look->live)) /* and another program has its number */
      continue;
    look = look ? look : add_look(top, pids[i], why);
    if (look)
      look->is_there = look_again(look);
  }
  free(pids);
  drop_looks(top);
  return true;
}

bool top_look(top_t *top) { return top->pid ? look_at_one(top) : look_at_all(top); }

void top_end(top_t *top)
{
  for (size_t i = 0; i < top->count; i++)
    end_look(&top->looks[i]);
  free(top->looks);
  *top = (top_t){.pid = 0};
}

/* ---- what is shown ---- */

/* A row and the one of the same name before it. */
typedef struct line {
  const char *name;
  const row_t *row, *before;
  const look_t *look;
  double of[TOP_KEYS]; /* what it is sorted by; UNKNOWN where there is none */
} line_t;

static int compare_rows(const void *a, const void *b)
{
  const row_t *first = *(const row_t *const *)a, *second = *(const row_t *const *)b;
  int order = strcmp(first->name, second->name);
  return order ? order : strcmp(first->heap ? first->heap : "", second->heap ? second->heap : "");
}

/* Rows by their names. */
typedef struct sorted {
  const row_t **of;
  size_t count;
} sorted_t;

static sorted_t sorted_rows(const row_t *rows, size_t count)
{
  sorted_t sorted = {calloc(count + 1, sizeof *sorted.of), count};
  if (!sorted.of)
    command_fail(COMMAND_FAILED, "no memory");
  for (size_t i = 0; i < count; i++)
    sorted.of[i] = &rows[i];
  qsort(sorted.of, count, sizeof *sorted.of, compare_rows);
  return sorted;
}

/* The only row of that name; NULL: there is none, or there are several. */
static const row_t *only_row(const sorted_t *sorted, const row_t *row)
{
  const row_t **found = bsearch(&row, sorted->of, sorted->count, sizeof *sorted->of, compare_rows);
  if (!found)
    return NULL;
  bool again = (found > sorted->of && !compare_rows(found - 1, &row)) ||
               (found + 1 < sorted->of + sorted->count && !compare_rows(found + 1, &row));
  return again ? NULL : *found;
}

static double rate(const line_t *line, size_t figure)
{
  if (!line->before || line->look->seconds <= 0 || line->row->of[figure] == UNKNOWN || line->before->of[figure] == UNKNOWN)
    return 0;
  return ((double)line->row->of[figure] - (double)line->before->of[figure]) / line->look->seconds;
}

static top_key_t sorted_by;

static int by_key(const void *a, const void *b)
{
  const line_t *first = a, *second = b;
  if (sorted_by == TOP_NAME)
    return strcmp(first->name, second->name);
  double x = first->of[sorted_by], y = second->of[sorted_by];
  return (x < y) - (x > y);
}

static line_t *lines_of(size_t count)
{
  line_t *lines = calloc(count + 1, sizeof *lines);
  if (!lines)
    command_fail(COMMAND_FAILED, "no memory");
  return lines;
}

static void sort(line_t *lines, size_t count, top_key_t key)
{
  sorted_by = key;
  qsort(lines, count, sizeof *lines, by_key);
}

#define MOST_SHOWN 9e18 /* what a process says of itself may be anything */

static void print_change(double bytes, FILE *to)
{
  const char sign = bytes < 0 ? '-' : '+';
  bytes = fmax(-MOST_SHOWN, fmin(bytes, MOST_SHOWN));
  char text[32] = "";
  FILE *into = fmemopen(text, sizeof text, "w");
  if (into) {
    report_print_bytes((json_int_t)(bytes < 0 ? -bytes : bytes), into);
    fclose(into);
  }
  size_t spaces = strspn(text, " ");
  if (bytes == 0)
    fprintf(to, " %10s", "");
  else if (spaces)
    text[spaces - 1] = sign, fputs(text, to);
  else
    fputs(text, to);
}

enum { NAME_COLUMNS = 24 };

static void print_heap_line(const line_t *line, FILE *to)
{
  const row_t *row = line->row;
  report_print_name(line->name, NAME_COLUMNS, to);
  if (row->of[HEAP_BUDGET] == 0)
    fprintf(to, " %10s", "none");
  else
    report_print_bytes(row->of[HEAP_BUDGET], to);
  report_print_bytes(row->of[HEAP_HELD], to);
  print_change(rate(line, HEAP_HELD), to);
  report_print_bytes(row->of[HEAP_LIVE], to);
  report_print_count(row->of[HEAP_BLOCKS], to);
  report_print_bytes(row->of[HEAP_CACHED], to);
  report_print_bytes(row->of[HEAP_FREE], to);
  report_print_bytes(row->of[HEAP_RETURNED], to);
  report_print_bytes(row->of[HEAP_PEAK], to);
  report_print_count(row->of[HEAP_EXHAUSTED], to);
  fputc('\n', to);
}

static void print_objects_line(const line_t *line, FILE *to)
{
  const row_t *row = line->row;
  report_print_name(line->name, NAME_COLUMNS, to);
  if (row->of[OBJECTS_CAPACITY] == 0)
    fprintf(to, " %10s", "no limit");
  else
    report_print_count(row->of[OBJECTS_CAPACITY], to);
  report_print_bytes(row->of[OBJECTS_HELD], to);
  print_change(rate(line, OBJECTS_HELD), to);
  report_print_count(row->of[OBJECTS_LIVE], to);
  report_print_bytes(row->of[OBJECTS_SIZE], to);
  fputs("  ", to);
  report_print_name(row->heap ? row->heap : "?", 0, to);
  fputc('\n', to);
}

static void print_title(const look_t *look, FILE *to)
{
  fprintf(to, "process %d, ", (int)look->pid);
  report_print_name(look->command, 0, to);
  fprintf(to, ": %zu heap%s, %zu object pool%s", look->now.heap_count, look->now.heap_count == 1 ? "" : "s",
          look->now.objects_count, look->now.objects_count == 1 ? "" : "s");
  if (look->age > 0)
    fprintf(to, "; it does not answer, these figures are %.0f s old", look->age);
  row_t sum = report_sum(&look->now);
  report_print_mapped(&sum, "; ", to);
  fputc('\n', to);
}

static void set_heap_keys(line_t *line)
{
  line->of[TOP_HELD] = (double)line->row->of[HEAP_HELD];
  line->of[TOP_CHANGE] = rate(line, HEAP_HELD);
  line->of[TOP_LIVE] = (double)line->row->of[HEAP_LIVE];
  line->of[TOP_BLOCKS] = (double)line->row->of[HEAP_BLOCKS];
  line->of[TOP_REFUSED] = (double)line->row->of[HEAP_EXHAUSTED];
}

static void set_objects_keys(line_t *line)
{
  line->of[TOP_HELD] = (double)line->row->of[OBJECTS_HELD];
  line->of[TOP_CHANGE] = rate(line, OBJECTS_HELD);
  line->of[TOP_LIVE] = line->of[TOP_BLOCKS] = (double)line->row->of[OBJECTS_LIVE];
}

/* Rows now, and those of the look before. Nobody can tell which of several of one name is which. */
typedef struct rows {
  const row_t *now, *before;
  size_t count, count_before;
  void (*set_keys)(line_t *line);
  void (*print)(const line_t *line, FILE *to);
} rows_t;

static void print_rows(const look_t *look, top_key_t key, const rows_t *rows, FILE *to)
{
  line_t *lines = lines_of(rows->count);
  sorted_t now = sorted_rows(rows->now, rows->count), before = sorted_rows(rows->before, rows->count_before);
  for (size_t i = 0; i < rows->count; i++) {
    const row_t *row = &rows->now[i];
    lines[i] = (line_t){.name = row->name, .row = row, .look = look};
    lines[i].before = only_row(&now, row) ? only_row(&before, row) : NULL;
    rows->set_keys(&lines[i]);
  }
  sort(lines, rows->count, key);
  for (size_t i = 0; i < rows->count; i++)
    rows->print(&lines[i], to);
  free(now.of);
  free(before.of);
  free(lines);
}

static void print_heaps_of(const look_t *look, top_key_t key, FILE *to)
{
  const rows_t rows = {look->now.heaps,         look->before.heaps, look->now.heap_count,
                       look->before.heap_count, set_heap_keys,      print_heap_line};
  fprintf(to, "%-*s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s\n", NAME_COLUMNS, "heap", "budget", "held", "a second",
          "live", "blocks", "cached", "free", "returned", "peak", "exhausted");
  print_rows(look, key, &rows, to);
}

static void print_objects_of(const look_t *look, top_key_t key, FILE *to)
{
  const rows_t rows = {look->now.objects,          look->before.objects, look->now.objects_count,
                       look->before.objects_count, set_objects_keys,     print_objects_line};
  if (!rows.count)
    return;
  fprintf(to, "\n%-*s %10s %10s %10s %10s %10s  %s\n", NAME_COLUMNS, "object pool", "capacity", "held", "a second", "live",
          "object", "heap");
  print_rows(look, key, &rows, to);
}

/* ---- all processes ---- */

static void print_process(const line_t *line, FILE *to)
{
  const look_t *look = line->look;
  fprintf(to, "%10d  ", (int)look->pid);
  report_print_name(look->command, 16, to);
  report_print_bytes(line->row->of[HEAP_HELD], to);
  print_change(rate(line, HEAP_HELD), to);
  report_print_bytes(line->row->of[HEAP_LIVE], to);
  report_print_count(line->row->of[HEAP_BLOCKS], to);
  fprintf(to, " %10zu %10zu", look->now.heap_count, look->now.objects_count);
  report_print_count(line->row->of[HEAP_EXHAUSTED], to);
  if (look->age > 0)
    fprintf(to, "  %.0f s old", look->age);
  fputc('\n', to);
}

static void print_processes(const top_t *top, FILE *to)
{
  line_t *lines = lines_of(top->count);
  row_t *sums = calloc(2 * top->count + 1, sizeof *sums);
  if (!sums)
    command_fail(COMMAND_FAILED, "no memory");
  for (size_t i = 0; i < top->count; i++) {
    const look_t *look = &top->looks[i];
    row_t *now = &sums[2 * i], *before = now + 1;
    *now = report_sum(&look->now);
    *before = report_sum(&look->before);
    line_t *line = &lines[i];
    *line = (line_t){.name = look->command, .row = now, .before = look->before.text ? before : NULL, .look = look};
    set_heap_keys(line);
  }
  sort(lines, top->count, top->key);
  fprintf(to, "%10s  %-16s %10s %10s %10s %10s %10s %10s %10s\n", "process", "", "held", "a second", "live", "blocks", "heaps",
          "obj. pools", "exhausted");
  for (size_t i = 0; i < top->count; i++)
    print_process(&lines[i], to);
  if (!top->count)
    fputs("No process shares its figures: tidepool run -o export=1 PROGRAM does.\n", to);
  free(sums);
  free(lines);
}

void top_print(const top_t *top, FILE *to)
{
  if (!top->pid) {
    print_processes(top, to);
    return;
  }
  print_title(top->looks, to);
  print_heaps_of(top->looks, top->key, to);
  print_objects_of(top->looks, top->key, to);
}
