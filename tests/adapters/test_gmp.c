/* SPDX-License-Identifier: MIT
 * GMP on a heap: a factorial is right, everything comes back, and an exhausted heap ends the program as GMP does. */
#include "trials.h"
#include <tidepool/gmp.h>

enum { FACTORIAL = 20000 };

/* By ourselves, through all of GMP's functions of memory, and by GMP. */
static void compute(unsigned long n)
{
  mpz_t product, same;
  mpz_init_set_ui(product, 1);
  for (unsigned long i = 2; i <= n; i++)
    mpz_mul_ui(product, product, i);
  mpz_init(same);
  mpz_fac_ui(same, n);
  must(mpz_cmp(product, same) == 0);
  char *text = mpz_get_str(NULL, 10, product);
  must(pool_in_use(text) && mpz_set_str(same, text, 10) == 0 && mpz_cmp(product, same) == 0);
  pool_free(text);
  mpz_tdiv_q_ui(same, same, n);
  mpz_realloc2(same, 1); /* smaller */
  mpz_clears(product, same, NULL);
}

static bool work(pool_heap_t *heap)
{
  pool_gmp_install(heap);
  mpz_t kept;
  mpz_init_set_ui(kept, 12345);
  must(stats_of(heap).live_blocks == 1);
  compute(FACTORIAL);
  mpz_clear(kept);
  return true;
}

WORKS_ON_ANY_HEAP(work)

static void runs_out(void *unused)
{
  (void)unused;
  work(pool_heap_create(&(pool_heap_options_t){.name = "numbers", .budget = 64 << 10}));
}

static void is_refused(void *n)
{
  fail_from = *(size_t *)n;
  fail_count = 1;
  work(pool_heap_default());
}

static void exhaustion_ends_the_program(void **state)
{
  (void)state;
  aborts_with(runs_out, NULL, "GNU MP: the heap numbers has no ");
  for (size_t n = 1; n < 100; n += 7)
    aborts_with(is_refused, &n, "GNU MP: the heap default has no ");
}

/* The way out: the numbers that are too large for the heap are in the other. */
static void overflows(void *unused)
{
  (void)unused;
  pool_heap_t *other = heap_with((pool_heap_options_t){0});
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 64 << 10, .overflow = other});
  must(work(heap));
  must(stats_of(heap).overflowed_count > 0 && stats_of(heap).live_blocks == 0 && stats_of(other).live_blocks == 0);
}
IN_CHILD(overflows)

static void compute_in_thread(size_t index, void *unused)
{
  (void)unused;
  compute(1000 + index);
}

static void threads(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 16 << 20});
  pool_gmp_install(heap);
  run_threads(4, compute_in_thread, NULL);
  must(stats_of(heap).live_blocks == 0 && check_heap(heap));
}
IN_CHILD(threads)

/* Numbers of the first heap grow and end there. */
static void a_second_heap(void *unused)
{
  (void)unused;
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  mpz_t old, new;
  pool_gmp_install(first);
  mpz_init_set_ui(old, 3);
  pool_gmp_install(second);
  mpz_init_set_ui(new, 3);
  mpz_pow_ui(old, old, 10000);
  mpz_pow_ui(new, new, 10000);
  must(mpz_cmp(old, new) == 0 && stats_of(first).live_blocks == 1 && stats_of(second).live_blocks == 1);
  mpz_clears(old, new, NULL);
  must(stats_of(first).live_blocks == 0 && stats_of(second).live_blocks == 0);
  pool_heap_destroy(first);
  compute(1000);
  pool_heap_destroy(second);
}
IN_CHILD(a_second_heap)

static void number_from_before(void *unused)
{
  (void)unused;
  mpz_t old;
  mpz_init_set_ui(old, 3);
  pool_gmp_install(heap_with((pool_heap_options_t){0}));
  mpz_clear(old);
}

static void too_late(void **state)
{
  (void)state;
  aborts_with(number_from_before, NULL, "not a block of any heap");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),        cmocka_unit_test(exhaustion_ends_the_program), cmocka_unit_test(overflows_test),
    cmocka_unit_test(threads_test), cmocka_unit_test(a_second_heap_test),          cmocka_unit_test(too_late),
  };
  return cmocka_run_group_tests_name("gmp", tests, NULL, NULL);
}
