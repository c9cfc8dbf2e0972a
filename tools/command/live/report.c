/* SPDX-License-Identifier: MIT */
#include "report.h"
#include "command.h"
#include "live.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const figure_t heap_figures[HEAP_FIGURES] = {
  [HEAP_BUDGET] = {"budget", "budget_bytes", "Bytes that the heap may hold; 0: no limit.", false},
  [HEAP_HELD] = {"held_bytes", "held_bytes", "Bytes taken and not given back.", false},
  [HEAP_PEAK] = {"peak_held_bytes", "peak_held_bytes", "The most that the heap has held.", false},
  [HEAP_LIVE] = {"live_bytes", "live_bytes", "Usable bytes of live blocks.", false},
  [HEAP_BLOCKS] = {"live_blocks", "live_blocks", "Live blocks.", false},
  [HEAP_CACHED] = {"cached_bytes", "cached_bytes", "Bytes free in magazines and depots.", false},
  [HEAP_IDLE] = {"idle_bytes", "idle_bytes", "Bytes free in slabs and runs.", false},
  [HEAP_RECORDS] = {"metadata_bytes", "metadata_bytes", "Bytes of the manager's records.", false},
  [HEAP_CHILDREN] = {"children_bytes", "children_bytes", "Bytes that child heaps hold.", false},
  [HEAP_EXHAUSTED] = {"exhausted_count", "exhausted_total", "Requests that ended in NULL.", true},
  [HEAP_RETRIED] = {"retried_count", "retried_total", "Calls of on_exhausted that returned true.", true},
  [HEAP_OVERFLOWED] = {"overflowed_count", "overflowed_total", "Requests that the overflow heap served.", true},
  [HEAP_PURGED] = {"purged_bytes", "purged_bytes_total", "Bytes given back to the system.", true},
  [HEAP_FREE] = {"free_bytes", "free_bytes", "Bytes of idle memory that pages are behind.", false},
  [HEAP_RETURNED] = {"returned_bytes", "returned_bytes", "Bytes that are free and mapped, and no page is behind.", false},
  [HEAP_MAPPED] = {"mapped_bytes", "mapped_bytes", "Bytes that are mapped.", false},
  [HEAP_ADVISED] = {"advised_bytes", "advised_bytes", "Bytes in huge pages that were asked for.", false},
};

const figure_t objects_figures[OBJECTS_FIGURES] = {
  [OBJECTS_SIZE] = {"object_size", "object_bytes", "Bytes of an object.", false},
  [OBJECTS_CAPACITY] = {"capacity", "capacity_objects", "Objects that the pool may have; 0: no limit.", false},
  [OBJECTS_LIVE] = {"live", "live_objects", "Objects that have a user.", false},
  [OBJECTS_ARRAYS] = {"arrays", "arrays", "Arrays of objects.", false},
  [OBJECTS_HELD] = {"held_bytes", "held_bytes", "Bytes that the pool holds of its heap.", false},
};

static bool parse_row(row_t *row, const json_t *object, const figure_t *figures, size_t count, char why[256])
{
  row->name = json_string_value(json_object_get(object, "name"));
  row->heap = json_string_value(json_object_get(object, "heap"));
  if (!row->name) {
    snprintf(why, 256, "a heap or an object pool has no name");
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_object_get(object, figures[i].key);
    row->of[i] = json_is_integer(value) ? json_integer_value(value) : UNKNOWN;
    if (value && (!json_is_integer(value) || row->of[i] < 0)) {
      snprintf(why, 256, "%s is no number of bytes or of anything else", figures[i].key);
      return false;
    }
  }
  return true;
}

/* An array that is not there has no rows. */
static bool parse_rows(row_t **rows, size_t *count, const json_t *array, const figure_t *figures, size_t figure_count,
                       char why[256])
{
  if (array && !json_is_array(array)) {
    snprintf(why, 256, "heaps or object_pools is no array");
    return false;
  }
  size_t most = json_array_size(array);
  *rows = calloc(most + 1, sizeof **rows);
  if (!*rows)
    snprintf(why, 256, "no memory");
  for (*count = 0; *rows && *count < most; ++*count)
    if (!parse_row(&(*rows)[*count], json_array_get(array, *count), figures, figure_count, why))
      return false;
  return *rows != NULL;
}

