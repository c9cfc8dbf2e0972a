/* SPDX-License-Identifier: MIT
 *
 * tidepool/uv.h: all of libuv's memory on one heap. libuv has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "uv", .budget = 4 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_uv_install(heap);                       (before any other call of libuv)
 *     ... uv_run() ...                             (UV_ENOMEM: the heap is exhausted)
 *     uv_loop_close(loop);
 *     uv_library_shutdown();                       (ends libuv's threads; libuv cannot be used again)
 *     pool_heap_destroy(heap);
 *
 * libuv does not check that it is unused: see hooks.h for a late installation. Its own threads allocate, so the heap must not
 * be single-threaded. Without uv_library_shutdown() the heap must outlive main(), because libuv calls that function at exit.
 *
 * Handles, requests and results of alloc_cb are the caller's memory. If libuv cannot grow its table of watched file
 * descriptors, in uv_run() or when a handle starts, it calls abort(), or returns UV_ENOMEM in some versions. Give the heap an
 * `overflow` to prevent that. Results of uv_fs_scandir() come from the C library. */
#ifndef TIDEPOOL_UV_H
#define TIDEPOOL_UV_H

#include <tidepool/hooks.h>
#include <uv.h>

POOL_HOOKS(uv)

/* Makes libuv allocate from `heap`. Returns 0, or UV_EINVAL for NULL. */
static inline int pool_uv_install(pool_heap_t *heap)
{
  if (!heap)
    return UV_EINVAL;
  pool_uv_heap = heap;
  return uv_replace_allocator(pool_uv_malloc, pool_uv_realloc, pool_uv_calloc, pool_uv_free);
}

#endif
