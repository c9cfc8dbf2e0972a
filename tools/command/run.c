/* SPDX-License-Identifier: MIT
 *
 * tidepool run: becomes the program, with the malloc library preloaded. */
#include "command.h"
#include "program.h"
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run {
  const char *library; /* NULL: the one that was installed with this program */
  char *options;       /* for TIDEPOOL_OPTIONS, each with a comma behind it */
  char **program;
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
  {.name = "leaks", .key = KEY_LEAKS, .doc = "say at exit which blocks are lost"},
  {.name = "option", .key = 'o', .arg = "KEY=VALUE", .doc = "any option of the library; help has it print them"},
  {.name = "library", .key = KEY_LIBRARY, .arg = "FILE", .doc = "preload this build of libtidepool-malloc"},
  {0}};

/* A comma ends an option of the library, and it knows no escape. */
static void add_option(run_t *run, struct argp_state *state, const char *option)
{
  if (strchr(option, ','))
    argp_error(state, "%s: an option can hold no comma", option);
  run->options = COMMAND_JOIN(run->options ? run->options : "", option, ",");
}

/* The program may go to another folder before it ends. */
static void add_file(run_t *run, struct argp_state *state, const char *key, const char *file)
{
  char folder[PATH_MAX] = "";
  if (*file != '/' && !getcwd(folder, sizeof folder))
    argp_failure(state, COMMAND_FAILED, errno, "the folder of %s", file);
  const char *path = *file == '/' ? file : COMMAND_JOIN(folder, "/", file);
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
    return 0;
  case 'o':
    add_option(run, state, argument);
    return 0;
  case KEY_LIBRARY:
    run->library = argument;
    return 0;
  case ARGP_KEY_ARG:
    run->program = &state->argv[state->next - 1];
    state->next = state->argc;
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_error(state, "a program is missing");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* In the folder of libraries beside this program's, as both were installed, or in the folder of a build. */
static char *installed_library(void)
{
  char own[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  if (length <= 0)
    return NULL;
  own[length] = '\0';
  *strrchr(own, '/') = '\0';
  bool is_fixed = *LIBRARIES_FROM_PROGRAM == '/';
  const char *const places[] = {COMMAND_JOIN(is_fixed ? "" : own, is_fixed ? "" : "/", LIBRARIES_FROM_PROGRAM "/" LIBRARY_NAME),
                                COMMAND_JOIN(own, "/../../src/" LIBRARY_NAME)};
  bool is_built = length > (ssize_t)sizeof "/tools/command" && strstr(own, "/tools/command");
  for (size_t i = 0; i < 1u + is_built; i++) {
    char *found = realpath(places[i], NULL);
    if (found)
      return found;
  }
  return NULL;
}

/* The loader goes on without what it cannot find, so this is found before. */
static char *library_of(const run_t *run)
{
  char *library = run->library ? realpath(run->library, NULL) : installed_library();
  if (!library)
    command_fail(COMMAND_FAILED, "run: %s is not there%s", run->library ? run->library : LIBRARY_NAME,
                 run->library ? "" : ": --library FILE says where it is");
  if (access(library, R_OK) != 0)
    command_fail(COMMAND_FAILED, "run: %s: %s", library, strerror(errno));
  if (strpbrk(library, " :$"))
    command_fail(COMMAND_FAILED, "run: %s: LD_PRELOAD can hold no path with a space, a colon or a dollar sign", library);
  return library;
}

/* A program that breaks with the library gets what else is preloaded. */
static void remove_library(void)
{
  const char *preloaded = getenv("LD_PRELOAD");
  char *left = COMMAND_JOIN(""), *rest = NULL, *list = COMMAND_JOIN(preloaded ? preloaded : "");
  for (char *path = strtok_r(list, " :", &rest); path; path = strtok_r(NULL, " :", &rest)) {
    const char *base = strrchr(path, '/');
    if (strncmp(base ? base + 1 : path, "libtidepool-malloc.so", strlen("libtidepool-malloc.so")) != 0)
      left = COMMAND_JOIN(left, *left ? ":" : "", path);
  }
  if ((*left ? setenv("LD_PRELOAD", left, 1) : unsetenv("LD_PRELOAD")) != 0)
    command_fail(COMMAND_FAILED, "run: %s", strerror(errno));
}

/* What is preloaded already comes after the library, and options that are set are kept but for those that are given here. */
static void set_environment(const run_t *run, const char *library)
{
  const char *preloaded = getenv("LD_PRELOAD"), *set = getenv("TIDEPOOL_OPTIONS");
  bool others = preloaded && *preloaded, more = set && *set;
  char *list = COMMAND_JOIN(library, others ? ":" : "", others ? preloaded : "");
  char *all = COMMAND_JOIN(more ? set : "", more && run->options ? "," : "", run->options ? run->options : "");
  if (run->options)
    all[strlen(all) - 1] = '\0';
  if (setenv("LD_PRELOAD", list, 1) != 0 || (*all && setenv("TIDEPOOL_OPTIONS", all, 1) != 0))
    command_fail(COMMAND_FAILED, "run: %s", strerror(errno));
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
  program_t program;
  const char *library = library_of(&run);
  program_look(&program, run.program[0], library);
  if (program.breaks)
    remove_library();
  else
    set_environment(&run, library);
  if (program.keeps)
    command_say("run: %s keeps its own malloc: it %s%s", program.path, program.keeps, program.detail);
  if (program.is_elf)
    execv(program.path, run.program);
  if (!program.is_elf || errno != ENOEXEC) /* of which execvp() makes a script of the shell */
    execvp(run.program[0], run.program);
  command_fail(errno == ENOENT ? COMMAND_NOT_FOUND : COMMAND_NOT_EXECUTABLE, "run: %s: %s", run.program[0], strerror(errno));
}
