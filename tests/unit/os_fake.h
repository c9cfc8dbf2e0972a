/* SPDX-License-Identifier: MIT
 * The knobs of os_fake.c, an operating system that fails when told to. */
#ifndef UNIT_OS_FAKE_H
#define UNIT_OS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum os_call {
  OS_RESERVE, OS_RESERVE_AT, OS_RESERVE_ZEROES, OS_COMMIT, OS_PURGE, OS_RELEASE, OS_MOVE_PAGES, OS_PREFAULT, OS_LOCK_MEMORY,
  OS_UNLOCK_MEMORY, OS_THREAD_ON_EXIT, OS_CALLS
} os_call_t;

typedef struct os_fake {
  bool     refuse;                /* everything fails. True before main(), so that a test sees the manager come up */
  uint64_t calls;                 /* that could have failed, so far */
  uint64_t fail_from, fail_to;    /* the calls [from, to) fail, counted from 1 */
  uint64_t failed;
  uint64_t count[OS_CALLS];       /* calls of each kind */
  uint32_t fail_kinds;            /* bits of os_call_t: these fail always */
  size_t   page_size;             /* 4 KiB; a multiple of the real one */
  size_t   address_space_limit;   /* SIZE_MAX: none */
  uint64_t now_ms;                /* the clock stands still until it is moved */
  size_t   reserved_bytes;        /* address space taken and not given back */
} os_fake_t;

extern os_fake_t os_fake;

/* From here on nothing fails. */
void os_fake_heal(void);

#endif
