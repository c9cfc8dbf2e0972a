/* SPDX-License-Identifier: MIT
 *
 * tidepool/zlib.h: zlib streams on a heap, which may live in a fixed buffer.
 *
 *     static char buffer[POOL_ZLIB_DEFLATE_BYTES];
 *     pool_heap_options_t options = {.memory = buffer, .memory_size = sizeof buffer, .flags = POOL_HEAP_SINGLE_THREAD};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     z_stream stream = pool_zlib_stream(heap);
 *     deflateInit(&stream, 9); ... deflate(&stream, Z_FINISH) ...
 *     pool_heap_reset(heap);                       (instead of deflateEnd; the next stream has the whole buffer)
 *
 * Z_MEM_ERROR means that the heap is exhausted. Before a stream with other settings, also call pool_heap_trim(heap, 0), to make
 * room for blocks of other sizes. A stream stores its heap in `opaque`, so each may have its own. */
#ifndef TIDEPOOL_ZLIB_H
#define TIDEPOOL_ZLIB_H

#include <tidepool/heap.h>
#include <zlib.h>

/* Bytes of a buffer for one stream at zlib's largest settings (windowBits 15, memLevel 9), with the records of the heap. */
#define POOL_ZLIB_DEFLATE_BYTES ((size_t)512 << 10)
#define POOL_ZLIB_INFLATE_BYTES ((size_t)96 << 10)

static inline voidpf pool_zlib_alloc(voidpf heap, uInt items, uInt size)
{
  size_t bytes;
  return __builtin_mul_overflow(items, (size_t)size, &bytes) ? NULL : pool_heap_alloc((pool_heap_t *)heap, bytes);
}

static inline void pool_zlib_free(voidpf heap, voidpf block) { pool_heap_free((pool_heap_t *)heap, block); }

/* Returns a stream on `heap`, for deflateInit() and the like. */
static inline z_stream pool_zlib_stream(pool_heap_t *heap)
{
  z_stream stream;
  __builtin_memset(&stream, 0, sizeof stream);
  stream.zalloc = pool_zlib_alloc;
  stream.zfree = pool_zlib_free;
  stream.opaque = heap;
  return stream;
}

#endif
