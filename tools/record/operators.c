/* SPDX-License-Identifier: MIT
 *
 * The operators new and delete of C++, which the library has too: without these its own would come first. Their names hold the
 * letter of size_t. An exception passes through.
 *
 * An operator of the library may call another by its name, which a program may have replaced: that is one event. What else is
 * called meanwhile, as the function that finds memory where there is none, is the program's. */
#include "event.h"
#include <dlfcn.h>
#include <stdlib.h>

#if __SIZEOF_SIZE_T__ == 8
#define OPERATOR(before, after) before##m##after
#else
#define OPERATOR(before, after) before##j##after
#endif
#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

#define NEWS(X) \
  X(OPERATOR(_Znw, ), (size_t size), (size), RECORDING_ALLOC, 1) \
  X(OPERATOR(_Zna, ), (size_t size), (size), RECORDING_ALLOC, 1) \
  X(OPERATOR(_Znw, RKSt9nothrow_t), (size_t size, const void *tag), (size, tag), RECORDING_ALLOC, 1) \
  X(OPERATOR(_Zna, RKSt9nothrow_t), (size_t size, const void *tag), (size, tag), RECORDING_ALLOC, 1) \
  X(OPERATOR(_Znw, St11align_val_t), (size_t size, size_t alignment), (size, alignment), RECORDING_ALIGNED, alignment) \
  X(OPERATOR(_Zna, St11align_val_t), (size_t size, size_t alignment), (size, alignment), RECORDING_ALIGNED, alignment) \
  X(OPERATOR(_Znw, St11align_val_tRKSt9nothrow_t), (size_t size, size_t alignment, const void *tag), (size, alignment, tag), \
    RECORDING_ALIGNED, alignment) \
  X(OPERATOR(_Zna, St11align_val_tRKSt9nothrow_t), (size_t size, size_t alignment, const void *tag), (size, alignment, tag), \
    RECORDING_ALIGNED, alignment)

#define DELETES(X) \
  X(_ZdlPv, (void *block), (block)) \
  X(_ZdaPv, (void *block), (block)) \
  X(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag)) \
  X(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag)) \
  X(OPERATOR(_ZdlPv, ), (void *block, size_t size), (block, size)) \
  X(OPERATOR(_ZdaPv, ), (void *block, size_t size), (block, size)) \
  X(_ZdlPvSt11align_val_t, (void *block, size_t alignment), (block, alignment)) \
  X(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment)) \
  X(OPERATOR(_ZdlPv, St11align_val_t), (void *block, size_t size, size_t alignment), (block, size, alignment)) \
  X(OPERATOR(_ZdaPv, St11align_val_t), (void *block, size_t size, size_t alignment), (block, size, alignment)) \
  X(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag), (block, alignment, tag)) \
  X(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag), (block, alignment, tag))

#define NEW_POINTER(name, parameters, arguments, op, alignment) static void *(*JOIN(next, name))parameters;
#define DELETE_POINTER(name, parameters, arguments)             static void(*JOIN(next, name)) parameters;
NEWS(NEW_POINTER)
DELETES(DELETE_POINTER)

#define FIND_NEW(name, parameters, arguments, op, alignment) \
  JOIN(next, name) = (void *(*)parameters)dlsym(RTLD_NEXT, TEXT(name));
#define FIND_DELETE(name, parameters, arguments) JOIN(next, name) = (void(*) parameters)dlsym(RTLD_NEXT, TEXT(name));

void operators_find(void) { NEWS(FIND_NEW) DELETES(FIND_DELETE) }

/* All at once: one calls the other, and then the caller is the library of C++, or this one. */
#define FIND_NEW_BESIDE(name, parameters, arguments, op, alignment) FIND_DELETE_BESIDE(name, parameters, arguments)
#define FIND_DELETE_BESIDE(name, parameters, arguments) \
  if (!JOIN(next, name)) \
    JOIN(next, name) = (__typeof__(JOIN(next, name)))find_beside(caller, TEXT(name));

static void find_all_beside(const void *caller){NEWS(FIND_NEW_BESIDE) DELETES(FIND_DELETE_BESIDE)}

/* Before it was loaded; and where a plug-in has the library of C++ for itself alone, which is asked then. */
#define FIND_LATE(name) \
  if (unlikely(!JOIN(next, name)) && !(names_find() && JOIN(next, name)) && (find_all_beside(CALLER), !JOIN(next, name))) \
  abort()

#define NEW(name, parameters, arguments, op, alignment) \
  EXPORT void *name parameters; \
  EXPORT void *name parameters \
  { \
    FIND_LATE(name); \
    uint32_t failures = self.failures; \
    self.allocated = NULL; \
    void *block = JOIN(next, name) arguments; \
    if (block ? block != self.allocated : failures == self.failures) { \
      RECORD(record_block(0, op, block, size, alignment, CALLER)); \
      self.failures += !block; \
    } \
    self.allocated = block; \
    return block; \
  }

#define DELETE(name, parameters, arguments) \
  EXPORT void name parameters; \
  EXPORT void name parameters \
  { \
    FIND_LATE(name); \
    const void *outer = self.freed; \
    if (block && block != outer) \
      RECORD_FREE(record_free(block)); \
    if (block == self.allocated) \
      self.allocated = NULL; \
    self.freed = block; \
    JOIN(next, name) arguments; \
    self.freed = outer; \
  }

NEWS(NEW) DELETES(DELETE)
