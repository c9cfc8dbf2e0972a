/* SPDX-License-Identifier: MIT
 * Streams of zlib in a fixed buffer: at every setting they fit, a reset makes room for the next, too small a buffer is
 * Z_MEM_ERROR, and the system is never asked. */
#include "../heap/heaps.h"
#include <tidepool/zlib.h>

enum { TEXT = 100000 };
static unsigned char text[TEXT], packed[2 * TEXT], back[TEXT];
static char deflate_buffer[POOL_ZLIB_DEFLATE_BYTES], inflate_buffer[POOL_ZLIB_INFLATE_BYTES];

/* ---- what this version of zlib asks for ---- */

/* zconf.h has the figures for the largest settings, and the buffers of tidepool/zlib.h are made for them: 384 KiB "plus a few
 * kilobytes" to deflate, of which zlib 1.3.1 can be built to need 38, and 32 KiB "plus about 7 kilobytes" to inflate. A library
 * that asks for more needs other buffers. */
enum { DEFLATE_MOST = (1 << (15 + 2)) + (1 << (9 + 9)) + (40 << 10), INFLATE_MOST = (1 << 15) + (8 << 10) };

static voidpf count_and_allocate(voidpf sum, uInt items, uInt size)
{
  *(size_t *)sum += (size_t)items * size;
  return calloc(items, size);
}

static void just_free(voidpf sum, voidpf block) { (void)sum, free(block); }

