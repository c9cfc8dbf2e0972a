/* SPDX-License-Identifier: MIT
 *
 * Programs without a bug, in which only the library is between what one thread does to some memory and what the next does to
 * it: nothing else of the program orders the two. A tool that looks for races has to be told. ordered [CASE]: all of them. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum { WORDS = 8, SIZE = WORDS * sizeof(long), OBJECTS = 8, ROUNDS = 40, THREADS = 3, REGION = 1 << 20, UNITS = 16 << 20 };

static pool_heap_t *heap;
static object_pool_t *objects;
static _Alignas(4096) char memory[UNITS];

static void must(bool so, const char *what)
{
  if (so)
    return;
  fprintf(stderr, "ordered: %s\n", what);
  exit(2);
}

/* The second begins when the first has most likely ended, of which no tool can know. */
typedef void *(*work_t)(void *);
static void one_after_the_other(work_t first, work_t second)
{
  pthread_t threads[2];
  must(pthread_create(&threads[0], NULL, first, NULL) == 0, "no thread");
  usleep(20000);
  must(pthread_create(&threads[1], NULL, second, NULL) == 0, "no thread");
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
}

static void together(work_t work)
{
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0, "no thread");
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* ---- blocks ---- */

static void *use_places(void *none)
{
  for (int i = 0; i < ROUNDS; i++) {
    char *first = pool_alloc(50), *second = pool_zalloc(70), *third = pool_aligned_alloc(64, 90);
    memset(first, 1, 50);
    second = pool_realloc(second, 700);
    memset(second, 1, 700);
    memset(third, 1, 90);
    pool_free(third);
    pool_free(second);
    pool_free(first);
  }
  return none;
}
/* Places of which no block ever came, and then some of which blocks did. */
static void places(void)
{
  together(use_places);
  one_after_the_other(use_places, use_places);
}

static void *use_own_heap(void *none)
{
  for (int i = 0; i < ROUNDS / 5; i++) {
    pool_heap_t *own = pool_heap_create(&(pool_heap_options_t){.budget = i % 2 ? 1 << 20 : 0, .name = "own"});
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = SIZE, .capacity = 4, .heap = own});
    memset(object_pool_get(pool), 1, SIZE);
    memset(pool_heap_alloc(own, 300), 1, 300);
    if (i % 3)
      object_pool_destroy(pool);
    pool_heap_destroy(own);
  }
  return none;
}
static void own_heaps(void) { one_after_the_other(use_own_heap, use_own_heap); }

static bool count_block(const pool_block_t *block, void *context)
{
  *(size_t *)context += block->size;
  return true;
}

static size_t below(unsigned *seed, size_t most) { return (size_t)rand_r(seed) % most; }

static void use_shared_objects(int round)
{
  long *first = object_pool_get(objects), *second = object_pool_get(objects);
  if (first)
    first[0] = round;
  if (second)
    second[1] = round;
  object_pool_put(objects, second ? second : first);
  if (second && first)
    object_pool_put(objects, first);
  if (round % 25 == 0)
    object_pool_shrink(objects, 0);
}

static void *use_heap(void *argument)
{
  unsigned seed = (unsigned)(uintptr_t)argument;
  char *blocks[16] = {0};
  for (int round = 0; round < 3 * ROUNDS; round++) {
    size_t k = below(&seed, 16), size = 1 + below(&seed, round % 8 ? 3000 : 30000), total = 0;
    char *moved = below(&seed, 4) ? NULL : pool_heap_realloc(heap, blocks[k], size);
    if (!moved) {
      pool_heap_free(heap, blocks[k]);
      moved = below(&seed, 3) ? pool_heap_alloc(heap, size) : pool_heap_zalloc(heap, size);
    }
    if ((blocks[k] = moved) != NULL)
      memset(moved, (int)round, size);
    if (objects)
      use_shared_objects(round);
    if (round % 50 == 0)
      pool_heap_trim(heap, 0);
    if (round % 50 == 25)
      pool_heap_walk(heap, count_block, &total);
  }
  for (size_t k = 0; k < 16; k++)
    pool_heap_free(heap, blocks[k]);
  return NULL;
}

