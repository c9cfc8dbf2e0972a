/* SPDX-License-Identifier: MIT */
#include "heap/apart.h"
#include "heap/debug_hooks.h"
#include "heap/dying.h"
#include "heap/helper_threads.h"
#include "heap/life.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"

bool slow_paths_are_observed;

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
  default_heap.flags |= HEAP_REACHED;
  threads_default_is_reached = true;
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
    tool_settle();
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
