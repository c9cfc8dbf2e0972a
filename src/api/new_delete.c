/* SPDX-License-Identifier: MIT
 * C++ new and delete, by their mangled names, so that no C++ runtime is needed to build or to load this. What new needs of a
 * runtime, the new-handler and the throwing of std::bad_alloc, it needs where memory is exhausted, and looks for it then.
 *
 * A program may replace only some of the forms; each of the others then does what [new.delete] says of it, in terms of those.
 *
 * Built with -fexceptions: std::bad_alloc passes through these frames. */
#include "api/fast_path.h"
#include "misuse.h"
#include "os/thread_local.h"
#include <dlfcn.h>
#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler_t)(void);

/* ---- the C++ runtime ---- */

/* The runtime that was there when the program was loaded: std::get_new_handler() and std::__throw_bad_alloc(). These take no
 * lock of the loader, which a look-up does. */
extern new_handler_t _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* The handle is closed at once. The runtime stays, because the caller of new is on the stack and depends on it. */
static void *find_in_library(const char *file, const char *name)
{
  void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD), *found = NULL;
  if (library) {
    found = dlsym(library, name);
    dlclose(library);
  }
  return found;
}

/* Looks in what the library that has this code sees. */
static void *find_near(const void *code, const char *name)
{
  Dl_info library;
  return dladdr(code, &library) ? find_in_library(library.dli_fname, name) : NULL;
}

static void *find_in_runtime(const char *name)
{
  void *found = find_in_library("libstdc++.so.6", name);
  return found ? found : find_in_library("libc++.so.1", name);
}

static bool are_of_one_library(const void *a, const void *b)
{
  Dl_info of_a, of_b;
  return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

/* Looks where the loader would on behalf of `caller`: first in what all see, then in what only the caller's library sees, which
 * may have the runtime inside it. For a caller that the loader does not know, the runtime is looked for by name. */
static void *find_symbol(const char *name, const void *caller)
{
  int error = errno;
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found)
    found = find_near(caller, name);
  if (!found)
    found = find_in_runtime(name);
  errno = error;
  return found;
}

typedef new_handler_t get_new_handler_t(void);

static get_new_handler_t *find_get_new_handler(const void *caller)
{
  return _ZSt15get_new_handlerv ? _ZSt15get_new_handlerv : (get_new_handler_t *)find_symbol("_ZSt15get_new_handlerv", caller);
}

static new_handler_t get_new_handler(const void *caller)
{
  get_new_handler_t *get = find_get_new_handler(caller);
  return get ? get() : NULL;
}

/* throw std::bad_alloc(), as a compiler for the Itanium C++ ABI has it: the object is no more than a pointer to the functions
 * in its virtual table, behind the offset to the top and the type. A runtime inside a plug-in has what its users throw and
 * catch, but std::__throw_bad_alloc() only if its containers need it. */
COLD static void throw_by_hand(const void *caller)
{
  enum { VIRTUAL_TABLE_HEAD = 2 * sizeof(void *) };
  void *(*make)(size_t) = (void *(*)(size_t))find_symbol("__cxa_allocate_exception", caller);
  void (*throw)(void *, void *, void (*)(void *)) =
    (void (*)(void *, void *, void (*)(void *)))find_symbol("__cxa_throw", caller);
  void (*end)(void *) = (void (*)(void *))find_symbol("_ZNSt9bad_allocD1Ev", caller);
  void *type = find_symbol("_ZTISt9bad_alloc", caller);
  char *table = find_symbol("_ZTVSt9bad_alloc", caller);
  if (!make || !throw || !end || !type || !table)
    return;
  char **exception = make(sizeof *exception);
  *exception = table + VIRTUAL_TABLE_HEAD;
  throw(exception, type, end);
}

/* The runtime's own function is the first choice. A program whose exceptions nobody can throw ends here. */
COLD static _Noreturn void throw_bad_alloc(const void *caller)
{
  void (*throw)(void) = _ZSt17__throw_bad_allocv;
  if (!throw)
    throw = (void (*)(void))find_symbol("_ZSt17__throw_bad_allocv", caller);
  if (throw)
    throw();
  throw_by_hand(caller);
  fatal(NEW_EXHAUSTED);
}

/* ---- new and delete ---- */

#define NEW       "operator new"
#define NEW_ARRAY "operator new[]"

