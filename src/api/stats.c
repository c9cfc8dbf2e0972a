/* SPDX-License-Identifier: MIT
 * Figures, as numbers and as JSON. JSON beyond the end of a buffer is only counted, so the caller learns the length. */
#include "api/fast_path.h"
#include "base/text.h"
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include "heap/invalid.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "heap/tick.h"
#include "misuse.h"
#include "object_pool/operations.h"
#include "option.h"
#include <tidepool/heap.h>
#include <tidepool/stats.h>

/* The figures of the default heap include memory that belongs to no heap, for which all heaps are examined. */
bool pool_heap_stats_sized(pool_heap_t *heap, pool_stats_t *stats, size_t size)
{
  pool_stats_t own;
  if (!heap || !stats)
    return invalid(heap ? INVALID_STATS_IS_NULL : INVALID_HEAP_IS_NULL, (uintptr_t) "pool_heap_stats");
  if (!heap_is_live(heap))
    fatal_misuse("pool_heap_stats", heap, NOT_A_HEAP_TEXT);
  bool all = heap_is_default(heap);
  if (all)
    lock_acquire(&heaps_lock);
  heap_figures(heap, false, &own);
  if (all)
    lock_release(&heaps_lock);
  grown_give(stats, size, &own, sizeof own);
  return true;
}

/* ---- JSON ---- */

/* Writes every figure but the first of an object, so the comma is in front. JSON readers accept no larger number. */
static void number(text_t *text, const char *key, uint64_t value)
{
  text_string(text, ",\"");
  text_string(text, key);
  text_string(text, "\":");
  text_number(text, value < INT64_MAX ? value : INT64_MAX);
}

static void write_bin(text_t *text, const bin_figures_t *f, bool first)
{
  text_string(text, first ? "{\"block_size\":" : ",{\"block_size\":");
  text_number(text, f->block_size);
  number(text, "live_blocks", f->live_blocks);
  number(text, "cached_blocks", f->cached_blocks);
  number(text, "slabs", f->slabs);
  number(text, "held_bytes", f->held_bytes);
  text_char(text, '}');
}

/* Begins by closing the list of classes that the caller left open. */
static void write_large(text_t *text, heap_t *heap)
{
  large_figures_t f = heap_large_figures(heap);
  text_string(text, "],\"large\":{\"live_blocks\":");
  text_number(text, f.live_blocks);
  number(text, "live_bytes", f.live_bytes);
  number(text, "held_bytes", f.held_bytes);
  text_char(text, '}');
}

/* The figures of a heap, in the order of their addition. `docs names` checks that each is here and in every other list. */
typedef struct figure {
  const char *key;
  size_t offset;
  bool is_64; /* otherwise a size_t */
} figure_t;
#define FIGURE(name) #name, offsetof(pool_stats_t, name), sizeof((pool_stats_t){0}.name) == sizeof(uint64_t)
static const figure_t figures[] = {
  {FIGURE(budget)},         {FIGURE(held_bytes)},      {FIGURE(peak_held_bytes)}, {FIGURE(live_bytes)},
  {FIGURE(live_blocks)},    {FIGURE(cached_bytes)},    {FIGURE(idle_bytes)},      {FIGURE(metadata_bytes)},
  {FIGURE(children_bytes)}, {FIGURE(exhausted_count)}, {FIGURE(retried_count)},   {FIGURE(overflowed_count)},
  {FIGURE(purged_bytes)},   {FIGURE(largest_free)},    {FIGURE(fragmentation)},   {FIGURE(free_bytes)},
  {FIGURE(returned_bytes)}, {FIGURE(mapped_bytes)},    {FIGURE(advised_bytes)},
};

static uint64_t figure_of(const pool_stats_t *stats, const figure_t *figure)
{
  const char *at = (const char *)stats + figure->offset;
  return figure->is_64 ? *(const uint64_t *)(const void *)at : *(const size_t *)(const void *)at;
}

static void write_heap(text_t *text, heap_t *heap)
{
  pool_stats_t s;
  heap_figures(heap, true, &s);
  text_string(text, "{\"name\":");
  text_quoted(text, heap->name);
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    number(text, figures[i].key, figure_of(&s, &figures[i]));
  text_string(text, ",\"pools\":[");
  bool first = true;
  FOR_EACH_BIN(bin, heap) {
    bin_figures_t f = heap_bin_figures(bin);
    if (!f.slabs)
      continue;
    write_bin(text, &f, first);
    first = false;
  }
  write_large(text, heap);
  text_char(text, '}');
}

/* The lock keeps the heap's records while they are read. NULL produces valid JSON, too. */
size_t pool_heap_stats_json(pool_heap_t *heap, char *buffer, size_t size)
{
  text_t text = {buffer, buffer ? size : 0, 0};
  if (heap && !heap_is_live(heap))
    fatal_misuse("pool_heap_stats_json", heap, NOT_A_HEAP_TEXT);
  LOCKED(&heaps_lock);
  if (heap)
    write_heap(&text, heap);
  else
    text_string(&text, "null");
  return text_finish(&text);
}

