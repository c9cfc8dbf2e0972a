/* SPDX-License-Identifier: MIT */
#include "pool_names.h"
#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* A plug-in has the library for itself alone, or inside, and its names lead here. Two of them may have two. */
enum { BESIDE_MOST = 64 };
static struct {
  void *module; /* where it starts */
  names_t *names;
} beside[BESIDE_MOST];
static uint32_t beside_count, beside_lock;
static bool was_looked_for;

/* Linkers leave out a library of which a program needs nothing that another has not: where this one has all the names, the
 * library is not loaded. It is where this one is, or where the loader looks. */
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

static _Noreturn void fail(void)
{
  static const char line[] = "tidepool: record: there is no libtidepool.so: with libtidepool.a heaps are not recorded\n";
  if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
    abort();
  abort();
}

static names_t *make_names(const void *caller)
{
  names_t *names = take_memory(sizeof *names);
  if (!names)
    abort();
#define FIND_BESIDE(function, name) names->function##_ = (__typeof__(names->function##_))find_beside(caller, "tidepool_" name);
  NAMES(FIND_BESIDE)
  if (names->pool_alloc_)
    return names;
  munmap(names, sizeof *names);
  load_library();
  if (!pool_names.pool_alloc_)
    fail();
  return &pool_names;
}

static names_t *names_in(const void *module)
{
  for (uint32_t i = 0; i < __atomic_load_n(&beside_count, __ATOMIC_ACQUIRE); i++)
    if (beside[i].module == module)
      return beside[i].names;
  return NULL;
}

/* The loader is asked without the lock, which it may have while it waits for this thread. */
names_t *pool_names_beside(const void *caller)
{
  Dl_info about;
  if (!__atomic_exchange_n(&was_looked_for, true, __ATOMIC_RELAXED))
    pools_find(); /* nothing was allocated before */
  if (pool_names.pool_alloc_)
    return &pool_names;
  if (!dladdr(caller, &about))
    fail();
  names_t *names = names_in(about.dli_fbase);
  if (names)
    return names;
  names = make_names(caller);
  if (names == &pool_names)
    return names;
  while (__atomic_exchange_n(&beside_lock, 1, __ATOMIC_ACQUIRE))
    sched_yield();
  names_t *there = names_in(about.dli_fbase);
  if (!there && beside_count < BESIDE_MOST) {
    beside[beside_count].module = about.dli_fbase;
    beside[beside_count].names = names;
    __atomic_store_n(&beside_count, beside_count + 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&beside_lock, 0, __ATOMIC_RELEASE);
  return there ? there : names;
}

/* Another module may be loaded where one was. */
void pools_forget(void) { __atomic_store_n(&beside_count, 0, __ATOMIC_RELEASE); }