/* The first step of each form. What comes behind it is not a tail call, so the caller is handed over, on the slow path. */
static inline __attribute__((always_inline)) void *allocate_at_once(size_t size, size_t alignment, const char *call)
{
  void *block = alignment ? default_aligned_alloc_at_once(alignment, size) : NULL;
  if (alignment)
    return likely(block) ? block : default_aligned_alloc_for(alignment, size, call, __builtin_return_address(0));
  if (likely(size <= SIZE_CACHED))
    block = MAGAZINE_POP(default_loaded_for(size));
  return likely(block) ? block : default_alloc_for(size, call, __builtin_return_address(0));
}

NOINLINE static void *allocate(size_t size, size_t alignment, const char *call, const void *caller)
{
  return alignment ? default_aligned_alloc_for(alignment, size, call, caller) : default_alloc_for(size, call, caller);
}

/* The forms that do not throw, as bits. */
typedef enum nothrow_form { SINGLE = 1 << 0, ARRAY = 1 << 1, ALIGNED_SINGLE = 1 << 2, ALIGNED_ARRAY = 1 << 3 } nothrow_form_t;

/* What this thread has handed over to the runtime, and not got back yet. */
static THREAD_LOCAL struct handed_over {
  unsigned forms;     /* of nothrow_form_t */
  unsigned depth;     /* of call_replaced() in itself: the program's own operator may use a form that does not throw */
  const void *caller; /* of the first form: its library sees the runtime, which the runtime itself may not */
} handed_over;

/* As [new.delete.single] has it, the handler is called until there is a block, it throws, it ends the program, or it is gone.
 * Forms that the handler itself uses begin anew. */
static void *retry(size_t size, size_t alignment, const char *call, const void *caller)
{
  void *block = NULL;
  for (new_handler_t handler; !block && (handler = get_new_handler(caller)) != NULL;) {
    handed_over.forms = 0;
    handler();
    block = allocate(size, alignment, call, caller);
  }
  return block;
}

/* Within a call that was handed over the caller is the runtime, so the caller of the first form is asked about. */
static const void *first_caller(const void *caller) { return handed_over.forms ? handed_over.caller : caller; }

COLD static void *retry_or_throw(size_t size, size_t alignment, const char *call, const void *caller)
{
  const void *first = first_caller(caller);
  void *block = retry(size, alignment, call, first);
  if (!block)
    throw_bad_alloc(first);
  return block;
}

/* Finds the runtime's own operator of this name: the one in the library that keeps the handler. The next one of the process may
 * be another allocator's, so its library is compared. The first two ways need no memory, of which there is none now. Later ones
 * may: for a library that nothing has opened by itself the loader first makes the list of its dependencies. */
static void *find_runtimes_own(const char *name, get_new_handler_t *get, const void *caller)
{
  int error = errno;
  void *found = dlsym(RTLD_NEXT, name);
  if (!found || !are_of_one_library(found, (const void *)get))
    found = find_near(caller, name);
  if (!found || !are_of_one_library(found, (const void *)get))
    found = find_near((const void *)get, name);
  if (!found)
    found = find_in_runtime(name);
  errno = error;
  return found;
}

static void *call_runtimes_own(void *own, size_t size, size_t alignment)
{
  static const char tag; /* std::nothrow is an empty object, and nobody asks for its address */
  typedef void *new_t(size_t size, const void *tag);
  typedef void *aligned_new_t(size_t size, size_t alignment, const void *tag);
  return alignment ? ((aligned_new_t *)own)(size, alignment, &tag) : ((new_t *)own)(size, &tag);
}

/* The handler may throw, and only C++ can catch that. The runtime's own operator does: it calls the throwing form, which is the
 * one in this file, and returns NULL for an exception. If the operator that was found calls this form again, it catches
 * nothing; then the handler is called from here. */
COLD static void *retry_nothrow(size_t size, size_t alignment, nothrow_form_t form, const char *name, const void *caller)
{
  const void *first = first_caller(caller);
  get_new_handler_t *get = find_get_new_handler(first);
  if (!get || !get())
    return NULL;
  void *own = handed_over.forms & form ? NULL : find_runtimes_own(name, get, first), *block;
  if (own) {
    handed_over.forms |= form;
    handed_over.caller = first;
    block = call_runtimes_own(own, size, alignment);
  } else {
    block = retry(size, alignment, form & (ARRAY | ALIGNED_ARRAY) ? NEW_ARRAY : NEW, first);
  }
  handed_over.forms &= ~(unsigned)form;
  return block;
}

/* ---- the forms that a program may have replaced, and in terms of which the others are defined ---- */

