/* SPDX-License-Identifier: MIT */
#include "command.h"
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "tidepool " TIDEPOOL_VERSION;

static const struct {
  const char *name;
  int (*run)(int count, char **arguments);
} commands[] = {
  {"run", command_run},       {"record", command_record}, {"replay", command_replay}, {"fit", command_fit},
  {"show", command_show},     {"diff", command_diff},     {"map", command_map},
#ifdef WITH_REPORT
  {"report", command_report}, {"top", command_top},
#endif
};

/* What people take for a command, and what they mean by it. */
static const struct {
  const char *word, *meant;
} synonyms[] = {
  {"profile", "run --profile FILE PROGRAM"},
  {"leaks", "run --leaks PROGRAM"},
  {"checked", "run --checked PROGRAM"},
  {"check", "run --checked PROGRAM"},
  {"guarded", "run --guarded PROGRAM"},
  {"stats", "run --stats FILE PROGRAM"},
  {"trace", "record PROGRAM"},
  {"compare", "diff BEFORE AFTER"},
};

static const char *meant_by(const char *word)
{
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (!strcmp(word, synonyms[i].word))
      return synonyms[i].meant;
  return NULL;
}

static void say(const char *format, va_list values)
{
  char *text;
  int length = vasprintf(&text, format, values);
  fputs("tidepool: ", stderr);
  if (length >= 0) {
    command_print(text, stderr);
    free(text);
  }
  fputc('\n', stderr);
}

void command_say(const char *format, ...)
{
  va_list values;
  va_start(values, format);
  say(format, values);
  va_end(values);
}

void command_fail(int status, const char *format, ...)
{
  va_list values;
  va_start(values, format);
  say(format, values);
  va_end(values);
  exit(status);
}

char *command_join(const char *const *texts)
{
  size_t length = 0;
  for (const char *const *text = texts; *text; text++)
    length += strlen(*text);
  char *joined = malloc(length + 1), *end = joined;
  if (!joined)
    command_fail(COMMAND_FAILED, "no memory");
  for (const char *const *text = texts; *text; text++)
    end = stpcpy(end, *text);
  return joined;
}

unsigned long command_number(struct argp_state *state, const char *option, const char *text, unsigned long least,
                             unsigned long most)
{
  char *end;
  errno = 0;
  unsigned long number = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || errno || number < least || number > most)
    argp_error(state, "--%s=%s: no number from %lu to %lu", option, text, least, most);
  return number;
}

uint64_t command_seconds(struct argp_state *state, const char *option, const char *text)
{
  char *end;
  double seconds = strtod(text, &end);
  if (*text < '0' || *text > '9' || *end || !(seconds < 1e9))
    argp_error(state, "--%s=%s: no number of seconds", option, text);
  return (uint64_t)(seconds * 1e9);
}

error_t command_file(int key, char *argument, struct argp_state *state, const char **path)
{
  if (key == ARGP_KEY_NO_ARGS)
    argp_error(state, "a file is missing");
  if (key != ARGP_KEY_ARG)
    return ARGP_ERR_UNKNOWN;
  if (*path)
    argp_error(state, "%s: there is a file already", argument);
  *path = argument;
  return 0;
}

pid_t command_pid(const char *text)
{
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && !errno && number <= INT_MAX ? (pid_t)number : 0;
}

/* The rest of the arguments is the subcommand's, which has a name of two words in its messages. */
static error_t parse(int key, char *argument, struct argp_state *state)
{
  if (key == ARGP_KEY_NO_ARGS)
    argp_error(state, "a command is missing");
  if (key != ARGP_KEY_ARG)
    return ARGP_ERR_UNKNOWN;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(argument, commands[i].name) != 0)
      continue;
    char **arguments = &state->argv[state->next - 1];
    arguments[0] = COMMAND_JOIN("tidepool ", argument);
    exit(commands[i].run(state->argc - state->next + 1, arguments));
  }
  const char *meant = meant_by(argument);
  argp_error(state, "there is no command %s%s%s", argument, meant ? ": use tidepool " : "", meant ? meant : "");
  return 0;
}

/* What is opened later must not be what messages go to. Nothing can be written to these, nor does a program inherit them. */
static void fill_standard_files(void)
{
  int file;
  while ((file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && file <= STDERR_FILENO)
    continue;
  if (file >= 0)
    close(file);
}

int main(int argc, char **argv)
{
  static const struct argp argp = {
    .parser = parse,
    .args_doc = "COMMAND [ARGUMENT...]",
    .doc = "See what a program's memory does.\v"
           "Commands:\n"
           "  run      run a program with tidepool as its malloc\n"
           "  record   run a program and write down each call of its malloc\n"
           "  replay   play that again, on this malloc and on others\n"
           "  fit      find the size classes and the budget that serve it best\n"
           "  show     show where it allocated, as text or as a page with pictures\n"
           "  diff     show by what one is more than another\n"
           "  map      show where its memory is, and what of it is live\n"
#ifdef WITH_REPORT
           "  report   print what its heaps hold, or held when it ended\n"
           "  top      look at its heaps while it runs\n"
#endif
           "\n"
           "tidepool COMMAND --help says more of each.",
  };
  static char name[] = "tidepool";
  argp_err_exit_status = COMMAND_MISUSED;
  fill_standard_files();
  if (argc > 0)
    argv[0] = name;
  argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
  return 0;
}
