/* SPDX-License-Identifier: MIT
 *
 * tidepool diff: by what one recording is more than another, place by place. A place is a stack of functions: addresses are
 * others in each process, and after each build. */
#include "command.h"
#include "show.h"
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES_USUAL = 20 };

typedef struct arguments {
  const char *before, *after;
  size_t places;
} arguments_t;

static const struct argp_option options[] = {
  {.name = "number", .key = 'n', .arg = "NUMBER", .doc = "print so many places of each kind (20)"}, {0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  arguments_t *to = state->input;
  switch (key) {
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

/* One place of one recording, or of both once they are joined. */
typedef struct stack_place {
  const show_t *show;
  uint32_t site;
  const total_t *before, *after; /* NULL: it is not there */
} stack_place_t;

static const char *name_at(const stack_place_t *place, uint32_t i)
{
  const callers_t *callers = &place->show->callers;
  return callers->names[callers->stacks[place->site].names[i]];
}

static uint32_t depth_of(const stack_place_t *place)
{
  return place->site < place->show->callers.stack_count ? place->show->callers.stacks[place->site].count : 0;
}

static int by_names(const void *a, const void *b)
{
  uint32_t first = depth_of(a), second = depth_of(b);
  for (uint32_t i = 0; i < first && i < second; i++) {
    int order = strcmp(name_at(a, i), name_at(b, i));
    if (order)
      return order;
  }
  return (first > second) - (first < second);
}

typedef struct places {
  stack_place_t *of;
  size_t count;
} places_t;

static void add_all(places_t *places, const show_t *show, bool is_after)
{
  size_t sites = show_site_count(show);
  places->of = reallocarray(places->of, places->count + sites, sizeof *places->of);
  if (!places->of)
    command_fail(COMMAND_FAILED, "diff: no memory");
  for (size_t i = 0; i < sites; i++) {
    const total_t *total = &show->sites[i];
    if (!total_is_none(total))
      places->of[places->count++] = (stack_place_t){show, (uint32_t)i, is_after ? NULL : total, is_after ? total : NULL};
  }
}

/* A stack is in each recording once, so no more than two are the same. */
static void join(places_t *places)
{
  size_t kept = 0;
  qsort(places->of, places->count, sizeof *places->of, by_names);
  for (size_t i = 0; i < places->count; i++) {
    stack_place_t *last = kept ? &places->of[kept - 1] : NULL, *place = &places->of[i];
    if (!last || by_names(last, place) != 0) {
      places->of[kept++] = *place;
      continue;
    }
    last->before = place->before ? place->before : last->before;
    last->after = place->after ? place->after : last->after;
  }
  places->count = kept;
}

static int64_t change_of(const stack_place_t *place, sum_t sum)
{
  return (int64_t)(place->after ? place->after->bytes[sum] : 0) - (int64_t)(place->before ? place->before->bytes[sum] : 0);
}

static sum_t sorted_by;

static int by_change(const void *a, const void *b)
{
  int64_t first = llabs(change_of(a, sorted_by)), second = llabs(change_of(b, sorted_by));
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
  print_change(change_of(place, sum), to);
  fprintf(to, " %+11lld  ", after - before);
  for (uint32_t i = 0; i < depth_of(place); i++) {
    fputs(i ? " < " : "", to);
    command_print(name_at(place, i), to);
  }
  fputs(depth_of(place) ? "\n" : "?\n", to);
}

static void print_kind(places_t *places, const show_t shows[2], sum_t sum, const char *title, size_t most)
{
  printf("\n%s: ", title);
  print_change((int64_t)(shows[1].all.bytes[sum] - shows[0].all.bytes[sum]), stdout);
  printf(" %+lld blocks\n", (long long)(shows[1].all.blocks[sum] - shows[0].all.blocks[sum]));
  sorted_by = sum;
  qsort(places->of, places->count, sizeof *places->of, by_change);
  for (size_t i = 0; i < places->count && i < most && change_of(&places->of[i], sum); i++)
    print_place(&places->of[i], sum, stdout);
}

/* A profile is an estimate, of stacks that end elsewhere: each place would differ. */
static void read_both(show_t shows[2], const arguments_t *arguments)
{
  show_read(&shows[0], "diff", arguments->before);
  show_read(&shows[1], "diff", arguments->after);
  if (shows[0].is_profile != shows[1].is_profile)
    command_fail(1, "diff: %s is a profile, %s is a recording, and these cannot be compared",
                 shows[0].is_profile ? arguments->before : arguments->after,
                 shows[0].is_profile ? arguments->after : arguments->before);
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
  show_t shows[2];
  places_t places = {NULL, 0};
  argp_parse(&argp, count, given, 0, NULL, &arguments);
  read_both(shows, &arguments);
  add_all(&places, &shows[0], false);
  add_all(&places, &shows[1], true);
  join(&places);
  const show_t *least = &shows[shows[1].kind_count < shows[0].kind_count]; /* what one has not cannot be compared */
  for (size_t i = 0; i < least->kind_count; i++)
    print_kind(&places, shows, least->kinds[i].sum, least->kinds[i].name, arguments.places);
  if (fflush(stdout) != 0 || ferror(stdout))
    command_fail(COMMAND_FAILED, "diff: %s", strerror(errno));
  free(places.of);
  for (int i = 0; i < 2; i++)
    show_free(&shows[i]);
  return 0;
}
