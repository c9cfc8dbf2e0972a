/* SPDX-License-Identifier: MIT
 *
 * Memory that a process with export=1 shares with readers. It has no name in any directory: the process has it mapped and open,
 * and readers open it among the process's descriptors in /proc. A reader asks (asked) and wakes the process's thread, which
 * writes the figures as JSON and replies (answered). The memory is one page at first. Readers make it longer if the figures
 * need more; it cannot be made shorter. A reader holds a lock (flock) on it meanwhile.
 *
 * The layout is the same on 32-bit and 64-bit machines. No field may move: additions go behind the rest (debug/export_root.h),
 * and `header_bytes` is the offset of the text. */
#ifndef EXPORT_PAGE_H
#define EXPORT_PAGE_H

#include <stdint.h>

#define EXPORT_NAME "tidepool figures" /* in /proc: /memfd:tidepool figures */
#define EXPORT_MARK "tidepool"

enum {
  EXPORT_VERSION = 2,
  EXPORT_FIRST_BYTES = 4096, /* size of new memory */
  EXPORT_MOST = 16 << 20     /* largest size, enough for some 30,000 heaps */
};

typedef struct export_page {
  char mark[8];
  uint32_t version, header_bytes;
  uint32_t asked, answered; /* counters; each is a futex */
  uint32_t sequence;        /* odd: the text is being written */
  uint32_t length;          /* bytes of the text; 0: it had no room, or there is none yet */
  uint64_t capacity;        /* bytes for the text; a reader raises it after making the memory longer */
  uint64_t needed;          /* bytes that the text needs, if there was no room */
  uint64_t written_ms;      /* CLOCK_MONOTONIC; 0: never */
  uint32_t process;         /* process id in its own namespace: a child may briefly have the memory open */
  uint32_t unused;
} export_page_t;

_Static_assert(sizeof(export_page_t) == 64, "the same everywhere");

#endif
