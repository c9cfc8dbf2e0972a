/* SPDX-License-Identifier: MIT
 *
 * pthread_atfork() of glibc calls __register_atfork(), which grows a list by realloc() under a lock. A fork of another thread
 * runs our handler, which takes all locks of the manager, and then takes the lock of that list: each would wait for the other.
 * So a fork waits until no thread registers handlers, and the other way round. Every library calls the function by its name, so
 * it is this one. A static program has glibc's own beside fork(), and no way between them: it may deadlock when a thread makes
 * the list grow, from the 49th handler on, beside a fork. Other C libraries allocate by themselves. */
#include "os/os.h"

#ifdef __GLIBC__
#include <dlfcn.h>
#include <errno.h>

typedef void handler_fn(void);
typedef int register_fn(handler_fn *prepare, handler_fn *parent, handler_fn *child, void *library);

/* The handlers of `library` leave the list when it is unloaded. */
__attribute__((visibility("default"))) int __register_atfork(handler_fn *prepare, handler_fn *parent, handler_fn *child,
                                                             void *library);

int __register_atfork(handler_fn *prepare, handler_fn *parent, handler_fn *child, void *library)
{
  static register_fn *next;
  register_fn *glibcs = __atomic_load_n(&next, __ATOMIC_RELAXED);
  if (!glibcs) {
    glibcs = (register_fn *)dlsym(RTLD_NEXT, "__register_atfork");
    __atomic_store_n(&next, glibcs, __ATOMIC_RELAXED);
  }
  if (!glibcs)
    return ENOSYS;
  bool held = os_hold_off_forks();
  int error = glibcs(prepare, parent, child, library);
  if (held)
    os_let_fork();
  return error;
}
#endif
