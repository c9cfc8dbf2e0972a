/* SPDX-License-Identifier: MIT
 *
 * The first request of a class makes its bin. Other threads use the bin as soon as they see it, and may end while the first one
 * is still in that call. Then their magazines must be found: no block may be lost. A tracer looks at the heap after each
 * instruction of such requests. Skipped where the system lets nobody trace, or cannot stop after an instruction. */
#include "heap/heap.h"
#include "traced.h"
#include <errno.h>
#include <tidepool/heap.h>

static pool_heap_t *heap;

/* Each is above the ones before, so its bin is the last of the heap. */
enum { SIZES = 4 };
static const size_t sizes[SIZES] = {100, 300, 3000, 32 << 10};

static void first_requests(void)
{
  for (size_t i = 0; i < SIZES; i++)
    must(pool_heap_alloc(heap, sizes[i]));
}

static uintptr_t word_of(pid_t child, const void *place)
{
  errno = 0;
  long word = ptrace(PTRACE_PEEKDATA, child, place, NULL);
  must(!errno);
  return (uintptr_t)word;
}

static void a_bin_that_is_seen_is_within_the_end(void *unused)
{
  (void)unused;
  heap = pool_heap_create(&(pool_heap_options_t){0});
  must(heap && pool_heap_alloc(heap, 64)); /* what comes first in a process does not take part */
  bool is_traced;
  size_t seen = 0;
  pid_t child = traced_start(first_requests);
  if (!child)
    return;
  while (traced_step(child, &is_traced)) {
    unsigned c = heap_class_for(heap, sizes[seen], 1);
    if (!word_of(child, &heap->bins[c]))
      continue;
    unsigned end;
    memcpy(&end, &(uintptr_t){word_of(child, &heap->bins_end)}, sizeof end);
    must(end == c + 1);
    seen += seen + 1 < SIZES;
  }
  must(!is_traced || seen == SIZES - 1);
}

IN_CHILD(a_bin_that_is_seen_is_within_the_end)

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_bin_that_is_seen_is_within_the_end_test)};
  return cmocka_run_group_tests_name("heap_steps", tests, NULL, NULL);
}
