/* SPDX-License-Identifier: MIT
 * Reset, destroy and the ends of threads: nothing of a heap is left where it was cached, and what goes on goes on. */
#include "heaps.h"
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 3000 };

/* Threads that keep magazines of the heaps they used, and wait between steps. */
typedef struct crew {
  pool_heap_t *heap, *other;
  pthread_barrier_t step;
  list_t lists[THREADS];
} crew_t;

static crew_t crew_of(pool_heap_t *heap, pool_heap_t *other) { return (crew_t){.heap = heap, .other = other}; }

static void next_step(crew_t *crew) { pthread_barrier_wait(&crew->step); }

static void leave_blocks_in_magazines(crew_t *crew, list_t *live)
{
  list_t list = {0};
  for (size_t size = 16; size <= 1024; size *= 2)
    list_take_many(&list, crew->heap, size, BLOCKS / 16);
  list_free(&list, crew->heap);
  list_take_many(live, crew->heap, 48, BLOCKS);
}

/* Blocks that are given out twice would show another's key. */
static void use(pool_heap_t *heap, size_t key)
{
  void *blocks[500];
  for (unsigned round = 0; round < 4; round++) {
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
      must(blocks[i] = pool_heap_alloc(heap, 16 + i % 200));
      pattern_write(blocks[i], 16 + i % 200, key + i);
    }
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
      must(pattern_holds(blocks[i], 16 + i % 200, key + i));
      pool_heap_free(heap, blocks[i]);
    }
  }
}

static void work_through_reset(size_t index, void *context)
{
  crew_t *crew = context;
  for (unsigned round = 0; round < 3; round++) {
    list_t live = {0};
    leave_blocks_in_magazines(crew, &live);
    next_step(crew);
    if (index == round) {
      pool_heap_reset(crew->heap);
      pool_stats_t s = stats_of(crew->heap);
      must(s.live_blocks == 0 && s.live_bytes == 0 && s.cached_bytes == 0 && s.held_bytes > 0);
    }
    next_step(crew);
    use(crew->heap, index << sizeof index * 4);
    use(crew->other, index << sizeof index * 4);
    next_step(crew);
  }
}

static void run_crew(crew_t *crew, thread_body_fn *body)
{
  pthread_barrier_init(&crew->step, NULL, THREADS);
  run_threads(THREADS, body, crew);
  pthread_barrier_destroy(&crew->step);
}

static const pool_heap_options_t kinds[] = {{.budget = 0},
                                            {.budget = 4 << 20},
                                            {.budget = 8 << 20},
                                            {.budget = 64 << 20},
                                            {.reserve = 4 << 20},
                                            {.flags = POOL_HEAP_CHECKED},
                                            {.flags = POOL_HEAP_ZERO_ON_FREE}};

static void reset_by_another_thread(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    crew_t crew = crew_of(heap_with(kinds[i]), heap_with((pool_heap_options_t){0}));
    run_crew(&crew, work_through_reset);
    assert_int_equal(stats_of(crew.heap).live_blocks, 0);
    assert_true(check_everything());
    pool_heap_destroy(crew.heap);
    pool_heap_destroy(crew.other);
  }
}

static void reset_keeps_memory(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  list_t list = {0};
  list_take_many(&list, heap, 100, 50000);
  for (size_t i = 0; i < 10; i++)
    assert_non_null(pool_heap_alloc(heap, 1 << 20));
  assert_non_null(pool_heap_alloc(heap, opaque(40 << 20)));
  pool_heap_reset(heap);
  size_t held = stats_of(heap).held_bytes;
  assert_true(held >= 5000000 && held < 10 << 20);
  list = (list_t){0};
  list_take_many(&list, heap, 100, 50000);
  assert_int_equal(stats_of(heap).held_bytes, held);
  unsigned char *block = pool_heap_zalloc(heap, 100);
  assert_true(all_zero(block, 100));
  pool_heap_reset(heap);
  for (size_t i = 0; i < 1000; i++) {
    assert_non_null(block = pool_heap_zalloc(heap, 100));
    assert_true(all_zero(block, 100));
    memset(block, 0xff, 100);
  }
  pool_heap_reset(heap);
  pool_heap_trim(heap, 0);
  assert_true(stats_of(heap).held_bytes < 100000);
  pool_heap_destroy(heap);
  assert_true(check_everything());
}

static void work_through_destroy(size_t index, void *context)
{
  crew_t *crew = context;
  for (unsigned round = 0; round < 6; round++) {
    list_t live = {0};
    leave_blocks_in_magazines(crew, &live);
    use(crew->other, index << sizeof index * 4);
    next_step(crew);
    if (index == round % THREADS)
      pool_heap_destroy(crew->heap);
    next_step(crew);
    use(crew->other, index << sizeof index * 4);
    must(pool_alloc(100) != NULL);
    next_step(crew);
    if (index == round % THREADS)
      crew->heap = pool_heap_create(NULL); /* where the last one was, most likely */
    next_step(crew);
    must(crew->heap && stats_of(crew->heap).live_blocks == 0);
    next_step(crew);
  }
}

static void destroy_by_another_thread(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    crew_t crew = crew_of(heap_with(kinds[i]), heap_with((pool_heap_options_t){0}));
    run_crew(&crew, work_through_destroy);
    assert_int_equal(stats_of(crew.other).live_blocks, 0);
    pool_heap_destroy(crew.heap);
    pool_heap_destroy(crew.other);
    assert_true(check_everything());
  }
}

