/* SPDX-License-Identifier: MIT
 * Waiting, fences, helper threads, counting threads, and the processor that a thread runs on, on Linux. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/linux_lines.h"
#include "os/os.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
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

/* ---- processors ---- */

/* The kernel writes the numbers of the processor and of the node into each thread's rseq area (restartable sequences). glibc
 * 2.35 and later export where the area is. Linux 6.3 and later write the node. Without rseq, only x86-64 answers getcpu()
 * without a system call, which a program may have forbidden itself. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
enum { RSEQ_PROCESSOR = 0, RSEQ_NODE = 20, RSEQ_FEATURES = 27 }; /* cpu_id_start and node_id; AT_RSEQ_FEATURE_SIZE */

#ifdef __x86_64__
enum { GETCPU_IS_NO_SYSTEM_CALL = true };
#else
enum { GETCPU_IS_NO_SYSTEM_CALL = false };
#endif

/* gcc 12 says that it has the builtin for ppc64 too, and then refuses it. */
#if defined __powerpc64__
#define HAS_THREAD_POINTER
static const char *thread_pointer(void)
{
  const char *pointer;
  __asm__("mr %0,13" : "=r"(pointer));
  return pointer;
}
#elif __has_builtin(__builtin_thread_pointer)
#define HAS_THREAD_POINTER
static const char *thread_pointer(void) { return __builtin_thread_pointer(); }
#endif

#ifdef HAS_THREAD_POINTER
static bool has_rseq(void) { return &__rseq_offset && &__rseq_size && __rseq_size; }
static unsigned rseq_at(size_t offset) { return *(const volatile uint32_t *)(thread_pointer() + __rseq_offset + offset); }
#else
static bool has_rseq(void) { return false; }
static unsigned rseq_at(size_t offset) { return (void)offset, 0; }
#endif

enum { PROCESSORS_MOST = 8192 }; /* Linux supports no more on any machine */

/* For each processor, how many below it the process may not use. All zero, and never written, if it may use all. */
static uint16_t unusable_below[PROCESSORS_MOST];

static unsigned rank_of(unsigned processor)
{
  return processor - (processor < PROCESSORS_MOST ? unusable_below[processor] : 0);
}

/* If the processor cannot be read, each thread keeps an arbitrary number. */
unsigned os_processor(void)
{
  if (has_rseq())
    return rank_of(rseq_at(RSEQ_PROCESSOR));
  if (!GETCPU_IS_NO_SYSTEM_CALL)
    return (unsigned)((uint64_t)(uintptr_t)&errno * 0x9e3779b97f4a7c15u >> 40);
  int saved = errno, processor = sched_getcpu();
  errno = saved;
  return processor < 0 ? 0 : rank_of((unsigned)processor);
}

/* Numbers the usable processors; *end is behind the last. A container often has every second processor, or the upper half.
 * Where all are usable the table is not even read: that would touch a page of it. */
static unsigned note_ranks(const cpu_set_t *usable, size_t bytes, unsigned *end)
{
  static bool has_ranks;
  unsigned count = 0, total = (unsigned)CPU_COUNT_S(bytes, usable);
  for (unsigned i = 0; i < PROCESSORS_MOST && count < total; i++) {
    if ((has_ranks |= i != count))
      unusable_below[i] = (uint16_t)(i - count);
    count += CPU_ISSET_S(i, bytes, usable) != 0;
    *end = i + 1;
  }
  return total;
}

/* ---- nodes ---- */

enum { NODES_FROM = 8, NODES_MOST = 256 }; /* machines with fewer processors have one node */
bool os_has_nodes;
static bool nodes_by_rseq;

/* Returns whether a list such as "0-3" or "0,2" names more than one node. */
static bool has_several(const char *path)
{
  char list[32];
  int file = open_file(path);
  if (file < 0)
    return false;
  ssize_t length = read_file(file, list, sizeof list);
  close_file(file);
  for (ssize_t i = 0; i < length; i++)
    if (list[i] == '-' || list[i] == ',')
      return true;
  return false;
}

extern int getcpu(unsigned *processor, unsigned *node) __attribute__((weak));

static bool rseq_has_node(void) { return has_rseq() && getauxval(RSEQ_FEATURES) >= RSEQ_NODE + sizeof(uint32_t); }

unsigned os_node(void)
{
  unsigned processor, node = 0;
  if (!os_has_nodes)
    return 0;
  if (nodes_by_rseq)
    return rseq_at(RSEQ_NODE) % NODES_MOST;
  int saved = errno;
  if (getcpu(&processor, &node) != 0)
    node = 0;
  errno = saved;
  return node % NODES_MOST;
}

unsigned os_processors(void)
{
  int saved = errno;
  _Alignas(cpu_set_t) unsigned char usable[PROCESSORS_MOST / 8] = {0};
  bool known = sched_getaffinity(0, sizeof usable, (cpu_set_t *)usable) == 0;
  errno = saved;
  unsigned end = 0, count = known ? note_ranks((cpu_set_t *)usable, sizeof usable, &end) : 1;
  nodes_by_rseq = rseq_has_node();
  os_has_nodes = end >= NODES_FROM && (nodes_by_rseq || (GETCPU_IS_NO_SYSTEM_CALL && getcpu)) &&
                 has_several("/sys/devices/system/node/has_cpu");
  errno = saved;
  return count;
}
