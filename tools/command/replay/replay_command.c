/* SPDX-License-Identifier: MIT
 *
 * tidepool replay: what a recording says, and what other allocators make of it. */
#include "command.h"
#include "replay.h"
#include "worker.h"
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS_USUAL = 3, RUNS_MOST = 1000 };
enum { KEY_WITH = 256, KEY_RUNS, KEY_JSON, KEY_CHECK, KEY_WORKER };

typedef struct arguments {
  replay_t replay;
  bool json, check;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "with",
   .key = KEY_WITH,
   .arg = "NAME|FILE,...",
   .doc = "tidepool, glibc, jemalloc, mimalloc, tcmalloc, or the path of a library (tidepool)"},
  {.name = "runs", .key = KEY_RUNS, .arg = "NUMBER", .doc = "with each allocator (3)"},
  {.name = "json", .key = KEY_JSON, .doc = "the same, and each run, for scripts"},
  {.name = "check", .key = KEY_CHECK, .doc = "only print what is in the recording"},
  {.name = "worker", .key = KEY_WORKER, .arg = "NUMBER", .flags = OPTION_HIDDEN},
  {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case KEY_WITH:
    replay_add(&to->replay, argument);
    return 0;
  case KEY_RUNS:
    to->replay.runs = (unsigned)command_number(state, "runs", argument, 1, RUNS_MOST);
    return 0;
  case KEY_JSON:
    to->json = true;
    return 0;
  case KEY_CHECK:
    to->check = true;
    return 0;
  case KEY_WORKER:
    worker_run(atoi(argument));
  default:
    return command_file(key, argument, state, &to->replay.path);
  }
}

static recording_t *open_recording(const char *path)
{
  char why[256] = "";
  recording_t *recording = recording_open(path, why);
  if (!recording)
    command_fail(1, "replay: %s: %s", path, why);
  return recording;
}

/* What was read is of use all the same. */
static void say_what_lacks(replay_t *replay, const recording_t *recording)
{
  char lacks[256];
  replay->facts = *recording_facts(recording);
  if (recording_lacks(&replay->facts, lacks))
    command_say("replay: %s: %s", replay->path, lacks);
}

static void read_all(replay_t *replay, recording_t *recording)
{
  event_t event;
  while (recording_next(recording, &event))
    continue;
  if (recording_error(recording))
    command_fail(COMMAND_FAILED, "replay: %s: %s", replay->path, recording_error(recording));
  say_what_lacks(replay, recording);
}

static void make_plan(replay_t *replay, recording_t *recording)
{
  char why[256] = "";
  replay->file = plan_make(recording, why);
  if (replay->file < 0)
    command_fail(1, "replay: %s: %s", replay->path, why);
  say_what_lacks(replay, recording);
  replay_check_memory("replay", replay->path, replay->facts.peak_bytes);
  replay->plan = plan_map(replay->file);
  if (!replay->plan || fcntl(replay->file, F_SETFD, 0) != 0)
    command_fail(COMMAND_FAILED, "replay: no memory");
}

static bool replay_all(replay_t *replay, recording_t *recording)
{
  make_plan(replay, recording);
  if (!replay->count)
    replay_add(replay, "tidepool");
  replay_find(replay);
  return replay_run(replay);
}

static bool is_exact(const replay_t *replay)
{
  for (size_t i = 0; i < replay->count; i++)
    if (!replay->allocators[i].is_exact)
      return false;
  return true;
}

static void print(const arguments_t *arguments)
{
  if (arguments->check)
    (arguments->json ? replay_print_facts_json : replay_print_facts)(&arguments->replay, stdout);
  else
    (arguments->json ? replay_print_json : replay_print)(&arguments->replay, stdout);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "replay: %s", strerror(errno));
}

int command_replay(int count, char **given)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE",
    .doc = "Do what a program did with its malloc, as tidepool record has written it to FILE, on one allocator or several, and "
           "print the time and the memory that each takes.\v"
           "The exit status is 1 if FILE is no recording, or one of them could not do all of it.",
  };
  arguments_t arguments = {.replay = {.runs = RUNS_USUAL}};
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  replay_t *replay = &arguments.replay;
  recording_t *recording = open_recording(replay->path);
  bool done = true;
  if (arguments.check)
    read_all(replay, recording);
  else
    done = replay_all(replay, recording);
  if (done)
    print(&arguments);
  done = done && is_exact(replay);
  recording_close(recording);
  return !done;
}
