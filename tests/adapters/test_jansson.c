/* SPDX-License-Identifier: MIT
 * Jansson on a heap: what is written is what was read, exhaustion is NULL at every point, and a reset ends all values. */
#include "trials.h"
#include <tidepool/jansson.h>

/* NULL: no memory. */
static json_t *build(void)
{
  json_t *root = json_object(), *list = json_array();
  int status = json_object_set_new(root, "list", list);
  for (int i = 0; i < 500 && status == 0; i++)
    status = json_array_append_new(
      list, json_pack("{s:i, s:s, s:[f, b, n]}", "n", i, "name", "a \xc3\xa9 longer text", "rest", i / 4.0, i % 2));
  if (status == 0)
    return root;
  json_decref(root);
  return NULL;
}

static bool round_trip(void)
{
  json_t *root = build(), *again = NULL;
  char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_error_t error;
  if (text)
    again = json_loads(text, 0, &error);
  must(!again || (json_equal(root, again) && pool_in_use(again)));
  bool done = again != NULL;
  pool_free(text);
  json_decref(root);
  json_decref(again);
  return done;
}

static bool work(pool_heap_t *heap)
{
  pool_jansson_install(heap);
  return round_trip();
}

WORKS_ON_ANY_HEAP(work)
ANY_BUDGET(work)
EACH_REQUEST_FAILS(work)

static void a_reset_ends_all_values(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  pool_jansson_install(heap);
  for (unsigned i = 0; i < 20; i++) {
    must(build() && stats_of(heap).live_blocks > 1000);
    pool_heap_reset(heap);
    must(stats_of(heap).live_blocks == 0);
  }
  must(round_trip() && check_heap(heap));
}
IN_CHILD(a_reset_ends_all_values)

static void round_trips_in_thread(size_t index, void *unused)
{
  (void)index, (void)unused;
  for (unsigned i = 0; i < 5; i++)
    must(round_trip());
}

static void threads(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(64 << 20);
  pool_jansson_install(heap);
  json_object_seed(1);
  run_threads(4, round_trips_in_thread, NULL);
  must(stats_of(heap).live_blocks == 0 && check_heap(heap));
}
IN_CHILD(threads)

static void value_from_before(void *unused)
{
  (void)unused;
  json_t *old = json_string("old");
  pool_jansson_install(heap_with((pool_heap_options_t){0}));
  json_decref(old);
}

static void too_late(void **state)
{
  (void)state;
  aborts_with(value_from_before, NULL, "not a block of any heap");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),
    cmocka_unit_test(any_budget),
    cmocka_unit_test(each_request_fails),
    cmocka_unit_test(a_reset_ends_all_values_test),
    cmocka_unit_test(threads_test),
    cmocka_unit_test(too_late),
  };
  return cmocka_run_group_tests_name("jansson", tests, NULL, NULL);
}