typedef struct object_pool_list {
  text_t *text;
  bool begun;
} object_pool_list_t;

static void write_object_pool(const object_pool_figures_t *f, void *context)
{
  object_pool_list_t *list = context;
  text_t *text = list->text;
  text_string(text, list->begun ? ",{\"name\":" : "{\"name\":");
  list->begun = true;
  text_quoted(text, f->name);
  text_string(text, ",\"heap\":");
  text_quoted(text, f->heap);
  number(text, "object_size", f->object_size);
  number(text, "capacity", f->capacity);
  number(text, "live", f->live);
  number(text, "arrays", f->arrays);
  number(text, "held_bytes", f->held_bytes);
  text_char(text, '}');
}

/* Object pools are visited after the lock is released, because they take it. `before` precedes the first key. */
static size_t write_everything(char *buffer, size_t size, const char *before)
{
  text_t text = {buffer, buffer ? size : 0, 0};
  text_char(&text, '{');
  text_string(&text, before);
  text_string(&text, "\"heaps\":[");
  lock_acquire(&heaps_lock);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next) {
    if (heap != heaps_first())
      text_char(&text, ',');
    write_heap(&text, heap);
  }
  const heap_dependents_t *dependents = heap_dependents;
  lock_release(&heaps_lock);
  text_string(&text, "],\"object_pools\":[");
  if (dependents)
    dependents->visit(write_object_pool, &(object_pool_list_t){.text = &text});
  text_string(&text, "]");
  number(&text, "refused_system_calls", os_forbidden_count());
  text_char(&text, '}');
  return text_finish(&text);
}

size_t pool_stats_json(char *buffer, size_t size) { return write_everything(buffer, size, ""); }

/* ---- at exit ---- */

static void print_line(const char *line, size_t length)
{
  char path[OPTION_PATH_SIZE + 64];
  if (!settings.stats_file[0]) {
    os_write_kept_error(line, length);
    return;
  }
  option_path(path, sizeof path, settings.stats_file);
  if (!os_append(path, line, length))
    warn_at_exit(path, STATS_ARE_LOST);
}

/* The process id comes first: children of a program print to the same place. So does another library in the same process, such
 * as that of a program run with the malloc library. */
static size_t write_process(char *buffer, size_t size)
{
  char before[64];
  text_t pid = {before, sizeof before, 0};
  text_string(&pid, "\"pid\":");
  text_number(&pid, os_process());
  text_string(&pid, ",\"library\":\"" LIBRARY_NAME "\",");
  text_finish(&pid);
  return write_everything(buffer, size, before);
}

/* Other threads may create heaps meanwhile: a text that does not fit is written again, into a mapping of `size` bytes. Each
 * call has its own: a lock around a shared buffer would be held until the output is read, and a fork would have to wait for
 * that. */
void figures_print(figures_write_fn *write, void (*print)(const char *line, size_t length))
{
  enum { SHORT_LINE = 4 << 10 };
  char short_line[SHORT_LINE], *mapped = NULL;
  size_t size = 0, length;
  while ((length = write(mapped, size)) >= size) {
    if (mapped)
      os_unmap(mapped, size);
    size = round_up(2 * (length + 1), os_page_size());
    mapped = os_map(size, os_page_size());
    if (!mapped) {
      length = min_size(write(short_line, SHORT_LINE), SHORT_LINE - 1);
      break;
    }
  }
  char *line = mapped ? mapped : short_line;
  line[length++] = '\n'; /* in place of the terminating NUL */
  print(line, length);
  if (mapped)
    os_unmap(mapped, size);
}

/* Last chance to find writes outside blocks or to freed ones. Other threads may still be at work, or were when the process was
 * forked. A single-threaded heap has no lock, so it is verified only if no other thread is left. Second frees are found when
 * magazines and depots are emptied, and these never were. Caches of other threads that still run are left alone, unless they
 * can be reached. */
static void verify_heaps(void)
{
  bool alone = helpers_are_alone() && !fork_lost_threads;
  lock_acquire(&heaps_lock);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next) {
    if (heap->lock.solo && !alone)
      continue;
    if (settings.check_at_exit)
      heap_drain(heap, "exit", true);
    if (heap_is_checked(heap))
      heads->verify_all(heap, alone, "exit");
  }
  lock_release(&heaps_lock);
  const heap_dependents_t *dependents = __atomic_load_n(&heap_dependents, __ATOMIC_ACQUIRE);
  if (dependents)
    dependents->verify(NULL, alone, "exit");
}

__attribute__((destructor)) static void finish(void)
{
  if (observer)
    observer->end_helpers();
  background_end();
  if (manager_is_up())
    verify_heaps();
  if (observer && manager_is_up())
    observer->end();
  if (settings.stats_at_exit)
    figures_print(write_process, print_line);
}

/* Threads can be started from here on. If the manager came up before this constructor, the library's own threads start here. */
__attribute__((constructor)) static void begin_helpers(void)
{
  helpers_may_begin = true;
  if (observer)
    observer->begin_helpers(write_process);
  background_begin_if();
}
