/* SPDX-License-Identifier: MIT
 * SDL's surfaces within a budget, without a screen: a picture that is too large is an error and not the end.
 *
 *     cc sdl_on_a_heap.c $(pkg-config --cflags --libs tidepool sdl2) -o sdl_on_a_heap */
#include <SDL.h>
#include <stdio.h>
#include <tidepool/sdl.h>
#include <tidepool/stats.h>

static bool picture(pool_heap_t *heap, int side)
{
  SDL_Surface *surface = SDL_CreateRGBSurfaceWithFormat(0, side, side, 32, SDL_PIXELFORMAT_ARGB8888);
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%d x %d: %s, %zu KiB live\n", side, side, surface ? "made" : SDL_GetError(), stats.live_bytes >> 10);
  bool made = surface && SDL_FillRect(surface, NULL, 0xff336699) == 0;
  SDL_FreeSurface(surface);
  return made;
}

int main(void)
{
  pool_heap_options_t options = {.name = "sdl", .budget = 8 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap || pool_sdl_install(heap) != 0 || SDL_Init(0) != 0)
    return 1;
  bool good = picture(heap, 512) && !picture(heap, 8192) && picture(heap, 1024);
  SDL_Quit();
  if (SDL_GetNumAllocations() == 0)
    pool_heap_destroy(heap);
  return good ? 0 : 1;
}
