/* SPDX-License-Identifier: MIT */
#include "replay.h"
#include "command.h"
#include "start/preload.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIBRARIES_MOST = 3 };

/* What the loader finds by itself. tcmalloc without a profiler comes first: the other one is the same with more in it. */
static const struct {
  const char *name, *libraries[LIBRARIES_MOST];
} known[] = {
  {"tidepool", {NULL}},
  {"glibc", {NULL}},
  {"jemalloc", {"libjemalloc.so.2", "libjemalloc.so.1"}},
  {"mimalloc", {"libmimalloc.so.2", "libmimalloc.so.3", "libmimalloc.so"}},
  {"tcmalloc", {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}},
};

/* ---- a process ---- */

static void reset(plan_t *plan, bool is_probe)
{
  plan->result = (result_t){.is_done = 0};
  plan->is_probe = is_probe;
}

pid_t replay_start(int file, const char *command, const char *preload, bool is_silent)
{
  static char name[] = "tidepool", replay[] = "replay", last[] = "-";
  char option[64];
  char *arguments[] = {name, replay, option, last, NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid;
  snprintf(option, sizeof option, "--worker=%d", file);
  preload_set(command, "LD_PRELOAD", preload);
  posix_spawn_file_actions_init(&actions);
  if (is_silent)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  errno = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return errno ? 0 : pid;
}

/* Returns how the process ended. What is preloaded is not there says the loader, and a probe nothing. */
static int run_worker(const replay_t *replay, const char *preload, bool is_probe)
{
  int status = 0;
  reset(replay->plan, is_probe);
  pid_t pid = replay_start(replay->file, "replay", preload, is_probe);
  if (!pid)
    command_fail(COMMAND_FAILED, "replay: %s", strerror(errno));
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  return status;
}

/* ---- memory ---- */

/* What processes can have without that others are swapped out, or killed. */
static unsigned long long available_memory(void)
{
  char line[128];
  unsigned long long kilobytes = 0;
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && !kilobytes && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %llu", &kilobytes) != 1)
      kilobytes = 0;
  if (file)
    fclose(file);
  return kilobytes ? kilobytes * 1024 : (unsigned long long)sysconf(_SC_PHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE);
}

void replay_check_memory(const char *command, const char *path, uint64_t peak_bytes)
{
  unsigned long long available = available_memory();
  if (peak_bytes >= available)
    command_fail(1, "%s: %s: %llu bytes are live at the peak, and this machine has %llu", command, path,
                 (unsigned long long)peak_bytes, available);
}

/* ---- allocators ---- */

static void add(replay_t *replay, const char *name)
{
  allocator_t *more = realloc(replay->allocators, (replay->count + 1) * sizeof *more);
  if (!more)
    command_fail(COMMAND_FAILED, "replay: no memory");
  replay->allocators = more;
  replay->allocators[replay->count++] = (allocator_t){.name = name, .is_exact = true};
}

void replay_add(replay_t *replay, const char *list)
{
  char *rest = NULL, *names = COMMAND_JOIN(list);
  for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
    add(replay, name);
}

static void find_file(allocator_t *allocator, const char *path)
{
  if (!realpath(path, allocator->preload))
    command_fail(COMMAND_FAILED, "replay: %s: %s", path, strerror(errno));
  if (strpbrk(allocator->preload, " :$"))
    command_fail(COMMAND_FAILED, "replay: %s: LD_PRELOAD can hold no path with a space, a colon or a dollar sign",
                 allocator->preload);
}

/* Whether the malloc of a process with that is not the C library's. */
static bool probe(const replay_t *replay, allocator_t *allocator, const char *c_library)
{
  bool ran = run_worker(replay, allocator->preload, true) == 0;
  snprintf(allocator->library, sizeof allocator->library, "%s", replay->plan->result.library);
  return ran && *allocator->library && strcmp(allocator->library, c_library) != 0;
}

static void find_known(const replay_t *replay, allocator_t *allocator, size_t kind, const char *c_library)
{
  for (size_t i = 0; i < LIBRARIES_MOST && known[kind].libraries[i]; i++) {
    snprintf(allocator->preload, sizeof allocator->preload, "%s", known[kind].libraries[i]);
    if (probe(replay, allocator, c_library))
      return;
  }
  command_fail(COMMAND_FAILED, "replay: %s is not there: the loader finds no %s", allocator->name, known[kind].libraries[0]);
}

static void find(const replay_t *replay, allocator_t *allocator, const char *c_library)
{
  bool is_path = strchr(allocator->name, '/') != NULL;
  size_t kind = 0, count = sizeof known / sizeof *known;
  while (!is_path && kind < count && strcmp(known[kind].name, allocator->name) != 0)
    kind++;
  if (kind == count)
    command_fail(COMMAND_FAILED,
                 "replay: %s is none of tidepool, glibc, jemalloc, mimalloc and tcmalloc, and has no / as a path",
                 allocator->name);
  if (!is_path && known[kind].libraries[0]) {
    find_known(replay, allocator, kind, c_library);
    return;
  }
  if (!is_path && !strcmp(allocator->name, "glibc")) {
    snprintf(allocator->library, sizeof allocator->library, "%s", c_library);
    return;
  }
  const char *path = is_path ? allocator->name : preload_installed(PRELOAD_MALLOC);
  if (!path)
    command_fail(COMMAND_FAILED, "replay: %s is not there: --with FILE says where it is", PRELOAD_MALLOC);
  find_file(allocator, path);
  if (!probe(replay, allocator, c_library))
    command_fail(COMMAND_FAILED, "replay: %s is no malloc that can be preloaded", allocator->preload);
}

void replay_find(replay_t *replay)
{
  char c_library[PATH_MAX];
  if (run_worker(replay, "", true) != 0)
    command_fail(COMMAND_FAILED, "replay: a process cannot be started again");
  snprintf(c_library, sizeof c_library, "%s", replay->plan->result.library);
  for (size_t i = 0; i < replay->count; i++)
    find(replay, &replay->allocators[i], c_library);
}

/* ---- runs ---- */

static bool run(const replay_t *replay, allocator_t *allocator, result_t *result)
{
  int status = run_worker(replay, allocator->preload, false);
  *result = replay->plan->result;
  if (result->is_done && !strcmp(result->library, allocator->library))
    return true;
  if (WIFSIGNALED(status))
    command_say("replay: %s: signal %d ended it: %s", allocator->name, WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    command_say("replay: %s: %s", allocator->name, *result->why ? result->why : "it ended early");
  return false;
}

static int compare(const void *one, const void *other)
{
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return a < b ? -1 : a > b;
}

static void take_median(const replay_t *replay, allocator_t *allocator, figure_t figure, uint64_t *sorted)
{
  for (unsigned i = 0; i < replay->runs; i++)
    sorted[i] = allocator->results[i].of[figure];
  qsort(sorted, replay->runs, sizeof *sorted, compare);
  allocator->of[figure] = sorted[(replay->runs - 1) / 2] / 2 + sorted[replay->runs / 2] / 2;
  if (replay->runs % 2)
    allocator->of[figure] = sorted[replay->runs / 2];
}

static bool is_exact(const plan_t *plan, const result_t *result)
{
  return !result->of[FIGURE_FAILED] && result->of[FIGURE_END_BYTES] == plan->end_bytes &&
         result->of[FIGURE_END_BLOCKS] == plan->end_blocks && result->of[FIGURE_PEAK_BYTES] == plan->peak_bytes;
}

static void summarize(const replay_t *replay, allocator_t *allocator)
{
  uint64_t *sorted = calloc(replay->runs, sizeof *sorted);
  if (!sorted)
    command_fail(COMMAND_FAILED, "replay: no memory");
  for (figure_t figure = 0; figure < FIGURES; figure++)
    take_median(replay, allocator, figure, sorted);
  for (unsigned i = 0; i < replay->runs; i++)
    allocator->is_exact &= is_exact(replay->plan, &allocator->results[i]);
  free(sorted);
}

bool replay_run(replay_t *replay)
{
  for (size_t i = 0; i < replay->count; i++) {
    replay->allocators[i].results = calloc(replay->runs, sizeof(result_t));
    if (!replay->allocators[i].results)
      command_fail(COMMAND_FAILED, "replay: no memory");
  }
  for (unsigned number = 0; number < replay->runs; number++)
    for (size_t i = 0; i < replay->count; i++)
      if (!run(replay, &replay->allocators[i], &replay->allocators[i].results[number]))
        return false;
  for (size_t i = 0; i < replay->count; i++)
    summarize(replay, &replay->allocators[i]);
  return true;
}