/* Everything a heap held in the process goes back with it. */
static void destroy_leaves_nothing(void **state)
{
  (void)state;
  pool_heap_t *parent = heap_with((pool_heap_options_t){0});
  size_t before = stats_of(parent).held_bytes, metadata = 0;
  for (unsigned round = 0; round < 40; round++) {
    pool_heap_options_t options = kinds[round % COUNT_OF(kinds)];
    options.parent = parent;
    pool_heap_t *heap = heap_with(options);
    list_t list = {0};
    for (size_t size = 16; size < 100000; size *= 2)
      list_take_many(&list, heap, size, 10);
    pool_heap_destroy(heap);
    assert_int_equal(stats_of(parent).held_bytes, before);
    pool_trim(0);
    size_t now = stats_of(pool_heap_default()).held_bytes;
    assert_true(round < 10 || now <= metadata);
    metadata = max_size(metadata, now);
  }
  pool_heap_destroy(parent);
  assert_true(check_everything());
}

/* ---- threads that end ---- */

enum { MANY = 400 }; /* more than a thread has places for */
static pool_heap_t *many[MANY];

/* Both are there until the other is done: what they hold at once would differ from round to round otherwise. */
static void touch_many(size_t index, void *both_done)
{
  for (size_t i = 0; i < MANY; i++) {
    list_t list = {0};
    list_take_many(&list, many[i], 32, 50);
    list_take_many(&list, many[i], 1000 + index, 20);
    list_free(&list, many[i]);
  }
  pthread_barrier_wait(both_done);
}

static void a_thread_that_touched_many_heaps(void **state)
{
  (void)state;
  size_t empty[MANY], metadata = 0;
  pthread_barrier_t both_done;
  pthread_barrier_init(&both_done, NULL, 2);
  for (size_t i = 0; i < MANY; i++) {
    many[i] = heap_with((pool_heap_options_t){0});
    empty[i] = stats_of(many[i]).held_bytes;
  }
  for (unsigned round = 0; round < 12; round++) {
    run_threads(2, touch_many, &both_done);
    for (size_t i = 0; i < MANY && round == 0; i++) { /* with the records of the classes */
      pool_heap_trim(many[i], 0);
      empty[i] = stats_of(many[i]).held_bytes;
    }
    for (size_t i = 0; i < MANY; i++) {
      assert_int_equal(stats_of(many[i]).live_blocks, 0);
      pool_heap_trim(many[i], 0);
      pool_stats_t s = stats_of(many[i]);
      assert_int_equal(s.cached_bytes, 0);
      assert_int_equal(s.held_bytes, empty[i]);
    }
    pool_trim(0);
    size_t now = stats_of(pool_heap_default()).held_bytes;
    if (round == 4)
      metadata = now;
    assert_true(round <= 4 || now <= metadata);
  }
  for (size_t i = 0; i < MANY; i++)
    pool_heap_destroy(many[i]);
  pthread_barrier_destroy(&both_done);
  assert_true(check_everything());
}

/* A block from a heap outlives the thread that took it. */
static void take_one(size_t index, void *context) { ((void **)context)[index] = pool_heap_zalloc(many[0], 500); }

static void blocks_outlive_their_thread(void **state)
{
  (void)state;
  void *blocks[8];
  many[0] = heap_with((pool_heap_options_t){0});
  run_threads(COUNT_OF(blocks), take_one, blocks);
  assert_int_equal(stats_of(many[0]).live_blocks, COUNT_OF(blocks));
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    assert_true(all_zero(blocks[i], 500));
    pool_heap_free(many[0], blocks[i]);
  }
  assert_int_equal(stats_of(many[0]).live_blocks, 0);
  pool_heap_destroy(many[0]);
}

/* ---- a thousand heaps: what each takes. What making one costs is counted by instructions.py ---- */

enum { THOUSAND = 1000, HEAP_MOST = 80 << 10, TURNS = 3 };

static void a_thousand_heaps(void **state)
{
  (void)state;
  static pool_heap_t *heaps[THOUSAND];
  pool_trim(0);
  size_t before = stats_of(pool_heap_default()).held_bytes;
  for (unsigned turn = 0; turn < TURNS; turn++) {
    size_t held = 0;
    for (size_t i = 0; i < THOUSAND; i++) {
      heaps[i] = heap_with((pool_heap_options_t){0});
      assert_non_null(pool_heap_alloc(heaps[i], 64));
    }
    for (size_t i = 0; i < THOUSAND; i++)
      held += stats_of(heaps[i]).held_bytes;
    size_t each = (held + stats_of(pool_heap_default()).held_bytes - before) / THOUSAND;
    print_message("a thousand heaps: %zu bytes each\n", each);
    assert_true(each <= HEAP_MOST);
    for (size_t i = 0; i < THOUSAND; i++)
      pool_heap_destroy(heaps[i]);
  }
  assert_true(check_everything());
}

/* ---- the first of all, before the library has been used ---- */

/* The numbers are those of <linux/membarrier.h>. A process that is not registered gets EPERM. Registering beside other threads
 * takes milliseconds, and the first allocation would wait for it. */
static void fences_are_registered_before_the_first_use(void **state)
{
  enum { QUERY = 0, FENCE_EXPEDITED = 1 << 3 };
  (void)state;
  long known = syscall(SYS_membarrier, QUERY, 0, 0);
  if (known < 0 || !(known & FENCE_EXPEDITED))
    skip();
  assert_int_equal(syscall(SYS_membarrier, FENCE_EXPEDITED, 0, 0), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fences_are_registered_before_the_first_use),
    cmocka_unit_test(reset_by_another_thread),
    cmocka_unit_test(reset_keeps_memory),
    cmocka_unit_test(destroy_by_another_thread),
    cmocka_unit_test(destroy_leaves_nothing),
    cmocka_unit_test(a_thread_that_touched_many_heaps),
    cmocka_unit_test(blocks_outlive_their_thread),
    cmocka_unit_test(a_thousand_heaps),
  };
  return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
