/* SPDX-License-Identifier: MIT
 *
 * What a process and those who look at it share with export=1: memory that has no name in any folder. The process has it mapped
 * and open; who looks opens it among the descriptors that /proc shows of the process. Who looks asks (asked), and wakes the
 * process's thread; that writes the figures as JSON and says so (answered). It takes the memory of one page; who looks makes it
 * longer if the figures need it, and nobody can make it shorter. Who looks has a lock (flock) on it meanwhile.
 *
 * The layout is the same on machines of 32 and 64 bits. Nothing in it may move; what is added comes behind the rest
 * (heap/export_root.h), and `header_bytes` says where the text begins. */
#ifndef EXPORT_PAGE_H
#define EXPORT_PAGE_H

#include <stdint.h>

#define EXPORT_NAME "tidepool figures" /* as /proc has it: /memfd:tidepool figures */
#define EXPORT_MARK "tidepool"

enum {
  EXPORT_VERSION = 2,
  EXPORT_FIRST_BYTES = 4096, /* of new memory */
  EXPORT_MOST = 16 << 20     /* of any; some 30,000 heaps */
};

typedef struct export_page {
  char mark[8];
  uint32_t version, header_bytes;
  uint32_t asked, answered; /* how often; a futex each */
  uint32_t sequence;        /* odd: the text is being written */
  uint32_t length;          /* bytes of the text; 0: it had no room, or there was none yet */
  uint64_t capacity;        /* for the text; who makes the memory longer raises it afterwards */
  uint64_t needed;          /* by the text, when there was no room */
  uint64_t written_ms;      /* when, by CLOCK_MONOTONIC; 0: never */
  uint32_t process;         /* whose figures these are, by its own number: a child may have them open for a moment */
  uint32_t unused;
} export_page_t;

_Static_assert(sizeof(export_page_t) == 64, "the same everywhere");

#endif
