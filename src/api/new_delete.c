/* SPDX-License-Identifier: MIT
 *
 * C++ new and delete, defined by their mangled names: no C++ runtime is needed to build or load this file. Only exhausted
 * memory needs one, for the new-handler and for throwing std::bad_alloc, and it is looked up then.
 *
 * A program may replace some of the forms. Each of the others is then defined in terms of those, as [new.delete] requires.
 *
 * Built with -fexceptions, because std::bad_alloc passes through these frames. */
#include "api/fast_path.h"
#include "api/new_names.h"
#include "base/machine.h"
#include "misuse.h"
#include <dlfcn.h>
#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*new_handler_t)(void);

/* ---- the C++ runtime ---- */

/* std::get_new_handler() and std::__throw_bad_alloc() of a runtime that was loaded with the program need no loader lock. */
extern new_handler_t _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* The handle is closed at once. The runtime stays loaded, because the caller of new is on the stack and depends on it. */
static void *find_in_library(const char *file, const char *name)
{
  void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD), *found = NULL;
  if (library) {
    found = dlsym(library, name);
    dlclose(library);
  }
  return found;
}

/* Looks in the scope of the library that contains this code. */
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

/* Looks where the loader would for `caller`: in the global scope, then in that of the caller's library, which may have the
 * runtime inside it. The runtime is looked up by name for a caller unknown to the loader. */
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

/* Throws std::bad_alloc() as a compiler for the Itanium C++ ABI does. The object is a pointer to the functions in its virtual
 * table, which follow the offset to the top and the type. A runtime inside a plug-in can throw and catch, but has
 * std::__throw_bad_alloc() only if its containers need it. */
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

/* The runtime's own function is the first choice. The program ends if nothing can throw. */
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

/* Starts each form. The code after it makes it no tail call, so the slow path gets the caller as an argument. */
static ALWAYS_INLINE void *allocate_at_once(size_t size, size_t alignment, const char *call)
{
  void *block = alignment ? default_aligned_alloc_at_once(alignment, size) : NULL;
  if (alignment)
    return likely(block) ? block : default_aligned_alloc_for(alignment, size, ORIGIN(call));
  if (likely(size <= SIZE_CACHED))
    block = MAGAZINE_POP(default_loaded_for(size));
  return likely(block) ? block : default_alloc_for(size, ORIGIN(call));
}

NOINLINE static void *allocate(size_t size, size_t alignment, origin_t by)
{
  return alignment ? default_aligned_alloc_for(alignment, size, by) : default_alloc_for(size, by);
}

/* The nothrow forms, as bits. */
typedef enum nothrow_form { SINGLE = 1 << 0, ARRAY = 1 << 1, ALIGNED_SINGLE = 1 << 2, ALIGNED_ARRAY = 1 << 3 } nothrow_form_t;

/* Calls that this thread has handed over to the runtime and that have not returned yet. */
static THREAD_LOCAL struct handed_over {
  unsigned forms;     /* of nothrow_form_t */
  unsigned depth;     /* nested calls of call_replaced(): the program's own operator may use a nothrow form */
  const void *caller; /* of the first form: its library sees the runtime, which the runtime itself may not */
} handed_over;

/* Calls the handler until there is a block, it throws, it ends the program, or it is gone, as [new.delete.single] requires.
 * Forms that the handler itself uses start anew. */
static void *retry(size_t size, size_t alignment, const char *call, const void *caller)
{
  void *block = NULL;
  for (new_handler_t handler; !block && (handler = get_new_handler(caller)) != NULL;) {
    handed_over.forms = 0;
    handler();
    block = allocate(size, alignment, ORIGIN_AT(call, caller));
  }
  return block;
}

/* The caller within a call that was handed over is the runtime, so the caller of the first form counts. */
static const void *first_caller(const void *caller) { return handed_over.forms ? handed_over.caller : caller; }

