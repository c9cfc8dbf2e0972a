/* SPDX-License-Identifier: MIT */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include "linked.h"
#include <tidepool/pool.h>

#define ALLOCATOR_NAME  "tidepool"
#define OWN_SUBJECTS(X) X(heaps) X(object_pools)
#define BENCH_OBJECT_POOLS
#define bench_alloc         pool_alloc
#define bench_calloc        pool_calloc
#define bench_realloc       pool_realloc
#define bench_aligned_alloc pool_aligned_alloc
#define bench_free          pool_free

#define BENCH_HEAPS_HEADER "allocators/tidepool_heaps.h"

#endif
