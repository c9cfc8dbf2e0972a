/* SPDX-License-Identifier: MIT
 *
 * tidepool record: becomes the program, and each call of its malloc is written to a file. */
#include "../../record/claim.h"
#include "../../record/recording.h"
#include "command.h"
#include "preload.h"
#include "program.h"
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRAMES_USUAL = 16 };

typedef struct record {
  const char *library, *file;
  long frames;
  char **program;
} record_t;

enum { KEY_FRAMES = 256, KEY_LIBRARY };

static const struct argp_option options[] = {
  {.name = "output",
   .key = 'o',
   .arg = "FILE",
   .doc = "where the recording is written (tidepool.recording): with %p in its name "
          "each process has one, which has its pid there"},
  {.name = "frames", .key = KEY_FRAMES, .arg = "NUMBER", .doc = "functions of a stack that are kept, 0 to 32 (16)"},
  {.name = "library", .key = KEY_LIBRARY, .arg = "FILE", .doc = "preload this build of libtidepool-malloc"},
  {0}};

/* As run has it, where -o is something else. */
static bool is_option(const char *text)
{
  static const char *const keys[] = {"sites=", "leaks=", "export=", "checked=", "guarded=", "stats=", "profile=", "names="};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!strncmp(text, keys[i], strlen(keys[i])))
      return true;
  return false;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  record_t *record = state->input;
  switch (key) {
  case 'o':
    if (is_option(argument))
      argp_error(state, "%s: here -o names a file; options of the library are set by TIDEPOOL_OPTIONS=%s", argument, argument);
    record->file = argument;
    return 0;
  case KEY_FRAMES:
    record->frames = (long)command_number(state, "frames", argument, 0, RECORDING_FRAMES_MOST);
    return 0;
  case KEY_LIBRARY:
    record->library = argument;
    return 0;
  default:
    return preload_program(key, state, &record->program);
  }
}

/* The program may go to another folder before it begins to allocate, and its children do. */
static char *absolute(const char *file)
{
  char folder[PATH_MAX] = "", marked[2 * PATH_MAX];
  if (*file != '/' && !getcwd(folder, sizeof folder))
    command_fail(COMMAND_FAILED, "record: the folder of %s: %s", file, strerror(errno));
  command_mark_percent(marked, folder);
  char *path = COMMAND_JOIN(marked, *file == '/' ? "" : "/", file);
  if (!*file || strlen(path) > PATH_MAX - 32)
    command_fail(COMMAND_FAILED, "record: %s: %s", path, strerror(*file ? ENAMETOOLONG : ENOENT));
  return path;
}

static char made[PATH_MAX]; /* a file that was not there before */

/* The program was not run. */
static void remove_made(void)
{
  struct stat about;
  if (lstat(made, &about) == 0 && about.st_size == 0)
    claim_remove(made);
}

/* Another recorder may take it away between the two. What is made here the recorder has to open, whatever the umask is. */
static int open_or_make(const char *path)
{
  enum { HOW = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, TRIES = 100 };
  for (int i = 0; i < TRIES; i++) {
    int file = open(path, HOW | O_CREAT | O_EXCL, 0600);
    if (file >= 0) {
      fchmod(file, 0600);
      snprintf(made, sizeof made, "%s", path);
      atexit(remove_made);
    }
    if (file >= 0 || errno != EEXIST)
      return file;
    file = open(path, HOW);
    if (file >= 0 || errno != ENOENT)
      return file;
  }
  return -1;
}

/* What the recorder could not write to is said before the program is run. It makes a file of its own, and what was there stays
 * until then: the program may not be there. */
static void try_file(const char *path)
{
  struct stat about;
  if (lstat(path, &about) == 0 && S_ISREG(about.st_mode) && !claim_may_remove(path))
    command_fail(COMMAND_FAILED, "record: %s: %s", path, errno == EBUSY ? "another process records to it" : strerror(errno));
  int file = open_or_make(path);
  if (file < 0 || fstat(file, &about) != 0)
    command_fail(COMMAND_FAILED, "record: %s: %s", path, errno == ELOOP ? "it is a symbolic link" : strerror(errno));
  if (!S_ISREG(about.st_mode))
    command_fail(COMMAND_FAILED, "record: %s: it is no file of a disk", path);
  close(file);
}

/* A program that keeps its own malloc leaves no recording, and none of before either. */
static void remove_old(const char *path, const char *program, const char *library)
{
  static program_t looked;
  program_look(&looked, program, library);
  if (looked.keeps)
    claim_remove(path);
}

/* The process keeps its number, its namespace and its beginning when it becomes the program. Others have longer numbers. */
static void set_wish(const record_t *record, const char *library)
{
  enum { PID_MOST = 10 };
  char numbers[112], file[PATH_MAX];
  char *path = absolute(record->file);
  unsigned pids = claim_path(file, path);
  if (!*file || strlen(file) + pids * PID_MOST > PATH_MAX - 32)
    command_fail(COMMAND_FAILED, "record: %s: %s", path, strerror(ENAMETOOLONG));
  try_file(file);
  remove_old(file, *record->program, library);
  claim_t own = claim_of_process();
  snprintf(numbers, sizeof numbers, "%ld:%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%ld:", (long)getpid(), own.processes, own.clocks,
           own.began, record->frames);
  preload_set("record", "TIDEPOOL_RECORD", COMMAND_JOIN(numbers, path));
}

int command_record(int count, char **arguments)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[--] PROGRAM [ARGUMENT...]",
    .doc =
      "Run PROGRAM with tidepool as its malloc, and write each call of that to a file, for tidepool show, diff, map, fit and "
      "replay; and what heaps and object pools of PROGRAM do, if it is linked with libtidepool.so. A line says so if PROGRAM "
      "keeps its own malloc: that is not recorded then.\v"
      "The exit status is that of PROGRAM, or 125: tidepool failed, 126: PROGRAM cannot be run, 127: it is not found.",
  };
  record_t record = {.file = "tidepool.recording", .frames = FRAMES_USUAL};
  argp_parse(&argp, count, arguments, ARGP_IN_ORDER, NULL, &record);
  preload_t libraries = preload_choose("record", record.library, preload_need());
  libraries.before = preload_find("record", PRELOAD_RECORD, NULL);
  set_wish(&record, libraries.library);
  preload_become("record", &libraries, record.program, PYTHON_BLOCKS_AND_NAMES);
}
