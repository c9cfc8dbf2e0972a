/* SPDX-License-Identifier: MIT */
#include "pool_names.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

names_t pool_names;

static const char *name_of_heap(const void *heap) { return pool_names.pool_heap_name_((const pool_heap_t *)heap); }

static void find_in(void *library)
{
#define FIND(function, name) pool_names.function##_ = (__typeof__(pool_names.function##_))dlsym(library, "tidepool_" name);
  NAMES(FIND)
  heap_name_of = pool_names.pool_heap_name_ ? name_of_heap : NULL;
}

void pools_find(void) { find_in(RTLD_NEXT); }

static bool was_looked_for;

/* Linkers leave out a library of which a program needs nothing that another has not: where this one has all the names, the
 * library is not loaded. It is where this one is, or where the loader looks, which takes more of the stack than this. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wframe-larger-than="
static void load_library(void)
{
  static const char file[] = "libtidepool.so.0";
  char path[PATH_MAX] = "";
  Dl_info about;
  void *library = dlopen(file, RTLD_LAZY | RTLD_GLOBAL);
  if (!library && dladdr(__extension__(void *) load_library, &about) && strrchr(about.dli_fname, '/') &&
      strlen(about.dli_fname) + sizeof file < sizeof path) {
    strcpy(path, about.dli_fname);
    strcpy(strrchr(path, '/') + 1, file);
    library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
  }
  if (library)
    find_in(library);
}
#pragma GCC diagnostic pop

static _Noreturn void fail(void)
{
  static const char line[] = "tidepool: record: there is no libtidepool.so: with libtidepool.a heaps are not recorded\n";
  if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
    abort();
  abort();
}

static bool fill_names(beside_t *beside, const void *caller)
{
  names_t *names = (names_t *)(void *)beside;
#define FIND_BESIDE(function, name) \
  names->function##_ = (__typeof__(names->function##_))beside_symbol(caller, "tidepool_" name);
  NAMES(FIND_BESIDE)
  return names->pool_alloc_ != NULL;
}

static const beside_kind_t kind = {fill_names, offsetof(names_t, default_heap), sizeof(names_t)};

names_t *pool_names_beside(const void *caller)
{
  if (!__atomic_exchange_n(&was_looked_for, true, __ATOMIC_RELAXED))
    pools_find(); /* nothing was allocated before */
  if (pool_names.pool_alloc_)
    return &pool_names;
  beside_t *names = beside_find(&kind, caller);
  names = names ? names : beside_make(&kind, caller);
  if (names)
    return (names_t *)(void *)names;
  load_library();
  if (!pool_names.pool_alloc_)
    fail();
  return &pool_names;
}
