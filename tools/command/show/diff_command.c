/* SPDX-License-Identifier: MIT
 *
 * tidepool diff: by what one recording or profile is more than another, place by place. */
#include "command.h"
#include "diff.h"
#include "page/page.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES_USUAL = 20, KEY_HEAP = 256, KEY_FROM, KEY_TO, KEY_LINES, KEY_JSON };

typedef struct arguments {
  const char *paths[2], *page;
  bool json;
  part_t parts[2];
  size_t places;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "output", .key = 'o', .arg = "FILE.html", .doc = "write a page with a flame graph of two colors, and no text"},
  {.name = "json", .key = KEY_JSON, .doc = "print the figures of all places for scripts"},
  {.name = "from", .key = KEY_FROM, .arg = "SECONDS", .doc = "of one recording: by what it is more than it was then"},
  {.name = "to", .key = KEY_TO, .arg = "SECONDS", .doc = "and up to then (its end)"},
  {.name = "heap", .key = KEY_HEAP, .arg = "NAME", .doc = "of the heaps and object pools of that name alone (of all)"},
  {.name = "lines",
   .key = KEY_LINES,
   .doc = "say of each call in which line of which file it is, where the programs were compiled with -g"},
  {.name = "number", .key = 'n', .arg = "NUMBER", .doc = "print so many places of each kind (20)"},
  {0}};

/* One file is compared with itself. */
static void settle_files(arguments_t *to, struct argp_state *state)
{
  bool is_one = to->paths[0] && !to->paths[1], has_from = to->parts[0].until_ns != UINT64_MAX;
  if (!to->paths[0] || (is_one && !has_from))
    argp_error(state, "two files are needed, or one and --from");
  if (!is_one && (has_from || to->parts[1].until_ns != UINT64_MAX))
    argp_error(state, "--from and --to are for one file");
  if (is_one && to->parts[1].until_ns <= to->parts[0].until_ns)
    argp_error(state, "--to is not after --from");
  if (is_one)
    to->paths[1] = to->paths[0];
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
  case 'o':
    to->page = argument;
    return 0;
  case KEY_HEAP:
    to->parts[0].heap = to->parts[1].heap = argument;
    return 0;
  case KEY_FROM:
    to->parts[0].until_ns = command_seconds(state, "from", argument);
    return 0;
  case KEY_TO:
    to->parts[1].until_ns = command_seconds(state, "to", argument);
    return 0;
  case KEY_JSON:
    to->json = true;
    return 0;
  case KEY_LINES:
    to->parts[0].with_lines = to->parts[1].with_lines = true;
    return 0;
  case 'n':
    to->places = command_number(state, "number", argument, 0, UINT32_MAX);
    return 0;
  case ARGP_KEY_ARG:
    if (to->paths[1])
      argp_error(state, "%s: there are two files already", argument);
    to->paths[to->paths[0] != NULL] = argument;
    return 0;
  case ARGP_KEY_END:
    if (to->json && to->page)
      argp_error(state, "only one of --json and --output can be");
    settle_files(to, state);
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
  fputs(stack && stack->count ? "" : "?", to);
  uint64_t samples = (place->before ? place->before->samples[sum] : 0) + (place->after ? place->after->samples[sum] : 0);
  show_print_few(place->show, (uint64_t)(before + after), samples, to);
  fputc('\n', to);
}

static void print_kind(diff_t *diff, const kind_t *kind, size_t most)
{
  const total_t *before = &diff->shows[0].all, *after = &diff->shows[1].all;
  sum_t sum = kind->sum;
  char room[2][COMMAND_BYTES];
  printf("\n%s: ", kind->name);
  print_change((int64_t)(after->bytes[sum] - before->bytes[sum]), stdout);
  printf(" %+lld blocks, from %s to %s\n", (long long)(after->blocks[sum] - before->blocks[sum]),
         command_bytes(room[0], (double)before->bytes[sum]), command_bytes(room[1], (double)after->bytes[sum]));
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

static void print_file(const diff_t *diff, int i)
{
  const show_t *show = &diff->shows[i];
  fputs(i ? "after:  " : "before: ", stdout);
  command_print(diff->names[i], stdout);
  if (show->is_profile) {
    fputs("\n        ", stdout);
    show_print_samples(show, stdout);
  } else
    printf(", %zu calls in %.3f s", show->trace.count, (double)show->trace.facts.last_ns / 1e9);
  putchar('\n');
}

/* What was live at the end comes first: it is what has grown. */
static void print_diff(diff_t *diff, size_t places)
{
  print_file(diff, 0);
  print_file(diff, 1);
  for (size_t i = 0; i < diff->kind_count; i++)
    if (diff->shows[0].kinds[i].sum == SUM_END)
      print_kind(diff, &diff->shows[0].kinds[i], places);
  for (size_t i = 0; i < diff->kind_count; i++)
    if (diff->shows[0].kinds[i].sum != SUM_END)
      print_kind(diff, &diff->shows[0].kinds[i], places);
}

int command_diff(int count, char **given)
{
  static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "BEFORE AFTER\n--from SECONDS [--to SECONDS] FILE",
    .doc = "Print by what AFTER is more than BEFORE, two files of tidepool record: of what was live at the peak, of what was "
           "live at the end, and in all, place by place. Or two profiles: of what was in use, and in all.\v"
           "The exit status is 1 if one of them is no recording and no profile, or is of another kind.",
  };
  arguments_t arguments = {.places = PLACES_USUAL,
                           .parts = {{.may_lack = true, .until_ns = UINT64_MAX}, {.may_lack = true, .until_ns = UINT64_MAX}}};
  diff_t diff;
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  diff_read(&diff, arguments.paths, arguments.parts);
  if (arguments.page)
    write_page(&diff, &arguments);
  else if (arguments.json)
    diff_write_json(&diff, stdout);
  else
    print_diff(&diff, arguments.places);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "diff: %s", strerror(errno));
  diff_free(&diff);
  return 0;
}