static object_pool_t *made(object_pool_options_t options)
{
  options.object_size = SIZE;
  options.capacity = options.capacity ? options.capacity : 1;
  return object_pool_create(&options);
}

/* The thread that made the heap has used its records before. */
static void in_memory(size_t size, unsigned flags, bool has_objects)
{
  heap = pool_heap_create(&(pool_heap_options_t){.memory = memory, .memory_size = size, .flags = flags});
  if (has_objects)
    objects = made((object_pool_options_t){.when_full = OBJECT_POOL_GROW, .heap = heap});
  use_heap(NULL);
  together(use_heap);
  one_after_the_other(use_heap, use_heap);
  object_pool_destroy(objects);
  objects = NULL;
  pool_heap_destroy(heap);
  memset(memory, 1, size);
}
static void guest(void) { in_memory(REGION, 0, false); }
static void checked_guest(void) { in_memory(REGION, POOL_HEAP_CHECKED, false); }
static void wiped_guest(void) { in_memory(REGION, POOL_HEAP_ZERO_ON_FREE | POOL_HEAP_CHECKED, true); }
static void guest_objects(void) { in_memory(REGION, 0, true); }
static void guest_of_units(void) { in_memory(UNITS, 0, true); }
static void checked_units(void) { in_memory(UNITS, POOL_HEAP_CHECKED, false); }
static void budget(void)
{
  heap = pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20});
  objects = made((object_pool_options_t){.when_full = OBJECT_POOL_GROW, .heap = heap});
  together(use_heap);
  object_pool_destroy(objects);
  objects = NULL;
  pool_heap_destroy(heap);
}

/* ---- objects ---- */

static bool construct(void *object, void *context)
{
  (void)context;
  memset(object, 1, SIZE);
  return true;
}
static void destruct(void *object, void *context)
{
  (void)context;
  memset(object, 2, SIZE);
}

/* What an object leads to goes from thread to thread with it. */
static bool construct_owner(void *object, void *context)
{
  (void)context;
  *(long **)object = malloc(SIZE);
  return true;
}
static void reset_owner(void *object, void *context)
{
  (void)context;
  ++**(long **)object;
}
static void destruct_owner(void *object, void *context)
{
  (void)context;
  free(*(long **)object);
}
static void *use_owners(void *none)
{
  long **owners[OBJECTS];
  for (size_t i = 0; i < OBJECTS; i++)
    (*(owners[i] = object_pool_get(objects)))[0] = (long)i;
  for (size_t i = 0; i < OBJECTS; i++)
    object_pool_put(objects, owners[i]);
  return none;
}

static void *use_objects(void *none)
{
  long *got[OBJECTS];
  for (int round = 0; round < ROUNDS; round++) {
    size_t count = 0;
    while (count < OBJECTS && (got[count] = object_pool_get(objects)) != NULL)
      got[count++][round % WORDS] = round;
    while (count)
      object_pool_put(objects, got[--count]);
  }
  return none;
}

static void *get_one(void *none)
{
  long *object = object_pool_get(objects);
  if (object)
    object[0] = 2;
  return none;
}

static void *shrink(void *none)
{
  object_pool_shrink(objects, 0);
  return none;
}

static void *destroy(void *none)
{
  object_pool_destroy(objects);
  return none;
}

static const object_pool_options_t kinds[] = {
  {.when_full = OBJECT_POOL_FAIL, .capacity = 4},
  {.when_full = OBJECT_POOL_GROW},
  {.when_full = OBJECT_POOL_GROW, .flags = OBJECT_POOL_CHECKED},
  {.when_full = OBJECT_POOL_GROW, .construct = construct, .destruct = destruct},
  {.when_full = OBJECT_POOL_GROW, .construct = construct, .reset = destruct, .reset_time = OBJECT_POOL_RESET_ON_PUT},
  {.when_full = OBJECT_POOL_GROW, .construct = construct, .destruct = destruct, .flags = OBJECT_POOL_CHECKED},
};

