/* SPDX-License-Identifier: MIT
 *
 * tidepool map: where the memory of a process is, or of a recording at a moment, and what of it is live. */
#include "command.h"
#include "map_print.h"
#include "page/page.h"
#include "start/preload.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_AT = 256, KEY_JSON, KEY_LIBRARY };
#define SECONDS_MOST 1e9

typedef struct arguments {
  const char *of, *page, *library;
  uint64_t at;
  bool json, has_moment;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "output", .key = 'o', .arg = "FILE.html", .doc = "write a page with a picture, and no text"},
  {.name = "at",
   .key = KEY_AT,
   .arg = "SECONDS|peak|end",
   .doc = "which moment of a recording: so long after its beginning, when the most was live, or at its end (peak)"},
  {.name = "json", .key = KEY_JSON, .doc = "the figures, for scripts"},
  {.name = "library", .key = KEY_LIBRARY, .arg = "FILE", .doc = "the malloc library on which a recording is done again"},
  {0}};

static uint64_t moment(struct argp_state *state, const char *text)
{
  char *end;
  double seconds = strtod(text, &end);
  if (!strcmp(text, "peak"))
    return MAP_AT_PEAK;
  if (!strcmp(text, "end"))
    return MAP_AT_END;
  if (end == text || *end || !(seconds >= 0 && seconds <= SECONDS_MOST))
    argp_error(state, "--at=%s: neither peak nor end, nor a number of seconds", text);
  return (uint64_t)(seconds * 1e9);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case 'o':
    to->page = argument;
    return 0;
  case KEY_AT:
    to->at = moment(state, argument);
    to->has_moment = true;
    return 0;
  case KEY_JSON:
    to->json = true;
    return 0;
  case KEY_LIBRARY:
    to->library = argument;
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_error(state, "a file or the number of a process is missing");
    return 0;
  case ARGP_KEY_END:
    if (to->has_moment && to->of && command_pid(to->of))
      argp_error(state, "--at is for a recording: a process is mapped as it is now");
    return 0;
  default:
    return command_file(key, argument, state, &to->of);
  }
}

static void write_page(const map_t *map, const map_source_t *source, const char *path)
{
  FILE *to = page_create("map", path);
  map_write_page(map, source, to);
  page_close(to, "map", path);
}

static void read_it(const arguments_t *arguments, map_t *map, map_source_t *source)
{
  pid_t pid = command_pid(arguments->of);
  char why[256] = "";
  if (!pid) {
    map_recording(map, source, arguments->of, preload_find("map", PRELOAD_DEBUG_MALLOC, arguments->library), arguments->at);
    return;
  }
  source->title = map_process_name(pid);
  if (!map_process(map, &source->callers, pid, why))
    command_fail(1, "map: process %d: %s", (int)pid, why);
}

int command_map(int count, char **given)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PID|FILE",
    .doc =
      "Show where the memory of a process is, by arenas, slabs and blocks, and what of it is live, cached and free: of one "
      "that was started with export=1, as of now, or of a recording that tidepool record has written, when the most was "
      "live.\v"
      "The exit status is 1 if the process cannot be looked at, or FILE is no recording.",
  };
  arguments_t arguments = {.at = MAP_AT_PEAK};
  map_source_t source = {.seconds = -1};
  map_t map;
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  read_it(&arguments, &map, &source);
  if (arguments.page)
    write_page(&map, &source, arguments.page);
  else
    (arguments.json ? map_print_json : map_print)(&map, &source, stdout);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "map: %s", strerror(errno));
  map_free(&map);
  callers_free(&source.callers);
  free(source.title);
  return 0;
}
