/* SPDX-License-Identifier: MIT
 * Heaps: records, bins, classes. */
#include "heap/heap.h"
#include "base/fill.h"
#include "option.h"
#include "os/lock.h"
#include "os/tool.h"
#include "space/metadata.h"

/* ---- records ----
 *
 * A record comes from a guest's memory, from room that was paid for at creation, or from the process's metadata, which is
 * charged to the heap. If the system refuses that, the default heap takes a run for its records. Only records of the metadata
 * are ever given back. */

/* Takes a record behind the others or in a new run, under the heap's lock or before other threads know the heap. The run may
 * have held blocks. */
static void *take_record_in_run(heap_t *heap, size_t size)
{
  if (size > (size_t)(heap->records_end - heap->records)) {
    run_t *run = space_take_charged(heap->space, &heap->budget, size, 1);
    if (!run)
      return NULL;
    run->size = run_bytes(run);
    run_become(run, RUN_REGION, NULL);
    heap->records = run->start;
    heap->records_end = run->start + run_bytes(run);
    if (heap_is_marked(heap)) /* the run may have held blocks, which are closed */
      os_tool_open(heap->records, (size_t)(heap->records_end - heap->records));
    __atomic_fetch_add(&heap->record_run_bytes, (size_t)(heap->records_end - heap->records), __ATOMIC_RELAXED);
  }
  void *record = heap->records;
  heap->records += size;
  return shared_clear(record, size);
}

static bool is_paid_for(const heap_t *heap, const void *record)
{
  return (uintptr_t)record - (uintptr_t)heap->records_start < heap->reserve_records;
}

/* The size is rounded as the metadata rounds it, so that the charge is exact. */
bool heap_charge_record(heap_t *heap, size_t size)
{
  size = round_up(size, METADATA_ALIGNMENT);
  if (!budget_charge(&heap->budget, size))
    return false;
  budget_note_peak(&heap->budget);
  __atomic_fetch_add(&heap->record_bytes, size, __ATOMIC_RELAXED);
  return true;
}

void heap_discharge_record(heap_t *heap, size_t size)
{
  size = round_up(size, METADATA_ALIGNMENT);
  __atomic_fetch_sub(&heap->record_bytes, size, __ATOMIC_RELAXED);
  budget_discharge(&heap->budget, size);
}

/* The charge comes first, so that a heap at its limit takes nothing. */
void *heap_take_record_outside(heap_t *heap, size_t size)
{
  if (!heap_charge_record(heap, size))
    return NULL;
  void *record = metadata_take(round_up(size, METADATA_ALIGNMENT), METADATA_ALIGNMENT);
  if (!record)
    heap_discharge_record(heap, size);
  return record;
}

/* Room paid for at creation is used first. Growth beyond it may fail. If the system refuses a record of the default heap, free
 * units may have room for it, as for the blocks that it is for. Such records are never given back. */
void *heap_take_record(heap_t *heap, size_t size)
{
  size = round_up(size, METADATA_ALIGNMENT);
  if (!heap_is_guest(heap) && size > (size_t)(heap->records_end - heap->records)) {
    void *record = heap_take_record_outside(heap, size);
    if (record || !heap_is_default(heap))
      return record;
  }
  return take_record_in_run(heap, size);
}

/* Records of a guest, and those paid for at creation, last as long as the heap. */
void heap_give_record(heap_t *heap, void *record, size_t size)
{
  if (!record || heap_is_guest(heap) || is_paid_for(heap, record))
    return;
  metadata_give(record, round_up(size, METADATA_ALIGNMENT));
  heap_discharge_record(heap, size);
}

/* ---- the list of heaps ---- */

lock_t heaps_lock;
bool manager_came_up;
const heap_dependents_t *heap_dependents;

heap_t *heaps_first(void) { return &default_heap; }

heap_t *heaps_shared_from(heap_t *heap)
{
  while (heap && heap->lock.solo)
    heap = heap->next;
  return heap;
}

/* ---- bins ---- */

uint32_t heap_block_size(const heap_t *heap, unsigned c)
{
  return heap->class_count ? heap->class_sizes[c] : size_class_size(c);
}

/* The most depots for a bin of the default heap, a power of two. */
static unsigned default_shards = DEPOT_SHARDS;

void heap_size_depots(unsigned processors)
{
  while (default_shards < processors && default_shards < DEPOT_SHARDS_MOST)
    default_shards *= 2;
}

static bool class_is_cached(const heap_t *heap, unsigned c)
{
  return heap->flags & HEAP_CACHED && c <= CLASS_CACHED && heap_block_size(heap, c) <= SIZE_CACHED;
}

/* The first request of a class creates its bin, which stays as long as the heap (H1), so its address is read without a lock.
 * bins_end is stored before it: a thread that uses the bin and ends finds its magazines by bins_end, whatever this thread does
 * meanwhile. Bins do not purge in a region of units, which returns only units, nor if blocks have heads, which reveal a second
 * free. */
