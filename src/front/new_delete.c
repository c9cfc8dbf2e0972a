/* SPDX-License-Identifier: MIT
 * C++ new and delete, by their mangled names, so that no C++ runtime is needed to build or to load this.
 *
 * Built with -fexceptions: std::bad_alloc passes through these frames. */
#include "front/pool_front.h"
#include "os/fatal.h"

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler_t)(void);

/* libstdc++'s, if the program has it: std::get_new_handler() and std::__throw_bad_alloc(). */
extern new_handler_t _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

static bool call_new_handler(void)
{
  new_handler_t handler = _ZSt15get_new_handlerv ? _ZSt15get_new_handlerv() : NULL;
  if (handler)
    handler();
  return handler != NULL;
}

static void *allocate(size_t size, size_t alignment)
{
  return alignment ? front_aligned_alloc(alignment, size) : front_alloc(size);
}

/* As [new.delete.single] has it: the handler is called until it throws, ends the program or is gone. */
COLD static void *retry(size_t size, size_t alignment, bool may_throw)
{
  void *block = NULL;
  while (!block && call_new_handler())
    block = allocate(size, alignment);
  if (!block && may_throw) {
    if (_ZSt17__throw_bad_allocv)
      _ZSt17__throw_bad_allocv();
    fatal("operator new: memory exhausted");
  }
  return block;
}

#define DEFINE_NEW(name, parameters, alignment, may_throw)                                                              \
  EXPORT void *name parameters;                                                                                         \
  void *name parameters                                                                                                 \
  {                                                                                                                     \
    void *block = allocate(size, alignment);                                                                            \
    return likely(block) ? block : retry(size, alignment, may_throw);                                                   \
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
