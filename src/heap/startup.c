/* SPDX-License-Identifier: MIT
 * The process-wide state comes up, forks are watched, and a thread that ends the process is kept from what others hold. */
#include "bin/due.h"
#include "space/gate.h"
#include "heap/heap.h"
#include "space/metadata.h"
#include "option.h"
#include "misuse.h"
#include <errno.h>

static lock_t ready_lock;
static bool ready;         /* stored with release once everything below is set, read with acquire */

/* ---- forks ---- */

/* A process with one thread forks without the locks: the fork may come from a signal handler that interrupted a call which
 * holds one, and that call goes on in the child and opens it. Several threads may fork at once, so each knows for itself. */
static THREAD_LOCAL bool fork_locked;

static void for_each_bin_lock(const heap_t *heap, void (*act)(lock_t *))
{
  FOR_EACH_BIN(bin, heap)
    act(&bin->lock);
}

/* The newest come first in the list, so children before their parents, all before the default heap. */
static void for_each_budget_lock(void (*act)(lock_t *))
{
  for (heap_t *heap = heaps_first()->next; heap; heap = heap->next)
    act(&heap->budget.lock);
  act(&heaps_first()->budget.lock);
}

static void for_each_region_lock(void (*act)(lock_t *))
{
  for (heap_t *heap = heaps_first()->next; heap; heap = heap->next)
    act(&heap->own_space.lock);
}

static void acquire_heaps(void)
{
  for (heap_t *heap = heaps_first(); heap; heap = heaps_shared_from(heap->next)) {
    lock_acquire(&heap->lock);
    for_each_bin_lock(heap, lock_acquire);
  }
}

static void open_heaps(void (*open)(lock_t *))
{
  for (heap_t *heap = heaps_first(); heap; heap = heaps_shared_from(heap->next)) {
    for_each_bin_lock(heap, open);
    open(&heap->lock);
  }
}

static lock_t *const leaves[] = {&bin_magazines_lock, &space_of_process.lock, &space_slots_lock, &guests_lock, &metadata_lock};
enum { LEAVES = sizeof leaves / sizeof *leaves };

/* In the order in which they nest. */
static void lock_everything(void)
{
  gate_close(GATE_LIFE);
  lock_acquire(&ready_lock);
  lock_acquire(&heaps_lock);
  if (heap_dependents)
    heap_dependents->fork_prepare();
  gate_close(GATE_ARRAYS);
  lock_acquire(&threads_lock);
  gate_close(GATE_LARGE);
  acquire_heaps();
  lock_acquire(&bins_due_lock);
  for_each_budget_lock(lock_acquire);
  gate_close(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  for_each_region_lock(lock_acquire);
  for (size_t i = 0; i < LEAVES; i++)
    lock_acquire(leaves[i]);
}

/* The other way round, and so the bins before their heap, which makes none as long as it is locked: a heap or a bin that is made once
 * a list is open was never locked here, and may be locked by others. */
static void open_everything(void (*open)(lock_t *))
{
  for (size_t i = LEAVES; i--;)
    open(leaves[i]);
  for_each_region_lock(open);
  open(&huge_lock);
  gate_open(GATE_SYSTEM, open);
  for_each_budget_lock(open);
  open(&bins_due_lock);
  open_heaps(open);
  gate_open(GATE_LARGE, open);
  open(&threads_lock);
  gate_open(GATE_ARRAYS, open);
  open(&heaps_lock);
  open(&ready_lock);
  gate_open(GATE_LIFE, open);
}

static void fork_prepare(void)
{
  fork_locked = !os_single_threaded();
  if (fork_locked)
    lock_everything();
}

static void fork_parent(void)
{
  if (!fork_locked)
    return;
  if (heap_dependents)
    heap_dependents->fork_parent();
  open_everything(lock_release);
}

static void fork_child(void)
{
  if (!fork_locked)
    return;
  if (heap_dependents)
    heap_dependents->fork_child();
  open_everything(lock_reset);
  threads_forget_others(large_forget_spares);
}

/* ---- the end of the process ---- */

THREAD_LOCAL bool heap_is_dying;

/* A handler of SIGABRT that allocates, or asks for figures, must not wait for what this very thread holds. */
static void before_abort(void)
{
  heap_is_dying = lock_may_be_own = true;
  thread_abandon();
}

/* The last blocks that were had in this way, so that one of them can grow. */
enum { DYING_BLOCKS = 256 };
static struct { const void *block; size_t size; } dying_blocks[DYING_BLOCKS];
static unsigned dying_count;

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

/* Of a block of a class as the map says, of a run as its unit says; no lock is taken. 0: not known. */
size_t dying_usable_size(const void *block)
{
  const arena_t *arena = space_arena_at(window_slot_of(block));
  size_t c = class_map_of(block);
  for (unsigned i = 0; i < DYING_BLOCKS; i++)
    if (dying_blocks[i].block == block)
      return dying_blocks[i].size;
  if (c || !arena || arena->space != &space_of_process || unit_of(arena, block) >= arena_used_end(arena))
    return size_class_size(c);
  const run_t *run = run_of(arena, block);
  return run_kind(run) == RUN_LARGE && run->start == block ? run->size : 0;
}

/* ---- the beginning ---- */

static uint32_t watched;

/* As early as can be: handlers that were registered later run before ours, and may allocate. */
static void watch_forks(void)
{
  if (!__atomic_exchange_n(&watched, 1, __ATOMIC_RELAXED))
    os_on_fork(fork_prepare, fork_parent, fork_child);
}

COLD static bool bring_up(void)
{
  lock_acquire(&ready_lock);
  bool up = ready;
  if (!up) {
    option_read();
    up = space_init();
  }
  if (up && !ready) {
    default_heap.space = &space_of_process;
    default_heap.checked = settings.checked;
    default_heap.cached = !settings.checked;
    default_heap.plane = settings.checked ? BIN_PLANE_NONE : BIN_PLANE_DEFAULT;
    fatal_before_abort = before_abort;
    threads_init(heap_flush_thread);
    __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
  }
  lock_release(&ready_lock);
  watch_forks();   /* may allocate */
  return up;
}

bool manager_ready(void) { return likely(__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) || bring_up(); }

/* Nothing else: options stay open until the first use. As early as a library may in a program that it is linked into, and so before
 * constructors of the program that watch forks themselves. */
enum { FIRST_CONSTRUCTOR = 101 };
__attribute__((constructor(FIRST_CONSTRUCTOR))) static void start(void) { watch_forks(); }

/* Here, since every program of the static library has this file, and not each has the figures'. */
__attribute__((destructor)) static void finish(void)
{
  if (settings.stats_at_exit)
    heap_print_figures();
}
