/* SPDX-License-Identifier: MIT
 * Thread exit, forks, and waiting, on Linux with glibc or another libc that has pthread_atfork(). */
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

/* ---- waiting ---- */

/* Values of <linux/futex.h>: a C library may come without the kernel's headers. */
enum { WAIT_PRIVATE = 0 | 1 << 7, WAKE_PRIVATE = 1 | 1 << 7 };

/* The kernel's timespec. A C library for 32-bit machines may have 64-bit fields in its own. */
typedef struct wait_time {
  long seconds, nanoseconds;
} wait_time_t;

/* Interrupted waits need no loop here, because callers read the word again. */
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

/* The stack also holds the thread-local variables, including those of the program. */
enum { OWN_STACK = 256 << 10 };

/* The thread inherits a mask that blocks all signals. The creator waits until the thread has made the system calls of its
 * start, because the program may forbid itself those the next moment. */
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
    if (error && small) /* more thread-local data than that */
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

/* Values of <linux/membarrier.h>, which some systems lack. */
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

/* ---- counting threads ---- */

/* The kernel counts an ended first thread while others live. Its state is the state of the process. */
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
  name[length > 0 ? length - 1 : 0] = '\0'; /* without the newline */
  for (size_t i = 0; i < OS_HELPERS; i++)
    if (!strcmp(name, os_helper_names[i]))
      return true;
  return false;
}

/* Reads the directory by getdents64, because opendir() would allocate. */
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
