/* SPDX-License-Identifier: MIT */
#include "heap/block_source.h"
#include "heap/debug_hooks.h"
#include "heap/helper_threads.h"
#include "heap/life.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
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
    background_tick = heap_tick_all;
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
