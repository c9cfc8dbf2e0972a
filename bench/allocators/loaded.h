/* SPDX-License-Identifier: MIT
 *
 * For an allocator whose library also exports malloc. Linked, it would take over the whole process, and google-benchmark
 * and the C library with it. So it is loaded where nobody else's symbols resolve to it, and called through these. */
#ifndef BENCH_LOADED_H
#define BENCH_LOADED_H

#include <stddef.h>

typedef struct loaded_functions {
  void *(*alloc)(size_t size);
  void *(*calloc)(size_t count, size_t size);
  void *(*realloc)(void *block, size_t size);
  void *(*aligned_alloc)(size_t alignment, size_t size);
  void (*free)(void *block);
} loaded_functions_t;

/* Hidden: a call is `call *loaded+8(%rip)`, what -fno-plt makes of a call of a linked function. */
extern __attribute__((visibility("hidden"))) loaded_functions_t loaded;

#define bench_alloc         loaded.alloc
#define bench_calloc        loaded.calloc
#define bench_realloc       loaded.realloc
#define bench_aligned_alloc loaded.aligned_alloc
#define bench_free          loaded.free

/* Ends the program with status 77, "skipped", where the library is not installed. */
void allocator_load(char **argv);

/* One more of its functions, for what only some allocators have. */
void *loaded_symbol(const char *name);

#endif
