/* SPDX-License-Identifier: MIT
 *
 * One bug in one way of having memory, for a tool to find: planted BUG WAY. The bug is in a function of its name, which the
 * tool is to name. `planted all` has each of them in a process of its own, and says which process that is, because tools begin
 * slowly; `planted some` has each bug in every third way. `planted right` has no bug, and neither has `planted kept`, which
 * ends with much that is live. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum { ALIGNMENT = 32 << 20 }; /* more than valgrind has */
enum { SIZE = 48, REGION = 64 << 10, UNITS = 16 << 20, OBJECTS = 64, ROUNDS = 50, THREADS = 4 };

#define KEPT_APART __attribute__((noinline)) /* a function of its own in the stacks of reports */

static pool_heap_t *heap;
static object_pool_t *objects;

/* ---- the ways ---- */

typedef struct way {
  const char *name;
  void (*begin)(void), (*end)(void);
  char *(*take)(void);
  void (*give)(char *);
} way_t;

static void nothing(void) {}
static char *take_alloc(void) { return pool_alloc(SIZE); }
static char *take_aligned(void) { return pool_aligned_alloc(256, SIZE); }
static void give_alloc(char *block) { pool_free(block); }

static void begin_heap(void) { heap = pool_heap_create(NULL); }
static void begin_budget(void) { heap = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20}); }
static void begin_reserve(void) { heap = pool_heap_create(&(pool_heap_options_t){.reserve = 1 << 20}); }
static void end_heap(void) { pool_heap_destroy(heap); }
static char *take_heap(void) { return pool_heap_alloc(heap, SIZE); }
static void give_heap(char *block) { pool_heap_free(heap, block); }

static char *take_realloc(void)
{
  char *block = pool_realloc(NULL, 8);
  memset(block, 1, 8);
  block = pool_realloc(block, SIZE);
  memset(block, 1, 8);
  return block;
}
static void give_realloc(char *block) { (void)!pool_realloc(block, 0); }

static void begin_region(void)
{
  static _Alignas(4096) char memory[REGION];
  heap = pool_heap_create(&(pool_heap_options_t){.memory = memory, .memory_size = sizeof memory});
}

static void *units;
static void begin_units(void)
{
  units = malloc(UNITS);
  heap = pool_heap_create(&(pool_heap_options_t){.memory = units, .memory_size = UNITS});
}
static void end_units(void)
{
  end_heap();
  memset(units, 1, UNITS);
  free(units);
}

static void begin_objects_of(unsigned flags)
{
  objects =
    object_pool_create(&(object_pool_options_t){.object_size = SIZE, .capacity = OBJECTS, .heap = heap, .flags = flags});
}
static void begin_objects(void) { begin_objects_of(0); }
static void begin_single(void) { begin_objects_of(OBJECT_POOL_SINGLE_THREAD); }
static void begin_region_objects(void)
{
  begin_region();
  begin_objects_of(0);
}
static void end_objects(void) { object_pool_destroy(objects); }
static void end_region_objects(void)
{
  end_objects();
  end_heap();
}
static char *take_object(void) { return object_pool_get(objects); }
static void give_object(char *object) { object_pool_put(objects, object); }

static const way_t ways[] = {
  {"alloc", nothing, nothing, take_alloc, give_alloc},
  {"aligned", nothing, nothing, take_aligned, give_alloc},
  {"heap", begin_heap, end_heap, take_heap, give_heap},
  {"budget", begin_budget, end_heap, take_heap, give_heap},
  {"reserve", begin_reserve, end_heap, take_heap, give_heap},
  {"realloc", nothing, nothing, take_realloc, give_realloc},
  {"region", begin_region, end_heap, take_heap, give_heap},
  {"units", begin_units, end_units, take_heap, give_heap},
  {"object", begin_objects, end_objects, take_object, give_object},
  {"single", begin_single, end_objects, take_object, give_object},
  {"region_object", begin_region_objects, end_region_objects, take_object, give_object},
};
static const way_t *way;

/* ---- the bugs, between two blocks that are live ---- */

static volatile char sink;
static char *volatile before, *volatile after;

KEPT_APART static void late_read(char *p)
{
  way->give(p);
  sink = p[8];
}

KEPT_APART static void late_write(char *p)
{
  way->give(p);
  p[8] = 1;
}

KEPT_APART static void twice(char *p)
{
  way->give(p);
  way->give(p);
}

KEPT_APART static void overrun(char *p)
{
  p[SIZE] = 1;
  way->give(p);
}

