/* SPDX-License-Identifier: MIT
 *
 * tidepool fit: the size classes and the budget that serve a recorded program best. */
#include "command.h"
#include "fit.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct arguments {
  const char *path, *heap;
  size_t classes;  /* 0: as many as hold least */
  uint64_t budget; /* 0: none was given */
} arguments_t;

enum { KEY_HEAP = 256 };

static const struct argp_option options[] = {
  {.name = "classes", .key = 'c', .arg = "NUMBER", .doc = "exactly so many size classes (as many as hold least)"},
  {.name = "heap", .key = KEY_HEAP, .arg = "NAME", .doc = "for the blocks of the heaps of that name alone (all blocks)"},
  {.name = "budget", .key = 'b', .arg = "BYTES", .doc = "what would be refused with such a budget; K, M and G are understood"},
  {0}};

static uint64_t parse_budget(const char *text, struct argp_state *state)
{
  static const char units[] = "KMG";
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  const char *unit = *end ? strchr(units, *end) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  if (*text < '0' || *text > '9' || errno || (*end && (!unit || end[1])) || !number || number > UINT64_MAX >> shift >> 1)
    argp_error(state, "--budget=%s: no number of bytes", text);
  return (uint64_t)number << shift;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case 'c':
    to->classes = command_number(state, "classes", argument, 1, FIT_CLASSES_MOST);
    return 0;
  case KEY_HEAP:
    to->heap = argument;
    return 0;
  case 'b':
    to->budget = parse_budget(argument, state);
    return 0;
  default:
    return command_file(key, argument, state, &to->path);
  }
}

/* Who waits at a terminal sees that it goes on. */
static void say_progress(const char *what, size_t number)
{
  if (!isatty(STDERR_FILENO))
    return;
  if (what)
    fprintf(stderr, "\r\033[Kfit: %s %zu ...", what, number);
  else
    fputs("\r\033[K", stderr);
}

/* ---- classes ---- */

static bool is_better(const trial_t *a, const trial_t *b) { return a->mean < b->mean; }

/* More classes leave less over of each block, and more of slabs that are hardly used. Which number is best is tried. */
static void find_classes(const trace_t *trace, size_t wanted, classes_t *classes, trial_t *trial)
{
  static const size_t numbers[] = {4, 6, 8, 12, 16, 20, 24, 32, 40, 52, 64, 80, FIT_CLASSES_MOST};
  sizes_t sizes;
  size_t tried = 0;
  sizes_measure(&sizes, trace);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && (!wanted || !i); i++) {
    classes_t these;
    trial_t of;
    say_progress("classes:", wanted ? wanted : numbers[i]);
    sizes_fit(&sizes, wanted ? wanted : numbers[i], &these);
    if (!these.count || these.count == tried) /* there are no more sizes */
      break;
    fit_try(trace, &these, 0, false, &of);
    if (!tried || is_better(&of, trial)) {
      *classes = these;
      *trial = of;
    }
    tried = these.count;
  }
  say_progress(NULL, 0);
  sizes_free(&sizes);
}

static void print_trial(const char *name, const trial_t *trial)
{
  char room[3][COMMAND_BYTES];
  printf("%-20s %13s %13s %13s\n", name, command_bytes(room[0], trial->internal), command_bytes(room[1], trial->mean),
         command_bytes(room[2], (double)trial->peak));
}

static void print_array(const classes_t *classes)
{
  int column = printf("static const size_t size_classes[] = {");
  for (size_t i = 0; i < classes->count; i++) {
    if (column > 88)
      column = printf("\n  ") - 1;
    column += printf("%s%zu%s", column > 2 && i ? " " : "", classes->of[i], i + 1 < classes->count ? "," : "");
  }
  printf("};\npool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){\n"
         "  .size_classes = size_classes, .size_class_count = %zu});\n",
         classes->count);
}

/* What no heap of this machine serves has to be said: the figures are of the rest. */
static bool say_if_refused(const trace_t *trace, const trial_t *trial)
{
  if (trial->refused)
    command_say("fit: %llu requests cannot be served here, the first of %llu bytes", (unsigned long long)trial->refused,
                (unsigned long long)trace->acts[trial->first_refused].size);
  return trial->refused != 0;
}