/* Two users; one and whoever makes the pool shorter, and then a user again; one and whoever ends it. */
static void kinds_of_objects(void)
{
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    objects = made(kinds[i]);
    together(use_objects);
    one_after_the_other(use_objects, get_one);
    one_after_the_other(use_objects, shrink);
    one_after_the_other(shrink, use_objects);
    one_after_the_other(use_objects, destroy);
  }
  objects = NULL;
}

static void owners(void)
{
  for (unsigned checked = 0; checked < 2; checked++) {
    objects = made((object_pool_options_t){.when_full = OBJECT_POOL_GROW,
                                           .construct = construct_owner,
                                           .reset = reset_owner,
                                           .destruct = destruct_owner,
                                           .flags = checked ? OBJECT_POOL_CHECKED : 0});
    one_after_the_other(use_owners, use_owners);
    one_after_the_other(use_owners, shrink);
    one_after_the_other(use_owners, destroy);
  }
  objects = NULL;
}

/* An array that one thread made, and nobody used. */
static void grown(void)
{
  objects = made((object_pool_options_t){.when_full = OBJECT_POOL_GROW});
  get_one(NULL);
  one_after_the_other(get_one, get_one);
  object_pool_destroy(objects);
  objects = NULL;
}

static bool fail_first(void *object, void *context)
{
  *(long *)object = 1;
  errno = EBUSY;
  return ++*(int *)context > 1;
}
static void failed(void)
{
  int calls = 0;
  objects = made((object_pool_options_t){.construct = fail_first, .context = &calls});
  one_after_the_other(get_one, get_one);
  object_pool_destroy(objects);
  objects = NULL;
}

/* Of the objects of a batch any may be another's by now, so nobody writes to them. */
static void *first_live(object_pool_t *pool, void *context)
{
  (void)context;
  return object_pool_next(pool, NULL);
}
static void *use_batches(void *none)
{
  void *got[WORDS];
  for (int round = 0; round < ROUNDS; round++)
    must(object_pool_get_batch(objects, got, WORDS) > 0, "no batch");
  return none;
}
static void batches(void)
{
  objects = made((object_pool_options_t){.capacity = 300, .when_full = OBJECT_POOL_EVICT, .choose_victim = first_live});
  together(use_batches);
  object_pool_destroy(objects);
  objects = NULL;
}

static void overflowing(void)
{
  object_pool_t *second = made((object_pool_options_t){.capacity = 100});
  objects = made((object_pool_options_t){.capacity = 2, .when_full = OBJECT_POOL_OVERFLOW, .overflow = second});
  one_after_the_other(use_objects, use_objects);
  together(use_objects);
  object_pool_destroy(objects);
  object_pool_destroy(second);
  objects = NULL;
}

#include "ordered_objects.h"

typedef struct each {
  const char *name;
  void (*run)(void);
} each_t;
static const each_t cases[] = {
  {"places", places},
  {"own_heaps", own_heaps},
  {"guest", guest},
  {"checked_guest", checked_guest},
  {"wiped_guest", wiped_guest},
  {"guest_objects", guest_objects},
  {"guest_of_units", guest_of_units},
  {"checked_units", checked_units},
  {"budget", budget},
  {"kinds_of_objects", kinds_of_objects},
  {"owners", owners},
  {"grown", grown},
  {"failed", failed},
  {"batches", batches},
  {"overflowing", overflowing},
  {"locks_in_objects", locks_in_objects},
  {"put_by_others", put_by_others},
};

int main(int count, char **words)
{
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (count < 2 || !strcmp(words[1], cases[i].name))
      cases[i].run();
  return 0;
}
