/* SPDX-License-Identifier: MIT
 * Figures, as numbers and as JSON. Looks at every layer; none looks at it. */
#include "base/text.h"
#include "object_pool/registry.h"
#include "heap/heap.h"
#include "space/metadata.h"
#include "option.h"
#include "misuse.h"
#include <errno.h>
#include <tidepool/heap.h>
#include <tidepool/stats.h>

typedef struct bin_figures {
  size_t block_size, live_blocks, cached_blocks, slabs, held_bytes, idle_bytes;
} bin_figures_t;

static bin_figures_t bin_figures_of(bin_t *bin)
{
  size_t threads = bin->cached ? heap_cached_in_threads(bin) : 0;
  size_t cached = threads + bin_depot_blocks(bin);
  size_t out = __atomic_load_n(&bin->outstanding, __ATOMIC_RELAXED), slabs = __atomic_load_n(&bin->slab_count, __ATOMIC_RELAXED);
  size_t held = __atomic_load_n(&bin->held_bytes, __ATOMIC_RELAXED);
  cached = min_size(cached, out);
  return (bin_figures_t){.block_size = bin->block_size, .live_blocks = out - cached, .cached_blocks = cached, .slabs = slabs,
                          .held_bytes = held, .idle_bytes = held - min_size(held, out * bin->block_size)};
}

/* Of the process's metadata, what heaps were charged. */
static size_t charged_metadata(void)
{
  size_t bytes = 0;
  for (const heap_t *heap = heaps_first(); heap; heap = heap->next)
    bytes += heap->metadata_shared + __atomic_load_n(&heap->record_bytes, __ATOMIC_RELAXED);
  return bytes;
}

/* What the space holds beyond blocks is put down to the default heap: nobody else has it. */
static void add_process_figures(pool_stats_t *stats)
{
  static size_t most_seen;   /* under the lock */
  space_t *space = &space_of_process;
  /* A record is charged before it is touched, and counts until it has gone: in between more is charged than there is. */
  size_t all = metadata_touched() + space_record_bytes(), records = all - min_size(charged_metadata(), all);
  lock_acquire(&space->lock);
  size_t dirty = (space->dirty_units << UNIT_LOG2) + huge_kept_bytes() + space_left_bytes() + space_unpaid_bytes();
  stats->purged_bytes = space->purged_bytes + huge_given_bytes() + space_ended_bytes() + metadata_given_bytes();
  stats->idle_bytes += dirty;
  stats->held_bytes += dirty + records;
  stats->metadata_bytes += records;
  most_seen = max_size(most_seen, max_size(stats->peak_held_bytes, stats->held_bytes));
  stats->peak_held_bytes = most_seen;
  lock_release(&space->lock);
}

/* The units of a prepaid region that serve nothing are held all the same. */
static void add_region_figures(pool_stats_t *stats, heap_t *heap)
{
  space_t *space = &heap->own_space;
  lock_acquire(&space->lock);
  if (space->prepaid)
    stats->idle_bytes += (space->fixed->unit_count - space->used_units) << space->unit_log2;
  stats->purged_bytes = space->purged_bytes;
  lock_release(&space->lock);
}

/* The default heap's are in part with the threads that keep spare runs. */
static void large_figures(const heap_t *heap, size_t *blocks, size_t *bytes)
{
  *blocks = __atomic_load_n(&heap->large_blocks, __ATOMIC_RELAXED);
  *bytes = __atomic_load_n(&heap->large_bytes, __ATOMIC_RELAXED);
  if (heap != &default_heap)
    return;
  lock_acquire(&threads_lock);
  for (thread_t *thread = threads_first(); thread; thread = thread->next) {
    *blocks += __atomic_load_n(&thread->spares.live_blocks, __ATOMIC_RELAXED);
    *bytes += __atomic_load_n(&thread->spares.live_bytes, __ATOMIC_RELAXED);
  }
  lock_release(&threads_lock);
}

