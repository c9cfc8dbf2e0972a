/* SPDX-License-Identifier: MIT
 * Compression that allocates nothing: every stream lives in one static buffer, which is reset between streams.
 *
 *     cc zlib_fixed_buffer.c $(pkg-config --cflags --libs tidepool zlib) -o zlib_fixed_buffer */
#include <stdio.h>
#include <string.h>
#include <tidepool/zlib.h>

static char memory[POOL_ZLIB_DEFLATE_BYTES];

static size_t compress_text(pool_heap_t *heap, void *text, size_t size, void *packed, size_t room)
{
  z_stream stream = pool_zlib_stream(heap);
  if (deflateInit(&stream, Z_BEST_COMPRESSION) != Z_OK)
    return 0;
  stream.next_in = text;
  stream.avail_in = (uInt)size;
  stream.next_out = packed;
  stream.avail_out = (uInt)room;
  size_t got = deflate(&stream, Z_FINISH) == Z_STREAM_END ? stream.total_out : 0;
  pool_heap_reset(heap); /* instead of deflateEnd */
  return got;
}

static size_t expand(pool_heap_t *heap, void *packed, size_t size, void *text, size_t room)
{
  z_stream stream = pool_zlib_stream(heap);
  if (inflateInit(&stream) != Z_OK)
    return 0;
  stream.next_in = packed;
  stream.avail_in = (uInt)size;
  stream.next_out = text;
  stream.avail_out = (uInt)room;
  size_t got = inflate(&stream, Z_FINISH) == Z_STREAM_END ? stream.total_out : 0;
  pool_heap_reset(heap);
  return got;
}

int main(void)
{
  static char text[50000], packed[60000], back[sizeof text];
  pool_heap_options_t options = {
    .name = "zlib", .memory = memory, .memory_size = sizeof memory, .flags = POOL_HEAP_SINGLE_THREAD};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    return 1;
  for (unsigned stream = 1; stream <= 100; stream++) {
    for (size_t i = 0; i < sizeof text; i++)
      text[i] = "the same again "[(i + stream * (i / 512)) % 15];
    size_t size = compress_text(heap, text, sizeof text, packed, sizeof packed);
    if (!size || expand(heap, packed, size, back, sizeof back) != sizeof text || memcmp(text, back, sizeof text) != 0)
      return fprintf(stderr, "stream %u failed\n", stream), 1;
    if (stream % 25 == 0)
      printf("stream %u: %zu bytes became %zu\n", stream, sizeof text, size);
  }
  pool_heap_destroy(heap);
  return 0;
}
