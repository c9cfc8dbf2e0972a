/* SPDX-License-Identifier: MIT */
#include "space/budget.h"
#include "unit.h"
#include <pthread.h>
#include <sched.h>

static void without_a_limit(void **state)
{
  (void)state;
  budget_t budget = {0};
  assert_true(budget_charge(&budget, (size_t)1 << (ADDRESS_BITS - 4)));
  assert_true(budget_charge(&budget, 5));
  assert_int_equal(budget_held(&budget), ((size_t)1 << (ADDRESS_BITS - 4)) + 5);
  assert_int_equal(budget.peak, 0); /* until there is memory for it */
  budget_note_peak(&budget);
  budget_discharge(&budget, 5);
  assert_int_equal(budget_held(&budget), (size_t)1 << (ADDRESS_BITS - 4));
  assert_int_equal(budget.peak, ((size_t)1 << (ADDRESS_BITS - 4)) + 5);
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
  budget.limit = 50; /* lowered below what is held */
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

/* A limit is set where it is held already, and then nothing has changed for anybody where it is not. */
static void a_new_limit(void **state)
{
  (void)state;
  budget_t top = {.limit = 1000}, budget = {.parent = &top};
  assert_true(budget_charge(&budget, 600));
  assert_false(budget_set_limit(&budget, 599, 0));
  assert_int_equal(budget_limit(&budget), 0);
  assert_true(budget_set_limit(&budget, 600, 0));
  assert_false(budget_charge(&budget, 1));
  assert_false(budget_set_limit(&top, 599, 0));
  assert_int_equal(budget_limit(&top), 1000);
  assert_true(budget_set_limit(&budget, 0, 0) && budget_charge(&budget, 400));
  assert_false(budget_charge(&budget, 1));
  assert_true(budget_set_limit(&top, 0, 0) && budget_charge(&budget, SIZE_MAX - 1000));
  assert_false(budget_charge(&budget, 1));
  assert_int_equal(budget_held(&top), SIZE_MAX);
}

static void what_would_be_charged(void **state)
{
  (void)state;
  budget_t top = {.limit = 100}, budget = {.limit = 60, .parent = &top}, other = {.parent = &top};
  assert_null(budget_that_refuses(&budget, 60));
  assert_ptr_equal(budget_that_refuses(&budget, 61), &budget);
  assert_true(budget_held(&budget) == 0 && budget_held(&top) == 0);
  assert_true(budget_charge(&other, 50));
  assert_null(budget_that_refuses(&budget, 50));
  assert_ptr_equal(budget_that_refuses(&budget, 51), &top);
  assert_ptr_equal(budget_that_refuses(&budget, SIZE_MAX), &budget);
  assert_true(budget_charge(&budget, 50));
  assert_null(budget_that_refuses(&budget, 0));
  assert_ptr_equal(budget_that_refuses(&other, 1), &top);
}

/* The peak is of what had memory, at each level by itself. */
static void the_peak(void **state)
{
  (void)state;
  budget_t top = {0}, a = {.parent = &top}, b = {.parent = &top};
  assert_true(budget_charge(&a, 70));
  budget_note_peak(&a);
  assert_true(budget_charge(&b, 50));
  budget_discharge(&a, 70);
  budget_note_peak(&b);
  assert_int_equal(budget_peak(&a), 70);
  assert_int_equal(budget_peak(&b), 50);
  assert_int_equal(budget_peak(&top), 70);
  assert_true(budget_charge(&a, 30));
  budget_note_peak(&a);
  assert_int_equal(budget_peak(&a), 70);
  assert_int_equal(budget_peak(&top), 80);
}

/* ---- threads ---- */

enum { THREADS = 6, ROUNDS = 20000, LIMIT = 1000, MIDDLE = 700 };

/* Two lines of two under one. Nobody asks for a limit that the others can make wrong, but for the one who sets it. */
static budget_t top, middles[2], lowest[2];
static size_t most_seen, refusals, set_count, never_set;
static bool ending;
static pthread_barrier_t all_there;

static void see(size_t held)
{
  size_t most = __atomic_load_n(&most_seen, __ATOMIC_RELAXED);
  while (held > most && !__atomic_compare_exchange_n(&most_seen, &most, held, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

static void *charge_and_discharge(void *argument)
{
  static budget_t *const places[] = {&lowest[0], &lowest[1], &middles[0], &middles[1], &top};
  dice_t dice = {(uintptr_t)argument};
  struct {
    budget_t *budget;
    size_t bytes;
  } mine[4] = {{0}};
  pthread_barrier_wait(&all_there);
  while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
    size_t at = dice_below(&dice, 4);
    if (mine[at].budget) {
      budget_discharge(mine[at].budget, mine[at].bytes);
      mine[at].budget = NULL;
    } else {
      budget_t *budget = places[dice_below(&dice, 5)];
      size_t bytes = 1 + dice_below(&dice, LIMIT / 3);
      if (budget_charge(budget, bytes)) {
        see(budget_held(&top));
        budget_note_peak(budget);
        mine[at].budget = budget;
        mine[at].bytes = bytes;
      } else {
        __atomic_fetch_add(&refusals, 1, __ATOMIC_RELAXED);
      }
    }
  }
  for (size_t i = 0; i < 4; i++)
    if (mine[i].budget)
      budget_discharge(mine[i].budget, mine[i].bytes);
  return NULL;
}

/* As soon as a limit is set, nobody sees more held than it allows. */
static void *lower_and_raise(void *argument)
{
  dice_t dice = {5};
  (void)argument;
  pthread_barrier_wait(&all_there);
  for (size_t turn = 0; turn < ROUNDS || !set_count || !budget_peak(&top); turn++) { /* however late the others come to run */
    if (turn >= ROUNDS)
      sched_yield();
    budget_t *budget = &middles[dice_below(&dice, 2)];
    size_t limit = dice_below(&dice, MIDDLE);
    bool set = budget_set_limit(budget, limit + 1, 0);
    __atomic_fetch_add(set ? &set_count : &never_set, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; set && i < 100; i++)
      must(budget_held(budget) <= limit + 1);
    must(budget_set_limit(budget, MIDDLE, 0));
  }
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  return NULL;
}

static void many_threads_never_exceed_it(void **state)
{
  pthread_t threads[THREADS], setter;
  (void)state;
  top.limit = LIMIT;
  pthread_barrier_init(&all_there, NULL, THREADS + 1);
  for (size_t i = 0; i < 2; i++) {
    middles[i] = (budget_t){.limit = MIDDLE, .parent = &top};
    lowest[i] = (budget_t){.limit = MIDDLE / 2, .parent = &middles[i]};
  }
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, charge_and_discharge, (void *)(i + 1)), 0);
  assert_int_equal(pthread_create(&setter, NULL, lower_and_raise, NULL), 0);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_join(setter, NULL);
  assert_true(most_seen <= LIMIT && budget_peak(&top) <= LIMIT && budget_peak(&top) > 0 && set_count > 0);
  assert_int_equal(budget_held(&top), 0);
  for (size_t i = 0; i < 2; i++) {
    assert_true(budget_peak(&middles[i]) <= MIDDLE && budget_peak(&lowest[i]) <= MIDDLE / 2);
    assert_true(budget_held(&middles[i]) == 0 && budget_held(&lowest[i]) == 0);
  }
  print_message("most held %zu of %d, %zu refusals, %zu limits set, %zu not\n", most_seen, LIMIT, refusals, set_count,
                never_set);
}

/* Charges that together fit are all had: nobody is refused for the sake of one that another level refuses. */
static size_t wrongly_refused;

static void *charge_a_little(void *argument)
{
  for (size_t i = 0; i < ROUNDS; i++) {
    bool charged = budget_charge(argument, 100);
    if (charged)
      budget_discharge(argument, 100);
    else
      __atomic_fetch_add(&wrongly_refused, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void *ask_for_too_much(void *argument)
{
  for (size_t i = 0; i < ROUNDS; i++)
    must(!budget_charge(argument, 950));
  return NULL;
}

static void refusals_cost_nobody(void **state)
{
  pthread_t threads[4];
  budget_t above = {.limit = 900}, shared = {.limit = 1000, .parent = &above}, asking = {.parent = &shared}, little[2];
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    little[i] = (budget_t){.parent = &shared};
    assert_int_equal(pthread_create(&threads[i], NULL, charge_a_little, &little[i]), 0);
    assert_int_equal(pthread_create(&threads[i + 2], NULL, ask_for_too_much, &asking), 0);
  }
  for (size_t i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(wrongly_refused, 0);
  assert_true(budget_held(&above) == 0 && budget_held(&shared) == 0 && budget_held(&asking) == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_limit),
    cmocka_unit_test(up_to_the_limit_and_no_further),
    cmocka_unit_test(a_refusal_undoes_the_levels_below),
    cmocka_unit_test(a_new_limit),
    cmocka_unit_test(what_would_be_charged),
    cmocka_unit_test(the_peak),
    cmocka_unit_test(many_threads_never_exceed_it),
    cmocka_unit_test(refusals_cost_nobody),
  };
  return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