/* The text of one heap alone is the heap itself. */
static bool parse_heaps(report_t *report, char why[256])
{
  if (json_object_get(report->text, "heaps"))
    return parse_rows(&report->heaps, &report->heap_count, json_object_get(report->text, "heaps"), heap_figures, HEAP_FIGURES,
                      why);
  json_t *alone = json_object_get(report->text, "held_bytes") ? json_pack("[O]", report->text) : NULL;
  bool done = alone && parse_rows(&report->heaps, &report->heap_count, alone, heap_figures, HEAP_FIGURES, why);
  if (!alone)
    snprintf(why, 256, "no figures of heaps");
  json_decref(alone);
  return done;
}

/* The text is the report's from here on. */
static bool take_rows(report_t *report, json_t *text, char why[256])
{
  *report = (report_t){.text = text, .pid = UNKNOWN, .library = json_string_value(json_object_get(text, "library"))};
  const json_t *pid = json_object_get(text, "pid");
  if (json_is_integer(pid) && json_integer_value(pid) > 0)
    report->pid = json_integer_value(pid);
  bool done =
    parse_heaps(report, why) && parse_rows(&report->objects, &report->objects_count, json_object_get(text, "object_pools"),
                                           objects_figures, OBJECTS_FIGURES, why);
  if (!done)
    report_free(report);
  return done;
}

bool report_parse(report_t *report, const char *text, size_t length, char why[256])
{
  json_error_t error;
  json_t *parsed = json_loadb(text, length, 0, &error);
  if (!parsed)
    snprintf(why, 256, "no JSON: %s", error.text);
  return parsed && take_rows(report, parsed, why);
}

/* ---- several libraries in one process ---- */

#define MALLOC_LIBRARY "libtidepool-malloc"

static bool has_heaps(const report_t *report) { return json_is_array(json_object_get(report->text, "heaps")); }

bool report_is_rest_of(const report_t *rest, const report_t *report)
{
  return rest->pid != UNKNOWN && rest->pid == report->pid && rest->library && report->library &&
         strcmp(rest->library, report->library) != 0 && has_heaps(rest) && has_heaps(report);
}

/* Only of the malloc library it is the one heap. */
static void name_malloc(const report_t *report)
{
  const json_t *heaps = json_object_get(report->text, "heaps");
  if (!report->library || strcmp(report->library, MALLOC_LIBRARY) != 0)
    return;
  for (size_t i = 0; i < json_array_size(heaps); i++) {
    json_t *heap = json_array_get(heaps, i);
    const char *name = json_string_value(json_object_get(heap, "name"));
    if (name && !strcmp(name, "default"))
      json_object_set_new(heap, "name", json_string("malloc"));
  }
}

static void extend(json_t *to, json_t *from, const char *key)
{
  if (json_object_get(from, key) && json_array_extend(json_object_get(to, key), json_object_get(from, key)) != 0)
    json_object_set(to, key, json_object_get(from, key));
}

static void add_number(json_t *to, const json_t *from, const char *key)
{
  const json_t *of = json_object_get(from, key), *before = json_object_get(to, key);
  if (json_is_integer(of) && json_integer_value(of) >= 0 && (!before || json_is_integer(before)))
    json_object_set_new(to, key, json_integer(report_sum_of(json_integer_value(before), json_integer_value(of))));
}

static void note_library(json_t *names, const report_t *report)
{
  if (report->library)
    json_array_append_new(names, json_string(report->library));
}

void report_join(report_t *report, report_t *rest)
{
  char why[256];
  const size_t line = report->line;
  const json_int_t pid = report->pid;
  json_t *names = json_incref(json_object_get(report->text, "libraries"));
  names = names ? names : json_array();
  note_library(names, report);
  note_library(names, rest);
  name_malloc(report);
  name_malloc(rest);
  extend(report->text, rest->text, "heaps");
  extend(report->text, rest->text, "object_pools");
  add_number(report->text, rest->text, "refused_system_calls");
  json_object_set_new(report->text, "libraries", names);
  json_object_del(report->text, "library");
  report_free(rest);
  json_t *text = json_incref(report->text);
  report_free(report);
  if (!take_rows(report, text, why))
    command_fail(COMMAND_FAILED, "report: %s", why);
  report->line = line;
  report->pid = pid;
}

