/* SPDX-License-Identifier: MIT
 * How a public function is declared. Included by the other headers; nothing here is for users. */
#ifndef TIDEPOOL_VISIBILITY_H
#define TIDEPOOL_VISIBILITY_H

#define POOL_API __attribute__((visibility("default")))

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