KEPT_APART static void underrun(char *p)
{
  p[-1] = 1;
  way->give(p);
}

KEPT_APART static void unset(char *p)
{
  if (p[8])
    sink = 1;
  way->give(p);
}

/* The last that held the address is overwritten. */
KEPT_APART static void lost(char *p)
{
  memset(p, 1, SIZE);
  p = NULL;
  sink = !p;
}

/* Of a block that has moved. Objects have one size. */
KEPT_APART static void old_address(char *p)
{
  char *q = objects ? p : pool_realloc(p, 2 * SIZE);
  if (!objects)
    p[8] = 1;
  way->give(q);
}

typedef struct bug {
  const char *name;
  void (*plant)(char *p);
} bug_t;
static const bug_t bugs[] = {{"late_read", late_read}, {"late_write", late_write},  {"twice", twice},
                             {"overrun", overrun},     {"underrun", underrun},      {"unset", unset},
                             {"lost", lost},           {"old_address", old_address}};

KEPT_APART static void plant(const bug_t *bug)
{
  way->begin();
  before = way->take();
  char *p = way->take();
  after = way->take();
  bug->plant(p);
  p = NULL;
  way->give(before);
  way->give(after);
  before = after = NULL;
}

/* A heap, or pool of objects, that nothing leads to any more, with blocks in it. */
KEPT_APART static void lost_heap(void)
{
  way->begin();
  way->take();
  way->take();
  heap = NULL;
  objects = NULL;
}

/* What a search finds on the stack of calls that are over. */
KEPT_APART static void clear_stack(void)
{
  volatile char room[4096];
  for (size_t i = 0; i < sizeof room; i++)
    room[i] = 0;
}

/* ---- no bug ---- */

typedef struct shared {
  pthread_mutex_t mutex;
  char *handed[THREADS];
} shared_t;
static shared_t shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void must(int so, const char *what)
{
  if (so)
    return;
  fprintf(stderr, "planted: %s\n", what);
  exit(2);
}

/* Each thread takes blocks, writes all of them, and gives back what another has made. */
static void *work(void *argument)
{
  size_t number = (size_t)(uintptr_t)argument;
  for (int round = 0; round < ROUNDS; round++) {
    char *mine = way->take(), *other;
    must(mine != NULL, "no block");
    memset(mine, (int)number, SIZE);
    pthread_mutex_lock(&shared.mutex);
    other = shared.handed[(number + 1) % THREADS];
    shared.handed[(number + 1) % THREADS] = mine;
    pthread_mutex_unlock(&shared.mutex);
    if (!other)
      continue;
    must(other[0] == other[SIZE - 1], "a block has changed");
    memset(other, 0, SIZE);
    way->give(other);
  }
  return NULL;
}

static void work_together(void)
{
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0, "no thread");
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (size_t i = 0; i < THREADS; i++) {
    way->give(shared.handed[i]);
    shared.handed[i] = NULL;
  }
}

static void work_alone(void)
{
  char *blocks[OBJECTS / 2];
  for (size_t i = 0; i < OBJECTS / 2; i++)
    memset(blocks[i] = way->take(), 1, SIZE);
  for (size_t i = 0; i < OBJECTS / 2; i += 2)
    way->give(blocks[i]);
  for (size_t i = 0; i < OBJECTS / 2; i += 2)
    memset(blocks[i] = way->take(), 2, SIZE);
  for (size_t i = 0; i < OBJECTS / 2; i++)
    way->give(blocks[i]);
}

/* What the library itself touches of blocks: zeroes, copies, figures, walks, resets. */
static bool count_block(const pool_block_t *block, void *context)
{
  (void)block;
  ++*(size_t *)context;
  return true;
}

static void use_heap(void)
{
  pool_stats_t stats;
  size_t count = 0;
  char *zeroed = pool_heap_zalloc(heap, SIZE), *grown = pool_heap_alloc(heap, 8);
  memset(grown, 1, 8);
  grown = pool_heap_realloc(heap, grown, SIZE);
  must(zeroed[0] == 0 && zeroed[SIZE - 1] == 0 && grown[7] == 1, "not what it was");
  must(pool_usable_size(grown) >= SIZE && pool_heap_of(grown) == heap, "not a block");
  pool_heap_stats(heap, &stats);
  pool_heap_walk(heap, count_block, &count);
  must(count == 2, "not the blocks that are live");
  must(stats.live_blocks == 2, "not the figures");
  pool_heap_reset(heap);
  work_alone();
  pool_heap_free(heap, pool_heap_alloc(heap, 8));
}

