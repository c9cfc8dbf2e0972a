/* SPDX-License-Identifier: MIT
 *
 * tidepool diff: by what one recording or profile is more than another, place by place. */
#include "command.h"
#include "diff.h"
#include "page.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES_USUAL = 20, KEY_HEAP = 256 };

typedef struct arguments {
  const char *before, *after, *page, *heap;
  size_t places;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "output", .key = 'o', .arg = "FILE.html", .doc = "write a page with a flame graph of two colors, and no text"},
  {.name = "heap", .key = KEY_HEAP, .arg = "NAME", .doc = "of the heaps and object pools of that name alone (of all)"},
  {.name = "number", .key = 'n', .arg = "NUMBER", .doc = "print so many places of each kind (20)"},
  {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case 'o':
    to->page = argument;
    return 0;
  case KEY_HEAP:
    to->heap = argument;
    return 0;
  case 'n':
    to->places = command_number(state, "number", argument, 0, UINT32_MAX);
    return 0;
  case ARGP_KEY_ARG:
    if (to->after)
      argp_error(state, "%s: there are two files already", argument);
    *(to->before ? &to->after : &to->before) = argument;
    return 0;
  case ARGP_KEY_END:
    if (!to->after)
      argp_error(state, "two files are needed");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static sum_t sorted_by;

static int by_change(const void *a, const void *b)
{
  int64_t first = llabs(diff_change(a, sorted_by)), second = llabs(diff_change(b, sorted_by));
  return (first < second) - (first > second);
}

static void print_change(int64_t bytes, FILE *to)
{
  char room[COMMAND_BYTES];
  fprintf(to, "%c %9s", bytes < 0 ? '-' : bytes ? '+' : ' ', command_bytes(room, (double)llabs(bytes)));
}

static void print_place(const stack_place_t *place, sum_t sum, FILE *to)
{
  long long before = place->before ? (long long)place->before->blocks[sum] : 0,
            after = place->after ? (long long)place->after->blocks[sum] : 0;
  const call_stack_t *stack = diff_stack(place);
  print_change(diff_change(place, sum), to);
  fprintf(to, " %+11lld  ", after - before);
  for (uint32_t i = 0; stack && i < stack->count; i++) {
    fputs(i ? " < " : "", to);
    command_print(place->show->callers.names[stack->names[i]], to);
  }
  fputs(stack && stack->count ? "\n" : "?\n", to);
}

static void print_kind(diff_t *diff, const kind_t *kind, size_t most)
{
  const total_t *before = &diff->shows[0].all, *after = &diff->shows[1].all;
  sum_t sum = kind->sum;
  printf("\n%s: ", kind->name);
  print_change((int64_t)(after->bytes[sum] - before->bytes[sum]), stdout);
  printf(" %+lld blocks\n", (long long)(after->blocks[sum] - before->blocks[sum]));
  sorted_by = sum;
  qsort(diff->places, diff->count, sizeof *diff->places, by_change);
  for (size_t i = 0; i < diff->count && i < most && diff_change(&diff->places[i], sum); i++)
    print_place(&diff->places[i], sum, stdout);
}

static void write_page(const diff_t *diff, const arguments_t *arguments)
{
  FILE *page = page_create("diff", arguments->page);
  diff_write_page(diff, page, arguments->places);
  page_close(page, "diff", arguments->page);
}

int command_diff(int count, char **given)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "BEFORE AFTER",
    .doc = "Print by what AFTER is more than BEFORE, two files of tidepool record: of what was live at the peak, of what was "
           "live at the end, and in all, place by place. Or two profiles: of what was in use, and in all.\v"
           "The exit status is 1 if one of them is no recording and no profile, or is of another kind.",
  };
  arguments_t arguments = {.places = PLACES_USUAL};
  diff_t diff;
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  diff_read(&diff, arguments.before, arguments.after, arguments.heap);
  if (arguments.page)
    write_page(&diff, &arguments);
  for (size_t i = 0; i < diff.kind_count && !arguments.page; i++)
    print_kind(&diff, &diff.shows[0].kinds[i], arguments.places);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "diff: %s", strerror(errno));
  diff_free(&diff);
  return 0;
}
