/* SPDX-License-Identifier: MIT
 *
 * What single modules find by a name. A plug-in has loaded a library for itself alone, or has it inside; its calls come here
 * all the same, and what comes next is another function for each. */
#ifndef BESIDE_H
#define BESIDE_H

#include "recorder.h"

/* The functions of one module stand behind it. It never changes, and is there for good: a call may be on its way. */
typedef struct beside {
  uintptr_t start, end; /* the module */
  uint32_t unloaded;    /* how often modules had been unloaded: then another may be there */
  struct beside *next;
} beside_t;

/* That of the module that `caller` is in; NULL: there is none yet. It takes no lock, not the loader's either: a constructor may
 * wait for the thread that calls. */
HIDDEN beside_t *beside_find(beside_t *const *list, const void *caller);

/* Makes one of so many bytes, has it filled in, and enters it if that says so. NULL: it does not. */
typedef bool beside_fill_fn(beside_t *beside, const void *caller);
HIDDEN beside_t *beside_make(beside_t **list, const void *caller, size_t bytes, beside_fill_fn *fill);

/* What the module finds by the name; NULL: nothing, or what is this library's. */
HIDDEN void *beside_symbol(const void *caller, const char *name);

/* A module was unloaded. */
HIDDEN void beside_forget(void);
extern HIDDEN bool beside_is_used;

/* The C library's. */
HIDDEN int next_dlclose(void *handle);

#endif
