/* SPDX-License-Identifier: MIT */
#include "budget.h"
#include "unit.h"
#include <pthread.h>

static void without_a_limit(void **state)
{
  (void)state;
  budget_t budget = {0};
  assert_true(budget_charge(&budget, (size_t)1 << 60));
  assert_true(budget_charge(&budget, 5));
  assert_int_equal(budget_held(&budget), ((size_t)1 << 60) + 5);
  assert_int_equal(budget.peak, 0);                /* until there is memory for it */
  budget_note_peak(&budget);
  budget_discharge(&budget, 5);
  assert_int_equal(budget_held(&budget), (size_t)1 << 60);
  assert_int_equal(budget.peak, ((size_t)1 << 60) + 5);
}

static void up_to_the_limit_and_no_further(void **state)
{
  (void)state;
  budget_t budget = {.limit = 100};
  assert_true(budget_charge(&budget, 60));
  assert_false(budget_charge(&budget, 41));
  assert_false(budget_charge(&budget, SIZE_MAX));
  assert_false(budget_charge(&budget, SIZE_MAX - 59));
  assert_int_equal(budget_held(&budget), 60);
  assert_true(budget_charge(&budget, 40));
  assert_false(budget_charge(&budget, 1));
  assert_true(budget_charge(&budget, 0));
  budget_note_peak(&budget);
  budget.limit = 50;   /* lowered below what is held */
  assert_false(budget_charge(&budget, 0));
  budget_discharge(&budget, 100);
  assert_true(budget_charge(&budget, 50));
  assert_int_equal(budget.peak, 100);
}

/* Whoever up the line refuses, nobody is left charged. */
static void a_refusal_undoes_the_levels_below(void **state)
{
  (void)state;
  for (unsigned tight = 0; tight < 4; tight++) {
    budget_t line[4];
    for (unsigned i = 0; i < 4; i++)
      line[i] = (budget_t){.limit = i == tight ? 10 : 0, .parent = i < 3 ? &line[i + 1] : NULL};
    assert_true(budget_charge(&line[0], 7));
    budget_note_peak(&line[0]);
    for (unsigned i = 0; i < 4; i++)
      assert_int_equal(line[i].peak, 7);
    assert_false(budget_charge(&line[0], 7));
    for (unsigned i = 0; i < 4; i++)
      assert_int_equal(budget_held(&line[i]), 7);
    budget_discharge(&line[0], 7);
    for (unsigned i = 0; i < 4; i++)
      assert_int_equal(budget_held(&line[i]), 0);
  }
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 30000, LIMIT = 1000 };

static budget_t top = {.limit = LIMIT}, children[THREADS];
static size_t most_seen, refusals;

static void see(size_t held)
{
  size_t most = __atomic_load_n(&most_seen, __ATOMIC_RELAXED);
  while (held > most && !__atomic_compare_exchange_n(&most_seen, &most, held, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

static void *charge_and_discharge(void *argument)
{
  budget_t *budget = argument;
  dice_t dice = {(uintptr_t)budget};
  for (size_t i = 0; i < ROUNDS; i++) {
    size_t bytes = 1 + dice_below(&dice, LIMIT / 2);
    if (budget_charge(budget, bytes)) {
      see(budget_held(&top));
      budget_note_peak(budget);
      budget_discharge(budget, bytes);
    } else {
      __atomic_fetch_add(&refusals, 1, __ATOMIC_RELAXED);
    }
  }
  return NULL;
}

static void many_threads_never_exceed_it(void **state)
{
  (void)state;
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    children[i].parent = &top;
    assert_int_equal(pthread_create(&threads[i], NULL, charge_and_discharge, &children[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_true(most_seen <= LIMIT && top.peak <= LIMIT && top.peak > 0);
  assert_int_equal(budget_held(&top), 0);
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(budget_held(&children[i]), 0);
  print_message("most held %zu of %d, %zu refusals\n", most_seen, LIMIT, refusals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_limit),
    cmocka_unit_test(up_to_the_limit_and_no_further),
    cmocka_unit_test(a_refusal_undoes_the_levels_below),
    cmocka_unit_test(many_threads_never_exceed_it),
  };
  return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
