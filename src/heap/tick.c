/* SPDX-License-Identifier: MIT
 *
 * Free memory is returned in three ways. A tick runs by the clock and returns memory that was not needed lately, step by step.
 * A drain empties the caches of an exhausted heap into its space. A trim drains and returns memory to the system. */
#include "heap/tick.h"
#include "bin/bin.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/locate.h"
#include "option.h"
#include "os/lock.h"
#include "space/metadata.h"

enum {
  BINS_PER_LOOK = 32,   /* most bins that one caller ticks, however many are due */
  CACHES_PER_LOOK = 32, /* most of its own caches of heaps that one caller ticks */
  HEAPS_PER_LOOK = 32   /* most heaps that one caller checks for granules */
};

void heap_end_of_thread(void)
{
  const heap_dependents_t *dependents = __atomic_load_n(&heap_dependents, __ATOMIC_ACQUIRE);
  if (dependents)
    dependents->thread_ends();
}

/* Runs at a thread's end, without threads_lock, under which starting and ending threads would wait for each other's blocks. The
 * default heap never ends, and the gate keeps out forks and walks. */
void heap_flush_own(thread_t *thread)
{
  INSIDE_GATE(GATE_ENDS);
  large_flush_spares(thread);
  heap_flush_magazines(&thread->default_magazines, &default_heap);
}

/* Called under threads_lock at the thread's end. The next thread gets its record and its magazines. */
void heap_flush_thread(thread_t *thread)
{
  large_fold_figures(thread);
  for (heap_cache_t *cache = NULL; (cache = thread_next_cache(thread, cache)) != NULL;)
    heap_flush_magazines(&cache->magazines, cache->heap);
}

static void tick_magazines(magazines_t *magazines, heap_t *heap) { heap_each_cached_bin(magazines, heap, magazines_tick); }

/* Ticks the thread's caches of the default heap. Its caches of other heaps follow, some at each look. */
static void tick_thread(thread_t *thread)
{
  large_tick_spares(thread);
  tick_magazines(&thread->default_magazines, &default_heap);
  allowance_shrink(&thread->allowance);
  thread_begin_tick(thread);
}

/* Flushes the classes of the largest blocks first, because refilling costs the same for every class. It stops at half of the
 * allowance, so that the thread does not return here at once. */
static void shrink_to_allowance(thread_t *thread)
{
  ptrdiff_t least = (ptrdiff_t)(thread->allowance.allowed / 2);
  large_flush_spares(thread);
  for (unsigned c = CLASS_CACHED; c && allowance_left(&thread->allowance) < least; c--) {
    bin_t *bin = published_bin(&default_heap, c);
    if (bin && bin_has_magazines(bin))
      magazines_flush(&thread->default_magazines, bin);
  }
  if (allowance_left(&thread->allowance) < 0) {
    thread_begin_tick(thread);
    thread_tick_caches(thread, CACHES_PER_LOOK, heap_flush_magazines);
  }
}

/* If the allowance cannot grow, caches that were not used since the last look are flushed first. */
COLD void heap_fit_allowance(thread_t *thread)
{
  if (allowance_grow(&thread->allowance) && allowance_left(&thread->allowance) >= 0)
    return;
  large_tick_spares(thread);
  tick_magazines(&thread->default_magazines, &default_heap);
  if (allowance_left(&thread->allowance) < 0)
    shrink_to_allowance(thread);
}

/* Ticks some of the bins that are due. If another thread holds heaps_lock, the next look at the clock is early enough. */
static void tick_bins(size_t steps, uint64_t now_ms)
{
  if (!lock_attempt(&heaps_lock))
    return;
  bins_tick(BINS_PER_LOOK, steps, now_ms);
  lock_release(&heaps_lock);
}

/* Regions of granules have no bins that could be due. Single-threaded heaps check theirs on frees. Otherwise each look at the
 * clock checks some heaps and does a step for the first that has memory to return. A round ends with the last heap. */
static bool granules_are_due;
heap_t *heaps_round_at;

static bool is_ticked_here(const heap_t *heap) { return heap_has_granules(heap) && !heap_is_guest(heap) && !heap->lock.solo; }

void heap_leave_ticks(const heap_t *heap)
{
  if (heaps_round_at == heap)
    heaps_round_at = heap->next;
}

static void tick_granules(uint64_t now_ms)
{
  if (!granular_unpaid_bytes() || !lock_attempt(&heaps_lock))
    return;
  bool waits = false;
  heap_t *heap = heaps_round_at ? heaps_round_at : heaps_first();
  for (size_t i = HEAPS_PER_LOOK; heap && i && !(is_ticked_here(heap) && granular_tick(heap, now_ms, &waits)); i--)
    heap = heap->next;
  heaps_round_at = heap;
  __atomic_store_n(&granules_are_due, heap != NULL, __ATOMIC_RELAXED);
  lock_release(&heaps_lock);
}

