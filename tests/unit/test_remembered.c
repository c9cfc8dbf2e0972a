/* SPDX-License-Identifier: MIT
 * What a thread remembers of the system's refusals, and for how long (space/refusals.c). */
#include "os_fake.h"
#include "space/budget.h"
#include "unit.h"
#include <pthread.h>
#include <tidepool/pool.h>

static size_t calls_of(os_call_t kind) { return os_fake.count[kind]; }

/* Only this thread must not ask. The others may. */
static void what_is_forbidden_is_not_remembered(void **state)
{
  (void)state;
  os_fake_heal();
  refusals_forget();
  os_forbid(true);
  assert_null(pool_alloc(200 << 20));
  os_forbid(false);
  size_t maps = calls_of(OS_MAP_AT);
  void *block = pool_alloc(200 << 20);
  assert_non_null(block);
  assert_true(calls_of(OS_MAP_AT) > maps && !refusals_have_answered());
  pool_free(block);
}

/* What one thread does about refusals while another is in the middle of a request. */
static void *forget_everything(void *unused)
{
  refusals_forget();
  return unused;
}

static void *unmap_something(void *unused)
{
  must(refusals_unmap(unused, os_page_size()));
  return NULL;
}

static void in_another_thread(void *(*run)(void *), void *argument)
{
  pthread_t thread;
  must(!pthread_create(&thread, NULL, run, argument) && !pthread_join(thread, NULL));
}

static size_t asks(char *address, size_t size)
{
  size_t maps = calls_of(OS_MAP_AT);
  must(refusals_map_at(address, size) == OS_NO_MEMORY);
  return calls_of(OS_MAP_AT) - maps;
}

/* The last attempt of a request depends on it: if another thread forgot in between, the request failed without a call. */
static void a_thread_that_forgets_leaves_others_alone(void **state)
{
  (void)state;
  os_fake_heal();
  size_t page = os_page_size();
  char *memory = os_map(3 * page, page);
  assert_non_null(memory);
  assert_true(refusals_unmap(memory + page, page));
  refusals_forget();
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  assert_int_equal(asks(memory + page, page), 1);
  assert_false(refusals_have_answered());
  assert_int_equal(asks(memory + page, page), 0);
  in_another_thread(forget_everything, NULL);
  assert_true(refusals_have_answered());
  assert_int_equal(asks(memory + page, page), 0);
  in_another_thread(unmap_something, memory);
  assert_int_equal(asks(memory + page, page), 1);
  assert_true(refusals_have_answered());
  refusals_forget();
  assert_false(refusals_have_answered());
  os_fake_heal();
  refusals_unmap(memory + 2 * page, page);
}

/* The count of answers is short. It must not look like none when it overflows. An answer in advance counts too. */
static void every_64th_attempt_asks(void **state)
{
  enum { ATTEMPTS = 640, EACH = 64, CHANGES = 7, UNITS = 2 };
  (void)state;
  os_fake_heal();
  size_t size = UNITS * UNIT, asked = 0;
  char *place = os_map(size, UNIT);
  assert_non_null(place);
  assert_true(refusals_unmap(place, size));
  refusals_forget();
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  assert_int_equal(asks(place, size), 1);
  for (size_t i = 0; i < ATTEMPTS; i++) {
    asked += asks(place, size);
    assert_true(refusals_have_answered());
  }
  assert_int_equal(asked, ATTEMPTS / EACH);
  assert_false(refusals_answer(UNITS, CHANGES)); /* nothing was searched */
  refusals_note_search(UNITS, CHANGES);
  assert_false(refusals_answer(UNITS - 1, CHANGES) || refusals_answer(UNITS, CHANGES + 1));
  for (size_t i = 0; i < ATTEMPTS; i++)
    asked += refusals_answer(UNITS, CHANGES) ? 0 : asks(place, size);
  assert_int_equal(asked, 2 * ATTEMPTS / EACH);
  refusals_forget();
  assert_int_equal(asks(place, size), 1);
  assert_false(refusals_answer(UNITS, CHANGES)); /* the search is forgotten too */
  os_fake_heal();
  refusals_forget();
}

/* Long sizes that differ a little are not taken for each other: an arena asks for less where more was refused. */
static void a_refusal_answers_for_no_less(void **state)
{
  (void)state;
  os_fake_heal();
  char *place = os_map(UNIT, UNIT);
  assert_non_null(place);
  assert_true(refusals_unmap(place, UNIT));
  for (size_t size = 2 * UNIT; size <= (size_t)1 << 30; size *= 2) {
    refusals_forget();
    os_fake.fail_kinds = 1 << OS_MAP_AT;
    assert_int_equal(asks(place, size), 1);
    assert_int_equal(asks(place, size - UNIT), 1);
    assert_true(size > 128 << 20 || asks(place, size) == 0);
  }
  os_fake_heal();
  refusals_forget();
}

static char *unmapped_meanwhile;

static void another_unmaps(os_call_t kind)
{
  if (kind != OS_MAP_AT)
    return;
  os_fake.during = NULL;
  in_another_thread(unmap_something, unmapped_meanwhile);
}

/* The system may have refused just before. */
static void a_refusal_is_void_if_another_thread_unmaps_meanwhile(void **state)
{
  (void)state;
  os_fake_heal();
  size_t page = os_page_size();
  unmapped_meanwhile = os_map(page, page);
  assert_non_null(unmapped_meanwhile);
  refusals_forget();
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  os_fake.during = another_unmaps;
  assert_int_equal(asks(unmapped_meanwhile, page), 1);
  assert_int_equal(asks(unmapped_meanwhile, page), 1);
  assert_int_equal(asks(unmapped_meanwhile, page), 0);
  os_fake_heal();
  refusals_forget();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_forbidden_is_not_remembered),
    cmocka_unit_test(a_thread_that_forgets_leaves_others_alone),
    cmocka_unit_test(every_64th_attempt_asks),
    cmocka_unit_test(a_refusal_answers_for_no_less),
    cmocka_unit_test(a_refusal_is_void_if_another_thread_unmaps_meanwhile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