/* The one that callers reach by this name is in a word that the loader fills in. No compiler sees how, since each thinks in its
 * own way that it knows the function of that name. */
#if __SIZEOF_POINTER__ == 8
#define POINTER_WORD ".quad "
#else
#define POINTER_WORD ".long "
#endif
#define DECLARE_BASE(result, name, parameters) \
  EXPORT result name parameters; \
  extern __typeof__(&name) const reached##name __attribute__((visibility("hidden"))); \
  __asm__(".pushsection .data.rel.ro.reached,\"aw\"\n\t.balign 8\n\t.hidden reached" #name "\n\t.globl reached" #name \
          "\nreached" #name ":\n\t" POINTER_WORD #name "\n\t.popsection"); \
  extern __typeof__(name) our##name __attribute__((alias(#name), visibility("hidden")))

DECLARE_BASE(void *, _Znwm, (size_t size));
DECLARE_BASE(void *, _Znam, (size_t size));
DECLARE_BASE(void *, _ZnwmSt11align_val_t, (size_t size, size_t alignment));
DECLARE_BASE(void *, _ZnamSt11align_val_t, (size_t size, size_t alignment));
DECLARE_BASE(void, _ZdlPv, (void *block));
DECLARE_BASE(void, _ZdaPv, (void *block));
DECLARE_BASE(void, _ZdlPvSt11align_val_t, (void *block, size_t alignment));
DECLARE_BASE(void, _ZdaPvSt11align_val_t, (void *block, size_t alignment));

#define REACHED(name) reached##name
#define IS_OURS(name) likely(REACHED(name) == our##name)

/* What a form does that is defined in terms of others: the same as theirs, unless one of them was replaced. Of an array it is
 * said that it is one, and of a size that is known, what it is. */
#define DELETE       "operator delete"
#define DELETE_ARRAY "operator delete[]"

#define FREE(block)       default_free(block, DELETE)
#define FREE_ARRAY(block) default_free(block, DELETE_ARRAY)

#define FREE_OR(free, block)       (IS_OURS(_ZdlPv) ? free : REACHED(_ZdlPv)(block))
#define DELETE_SINGLE(block)       FREE_OR(FREE(block), block)
#define DELETE_OF_ARRAY(block)     FREE_OR(FREE_ARRAY(block), block)
#define DELETE_ANY_ARRAY(block)    (IS_OURS(_ZdaPv) ? DELETE_OF_ARRAY(block) : REACHED(_ZdaPv)(block))
#define DELETE_SINGLE_SIZED(block) FREE_OR(default_free_sized(block, size, DELETE), block)
#define DELETE_ARRAY_SIZED(block) \
  (IS_OURS(_ZdaPv) ? FREE_OR(default_free_sized(block, size, DELETE_ARRAY), block) : REACHED(_ZdaPv)(block))

#define OURS_OR(name, act, ...)            (IS_OURS(name) ? act : REACHED(name)(__VA_ARGS__))
#define ALIGNED_FREE_OR(free, block)       OURS_OR(_ZdlPvSt11align_val_t, free, block, alignment)
#define ALIGNED_ARRAY_OR(act, block)       OURS_OR(_ZdaPvSt11align_val_t, act, block, alignment)
#define DELETE_ALIGNED_SINGLE(block)       ALIGNED_FREE_OR(FREE(block), block)
#define DELETE_ALIGNED_OF_ARRAY(block)     ALIGNED_FREE_OR(FREE_ARRAY(block), block)
#define DELETE_ALIGNED_ANY_ARRAY(block)    ALIGNED_ARRAY_OR(DELETE_ALIGNED_OF_ARRAY(block), block)
#define DELETE_ALIGNED_SINGLE_SIZED(block) ALIGNED_FREE_OR(default_free_aligned_sized(block, size, alignment, DELETE), block)
#define DELETE_ALIGNED_ARRAY_SIZED(block) \
  ALIGNED_ARRAY_OR(ALIGNED_FREE_OR(default_free_aligned_sized(block, size, alignment, DELETE_ARRAY), block), block)

/* Calls the program's throwing form by way of the runtime's own form of this name, which returns NULL for an exception. If no
 * runtime is to be found, nothing can throw, and the program's form is called at once. So it is if what was found calls this
 * form again without an end: that is no runtime. */
enum { DEPTH_MOST = 1000 };
COLD static void *call_replaced(size_t size, size_t alignment, nothrow_form_t form, const char *name, const void *caller)
{
  bool is_array = form & (ARRAY | ALIGNED_ARRAY), endless = handed_over.depth >= DEPTH_MOST;
  get_new_handler_t *get = endless ? NULL : find_get_new_handler(caller);
  void *own = get ? find_runtimes_own(name, get, caller) : NULL, *block;
  if (own) {
    handed_over.depth++;
    block = call_runtimes_own(own, size, alignment);
    handed_over.depth--;
  } else if (alignment) {
    block = is_array ? REACHED(_ZnamSt11align_val_t)(size, alignment) : REACHED(_ZnwmSt11align_val_t)(size, alignment);
  } else {
    block = is_array ? REACHED(_Znam)(size) : REACHED(_Znwm)(size);
  }
  return block;
}

/* ---- all forms ---- */

#define DEFINE_NEW(name, parameters, alignment) \
  void *name parameters \
  { \
    void *block = allocate_at_once(size, alignment, NEW); \
    return likely(block) ? block : retry_or_throw(size, alignment, NEW, __builtin_return_address(0)); \
  }

#define DEFINE_ARRAY_NEW(name, parameters, alignment, base, call) \
  void *name parameters \
  { \
    if (!IS_OURS(base)) \
      return call; \
    void *block = allocate_at_once(size, alignment, NEW_ARRAY); \
    return likely(block) ? block : retry_or_throw(size, alignment, NEW_ARRAY, __builtin_return_address(0)); \
  }

#define DEFINE_NOTHROW_NEW(name, parameters, alignment, form, are_ours) \
  EXPORT void *name parameters; \
  void *name parameters \
  { \
    if (!(are_ours)) \
      return call_replaced(size, alignment, form, #name, __builtin_return_address(0)); \
    void *block = allocate_at_once(size, alignment, (form) & (ARRAY | ALIGNED_ARRAY) ? NEW_ARRAY : NEW); \
    return likely(block) ? block : retry_nothrow(size, alignment, form, #name, __builtin_return_address(0)); \
  }

#define DEFINE_DELETE(name, parameters, act) \
  EXPORT void name parameters; \
  void name parameters { act(block); }

typedef const void *nothrow_t;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

DEFINE_NEW(_Znwm, (size_t size), 0)
DEFINE_ARRAY_NEW(_Znam, (size_t size), 0, _Znwm, REACHED(_Znwm)(size))
DEFINE_NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), alignment)
DEFINE_ARRAY_NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), alignment, _ZnwmSt11align_val_t,
                 REACHED(_ZnwmSt11align_val_t)(size, alignment))

