/* SPDX-License-Identifier: MIT
 * C++ new and delete, by their mangled names, so that no C++ runtime is needed to build or to load this. What new needs of a
 * runtime, the new-handler and the throwing of std::bad_alloc, it needs where memory is exhausted, and looks for it then.
 *
 * Built with -fexceptions: std::bad_alloc passes through these frames. */
#include "front/pool_front.h"
#include "os/fatal.h"
#include <dlfcn.h>
#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler_t)(void);

/* ---- the C++ runtime ---- */

/* The runtime that was there when the program was loaded: std::get_new_handler() and std::__throw_bad_alloc(). These take no
 * lock of the loader, which a look-up does. */
extern new_handler_t _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* The handle is closed at once: whoever called new has frames of the runtime, or of a library that depends on it, on its stack. */
static void *find_in_library(const char *file, const char *name)
{
  void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD), *found = NULL;
  if (library) {
    found = dlsym(library, name);
    dlclose(library);
  }
  return found;
}

static void *find_in_library_of(const void *code, const char *name)
{
  Dl_info library;
  return dladdr(code, &library) ? find_in_library(library.dli_fname, name) : NULL;
}

/* Where the loader would look on behalf of `caller`: in what all see, then in what only its library sees, which may have the
 * runtime inside it. The names of the runtimes are for code that the loader does not know. */
static void *find(const char *name, const void *caller)
{
  int error = errno;
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found)
    found = find_in_library_of(caller, name);
  if (!found)
    found = find_in_library("libstdc++.so.6", name);
  if (!found)
    found = find_in_library("libc++.so.1", name);
  errno = error;
  return found;
}

static new_handler_t get_new_handler(const void *caller)
{
  new_handler_t (*get)(void) = _ZSt15get_new_handlerv;
  if (!get)
    get = (new_handler_t (*)(void))find("_ZSt15get_new_handlerv", caller);
  return get ? get() : NULL;
}

/* throw std::bad_alloc(), as a compiler for the Itanium C++ ABI has it: the object is no more than a pointer to the functions in
 * its virtual table, behind the offset to the top and the type. A runtime inside a plug-in has what its users throw and
 * catch, but std::__throw_bad_alloc() only if its containers need it. */
COLD static void throw_by_hand(const void *caller)
{
  enum { VIRTUAL_TABLE_HEAD = 2 * sizeof(void *) };
  void *(*make)(size_t) = (void *(*)(size_t))find("__cxa_allocate_exception", caller);
  void (*throw)(void *, void *, void (*)(void *)) = (void (*)(void *, void *, void (*)(void *)))find("__cxa_throw", caller);
  void (*end)(void *) = (void (*)(void *))find("_ZNSt9bad_allocD1Ev", caller);
  void *type = find("_ZTISt9bad_alloc", caller);
  char *table = find("_ZTVSt9bad_alloc", caller);
  if (!make || !throw || !end || !type || !table)
    return;
  char **exception = make(sizeof *exception);
  *exception = table + VIRTUAL_TABLE_HEAD;
  throw(exception, type, end);
}

COLD static _Noreturn void throw_bad_alloc(const void *caller)
{
  void (*throw)(void) = _ZSt17__throw_bad_allocv;
  if (!throw)
    throw = (void (*)(void))find("_ZSt17__throw_bad_allocv", caller);
  if (throw)
    throw();
  throw_by_hand(caller);
  fatal("operator new: memory exhausted");
}

/* ---- new and delete ---- */

static void *allocate(size_t size, size_t alignment)
{
  return alignment ? front_aligned_alloc(alignment, size) : front_alloc(size);
}

/* As [new.delete.single] has it: the handler is called until it throws, ends the program or is gone. */
COLD static void *retry(size_t size, size_t alignment, bool may_throw, const void *caller)
{
  void *block = NULL;
  for (new_handler_t handler; !block && (handler = get_new_handler(caller)) != NULL;) {
    handler();
    block = allocate(size, alignment);
  }
  if (!block && may_throw)
    throw_bad_alloc(caller);
  return block;
}

#define DEFINE_NEW(name, parameters, alignment, may_throw)                                                              \
  EXPORT void *name parameters;                                                                                         \
  void *name parameters                                                                                                 \
  {                                                                                                                     \
    void *block = allocate(size, alignment);                                                                            \
    return likely(block) ? block : retry(size, alignment, may_throw, __builtin_return_address(0));                      \
  }

#define DEFINE_DELETE(name, parameters)                                                                                 \
  EXPORT void name parameters;                                                                                          \
  void name parameters { front_free(block, "operator delete"); }

typedef const void *nothrow_t;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

DEFINE_NEW(_Znwm, (size_t size), 0, true)
DEFINE_NEW(_Znam, (size_t size), 0, true)
DEFINE_NEW(_ZnwmRKSt9nothrow_t, (size_t size, nothrow_t tag), 0, false)
DEFINE_NEW(_ZnamRKSt9nothrow_t, (size_t size, nothrow_t tag), 0, false)
DEFINE_NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), alignment, true)
DEFINE_NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), alignment, true)
DEFINE_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, nothrow_t tag), alignment, false)
DEFINE_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, nothrow_t tag), alignment, false)

DEFINE_DELETE(_ZdlPv, (void *block))
DEFINE_DELETE(_ZdaPv, (void *block))
DEFINE_DELETE(_ZdlPvm, (void *block, size_t size))
DEFINE_DELETE(_ZdaPvm, (void *block, size_t size))
DEFINE_DELETE(_ZdlPvRKSt9nothrow_t, (void *block, nothrow_t tag))
DEFINE_DELETE(_ZdaPvRKSt9nothrow_t, (void *block, nothrow_t tag))
DEFINE_DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment))
DEFINE_DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment))
DEFINE_DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment))
DEFINE_DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment))
DEFINE_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow_t tag))
DEFINE_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow_t tag))

#pragma GCC diagnostic pop