/* False: the figures are not of all that was recorded. */
static bool fit_classes(const trace_t *trace, const arguments_t *arguments)
{
  const classes_t built_in = {.count = 0};
  classes_t classes = {.count = 0};
  trial_t before, after;
  char name[32];
  say_progress("the built-in classes", 0);
  fit_try(trace, &built_in, 0, false, &before);
  if (say_if_refused(trace, &before))
    return false;
  find_classes(trace, arguments->classes, &classes, &after);
  if (!classes.count) {
    printf("All blocks are of more than %d bytes: no class would have them.\n", FIT_CLASS_MOST);
    return true;
  }
  snprintf(name, sizeof name, "%zu classes", classes.count);
  printf("%-20s %13s %13s %13s\n", "", "left over", "held, mean", "held, peak");
  print_trial("built-in classes", &before);
  print_trial(name, &after);
  if (!is_better(&after, &before))
    puts("\nThe built-in classes hold less.");
  putchar('\n');
  print_array(&classes);
  return true;
}

/* ---- budgets ---- */

static bool is_served(const trace_t *trace, uint64_t budget, trial_t *trial)
{
  static const classes_t built_in = {.count = 0};
  fit_try(trace, &built_in, budget, true, trial);
  return trial->is_made && !trial->refused;
}

enum { BUDGET_STEP = 64 << 10 };

/* What is live at the peak is never enough. */
static uint64_t least_budget(const trace_t *trace)
{
  trial_t trial;
  uint64_t refused = trace->facts.peak_bytes / BUDGET_STEP, served = refused + 1, step = 1;
  for (size_t tries = 1; !is_served(trace, served * BUDGET_STEP, &trial); tries++) {
    say_progress("budgets:", tries);
    refused = served;
    served += step *= 2;
  }
  while (served - refused > 1) {
    uint64_t middle = refused + (served - refused) / 2;
    say_progress("the least budget, MiB:", (size_t)(middle * BUDGET_STEP >> 20));
    *(is_served(trace, middle * BUDGET_STEP, &trial) ? &served : &refused) = middle;
  }
  say_progress(NULL, 0);
  return served * BUDGET_STEP;
}

/* False: no budget serves all of it here. */
static bool fit_budget(const trace_t *trace, uint64_t budget)
{
  static const classes_t built_in = {.count = 0};
  trial_t trial;
  fit_try(trace, &built_in, 0, true, &trial);
  if (say_if_refused(trace, &trial))
    return false;
  fit_try(trace, &built_in, budget, false, &trial);
  if (!trial.is_made)
    puts("No heap has so small a budget.");
  else if (!trial.refused)
    printf("A budget of %llu bytes serves all of it.\n", (unsigned long long)budget);
  else
    printf("A budget of %llu bytes would have refused %llu requests, the first after %.3f s: call %zu, of %llu bytes.\n",
           (unsigned long long)budget, (unsigned long long)trial.refused, (double)trace->acts[trial.first_refused].ns / 1e9,
           trial.first_refused + 1, (unsigned long long)trace->acts[trial.first_refused].size);
  printf("The least budget that serves all of it is %llu bytes, to %d KiB; %llu are live at the peak.\n",
         (unsigned long long)least_budget(trace), BUDGET_STEP >> 10, (unsigned long long)trace->facts.peak_bytes);
  return true;
}

int command_fit(int count, char **given)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE",
    .doc =
      "Find the size classes for a heap with the blocks of a program, as tidepool record has written it to FILE, and print "
      "them in C. With --budget, say what would have been refused, and which budget is enough.\v"
      "All blocks go to one heap, in the recorded order. The exit status is 1 if FILE is no recording, or cannot be served "
      "here.",
  };
  arguments_t arguments = {.path = NULL};
  trace_t trace;
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  trace_read(&trace, "fit", arguments.path, NULL, NULL);
  trace_must_keep_heap(&trace, "fit", arguments.path, arguments.heap);
  if (!trace.count)
    command_fail(1, "fit: %s: no block was allocated", arguments.path);
  bool served = arguments.budget ? fit_budget(&trace, arguments.budget) : fit_classes(&trace, &arguments);
  trace_free(&trace);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "fit: %s", strerror(errno));
  return !served;
}
