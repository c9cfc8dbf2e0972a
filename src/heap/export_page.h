/* SPDX-License-Identifier: MIT
 *
 * What a process and those who look at it share with export=1: a file in /dev/shm that the process has mapped. Who looks asks
 * (asked), and wakes the process's thread; that writes the figures as JSON and says so (answered). The process has no
 * descriptor of the file, and takes the memory of one page for it; who looks makes the file longer if the figures need it.
 *
 * The layout is the same on machines of 32 and 64 bits. Nothing in it may move; what is added comes behind the rest, and
 * `header_bytes` says where the text begins. */
#ifndef EXPORT_PAGE_H
#define EXPORT_PAGE_H

#include <stdint.h>

/* tidepool.4711.4026531836: the number of the process in its own namespace, and the number of that, since several namespaces of
 * processes may share the folder. With a dot in front until the file is complete. */
#define EXPORT_FOLDER "/dev/shm/"
#define EXPORT_NAME   "tidepool."
#define EXPORT_MARK   "tidepool"

enum {
  EXPORT_VERSION = 1,
  EXPORT_FIRST_BYTES = 4096, /* of a new file */
  EXPORT_MOST = 16 << 20     /* of any; some 30,000 heaps */
};

typedef struct export_page {
  char mark[8];
  uint32_t version, header_bytes;
  uint32_t asked, answered; /* how often; a futex each */
  uint32_t sequence;        /* odd: the text is being written */
  uint32_t length;          /* bytes of the text; 0: it had no room, or there was none yet */
  uint64_t capacity;        /* for the text; who makes the file longer raises it afterwards */
  uint64_t needed;          /* by the text, when there was no room */
  uint64_t written_ms;      /* when, by CLOCK_MONOTONIC */
} export_page_t;

_Static_assert(sizeof(export_page_t) == 56, "the same everywhere");

#endif
