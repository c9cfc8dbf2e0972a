/* SPDX-License-Identifier: MIT
 * How a public function is declared. Included by the other headers; nothing here is for users. */
#ifndef TIDEPOOL_VISIBILITY_H
#define TIDEPOOL_VISIBILITY_H

#define POOL_API __attribute__((visibility("default")))

/* A function that the header defines, so that the size of a struct is what the caller was compiled with. It is always inline:
 * where it was called is what the caller wants to read in a message. */
#ifdef __cplusplus
#define POOL_INLINE static inline __attribute__((__always_inline__))
#else
#define POOL_INLINE static __inline__ __attribute__((__always_inline__))
#endif

/* What linkers know a function as: pool_alloc() is tidepool_alloc, pool_heap_create() tidepool_heap_create, object_pool_get()
 * tidepool_object_pool_get. Other programs have functions called pool_alloc too, and a program's own would take the place of
 * the library's. Who looks a function up by a name (dlsym, ctypes, another language) uses the linker's. */
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

/* The result is a block that aliases nothing; argument N (or N times M) is its size, A its alignment. */
#define POOL_RETURNS_BLOCK(...) __attribute__((malloc, warn_unused_result, alloc_size(__VA_ARGS__)))
#ifdef __clang__ /* clang 14 crashes on an alignment that is a constant and no power of two */
#define POOL_RETURNS_ALIGNED_BLOCK(a, n) POOL_RETURNS_BLOCK(n)
#else
#define POOL_RETURNS_ALIGNED_BLOCK(a, n) __attribute__((malloc, warn_unused_result, alloc_align(a), alloc_size(n)))
#endif

#endif
