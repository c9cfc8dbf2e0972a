/* SPDX-License-Identifier: MIT
 * Thread exit, and forks, as POSIX has them, with glibc's particulars. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"
#include "os/thread_local.h"
#include <errno.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static pthread_key_t exit_key;
static bool exit_key_exists;

/* Destructors run in the order of their keys, in four rounds. A late key runs behind most others in each round, even behind a
 * destructor that allocates for the first time in the last round. */
#ifdef __GLIBC__
/* glibc returns the lowest free key. The first 32 keys have their values in the thread itself, and glibc allocates for others.
 * So this takes the last free one of the 32, and deletes the keys that it created to find it. */
static bool create_late_key(pthread_key_t *late, void (*at_exit)(void *))
{
  enum { KEYS_OF_A_THREAD = 32 };
  pthread_key_t keys[KEYS_OF_A_THREAD];
  int count = 0, best;
  while (count < KEYS_OF_A_THREAD && pthread_key_create(&keys[count], at_exit) == 0)
    count++;
  for (best = count - 1; best > 0 && keys[best] >= KEYS_OF_A_THREAD;)
    best--;
  for (int i = 0; i < count; i++)
    if (i == best)
      *late = keys[i];
    else
      pthread_key_delete(keys[i]);
  return count > 0;
}
#else
/* musl has 128 keys, and returns the next free one. This holds at most two at a time, so other threads find one. */
static bool create_late_key(pthread_key_t *late, void (*at_exit)(void *))
{
  pthread_key_t next;
  if (pthread_key_create(late, at_exit) != 0)
    return false;
  while (pthread_key_create(&next, at_exit) == 0) {
    pthread_key_t other = next > *late ? *late : next;
    bool is_last = other == next;
    pthread_key_delete(other);
    if (is_last)
      break;
    *late = next;
  }
  return true;
}
#endif

bool os_on_thread_exit(void (*at_exit)(void *))
{
  int saved = errno;
  exit_key_exists = create_late_key(&exit_key, at_exit);
  errno = saved;
  return exit_key_exists;
}

bool os_thread_on_exit(void *argument)
{
  int saved = errno;
  bool done = exit_key_exists && pthread_setspecific(exit_key, argument) == 0;
  errno = saved;
  return done;
}

#ifdef __GLIBC__
/* glibc 2.35 and later block all signals before they free their memory of an exiting thread. */
static bool signals_are_blocked_at_the_end(void)
{
  const char *version = gnu_get_libc_version();
  return version[0] == '2' && version[1] == '.' && strtol(version + 2, NULL, 10) >= 35;
}
#else
static bool signals_are_blocked_at_the_end(void) { return false; }
#endif

/* A single unblocked signal proves that the thread is not at its end. Six signals are tested, since few programs block all of
 * them. If the state is unknown, the result is true, which is always safe. */
bool os_thread_may_be_over(void)
{
  sigset_t blocked;
  if (!signals_are_blocked_at_the_end() || pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0)
    return true;
  return sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1) &&
         sigismember(&blocked, SIGSEGV) && sigismember(&blocked, SIGCHLD) && sigismember(&blocked, SIGALRM);
}

/* glibc's fork() takes the lock of all streams after the handlers have run, and a thread that opens or closes a stream
 * allocates under it. The two orders would deadlock, so this takes the streams' lock first. It is recursive, and glibc resets
 * it in the child. Other C libraries do not have it. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

static void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
static THREAD_LOCAL bool fork_locked; /* one for each thread, because several may fork at once */

/* glibc's list of fork handlers has a lock, and grows by realloc() under it. fork() takes that lock again after our handler,
 * which holds the manager's locks. So no thread may be in the list then (api/loader.c). This mutex is the first in the
 * order of locks, because its holder may allocate. */
static pthread_mutex_t registrations = PTHREAD_MUTEX_INITIALIZER;

bool os_hold_off_forks(void)
{
  if (fork_locked)
    return false; /* a fork handler registers another one, and the fork holds the lock */
  pthread_mutex_lock(&registrations);
  return true;
}

void os_let_fork(void) { pthread_mutex_unlock(&registrations); }

static bool has_streams(void) { return _IO_list_lock && _IO_list_unlock; }

/* A single thread needs no locks. */
static void prepare_fork(void)
{
  fork_locked = !os_single_threaded();
  if (fork_locked)
    pthread_mutex_lock(&registrations);
  if (fork_locked && has_streams())
    _IO_list_lock();
  fork_prepare();
}

static void end_in_parent(void)
{
  bool locked = fork_locked;
  fork_parent();
  if (locked && has_streams())
    _IO_list_unlock();
  fork_locked = false;
  if (locked)
    pthread_mutex_unlock(&registrations);
}

static void end_in_child(void)
{
  registrations = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  fork_locked = false;
  fork_child();
}

/* glibc removes a library's handlers when exit() finalizes it. A fork between two handlers would then never release the locks.
 * So the handlers belong to no library. The manager is never unloaded before the process ends. */
#ifdef __GLIBC__
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
static int register_handlers(void) { return __register_atfork(prepare_fork, end_in_parent, end_in_child, NULL); }
#else
static int register_handlers(void) { return pthread_atfork(prepare_fork, end_in_parent, end_in_child); }
#endif

bool os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  int saved = errno;
  fork_prepare = prepare;
  fork_parent = parent;
  fork_child = child;
  bool done = register_handlers() == 0;
  errno = saved;
  return done;
}
