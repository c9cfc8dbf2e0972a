/* SPDX-License-Identifier: MIT */
#include "thread.h"
#include "metadata.h"

THREAD_LOCAL thread_t *thread_self;
void (*thread_flush)(thread_t *thread);
lock_t threads_lock;

static thread_t *live, *unused;

/* The record of a thread that has ended; only its address counts. */
static thread_t ended;

static uint32_t count;

static void count_threads(void) { __atomic_store_n(&pool_threads, count ? count : 1, __ATOMIC_RELAXED); }

static thread_t *record_take(void)
{
  lock_acquire(&threads_lock);
  thread_t *thread = unused;
  if (thread)
    unused = thread->next;
  lock_release(&threads_lock);
  return thread ? thread : metadata_take(sizeof *thread, 64);
}

static void live_enter(thread_t *thread)
{
  lock_acquire(&threads_lock);
  thread->previous = NULL;
  thread->next = live;
  if (live)
    live->previous = thread;
  live = thread;
  count++;
  count_threads();
  lock_release(&threads_lock);
}

static void live_leave(thread_t *thread)
{
  lock_acquire(&threads_lock);
  *(thread->previous ? &thread->previous->next : &live) = thread->next;
  if (thread->next)
    thread->next->previous = thread->previous;
  thread->next = unused;
  unused = thread;
  count--;
  count_threads();
  lock_release(&threads_lock);
}

static void thread_end(void *argument)
{
  thread_t *thread = argument;
  thread_self = &ended;
  thread_flush(thread);
  live_leave(thread);
}

COLD static thread_t *thread_start(void)
{
  thread_t *thread = record_take();
  if (!thread)
    return NULL;
  magazines_init(&thread->front, &magazine_front_cache, thread);
  thread->heaps = NULL;
  live_enter(thread);
  thread_self = thread;                     /* first: arranging the exit may allocate */
  if (!os_thread_on_exit(thread_end, thread))
    thread_end(thread);
  return thread_self == &ended ? NULL : thread;
}

thread_t *thread_current(void)
{
  thread_t *thread = thread_self;
  if (likely(thread && thread != &ended))
    return thread;
  return thread ? NULL : thread_start();
}

thread_t *threads_first(void) { return live; }

void threads_forget_others(void)
{
  live = thread_self == &ended ? NULL : thread_self;
  if (live)
    live->next = live->previous = NULL;
  count = live != NULL;
  count_threads();
}
