/* SPDX-License-Identifier: MIT
 * A thread's record begins at its first slow path (thread_start()) and ends in the destructor of a key (thread_end()).
 * Meanwhile it is in the list of live records or, in the child of a fork, of lost ones. */
#include "thread/thread.h"
#include "base/fill.h"
#include "base/list.h"
#include "space/metadata.h"

/* A free without a record asks for one twice. At a thread's end glibc frees up to 2,000 stacks, with four blocks each. */
enum { FREES_ALONE = 16384 };

#define NO_MAGAZINES [0 ... CLASS_CACHED] = {.below = MAGAZINE_SENTINEL}

/* The default heap's cache is in thread-local memory or in the thread's record (magazines.h). */
#ifdef TIDEPOOL_CACHE_IN_TLS
NAMED_IN_ASSEMBLY THREAD_LOCAL cache_t default_cache = {.of = {NO_MAGAZINES}};
enum { RECORD_BYTES = sizeof(thread_t) };
static cache_t *own_cache(thread_t *thread) { return (void)thread, &default_cache; }
static void use_cache(cache_t *cache) { (void)cache; }
static void leave_cache(void) { magazines_forget(&default_cache); }

/* The fast paths use a fixed address, so the contents move away from it, and back. */
static cache_t *hidden_cache(thread_t *thread)
{
  if (!thread->hidden)
    thread->hidden = metadata_take(sizeof *thread->hidden, METADATA_ALIGNMENT);
  return thread->hidden;
}
#else
static cache_t no_cache = {.of = {NO_MAGAZINES}};
THREAD_LOCAL cache_t *default_cache = &no_cache;
enum { RECORD_BYTES = sizeof(thread_t) + sizeof(cache_t) };
static cache_t *own_cache(thread_t *thread) { return (cache_t *)(thread + 1); }
static void use_cache(cache_t *cache) { default_cache = cache; }
static void leave_cache(void) { default_cache = &no_cache; }
static cache_t *hidden_cache(thread_t *thread) { return own_cache(thread); }
#endif

static thread_t no_thread = {.heap_at = {NOT_A_HEAP}};
THREAD_LOCAL thread_t *thread_self = &no_thread;
static THREAD_LOCAL bool without;         /* a record: the thread is ending, or its end cannot be observed */
static THREAD_LOCAL uint16_t frees_alone; /* frees of a thread without a record, in a process with several threads */

static void (*end_thread)(void), (*end_last)(void);
static void (*flush_own)(thread_t *thread), (*flush_thread)(thread_t *thread);
static thread_t *live, *lost;

/* Where a record lies decides how long the fast path takes, with the same instructions: up to 1.8 times as long at multiples of
 * 64 bytes (docs/experiments.md, The place of a thread's record). */
enum { RECORD_ALIGNMENT = 2 << 10 };
static metadata_kind_t records = {.size = RECORD_BYTES, .alignment = RECORD_ALIGNMENT, .link = offsetof(thread_t, next)};
bool threads_default_within_reach;
static uint8_t next_number;
static uint32_t count;

/* At least 1, because it is a divisor. */
static void count_threads(void)
{
  __atomic_store_n(&bin_threads, count ? count : 1, __ATOMIC_RELAXED);
  allowances_divide(count);
}

/* ---- records ---- */

/* Reuses records of ended threads, which are never freed (T1). */
static thread_t *thread_record_take(void)
{
  LOCKED(&threads_lock);
  return metadata_take_kind(&records);
}

/* The list has the record before the thread uses it (T1). */
static void live_enter(thread_t *thread)
{
  LOCKED(&threads_lock);
  LIST_PUSH(live, thread, next, previous);
  count++;
  count_threads();
  allowance_begin(&thread->allowance);
}

static void live_leave(thread_t *thread)
{
  thread_forget_caches(thread);
  allowance_end(&thread->allowance);
  LIST_REMOVE(live, thread, next, previous);
  metadata_give_kind(&records, thread);
  count--;
  count_threads();
}

/* ---- the beginning and the end of a thread ---- */

static void thread_end(void *argument)
{
  thread_t *thread = argument;
  thread_self = &no_thread;
  without = true;
  end_thread();
  flush_own(thread);
  lock_acquire(&threads_lock); /* a concurrent destruction of a heap takes its caches first, or finds them flushed */
  flush_thread(thread);
  leave_cache();
  live_leave(thread);
  bool last = !live;
  lock_release(&threads_lock);
  if (last)
    end_last();
}

void threads_watch_ends(void)
{
  static bool watched;
  if (!watched)
    watched = os_on_thread_exit(thread_end);
}

void threads_init(void (*end)(void), void (*own)(thread_t *thread), void (*flush)(thread_t *thread), void (*last)(void))
{
  end_thread = end;
  end_last = last;
  flush_own = own;
  flush_thread = flush;
  threads_watch_ends();
  threads_can_be_reached = os_can_fence_others();
}

