/* SPDX-License-Identifier: MIT
 *
 * The stacks of a recording, and the names of the functions in them. */
#ifndef CALLERS_H
#define CALLERS_H

#include "recording/recording.h"

typedef struct module {
  uint64_t start, bytes, added;
  char *name; /* of the file */
} module_t;

typedef struct call_stack {
  uint32_t count;
  uint64_t *frames; /* addresses, innermost first */
  uint32_t *names;  /* the same by numbers of names, after callers_name() */
  uint32_t modules; /* so many of the modules were known when it was written */
} call_stack_t;

typedef struct callers {
  module_t *modules;
  size_t module_count;
  call_stack_t *stacks; /* by site, of which 0 is none */
  size_t stack_count;
  uint32_t *same; /* of each the first stack with the same names, after callers_name() */
  char **names;   /* of functions, each once; "file+0x1234" where it is not known */
  size_t name_count;
  bool no_tool;        /* addr2line(1) is not there */
  uint64_t ended_ns;   /* when the recording ended, since 1970 */
  const char *changed; /* a file that is another one since; NULL: none is */
} callers_t;

/* A trace_visit_fn, with a callers_t. */
void callers_visit(const event_t *event, void *callers);

/* Asks addr2line(1), where it is there, and makes names of addresses. `ended_ns` is when the recording ended: files that are
 * newer are others. What keeps functions from having names is said by the command of that name. */
void callers_name(callers_t *callers, uint64_t ended_ns, const char *command);
void callers_free(callers_t *callers);

#endif
