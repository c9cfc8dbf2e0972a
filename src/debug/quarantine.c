/* SPDX-License-Identifier: MIT */
#include "debug/quarantine.h"
#include "debug/head.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "misuse.h"
#include "os/lock.h"
#include "os/tool.h"

enum {
  QUARANTINE_MOST = 4 << 20,
  PART_OF_LIMIT = 16, /* part of a budget or a region */
  PART_OF_ALL = 8,    /* a block that takes more than this part of the quarantine does not stay */
  PART_AT_ONCE = 256, /* part that leaves when it is full, so that one lock serves many blocks */
  AT_A_TIME = 32
};

/* The tightest limit of the heap and its ancestors counts. */
static size_t quarantine_most(const heap_t *heap)
{
  size_t limit = SIZE_MAX;
  if (heap->region.kind)
    limit = min_size(limit, heap->region.size);
  for (const heap_t *h = heap; h; h = h->parent)
    if (budget_limit(&h->budget))
      limit = min_size(limit, budget_limit(&h->budget));
  return min_size(limit / PART_OF_LIMIT, QUARANTINE_MOST);
}

/* ---- the list ---- */

/* Counts blocks that are of no bin here. Bins count theirs, for questions about a class. */
static void note_kept(heap_t *heap, bin_t *bin, size_t by)
{
  if (bin)
    __atomic_fetch_add(&bin->withheld, (uint32_t)by, __ATOMIC_RELAXED);
  else
    __atomic_fetch_add(&heap->quarantine.blocks_of_no_bin, (uint32_t)by, __ATOMIC_RELAXED);
}

static headed_t headed_at_start(const heap_t *heap, char *start, const char *call)
{
  return (headed_t){.start = start, .usable = head_usable(start), .heap = heap, .call = call, .marked = heap_is_marked(heap)};
}

/* Verifies a link before it is followed: a write to a freed block may have changed it. */
static char *next_of(const heap_t *heap, char *start, const char *call)
{
  headed_t at = headed_at_start(heap, start, call);
  head_verify_head(at);
  return head_next(start);
}

static void keep(heap_t *heap, char *start, size_t size, const char *call)
{
  quarantine_t *q = &heap->quarantine;
  head_link(start, NULL);
  if (!q->last)
    q->first = start;
  else {
    if (unlikely(!head_is_linked(q->last, NULL)))
      head_verify_head(headed_at_start(heap, q->last, call));
    head_link(q->last, start);
  }
  q->last = start;
  __atomic_store_n(&q->bytes, q->bytes + (uint32_t)size, __ATOMIC_RELAXED); /* read without the lock */
}

/* Takes the oldest blocks while there are more than `most` bytes, up to AT_A_TIME. */
static size_t take_oldest(heap_t *heap, size_t most, char **starts, const char *call)
{
  quarantine_t *q = &heap->quarantine;
  size_t count = 0, bytes = q->bytes;
  for (; q->first && bytes > most && count < AT_A_TIME; count++) {
    char *next = next_of(heap, q->first, call);
    bytes -= head_usable(q->first);
    __builtin_prefetch(q->first + HEAD_FRONT); /* put_of_one_bin() reads it */
    starts[count] = q->first;
    q->first = next;
  }
  if (!q->first)
    q->last = NULL;
  __atomic_store_n(&q->bytes, (uint32_t)bytes, __ATOMIC_RELAXED);
  return count;
}

/* ---- release ---- */

static void give_withheld(const located_t *at, const char *call)
{
  head_drop(headed_at(at, call, 0));
  heap_give_uncached(at, call);
}

/* Blocks that were freed one after the other are often of one bin and are returned to it together. */
static void put_of_one_bin(bin_t *bin, char *const *starts, size_t count, const char *call)
{
  if (!count)
    return;
  heap_t *heap = bin->heap;
  void *blocks[AT_A_TIME];
  for (size_t i = 0; i < count; i++) {
    headed_t at = {.start = starts[i], .usable = bin->block_size, .heap = heap, .call = call, .marked = heap_is_marked(heap)};
    head_drop(at);
    blocks[i] = starts[i];
  }
  note_kept(heap, bin, -count);
  bin_put(bin, blocks, count);
}

static bool is_in(const located_t *slab, const char *start)
{
  return (size_t)(start - slab->run->start) < (size_t)slab->run->capacity * slab->bin->block_size;
}

static void put_oldest(heap_t *heap, char *const *starts, size_t count, const char *call)
{
  located_t at = {0};
  bin_t *bin = NULL;
  size_t first = 0; /* block of this bin */
  for (size_t i = 0; i < count; i++) {
    if (!at.bin || !is_in(&at, starts[i]))
      at = heap_locate_returned(starts[i]);
    if (at.bin != bin) {
      put_of_one_bin(bin, starts + first, i - first, call);
      bin = at.bin;
      first = i;
    }
    if (!bin) {
      note_kept(heap, NULL, (size_t)-1);
      give_withheld(&at, call);
      first = i + 1;
    }
  }
  put_of_one_bin(bin, starts + first, count - first, call);
}

static void shrink(heap_t *heap, size_t most, const char *call)
{
  for (;;) {
    char *starts[AT_A_TIME];
    closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
    size_t count = take_oldest(heap, most, starts, call);
    lock_release(&heap->lock);
    if (!count)
      return;
    put_oldest(heap, starts, count, call);
  }
}

void quarantine_keep(const located_t *at, const char *call)
{
  heap_t *heap = at->heap;
  size_t most = quarantine_most(heap);
  if (at->size > most / PART_OF_ALL) {
    give_withheld(at, call);
    return;
  }
  closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  note_kept(heap, at->bin, 1);
  keep(heap, at->start, at->size, call);
  bool full = heap->quarantine.bytes > most;
  lock_release(&heap->lock);
  if (full)
    shrink(heap, most - most / PART_AT_ONCE, call);
}

void quarantine_empty(heap_t *heap, const char *call)
{
  if (!heap_is_checked(heap))
    return;
  INSIDE_GATE(GATE_HEADED);
  shrink(heap, 0, call);
}

/* ---- the whole quarantine ---- */

size_t quarantine_verify(heap_t *heap, const char *call)
{
  size_t bytes = 0;
  closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  for (char *start = heap->quarantine.first, *next; start; start = next) {
    next = next_of(heap, start, call);
    head_verify_returned(headed_at_start(heap, start, call));
    bytes += head_usable(start);
  }
  lock_release(&heap->lock);
  return bytes;
}

withheld_figures_t quarantine_figures(heap_t *heap)
{
  if (!heap_is_checked(heap))
    return (withheld_figures_t){0};
  withheld_figures_t f = {.blocks = __atomic_load_n(&heap->quarantine.blocks_of_no_bin, __ATOMIC_RELAXED),
                          .bytes = __atomic_load_n(&heap->quarantine.bytes, __ATOMIC_RELAXED)};
  FOR_EACH_BIN(bin, heap)
    f.bytes -= min_size(f.bytes, (size_t)__atomic_load_n(&bin->withheld, __ATOMIC_RELAXED) * bin->block_size);
  return f;
}

void quarantine_forget(heap_t *heap)
{
  quarantine_t *q = &heap->quarantine;
  closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  q->first = q->last = NULL;
  __atomic_store_n(&q->bytes, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&q->blocks_of_no_bin, 0, __ATOMIC_RELAXED);
  lock_release(&heap->lock);
  FOR_EACH_BIN(bin, heap)
    __atomic_store_n(&bin->withheld, 0, __ATOMIC_RELAXED);
}
