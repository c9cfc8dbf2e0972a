/* SPDX-License-Identifier: MIT
 * The C library's. */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include "linked.h"
#include <stdlib.h>

#define ALLOCATOR_NAME      "malloc"
#define OWN_SUBJECTS(X)     X(heaps) X(object_pools)
#define BENCH_BY_HAND       /* what a program would write itself is compared with here */
#define bench_alloc         malloc
#define bench_calloc        calloc
#define bench_realloc       realloc
#define bench_aligned_alloc aligned_alloc
#define bench_free          free

#define BENCH_HEAPS_HEADER "allocators/malloc_heaps.h"

#endif
