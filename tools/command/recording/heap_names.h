/* SPDX-License-Identifier: MIT
 *
 * The heaps and object pools of a recording, by name: those of one name are one here, as a program may make one for each
 * request. What describes a heap may come after its first block, so a heap has a number of its own until all is read. */
#ifndef HEAP_NAMES_H
#define HEAP_NAMES_H

#include "recording.h"

enum { HEAP_NAMES_BITS = 11, HEAP_NAMES_MOST = 1 << HEAP_NAMES_BITS }; /* the last one is of all that are too many */

typedef struct heap_name {
  char *name;    /* NULL: nothing has described it */
  uint64_t size; /* the budget, or that of an object; 0: none, or several */
  recording_kind_t kind;
} heap_name_t;

typedef struct heap_names {
  heap_name_t *names; /* 0 is malloc() */
  uint32_t count;
  uint16_t *by_heap; /* of each number of a heap; 0: it has none yet */
  uint32_t heap_count;
} heap_names_t;

/* False: no memory. */
bool heap_names_begin(heap_names_t *names);

/* The number of the name that a heap of the recording has, or will have. */
uint32_t heap_names_of(heap_names_t *names, uint32_t heap);

/* A RECORDING_HEAP. */
bool heap_names_describe(heap_names_t *names, const event_t *event);

/* The number of a heap of that name, which need not be of a recording; 0: no memory. */
uint32_t heap_names_named(heap_names_t *names, const char *name);

/* Puts heaps of one name together that had to have several numbers, and gives the new number of each. */
void heap_names_end(heap_names_t *names, uint32_t to[HEAP_NAMES_MOST]);

void heap_names_free(heap_names_t *names);

#endif
