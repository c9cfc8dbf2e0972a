/* SPDX-License-Identifier: MIT
 * A program as it was compiled against the first headers: it has their structs and the linker's names, and none of today's
 * headers. It stays as it is, whatever the structs become: then the library's are longer. And one of a header to come, whose
 * structs are. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct heap heap_t;
typedef struct pool pool_t;

typedef struct heap_options {
  const char *name;
  size_t budget, reserve;
  heap_t *parent;
  bool (*on_exhausted)(heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);
  heap_t *overflow;
  void *context, *memory;
  size_t memory_size;
  const size_t *size_classes;
  size_t size_class_count;
  unsigned purge_delay_ms, flags;
} heap_options_t;

typedef struct stats {
  size_t budget, held_bytes, peak_held_bytes, live_bytes, live_blocks, cached_bytes, idle_bytes, metadata_bytes, children_bytes;
  uint64_t exhausted_count, retried_count, overflowed_count, purged_bytes;
} stats_t;

typedef struct pool_options {
  const char *name;
  size_t object_size, alignment, capacity, max_capacity;
  int when_full;
  bool (*construct)(void *object, void *context);
  void (*reset)(void *object, void *context);
  void (*destruct)(void *object, void *context);
  int reset_time;
  void *(*choose_victim)(pool_t *pool, void *context);
  pool_t *overflow;
  heap_t *heap;
  void *context;
  unsigned flags;
} pool_options_t;

heap_t *tidepool_heap_create(const void *options, size_t size);
void tidepool_heap_destroy(heap_t *heap);
void *tidepool_heap_alloc(heap_t *heap, size_t size);
bool tidepool_heap_stats(heap_t *heap, void *stats, size_t size);
pool_t *tidepool_object_pool_create(const void *options, size_t size);
void *tidepool_object_pool_get(pool_t *pool);
void tidepool_object_pool_destroy(pool_t *pool);

static void check(bool good, const char *what)
{
  if (good)
    return;
  printf("wrong: %s\n", what);
  exit(1);
}

/* Bytes behind a struct that the library may not touch, or must look at. */
enum { BEHIND = 64 };

static void first_program(void)
{
  heap_options_t options = {.name = "first", .budget = 1 << 20};
  heap_t *heap = tidepool_heap_create(&options, sizeof options);
  check(heap && tidepool_heap_alloc(heap, 1000), "a heap");
  struct {
    stats_t stats;
    unsigned char behind[BEHIND];
  } s;
  memset(&s, 0xee, sizeof s);
  check(tidepool_heap_stats(heap, &s, sizeof s.stats), "figures");
  check(s.stats.budget == 1 << 20 && s.stats.live_blocks == 1 && s.stats.purged_bytes == 0, "the values of figures");
  for (size_t i = 0; i < BEHIND; i++)
    check(s.behind[i] == 0xee, "bytes behind the figures");
  check(tidepool_heap_stats(heap, &s, sizeof(size_t)) && s.stats.budget == 1 << 20, "the first figure alone");
  pool_options_t objects = {.object_size = 32, .capacity = 2, .heap = heap};
  pool_t *pool = tidepool_object_pool_create(&objects, sizeof objects);
  check(pool && tidepool_object_pool_get(pool) && tidepool_object_pool_get(pool) && !tidepool_object_pool_get(pool),
        "an object pool");
  tidepool_object_pool_destroy(pool);
  tidepool_heap_destroy(heap);
}

/* Fields that this library does not know are 0, or refused. */
static void later_program(void)
{
  struct {
    heap_options_t options;
    unsigned char more[BEHIND * 16];
  } heap = {.options = {.budget = 1 << 20}};
  struct {
    pool_options_t options;
    uint64_t more[BEHIND * 2];
  } pool = {.options = {.object_size = 32, .capacity = 2}};
  struct {
    stats_t stats;
    unsigned char more[BEHIND * 16];
  } s;
  heap_t *made = tidepool_heap_create(&heap, sizeof heap);
  memset(&s, 0xee, sizeof s);
  check(made && tidepool_heap_stats(made, &s, sizeof s), "a heap of a later header");
  check(s.stats.budget == 1 << 20 && s.more[sizeof s.more - 1] == 0, "figures of a later header");
  tidepool_heap_destroy(made);
  heap.more[sizeof heap.more - 1] = 1;
  errno = 0;
  check(!tidepool_heap_create(&heap, sizeof heap) && errno == EINVAL, "an option that the library does not know");
  pool_t *objects = tidepool_object_pool_create(&pool, sizeof pool);
  check(objects != NULL, "an object pool of a later header");
  tidepool_object_pool_destroy(objects);
  pool.more[BEHIND * 2 - 1] = 1;
  errno = 0;
  check(!tidepool_object_pool_create(&pool, sizeof pool) && errno == EINVAL, "a pool's option that the library does not know");
}

/* No header ever had so small a struct. */
static void too_short(void)
{
  heap_options_t heap = {.budget = 1 << 20};
  pool_options_t pool = {.object_size = 32, .capacity = 2};
  for (size_t size = 0; size < sizeof heap; size++) {
    errno = 0;
    check(!tidepool_heap_create(&heap, size) && errno == EINVAL, "options that end early");
  }
  for (size_t size = 0; size < offsetof(pool_options_t, flags) + sizeof pool.flags; size++) {
    errno = 0;
    check(!tidepool_object_pool_create(&pool, size) && errno == EINVAL, "options of a pool that end early");
  }
}

int main(void)
{
  first_program();
  later_program();
  too_short();
  return 0;
}
