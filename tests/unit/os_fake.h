/* SPDX-License-Identifier: MIT
 * The knobs of os_fake.c, an operating system that fails when told to. */
#ifndef UNIT_OS_FAKE_H
#define UNIT_OS_FAKE_H

#include "debug/system.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum os_call {
  OS_MAP,
  OS_MAP_AT,
  OS_UNMAP,
  OS_PURGE,
  OS_REMAP,
  OS_PREFAULT,
  OS_LOCK_MEMORY,
  OS_UNLOCK_MEMORY,
  OS_FENCE,
  OS_THREAD_ON_EXIT,
  OS_OPEN,
  OS_CLOSE,
  OS_CALLS
} os_call_t;

typedef struct os_fake {
  bool refuse;                 /* everything fails. True before main(), so that a test sees the manager come up */
  uint64_t calls;              /* that could have failed, so far */
  uint64_t fail_from, fail_to; /* the calls [from, to) fail, counted from 1 */
  uint64_t failed;
  uint64_t count[OS_CALLS];        /* calls of each kind */
  uint32_t fail_kinds;             /* bits of os_call_t: these fail always */
  bool fail_halfway;               /* a purge that fails has taken some pages, as madvise() does that meets a locked one */
  bool occupied;                   /* os_map_at() fails because something is there, not because there is no memory */
  const char *locked, *locked_end; /* a purge that meets these addresses fails */
  void (*during)(os_call_t kind);  /* called in each call that may fail, as another thread might come by */
  void (*forking)(void);           /* called when a fork has all that it waits for */
  void (*starting)(void);          /* called where a thread would be started, as pthread_create() may allocate */
  void (*woken)(const uint32_t *word);
  uint64_t waits;                                                /* of any thread */
  void (*wished)(const char *address, size_t size, bool wanted); /* huge pages */
  void (*named)(const char *address, size_t size, const char *name);
  bool grants_nothing;            /* no huge pages */
  size_t huge_page_size;          /* 0: unknown */
  const char *split_last;         /* the huge page that was split last, */
  size_t splits;                  /* of so many */
  bool no_fence;                  /* the system has none */
  bool may_be_over;               /* every thread */
  size_t page_size;               /* 4 KiB; a multiple of the real one */
  size_t memory_limit;            /* SIZE_MAX: none */
  uint64_t now_ms;                /* the clock stands still until it is moved */
  size_t mapped_bytes;            /* taken and not given back, */
  size_t mapped_most;             /* of which there can be no more; 0: any */
  size_t reserved_most;           /* addresses without memory, in one piece; 0: any */
  size_t mappings_most;           /* 0: as many as usual */
  os_fault_fn *fault;             /* what would be called */
  unsigned processor, processors; /* that all threads are on, of how many */
  unsigned node;                  /* that these are of */
} os_fake_t;

extern os_fake_t os_fake;

/* From here on nothing fails. */
void os_fake_heal(void);
int time_stands_still(void **state); /* the same, for a group of tests */

#endif
