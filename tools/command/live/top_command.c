/* SPDX-License-Identifier: MIT
 *
 * tidepool top: the heaps of processes while they run. */
#include "command.h"
#include "top.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct arguments {
  top_t top;
  double delay;
  long count; /* of tables; 0: no end */
  bool batch;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "delay", .key = 'd', .arg = "SECONDS", .doc = "between two looks (1)"},
  {.name = "count", .key = 'n', .arg = "NUMBER", .doc = "end after so many looks"},
  {.name = "sort", .key = 's', .arg = "KEY", .doc = "by held, change, live, blocks, exhausted or name (held)"},
  {.name = "batch", .key = 'b', .doc = "print one table after the other, as where the output is no terminal"},
  {0}};

static void parse_delay(arguments_t *to, const char *text, struct argp_state *state)
{
  char *end;
  to->delay = strtod(text, &end);
  if (end == text || *end || !(to->delay >= 0.1 && to->delay <= 86400))
    argp_error(state, "--delay=%s: no number of seconds from 0.1 to 86400", text);
}

static void parse_count(arguments_t *to, const char *text, struct argp_state *state)
{
  char *end;
  errno = 0;
  to->count = strtol(text, &end, 10);
  if (end == text || *end || errno || to->count < 1)
    argp_error(state, "--count=%s: no number from 1 on", text);
}

static void parse_key(arguments_t *to, const char *text, struct argp_state *state)
{
  for (to->top.key = 0; to->top.key < TOP_KEYS; to->top.key++)
    if (!strcmp(text, top_keys[to->top.key]))
      return;
  argp_error(state, "--sort=%s: none of held, change, live, blocks, exhausted and name", text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case 'd':
    parse_delay(to, argument, state);
    return 0;
  case 'n':
    parse_count(to, argument, state);
    return 0;
  case 's':
    parse_key(to, argument, state);
    return 0;
  case 'b':
    to->batch = true;
    return 0;
  case ARGP_KEY_ARG:
    if (to->top.pid)
      argp_error(state, "%s: there is a process already", argument);
    to->top.pid = command_pid(argument);
    if (!to->top.pid)
      argp_error(state, "%s: no number of a process", argument);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static void wait_for_next(double seconds)
{
  struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR)
    continue;
}

/* Tables have an empty line between them. */
static bool print_tables(arguments_t *arguments)
{
  for (long i = 0; !arguments->count || i < arguments->count; i++) {
    if (i)
      wait_for_next(arguments->delay);
    if (!top_look(&arguments->top))
      return false;
    fputs(i ? "\n" : "", stdout);
    top_print(&arguments->top, stdout);
    if (fflush(stdout) != 0)
      command_fail(COMMAND_FAILED, "top: %s", strerror(errno));
  }
  return true;
}

static bool show(arguments_t *arguments)
{
#ifdef WITH_SCREEN
  if (!arguments->batch && !arguments->count && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) &&
      top_on_screen(&arguments->top, arguments->delay))
    return !arguments->top.why[0];
#endif
  return print_tables(arguments);
}

int command_top(int count, char **arguments)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[PID]",
    .doc =
      "Show what the heaps and object pools of a process hold, again and again, while it runs on with export=1; without PID "
      "all such processes.\v"
      "Keys: q ends, h c l b e n sort by held, change, live, blocks, exhausted and name, the arrows move.\n"
      "The exit status is 1 if the process cannot be looked at, or has ended.",
  };
  arguments_t parsed = {.delay = 1};
  argp_parse(&argp, count, arguments, 0, NULL, &parsed);
  bool done = show(&parsed);
  if (!done)
    command_say("top: process %d: %s", (int)parsed.top.pid, parsed.top.why);
  top_end(&parsed.top);
  return !done;
}
