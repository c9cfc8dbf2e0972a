/* SPDX-License-Identifier: MIT
 *
 * tidepool report: what processes said of their memory when they ended, or what one says now. */
#include "../../record/recording.h"
#include "command.h"
#include "live.h"
#include "page/page.h"
#include "report.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum form { FORM_TABLE, FORM_JSON, FORM_PROMETHEUS, FORM_PAGE } form_t;

typedef struct reports {
  form_t form;
  const char *source; /* a file, or the number of a process */
  const char *page;   /* where it is written */
  report_t *of;
  size_t count, room;
  size_t bad; /* lines that were none */
  double age; /* of the figures of a process that does not answer, in seconds */
} reports_t;

enum { KEY_JSON = 256, KEY_PROMETHEUS, KEY_PAGE };

static const struct argp_option options[] = {
  {.name = "json", .key = KEY_JSON, .doc = "an array of the texts"},
  {.name = "prometheus", .key = KEY_PROMETHEUS, .doc = "metrics, as node_exporter reads files"},
  {.name = "html", .key = KEY_PAGE, .arg = "FILE.html", .doc = "write a page with bars of what heaps hold, and no text"},
  {0}};

static void choose(reports_t *reports, form_t form, const struct argp_state *state)
{
  if (reports->form != FORM_TABLE && reports->form != form)
    argp_error(state, "only one of --json, --prometheus and --html can be");
  reports->form = form;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  reports_t *reports = state->input;
  switch (key) {
  case KEY_JSON:
    choose(reports, FORM_JSON, state);
    return 0;
  case KEY_PROMETHEUS:
    choose(reports, FORM_PROMETHEUS, state);
    return 0;
  case KEY_PAGE:
    choose(reports, FORM_PAGE, state);
    reports->page = argument;
    return 0;
  case ARGP_KEY_ARG:
    if (reports->source)
      argp_error(state, "%s: there is a file or a process already", argument);
    reports->source = argument;
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_error(state, "a file or the number of a process is missing");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

enum { SAID_MOST = 10 };

static void say_bad(reports_t *reports, size_t line, const char *why)
{
  if (!line)
    command_say("report: process %s: %s", reports->source, why);
  else if (reports->bad < SAID_MOST)
    command_say("report: %s: line %zu: %s", reports->source, line, why);
  reports->bad++;
}

static void add(reports_t *reports, const char *text, size_t length, size_t line)
{
  char why[256] = "";
  if (reports->count == reports->room) {
    reports->room = reports->room * 2 + 8;
    reports->of = realloc(reports->of, reports->room * sizeof *reports->of);
    if (!reports->of)
      command_fail(COMMAND_FAILED, "report: no memory");
  }
  report_t *report = &reports->of[reports->count];
  if (!report_parse(report, text, length, why)) {
    say_bad(reports, line, why);
    return;
  }
  report->line = line;
  reports->count++;
}

static const report_t *sorted;

static int by_pid(const void *a, const void *b)
{
  size_t first = *(const size_t *)a, second = *(const size_t *)b;
  if (sorted[first].pid != sorted[second].pid)
    return sorted[first].pid < sorted[second].pid ? -1 : 1;
  return first < second ? -1 : 1;
}

/* A line of another library than that of the line before which has the same number of a process is of the same one. */
static void join_libraries(reports_t *reports)
{
  size_t *order = calloc(reports->count + 1, sizeof *order), kept = 0;
  if (!order)
    command_fail(COMMAND_FAILED, "report: no memory");
  for (size_t i = 0; i < reports->count; i++)
    order[i] = i;
  sorted = reports->of;
  qsort(order, reports->count, sizeof *order, by_pid);
  for (size_t i = 0; i + 1 < reports->count; i++)
    if (report_is_rest_of(&reports->of[order[i + 1]], &reports->of[order[i]])) {
      report_join(&reports->of[order[i]], &reports->of[order[i + 1]]);
      i++;
    }
  for (size_t i = 0; i < reports->count; i++)
    if (reports->of[i].text)
      reports->of[kept++] = reports->of[i];
  reports->count = kept;
  free(order);
}

/* Other files of tidepool are likely mistakes. */
static void refuse_others(const reports_t *reports, const char *first, size_t length)
{
  const char *is = length >= strlen(RECORDING_MAGIC) && !memcmp(first, RECORDING_MAGIC, strlen(RECORDING_MAGIC)) ? "a recording"
                   : !strncmp(first, "heap profile:", 13)                                                        ? "a profile"
                                                                                                                 : NULL;
  if (is)
    command_fail(1, "report: %s: it is %s, which tidepool show reads", reports->source, is);
}

/* Each process adds a line. One that is none, since the disk was full, does not take the others with it. */
static void read_lines(reports_t *reports, FILE *from)
{
  char *line = NULL;
  size_t room = 0, number = 0;
  ssize_t length;
  while ((length = getline(&line, &room, from)) >= 0) {
    if (!number++)
      refuse_others(reports, line, (size_t)length);
    if (strspn(line, " \t\r\n") < (size_t)length)
      add(reports, line, (size_t)length, number);
  }
  if (ferror(from))
    command_fail(COMMAND_FAILED, "report: %s: %s", reports->source, strerror(errno));
  join_libraries(reports);
  if (reports->bad > SAID_MOST)
    command_say("report: %s: and %zu lines more that are none", reports->source, reports->bad - SAID_MOST);
  free(line);
}

static void read_file(reports_t *reports)
{
  FILE *from = strcmp(reports->source, "-") != 0 ? fopen(reports->source, "re") : stdin;
  if (!from)
    command_fail(COMMAND_FAILED, "report: %s: %s", reports->source, strerror(errno));
  read_lines(reports, from);
  fclose(from);
}

enum { PATIENCE_MS = 2000 };

static void ask_process(reports_t *reports, pid_t pid)
{
  live_t live;
  char why[256] = "";
  if (!live_open(&live, pid, why) || !live_ask(&live, PATIENCE_MS, why))
    command_fail(1, "report: process %d: %s", (int)pid, why);
  if (why[0])
    command_say("report: process %d: of one of its libraries there are no figures: %s", (int)pid, why);
  if (live.age > 0)
    command_say("report: process %d does not answer; its figures are %.0f s old", (int)pid, live.age);
  reports->age = live.age;
  reports->of = calloc(1, sizeof *reports->of);
  if (!reports->of)
    command_fail(COMMAND_FAILED, "report: no memory");
  if (report_parse_live(reports->of, &live, why)) {
    reports->of[0].pid = pid; /* by the number that was asked for: in a namespace of its own it has another */
    reports->count = reports->room = 1;
  } else
    say_bad(reports, 0, why);
  live_close(&live);
}

static void print_json(const reports_t *reports)
{
  putchar('[');
  for (size_t i = 0; i < reports->count; i++) {
    fputs(i ? ",\n" : "", stdout);
    if (json_dumpf(reports->of[i].text, stdout, JSON_COMPACT) != 0)
      command_fail(COMMAND_FAILED, "report: cannot be written");
  }
  puts("]");
}

/* Of a file nothing says when its lines were written. */
static void write_page(const reports_t *reports)
{
  char note[128], title[64];
  pid_t pid = command_pid(reports->source);
  time_t now = time(NULL) - (time_t)reports->age;
  snprintf(title, sizeof title, "process %d", (int)pid);
  snprintf(note, sizeof note, "%zu %s, with the figures of when they were written.", reports->count,
           reports->count == 1 ? "process" : "processes");
  if (pid)
    strftime(note, sizeof note, "As of %F %T UTC.", gmtime(&now));
  FILE *to = page_create("report", reports->page);
  report_write_page(reports->of, reports->count,
                    pid                                 ? title
                    : strcmp(reports->source, "-") != 0 ? reports->source
                                                        : "report",
                    note, to);
  page_close(to, "report", reports->page);
}

static void print(const reports_t *reports)
{
  if (reports->form == FORM_JSON)
    print_json(reports);
  else if (reports->form == FORM_PROMETHEUS)
    report_print_prometheus(reports->of, reports->count, stdout);
  else if (reports->form == FORM_PAGE && reports->count)
    write_page(reports);
  for (size_t i = 0; i < reports->count && reports->form == FORM_TABLE; i++) {
    fputs(i ? "\n" : "", stdout);
    report_print(&reports->of[i], stdout);
  }
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "report: %s", strerror(errno));
}

int command_report(int count, char **arguments)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE|PID",
    .doc = "Print the figures of heaps and object pools in FILE, a line of JSON for each process, as tidepool run --stats FILE "
           "has them written; -: standard input. Or those of a process that was started with export=1, as of now.\v"
           "The exit status is 1 if a line is no report; the others are printed.",
  };
  reports_t reports = {.form = FORM_TABLE};
  argp_parse(&argp, count, arguments, 0, NULL, &reports);
  pid_t pid = command_pid(reports.source);
  if (pid)
    ask_process(&reports, pid);
  else
    read_file(&reports);
  if (!reports.count && !reports.bad)
    command_fail(1, "report: %s: nothing is in it", reports.source);
  print(&reports);
  for (size_t i = 0; i < reports.count; i++)
    report_free(&reports.of[i]);
  free(reports.of);
  return reports.bad != 0;
}
