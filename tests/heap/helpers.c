/* SPDX-License-Identifier: MIT */
#include "helpers.h"

bool on_exhausted(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  helper_t *helper = context;
  if (helper->inside)
    return false;
  helper->inside = true;
  helper->in_order &= attempt == helper->calls++;
  helper->bytes_needed = bytes_needed;
  helper->heap = heap;
  if (attempt == helper->help_at)
    helper->help(helper, heap);
  helper->inside = false;
  return attempt != helper->give_up_at;
}

helper_t helper_that(void (*help)(helper_t *, pool_heap_t *), unsigned help_at)
{
  return (helper_t){.in_order = true, .help = help, .help_at = help_at, .give_up_at = help_at + 1};
}

pool_heap_t *heap_helped_by(helper_t *helper, size_t budget)
{
  return heap_with((pool_heap_options_t){.budget = budget, .on_exhausted = on_exhausted, .context = helper});
}

void fill(pool_heap_t *heap, helper_t *helper, size_t size)
{
  helper->inside = true;
  list_exhaust(&helper->list, heap, size);
  helper->inside = false;
}

void finish(pool_heap_t *heap, helper_t *helper)
{
  list_free(&helper->list, heap);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}
