/* SPDX-License-Identifier: MIT
 *
 * Heaps as such: records, bins, classes. */
#include "heap/heap.h"
#include "base/shared.h"
#include "heap/heads.h"
#include "option.h"
#include "os/lock.h"
#include "os/tool.h"
#include "space/metadata.h"

/* ---- records ----
 *
 * A record comes from one of three places: the memory of a guest; room that was paid for when the heap was made; or the
 * process's metadata, which the heap is then charged for. Only what comes from the last is ever given back. */

/* Takes a record behind those that there are, or in a new run of the region. The guest's lock is held, or no other thread knows
 * of the heap yet. */
static void *guest_take_record(heap_t *heap, size_t size)
{
  if (size > (size_t)(heap->records_end - heap->records)) {
    run_t *run = space_take_charged(heap->space, &heap->budget, size, 1);
    if (!run)
      return NULL;
    run_become(run, RUN_REGION, NULL);
    heap->records = run->start;
    heap->records_end = run->start + run_bytes(arena_of(heap->space, run->start), run);
    if (HAS_SYSTEM && unlikely(heap->marked)) /* it may have had blocks, which are closed */
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

/* The size is rounded as the metadata rounds it, so that what is charged is what is taken. */
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

/* Charged first, so that a heap at the end of its budget takes nothing. */
void *heap_take_record_apart(heap_t *heap, size_t size)
{
  if (!heap_charge_record(heap, size))
    return NULL;
  void *record = metadata_take(round_up(size, METADATA_ALIGNMENT), METADATA_ALIGNMENT);
  if (!record)
    heap_discharge_record(heap, size);
  return record;
}

/* Room that was paid for at creation is used first. When it has ended, growth may fail. */
void *heap_take_record(heap_t *heap, size_t size)
{
  size = round_up(size, METADATA_ALIGNMENT);
  if (heap_is_guest(heap))
    return guest_take_record(heap, size);
  if (size > (size_t)(heap->records_end - heap->records))
    return heap_take_record_apart(heap, size);
  heap->records += size;
  return heap->records - size;
}

/* Records of a guest, and those that were paid for at creation, last as long as the heap. */
void heap_give_record(heap_t *heap, void *record, size_t size)
{
  if (!record || heap_is_guest(heap) || is_paid_for(heap, record))
    return;
  metadata_give(record, round_up(size, METADATA_ALIGNMENT));
  heap_discharge_record(heap, size);
}

/* ---- heap ----
 *
 * A bin is made by the first request of its class and stays as long as the heap (H1). So its address is read without a lock,
 * and only its making takes one. */

lock_t heaps_lock;
bool manager_came_up;
const heap_dependents_t *heap_dependents;

static struct {
  _Alignas(64) bin_record_t record;
} default_bins[CLASS_COUNT];

heap_t *heaps_first(void) { return HAS_SYSTEM ? &default_heap : NULL; }

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

/* How many depots a bin of the default heap may have, a power of two. */
static unsigned default_shards = DEPOT_SHARDS;

void heap_size_depots(unsigned processors)
{
  while (default_shards < processors && default_shards < DEPOT_SHARDS_MOST)
    default_shards *= 2;
}

/* Depots come with the record only where threads may keep magazines; without them a record is much smaller. The bins of the
 * default heap are static, so it never lacks memory for one. */
static bin_t *take_bin_record(heap_t *heap, unsigned c, depot_t **depots)
{
  bool is_cached = heap->cached && c <= CLASS_CACHED && heap_block_size(heap, c) <= SIZE_CACHED;
  bin_record_t *record =
    heap_is_default(heap) ? &default_bins[c].record : heap_take_record(heap, is_cached ? sizeof *record : sizeof record->bin);
  *depots = record && is_cached ? record->depots : NULL;
  return record ? &record->bin : NULL;
}

/* Another thread may have made the bin before this one had the lock. It is published when it is complete (H1), and the end of
 * the bins after it. Memory of blocks is not purged in a region, which gives back by units alone, nor where blocks have
 * heads, by which one that is freed again is known. */
COLD static bin_t *make_bin(heap_t *heap, unsigned c)
{
  closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  bin_t *bin = heap->bins[c];
  if (!bin) {
    depot_t *depots;
    bin = take_bin_record(heap, c, &depots);
    if (bin) {
      bin_init(bin, &(bin_make_t){.size_class = c,
                                  .block_size = heap_block_size(heap, c),
                                  .heap = heap,
                                  .space = heap->space,
                                  .budget = &heap->budget,
                                  .plane = heap->plane,
                                  .depots = depots,
                                  .shards_most = heap_is_default(heap) ? default_shards : 0,
                                  .purges = HAS_SYSTEM && !heap->region.kind && !heap_is_headed(heap),
                                  .single_thread = heap->lock.solo,
                                  .tight = heap->budgeted || heap->region.space.prepaid});
      __atomic_store_n(&heap->bins[c], bin, __ATOMIC_RELEASE);
      if (c >= heap->bins_end)
        __atomic_store_n(&heap->bins_end, c + 1, __ATOMIC_RELEASE);
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

/* bins_end saves a look at the classes that no request has reached: a heap has few bins. */
bin_t *heap_bin_from(const heap_t *heap, unsigned from)
{
  bin_t *bin = NULL;
  unsigned end = __atomic_load_n(&heap->bins_end, __ATOMIC_ACQUIRE);
  for (unsigned c = from; c < end && !bin; c++)
    bin = published_bin(heap, c);
  return bin;
}

/* Bins without magazines are passed over: no thread has anything of them. */
void heap_each_cached_bin(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *, bin_t *))
{
  FOR_EACH_BIN(bin, heap)
    if (bin_has_magazines(bin))
      act(magazines, bin);
}

/* A thread without a record works on the bins directly. Only a heap with a cache slot is found by the fast path. */
magazines_t *heap_enter(heap_t *heap, thread_t *thread)
{
  if (!HAS_SYSTEM || !thread || !heap->cached)
    return NULL;
  return heap_is_default(heap) && !heap->reached
           ? &thread->default_magazines
           : thread_enter(thread, heap, heap->has_cache_slot, heap->reached ? &heap->reach : NULL);
}

/* ---- which class ---- */

/* Returns the first class of the heap's own table that is large enough; 0: none is. */
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

/* No slab begins at a multiple of more than its space's alignment, so a stricter request takes a run or a mapping. */
unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment)
{
  if (size > heap->class_most || alignment > heap->space->alignment)
    return 0;
  if (alignment <= BLOCK_ALIGNMENT)
    return class_of(heap, size);
  /* A slab's first address is a multiple of it, so a block size that is one too has every block aligned. */
  unsigned last = heap->class_count ? heap->class_count : CLASS_LAST;
  unsigned c = class_of(heap, round_up(size + !size, alignment));
  while (c && heap_block_size(heap, c) & (alignment - 1))
    c = c == last ? 0 : c + 1;
  return c;
}

/* What no class serves has whole pages, or the units of a region where these are smaller. A size that is too large to be
 * rounded is returned as it is: no heap can serve it. */
static size_t own_good_size(const heap_t *heap, size_t size)
{
  size_t asked = size;
  if (heap_is_headed(heap))
    size = headed_size(size, 1);
  if (heap_has_granules(heap))
    return size <= PTRDIFF_MAX ? granules_for(size) << GRANULE_LOG2 : asked;
  unsigned c = class_of(heap, size);
  if (c)
    return heap_block_size(heap, c);
  size_t step = min_size(os_page_size(), (size_t)1 << heap->space->unit_log2);
  return size <= PTRDIFF_MAX - step ? round_up(size, step) : asked;
}

/* Any heap that this one overflows to may serve the request. */
size_t heap_good_size(const heap_t *heap, size_t size)
{
  size_t good = own_good_size(heap, size);
  while ((heap = heap_overflow(heap)) != NULL)
    good = min_size(good, own_good_size(heap, size));
  return good;
}
