/* SPDX-License-Identifier: MIT
 * The C library's. */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include <stdlib.h>
#include "linked.h"

#define ALLOCATOR_NAME "malloc"
#define bench_alloc malloc
#define bench_calloc calloc
#define bench_realloc realloc
#define bench_aligned_alloc aligned_alloc
#define bench_free free

#endif
