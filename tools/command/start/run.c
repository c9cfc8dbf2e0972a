/* SPDX-License-Identifier: MIT
 *
 * tidepool run: becomes the program, with the malloc library preloaded, or the debug library if an option needs it. */
#include "command.h"
#include "preload.h"
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>
#include <unistd.h>

typedef struct run {
  const char *library; /* NULL: the one that was installed with this program */
  char *options;       /* for TIDEPOOL_OPTIONS, each with a comma behind it */
  char **program;
  bool leaks, has_sites;
} run_t;

enum { KEY_STATS = 256, KEY_PROFILE, KEY_CHECKED, KEY_GUARDED, KEY_LEAKS, KEY_LIBRARY };

static const struct argp_option options[] = {
  {.name = "stats",
   .key = KEY_STATS,
   .arg = "FILE",
   .doc = "add the figures of all heaps to FILE when a process ends: %p is its pid"},
  {.name = "profile",
   .key = KEY_PROFILE,
   .arg = "FILE",
   .doc = "write to FILE where memory was allocated, when a process ends: %p is its pid"},
  {.name = "checked", .key = KEY_CHECKED, .doc = "fill and check every block of all heaps and object pools"},
  {.name = "guarded", .key = KEY_GUARDED, .doc = "end every block at an inaccessible page"},
  {.name = "leaks", .key = KEY_LEAKS, .doc = "say at exit() which blocks are lost, and by which functions (sites=8)"},
  {.name = "option", .key = 'o', .arg = "KEY=VALUE", .doc = "any option of the library; help has it print them"},
  {.name = "library", .key = KEY_LIBRARY, .arg = "FILE", .doc = "preload this build of libtidepool-malloc"},
  {0}};

/* The library would complain of a wrong option once the program runs. The one in this program has the same table, and nothing
 * else here uses its options. */
static void check_option(struct argp_state *state, const char *option)
{
  size_t length = strcspn(option, "=");
  char *key = strndup(option, length);
  if (!key)
    command_fail(COMMAND_FAILED, "no memory");
  bool is_word = !option[length] && (!strcmp(key, "help") || !strcmp(key, "version"));
  if (!is_word && !pool_option_set(key, option[length] ? option + length + 1 : ""))
    argp_error(state, "%s: %s", option, pool_error());
  free(key);
}

/* A comma ends an option of the library, which knows no escape for it. */
static void add_option(run_t *run, struct argp_state *state, const char *option)
{
  if (strchr(option, ','))
    argp_error(state, "%s: an option cannot contain a comma", option);
  check_option(state, option);
  run->options = COMMAND_JOIN(run->options ? run->options : "", option, ",");
}

/* The program may go to another folder before it ends. */
static void add_file(run_t *run, struct argp_state *state, const char *key, const char *file)
{
  char folder[PATH_MAX] = "", marked[2 * PATH_MAX];
  if (*file != '/' && !getcwd(folder, sizeof folder))
    argp_failure(state, COMMAND_FAILED, errno, "the folder of %s", file);
  command_mark_percent(marked, folder);
  const char *path = *file == '/' ? file : COMMAND_JOIN(marked, "/", file);
  if (!*file || strlen(path) > 255)
    argp_error(state, "%s: the name of a file has 1 to 255 bytes, with its folders", path);
  add_option(run, state, COMMAND_JOIN(key, path));
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  run_t *run = state->input;
  switch (key) {
  case KEY_STATS:
    add_file(run, state, "stats=exit:", argument);
    return 0;
  case KEY_PROFILE:
    add_file(run, state, "profile=", argument);
    return 0;
  case KEY_CHECKED:
    add_option(run, state, "checked=all");
    return 0;
  case KEY_GUARDED:
    add_option(run, state, "guarded=all");
    return 0;
  case KEY_LEAKS:
    add_option(run, state, "leaks=all");
    run->leaks = true;
    return 0;
  case 'o':
    run->has_sites |= !strncmp(argument, "sites=", strlen("sites="));
    add_option(run, state, argument);
    return 0;
  case KEY_LIBRARY:
    run->library = argument;
    return 0;
  default:
    return preload_program(key, state, &run->program);
  }
}

/* Options that are set are kept but for those that are given here. Without any the variable stays as it is. */
static void set_options(char *given)
{
  const char *set = getenv("TIDEPOOL_OPTIONS");
  bool more = set && *set;
  if (!given)
    return;
  given[strlen(given) - 1] = '\0';
  preload_set("run", "TIDEPOOL_OPTIONS", COMMAND_JOIN(more ? set : "", more ? "," : "", given));
}

int command_run(int count, char **arguments)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[--] PROGRAM [ARGUMENT...]",
    .doc = "Run PROGRAM with tidepool as its malloc, and all that it starts. A line says so if PROGRAM keeps its own.\v"
           "The exit status is that of PROGRAM, or 125: tidepool failed, 126: PROGRAM cannot be run, 127: it is not found.",
  };
  run_t run = {.library = NULL};
  argp_parse(&argp, count, arguments, ARGP_IN_ORDER, NULL, &run);
  if (run.leaks && !run.has_sites) /* what many functions call says little */
    run.options = COMMAND_JOIN(run.options, "sites=8,");
  set_options(run.options);
  preload_need_t need = preload_need();
  preload_t libraries = preload_choose("run", run.library, need);
  preload_become("run", &libraries, run.program, need & NEEDS_BLOCKS ? PYTHON_BLOCKS : PYTHON_AS_IT_IS);
}
