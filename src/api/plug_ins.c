/* SPDX-License-Identifier: MIT
 *
 * A plug-in that is opened with RTLD_DEEPBIND looks for names in itself and its own libraries first, and so has free() of the C
 * library. The C library itself has malloc() of the program, which is this one: what strdup() returns to the plug-in, the
 * plug-in cannot free. So the flag is dropped, unless the option deepbind asks for it.
 *
 * The loader knows the caller by the return address: its run path and its namespace are those in which it looks. So dlopen()
 * here jumps to the loader's own and does not call it: what that returns to is the caller. Where the compiler may be unable to
 * jump there is no such function, nor in a static program. */
#include "heap/startup.h"
#include "option.h"

#if defined __GLIBC__ && (defined __x86_64__ || defined __i386__ || defined __aarch64__ || defined __arm__ || defined __riscv)
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))
#if __has_attribute(musttail)
#define JUMPS
#define JUMP_TO __attribute__((musttail)) return
#else
#define JUMPS   __attribute__((optimize("O2", "optimize-sibling-calls"))) /* whatever the rest is compiled with */
#define JUMP_TO return
#endif

typedef void *dlopen_fn(const char *file, int mode);
typedef void *dlmopen_fn(Lmid_t space, const char *file, int mode);

/* What the next library in the order of the loader has, which is the C library in the end. */
NOINLINE static void *find_behind(const char *name, void **next)
{
  void *found = dlsym(RTLD_NEXT, name);
  __atomic_store_n(next, found, __ATOMIC_RELAXED);
  return found;
}

static inline void *find_next(const char *name, void **next)
{
  void *found = __atomic_load_n(next, __ATOMIC_RELAXED);
  return likely(found) ? found : find_behind(name, next);
}

/* The options are known once the manager is up. */
NOINLINE static int without_deepbind(int mode)
{
  bool keeps = manager_ready() && settings.deepbind;
  return keeps ? mode : mode & ~RTLD_DEEPBIND;
}

JUMPS EXPORT void *dlopen(const char *file, int mode)
{
  static void *next;
  dlopen_fn *loaders = (dlopen_fn *)find_next("dlopen", &next);
  if (unlikely(mode & RTLD_DEEPBIND))
    mode = without_deepbind(mode);
  JUMP_TO loaders(file, mode);
}

/* Another namespace has a C library of its own, and malloc() of that. */
JUMPS EXPORT void *dlmopen(Lmid_t space, const char *file, int mode)
{
  static void *next;
  dlmopen_fn *loaders = (dlmopen_fn *)find_next("dlmopen", &next);
  if (unlikely(mode & RTLD_DEEPBIND) && space == LM_ID_BASE)
    mode = without_deepbind(mode);
  JUMP_TO loaders(space, file, mode);
}
#endif