/* What one library said when it was asked before is old where another one answers now: it may be unloaded. */
bool report_parse_live(report_t *report, const live_t *live, char why[256])
{
  bool found = false, some_answer = false;
  char why_not[256];
  report_t rest;
  for (const live_t *l = live; l; l = l->next)
    some_answer |= l->is_answered;
  for (const live_t *l = live; l; l = l->next) {
    if (!l->text || l->is_answered != some_answer || !report_parse(&rest, l->text, l->length, found ? why_not : why))
      continue;
    if (!found)
      *report = rest;
    else if (has_heaps(&rest) && has_heaps(report))
      report_join(report, &rest);
    else
      report_free(&rest);
    found = true;
  }
  return found;
}

void report_free(report_t *report)
{
  free(report->heaps);
  free(report->objects);
  json_decref(report->text);
  *report = (report_t){.text = NULL};
}

/* ---- for people ---- */

void report_print_name(const char *name, int width, FILE *to)
{
  int columns = command_print(name, to);
  fprintf(to, "%*s", columns < width ? width - columns : 0, "");
}

void report_print_bytes(json_int_t bytes, FILE *to)
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof units / sizeof *units)
    value /= 1024, unit++;
  if (bytes == UNKNOWN)
    fprintf(to, " %10s", "?");
  else
    fprintf(to, " %6.*f %-3s", unit && value < 100 ? 1 : 0, value, units[unit]);
}

static void print_limit(json_int_t bytes, FILE *to)
{
  if (bytes == 0)
    fprintf(to, " %10s", "none");
  else
    report_print_bytes(bytes, to);
}

void report_print_count(json_int_t count, FILE *to)
{
  if (count == UNKNOWN)
    fprintf(to, " %10s", "?");
  else
    fprintf(to, " %10lld", (long long)count);
}

enum { NAME_WIDTH = 24 };

static void print_heap(const row_t *row, FILE *to)
{
  report_print_name(row->name, NAME_WIDTH, to);
  static const uint8_t columns[] = {HEAP_HELD, HEAP_PEAK,     HEAP_LIVE,    HEAP_BLOCKS,  HEAP_CACHED,
                                    HEAP_FREE, HEAP_RETURNED, HEAP_RECORDS, HEAP_CHILDREN};
  print_limit(row->of[HEAP_BUDGET], to);
  for (size_t i = 0; i < sizeof columns; i++)
    (columns[i] == HEAP_BLOCKS ? report_print_count : report_print_bytes)(row->of[columns[i]], to);
  report_print_count(row->of[HEAP_EXHAUSTED], to);
  fputc('\n', to);
}

static void print_objects(const row_t *row, FILE *to)
{
  report_print_name(row->name, NAME_WIDTH, to);
  report_print_bytes(row->of[OBJECTS_SIZE], to);
  if (row->of[OBJECTS_CAPACITY] == 0)
    fprintf(to, " %10s", "no limit");
  else
    report_print_count(row->of[OBJECTS_CAPACITY], to);
  report_print_count(row->of[OBJECTS_LIVE], to);
  report_print_count(row->of[OBJECTS_ARRAYS], to);
  report_print_bytes(row->of[OBJECTS_HELD], to);
  fputs("  ", to);
  command_print(row->heap ? row->heap : "?", to);
  fputc('\n', to);
}

/* The most first; what holds as much stays as it was. */
static int by_held(const void *a, const void *b)
{
  const row_t *one = *(const row_t *const *)a, *other = *(const row_t *const *)b;
  json_int_t first = one->of[HEAP_HELD], second = other->of[HEAP_HELD];
  return first != second ? (first < second) - (first > second) : (one > other) - (one < other);
}

const row_t **report_by_held(const report_t *report)
{
  const row_t **sorted = calloc(report->heap_count + 1, sizeof *sorted);
  if (!sorted)
    return NULL;
  for (size_t i = 0; i < report->heap_count; i++)
    sorted[i] = &report->heaps[i];
  qsort(sorted, report->heap_count, sizeof *sorted, by_held);
  return sorted;
}

static void print_heaps(const report_t *report, FILE *to)
{
  const row_t **sorted = report_by_held(report);
  for (size_t i = 0; i < report->heap_count; i++)
    print_heap(sorted ? sorted[i] : &report->heaps[i], to);
  free(sorted);
}

void report_print(const report_t *report, FILE *to)
{
  row_t sum = report_sum(report);
  if (report->pid != UNKNOWN) {
    fprintf(to, "process %lld", (long long)report->pid);
    report_print_mapped(&sum, " has ", to);
    fputc('\n', to);
  }
  fprintf(to, "%-*s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s %10s\n", NAME_WIDTH, "heap", "budget", "held", "peak",
          "live", "blocks", "cached", "free", "returned", "records", "children", "exhausted");
  print_heaps(report, to);
  if (report->objects_count)
    fprintf(to, "%-*s %10s %10s %10s %10s %10s  %s\n", NAME_WIDTH, "object pool", "object", "capacity", "live", "arrays",
            "held", "heap");
  for (size_t i = 0; i < report->objects_count; i++)
    print_objects(&report->objects[i], to);
}

