/* SPDX-License-Identifier: MIT */
#include "diff.h"
#include "command.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const call_stack_t *diff_stack(const stack_place_t *place)
{
  return place->site < place->show->callers.stack_count ? &place->show->callers.stacks[place->site] : NULL;
}

int64_t diff_change(const stack_place_t *place, sum_t sum)
{
  return (int64_t)(place->after ? place->after->bytes[sum] : 0) - (int64_t)(place->before ? place->before->bytes[sum] : 0);
}

static int by_names(const void *a, const void *b)
{
  const stack_place_t *one = a, *other = b;
  const call_stack_t *first = diff_stack(a), *second = diff_stack(b);
  uint32_t first_count = first ? first->count : 0, second_count = second ? second->count : 0;
  for (uint32_t i = 0; i < first_count && i < second_count; i++) {
    int order = strcmp(one->show->callers.names[first->names[i]], other->show->callers.names[second->names[i]]);
    if (order)
      return order;
  }
  return (first_count > second_count) - (first_count < second_count);
}

static void add_all(diff_t *diff, const show_t *show, bool is_after)
{
  size_t sites = show_site_count(show);
  diff->places = reallocarray(diff->places, diff->count + sites, sizeof *diff->places);
  if (!diff->places)
    command_fail(COMMAND_FAILED, "diff: no memory");
  for (size_t i = 0; i < sites; i++) {
    const total_t *total = &show->sites[i];
    if (!total_is_none(total))
      diff->places[diff->count++] = (stack_place_t){show, (uint32_t)i, is_after ? NULL : total, is_after ? total : NULL};
  }
}

/* A stack is in each file once, so no more than two are the same. */
static void join(diff_t *diff)
{
  size_t kept = 0;
  qsort(diff->places, diff->count, sizeof *diff->places, by_names);
  for (size_t i = 0; i < diff->count; i++) {
    stack_place_t *last = kept ? &diff->places[kept - 1] : NULL, *place = &diff->places[i];
    if (!last || by_names(last, place) != 0) {
      diff->places[kept++] = *place;
      continue;
    }
    last->before = place->before ? place->before : last->before;
    last->after = place->after ? place->after : last->after;
  }
  diff->count = kept;
}

static char *name_of(const char *path, const part_t *part)
{
  char *name = NULL;
  if (part->until_ns == UINT64_MAX)
    name = strdup(path);
  else if (asprintf(&name, "%s until %.3f s", path, (double)part->until_ns / 1e9) < 0)
    name = NULL;
  if (!name)
    command_fail(COMMAND_FAILED, "diff: no memory");
  return name;
}

/* A profile is an estimate, of stacks that end elsewhere: each place would differ. */
void diff_read(diff_t *diff, const char *const paths[2], const part_t parts[2])
{
  const show_t *first = &diff->shows[0], *second = &diff->shows[1];
  *diff = (diff_t){.names = {name_of(paths[0], &parts[0]), name_of(paths[1], &parts[1])}};
  show_read(&diff->shows[0], "diff", paths[0], &parts[0]);
  show_read(&diff->shows[1], "diff", paths[1], &parts[1]);
  if (first->is_profile != second->is_profile)
    command_fail(1, "diff: %s is a profile, %s is a recording, and these cannot be compared", paths[!first->is_profile],
                 paths[first->is_profile]);
  if (first->lacks_heap && second->lacks_heap)
    command_fail(1, "diff: there is no heap or object pool \"%s\" in %s, nor in the other", parts[0].heap, paths[0]);
  diff->kind_count = first->kind_count < second->kind_count ? first->kind_count : second->kind_count;
  add_all(diff, first, false);
  add_all(diff, second, true);
  join(diff);
}

void diff_free(diff_t *diff)
{
  free(diff->names[0]);
  free(diff->names[1]);
  free(diff->places);
  show_free(&diff->shows[0]);
  show_free(&diff->shows[1]);
}
