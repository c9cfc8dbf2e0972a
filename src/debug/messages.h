/* SPDX-License-Identifier: MIT
 * Messages that name functions of the program. */
#ifndef DEBUG_MESSAGES_H
#define DEBUG_MESSAGES_H

#include "misuse.h"

/* Implements fatal_say_frames(). */
void messages_say_frames(struct text *text, const char *before, const frames_told_t *told);

/* tidepool: read of 0xaddress at offset N of a block of M bytes of heap "name" by e+0x3, allocated by f+0x1c, freed by h+0x8
 *
 * The program then continues to the signal's action. May be called by a signal handler. */
typedef struct access_told {
  const char *access; /* "read of" */
  const void *address, *block;
  size_t size;
  const char *heap; /* NULL: the default heap */
  bool freed;
  frames_told_t by, allocated_by, freed_by;
} access_told_t;
void warn_of_access(const access_told_t *told);

#endif
