/* SPDX-License-Identifier: MIT
 *
 * tidepool/sdl.h: all of SDL's memory on one heap. SDL 2 has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "sdl", .budget = 64 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_sdl_install(heap);                      (before any other call of SDL)
 *     ... SDL_Init(), SDL_CreateRGBSurface() ...   (NULL or -1, "Out of memory": the heap is exhausted)
 *     SDL_Quit();
 *     pool_heap_destroy(heap);                     (if SDL_GetNumAllocations() is 0)
 *
 * SDL allocates an error record in each thread; a thread that SDL did not start keeps it until SDL_TLSCleanup(). If that fails,
 * because a thread's first error is that the heap is exhausted, SDL 2.26 calls itself until the stack overflows. So call
 * SDL_ClearError() first in each thread; pool_sdl_install() does so in its own. Leave room in the budget for SDL_Init() and
 * hints: SDL does not check every allocation.
 *
 * Threads for timers and sound allocate, so the heap must not be single-threaded. Drivers and system libraries do not use the
 * heap. */
#ifndef TIDEPOOL_SDL_H
#define TIDEPOOL_SDL_H

#include <SDL_error.h>
#include <SDL_stdinc.h>
#include <tidepool/hooks.h>

POOL_HOOKS(sdl)

/* Makes SDL allocate from `heap`. Returns 0, or -1 if the heap is NULL or SDL has blocks already. */
static inline int pool_sdl_install(pool_heap_t *heap)
{
  if (!heap || SDL_GetNumAllocations() > 0)
    return -1;
  pool_sdl_heap = heap;
  int status = SDL_SetMemoryFunctions(pool_sdl_malloc, pool_sdl_calloc, pool_sdl_realloc, pool_sdl_free);
  SDL_ClearError();
  return status;
}

#endif
