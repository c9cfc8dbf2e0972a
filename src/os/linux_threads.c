/* SPDX-License-Identifier: MIT
 * Waiting, fences, helper threads, and counting threads, on Linux. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/linux_lines.h"
#include "os/os.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static const char *const helper_names[OS_HELPERS] = {[OS_EXPORT] = "tidepool export", [OS_BACKGROUND] = "tidepool purge"};

static struct {
  void (*run)(void);
  pthread_t thread;
  uint32_t is_up;
} own_threads[OS_HELPERS];

static void *run_thread(void *argument)
{
  os_helper_t which = (os_helper_t)(uintptr_t)argument;
  prctl(PR_SET_NAME, helper_names[which]);
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
    if (!strcmp(name, helper_names[i]))
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
