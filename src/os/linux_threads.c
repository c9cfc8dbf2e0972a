/* SPDX-License-Identifier: MIT
 * The end of a thread, forks, and how threads wait for each other, on Linux with glibc or another libc that has
 * pthread_atfork(). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/linux_lines.h"
#include "os/os.h"
#include "os/thread_local.h"
#include <errno.h>
#include <limits.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_key_t exit_key;
static bool exit_key_exists;

/* Destructors run in the order of their keys, in four rounds. So the key is a late one: its destructor runs behind most others
 * in each round, even behind one that allocates for the first time in the last round. */
#ifdef __GLIBC__
/* A new key is the lowest that is free. The values of the first 32 are in the thread's own memory, and for those of others
 * glibc allocates; so the key is the last that is free among these, and all that were created to find it are deleted again. */
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
/* musl has 128, and a new key is the next one that is free behind the one before. Two are held at a time, so that other threads
 * find one, up to the last. */
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
/* From version 2.35 on glibc blocks all signals before it frees what it has for threads that have ended. */
static bool signals_are_blocked_at_the_end(void)
{
  const char *version = gnu_get_libc_version();
  return version[0] == '2' && version[1] == '.' && strtol(version + 2, NULL, 10) >= 35;
}
#else
static bool signals_are_blocked_at_the_end(void) { return false; }
#endif

/* A single unblocked signal proves that the thread is not at its end. Six signals are examined, since few programs block all of
 * them. Without an answer the result is true, which is always safe. */
bool os_thread_may_be_over(void)
{
  sigset_t blocked;
  if (!signals_are_blocked_at_the_end() || pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0)
    return true;
  return sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1) &&
         sigismember(&blocked, SIGSEGV) && sigismember(&blocked, SIGCHLD) && sigismember(&blocked, SIGALRM);
}

/* fork() of glibc takes the lock of all streams after the handlers have run, and a thread that opens or closes a stream
 * allocates under it. Taken in that order, the locks of the manager and of the streams would wait for each other; so the
 * streams' lock is taken first. It is recursive, and glibc resets it in the child. Other C libraries do not have it. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));

static void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
static THREAD_LOCAL bool fork_locked; /* several threads may fork at once */

/* glibc's list of fork handlers has a lock, under which it grows by realloc(). fork() takes that lock again after our handler,
 * which holds the locks of the manager. So nobody may be in the list then (api/fork_handlers.c). This lock is the first of all,
 * because a thread that holds it may allocate. */
static pthread_mutex_t registrations = PTHREAD_MUTEX_INITIALIZER;

bool os_hold_off_forks(void)
{
  if (fork_locked)
    return false; /* a handler that registers another one: the fork holds the lock */
  pthread_mutex_lock(&registrations);
  return true;
}

void os_let_fork(void) { pthread_mutex_unlock(&registrations); }

static bool has_streams(void) { return _IO_list_lock && _IO_list_unlock; }

/* In a process with one thread nobody else can hold the locks, so they are not taken. */
static void prepare_fork(void)
{
  fork_locked = !os_single_threaded();
  if (fork_locked)
    pthread_mutex_lock(&registrations);
  if (fork_locked && has_streams())
    _IO_list_lock();
  fork_prepare();
}

/* Opens the locks in reverse order. */
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

/* glibc removes the handlers of a library when exit() finalizes the library. A fork of another thread that was between two of
 * the handlers then never released what the first had locked. Handlers without a library stay. The manager is never unloaded
 * while the process goes on. */
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

/* ---- threads wait for each other ---- */

/* What the numbers are in <linux/futex.h>: a C library may come without the headers of the kernel. */
enum { WAIT_PRIVATE = 0 | 1 << 7, WAKE_PRIVATE = 1 | 1 << 7 };

/* How long the call takes a wait to be. A C library for machines of 32 bits may have given its own timespec 64. */
typedef struct wait_time {
  long seconds, nanoseconds;
} wait_time_t;

/* Interrupted waits and early returns need no loop here: the caller looks at the word again. */
void os_wait(uint32_t *word, uint32_t value, uint32_t most_us)
{
  const wait_time_t limit = {.seconds = most_us / 1000000, .nanoseconds = most_us % 1000000 * 1000L};
  int saved = errno;
  syscall(SYS_futex, word, WAIT_PRIVATE, value, most_us ? &limit : NULL, NULL, 0);
  errno = saved;
}

void os_wake(uint32_t *word)
{
  int saved = errno;
  syscall(SYS_futex, word, WAKE_PRIVATE, 1, NULL, NULL, 0);
  errno = saved;
}

const char *const os_helper_names[OS_HELPERS] = {[OS_EXPORT] = "tidepool export", [OS_BACKGROUND] = "tidepool purge"};