COLD static bin_t *make_bin(heap_t *heap, unsigned c)
{
  closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  bin_t *bin = heap->bins[c];
  if (!bin) {
    bin = heap_take_record(heap, sizeof *bin);
    if (bin) {
      bin_init(bin, &(bin_make_t){.size_class = c,
                                  .block_size = heap_block_size(heap, c),
                                  .heap = heap,
                                  .space = heap->space,
                                  .budget = &heap->budget,
                                  .plane = heap_is_default(heap) ? BIN_PLANE_DEFAULT : BIN_PLANE_HEAP,
                                  .cached = class_is_cached(heap, c),
                                  .shards_most = heap_is_default(heap) ? default_shards : 0,
                                  .purges = !heap_own_arena(heap) && !heap_is_headed(heap),
                                  .single_thread = heap->lock.solo,
                                  .tight = heap_is_bounded(heap) || region_is_prepaid(&heap->region)});
      if (c >= heap->bins_end)
        __atomic_store_n(&heap->bins_end, c + 1, __ATOMIC_RELAXED);
      __atomic_store_n(&heap->bins[c], bin, __ATOMIC_RELEASE);
    }
  }
  lock_release(&heap->lock);
  return bin;
}

bin_t *heap_bin(heap_t *heap, unsigned size_class)
{
  bin_t *bin = published_bin(heap, size_class);
  return likely(bin) ? bin : make_bin(heap, size_class);
}

/* bins_end skips the classes that no request has reached: most heaps have few bins. */
bin_t *heap_bin_from(const heap_t *heap, unsigned from)
{
  bin_t *bin = NULL;
  unsigned end = __atomic_load_n(&heap->bins_end, __ATOMIC_RELAXED);
  for (unsigned c = from; c < end && !bin; c++)
    bin = published_bin(heap, c);
  return bin;
}

void heap_each_cached_bin(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *, bin_t *))
{
  FOR_EACH_BIN(bin, heap)
    if (bin_has_magazines(bin))
      act(magazines, bin);
}

/* A thread without a record uses the bins directly. The fast path finds only heaps with a cache slot. */
magazines_t *heap_enter(heap_t *heap, thread_t *thread)
{
  if (!thread || !(heap->flags & HEAP_CACHED))
    return NULL;
  return heap_is_default(heap) && !(heap->flags & HEAP_WITHIN_REACH)
           ? &thread->default_magazines
           : thread_enter(thread, heap, heap_has_cache_slot(heap), heap->flags & HEAP_WITHIN_REACH ? &heap->reach : NULL);
}

/* ---- classes ---- */

/* Returns the first class of the heap's own table that is large enough. 0: none is. */
static unsigned own_class_of(const heap_t *heap, size_t size)
{
  unsigned low = 1, high = heap->class_count + 1u;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (heap->class_sizes[middle] < size)
      low = middle + 1;
    else
      high = middle;
  }
  return low <= heap->class_count ? low : 0;
}

static unsigned class_of(const heap_t *heap, size_t size)
{
  if (size > heap->class_most)
    return 0;
  return heap->class_count ? own_class_of(heap, size) : size_class_of(size);
}

size_t heap_own_class_size(const heap_t *heap, size_t size)
{
  unsigned c = class_of(heap, size);
  return c ? heap_block_size(heap, c) : size;
}

/* No slab is aligned more strictly than its space, so a stricter request takes a run or a mapping. */
unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment)
{
  if (size > heap->class_most || alignment > UNIT)
    return 0;
  if (alignment <= BLOCK_ALIGNMENT)
    return class_of(heap, size);
  /* The first address of a slab is aligned, so all blocks are if their size is a multiple of the alignment. */
  unsigned last = heap->class_count ? heap->class_count : CLASS_LAST;
  unsigned c = class_of(heap, round_up(size + !size, alignment));
  while (c && heap_block_size(heap, c) & (alignment - 1))
    c = c == last ? 0 : c + 1;
  return c;
}

/* A size that no class serves is rounded up to whole pages. A size too large to be rounded is returned unchanged: no heap can
 * serve it. */
static size_t own_good_size(const heap_t *heap, size_t size)
{
  size_t asked = size;
  if (heap_is_headed(heap))
    size = headed_size(size, 1);
  if (heap_has_granules(heap))
    return size <= PTRDIFF_MAX ? granules_for(heap_granular_size(heap, size)) << GRANULE_LOG2 : asked;
  unsigned c = class_of(heap, size);
  if (c)
    return heap_block_size(heap, c);
  size_t step = os_page_size();
  return size <= PTRDIFF_MAX - step ? round_up(size, step) : asked;
}

/* Any heap of the overflow chain may serve the request, so the smallest of their sizes counts. */
size_t heap_good_size(const heap_t *heap, size_t size)
{
  size_t good = own_good_size(heap, size);
  while ((heap = heap_overflow(heap)) != NULL)
    good = min_size(good, own_good_size(heap, size));
  return good;
}