COLD static void *retry_or_throw(size_t size, size_t alignment, const char *call, const void *caller)
{
  const void *first = first_caller(caller);
  void *block = retry(size, alignment, call, first);
  if (!block)
    throw_bad_alloc(first);
  return block;
}

/* Finds the runtime's own operator of this name, in the library that keeps the handler. The next one in the process may be
 * another allocator's, so the libraries are compared. The first two attempts need no memory, which is exhausted. Later ones
 * may: the loader first builds the dependency list of a library that was not opened by itself. */
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
  static const char tag; /* std::nothrow is an empty object whose address is irrelevant */
  typedef void *new_t(size_t size, const void *tag);
  typedef void *aligned_new_t(size_t size, size_t alignment, const void *tag);
  return alignment ? ((aligned_new_t *)own)(size, alignment, &tag) : ((new_t *)own)(size, &tag);
}

/* The handler may throw, and only C++ can catch that. The runtime's own operator does: it calls the throwing form, in this
 * file, and returns NULL for an exception. If the found operator calls this form again, the handler is called from here. */
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

/* ---- the forms that a program may replace, which define the others ---- */

/* The loader fills in a word with the function that callers reach by this name. Compilers, which assume ours, do not see it. */
#if __SIZEOF_POINTER__ == 8
#define POINTER_WORD ".quad "
#else
#define POINTER_WORD ".long "
#endif
#define DECLARE_BASE(result, name, parameters) \
  EXPORT result name parameters; \
  extern __typeof__(&name) const RESOLVED(name) __attribute__((visibility("hidden"))); \
  __asm__(".pushsection .data.rel.ro.resolved,\"aw\"\n\t.balign 8\n\t.hidden resolved" NAME_TEXT( \
    name) "\n\t.globl resolved" NAME_TEXT(name) "\nresolved" NAME_TEXT(name) ":\n\t" POINTER_WORD \
            NAME_TEXT(name) "\n\t.popsection"); \
  extern __typeof__(name) OURS(name) __attribute__((alias(NAME_TEXT(name)), visibility("hidden")))

#define RESOLVED(name) NAME_JOINED(resolved, name)
#define OURS(name)     NAME_JOINED(our, name)
#define IS_OURS(name)  likely(RESOLVED(name) == OURS(name))

DECLARE_BASE(void *, _Znwm, (size_t size));
DECLARE_BASE(void *, _Znam, (size_t size));
DECLARE_BASE(void *, _ZnwmSt11align_val_t, (size_t size, size_t alignment));
DECLARE_BASE(void *, _ZnamSt11align_val_t, (size_t size, size_t alignment));
DECLARE_BASE(void, _ZdlPv, (void *block));
DECLARE_BASE(void, _ZdaPv, (void *block));
DECLARE_BASE(void, _ZdlPvSt11align_val_t, (void *block, size_t alignment));
DECLARE_BASE(void, _ZdaPvSt11align_val_t, (void *block, size_t alignment));

/* Forms defined by others do the same as those, unless one was replaced. Arrays are marked, and known sizes passed on. */
#define DELETE       "operator delete"
#define DELETE_ARRAY "operator delete[]"

#define FREE(call)         default_free(block, call)
#define FREE_SIZED(call)   default_free_aligned_sized(block, size, 1, call)
#define FREE_ALIGNED(call) default_free_aligned_sized(block, size, alignment, call)

/* Does what this library does for a form, or calls the program's form of this name instead. */
#define OURS_OR(name, act, ...) (IS_OURS(name) ? act : RESOLVED(name)(__VA_ARGS__))
#define SINGLE_OR(act)          OURS_OR(_ZdlPv, act, block)
#define ARRAY_OR(act)           OURS_OR(_ZdaPv, SINGLE_OR(act), block)
#define ALIGNED_SINGLE_OR(act)  OURS_OR(_ZdlPvSt11align_val_t, act, block, alignment)
#define ALIGNED_ARRAY_OR(act)   OURS_OR(_ZdaPvSt11align_val_t, ALIGNED_SINGLE_OR(act), block, alignment)

