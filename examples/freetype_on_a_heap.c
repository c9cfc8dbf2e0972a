/* SPDX-License-Identifier: MIT
 * A FreeType library that ends with its heap: nothing of it is freed one by one. It draws a triangle.
 *
 *     cc freetype_on_a_heap.c $(pkg-config --cflags --libs tidepool freetype2) -o freetype_on_a_heap */
#include <stdio.h>
#include <tidepool/freetype.h>
#include <tidepool/stats.h>
#include FT_OUTLINE_H

enum { SIDE = 16 };

static bool draw(FT_Library library, unsigned char pixels[SIDE][SIDE])
{
  static const FT_Vector corners[] = {{0, 0}, {SIDE / 2 << 6, SIDE << 6}, {SIDE << 6, 0}};
  FT_Outline outline;
  FT_Bitmap bitmap = {
    .rows = SIDE, .width = SIDE, .pitch = SIDE, .buffer = pixels[0], .num_grays = 256, .pixel_mode = FT_PIXEL_MODE_GRAY};
  if (FT_Outline_New(library, 3, 1, &outline) != 0)
    return false;
  for (size_t i = 0; i < 3; i++) {
    outline.points[i] = corners[i];
    outline.tags[i] = FT_CURVE_TAG_ON;
  }
  outline.contours[0] = 2;
  return FT_Outline_Get_Bitmap(library, &outline, &bitmap) == 0;
}

int main(void)
{
  unsigned char pixels[SIDE][SIDE] = {{0}};
  pool_heap_options_t options = {.name = "glyphs", .budget = 1 << 20, .flags = POOL_HEAP_SINGLE_THREAD};
  pool_heap_t *heap = pool_heap_create(&options);
  FT_Library library;
  if (!heap || pool_freetype_init(heap, &library) != 0 || !draw(library, pixels))
    return 1;
  for (size_t y = 0; y < SIDE; y++) {
    for (size_t x = 0; x < SIDE; x++)
      putchar(" .:*#"[pixels[y][x] / 52]);
    putchar('\n');
  }
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%zu blocks end with the heap\n", stats.live_blocks);
  pool_heap_destroy(heap);
  return 0;
}
