/* SPDX-License-Identifier: MIT
 * FreeType on a heap: the glyph of a font and an outline are rendered, the heap's end is the library's, and exhaustion is
 * FT_Err_Out_Of_Memory. */
#include "trials.h"
#include <tidepool/freetype.h>
#include FT_OUTLINE_H

/* In BDF, the one format that is text. */
static const char font[] =
  "STARTFONT 2.1\nFONT -t-pool-medium-r-normal--8-80-75-75-c-80-iso10646-1\nSIZE 8 75 75\nFONTBOUNDINGBOX 8 8 0 0\n"
  "STARTPROPERTIES 4\nFONT_ASCENT 8\nFONT_DESCENT 0\nPIXEL_SIZE 8\nDEFAULT_CHAR 65\nENDPROPERTIES\nCHARS 1\n"
  "STARTCHAR A\nENCODING 65\nSWIDTH 1000 0\nDWIDTH 8 0\nBBX 8 8 0 0\nBITMAP\n"
  "18\n24\n42\n81\nFF\n81\n81\n81\nENDCHAR\nENDFONT\n";
static const unsigned char letter[] = {0x18, 0x24, 0x42, 0x81, 0xff, 0x81, 0x81, 0x81};

/* False, and nothing but FT_Err_Out_Of_Memory: no memory. */
static bool is_fine(FT_Error error)
{
  must(error == 0 || FT_ERROR_BASE(error) == FT_Err_Out_Of_Memory);
  return error == 0;
}

static bool render_glyph(FT_Library library)
{
  FT_Face face;
  FT_Error error = FT_New_Memory_Face(library, (const FT_Byte *)font, sizeof font - 1, 0, &face);
  if (!is_fine(error))
    return false;
  bool done = is_fine(FT_Set_Pixel_Sizes(face, 0, 8)) && is_fine(FT_Load_Char(face, 'A', FT_LOAD_RENDER | FT_LOAD_MONOCHROME));
  if (done) {
    const FT_Bitmap *bitmap = &face->glyph->bitmap;
    must(bitmap->rows == sizeof letter && bitmap->width == 8);
    for (unsigned row = 0; row < bitmap->rows; row++)
      must(bitmap->buffer[(int)row * bitmap->pitch] == letter[row]);
  }
  FT_Done_Face(face);
  return done;
}

/* A square of 16 by 16 pixels in the midst of 32 by 32. */
static bool render_outline(FT_Library library)
{
  static const FT_Vector corners[] = {{8 << 6, 8 << 6}, {8 << 6, 24 << 6}, {24 << 6, 24 << 6}, {24 << 6, 8 << 6}};
  FT_Outline outline;
  if (!is_fine(FT_Outline_New(library, COUNT_OF(corners), 1, &outline)))
    return false;
  memcpy(outline.points, corners, sizeof corners);
  memset(outline.tags, FT_CURVE_TAG_ON, COUNT_OF(corners));
  outline.contours[0] = COUNT_OF(corners) - 1;
  unsigned char pixels[32 * 32] = {0};
  FT_Bitmap bitmap = {
    .rows = 32, .width = 32, .pitch = 32, .buffer = pixels, .num_grays = 256, .pixel_mode = FT_PIXEL_MODE_GRAY};
  bool done = is_fine(FT_Outline_Get_Bitmap(library, &outline, &bitmap));
  for (size_t i = 0; i < sizeof pixels && done; i++)
    must(pixels[i] == (i / 32 - 8 < 16 && i % 32 - 8 < 16 ? 255 : 0));
  FT_Outline_Done(library, &outline);
  return done;
}

static bool work(pool_heap_t *heap)
{
  FT_Library library;
  FT_Error error = pool_freetype_init(heap, &library);
  must(error == 0 || stats_of(heap).live_blocks == 0);
  if (!is_fine(error))
    return false;
  must(pool_heap_of(library) == heap);
  bool done = render_glyph(library) && render_outline(library);
  must(FT_Done_Library(library) == 0 && stats_of(heap).live_blocks == 1);
  return done;
}

static void works(void **state)
{
  (void)state;
  assert_int_equal(works_on_any_heap(work), 1); /* the record */
  assert_true(try_to(work, (pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD}, 0, 0).done);
  assert_int_equal(pool_freetype_init(NULL, &(FT_Library){NULL}), FT_Err_Out_Of_Memory);
}

/* ---- the same without a heap ---- */

static void *plain_alloc(FT_Memory memory, long size)
{
  (void)memory;
  return is_refused_again() ? NULL : malloc((size_t)size);
}

static void *plain_realloc(FT_Memory memory, long had, long size, void *block)
{
  (void)memory, (void)had;
  return size && is_refused_again() ? NULL : realloc(block, (size_t)size);
}

static void plain_free(FT_Memory memory, void *block)
{
  (void)memory;
  free(block);
}

static bool work_plainly(pool_heap_t *none)
{
  (void)none;
  static struct FT_MemoryRec_ memory = {.alloc = plain_alloc, .realloc = plain_realloc, .free = plain_free};
  FT_Library library;
  if (FT_New_Library(&memory, &library))
    return false;
  FT_Add_Default_Modules(library);
  FT_Set_Default_Properties(library);
  return render_glyph(library) && render_outline(library);
}

/* FT_New_Memory_Face() of 2.12.1 crashes where it has memory for the face and not for what is in it. */
TEST_OF(any_budget, works_or_says_no(work, work_plainly))
EACH_REQUEST_FAILS(work)

static void render_on_a_heap(size_t index, void *unused)
{
  (void)index, (void)unused;
  for (unsigned i = 0; i < 20; i++) {
    FT_Library library;
    FT_Face face;
    pool_heap_t *heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
    must(pool_freetype_init(heap, &library) == 0 && render_glyph(library) && render_outline(library));
    must(FT_New_Memory_Face(library, (const FT_Byte *)font, sizeof font - 1, 0, &face) == 0);
    pool_heap_destroy(heap); /* the face and the library with it */
  }
}

static void a_library_a_thread(void **state)
{
  (void)state;
  run_threads(4, render_on_a_heap, NULL);
  assert_true(check_everything());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),
    cmocka_unit_test(any_budget),
    cmocka_unit_test(each_request_fails),
    cmocka_unit_test(a_library_a_thread),
  };
  return cmocka_run_group_tests_name("freetype", tests, NULL, NULL);
}