/* Calls the program's throwing form through the runtime's own nothrow form of this name, which returns NULL for an exception.
 * Nothing can throw without a runtime, and the program's form is called directly. It is also called directly if the function
 * that was found calls this form without an end: that is no runtime. */
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
    block = is_array ? RESOLVED(_ZnamSt11align_val_t)(size, alignment) : RESOLVED(_ZnwmSt11align_val_t)(size, alignment);
  } else {
    block = is_array ? RESOLVED(_Znam)(size) : RESOLVED(_Znwm)(size);
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
      return call_replaced(size, alignment, form, NAME_TEXT(name), __builtin_return_address(0)); \
    void *block = allocate_at_once(size, alignment, (form) & (ARRAY | ALIGNED_ARRAY) ? NEW_ARRAY : NEW); \
    return likely(block) ? block : retry_nothrow(size, alignment, form, NAME_TEXT(name), __builtin_return_address(0)); \
  }

#define DEFINE_DELETE(name, parameters, act) \
  EXPORT void name parameters; \
  void name parameters { act; }

typedef const void *nothrow_t;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

DEFINE_NEW(_Znwm, (size_t size), 0)
DEFINE_ARRAY_NEW(_Znam, (size_t size), 0, _Znwm, RESOLVED(_Znwm)(size))
DEFINE_NEW(_ZnwmSt11align_val_t, (size_t size, size_t alignment), alignment)
DEFINE_ARRAY_NEW(_ZnamSt11align_val_t, (size_t size, size_t alignment), alignment, _ZnwmSt11align_val_t,
                 RESOLVED(_ZnwmSt11align_val_t)(size, alignment))

DEFINE_NOTHROW_NEW(_ZnwmRKSt9nothrow_t, (size_t size, nothrow_t tag), 0, SINGLE, IS_OURS(_Znwm))
DEFINE_NOTHROW_NEW(_ZnamRKSt9nothrow_t, (size_t size, nothrow_t tag), 0, ARRAY, IS_OURS(_Znam) && IS_OURS(_Znwm))
DEFINE_NOTHROW_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, nothrow_t tag), alignment,
                   ALIGNED_SINGLE, IS_OURS(_ZnwmSt11align_val_t))
DEFINE_NOTHROW_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, nothrow_t tag), alignment, ALIGNED_ARRAY,
                   IS_OURS(_ZnamSt11align_val_t) && IS_OURS(_ZnwmSt11align_val_t))

DEFINE_DELETE(_ZdlPv, (void *block), FREE(DELETE))
DEFINE_DELETE(_ZdaPv, (void *block), SINGLE_OR(FREE(DELETE_ARRAY)))
DEFINE_DELETE(_ZdlPvm, (void *block, size_t size), SINGLE_OR(FREE_SIZED(DELETE)))
DEFINE_DELETE(_ZdaPvm, (void *block, size_t size), ARRAY_OR(FREE_SIZED(DELETE_ARRAY)))
DEFINE_DELETE(_ZdlPvRKSt9nothrow_t, (void *block, nothrow_t tag), SINGLE_OR(FREE(DELETE)))
DEFINE_DELETE(_ZdaPvRKSt9nothrow_t, (void *block, nothrow_t tag), ARRAY_OR(FREE(DELETE_ARRAY)))
DEFINE_DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), FREE(DELETE))
DEFINE_DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), ALIGNED_SINGLE_OR(FREE(DELETE_ARRAY)))
DEFINE_DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t size, size_t alignment), ALIGNED_SINGLE_OR(FREE_ALIGNED(DELETE)))
DEFINE_DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t size, size_t alignment),
              ALIGNED_ARRAY_OR(FREE_ALIGNED(DELETE_ARRAY)))
DEFINE_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow_t tag),
              ALIGNED_SINGLE_OR(FREE(DELETE)))
DEFINE_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, nothrow_t tag),
              ALIGNED_ARRAY_OR(FREE(DELETE_ARRAY)))

#pragma GCC diagnostic pop
