/* SPDX-License-Identifier: MIT
 * Which options make a pool, what it is called and what it costs; and no pool at all. */
#include "heap/heap.h"
#include "json.h"
#include "object_pool/operations.h"
#include "pools.h"
#include <errno.h>

/* ---- creation ---- */

static void bad_options_are_refused(void **state)
{
  (void)state;
  object_pool_options_t o;
  errno = 0;
  object_pool_t *none = object_pool_create(NULL);
  assert_null(none);
  assert_int_equal(errno, EINVAL);
  o = good_options(), o.object_size = 0, is_refused(o);
  o = good_options(), o.object_size = SIZE_MAX, is_refused(o);
  o = good_options(), o.object_size = PTRDIFF_MAX, is_refused(o);
  o = good_options(), o.alignment = 24, is_refused(o);
  o = good_options(), o.alignment = (size_t)1 << (ADDRESS_BITS - 1), is_refused(o);
  o = good_options(), o.capacity = 0, is_refused(o);
  o = good_options(), o.capacity = SIZE_MAX, is_refused(o);
  o = good_options(), o.capacity = UINT32_MAX, is_refused(o);
  o = good_options(), o.object_size = (size_t)1 << (ADDRESS_BITS - 24), o.capacity = (size_t)1 << 24, is_refused(o);
  o = good_options(), o.when_full = OBJECT_POOL_GROW, o.max_capacity = 99, is_refused(o);
  o = good_options(), o.when_full = OBJECT_POOL_EVICT, is_refused(o);
  o = good_options(), o.when_full = OBJECT_POOL_OVERFLOW, is_refused(o);
  o = good_options(), o.when_full = (object_pool_policy_t)4, is_refused(o);
  o = good_options(), o.reset_time = (object_pool_reset_time_t)2, is_refused(o);
  o = good_options(), o.flags = 4, is_refused(o);
}

static void bad_overflow_is_refused(void **state)
{
  (void)state;
  object_pool_options_t o = good_options();
  object_pool_t *other = create((object_pool_options_t){.object_size = 47, .capacity = 1});
  o.when_full = OBJECT_POOL_OVERFLOW, o.overflow = other, is_refused(o);
  object_pool_destroy(other);
  other = create((object_pool_options_t){.object_size = 48, .capacity = 1});
  o.overflow = other, o.alignment = 64, is_refused(o);
  o.alignment = 0;
  /* A chain that leads back can only come from pools that were changed behind the interface; it must end all the same. */
  object_pool_t *second =
    create((object_pool_options_t){.object_size = 48, .capacity = 1, .when_full = OBJECT_POOL_OVERFLOW, .overflow = other});
  other->overflow = second;
  is_refused(o);
  other->overflow = other;
  is_refused(o);
  other->overflow = NULL;
  object_pool_destroy(second);
  object_pool_destroy(other);
}

/* What all threads use cannot lean on what one thread uses. */
static void shared_upon_one_threads_is_refused(void **state)
{
  (void)state;
  pool_heap_t *own = pool_heap_create(&(pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
  pool_heap_t *before_own = pool_heap_create(&(pool_heap_options_t){.overflow = own});
  object_pool_t *single = create((object_pool_options_t){.object_size = 48, .capacity = 1, .flags = OBJECT_POOL_SINGLE_THREAD});
  object_pool_t *shared = create((object_pool_options_t){.object_size = 48, .capacity = 1});
  object_pool_options_t o = good_options();
  o.when_full = OBJECT_POOL_OVERFLOW, o.overflow = single, is_refused(o);
  o.flags = OBJECT_POOL_SINGLE_THREAD, object_pool_destroy(create(o));
  o.overflow = shared, object_pool_destroy(create(o));
  o.flags = 0, object_pool_destroy(create(o));
  o = good_options(), o.when_full = OBJECT_POOL_GROW, o.heap = own, is_refused(o);
  o.heap = before_own, is_refused(o);
  o.flags = OBJECT_POOL_SINGLE_THREAD, object_pool_destroy(create(o));
  o = good_options(), o.heap = own, object_pool_destroy(create(o)); /* its memory comes and goes with it */
  object_pool_destroy(shared);
  object_pool_destroy(single);
  pool_heap_destroy(before_own);
  pool_heap_destroy(own);
}

static void sizes_and_alignments(void **state)
{
  (void)state;
  static const size_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 15, 16, 17, 24, 40, 48, 100, 1000, 4096, 70000};
  static const size_t alignments[] = {0, 1, 2, 16, 64, 4096};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t a = 0; a < sizeof alignments / sizeof *alignments; a++) {
      object_pool_t *pool =
        create((object_pool_options_t){.object_size = sizes[s], .alignment = alignments[a], .capacity = 70});
      size_t natural = sizes[s] >= 16 ? 16 : sizes[s] & -sizes[s], alignment = alignments[a] ? alignments[a] : natural;
      get_all(pool, 70);
      for (size_t i = 0; i < 70; i++) {
        assert_int_equal((uintptr_t)objects[i] % alignment, 0);
        memset(objects[i], (int)i, sizes[s]);
      }
      for (size_t i = 0; i < 70; i++)
        for (size_t byte = 0; byte < sizes[s]; byte++)
          assert_int_equal(((unsigned char *)objects[i])[byte], i);
      for (size_t i = 1; i < sizes[s] && sizes[s] <= 100; i++)
        assert_false(object_pool_in_use(pool, (char *)objects[7] + i) && objects[7 + 1] != (char *)objects[7] + i);
      agrees(pool, 70);
      assert_null(object_pool_get(pool));
      object_pool_destroy(pool);
    }
}

