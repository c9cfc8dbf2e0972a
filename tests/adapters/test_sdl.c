/* SPDX-License-Identifier: MIT
 * SDL on a heap: surfaces, streams and events without a screen; what SDL says it keeps is what the heap has; exhaustion is
 * SDL's error. */
#include "trials.h"
#include <SDL.h>
#include <tidepool/sdl.h>

enum { SIDE = 128 };

/* Draws, writes as BMP into memory, reads that, and compares. */
static bool draw(void)
{
  unsigned char file[SIDE * SIDE * 4 + 4096] = {0};
  SDL_Surface *surface = SDL_CreateRGBSurfaceWithFormat(0, SIDE, SIDE, 32, SDL_PIXELFORMAT_ARGB8888), *again = NULL;
  SDL_Surface *half = surface ? SDL_CreateRGBSurfaceWithFormat(0, SIDE / 2, SIDE, 32, SDL_PIXELFORMAT_ARGB8888) : NULL;
  bool done = half && SDL_FillRect(surface, NULL, 0xff102030) == 0 && SDL_FillRect(half, NULL, 0xff405060) == 0 &&
              SDL_BlitSurface(half, NULL, surface, NULL) == 0;
  SDL_RWops *out = done ? SDL_RWFromMem(file, sizeof file) : NULL;
  done = out && SDL_SaveBMP_RW(surface, out, 1) == 0;
  SDL_RWops *in = done ? SDL_RWFromConstMem(file, sizeof file) : NULL;
  if (in)
    again = SDL_LoadBMP_RW(in, 1);
  done = again != NULL;
  if (done) {
    SDL_Surface *same = SDL_ConvertSurfaceFormat(again, SDL_PIXELFORMAT_ARGB8888, 0);
    done = same != NULL;
    for (int y = 0; y < SIDE && done; y++)
      for (int x = 0; x < SIDE; x++)
        must(((Uint32 *)(void *)((char *)same->pixels + y * same->pitch))[x] == (x < SIDE / 2 ? 0xff405060 : 0xff102030));
    SDL_FreeSurface(same);
  }
  SDL_FreeSurface(again);
  SDL_FreeSurface(half);
  SDL_FreeSurface(surface);
  return done;
}

static Uint32 push_event(Uint32 interval, void *unused)
{
  (void)interval, (void)unused;
  SDL_Event event = {.type = SDL_USEREVENT};
  must(SDL_PushEvent(&event) >= 0);
  return 0;
}

/* A timer's thread sends an event. */
static bool be_woken(void)
{
  SDL_Event event = {.type = 0};
  if (!SDL_AddTimer(1, push_event, NULL))
    return false;
  while (event.type != SDL_USEREVENT)
    if (!SDL_WaitEvent(&event))
      return false;
  return true;
}

static bool start(pool_heap_t *heap)
{
  must(pool_sdl_install(heap) == 0 && setenv("SDL_VIDEODRIVER", "dummy", 1) == 0);
  return SDL_Init(SDL_INIT_TIMER | SDL_INIT_EVENTS | SDL_INIT_VIDEO) == 0;
}

static bool work(pool_heap_t *heap)
{
  must(start(heap) && draw() && be_woken() && pool_sdl_install(heap) == -1);
  SDL_Quit();
  must((size_t)SDL_GetNumAllocations() == stats_of(heap).live_blocks);
  return true;
}

/* While it starts, SDL has places that do not look whether there was memory. */
static bool draw_once_it_is_up(pool_heap_t *heap)
{
  size_t count = fail_count;
  fail_count = 0;
  must(start(heap) && draw());
  requests = 0;
  fail_count = count;
  size_t before = stats_of(heap).live_blocks;
  bool done = draw();
  must(!done || stats_of(heap).live_blocks == before);
  SDL_Quit();
  return done;
}

static void works(void **state)
{
  (void)state;
  size_t kept = works_on_any_heap(work);
  print_message("SDL keeps %zu blocks\n", kept);
}

EACH_REQUEST_FAILS(draw_once_it_is_up)

static void exhaustion_is_an_error(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(32 << 20);
  must(start(heap) && draw());
  for (unsigned i = 0; i < 3; i++) {
    must(!SDL_CreateRGBSurfaceWithFormat(0, 4096, 4096, 32, SDL_PIXELFORMAT_ARGB8888));
    must(!strcmp(SDL_GetError(), "Out of memory"));
    list_t list = {0};
    for (size_t size = 1 << 20; size >= 16; size = size > 4096 ? size / 2 : size - 16)
      list_exhaust(&list, heap, size);
    must(!draw());
    list_free(&list, heap);
    must(draw());
  }
  SDL_Quit();
  must(!SDL_calloc(SIZE_MAX / 2, opaque(4)));
  void *block = SDL_malloc(0);
  must(block && pool_heap_of(block) == heap);
  must((block = SDL_realloc(block, 100)) != NULL);
  SDL_free(block);
  SDL_free(NULL);
}
IN_CHILD(exhaustion_is_an_error)

/* Each thread has a place for errors. */
static void fail_in_thread(size_t index, void *unused)
{
  char text[16];
  (void)unused;
  snprintf(text, sizeof text, "thread %zu", index);
  for (unsigned i = 0; i < 5; i++)
    must(draw() && SDL_SetError("%s", text) == -1 && !strcmp(SDL_GetError(), text));
  SDL_TLSCleanup();
}

static void threads(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(64 << 20);
  must(pool_sdl_install(heap) == 0);
  run_threads(4, fail_in_thread, NULL);
  SDL_Quit();
  must((size_t)SDL_GetNumAllocations() == stats_of(heap).live_blocks && check_heap(heap));
}
IN_CHILD(threads)

static void surface_before(void *unused)
{
  (void)unused;
  SDL_Surface *surface = SDL_CreateRGBSurfaceWithFormat(0, 8, 8, 32, SDL_PIXELFORMAT_ARGB8888);
  must(surface && pool_sdl_install(heap_with((pool_heap_options_t){0})) == -1);
  SDL_FreeSurface(surface);
  must(draw());
}

static void too_late(void **state)
{
  (void)state;
  assert_int_equal(pool_sdl_install(NULL), -1);
  in_child(surface_before, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),        cmocka_unit_test(each_request_fails), cmocka_unit_test(exhaustion_is_an_error_test),
    cmocka_unit_test(threads_test), cmocka_unit_test(too_late),
  };
  if (SDL_GetNumAllocations() > 0) {
    print_message("skipped: this SDL has blocks before its first call\n");
    return 77;
  }
  return cmocka_run_group_tests_name("sdl", tests, NULL, NULL);
}
