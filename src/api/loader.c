/* SPDX-License-Identifier: MIT
 * Functions of the C library and its loader that libtidepool-malloc interposes. */
#include "heap/life.h"
#include "option.h"
#include "os/os.h"
#include <dlfcn.h>
#include <errno.h>

/* ---- fork handlers ----
 *
 * glibc's pthread_atfork() calls __register_atfork(), which grows a list by realloc() under a lock. A fork in another thread
 * runs our handler, which takes all locks of the manager, and then takes that lock: a deadlock. So forks and registrations wait
 * for each other. Every library calls the function by its name and finds this one. A static program has glibc's own beside
 * fork(), so it may deadlock if a thread grows the list, from the 49th handler on, during a fork. Other C libraries use their
 * own allocator. */

#ifdef __GLIBC__

/* Returns the symbol of the next library in the loader's order, finally the C library. */
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

typedef void handler_fn(void);
typedef int register_fn(handler_fn *prepare, handler_fn *parent, handler_fn *child, void *library);

/* The handlers of `library` leave the list when it is unloaded. */
__attribute__((visibility("default"))) int __register_atfork(handler_fn *prepare, handler_fn *parent, handler_fn *child,
                                                             void *library);

int __register_atfork(handler_fn *prepare, handler_fn *parent, handler_fn *child, void *library)
{
  static void *next;
  register_fn *glibcs = (register_fn *)find_next("__register_atfork", &next);
  if (!glibcs)
    return ENOSYS;
  bool held = os_hold_off_forks();
  int error = glibcs(prepare, parent, child, library);
  if (held)
    os_let_fork();
  return error;
}
#endif

/* ---- plug-ins ----
 *
 * A plug-in opened with RTLD_DEEPBIND resolves names in itself and its own libraries first, so it finds free() of the C
 * library. The C library itself uses the program's malloc(), which is this one: the plug-in could not free the result of
 * strdup(). So the flag is dropped, unless the option deepbind is set.
 *
 * The loader identifies the caller by the return address and uses its run path and namespace. So dlopen() here jumps to the
 * loader's own instead of calling it. It does not exist where the compiler may be unable to jump, nor in a static program. */

#if defined __GLIBC__ && \
  (defined __x86_64__ || defined __i386__ || defined __aarch64__ || defined __arm__ || defined __riscv || defined __s390x__)

#define EXPORT __attribute__((visibility("default")))
#if __has_attribute(musttail)
#define JUMPS
#define JUMP_TO __attribute__((musttail)) return
#else
#define JUMPS   __attribute__((optimize("O2", "optimize-sibling-calls"))) /* whatever the options of the rest are */
#define JUMP_TO return
#endif

typedef void *dlopen_fn(const char *file, int mode);
typedef void *dlmopen_fn(Lmid_t space, const char *file, int mode);

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

/* Another namespace has a C library of its own with its own malloc(). */
JUMPS EXPORT void *dlmopen(Lmid_t space, const char *file, int mode)
{
  static void *next;
  dlmopen_fn *loaders = (dlmopen_fn *)find_next("dlmopen", &next);
  if (unlikely(mode & RTLD_DEEPBIND) && space == LM_ID_BASE)
    mode = without_deepbind(mode);
  JUMP_TO loaders(space, file, mode);
}
#endif