/* Does a part of each purge that is under way, so that no call is long. */
static void go_on_purging(uint64_t now_ms)
{
  static step_budget_t budget;
  size_t steps = step_budget_take(&budget, now_ms);
  if (space_purge_is_under_way(&space_of_process))
    space_purge_step(&space_of_process, steps);
  if (__atomic_load_n(&granules_are_due, __ATOMIC_RELAXED))
    tick_granules(now_ms);
  if (bins_tick_is_under_way())
    tick_bins(steps, now_ms);
}

/* The process's ticks follow that of its space, once in an epoch, by the first thread that looks. Later calls of any thread
 * share the work that it begins, so that no call is long. */
static void begin_tick_if_due(uint64_t now)
{
  if (!space_tick(&space_of_process, now))
    return;
  huge_unmap_left();
  space_destroy_left();
  bins_begin_tick();
  __atomic_store_n(&granules_are_due, true, __ATOMIC_RELAXED);
}

COLD static void begin_helpers_due(void)
{
  if (observer)
    observer->tick();
  background_begin_due();
}

/* While a background thread returns memory, a thread ticks only its own caches. */
COLD void heap_look_at_clock(thread_t *thread)
{
  if (unlikely(allowance_left(&thread->allowance) < 0))
    heap_fit_allowance(thread);
  if (unlikely(__atomic_load_n(&helpers_due, __ATOMIC_RELAXED)))
    begin_helpers_due();
  if (settings.purge_delay_ms == PURGE_NEVER)
    return;
  uint64_t now = os_now_ms();
  if (now - thread->looked_ms >= settings.purge_delay_ms / TICKS_PER_DELAY) {
    thread->looked_ms = now;
    tick_thread(thread);
  }
  /* A thread with caches of many heaps is not done at one look, so the rest is left to the next. */
  if (thread_tick_is_under_way(thread))
    thread_tick_caches(thread, CACHES_PER_LOOK, tick_magazines);
  if (background_looks(now))
    return;
  begin_tick_if_due(now);
  go_on_purging(now);
}

/* ---- by the background thread ---- */

/* Regions of units with bins are ticked with these. One without bins is ticked by its frees, and here. */
static bool tick_region_without_bins(heap_t *heap, uint64_t now)
{
  bool has_units = heap_own_arena(heap) && !heap_is_guest(heap) && !heap->lock.solo && !heap_bin_from(heap, 1);
  if (!has_units || !space_wants_ticks(&heap->region.space))
    return false;
  space_tick_region(&heap->region.space, now);
  return space_wants_ticks(&heap->region.space);
}

/* Returns whether a region has something left. A heap may end between two stretches of the list (heap_leave_ticks()). */
static bool tick_regions(uint64_t now)
{
  bool left = false, goes_on;
  do {
    LOCKED(&heaps_lock);
    heap_t *heap = heaps_round_at ? heaps_round_at : heaps_first();
    for (size_t i = HEAPS_PER_LOOK; heap && i; heap = heap->next, i--)
      if (is_ticked_here(heap))
        while (granular_tick(heap, now, &left)) {}
      else
        left |= tick_region_without_bins(heap, now);
    heaps_round_at = heap;
    goes_on = heap != NULL;
  } while (goes_on);
  __atomic_store_n(&granules_are_due, false, __ATOMIC_RELAXED);
  return left;
}

static void tick_all_bins(uint64_t now)
{
  while (bins_tick_is_under_way()) {
    LOCKED(&heaps_lock);
    bins_tick(BINS_PER_LOOK, 1, now);
  }
}

static void purge_all_steps(void)
{
  while (space_purge_is_under_way(&space_of_process))
    space_purge_step(&space_of_process, 1);
}

/* Caches come first: their blocks are then idle in their slabs and wait there for a whole delay. */
bool heap_tick_all(void)
{
  if (settings.purge_delay_ms == PURGE_NEVER)
    return false;
  uint64_t now = os_now_ms();
  bool left = threads_reach_unused(TICKS_PER_DELAY, heap_flush_magazines);
  begin_tick_if_due(now);
  purge_all_steps();
  tick_all_bins(now);
  purge_all_steps();
  left |= tick_regions(now);
  return left || bins_are_due() || space_has_left(&space_of_process);
}

/* The only thread of a process finds blocks in its own magazines (heap_borrow()). So it flushes only classes in which that may
 * end a slab. A process that lives at its limit would otherwise refill all magazines from the slabs after each refusal. */
