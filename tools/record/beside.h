/* SPDX-License-Identifier: MIT
 *
 * What single modules find by a name. A plug-in has loaded a library for itself alone, or has it inside; its calls come here
 * all the same, and what comes next is another function for each. */
#ifndef BESIDE_H
#define BESIDE_H

#include "recorder.h"

typedef struct beside beside_t;

/* What is found for a module: its functions stand behind a beside_t, up to `functions`, and what is learnt later behind them.
 */
typedef struct beside_kind {
  bool (*fill)(beside_t *beside, const void *caller); /* false: the module has none */
  size_t functions, bytes;
} beside_kind_t;

/* Its functions never change, and it is there for good: a call may be on its way. */
struct beside {
  uintptr_t start, end; /* the module */
  const beside_kind_t *kind;
  uint32_t unloaded; /* it holds until modules have been unloaded more often: then another may be there */
  struct beside *next;
};

/* That of the module that `caller` is in; NULL: there is none yet. It takes no lock, not the loader's either: a constructor may
 * wait for the thread that calls. */
HIDDEN beside_t *beside_find(const beside_kind_t *kind, const void *caller);

/* Makes one and enters it; NULL: the module has none. */
HIDDEN beside_t *beside_make(const beside_kind_t *kind, const void *caller);

/* What the module finds by the name; NULL: nothing, or what is this library's. */
HIDDEN void *beside_symbol(const void *caller, const char *name);

/* Modules were unloaded. Those that are still there keep what they have, so that their next calls do not ask the loader. */
HIDDEN void beside_forget(void);
extern HIDDEN bool beside_is_used;

/* The C library's. */
HIDDEN int next_dlclose(void *handle);

#endif