static bool asks_for_what_is_documented(void)
{
  /* Without its end: the window is made only when inflate has to go on later. */
  static const unsigned char stored_block[] = {0x78, 0x01, 0x01, 0x01, 0x00, 0xfe, 0xff, 'x'};
  size_t deflating = 0, inflating = 0;
  unsigned char byte;
  z_stream out = {.zalloc = count_and_allocate, .zfree = just_free, .opaque = &deflating};
  must(deflateInit2(&out, 9, Z_DEFLATED, 15, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  deflateEnd(&out);
  z_stream in = {.zalloc = count_and_allocate, .zfree = just_free, .opaque = &inflating};
  in.next_in = (unsigned char *)(uintptr_t)stored_block;
  in.avail_in = sizeof stored_block;
  in.next_out = &byte;
  in.avail_out = 1;
  must(inflateInit(&in) == Z_OK && inflate(&in, Z_NO_FLUSH) == Z_OK);
  inflateEnd(&in);
  print_message("zlib %s asks for %zu bytes to deflate, %zu to inflate\n", zlibVersion(), deflating, inflating);
  return deflating <= DEFLATE_MOST && inflating <= INFLATE_MOST;
}

/* ---- streams ---- */

static pool_heap_t *heap_in(void *memory, size_t size)
{
  return pool_heap_create(&(pool_heap_options_t){.memory = memory, .memory_size = size, .flags = POOL_HEAP_SINGLE_THREAD});
}

static void write_text(unsigned seed)
{
  dice_t dice = {seed};
  for (size_t i = 0; i < TEXT; i++)
    text[i] = (unsigned char)(i % 97 < 60 ? 'a' + i % 97 : dice_below(&dice, 256));
}

/* 0: no memory. */
static size_t squeeze(pool_heap_t *heap, int level, int window, int memory)
{
  z_stream stream = pool_zlib_stream(heap);
  int status = deflateInit2(&stream, level, Z_DEFLATED, window, memory, Z_DEFAULT_STRATEGY);
  if (status == Z_MEM_ERROR)
    return 0;
  must(status == Z_OK);
  stream.next_in = text;
  stream.avail_in = TEXT;
  stream.next_out = packed;
  stream.avail_out = sizeof packed;
  must(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  return stream.total_out;
}

static bool unsqueeze(pool_heap_t *heap, size_t size)
{
  z_stream stream = pool_zlib_stream(heap);
  if (inflateInit(&stream) != Z_OK)
    return false;
  memset(back, 0, TEXT);
  stream.next_in = packed;
  stream.next_out = back;
  for (size_t at = 0; at < size;) { /* in pieces: the window is made only then */
    uInt piece = (uInt)min_size(5000, size - at);
    stream.avail_in = piece;
    stream.avail_out = (uInt)(TEXT - stream.total_out);
    int status = inflate(&stream, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR)
      return false;
    must(status == Z_OK || status == Z_STREAM_END);
    at += piece;
  }
  must(stream.total_out == TEXT && memcmp(back, text, TEXT) == 0);
  return true;
}

static void every_setting_fits(void **state)
{
  (void)state;
  pool_heap_t *out = heap_in(deflate_buffer, sizeof deflate_buffer), *in = heap_in(inflate_buffer, sizeof inflate_buffer);
  assert_true(out && in);
  for (int level = 0; level <= 9; level += 3)
    for (int window = 9; window <= 15; window++)
      for (int memory = 1; memory <= 9; memory += 2) {
        write_text((unsigned)(level * 1000 + window * 10 + memory));
        size_t size = squeeze(out, level, window, memory);
        assert_true(size > 0);
        pool_heap_reset(out);
        pool_heap_trim(out, 0); /* the next one has blocks of other sizes */
        assert_true(unsqueeze(in, size));
        pool_heap_reset(in);
        assert_int_equal(stats_of(in).live_blocks + stats_of(out).live_blocks, 0);
      }
  assert_int_equal(stats_of(in).exhausted_count + stats_of(out).exhausted_count, 0);
  assert_true(check_heap(in) && check_heap(out));
  print_message("held at most: %zu bytes to deflate, %zu to inflate\n", stats_of(out).peak_held_bytes,
                stats_of(in).peak_held_bytes);
  pool_heap_destroy(in);
  pool_heap_destroy(out);
}

static void a_reset_is_enough_between_equals(void **state)
{
  (void)state;
  pool_heap_t *out = heap_in(deflate_buffer, sizeof deflate_buffer), *in = heap_in(inflate_buffer, sizeof inflate_buffer);
  for (unsigned i = 0; i < 50; i++) {
    write_text(i);
    size_t size = squeeze(out, 6, 15, 9);
    assert_true(size && unsqueeze(in, size));
    pool_heap_reset(out);
    pool_heap_reset(in);
  }
  pool_heap_destroy(in);
  pool_heap_destroy(out);
}

static void the_ordinary_end_works_too(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_in(deflate_buffer, sizeof deflate_buffer);
  for (unsigned i = 0; i < 20; i++) {
    z_stream stream = pool_zlib_stream(heap);
    assert_int_equal(deflateInit(&stream, 9), Z_OK);
    assert_true(stats_of(heap).live_blocks > 0);
    deflateEnd(&stream);
    assert_int_equal(stats_of(heap).live_blocks, 0);
  }
  pool_heap_destroy(heap);
}

static void too_small_a_buffer(void **state)
{
  (void)state;
  unsigned refused = 0, done = 0;
  write_text(1);
  for (size_t size = 8 << 10; size <= sizeof deflate_buffer; size += 24 << 10) {
    pool_heap_t *heap = heap_in(deflate_buffer, size);
    size_t got = squeeze(heap, 6, 15, 8);
    refused += !got;
    done += got > 0;
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
  assert_true(refused && done);
}

static void products_that_overflow(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_in(inflate_buffer, sizeof inflate_buffer);
  assert_null(pool_zlib_alloc(heap, (uInt)opaque(UINT32_MAX), (uInt)opaque(UINT32_MAX)));
  pool_heap_destroy(heap);
}

static void streams_without_the_system(void *unused)
{
  (void)unused;
  no_more_system_calls();
  pool_heap_t *out = heap_in(deflate_buffer, sizeof deflate_buffer), *in = heap_in(inflate_buffer, sizeof inflate_buffer);
  for (unsigned i = 0; i < 20; i++) {
    size_t size = squeeze(out, 6, 15, 8);
    must(size && unsqueeze(in, size));
    pool_heap_reset(out);
    pool_heap_reset(in);
  }
  pool_heap_destroy(in);
  pool_heap_destroy(out);
}

static void never_asks_the_system(void **state)
{
  (void)state;
  write_text(2);
  in_sealed_child(streams_without_the_system, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_setting_fits),         cmocka_unit_test(a_reset_is_enough_between_equals),
    cmocka_unit_test(the_ordinary_end_works_too), cmocka_unit_test(too_small_a_buffer),
    cmocka_unit_test(products_that_overflow),     cmocka_unit_test(never_asks_the_system),
  };
  if (!asks_for_what_is_documented()) {
    print_message("skipped: that is more than zconf.h says\n");
    return 77;
  }
  return cmocka_run_group_tests_name("zlib", tests, NULL, NULL);
}
