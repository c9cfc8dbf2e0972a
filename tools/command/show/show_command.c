/* SPDX-License-Identifier: MIT
 *
 * tidepool show: where a program allocated what was live at its peak, at its end, and in all, by a recording; or what was in
 * use and what had been allocated, by a profile. */
#include "command.h"
#include "page/page.h"
#include "show_json.h"
#include <argp.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { SITES_USUAL = 20, KEY_HEAP = 256, KEY_AT, KEY_LINES, KEY_JSON };

typedef struct arguments {
  const char *path, *page;
  bool json;
  part_t part;
  size_t sites;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "output",
   .key = 'o',
   .arg = "FILE.html",
   .doc = "write a page with a flame graph, and of a recording a timeline, and no text"},
  {.name = "json", .key = KEY_JSON, .doc = "print the figures of all places for scripts"},
  {.name = "heap", .key = KEY_HEAP, .arg = "NAME", .doc = "of the heaps and object pools of that name alone (of all)"},
  {.name = "at", .key = KEY_AT, .arg = "SECONDS", .doc = "of a recording what had been done by then (all)"},
  {.name = "lines",
   .key = KEY_LINES,
   .doc = "say of each call in which line of which file it is, where the program was compiled with -g"},
  {.name = "number", .key = 'n', .arg = "NUMBER", .doc = "print so many places of each kind (20)"},
  {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case 'o':
    to->page = argument;
    return 0;
  case KEY_HEAP:
    to->part.heap = argument;
    return 0;
  case KEY_AT:
    to->part.until_ns = command_seconds(state, "at", argument);
    return 0;
  case KEY_JSON:
    to->json = true;
    return 0;
  case KEY_LINES:
    to->part.with_lines = true;
    return 0;
  case 'n':
    to->sites = command_number(state, "number", argument, 0, UINT32_MAX);
    return 0;
  case ARGP_KEY_END:
    if (to->json && to->page)
      argp_error(state, "only one of --json and --output can be");
    return 0;
  default:
    return command_file(key, argument, state, &to->path);
  }
}

/* A process that frees its memory before its end has little in use in the profile that it writes then. */
static void say_where_peak_is(const show_t *show, const char *path)
{
  const char *peak = COMMAND_JOIN(path, ".peak");
  struct stat about;
  if (show->is_profile && lstat(peak, &about) == 0 && S_ISREG(about.st_mode))
    command_say("show: more was in use before the end: %s is the profile of that", peak);
}

int command_show(int count, char **given)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE",
    .doc = "Show where a program allocated, by FILE: a recording of tidepool record, with what was live at its peak and at its "
           "end and with all, or a profile of tidepool run --profile, with what was in use and all. Functions have names where "
           "addr2line finds them.\v"
           "The exit status is 1 if FILE is no recording and no profile.",
  };
  arguments_t arguments = {.sites = SITES_USUAL, .part = {.until_ns = UINT64_MAX}};
  show_t show;
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  show_read(&show, "show", arguments.path, &arguments.part);
  if (arguments.page) {
    FILE *page = page_create("show", arguments.page);
    show_write_page(&show, page);
    page_close(page, "show", arguments.page);
  } else if (arguments.json)
    show_write_json(&show, stdout);
  else
    show_print(&show, stdout, arguments.sites);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "show: %s", strerror(errno));
  say_where_peak_is(&show, arguments.path);
  show_free(&show);
  return 0;
}
