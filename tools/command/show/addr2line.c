/* SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "addr2line.h"
#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The answers are read a line ahead. */
typedef struct answers {
  FILE *file;
  char *line;
  size_t room;
  bool is_there;
} answers_t;

static void answers_next(answers_t *answers)
{
  answers->is_there = getline(&answers->line, &answers->room, answers->file) > 0;
  if (answers->is_there)
    answers->line[strcspn(answers->line, "\n")] = '\0';
}

/* The line that each address's answer begins with. */
static bool is_address(const answers_t *answers, uint64_t address)
{
  char *end;
  return answers->is_there && !strncmp(answers->line, "0x", 2) && strtoull(answers->line, &end, 16) == address && !*end;
}

/* NULL: there is no next address. */
static bool is_over(const answers_t *answers, const uint64_t *next)
{
  return !answers->is_there || (next && is_address(answers, *next));
}

/* Where a function is ends with the number of a line, or a question mark. A line that does not is of a file with a newline in
 * its name. */
static bool ends_place(const char *line)
{
  const char *colon = strrchr(line, ':');
  size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
  return colon && (colon[1] == '?' || (digits && (!colon[1 + digits] || colon[1 + digits] == ' ')));
}

/* Pairs: a function, and where it is. */
static void read_answer(answers_t *answers, const uint64_t *next, size_t number, addr2line_fn *each, void *context)
{
  while (!is_over(answers, next)) {
    char *function = strdup(answers->line);
    do
      answers_next(answers);
    while (!is_over(answers, next) && !ends_place(answers->line));
    if (function && !is_over(answers, next)) {
      each(number, function, answers->line, context);
      answers_next(answers);
    }
    free(function);
  }
}

static bool read_answers(FILE *file, const uint64_t *addresses, size_t count, addr2line_fn *each, void *context)
{
  answers_t answers = {.file = file};
  size_t i = 0;
  rewind(file);
  answers_next(&answers);
  for (; i < count && is_address(&answers, addresses[i]); i++) {
    answers_next(&answers);
    read_answer(&answers, i + 1 < count ? &addresses[i + 1] : NULL, i, each, context);
  }
  free(answers.line);
  return i == count;
}

/* False: it cannot be run. */
static bool run_tool(const char *path, FILE *questions, FILE *answers)
{
  char *const words[] = {(char[]){"addr2line"}, (char[]){"-aifC"}, (char[]){"-e"}, strdup(path), NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(questions), 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(answers), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
  int error = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  free(words[3]);
  pid_t ended = 0;
  while (!error && (ended = waitpid(pid, NULL, 0)) < 0 && errno == EINTR)
    continue;
  return !error && (ended == pid || errno == ECHILD); /* where SIGCHLD is ignored nobody is told how it ended */
}

/* A file in memory: a folder for such files may be full, or not to be written to. */
static FILE *memory_file(const char *name)
{
  int descriptor = memfd_create(name, MFD_CLOEXEC);
  FILE *file = descriptor >= 0 ? fdopen(descriptor, "w+") : NULL;
  if (descriptor >= 0 && !file)
    close(descriptor);
  return file;
}

static bool write_questions(FILE *questions, const uint64_t *addresses, size_t count)
{
  for (size_t i = 0; i < count; i++)
    fprintf(questions, "0x%" PRIx64 "\n", addresses[i]);
  bool is_whole = fflush(questions) == 0;
  rewind(questions);
  return is_whole;
}

addr2line_t addr2line_ask(const char *path, const uint64_t *addresses, size_t count, addr2line_fn *each, void *context)
{
  FILE *questions = memory_file("questions"), *answers = memory_file("answers");
  addr2line_t answer = ADDR2LINE_SOME;
  if (questions && answers && write_questions(questions, addresses, count)) {
    if (!run_tool(path, questions, answers))
      answer = ADDR2LINE_IS_NOT_THERE;
    else if (read_answers(answers, addresses, count, each, context))
      answer = ADDR2LINE_ALL;
  }
  if (questions)
    fclose(questions);
  if (answers)
    fclose(answers);
  return answer;
}
