/* SPDX-License-Identifier: MIT
 * POOL_HEAP_SITES: each live block knows where it was allocated, and everything else is as in other heaps. */
#include "debug/places.h"
#include "heaps.h"

/* Where blocks come from. The compiler must not see through the calls, nor make jumps of them. */
#define OPAQUE __attribute__((noinline, noclone))
static volatile int calls;

OPAQUE static void *taken_here(pool_heap_t *heap, size_t size)
{
  void *block = pool_heap_zalloc(heap, size);
  calls++;
  return block;
}

OPAQUE static void *taken_there(pool_heap_t *heap, size_t size)
{
  void *block = pool_heap_aligned_alloc(heap, 64, size);
  calls++;
  return block;
}

OPAQUE static void *resized_here(pool_heap_t *heap, void *block, size_t size)
{
  block = pool_heap_realloc(heap, block, size);
  calls++;
  return block;
}

OPAQUE static object_pool_t *pool_made_here(pool_heap_t *heap)
{
  object_pool_t *pool = object_pool_create(
    &(object_pool_options_t){.object_size = 40, .capacity = 100, .heap = heap, .when_full = OBJECT_POOL_GROW});
  calls++;
  return pool;
}

static pool_heap_t *heap_with_sites(unsigned flags)
{
  return heap_with((pool_heap_options_t){.name = "sites", .flags = POOL_HEAP_SITES | flags});
}

/* The sanitizers keep the frames of the library's functions, and no return address but theirs is the last. */
static bool is_named(const void *site, const char *function)
{
  place_t place = {.address = site};
  places_find(&place, 1);
  return strcmp(place.function, function) == 0;
}

typedef struct found {
  const void *start;
  size_t size;
  const void *site;
  size_t count;
} found_t;

static bool find(const pool_block_t *block, void *context)
{
  found_t *f = context;
  f->count++;
  if (block->start == f->start) {
    f->size = block->size;
    f->site = block->site;
  }
  return true;
}

static found_t found(pool_heap_t *heap, const void *block)
{
  found_t f = {.start = block};
  assert_true(pool_heap_walk(heap, find, &f));
  return f;
}

static void assert_is_from(pool_heap_t *heap, const void *block, size_t size, const char *function)
{
  found_t f = found(heap, block);
  assert_int_equal(f.size, size);
  assert_non_null(f.site);
  if (!SANITIZED)
    assert_true(is_named(f.site, function));
}

static const size_t sizes[] = {0, 1, 24, 100, 5000, 40000, 300000, 9 << 20};

static void of_each_size(unsigned flags)
{
  pool_heap_t *heap = heap_with_sites(flags);
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    char *here = taken_here(heap, sizes[i]), *there = taken_there(heap, sizes[i]);
    assert_int_equal(pool_usable_size(here), sizes[i]);
    assert_true(all_zero((unsigned char *)here, sizes[i]) && (uintptr_t)there % 64 == 0);
    assert_is_from(heap, here, sizes[i], "taken_here");
    assert_is_from(heap, there, sizes[i], "taken_there");
    assert_true(pool_in_use(here) && pool_heap_of(there) == heap);
    memset(here, 'x', sizes[i]);
    here = resized_here(heap, here, sizes[i] + 10);
    assert_is_from(heap, here, sizes[i] + 10, "resized_here");
    assert_true(sizes[i] == 0 || (here[0] == 'x' && here[sizes[i] - 1] == 'x'));
    here = resized_here(heap, here, sizes[i] / 2 + 1);
    assert_is_from(heap, here, sizes[i] / 2 + 1, "resized_here");
    pool_heap_free(heap, here);
    pool_free(there);
    assert_int_equal(found(heap, NULL).count, 0);
  }
  assert_true(check_heap(heap));
  assert_int_equal(stats_of(heap).live_blocks, 0);
  pool_heap_destroy(heap);
}

