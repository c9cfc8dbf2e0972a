/* SPDX-License-Identifier: MIT
 * Macros that declare public functions. The other headers include this; nothing here is for users. */
#ifndef TIDEPOOL_VISIBILITY_H
#define TIDEPOOL_VISIBILITY_H

/* A DLL exports the functions that a list names. */
#ifdef _WIN32
#define POOL_API
#else
#define POOL_API __attribute__((visibility("default")))
#endif

/* A function that the header defines, so that the size of a struct is the one that the caller was compiled with. It is always
 * inline, so that messages name the caller as the place of the call. */
#ifdef __cplusplus
#define POOL_INLINE static inline __attribute__((__always_inline__))
#else
#define POOL_INLINE static __inline__ __attribute__((__always_inline__))
#endif

/* The name that linkers know a function by: pool_alloc() is tidepool_alloc, pool_heap_create() is tidepool_heap_create, and
 * object_pool_get() is tidepool_object_pool_get. A program's own pool_alloc() would otherwise replace the library's. Use these
 * names to look functions up (dlsym, ctypes, other languages). */
#define POOL_NAME(name)      POOL_NOEXCEPT __asm__(POOL_STRING(__USER_LABEL_PREFIX__) "tidepool_" #name)
#define POOL_STRING(text)    POOL_STRING_OF(text)
#define POOL_STRING_OF(text) #text

#ifdef __cplusplus
#define POOL_NOEXCEPT    noexcept
#define POOL_BEGIN_DECLS extern "C" {
#define POOL_END_DECLS   }
#else
#define POOL_NOEXCEPT
#define POOL_BEGIN_DECLS
#define POOL_END_DECLS
#endif

/* The result is a block that aliases nothing. Argument N, or N times M, is its size, and A its alignment. */
#define POOL_RETURNS_BLOCK(...) __attribute__((malloc, warn_unused_result, alloc_size(__VA_ARGS__)))
#ifdef __clang__ /* clang 14 crashes on an alignment that is a constant and no power of two */
#define POOL_RETURNS_ALIGNED_BLOCK(a, n) POOL_RETURNS_BLOCK(n)
#else
#define POOL_RETURNS_ALIGNED_BLOCK(a, n) __attribute__((malloc, warn_unused_result, alloc_align(a), alloc_size(n)))
#endif

#endif
