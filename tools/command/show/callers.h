/* SPDX-License-Identifier: MIT
 *
 * The stacks of a recording or of a profile, and the names of the functions in them. */
#ifndef CALLERS_H
#define CALLERS_H

#include "recording/recording.h"

typedef struct module {
  uint64_t start, bytes, added;
  uint64_t inode; /* 0: not known */
  char *name;     /* of the file */
} module_t;

typedef struct call_stack {
  uint32_t count;   /* of frames; after callers_name() of names */
  uint64_t *frames; /* addresses, innermost first */
  uint32_t *names;  /* numbers of names, those of inlined functions too, after callers_name() */
  uint32_t modules; /* so many of the modules were known when it was written */
} call_stack_t;

typedef struct callers {
  module_t *modules;
  size_t module_count;
  call_stack_t *stacks; /* by site, of which 0 is none */
  size_t stack_count;
  uint32_t *same;   /* of each the first stack with the same names, after callers_name() */
  uint64_t process; /* the number of the process, whose functions made at run time may have names; 0: it is not known */
  bool with_lines;  /* wanted: "function at file.c:12" where that is known */
  char **names;     /* of functions, each once; "file+0x1234" where it is not known */
  size_t name_count;
  bool no_tool;           /* addr2line(1) is not there */
  const char *unanswered; /* a file of which it has not said all, or NULL */
  const char *changed;    /* a file that is another one since, or NULL */
  const char *gone;       /* one that is not there any more */
} callers_t;

/* A trace_visit_fn, with a callers_t. */
void callers_visit(const event_t *event, void *callers);

/* Asks addr2line(1), where it is there, and makes names of addresses. A file that was changed after `ns` is another one than
 * the program ran: its functions have no names. What keeps functions from having them is said by the command of that name. */
void callers_name(callers_t *callers, uint64_t ns, const char *command);
void callers_free(callers_t *callers);

#endif
