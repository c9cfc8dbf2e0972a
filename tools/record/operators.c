/* SPDX-License-Identifier: MIT
 *
 * The operators new and delete of C++, which the library has too: without these its own would come first. Their names hold the
 * letter of size_t. An exception passes through. */
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

#define NEW(name, parameters, arguments, op, alignment) \
  EXPORT void *name parameters; \
  EXPORT void *name parameters \
  { \
    static void *(*next)parameters; \
    if (unlikely(!next)) \
      next = (void *(*)parameters)dlsym(RTLD_NEXT, TEXT(name)); \
    if (unlikely(!next)) \
      abort(); \
    EVENT; \
    void *block = next arguments; \
    if (event.is_recorded) \
      KEEP_ERRNO(record_block(op, block, size, alignment, CALLER)); \
    return block; \
  }
#define PLAIN                                   RECORDING_ALLOC, 1
#define ALIGNED                                 RECORDING_ALIGNED, alignment
#define NEW_(name, parameters, arguments, kind) NEW(name, parameters, arguments, kind)

#define DELETE(name, parameters, arguments) \
  EXPORT void name parameters; \
  EXPORT void name parameters \
  { \
    static void(*next) parameters; \
    if (unlikely(!next)) \
      next = (void(*) parameters)dlsym(RTLD_NEXT, TEXT(name)); \
    if (unlikely(!next)) \
      abort(); \
    EVENT; \
    if (event.is_recorded && block) \
      KEEP_ERRNO(record_free(block)); \
    next arguments; \
  }

NEW_(OPERATOR(_Znw, ), (size_t size), (size), PLAIN)
NEW_(OPERATOR(_Zna, ), (size_t size), (size), PLAIN)
NEW_(OPERATOR(_Znw, RKSt9nothrow_t), (size_t size, const void *tag), (size, tag), PLAIN)
NEW_(OPERATOR(_Zna, RKSt9nothrow_t), (size_t size, const void *tag), (size, tag), PLAIN)
NEW_(OPERATOR(_Znw, St11align_val_t), (size_t size, size_t alignment), (size, alignment), ALIGNED)
NEW_(OPERATOR(_Zna, St11align_val_t), (size_t size, size_t alignment), (size, alignment), ALIGNED)
NEW_(OPERATOR(_Znw, St11align_val_tRKSt9nothrow_t), (size_t size, size_t alignment, const void *tag), (size, alignment, tag),
     ALIGNED)
NEW_(OPERATOR(_Zna, St11align_val_tRKSt9nothrow_t), (size_t size, size_t alignment, const void *tag), (size, alignment, tag),
     ALIGNED)

DELETE(_ZdlPv, (void *block), (block))
DELETE(_ZdaPv, (void *block), (block))
DELETE(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag))
DELETE(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag), (block, tag))
DELETE(OPERATOR(_ZdlPv, ), (void *block, size_t size), (block, size))
DELETE(OPERATOR(_ZdaPv, ), (void *block, size_t size), (block, size))
DELETE(_ZdlPvSt11align_val_t, (void *block, size_t alignment), (block, alignment))
DELETE(_ZdaPvSt11align_val_t, (void *block, size_t alignment), (block, alignment))
DELETE(OPERATOR(_ZdlPv, St11align_val_t), (void *block, size_t size, size_t alignment), (block, size, alignment))
DELETE(OPERATOR(_ZdaPv, St11align_val_t), (void *block, size_t size, size_t alignment), (block, size, alignment))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag), (block, alignment, tag))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *block, size_t alignment, const void *tag), (block, alignment, tag))
