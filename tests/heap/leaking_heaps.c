/* SPDX-License-Identifier: MIT
 * Of heaps and object pools: leaks.py has what is said of each. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "leaking.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tidepool.h>
#include <unistd.h>

static volatile int calls;
static void *kept;
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

/* Where standard error was closed at the start, the first file that is opened has its number. */
static void destroy_beside_a_file(void)
{
  int file = memfd_create("data", 0);
  fill_heap(POOL_HEAP_SITES, NULL, 0);
  pool_heap_destroy(heap);
  if (file != STDERR_FILENO || lseek(file, 0, SEEK_END) != 0)
    abort();
}

static void destroy_empty(void)
{
  void *block;
  heap = pool_heap_create(NULL);
  open_session(100, &block);
  pool_heap_free(heap, block);
  pool_heap_destroy(heap);
}

OPAQUE static object_pool_t *pool_with(size_t objects)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.name = "jobs", .object_size = 56, .capacity = 10});
  for (size_t i = 0; i < objects; i++)
    if (!object_pool_get(pool))
      abort();
  return pool;
}

static void destroy_pool_in_use(void) { object_pool_destroy(pool_with(3)); }
static void destroy_pool_with_one(void) { object_pool_destroy(pool_with(1)); }

static void destroy_pool_unused(void)
{
  object_pool_t *pool = pool_with(0);
  object_pool_put(pool, object_pool_get(pool));
  object_pool_destroy(pool);
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

static void lose_of_many_heaps(void)
{
  for (int i = 0; i < 100; i++)
    fill_heap(POOL_HEAP_SITES, NULL, 0);
}

static char memory[64 << 10];
static void lose_of_a_guest(void) { fill_heap(POOL_HEAP_SITES, memory, sizeof memory); }
static void lose_of_a_plain_guest(void) { fill_heap(0, memory, sizeof memory); }

const program_t heap_programs[] = {
  {"destroy-full", destroy_full},
  {"destroy-beside-a-file", destroy_beside_a_file},
  {"destroy-empty", destroy_empty},
  {"destroy-pool-in-use", destroy_pool_in_use},
  {"destroy-pool-with-one", destroy_pool_with_one},
  {"destroy-pool-unused", destroy_pool_unused},
  {"lose-of-a-heap", lose_of_a_heap},
  {"lose-of-many-heaps", lose_of_many_heaps},
  {"keep-of-a-heap", keep_of_a_heap},
  {"lose-of-a-guest", lose_of_a_guest},
  {"lose-of-a-plain-guest", lose_of_a_plain_guest},
  {NULL, NULL},
};