static void flush_to_end_slabs(magazines_t *magazines, bin_t *bin)
{
  size_t blocks = magazines_most(magazines, bin);
  if (!blocks || !bin_may_end_slab(bin, blocks))
    return;
  magazines_flush(magazines, bin);
  bin_drain(bin);
}

static bool has_one_thread(const heap_t *heap)
{
  return !(heap->flags & HEAP_WITHIN_REACH) && __atomic_load_n(&bin_threads, __ATOMIC_RELAXED) == 1;
}

/* The order is that of a free: magazines go to the bins, then the bins empty their depots and close their slabs. */
void heap_drain(heap_t *heap, const char *call, bool all)
{
  if (heap_is_checked(heap))
    heads->release_withheld(heap, call);
  thread_t *thread = thread_current();
  magazines_t *magazines = heap_enter(heap, thread);
  bool keeps = magazines && !all && has_one_thread(heap);
  if (magazines && !keeps) {
    heap_flush_magazines(magazines, heap);
    heap_leave(heap, thread);
  }
  if (heap_is_default(heap) && thread)
    large_flush_spares(thread);
  if (heap->flags & HEAP_WITHIN_REACH) /* implies HEAP_CACHED */
    threads_reach(&heap->reach, heap_flush_magazines);
  if (heap_has_granules(heap))
    granular_drain(heap);
  FOR_EACH_BIN(bin, heap) {
    bin_drain(bin);
    if (keeps && bin_has_magazines(bin))
      flush_to_end_slabs(magazines, bin);
  }
  if (keeps)
    heap_leave(heap, thread);
  if (!heap_is_guest(heap))
    space_destroy_left();
}

static size_t purge_slabs(heap_t *heap)
{
  size_t bytes = 0;
  FOR_EACH_BIN(bin, heap)
    bytes += bin_purge(bin);
  return bytes;
}

/* A heap with a raised budget may have slabs beside its granules. */
static size_t trim_granular(heap_t *heap, size_t keep)
{
  heap_drain(heap, "pool_heap_trim", true);
  size_t purged = granular_purge(heap, keep);
  if (!keep)
    purged += purge_slabs(heap);
  return purged;
}

/* A heap without a region counts what its own slabs left in the process's space, not what was there before. Draining itself
 * returns memory if the purge delay is 0, which counts too. */
size_t heap_trim(heap_t *heap, size_t keep)
{
  if (!manager_is_up())
    return 0;
  if (heap_has_granules(heap))
    return trim_granular(heap, keep);
  bool all = heap_is_default(heap);
  size_t before = all || heap->region.kind ? 0 : space_figures(heap->space).dirty_bytes;
  size_t purged = all ? space_destroy_left() : 0;
  uint64_t purged_before = space_figures(heap->space).purged_bytes;
  heap_drain(heap, "pool_heap_trim", true);
  purged += (size_t)(space_figures(heap->space).purged_bytes - purged_before);
  /* Mappings and records are the process's, so only a trim of the default heap returns them. */
  purged += all ? huge_unmap_left() + metadata_trim() + (observer ? observer->trim() : 0) : 0;
  purged += space_purge(heap->space, before + keep);
  if (!keep)
    purged += purge_slabs(heap);
  if (!heap->region.kind)
    __atomic_fetch_add(&heap->purged_bytes, purged, __ATOMIC_RELAXED);
  return purged;
}

/* ---- changed budgets ---- */

static bool is_below(const heap_t *heap, const heap_t *ancestor)
{
  do
    heap = heap->parent;
  while (heap && heap != ancestor);
  return heap != NULL;
}

/* Drains the bins of descendants, except single-threaded ones, whose owner may be at work. The lock keeps their records in
 * place. Magazines are left alone: a heap that is ending has none any more, and must not get new ones. */
static void drain_descendants(const heap_t *heap)
{
  LOCKED(&heaps_lock);
  for (heap_t *other = heaps_first(); other; other = other->next)
    if (!other->lock.solo && is_below(other, heap)) {
      if (heap_has_granules(other))
        granular_drain(other);
      FOR_EACH_BIN(bin, other)
        bin_drain(bin);
    }
}

/* A limit below the held bytes is set only after enough was returned, because held <= limit holds at all times. The heap gives
 * up its own idle memory first, then its descendants do. */
static bool set_limit(heap_t *heap, size_t budget)
{
  return budget_set_limit(&heap->budget, budget, heap_is_default(heap) ? heap_of_nobody_bytes() : 0);
}

bool heap_set_budget(heap_t *heap, size_t budget)
{
  if (set_limit(heap, budget))
    return true;
  heap_trim(heap, 0);
  if (set_limit(heap, budget))
    return true;
  drain_descendants(heap);
  return set_limit(heap, budget);
}
