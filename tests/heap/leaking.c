/* SPDX-License-Identifier: MIT
 * Programs that leak, or seem to: leaks.py has what is said of each. Built for the library's calls, and with MALLOC_NAMES for
 * those of malloc. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef MALLOC_NAMES
#define TAKE(size)        malloc(size)
#define GIVE(block)       free(block)
#define TAKE_ZEROED(size) calloc(1, size)
#else
#include <tidepool.h>
#define TAKE(size)        pool_alloc(size)
#define GIVE(block)       pool_free(block)
#define TAKE_ZEROED(size) pool_zalloc(size)
#endif

/* The compiler must not see through the calls, nor make jumps of them. */
#define OPAQUE __attribute__((noinline, noclone))
static volatile int calls;

static void *kept;
static __thread void *kept_in_thread;
static void *volatile last;

/* A block whose address is nowhere else once this has returned. */
OPAQUE static void take(size_t size, void *volatile *to)
{
  void *block = TAKE(size);
  calls++;
  memset(block, 0, size);
  if (to)
    *to = block;
}

OPAQUE static void take_second(size_t size)
{
  last = TAKE(size);
  last = NULL;
}

/* What calls before it have left on the stack goes. */
OPAQUE static void wipe_stack(void)
{
  volatile char words[32 << 10];
  for (size_t i = 0; i < sizeof words; i++)
    words[i] = 0;
}

static void nothing(void)
{
  void *block;
  take(100, &block);
  GIVE(block);
}

static void lose(void)
{
  for (int i = 0; i < 3; i++)
    take(1000, NULL);
  take_second(100);
}

static void lose_large(void) { take(5 << 20, NULL); }
static void keep(void) { take(1000, &kept); }

static void keep_inside(void)
{
  take(1000, &kept);
  kept = (char *)kept + 999;
}

static void keep_in_thread(void) { take(1000, &kept_in_thread); }

static void keep_in_a_mapping(void)
{
  void **mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  take(1000, mapped + 1000);
}

/* What a sanitizer has beside the program's memory: nothing in it is a pointer of the program. */
static void keep_in_a_shadow(void)
{
  size_t size = (size_t)1 << (sizeof(size_t) > 4 ? 40 : 30);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void **mapped = sizeof(size_t) > 4 ? mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0) : MAP_FAILED;
  bool mapped_all = mapped != MAP_FAILED && madvise(mapped, size, MADV_DONTDUMP) == 0;
  take(1000, mapped_all ? mapped + 1000 : NULL);
}

static void keep_in_malloc(void)
{
  kept = malloc(sizeof(void *));
  take(1000, kept);
}

static void keep_a_list(void)
{
  take(1000, &kept);
  take(200, (void **)kept);
  take(9 << 20, *(void ***)kept + 5);
}

/* Each leads to the other, and nothing to them. */
OPAQUE static void lose_a_ring(void)
{
  void **first, **second;
  take(64, (void **)&first);
  take(64, (void **)&second);
  *first = second;
  *second = first;
}

static void *sleep_for_long(void *nothing_else)
{
  (void)nothing_else;
  sleep(1000);
  return NULL;
}

static void lose_beside_a_thread(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, sleep_for_long, NULL) != 0)
    abort();
  lose();
}

static void lose_without_standard_error(void)
{
  lose();
  close(STDERR_FILENO);
}

/* Ten places, of which the last takes most. */
#define PLACE(n) \
  OPAQUE static void place_##n(void) \
  { \
    last = TAKE_ZEROED(100 * ((n) + 1)); \
    last = NULL; \
  }
PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)
PLACE(4)
PLACE(5)
PLACE(6)
PLACE(7)
PLACE(8)
PLACE(9)

static void lose_in_many_places(void)
{
  place_0(), place_1(), place_2(), place_3(), place_4(), place_5(), place_6(), place_7(), place_8(), place_9();
}

#ifndef MALLOC_NAMES
static pool_heap_t *heap; /* the heap is not lost */

OPAQUE static void open_session(size_t size, void **to)
{
  void *block = pool_heap_alloc(heap, size);
  calls++;
  if (to)
    *to = block;
}

static void fill_heap(unsigned flags, void *memory, size_t size)
{
  pool_heap_options_t options = {.name = "sessions", .flags = flags, .memory = memory, .memory_size = size};
  heap = pool_heap_create(&options);
  for (int i = 0; i < 10; i++)
    open_session(1008, NULL);
}

static void destroy_full(void)
{
  fill_heap(POOL_HEAP_SITES, NULL, 0);
  pool_heap_destroy(heap);
}

static void destroy_empty(void)
{
  void *block;
  heap = pool_heap_create(NULL);
  open_session(100, &block);
  pool_heap_free(heap, block);
  pool_heap_destroy(heap);
}

static void lose_of_a_heap(void)
{
  fill_heap(0, NULL, 0);
  open_session(24, &kept);
}

static void keep_of_a_heap(void)
{
  heap = pool_heap_create(&(pool_heap_options_t){.name = "sessions"});
  open_session(24, &kept);
}

static char memory[64 << 10];
static void lose_of_a_guest(void) { fill_heap(POOL_HEAP_SITES, memory, sizeof memory); }
static void lose_of_a_plain_guest(void) { fill_heap(0, memory, sizeof memory); }
#endif

static const struct program {
  const char *name;
  void (*run)(void);
} programs[] = {
  {"nothing", nothing},
  {"lose", lose},
  {"lose-large", lose_large},
  {"keep", keep},
  {"keep-inside", keep_inside},
  {"keep-in-thread", keep_in_thread},
  {"keep-in-a-mapping", keep_in_a_mapping},
  {"keep-in-a-shadow", keep_in_a_shadow},
  {"keep-in-malloc", keep_in_malloc},
  {"keep-a-list", keep_a_list},
  {"lose-a-ring", lose_a_ring},
  {"lose-beside-a-thread", lose_beside_a_thread},
  {"lose-without-standard-error", lose_without_standard_error},
  {"lose-in-many-places", lose_in_many_places},
#ifndef MALLOC_NAMES
  {"destroy-full", destroy_full},
  {"destroy-empty", destroy_empty},
  {"lose-of-a-heap", lose_of_a_heap},
  {"keep-of-a-heap", keep_of_a_heap},
  {"lose-of-a-guest", lose_of_a_guest},
  {"lose-of-a-plain-guest", lose_of_a_plain_guest},
#endif
};

int main(int count, char **arguments)
{
  printf("a buffer of the C library\n"); /* which is not given back before the end */
  for (size_t i = 0; count > 1 && i < sizeof programs / sizeof *programs; i++)
    if (!strcmp(programs[i].name, arguments[1])) {
      programs[i].run();
      nothing(); /* registers hold another block then */
      wipe_stack();
      return 0;
    }
  return 1;
}