static void each_size(void **state)
{
  (void)state;
  of_each_size(0);
  of_each_size(POOL_HEAP_CHECKED);
  of_each_size(POOL_HEAP_ZERO_ON_FREE);
  of_each_size(POOL_HEAP_SINGLE_THREAD);
}

/* Nothing is filled, and nothing kept. */
static void without_checks(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_sites(0);
  unsigned char *block = taken_here(heap, 1000);
  memset(block, 7, 1000);
  pool_heap_free(heap, block);
  assert_int_equal(block[0], 7);
  assert_int_equal(stats_of(heap).cached_bytes, 0);
  assert_ptr_equal(taken_here(heap, 1000), block);
  pool_heap_reset(heap);
  assert_int_equal(found(heap, NULL).count, 0);
  pool_heap_destroy(heap);
}

static void zeroed_when_freed(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_sites(POOL_HEAP_ZERO_ON_FREE);
  unsigned char *block = taken_here(heap, 1000), *other = taken_here(heap, 1000);
  memset(block, 7, 1000);
  memset(other, 7, 1000);
  pool_heap_free(heap, block);
  assert_true(all_zero(block, 1000));
  pool_heap_reset(heap);
  assert_true(all_zero(other, 1000));
  pool_heap_destroy(heap);
}

/* In granules, in a budget, in a reserve: until it is full, and again. */
static void of_regions(pool_heap_options_t options)
{
  options.flags |= POOL_HEAP_SITES;
  pool_heap_t *heap = heap_with(options);
  list_t list = {0};
  size_t first = list_exhaust(&list, heap, 100);
  assert_true(first > 100);
  assert_int_equal(found(heap, NULL).count, first);
  assert_int_equal(stats_of(heap).live_blocks, first);
  assert_non_null(found(heap, list.first).site); /* in whose function it is, the compiler has decided */
  list_free(&list, heap);
  assert_true(pool_heap_largest(heap) > 100 * 100);
  assert_int_equal(list_exhaust(&list, heap, 100), first);
  pool_heap_reset(heap);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

static void regions(void **state)
{
  (void)state;
  static _Alignas(16) char memory[200 << 10];
  of_regions((pool_heap_options_t){.memory = memory, .memory_size = sizeof memory});
  of_regions((pool_heap_options_t){.memory = memory, .memory_size = sizeof memory, .flags = POOL_HEAP_ZERO_ON_FREE});
  of_regions((pool_heap_options_t){.budget = 300 << 10});
  of_regions((pool_heap_options_t){.budget = 4 << 20});
  of_regions((pool_heap_options_t){.budget = 12 << 20});
  of_regions((pool_heap_options_t){.budget = 2 << 20, .reserve = 1 << 20});
  size_t least = pool_heap_least_memory(&(pool_heap_options_t){.memory = memory, .flags = POOL_HEAP_SITES});
  pool_heap_t *heap = heap_with((pool_heap_options_t){.memory = memory, .memory_size = least, .flags = POOL_HEAP_SITES});
  assert_non_null(taken_here(heap, 1));
  pool_heap_destroy(heap);
}

typedef struct sited {
  size_t count, from_here;
} sited_t;

static bool count_from_pool(const pool_block_t *block, void *context)
{
  sited_t *s = context;
  s->count++;
  s->from_here += is_named(block->site, "pool_made_here");
  return true;
}

/* Of an object pool the arrays have the site at which it was made, those that came later, too. */
static void object_pools(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_sites(0);
  object_pool_t *pool = pool_made_here(heap);
  for (int i = 0; i < 1000; i++)
    assert_non_null(object_pool_get(pool));
  sited_t s = {0};
  assert_true(pool_heap_walk(heap, count_from_pool, &s));
  assert_true(s.count >= 2);
  if (!SANITIZED)
    assert_int_equal(s.from_here, s.count);
  object_pool_destroy(pool);
  assert_int_equal(found(heap, NULL).count, 0);
  pool_heap_destroy(heap);
}

/* ---- what ends the program ---- */

static void free_twice(void *size)
{
  pool_heap_t *heap = heap_with_sites(0);
  void *block = taken_here(heap, *(size_t *)size), *volatile again = block;
  pool_heap_free(heap, block);
  pool_heap_free(heap, again);
}

static void free_inside(void *size)
{
  pool_heap_t *heap = heap_with_sites(0);
  pool_heap_free(heap, (char *)taken_here(heap, *(size_t *)size) + 16);
}

static void misuse(void **state)
{
  (void)state;
  static size_t some[] = {100, 5000, 300000};
  for (size_t i = 0; i < COUNT_OF(some); i++) {
    ends_by_signal(free_twice, &some[i], SIGABRT);
    ends_by_signal(free_inside, &some[i], SIGABRT);
  }
}

/* ---- reports ---- */

static const char *report_of(pool_heap_t *heap)
{
  static char text[64 << 10];
  FILE *file = tmpfile();
  assert_non_null(file);
  errno = UNTOUCHED;
  assert_true(pool_heap_report(heap, fileno(file)));
  assert_int_equal(errno, UNTOUCHED);
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  return text;
}

static void assert_has(const char *text, const char *part)
{
  if (!strstr(text, part))
    fail_msg("%s\ndoes not have\n%s", text, part);
}

static void reports(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_sites(0);
  assert_string_equal(report_of(heap), "heap \"sites\": 0 blocks, 0 bytes live\n");
  for (int i = 0; i < 7; i++)
    assert_non_null(taken_here(heap, 1000));
  char *one = taken_there(heap, 4000);
  const char *text = report_of(heap);
  assert_has(text, "heap \"sites\": 8 blocks, 11,000 bytes live\n           7,000 bytes in 7 blocks from ");
  assert_has(text, "\n           4,000 bytes in 1 block from ");
  if (!SANITIZED) {
    assert_has(text, "blocks from taken_here+0x");
    assert_has(text, "block from taken_there+0x");
    assert_true(strstr(text, "taken_here") < strstr(text, "taken_there"));
  }
  pool_heap_free(heap, one);
  assert_has(report_of(heap), "heap \"sites\": 7 blocks, 7,000 bytes live\n");
  assert_null(strstr(report_of(heap), "1 block"));
  pool_heap_destroy(heap);
  pool_heap_t *plain = heap_with((pool_heap_options_t){.name = "plain"});
  assert_non_null(pool_heap_alloc(plain, 1024));
  assert_string_equal(report_of(plain), "heap \"plain\": 1 block, 1,024 bytes live\n");
  pool_heap_destroy(plain);
  assert_has(report_of(pool_heap_default()), "the default heap: ");
}

static void refused_reports(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_sites(0);
  errno = 0;
  assert_false(pool_heap_report(heap, -1));
  assert_int_equal(errno, EBADF);
  errno = 0;
  assert_false(pool_heap_report(NULL, 2));
  assert_int_equal(errno, EINVAL);
  pool_heap_destroy(heap);
}

/* Threads find their sites at once, and each is one. */
static void take_many(size_t index, void *context)
{
  pool_heap_t *heap = context;
  for (int i = 0; i < 2000; i++)
    must(index % 2 ? taken_here(heap, 64) : taken_there(heap, 64));
}

static void threads(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_sites(0);
  run_threads(4, take_many, heap);
  const char *text = report_of(heap);
  assert_has(text, "8,000 blocks, 512,000 bytes live\n");
  if (!SANITIZED) {
    assert_has(text, "256,000 bytes in 4,000 blocks from taken_here");
    assert_has(text, "256,000 bytes in 4,000 blocks from taken_there");
  }
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_size), cmocka_unit_test(without_checks),  cmocka_unit_test(zeroed_when_freed),
    cmocka_unit_test(regions),   cmocka_unit_test(object_pools),    cmocka_unit_test(misuse),
    cmocka_unit_test(reports),   cmocka_unit_test(refused_reports), cmocka_unit_test(threads),
  };
  return cmocka_run_group_tests_name("sites", tests, NULL, NULL);
}