static bool construct(void *object, void *context)
{
  (void)context;
  memset(object, 3, SIZE);
  return true;
}
static void reset(void *object, void *context)
{
  (void)context;
  must(((char *)object)[1] == 3, "an object has changed");
}
static void destruct(void *object, void *context) { reset(object, context); }

static void use_objects_of(unsigned flags, object_pool_reset_time_t time)
{
  char *got[OBJECTS];
  objects = object_pool_create(&(object_pool_options_t){.object_size = SIZE,
                                                        .capacity = 4,
                                                        .when_full = OBJECT_POOL_GROW,
                                                        .construct = construct,
                                                        .reset = reset,
                                                        .destruct = destruct,
                                                        .reset_time = time,
                                                        .flags = flags});
  must(object_pool_get_batch(objects, (void **)got, OBJECTS) == OBJECTS, "no objects");
  object_pool_put_batch(objects, (void **)got, OBJECTS / 2);
  object_pool_put_all(objects);
  got[0] = object_pool_get(objects);
  must(got[0][0] == 3, "not constructed");
  object_pool_put(objects, got[0]);
  got[1] = object_pool_get(objects);
  must(got[1][2] == 3, "not constructed still");
  object_pool_destroy(objects);
}

KEPT_APART static int right(void)
{
  for (way = ways; way < ways + sizeof ways / sizeof *ways; way++) {
    way->begin();
    work_alone();
    if (way->begin != begin_single)
      work_together();
    if (way->take == take_heap)
      use_heap();
    way->end();
    heap = NULL;
    objects = NULL;
  }
  char *apart = pool_aligned_alloc(ALIGNMENT, SIZE);
  must(apart && (uintptr_t)apart % ALIGNMENT == 0, "not aligned");
  memset(apart, 1, SIZE);
  pool_free(apart);
  use_objects_of(0, OBJECT_POOL_RESET_ON_GET);
  use_objects_of(0, OBJECT_POOL_RESET_ON_PUT);
  use_objects_of(OBJECT_POOL_CHECKED, OBJECT_POOL_RESET_ON_GET);
  return 0;
}

/* It ends with heaps and objects that are live, and are all that leads to some blocks. */
char *volatile places[sizeof ways / sizeof *ways];
KEPT_APART static int kept(void)
{
  for (way = ways; way->begin != begin_region_objects; way++) { /* of which the memory is another's */
    heap = NULL;
    objects = NULL;
    way->begin();
    way->give(way->take());
    char *block = pool_alloc(SIZE), *place = way->take(), *of_malloc = malloc(SIZE);
    memset(block, 1, SIZE);
    memcpy(block, &of_malloc, sizeof of_malloc);
    memcpy(place, &block, sizeof block);
    if (objects)
      continue; /* the pool leads to it */
    places[way - ways] = place;
  }
  clear_stack();
  return 0;
}

static int wrong(const char *bug)
{
  for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
    if (!strcmp(bugs[i].name, bug))
      plant(&bugs[i]);
  if (!strcmp(bug, "lost_heap"))
    lost_heap();
  clear_stack();
  return 0;
}

/* No bug of these is one that a tool needs a process of its own for: they end, or are ended. */
static int many(size_t step)
{
  for (way = ways; way < ways + sizeof ways / sizeof *ways; way++)
    for (size_t i = (size_t)(way - ways) % step; i <= sizeof bugs / sizeof *bugs; i += step) {
      const char *bug = i < sizeof bugs / sizeof *bugs ? bugs[i].name : "lost_heap";
      fflush(stdout);
      pid_t child = fork();
      if (!child)
        return wrong(bug);
      printf("%d %s %s\n", (int)child, bug, way->name);
      waitpid(child, NULL, 0);
    }
  return 0;
}

int main(int count, char **words)
{
  if (count == 2 && !strcmp(words[1], "right"))
    return right();
  if (count == 2 && !strcmp(words[1], "kept"))
    return kept();
  if (count == 2 && !strcmp(words[1], "all"))
    return many(1);
  if (count == 2 && !strcmp(words[1], "some"))
    return many(3);
  must(count == 3, "planted BUG WAY");
  for (way = ways; way < ways + sizeof ways / sizeof *ways - 1 && strcmp(way->name, words[2]) != 0;)
    way++;
  return wrong(words[1]);
}
