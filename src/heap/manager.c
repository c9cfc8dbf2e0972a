/* SPDX-License-Identifier: MIT
 * The start of the manager, its end, and forks. */
#include "bin/bin.h"
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include "heap/invalid.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
#include "os/lock.h"
#include "space/metadata.h"
#include "space/space.h"
#include <errno.h>

bool slow_paths_are_observed;
THREAD_LOCAL bool heap_is_dying;

heap_t default_heap = {.mark = HEAP_LIVE_MARK, .take = heap_take_plain, .class_most = SIZE_CACHED, .name = "default"};

/* A SIGABRT handler that allocates or asks for figures must not wait for a lock that this very thread holds. */
static void before_abort(void)
{
  heap_is_dying = lock_may_be_own = true;
  thread_forget_own();
}

static const char *name_to_say(const heap_t *heap) { return heap == &default_heap ? NULL : heap->name; }

/* The default heap is within reach with background=2: each call skips the fast path and uses the thread's cache of it. */
static void reach_default_if(void)
{
  if (settings.background != BACKGROUND_REACHES_ALL || !threads_can_be_reached || !(default_heap.flags & HEAP_CACHED))
    return;
  default_heap.flags |= HEAP_WITHIN_REACH;
  threads_default_within_reach = true;
}

/* The options are read first, because the space depends on them. If the window is refused, the next call tries again. Nothing
 * under the lock allocates. manager_came_up is set last. */
COLD bool manager_bring_up(void)
{
  lock_acquire(&startup_lock);
  bool up = manager_came_up;
  if (!up) {
    option_read(observer != NULL);
    os_has_names = settings.names;
    tool_decide();
    up = space_init();
    allowances_init(settings.cache_bytes);
  }
  if (up && !manager_came_up) {
    default_heap.space = &space_of_process;
    default_heap.flags = settings.checked                     ? POOL_HEAP_CHECKED
                         : settings.guarded || settings.sites ? POOL_HEAP_SITES
                                                              : HEAP_CACHED;
    if (!tool_begin_if(&default_heap) && observer)
      observer->begin_heap(&default_heap, settings.guarded);
    fatal_before_abort = before_abort;
    fatal_heap_name = name_to_say;
    if (observer)
      observer->bring_up();
    heap_size_depots(os_processors());
    threads_init(heap_end_of_thread, heap_flush_own, heap_flush_thread, background_note_last);
    reach_default_if();
    __atomic_store_n(&manager_came_up, true, __ATOMIC_RELEASE);
    if (default_heap.take == heap_take_plain)
      __atomic_store_n(&default_heap.take, NULL, __ATOMIC_RELEASE);
  }
  lock_release(&startup_lock);
  fork_watch(); /* may allocate */
  if (observer)
    observer->has_come_up(); /* may allocate, from a manager that has come up */
  background_begin_if();     /* may allocate */
  return up;
}

/* Heaps other than the default one needed the manager at their creation, or never. */
bool heap_is_ready(const heap_t *heap) { return !heap_is_default(heap) || manager_ready(); }

/* Only what must precede the program's own constructors is registered here: the fork handlers, and the key that reports the end
 * of a thread. Options can still be set until the first use. A library may have no earlier priority. Constructors of a program
 * that links it run later.
 *
 * The system is also told here that threads will be fenced. That takes a microsecond while there is one thread. If there are
 * more, the call waits until each processor has passed through the scheduler, which delayed a program's first allocation by 4
 * to 40 ms. A library that is loaded beside threads waits here, where loading takes time anyway. manager_bring_up() asks again,
 * at no cost. */
enum { FIRST_CONSTRUCTOR = 101 };
__attribute__((constructor(FIRST_CONSTRUCTOR))) static void start(int argument_count, char **arguments, char **variables)
{
  (void)argument_count, (void)arguments;
  fork_watch(); /* first: a fork while the lock is held must know of it */
  lock_acquire(&startup_lock);
  threads_watch_ends();
  lock_release(&startup_lock);
  os_can_fence_others();
  os_note_environment(variables);
  tool_look();
  if (observer)
    observer->note_options(); /* last: it may allocate */
}

/* ---- a thread that ends the process ----
 *
 * Nothing here takes a lock of the manager or follows its lists: the thread may have been changing any of them. */

/* The last blocks that were allocated here, with their sizes: realloc() must know how much to copy. */
enum { DYING_BLOCKS = 256 };
static struct {
  const void *block;
  size_t size;
} dying_blocks[DYING_BLOCKS];
static unsigned dying_count;

/* Maps whole pages, because this thread may hold any lock of the manager. A size that cannot be rounded is refused. */
void *dying_allocate(size_t size, size_t alignment)
{
  size_t bytes = size <= PTRDIFF_MAX ? round_up(size + !size, os_page_size()) : 0;
  void *block = bytes ? os_map(bytes, max_size(alignment, os_page_size())) : NULL;
  if (!block)
    errno = ENOMEM;
  unsigned i = dying_count++ % DYING_BLOCKS;
  dying_blocks[i].block = block;
  dying_blocks[i].size = bytes;
  return block;
}

/* Reads the class map, or the descriptor of a run, without locks. Returns 0 if the size is not known. */
size_t dying_usable_size(const void *block)
{
  const arena_t *arena = space_arena_around(block);
  size_t c = class_map_of(block);
  for (unsigned i = 0; i < DYING_BLOCKS; i++)
    if (dying_blocks[i].block == block)
      return dying_blocks[i].size;
  if (c || !arena || arena->space != &space_of_process || unit_of(arena, block) >= arena_used_end(arena))
    return size_class_size(c);
  const run_t *run = run_of(arena, block);
  return run_kind(run) == RUN_LARGE && run->start == block ? run->size : 0;
}

/* ---- fork ----
 *
 * A fork in a process with threads takes each lock or closes its kind, so that the child finds nothing half done.
 * docs/DESIGN.md (The order of locks) has the order; a new lock belongs in both places. */

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

/* ---- places for wrong arguments ----
 *
 * Where a thread keeps the numbers and the text of its last wrong argument. */

/* The owner keeps this place; a later thread with the same address of its thread-local data shares it. */
static struct {
  const uint8_t *owner;
  thread_invalid_t place;
} without_record;

/* Only the owner ever finds its own address there and uses the place, so no memory order is needed. */
static bool claim_place(const uint8_t *last)
{
  const uint8_t *nobody = NULL;
  return __atomic_compare_exchange_n(&without_record.owner, &nobody, last, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
         nobody == last;
}

/* The manager is not brought up for this: that would make it too late to set options. */
thread_invalid_t *invalid_place(const uint8_t *last, bool claims)
{
  if (__atomic_load_n(&without_record.owner, __ATOMIC_RELAXED) == last)
    return &without_record.place;
  if (thread_is_usable(thread_self))
    return &thread_self->invalid;
  thread_t *thread = claims && manager_is_up() ? thread_current() : NULL;
  if (thread)
    return &thread->invalid;
  return claims && claim_place(last) ? &without_record.place : NULL;
}
