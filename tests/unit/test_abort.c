/* SPDX-License-Identifier: MIT
 * The end of a misused program: a handler of SIGABRT that goes on allocating, whatever the thread held. */
#include "heap/heap.h"
#include "os_fake.h"
#include "sleepers.h"
#include <errno.h>
#include <signal.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum { TWICE_SIZE = 64, HANDLER_BLOCKS = 8 };
static char *small_one, *large_one, *huge_one, *of_heap;
static pool_heap_t *a_heap, *mine;

static void allocate_in_the_handler(void)
{
  for (size_t size = 0; size < 20 * MIB; size = size * 3 + 1) {
    char *block = pool_alloc(size), *zeroed = pool_calloc(1, size), *aligned = pool_aligned_alloc(256 * KIB, size),
         *other = pool_heap_alloc(a_heap, size);
    must(block && zeroed && aligned && other && all_zero(zeroed, size) && (uintptr_t)aligned % (256 * KIB) == 0);
    must(pool_usable_size(block) >= size && pool_usable_size(aligned) >= size);
    pattern_write(block, size, 1);
    block = pool_realloc(block, 2 * size + 10);
    must(block && pattern_kept(block, size, size, 1));
    pool_free(block);
    pool_free(zeroed);
    pool_heap_free(a_heap, other);
  }
  errno = 0;
  volatile size_t too_much = SIZE_MAX / 2 + 1;
  must(!pool_alloc(too_much) && errno == ENOMEM);
}

/* What it had from before: that of a class, and a run, can be had larger; what is not known without a lock cannot, and stays.
 */
static void reallocate_in_the_handler(void)
{
  small_one = pool_realloc(small_one, 5000);
  large_one = pool_realloc(large_one, 900000);
  must(small_one && pattern_kept(small_one, 100, 100, 5) && large_one && pattern_kept(large_one, 100000, 100000, 6));
  errno = 0;
  char *moved = pool_realloc(huge_one, 30 * MIB);
  must((moved || errno == ENOMEM) && pattern_holds(moved ? moved : huge_one, 8 * MIB, 7));
  errno = 0;
  moved = pool_heap_realloc(a_heap, of_heap, 1000);
  must((moved || errno == ENOMEM) && pattern_holds(moved ? moved : of_heap, 200, 8));
  pool_free(small_one);
  pool_free(large_one);
  pool_free(huge_one);
  pool_heap_free(a_heap, of_heap);
  pool_free(NULL);
}

static bool visit(const pool_block_t *block, void *context) { return block && context; }

/* The magazines of the thread are as whatever went wrong left them, and may hold a block twice. None comes out of them. */
static void each_block_once_in_the_handler(void)
{
  char *those[HANDLER_BLOCKS];
  for (size_t i = 0; i < HANDLER_BLOCKS; i++) {
    must((those[i] = pool_alloc(TWICE_SIZE)) != NULL);
    for (size_t k = 0; k < i; k++)
      must(those[i] != those[k]);
  }
  for (size_t i = 0; i < HANDLER_BLOCKS; i++)
    pool_free(those[i]);
}

/* The answers may be wrong, in the middle of whatever it was, but they come. */
static void ask_in_the_handler(void)
{
  static char text[100000];
  pool_stats_t stats;
  pool_heap_stats(pool_heap_default(), &stats);
  pool_heap_stats(a_heap, &stats);
  pool_stats_json(text, sizeof text);
  pool_in_use(small_one);
  pool_block_start(huge_one, NULL);
  pool_heap_of(of_heap);
  pool_heap_walk(mine, visit, text);
}

static void handle_abort(int number)
{
  static const char words[] = "handled\n";
  static bool handled;
  (void)number;
  must(!handled); /* nothing here finds a misuse again */
  handled = true;
  ask_in_the_handler();
  each_block_once_in_the_handler();
  allocate_in_the_handler();
  reallocate_in_the_handler();
  must(write(STDERR_FILENO, words, sizeof words - 1) > 0);
}

