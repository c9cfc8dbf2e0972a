/* SPDX-License-Identifier: MIT
 *
 * A fork in a process with threads takes every lock and closes every gate, so that the child finds nothing half done.
 * docs/DESIGN.md (The order of locks) has the order; a new lock belongs in both places. */
#include "bin/due.h"
#include "heap/debug_hooks.h"
#include "heap/helper_threads.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "os/lock.h"
#include "space/gate.h"
#include "space/metadata.h"

lock_t startup_lock;

/* A single-threaded process forks without the locks: a signal handler may fork while the interrupted call holds a lock, and
 * that call goes on in the child and releases it. Only glibc reports that there is one thread; with other C libraries such a
 * fork deadlocks. The flag is thread-local because several threads may fork at once. */
static THREAD_LOCAL bool fork_locked;

bool fork_lost_threads;

static void pass_heaps(void)
{
  for (heap_t *heap = heaps_first(); heap; heap = heaps_shared_from(heap->next))
    closure_pass(&heap->lock);
}

static void pass_bins(void)
{
  for (heap_t *heap = heaps_first(); heap; heap = heaps_shared_from(heap->next))
    FOR_EACH_BIN(bin, heap)
      closure_pass(&bin->lock);
}

static void pass_depots(void)
{
  for (bin_t *bin = bins_with_depots; bin; bin = bin->with_depots_next)
    for (unsigned i = 0; i < depots_shards(&bin->depots); i++)
      closure_pass(&depot_at(&bin->depots, i)->lock);
}

/* Heaps that have a region of units, linked by pass_budgets(): the region locks need no second walk over all heaps. */
static heap_t *with_region;

/* New heaps precede older ones in the list, so children come before their parents. The default heap is first in the list but
 * may be the parent of any, so it is passed last. */
static void pass_budgets(void)
{
  with_region = NULL;
  for (heap_t *heap = heaps_first()->next; heap; heap = heap->next) {
    closure_pass(&heap->budget.lock);
    if (heap->space == &space_of_process || heap_has_granules(heap))
      continue;
    heap->region.next = with_region;
    with_region = heap;
  }
  closure_pass(&heaps_first()->budget.lock);
}

static void for_each_region_lock(void (*act)(lock_t *))
{
  for (heap_t *heap = with_region; heap; heap = heap->region.next)
    act(&heap->region.space.lock);
}

/* A lost thread may have filled a depot and not yet made the bin due (D2). */
static void reset_depots(bin_t *bin)
{
  bool filled = false;
  for (unsigned i = 0; i < depots_shards(&bin->depots); i++) {
    depot_t *depot = depot_at(&bin->depots, i);
    lock_reset(&depot->lock);
    filled |= depot_seems_filled(depot);
  }
  if (filled && !bin->due)
    bin_become_due(bin);
}

/* A lock may be in the state in which a lost thread left it just before it would have seen that its kind is closed. */
static void reset_heaps(void)
{
  for (heap_t *heap = heaps_first(); heap; heap = heap->next) {
    lock_reset(&heap->budget.lock);
    if (heap->lock.solo)
      continue;
    lock_reset(&heap->lock);
    FOR_EACH_BIN(bin, heap)
      lock_reset(&bin->lock);
  }
  for (bin_t *bin = bins_with_depots; bin; bin = bin->with_depots_next)
    reset_depots(bin);
}

static lock_t *const leaves[] = {&bin_magazines_lock, &space_of_process.lock, &space_slots_lock, &guests_lock};
enum { LEAVES = sizeof leaves / sizeof *leaves };

/* The lock of the metadata is last, because all others may be held when it is taken. */
static size_t leaf_count(void) { return LEAVES + (observer ? observer->lock_count : 0) + 1; }

static lock_t *leaf(size_t i)
{
  return i < LEAVES ? leaves[i] : i + 1 < leaf_count() ? observer->locks[i - LEAVES] : &metadata_lock;
}

/* Takes everything in nesting order, so that no thread waits for the fork while the fork waits for it. */
static void lock_everything(void)
{
  gate_close(GATE_LIFE);
  lock_acquire(&startup_lock);
  lock_acquire(&heaps_lock);
  if (heap_dependents)
    heap_dependents->fork_prepare();
  gate_close(GATE_ARRAYS);
  gate_close(GATE_ENDS);
  lock_acquire(&threads_lock);
  gate_close(GATE_HEADED);
  gate_close(GATE_LARGE);
  closure_close(LOCKS_OF_HEAPS);
  pass_heaps();
  closure_close(LOCKS_OF_BINS);
  pass_bins();
  closure_close(LOCKS_OF_DEPOTS);
  pass_depots();
  lock_acquire(&bins_due_lock);
  closure_close(LOCKS_OF_BUDGETS);
  pass_budgets();
  gate_close(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  for_each_region_lock(lock_acquire);
  for (size_t i = 0; i < leaf_count(); i++)
    lock_acquire(leaf(i));
}

/* Opens what lock_everything() took, except object pools, which are open already. Only one order matters: regions are opened
 * before the list of heaps. A heap that is created once the list is open was never locked here and must not be opened. */
static void open_everything(void (*open)(lock_t *))
{
  for (size_t i = leaf_count(); i--;)
    open(leaf(i));
  for_each_region_lock(open);
  open(&huge_lock);
  gate_open(GATE_SYSTEM, open);
  closure_open(LOCKS_OF_BUDGETS, open);
  open(&bins_due_lock);
  closure_open(LOCKS_OF_DEPOTS, open);
  closure_open(LOCKS_OF_BINS, open);
  closure_open(LOCKS_OF_HEAPS, open);
  gate_open(GATE_LARGE, open);
  gate_open(GATE_HEADED, open);
  open(&threads_lock);
  gate_open(GATE_ENDS, open);
  gate_open(GATE_ARRAYS, open);
  open(&heaps_lock);
  open(&startup_lock);
  gate_open(GATE_LIFE, open);
}

static void fork_prepare(void)
{
  fork_locked = !os_single_threaded();
  helpers_fork_prepare(fork_locked && (background_is_there() || (observer && observer->has_helper())));
  if (fork_locked)
    lock_everything();
  space_note_fork();
  if (observer)
    observer->fork_prepare();
}

/* A single-threaded process locked nothing. Object pools are opened first, while heaps_lock keeps out new ones. */
static void fork_parent(void)
{
  if (!fork_locked)
    return;
  if (heap_dependents)
    heap_dependents->fork_parent();
  open_everything(lock_release);
  if (observer)
    observer->fork_parent();
}

/* The locks are reset first, because giving back the spares of lost threads takes some of them. */
static void fork_child(void)
{
  if (observer)
    observer->fork_child();
  if (!fork_locked)
    return;
  fork_lost_threads = true;
  if (heap_dependents)
    heap_dependents->fork_child();
  open_everything(lock_reset);
  reset_heaps();
  threads_forget_others(large_give_lost_spares);
  bool exports = observer && observer->fork_child_of_many();
  helpers_fork_child((exports ? HELPER_EXPORT : 0) | (background_fork_child() ? HELPER_BACKGROUND : 0));
}

/* The exchange decides which thread registers: registering may allocate and call this function again. */
void fork_watch(void)
{
  static uint32_t watched;
  if (!__atomic_exchange_n(&watched, 1, __ATOMIC_RELAXED))
    os_on_fork(fork_prepare, fork_parent, fork_child);
}
