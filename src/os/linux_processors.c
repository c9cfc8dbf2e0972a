/* SPDX-License-Identifier: MIT
 * The processor that a thread runs on, and its NUMA node. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/linux_lines.h"
#include "os/os.h"
#include <sched.h>
#include <sys/auxv.h>

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

#if __has_builtin(__builtin_thread_pointer)
static bool has_rseq(void) { return &__rseq_offset && &__rseq_size && __rseq_size; }
static unsigned rseq_at(size_t offset)
{
  return *(const volatile uint32_t *)((const char *)__builtin_thread_pointer() + __rseq_offset + offset);
}
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

/* Numbers the usable processors; *end is behind the last. A container often has every second processor, or the upper half. */
static unsigned note_ranks(const cpu_set_t *usable, size_t bytes, unsigned *end)
{
  unsigned count = 0, total = (unsigned)CPU_COUNT_S(bytes, usable);
  for (unsigned i = 0; i < PROCESSORS_MOST && count < total; i++) {
    if (unusable_below[i] != i - count)
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