/* ---- for Prometheus ---- */

static void print_label(const char *text, FILE *to)
{
  for (; *text; text++) {
    if (*text == '\\' || *text == '"')
      fputc('\\', to);
    if (*text == '\n')
      fputs("\\n", to);
    else
      fputc(*text, to);
  }
}

static int by_name(const void *a, const void *b)
{
  const row_t *first = a, *second = b;
  int order = strcmp(first->name, second->name);
  return order ? order : strcmp(first->heap ? first->heap : "", second->heap ? second->heap : "");
}

/* Sorts the rows by name, and leaves one of each with the sums of their figures. */
static size_t merge(row_t *rows, size_t count, size_t figure_count)
{
  size_t merged = 0;
  qsort(rows, count, sizeof *rows, by_name);
  for (size_t i = 0; i < count; i++) {
    if (!merged || by_name(&rows[merged - 1], &rows[i]) != 0) {
      rows[merged++] = rows[i];
      continue;
    }
    for (size_t f = 0; f < figure_count; f++)
      rows[merged - 1].of[f] = report_sum_of(rows[merged - 1].of[f], rows[i].of[f]);
  }
  return merged;
}

static void print_sample(const char *kind, const char *metric, json_int_t pid, const row_t *row, json_int_t value, FILE *to)
{
  fprintf(to, "tidepool_%s_%s{", kind, metric);
  if (pid != UNKNOWN)
    fprintf(to, "pid=\"%lld\",", (long long)pid);
  fprintf(to, "%s=\"", kind);
  print_label(row->name, to);
  if (row->heap) {
    fputs("\",heap=\"", to);
    print_label(row->heap, to);
  }
  fprintf(to, "\"} %lld\n", (long long)value);
}

static void print_metric(const char *kind, const figure_t *figure, FILE *to)
{
  fprintf(to, "# HELP tidepool_%s_%s %s\n", kind, figure->metric, figure->help);
  fprintf(to, "# TYPE tidepool_%s_%s %s\n", kind, figure->metric, figure->is_counter ? "counter" : "gauge");
}

static int by_pid(const void *a, const void *b)
{
  const report_t *first = a, *second = b;
  return (first->pid > second->pid) - (first->pid < second->pid);
}

static int by_pid_and_line(const void *a, const void *b)
{
  const report_t *first = a, *second = b;
  int order = by_pid(a, b);
  return order ? order : (first->line > second->line) - (first->line < second->line);
}

static void print_rows(const char *kind, const figure_t *figures, size_t f, json_int_t pid, const row_t *rows, size_t count,
                       FILE *to)
{
  for (size_t i = 0; i < count; i++)
    if (rows[i].of[f] != UNKNOWN)
      print_sample(kind, figures[f].metric, pid, &rows[i], rows[i].of[f], to);
}

void report_print_prometheus(report_t *reports, size_t count, FILE *to)
{
  qsort(reports, count, sizeof *reports, by_pid_and_line);
  for (size_t i = 0; i < count; i++) {
    if (i + 1 < count && by_pid(&reports[i], &reports[i + 1]) == 0) /* one number twice: the later process counts */
      reports[i].heap_count = reports[i].objects_count = 0;
    reports[i].heap_count = merge(reports[i].heaps, reports[i].heap_count, HEAP_FIGURES);
    reports[i].objects_count = merge(reports[i].objects, reports[i].objects_count, OBJECTS_FIGURES);
  }
  for (size_t f = 0; f < HEAP_FIGURES; f++) {
    print_metric("heap", &heap_figures[f], to);
    for (size_t i = 0; i < count; i++)
      print_rows("heap", heap_figures, f, reports[i].pid, reports[i].heaps, reports[i].heap_count, to);
  }
  for (size_t f = 0; f < OBJECTS_FIGURES; f++) {
    print_metric("object_pool", &objects_figures[f], to);
    for (size_t i = 0; i < count; i++)
      print_rows("object_pool", objects_figures, f, reports[i].pid, reports[i].objects, reports[i].objects_count, to);
  }
}
