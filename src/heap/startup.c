/* SPDX-License-Identifier: MIT */
#include "heap/dying.h"
#include "heap/helper_threads.h"
#include "heap/life.h"
#include "heap/observer.h"
#include "heap/tick.h"
#include "heap/tool_source.h"
#include "misuse.h"
#include "option.h"

bool slow_paths_are_observed;

heap_t default_heap = {.mark = HEAP_LIVE_MARK, .class_most = SIZE_CACHED, .name = "default"};

/* A handler of SIGABRT that allocates, or asks for figures, must not wait for what this very thread holds. */
static void before_abort(void)
{
  heap_is_dying = lock_may_be_own = true;
  thread_forget_own();
}

static const char *name_to_say(const heap_t *heap) { return heap == &default_heap ? NULL : heap->name; }

/* With background=2 the default heap is one within reach, as those with a budget are: its fast paths find nothing, and each
 * call goes on to the thread's cache of it. */
static void reach_default_if(void)
{
  if (settings.background != BACKGROUND_REACHES_ALL || !threads_can_be_reached || !default_heap.cached)
    return;
  default_heap.reached = default_heap.has_cache_slot = true;
  threads_default_is_reached = true;
}

/* The options are read first: the space depends on them. Should the window be refused, the next call tries again. Nothing under
 * the lock allocates. Everything is set before manager_came_up says so. */
COLD bool manager_bring_up(void)
{
  lock_acquire(&startup_lock);
  bool up = manager_came_up;
  if (!up) {
    option_read();
    if (!observer)
      option_refuse_debug();
    os_has_names = settings.names;
    tool_settle();
    up = space_init();
    allowances_init(settings.cache_bytes);
  }
  if (up && !manager_came_up) {
    default_heap.space = &space_of_process;
    default_heap.checked = settings.checked;
    default_heap.headed = settings.checked || settings.guarded || settings.sites;
    default_heap.cached = !default_heap.headed;
    default_heap.plane = default_heap.headed ? BIN_PLANE_NONE : BIN_PLANE_DEFAULT;
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
  }
  lock_release(&startup_lock);
  fork_watch(); /* may allocate */
  if (observer)
    observer->has_come_up(); /* and so may this, which is a block of a manager that has come up */
  background_begin_if();     /* and this */
  return up;
}

/* What must come before the program's own is registered here, and no more, because options can be set until the first use: the
 * fork handlers, and the key that tells of the end of a thread. A library may have no earlier priority. So in a program that it
 * is linked into this runs before constructors that register fork handlers themselves.
 *
 * The system is told here too that threads will be fenced. While there is one thread that takes a microsecond. Once there are
 * more the call waits until each processor has passed through the scheduler, which took the first allocation of a program 4 to
 * 40 ms. A library that is loaded beside threads waits here, where loading takes time anyway. manager_bring_up() asks again,
 * which costs nothing then. */
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