DEFINE_NOTHROW_NEW(_ZnwmRKSt9nothrow_t, (size_t size, nothrow_t tag), 0, SINGLE, IS_OURS(_Znwm))
DEFINE_NOTHROW_NEW(_ZnamRKSt9nothrow_t, (size_t size, nothrow_t tag), 0, ARRAY, IS_OURS(_Znam) && IS_OURS(_Znwm))
DEFINE_NOTHROW_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, nothrow_t tag), alignment,
                   ALIGNED_SINGLE, IS_OURS(_ZnwmSt11align_val_t))
DEFINE_NOTHROW_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, nothrow_t tag), alignment, ALIGNED_ARRAY,
                   IS_OURS(_ZnamSt11align_val_t) && IS_OURS(_ZnwmSt11align_val_t))

DEFINE_DELETE(_ZdlPv, (void *block), FREE)
DEFINE_DELETE(_ZdaPv, (void *block), DELETE_OF_ARRAY)
DEFINE_DELETE(_ZdlPvm, (void *block, size_t size), DELETE_SINGLE_SIZED)
DEFINE_DELETE(_ZdaPvm, (void *block, size_t size), DELETE_ARRAY_SIZED)
DEFINE_DELETE(_ZdlPvRKSt9nothrow_t, (void *block, nothrow_t tag), DELETE_SINGLE)
DEFINE_DELETE(_ZdaPvRKSt9nothrow_t, (void *block, nothrow_t tag), DELETE_ANY_ARRAY)
DEFINE_DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), FREE)
DEFINE_DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), DELETE_ALIGNED_OF_ARRAY)
DEFINE_DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment), DELETE_ALIGNED_SINGLE_SIZED)
DEFINE_DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment), DELETE_ALIGNED_ARRAY_SIZED)
DEFINE_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow_t tag), DELETE_ALIGNED_SINGLE)
DEFINE_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow_t tag), DELETE_ALIGNED_ANY_ARRAY)

#pragma GCC diagnostic pop