/* Makes the calling thread's record. Returns NULL if there is no memory, or no way to flush its magazines when it ends. */
COLD static thread_t *thread_start(void)
{
  thread_t *thread = thread_record_take();
  if (!thread)
    return NULL;
  thread->number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
  magazines_init(&thread->default_magazines, own_cache(thread), thread->number, &thread->allowance, false);
  shared_clear(&thread->spares, sizeof thread->spares);
  thread->ready = threads_default_within_reach ? NULL : thread->default_magazines.cache;
  thread->counts = 0;
  thread->count_left = 0;
  thread->heap_at[0] = NOT_A_HEAP;
  live_enter(thread);
  bool alone = os_single_threaded();
  use_cache(thread->default_magazines.cache);
  thread_self = thread; /* first, because registering the end may allocate */
  /* The thread-local memory of the only thread lasts as long as the process, so it may continue if its end cannot be observed.
   * Other threads must not: their thread-local memory, with the manager's data, is freed when they end. */
  if (!os_thread_on_exit(thread) && !alone)
    thread_end(thread);
  return without ? NULL : thread;
}

/* A thread that has ended, or whose end cannot be observed, never gets another record, which would not be flushed. */
thread_t *thread_current(void)
{
  thread_t *thread = thread_self;
  if (likely(thread != &no_thread))
    return thread;
  return without ? NULL : thread_start();
}

/* A thread that has only freed so far gets no record if it may be at its end. One system call tests that, and then frees are
 * counted. In a process with one thread, no thread has ended. Without the test, every thread that only frees would take its
 * first blocks to the bins, at 95 ns each instead of 4 ns. */
COLD static thread_t *start_to_free(void)
{
  bool waits = !os_single_threaded() && !without && frees_alone < FREES_ALONE && (frees_alone || os_thread_may_be_over());
  frees_alone += waits;
  return waits ? NULL : thread_current();
}

thread_t *thread_current_to_free(void)
{
  thread_t *thread = thread_self;
  return likely(thread != &no_thread) ? thread : start_to_free();
}

/* ---- counting ---- */

/* Other threads that search a block meanwhile find it in one of the two places, under threads_lock. */
static void move_cache(thread_t *thread, cache_t *to)
{
  cache_t *from = thread->default_magazines.cache;
  LOCKED(&threads_lock);
  if (from != to)
    for (unsigned c = 0; c <= CLASS_CACHED; c++) {
      OWNER_STORE(to->of[c].top, from->of[c].top);
      OWNER_STORE(to->of[c].below, from->of[c].below);
    }
  __atomic_store_n(&thread->default_magazines.cache, to, __ATOMIC_RELAXED);
}

bool thread_start_counting(thread_t *thread, uint32_t profile)
{
  cache_t *hidden = hidden_cache(thread);
  if (!hidden)
    return false;
  if (!thread->counts) {
    move_cache(thread, hidden);
    leave_cache();
  }
  thread->counts = profile;
  thread->ready = NULL;
  thread_empty_slots(thread);
  return true;
}

void thread_stop_counting(thread_t *thread)
{
  cache_t *own = own_cache(thread);
  move_cache(thread, own);
  use_cache(own);
  thread->counts = 0;
  thread->ready = threads_default_within_reach ? NULL : own;
  thread_empty_slots(thread);
}

void thread_forget_own(void)
{
  thread_self = &no_thread;
  without = true;
  leave_cache();
}

/* ---- all threads ---- */

void threads_visit(struct pool_heap *heap, bool forget, threads_visit_fn *visit)
{
  LOCKED(&threads_lock);
  for (thread_t *thread = live; thread; thread = thread->next)
    thread_visit_cache(thread, heap, forget, visit);
}

bool threads_reach_unused(unsigned looks, threads_visit_fn *flush)
{
  if (!threads_can_be_reached)
    return false;
  LOCKED(&threads_lock);
  return threads_reach_unused_of(live, looks, flush);
}

void threads_drop_lost(struct pool_heap *heap, bool forget)
{
  LOCKED(&threads_lock);
  for (thread_t *thread = lost; thread; thread = thread->next)
    thread_drop_cache(thread, heap, forget);
}

thread_t *threads_first(void) { return live; }
thread_t *threads_first_lost(void) { return lost; }

thread_t *const *threads_list(void) { return &live; }
thread_t *const *threads_lost_list(void) { return &lost; }

/* The loaded magazines are in thread-local memory, which the next thread may get. Without memory for a copy, they do not
 * count. */
static void lose(thread_t *thread)
{
  static cache_t nothing;
  cache_t *copy = metadata_take(sizeof *copy, METADATA_ALIGNMENT);
  if (copy)
    *copy = *thread->default_magazines.cache;
  else
    magazines_init(&thread->default_magazines, &nothing, thread->number, NULL, false);
  thread->default_magazines.cache = copy ? copy : &nothing;
  thread->is_lost = true;
  thread->previous = NULL;
  thread->next = lost;
  lost = thread;
}

/* The calling thread may have no record, and then no thread is live. */
void threads_forget_others(void (*give)(thread_t *thread))
{
  for (thread_t *thread = live, *next; thread; thread = next) {
    next = thread->next;
    if (thread == thread_self)
      continue;
    give(thread);
    lose(thread);
  }
  live = thread_self == &no_thread ? NULL : thread_self;
  if (live)
    live->next = live->previous = NULL;
  count = live != NULL;
  count_threads();
  allowances_forget_others(live ? &live->allowance : NULL);
}