static void names(void **state)
{
  (void)state;
  json_needed();
  static const char much[] = "a \"quoted\" name that is much too long for it";
  object_pool_t *named = create((object_pool_options_t){.name = much, .object_size = 8, .capacity = 10});
  object_pool_t *unnamed = create((object_pool_options_t){.object_size = 24, .capacity = 3});
  objects[0] = object_pool_get(unnamed);
  json_read_process();
  assert_int_equal(json_length("object_pools"), 2);
  assert_string_equal(json_text("object_pools[0].name"), "a \"quoted\" name that is much to");
  assert_string_equal(json_text("object_pools[1].heap"), "default");
  assert_int_equal(json_number("object_pools[1].object_size"), 24);
  assert_int_equal(json_number("object_pools[1].capacity"), 3);
  assert_int_equal(json_number("object_pools[1].live"), 1);
  assert_int_equal(json_number("object_pools[1].arrays"), 1);
  object_pool_destroy(named);
  object_pool_destroy(unnamed);
  json_read_process();
  assert_int_equal(json_length("object_pools"), 0);
}

/* 31 bytes end within a character, of the pool's name and of the heap's; another name is none in UTF-8. */
static void names_are_whole_characters(void **state)
{
  (void)state;
  static const char name[] = "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac",
                    cut[] = "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac";
  json_needed();
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = name});
  object_pool_t *pool = create((object_pool_options_t){.name = name, .object_size = 8, .capacity = 10, .heap = heap});
  object_pool_t *latin = create((object_pool_options_t){.name = "gr\xfcn", .object_size = 8, .capacity = 10});
  assert_string_equal(pool_heap_name(heap), cut);
  json_read_process();
  assert_string_equal(json_text("object_pools[0].name"), cut);
  assert_string_equal(json_text("object_pools[0].heap"), cut);
  assert_string_equal(json_text("object_pools[1].name"), "gr\ufffdn");
  object_pool_destroy(latin);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

static void keep_figures(const object_pool_figures_t *figures, void *kept) { *(object_pool_figures_t *)kept = *figures; }

/* Use state, generation and free list together, hooks or not. */
static void six_bytes_an_object(void **state)
{
  (void)state;
  for (int hooks = 0; hooks < 2; hooks++) {
    object_pool_t *pool =
      create((object_pool_options_t){.object_size = 16, .capacity = 100000, .construct = hooks ? make_object : NULL});
    object_pool_figures_t f;
    heap_dependents->visit(keep_figures, &f); /* there is no other */
    assert_true(f.held_bytes < 100000 * (16 + 4.5));
    object_pool_destroy(pool);
  }
}

/* ---- no pool ---- */

#define REFUSED(nothing)   (errno = 0, must(nothing), must(errno == EINVAL))
#define REFUSED_VOID(call) (errno = 0, call, must(errno == EINVAL))

/* NULL, false, 0 or a handle of nothing, and EINVAL, whatever the other arguments are. */
static void use_no_pool(void *unused)
{
  (void)unused;
  int here = 0;
  void *const addresses[] = {NULL, &here, (void *)UINTPTR_MAX};
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
    void *address = addresses[i], *batch[2] = {address, address};
    REFUSED(!object_pool_get(NULL));
    REFUSED_VOID(object_pool_put(NULL, address));
    for (size_t count = 0; count < 3; count++) {
      REFUSED(!object_pool_get_batch(NULL, batch, count));
      REFUSED_VOID(object_pool_put_batch(NULL, batch, count));
      must(batch[0] == address);
    }
    REFUSED_VOID(object_pool_put_all(NULL));
    REFUSED(!object_pool_in_use(NULL, address));
    REFUSED(!object_pool_next(NULL, address));
    REFUSED(!object_pool_live(NULL));
    REFUSED(!object_pool_capacity(NULL));
    REFUSED(!object_pool_shrink(NULL, i));
    object_pool_handle_t handle;
    REFUSED_VOID(handle = object_pool_handle(NULL, address));
    must(!handle.index && !handle.generation);
    REFUSED(!object_pool_resolve(NULL, handle));
    REFUSED(!object_pool_resolve(NULL, (object_pool_handle_t){1, 1}));
  }
  errno = 77;
  object_pool_destroy(NULL);
  must(errno == 77);
}

static void use_no_pool_with_threads(void *unused)
{
  start_second_thread();
  use_no_pool(unused);
}

static void no_pool(void **state)
{
  (void)state;
  in_child(use_no_pool, NULL);
  in_child(use_no_pool_with_threads, NULL);
}

/* ---- eviction ---- */

/* A pool that could not be made leaves its chain as it was. */
static void a_chain_that_was_refused(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20});
  object_pool_t *tail = create((object_pool_options_t){.object_size = 64, .capacity = 16, .when_full = OBJECT_POOL_GROW});
  for (size_t less = 200; less < 100000; less *= 3)
    assert_null(object_pool_create(&(object_pool_options_t){
      .object_size = 64, .capacity = UINT32_MAX - less, .heap = heap, .when_full = OBJECT_POOL_OVERFLOW, .overflow = tail}));
  get_all(tail, MOST);
  agrees(tail, MOST);
  object_pool_destroy(tail);
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bad_options_are_refused),
    cmocka_unit_test(bad_overflow_is_refused),
    cmocka_unit_test(shared_upon_one_threads_is_refused),
    cmocka_unit_test(sizes_and_alignments),
    cmocka_unit_test(names),
    cmocka_unit_test(names_are_whole_characters),
    cmocka_unit_test(six_bytes_an_object),
    cmocka_unit_test(no_pool),
    cmocka_unit_test(a_chain_that_was_refused),
  };
  return cmocka_run_group_tests_name("object_pool create", tests, time_stands_still, NULL);
}
