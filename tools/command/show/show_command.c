/* SPDX-License-Identifier: MIT
 *
 * tidepool show: where a recorded program allocated what was live at its peak, at its end, and in all. */
#include "command.h"
#include "show.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SITES_USUAL = 20 };

typedef struct arguments {
  const char *path, *page;
  size_t sites;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "output", .key = 'o', .arg = "FILE.html", .doc = "write a page with a flame graph and a timeline, and no text"},
  {.name = "number", .key = 'n', .arg = "NUMBER", .doc = "print so many places of each kind (20)"},
  {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case 'o':
    to->page = argument;
    return 0;
  case 'n':
    to->sites = command_number(state, "number", argument, 0, UINT32_MAX);
    return 0;
  default:
    return command_file(key, argument, state, &to->path);
  }
}

static void write_page(const show_t *show, const char *path)
{
  FILE *to = fopen(path, "we");
  if (!to)
    command_fail(COMMAND_FAILED, "show: %s: %s", path, strerror(errno));
  show_write_page(show, to);
  bool failed = ferror(to);
  if (fclose(to) != 0 || failed)
    command_fail(COMMAND_FAILED, "show: %s: %s", path, strerror(errno ? errno : EIO));
}

int command_show(int count, char **given)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE",
    .doc =
      "Show where a program allocated what was live at its peak, what was live at its end, and most, as tidepool record has "
      "written it to FILE. Functions have names where addr2line finds them.\v"
      "The exit status is 1 if FILE is no recording.",
  };
  arguments_t arguments = {.sites = SITES_USUAL};
  show_t show = {.path = NULL};
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  trace_read(&show.trace, "show", arguments.path, callers_visit, &show.callers);
  callers_name(&show.callers, show.trace.facts.head.started_ns, "show");
  show_sum(&show);
  if (arguments.page)
    write_page(&show, arguments.page);
  else
    show_print(&show, stdout, arguments.sites);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "show: %s", strerror(errno));
  free(show.sites);
  callers_free(&show.callers);
  trace_free(&show.trace);
  return 0;
}
