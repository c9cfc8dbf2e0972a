/* SPDX-License-Identifier: MIT */
#include "preload.h"
#include "command.h"
#include "program.h"
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int preload_program(int key, struct argp_state *state, char ***program)
{
  if (key == ARGP_KEY_NO_ARGS)
    argp_error(state, "a program is missing");
  if (key != ARGP_KEY_ARG)
    return ARGP_ERR_UNKNOWN;
  *program = &state->argv[state->next - 1];
  state->next = state->argc;
  return 0;
}

/* ---- the libraries ---- */

/* A build has them in other folders. */
static char *built_library(const char *own, const char *name)
{
  const char *folder = !strcmp(name, PRELOAD_RECORD) ? "/../record/" : "/../../src/";
  if (!strncmp(name, PRELOAD_DEBUG_FOLDER, strlen(PRELOAD_DEBUG_FOLDER))) {
    folder = "/../../src/debug/";
    name += strlen(PRELOAD_DEBUG_FOLDER);
  }
  size_t length = strlen(own), tail = strlen("/tools/command");
  if (length < tail || strcmp(own + length - tail, "/tools/command") != 0)
    return NULL;
  return realpath(COMMAND_JOIN(own, folder, name), NULL);
}

char *preload_installed(const char *name)
{
  char own[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  if (length <= 0)
    return NULL;
  own[length] = '\0';
  *strrchr(own, '/') = '\0';
  bool is_fixed = *LIBRARIES_FROM_PROGRAM == '/';
  char *found = realpath(COMMAND_JOIN(is_fixed ? "" : own, is_fixed ? "" : "/", LIBRARIES_FROM_PROGRAM "/", name), NULL);
  return found ? found : built_library(own, name);
}

char *preload_find(const char *command, const char *name, const char *given)
{
  char *library = given ? realpath(given, NULL) : preload_installed(name);
  if (!library)
    command_fail(COMMAND_FAILED, "%s: %s is not there%s", command, given ? given : name,
                 given || !strcmp(name, PRELOAD_RECORD) ? "" : ": --library FILE says where it is");
  if (access(library, R_OK) != 0)
    command_fail(COMMAND_FAILED, "%s: %s: %s", command, library, strerror(errno));
  if (strpbrk(library, " :$"))
    command_fail(COMMAND_FAILED, "%s: %s: LD_PRELOAD can hold no path with a space, a colon or a dollar sign", command,
                 library);
  return library;
}

/* Only the debug library has these options; tests/command compares them with the library's table. Some of them find little in a
 * program that allocates from arenas of its own. */
static const struct {
  const char *key;
  preload_need_t need;
} debug_options[] = {
  {"checked=", NEEDS_DEBUG | NEEDS_BLOCKS},
  {"leaks=", NEEDS_DEBUG | NEEDS_BLOCKS},
  {"profile=", NEEDS_DEBUG | NEEDS_BLOCKS},
  {"guarded=", NEEDS_DEBUG},
  {"guard_sample=", NEEDS_DEBUG},
  {"sites=", NEEDS_DEBUG},
  {"sample_bytes=", NEEDS_DEBUG},
  {"profile_signal=", NEEDS_DEBUG},
  {"export=", NEEDS_DEBUG},
};

static preload_need_t need_of(const char *option)
{
  for (size_t i = 0; i < sizeof debug_options / sizeof *debug_options; i++) {
    size_t length = strlen(debug_options[i].key);
    if (!strncmp(option, debug_options[i].key, length))
      return strcmp(option + length, "0") != 0 && strcmp(option + length, "none") != 0 ? debug_options[i].need : NEEDS_NOTHING;
  }
  return NEEDS_NOTHING;
}

preload_need_t preload_need(void)
{
  preload_need_t need = NEEDS_NOTHING;
  const char *options = getenv("TIDEPOOL_OPTIONS");
  char *rest = NULL, *list = COMMAND_JOIN(options ? options : "");
  for (char *option = strtok_r(list, ",", &rest); option; option = strtok_r(NULL, ",", &rest))
    need |= need_of(option);
  return need;
}

/* The debug library replaces libtidepool as well, for programs that are linked with it: the loader takes a preloaded library
 * for any that has its soname, wherever the program would look for it (DT_RPATH is before LD_LIBRARY_PATH). */
preload_t preload_choose(const char *command, const char *given, preload_need_t need)
{
  bool is_debug = need & NEEDS_DEBUG && !given;
  return (preload_t){.library = preload_find(command, is_debug ? PRELOAD_DEBUG_MALLOC : PRELOAD_MALLOC, given),
                     .own = is_debug ? preload_find(command, PRELOAD_DEBUG_OWN, NULL) : NULL};
}

/* ---- the environment ---- */

void preload_set(const char *command, const char *name, const char *value)
{
  if ((*value ? setenv(name, value, 1) : unsetenv(name)) != 0)
    command_fail(COMMAND_FAILED, "%s: %s", command, strerror(errno));
}

static bool is_named(const char *path, const char *name)
{
  const char *base = strrchr(path, '/');
  return !strncmp(base ? base + 1 : path, name, strlen(name));
}

static bool is_ours(const char *path)
{
  return is_named(path, "libtidepool-malloc.so") || is_named(path, "libtidepool.so") || is_named(path, "libtidepool-record.so");
}

/* A program that breaks with the library gets what else is preloaded. */
static void remove_library(const char *command)
{
  const char *preloaded = getenv("LD_PRELOAD");
  char *left = COMMAND_JOIN(""), *rest = NULL, *list = COMMAND_JOIN(preloaded ? preloaded : "");
  for (char *path = strtok_r(list, " :", &rest); path; path = strtok_r(NULL, " :", &rest))
    if (!is_ours(path))
      left = COMMAND_JOIN(left, *left ? ":" : "", path);
  preload_set(command, "LD_PRELOAD", left);
}

/* The libraries replace those of the same names that are preloaded already, and other ones come after them. A recorder stays in
 * front: it records nothing of a library that comes before it. */
static void add_libraries(const char *command, const preload_t *libraries)
{
  const char *preloaded = getenv("LD_PRELOAD"), *before = libraries->before, *own = libraries->own;
  char *others = COMMAND_JOIN(""), *rest = NULL, *list = COMMAND_JOIN(preloaded ? preloaded : "");
  for (char *path = strtok_r(list, " :", &rest); path; path = strtok_r(NULL, " :", &rest))
    if (!before && is_named(path, "libtidepool-record.so"))
      before = path;
    else if (!is_ours(path))
      others = COMMAND_JOIN(others, ":", path);
  preload_set(
    command, "LD_PRELOAD",
    COMMAND_JOIN(before ? before : "", before ? ":" : "", libraries->library, own ? ":" : "", own ? own : "", others));
}

/* ---- CPython ---- */

/* CPython takes an empty variable for one that is not set. */
static bool is_set(const char *name)
{
  const char *value = getenv(name);
  return value && *value;
}

static bool ignores_environment(const program_t *looked, char **program)
{
  return looked->is_interpreter ? looked->ignores_environment : program_python_is_isolated(program + 1);
}

/* What the user has set stays. A version of CPython that has no names for perf(1) ignores the second variable. */
static void prepare_python(const char *command, const program_t *looked, char **program, preload_python_t wish)
{
  bool may_have_names = looked->python == PYTHON_WITH_PERF || looked->python == PYTHON_IS_UNKNOWN;
  bool names = wish == PYTHON_BLOCKS_AND_NAMES && may_have_names && !is_set("PYTHONPERFSUPPORT");
  if (looked->python == PYTHON_IS_NONE || is_set("PYTHONMALLOC"))
    return;
  if (looked->python == PYTHON_FREE_THREADED)
    command_say("%s: a free-threaded CPython keeps its own allocator, so most of its objects are not seen", command);
  else if (ignores_environment(looked, program))
    command_say("%s: CPython ignores PYTHONMALLOC with -E or -I, so most of its objects are not seen", command);
  else {
    preload_set(command, "PYTHONMALLOC", "malloc");
    if (names)
      preload_set(command, "PYTHONPERFSUPPORT", "1");
    command_say(names ? "%s: sets PYTHONMALLOC=malloc and PYTHONPERFSUPPORT=1, so that CPython's objects and functions are seen"
                      : "%s: sets PYTHONMALLOC=malloc, so that CPython's objects are seen",
                command);
  }
}

/* ---- the program ---- */

void preload_become(const char *command, const preload_t *libraries, char **program, preload_python_t python)
{
  static program_t looked;
  program_look(&looked, program[0], libraries->library);
  if (looked.breaks)
    remove_library(command);
  else
    add_libraries(command, libraries);
  if (looked.keeps)
    command_say("%s: %s keeps its own malloc: it %s%s", command, looked.path, looked.keeps, looked.detail);
  else if (python != PYTHON_AS_IT_IS)
    prepare_python(command, &looked, program, python);
  if (looked.is_elf)
    execv(looked.path, program);
  if (!looked.is_elf || errno != ENOEXEC) /* of which execvp() makes a script of the shell */
    execvp(program[0], program);
  command_fail(errno == ENOENT ? COMMAND_NOT_FOUND : COMMAND_NOT_EXECUTABLE, "%s: %s: %s", command, program[0],
               strerror(errno));
}
