/* SPDX-License-Identifier: MIT
 * A subsystem that had malloc and free, here a cache of strings, on a heap of its own: it cannot take more than its budget,
 * when that is used up it drops its oldest entries, and it ends in one call. docs/heaps.md goes through it step by step.
 *
 *     cc subsystem.c $(pkg-config --cflags --libs tidepool) -o subsystem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>

/* ---- what was `malloc(size)` and `free(block)` all over the subsystem ---- */

static pool_heap_t *foo_heap;

static void *foo_malloc(size_t size) { return pool_heap_alloc(foo_heap, size); }
static void foo_free(void *block) { pool_heap_free(foo_heap, block); }

/* ---- the subsystem as it was ---- */

typedef struct entry {
  struct entry *newer;
  char text[];
} entry_t;

static entry_t *oldest, *newest;
static size_t kept, dropped;

static void drop_oldest(void)
{
  entry_t *entry = oldest;
  oldest = entry->newer;
  if (!oldest)
    newest = NULL;
  foo_free(entry);
  kept--;
  dropped++;
}

static bool remember(const char *text)
{
  size_t size = strlen(text) + 1;
  entry_t *entry = foo_malloc(sizeof *entry + size);
  if (!entry)
    return false;
  memcpy(entry->text, text, size);
  entry->newer = NULL;
  if (newest)
    newest->newer = entry;
  else
    oldest = entry;
  newest = entry;
  kept++;
  return true;
}

/* ---- what is new: a beginning, a policy, an end ---- */

static bool foo_exhausted(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context)
{
  (void)heap, (void)bytes_needed, (void)attempt, (void)context;
  for (unsigned i = 0; i < 100 && oldest; i++)
    drop_oldest();
  return oldest != NULL;
}

static bool foo_start(size_t budget)
{
  foo_heap = pool_heap_create(&(pool_heap_options_t){.name = "foo", .budget = budget, .on_exhausted = foo_exhausted});
  return foo_heap != NULL;
}

static void foo_end(void)
{
  pool_heap_destroy(foo_heap); /* every entry with it */
  foo_heap = NULL;
  oldest = newest = NULL;
}

/* A heap of many sizes has several KiB of figures. Other threads may lengthen the text between two calls, so the function tries
 * until the text fits. */
static bool print_figures(void)
{
  char *figures = NULL;
  size_t size = 0, length;
  while ((length = pool_heap_stats_json(foo_heap, figures, size)) >= size) {
    free(figures);
    size = length + length / 8 + 1;
    figures = malloc(size);
    if (!figures)
      return false;
  }
  puts(figures);
  free(figures);
  return true;
}

int main(void)
{
  char text[64];
  if (!foo_start(1 << 20))
    return 1;
  for (unsigned i = 0; i < 50000; i++) {
    snprintf(text, sizeof text, "entry %u of a cache that would grow for ever", i);
    if (!remember(text))
      return 1;
  }
  printf("%zu entries kept, %zu dropped\n", kept, dropped);
  bool printed = print_figures();
  foo_end();
  return printed ? 0 : 1;
}
