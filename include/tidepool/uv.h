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
 * libuv checks nothing else: hooks.h says what holds if it comes too late. Its own threads allocate too, so the heap must not
 * be single-threaded. Without uv_library_shutdown() the heap has to outlive main(), because libuv calls that function at exit.
 *
 * Memory of the caller's stays the caller's: handles, requests, what alloc_cb returns. libuv calls abort() where it cannot grow
 * its table of watched descriptors, in uv_run() or where a handle starts; some versions return UV_ENOMEM instead. If that must
 * not be, give the heap an `overflow`. The results of uv_fs_scandir() come from the C library. */
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
