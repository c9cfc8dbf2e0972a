/* SPDX-License-Identifier: MIT
 *
 * The operators new and delete of C++, which the library has too: without these its own would come first. Their names hold the
 * letter of size_t. An exception passes through.
 *
 * An operator of the library may call another by its name, which a program may have replaced: that is one event. What else is
 * called meanwhile, as the function that finds memory where there is none, is the program's. */
#include "beside.h"
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

#define NEW_POINTER(name, parameters, arguments, op, alignment) void *(*name)parameters;
#define DELETE_POINTER(name, parameters, arguments)             void(*name) parameters;
typedef struct operators {
  beside_t beside; /* of a module's own */
  NEWS(NEW_POINTER)
  DELETES(DELETE_POINTER)
} operators_t;

static operators_t next;

#define FIND_NEW(name, parameters, arguments, op, alignment) next.name = (void *(*)parameters)dlsym(RTLD_NEXT, TEXT(name));
#define FIND_DELETE(name, parameters, arguments)             next.name = (void(*) parameters)dlsym(RTLD_NEXT, TEXT(name));

void operators_find(void) { NEWS(FIND_NEW) DELETES(FIND_DELETE) }

/* ---- modules that have the library of C++ for themselves ---- */

#define FIND_NEW_BESIDE(name, parameters, arguments, op, alignment) FIND_DELETE_BESIDE(name, parameters, arguments)
#define FIND_DELETE_BESIDE(name, parameters, arguments) \
  operators->name = (__typeof__(operators->name))beside_symbol(caller, TEXT(name));

static bool fill_operators(beside_t *beside, const void *caller)
{
  operators_t *operators = (operators_t *)(void *)beside;
  NEWS(FIND_NEW_BESIDE)
  DELETES(FIND_DELETE_BESIDE)
  return operators->OPERATOR(_Znw, ) != NULL;
}

static const beside_kind_t kind = {fill_operators, sizeof(operators_t), sizeof(operators_t)};

/* One operator may jump to another, and then the caller is in this library: it is the same module's. */
static const operators_t *operators_beside(const void *caller)
{
  if (names_find() && next.OPERATOR(_Znw, ))
    return &next;
  beside_t *found = beside_find(&kind, caller);
  found = found ? found : beside_make(&kind, caller);
  const operators_t *operators = found ? (const operators_t *)(void *)found : self.operators;
  if (!operators)
    abort();
  return operators;
}

static inline __attribute__((always_inline)) const operators_t *operators_of(const void *caller)
{
  return likely(next.OPERATOR(_Znw, ) != NULL) ? &next : operators_beside(caller);
}

#define NEW(name, parameters, arguments, op, alignment) \
  EXPORT void *name parameters; \
  EXPORT void *name parameters \
  { \
    const operators_t *operators = operators_of(CALLER); \
    if (unlikely(!operators->name)) \
      abort(); \
    uint32_t failures = self.failures; \
    self.allocated = NULL; \
    self.operators = operators; \
    void *block = operators->name arguments; \
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
    const operators_t *operators = operators_of(CALLER); \
    if (unlikely(!operators->name)) \
      abort(); \
    const void *outer = self.freed; \
    if (block && block != outer) \
      RECORD_FREE(record_free(block)); \
    if (block == self.allocated) \
      self.allocated = NULL; \
    self.freed = block; \
    self.operators = operators; \
    operators->name arguments; \
    self.freed = outer; \
  }

NEWS(NEW) DELETES(DELETE)