/* For the default heap under the lock of all heaps. */
static void heap_figures(heap_t *heap, pool_stats_t *stats)
{
  *stats = (pool_stats_t){.budget = budget_limit(&heap->budget), .held_bytes = budget_held(&heap->budget)};
  FOR_EACH_BIN(bin, heap) {
    bin_figures_t f = bin_figures_of(bin);
    stats->live_blocks += f.live_blocks;
    stats->live_bytes += f.live_blocks * f.block_size;
    stats->cached_bytes += f.cached_blocks * f.block_size;
    stats->idle_bytes += f.idle_bytes;
  }
  size_t blocks, large, large_held = __atomic_load_n(&heap->large_held, __ATOMIC_RELAXED);
  large_figures(heap, &blocks, &large);
  stats->live_blocks += blocks;
  stats->live_bytes += large;
  stats->idle_bytes += large_held - min_size(large, large_held);
  stats->metadata_bytes = heap->metadata_bytes + __atomic_load_n(&heap->record_bytes, __ATOMIC_RELAXED) +
                          __atomic_load_n(&heap->record_run_bytes, __ATOMIC_RELAXED);
  stats->children_bytes = budget_below(&heap->budget);
  stats->peak_held_bytes = max_size(budget_peak(&heap->budget), stats->held_bytes);   /* noted later than what is held */
  stats->exhausted_count = __atomic_load_n(&heap->exhausted_count, __ATOMIC_RELAXED);
  stats->retried_count = __atomic_load_n(&heap->retried_count, __ATOMIC_RELAXED);
  stats->overflowed_count = __atomic_load_n(&heap->overflowed_count, __ATOMIC_RELAXED);
  stats->purged_bytes = __atomic_load_n(&heap->purged_bytes, __ATOMIC_RELAXED);
  if (heap == &default_heap)
    add_process_figures(stats);
  else if (heap->region_kind)
    add_region_figures(stats, heap);
}

bool pool_heap_stats(pool_heap_t *heap, pool_stats_t *stats)
{
  if (!heap || !stats) {
    errno = EINVAL;
    return false;
  }
  if (heap->mark != HEAP_LIVE_MARK)
    fatal_misuse("pool_heap_stats", heap, NOT_A_HEAP_TEXT);
  bool all = heap == &default_heap;
  if (all)
    lock_acquire(&heaps_lock);
  heap_figures(heap, stats);
  if (all)
    lock_release(&heaps_lock);
  return true;
}

/* ---- JSON ---- */

static void number(text_t *text, const char *key, uint64_t value)
{
  text_string(text, ",\"");
  text_string(text, key);
  text_string(text, "\":");
  text_number(text, value);
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

static void write_large(text_t *text, heap_t *heap)
{
  size_t blocks, live;
  large_figures(heap, &blocks, &live);
  text_string(text, "],\"large\":{\"live_blocks\":");
  text_number(text, blocks);
  number(text, "live_bytes", live);
  number(text, "held_bytes", __atomic_load_n(&heap->large_held, __ATOMIC_RELAXED));
  text_char(text, '}');
}

static void write_heap(text_t *text, heap_t *heap)
{
  pool_stats_t s;
  heap_figures(heap, &s);
  text_string(text, "{\"name\":");
  text_quoted(text, heap->name);
  number(text, "budget", s.budget);
  number(text, "held_bytes", s.held_bytes);
  number(text, "peak_held_bytes", s.peak_held_bytes);
  number(text, "live_bytes", s.live_bytes);
  number(text, "live_blocks", s.live_blocks);
  number(text, "cached_bytes", s.cached_bytes);
  number(text, "idle_bytes", s.idle_bytes);
  number(text, "metadata_bytes", s.metadata_bytes);
  number(text, "children_bytes", s.children_bytes);
  number(text, "exhausted_count", s.exhausted_count);
  number(text, "retried_count", s.retried_count);
  number(text, "overflowed_count", s.overflowed_count);
  number(text, "purged_bytes", s.purged_bytes);
  text_string(text, ",\"pools\":[");
  bool first = true;
  FOR_EACH_BIN(bin, heap) {
    bin_figures_t f = bin_figures_of(bin);
    if (!f.slabs)
      continue;
    write_bin(text, &f, first);
    first = false;
  }
  write_large(text, heap);
  text_char(text, '}');
}

size_t pool_heap_stats_json(pool_heap_t *heap, char *buffer, size_t size)
{
  text_t text = {buffer, buffer ? size : 0, 0};
  if (heap && heap->mark != HEAP_LIVE_MARK)
    fatal_misuse("pool_heap_stats_json", heap, NOT_A_HEAP_TEXT);
  lock_acquire(&heaps_lock);
  if (heap)
    write_heap(&text, heap);
  else
    text_string(&text, "null");
  lock_release(&heaps_lock);
  return text_finish(&text);
}

typedef struct object_pool_list {
  text_t *text;
  bool    begun;
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

size_t pool_stats_json(char *buffer, size_t size)
{
  text_t text = {buffer, buffer ? size : 0, 0};
  text_string(&text, "{\"heaps\":[");
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

void heap_print_figures(void)
{
  static char line[16 << 10];
  size_t length = pool_heap_stats_json(&default_heap, line, sizeof line - 1);
  length = min_size(length, sizeof line - 2);
  line[length++] = '\n';
  os_write_error(line, length);
}