static struct {
  void (*run)(void);
  pthread_t thread;
  uint32_t is_up;
} own_threads[OS_HELPERS];

static void *run_thread(void *argument)
{
  os_helper_t which = (os_helper_t)(uintptr_t)argument;
  prctl(PR_SET_NAME, os_helper_names[which]);
  __atomic_store_n(&own_threads[which].is_up, 1, __ATOMIC_RELEASE);
  os_wake(&own_threads[which].is_up);
  own_threads[which].run();
  return NULL;
}

/* What is local to threads lies on it too, of the program as well. */
enum { OWN_STACK = 256 << 10 };

/* It has the signals blocked that its maker has blocked at its start: all. Its maker waits until it has made the calls of the
 * system that a thread begins with: the program may forbid itself those the next moment. */
int os_start_thread(os_helper_t which, void (*run)(void))
{
  int saved = errno;
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t *thread = &own_threads[which].thread;
  void *argument = (void *)(uintptr_t)which;
  own_threads[which].run = run;
  own_threads[which].is_up = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_attr_init(&attributes);
  if (!error) {
    bool small = pthread_attr_setstacksize(&attributes, OWN_STACK) == 0;
    error = pthread_create(thread, &attributes, run_thread, argument);
    if (error && small) /* where more is local to threads than that */
      error = pthread_create(thread, NULL, run_thread, argument);
    pthread_attr_destroy(&attributes);
  }
  while (!error && !__atomic_load_n(&own_threads[which].is_up, __ATOMIC_ACQUIRE))
    os_wait(&own_threads[which].is_up, 0, 0);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = saved;
  return error;
}

bool os_join_thread(os_helper_t which, unsigned most_ms)
{
  int saved = errno;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  uint64_t ns = (uint64_t)until.tv_nsec + most_ms % 1000 * UINT64_C(1000000);
  until.tv_sec += (time_t)(most_ms / 1000 + ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  bool joined = pthread_timedjoin_np(own_threads[which].thread, NULL, &until) == 0;
  errno = saved;
  return joined;
}

/* What the numbers are in <linux/membarrier.h>, which is not everywhere. */
enum { FENCE_EXPEDITED = 1 << 3, REGISTER_FENCE_EXPEDITED = 1 << 4 };

static bool membarrier(int command)
{
  int saved = errno;
  bool done = syscall(SYS_membarrier, command, 0, 0) == 0;
  errno = saved;
  return done;
}

bool os_can_fence_others(void) { return membarrier(REGISTER_FENCE_EXPEDITED); }
bool os_fence_others(void) { return membarrier(FENCE_EXPEDITED); }

/* ---- how many there are ---- */

/* The first thread is counted also when it has ended, as long as there are others. The state of all is said to be its own. */
unsigned os_threads(void)
{
  int saved = errno;
  char line[LINE_SIZE];
  lines_t lines = {.file = open_file("/proc/self/status")};
  unsigned threads = 0, ended = 0;
  while (lines.file >= 0 && !threads && next_line(&lines, line, sizeof line)) {
    ended |= !strncmp(line, "State:\tZ", 8);
    if (!strncmp(line, "Threads:\t", 9))
      for (const char *at = line + 9; *at >= '0' && *at <= '9'; at++)
        threads = threads * 10 + (unsigned)(*at - '0');
  }
  if (lines.file >= 0)
    close_file(lines.file);
  errno = saved;
  return threads - (ended && threads);
}

static bool was_started(const char *number)
{
  char path[64] = "/proc/self/task/", name[32] = "";
  if (*number < '0' || *number > '9')
    return false;
  strncat(path, number, sizeof path - sizeof "/comm" - strlen(path));
  strcat(path, "/comm");
  int file = open_file(path);
  ssize_t length = file >= 0 ? read_file(file, name, sizeof name - 1) : 0;
  if (file >= 0)
    close_file(file);
  name[length > 0 ? length - 1 : 0] = '\0'; /* the end of the line */
  for (size_t i = 0; i < OS_HELPERS; i++)
    if (!strcmp(name, os_helper_names[i]))
      return true;
  return false;
}

/* The folder is read as the kernel has it: opendir() would allocate. */
unsigned os_started_threads(void)
{
  struct {
    uint64_t unused[2];
    uint16_t length;
    uint8_t type;
    char name[];
  } * entry;
  _Alignas(uint64_t) char buffer[1024];
  int saved = errno, folder = open_file("/proc/self/task");
  unsigned count = 0;
  for (long size; folder >= 0 && (size = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;)
    for (long at = 0; at < size; at += entry->length) {
      entry = (void *)(buffer + at);
      count += was_started(entry->name);
    }
  if (folder >= 0)
    close_file(folder);
  errno = saved;
  return count;
}
