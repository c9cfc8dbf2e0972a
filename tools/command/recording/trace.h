/* SPDX-License-Identifier: MIT
 *
 * A recording in memory, for what goes through it several times: what was done to which block, in one order. */
#ifndef TRACE_H
#define TRACE_H

#include "heap_names.h"

typedef struct act {
  uint64_t ns;
  uint64_t size : 48, op : 8, alignment_log2 : 8;
  uint32_t slot;
  uint32_t site : 32 - HEAP_NAMES_BITS, heap : HEAP_NAMES_BITS; /* the number of its name */
} act_t;

_Static_assert(RECORDING_SITES_MOST < 1 << (32 - HEAP_NAMES_BITS), "each site has a number");

typedef struct trace {
  act_t *acts;
  size_t count;
  uint32_t slots;
  heap_names_t heaps;
  recording_facts_t facts; /* without the command, which is here */
  char *program;           /* the command; what a terminal would obey is not in it */
} trace_t;

/* Gets what is said of sites and modules, in between. */
typedef void trace_visit_fn(const event_t *event, void *context);

/* Reads all of it; what cannot be read ends the program, and what lacks is said. `command` is the name of the subcommand.
 * `visit` may be NULL. */
void trace_read(trace_t *trace, const char *command, const char *path, trace_visit_fn *visit, void *context);

/* Leaves what was done in heaps and object pools of that name. False: there are none. */
bool trace_keep_heap(trace_t *trace, const char *command, const char *name);

/* That there are none ends the program. NULL: all stay. */
void trace_must_keep_heap(trace_t *trace, const char *command, const char *path, const char *name);

/* Leaves what was done until then: what is live then is live at the end. */
void trace_keep_until(trace_t *trace, const char *command, uint64_t ns);
void trace_free(trace_t *trace);

#endif