static void get_ready(void)
{
  pthread_t thread;
  signal(SIGABRT, handle_abort);
  os_fake_heal();
  must((a_heap = pool_heap_create(NULL)) && (mine = pool_heap_create(&(pool_heap_options_t){.budget = 8 << 20})));
  must((small_one = pool_alloc(100)) && (large_one = pool_alloc(100000)) && (huge_one = pool_alloc(8 * MIB)) &&
       (of_heap = pool_heap_alloc(a_heap, 200)));
  pattern_write(small_one, 100, 5);
  pattern_write(large_one, 100000, 6);
  pattern_write(huge_one, 8 * MIB, 7);
  pattern_write(of_heap, 200, 8);
  pthread_barrier_init(&all_there, NULL, 2);
  must(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);
  pthread_barrier_wait(&all_there);
}

/* Twice in the magazines of the thread, one apart so that it is not seen at once; and none of them is full, or it would go as
 * it is. */
static void free_twice(pool_heap_t *heap)
{
  for (size_t i = 0; i < 16; i++)
    must(pool_heap_alloc(heap, TWICE_SIZE));
  void *a = pool_heap_alloc(heap, TWICE_SIZE), *b = pool_heap_alloc(heap, TWICE_SIZE);
  pool_heap_free(heap, a);
  pool_heap_free(heap, b);
  pool_heap_free(heap, a);
}

static void found_in_a_tick(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  for (size_t i = 0; i < 100000; i++) {
    os_fake.now_ms += 30;
    pool_free(pool_alloc(40000));
  }
}

static void *end_with_it(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  return NULL;
}

static void found_at_the_end_of_a_thread(void *heap)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, end_with_it, heap) == 0);
  pthread_join(thread, NULL);
}

static void found_in_a_trim(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  pool_heap_trim(*(pool_heap_t **)heap, 0);
}

static void found_in_a_walk(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  pool_heap_walk(*(pool_heap_t **)heap, see_block, NULL);
}

static void *hold_and_sleep(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  pthread_barrier_wait(&all_there);
  while (pause() != 0) {}
  return NULL;
}

/* In another thread's magazines, by who reaches for them. */
static void found_when_reached_for(void *heap)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, hold_and_sleep, heap) == 0);
  pthread_barrier_wait(&all_there);
  pool_heap_trim(mine, 0);
}

static void found_in_the_call(void *heap)
{
  void *block = pool_heap_alloc(*(pool_heap_t **)heap, 100000);
  pool_heap_free(*(pool_heap_t **)heap, block);
  pool_heap_free(*(pool_heap_t **)heap, block);
}

/* Of something else, while the magazines hold a block twice. */
static void found_beside_another(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  found_in_the_call(heap);
}

static void found_destroyed(void *heap)
{
  pool_heap_t *gone = pool_heap_create(NULL);
  (void)heap;
  pool_heap_destroy(gone);
  must(!pool_heap_alloc(gone, 10));
}

static void found_in_use(void *heap)
{
  must(pool_heap_create(&(pool_heap_options_t){.parent = *(pool_heap_t **)heap}));
  pool_heap_destroy(*(pool_heap_t **)heap);
}

typedef struct ending {
  void (*find)(void *);
  pool_heap_t **heap;
} ending_t;

static void end(void *argument)
{
  const ending_t *ending = argument;
  get_ready();
  ending->find(ending->heap);
}

static void the_end(void **state)
{
  static pool_heap_t *front = &default_heap;
  static const ending_t endings[] = {
    {found_in_a_tick, &front},
    {found_in_a_tick, &a_heap},
    {found_in_a_tick, &mine},
    {found_at_the_end_of_a_thread, &front},
    {found_at_the_end_of_a_thread, &a_heap},
    {found_at_the_end_of_a_thread, &mine},
    {found_in_a_trim, &front},
    {found_in_a_trim, &a_heap},
    {found_in_a_walk, &front},
    {found_in_a_walk, &a_heap},
    {found_when_reached_for, &mine},
    {found_in_the_call, &front},
    {found_in_the_call, &a_heap},
    {found_in_the_call, &mine},
    {found_beside_another, &front},
    {found_beside_another, &a_heap},
    {found_beside_another, &mine},
    {found_destroyed, &mine},
    {found_in_use, &mine},
  };
  (void)state;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    aborts_with(end, (void *)(uintptr_t)&endings[i], "\nhandled\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_end),
  };
  return cmocka_run_group_tests_name("abort", tests, NULL, NULL);
}
