/* SPDX-License-Identifier: MIT
 * Every rule of tidepool/object_pool.h, with one thread. */
#include "check_object_pool.h"
#include "object_pool/registry.h"
#include "option.h"
#include "os_fake.h"
#include "unit.h"
#include <errno.h>
#include <pthread.h>
#include <tidepool/stats.h>
#include <unistd.h>

enum { MOST = 5000 };
static void *objects[MOST];

static const unsigned both_kinds[] = {0, OBJECT_POOL_SINGLE_THREAD};
#define FOR_BOTH(flags) for (size_t kind_ = 0; kind_ < 2; kind_++) for (unsigned flags = both_kinds[kind_], once_ = 1; once_; once_ = 0)

static object_pool_t *create(object_pool_options_t options)
{
  object_pool_t *pool = object_pool_create(&options);
  assert_non_null(pool);
  assert_true(check_object_pool(pool));
  return pool;
}

static size_t get_all(object_pool_t *pool, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    objects[i] = object_pool_get(pool);
    assert_non_null(objects[i]);
  }
  return count;
}

static size_t count_by_walk(const object_pool_t *pool)
{
  size_t count = 0;
  const void *last = NULL;
  for (void *object = NULL; (object = object_pool_next(pool, object)) != NULL; count++) {
    assert_true((uintptr_t)object > (uintptr_t)last);
    assert_true(object_pool_in_use(pool, object));
    last = object;
  }
  return count;
}

static void agrees(const object_pool_t *pool, size_t live)
{
  assert_true(check_object_pool(pool));
  assert_int_equal(object_pool_live(pool), live);
  assert_int_equal(count_by_walk(pool), live);
}

/* For a child: from now on every lock is taken. */
static void *sleep_on(void *unused)
{
  for (;;)
    pause();
  return unused;
}

static void start_second_thread(void)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, sleep_on, NULL) == 0);
}

/* ---- creation ---- */

static object_pool_options_t good_options(void) { return (object_pool_options_t){.object_size = 48, .capacity = 100}; }


static void is_refused(object_pool_options_t options)
{
  errno = 0;
  assert_null(object_pool_create(&options));
  assert_int_equal(errno, EINVAL);
}

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
  o = good_options(), o.alignment = (size_t)1 << 63, is_refused(o);
  o = good_options(), o.capacity = 0, is_refused(o);
  o = good_options(), o.capacity = SIZE_MAX, is_refused(o);
  o = good_options(), o.capacity = UINT32_MAX, is_refused(o);
  o = good_options(), o.object_size = (size_t)1 << 40, o.capacity = (size_t)1 << 30, is_refused(o);
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
  object_pool_t *second = create((object_pool_options_t){.object_size = 48, .capacity = 1, .when_full = OBJECT_POOL_OVERFLOW, .overflow = other});
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
  o = good_options(), o.heap = own, object_pool_destroy(create(o));   /* its memory comes and goes with it */
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
      object_pool_t *pool = create((object_pool_options_t){.object_size = sizes[s], .alignment = alignments[a], .capacity = 70});
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
  char text[4096];
  object_pool_t *named = create((object_pool_options_t){.name = "a \"quoted\" name that is much too long for it", .object_size = 8, .capacity = 10});
  object_pool_t *unnamed = create((object_pool_options_t){.object_size = 24, .capacity = 3});
  objects[0] = object_pool_get(unnamed);
  assert_true(pool_stats_json(text, sizeof text) < sizeof text);
  assert_non_null(strstr(text, "\"object_pools\":[{\"name\":\"a \\\"quoted\\\" name that is much"));
  assert_non_null(strstr(text, "\"heap\":\"default\",\"object_size\":24,\"capacity\":3,\"live\":1,\"arrays\":1,"));
  object_pool_destroy(named);
  object_pool_destroy(unnamed);
  pool_stats_json(text, sizeof text);
  assert_non_null(strstr(text, "\"object_pools\":[]"));
}

/* 31 bytes end within a character, of the pool's name and of the heap's; another name is none in UTF-8. */
static void names_are_whole_characters(void **state)
{
  (void)state;
  char text[4096];
  static const char name[] = "\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac";
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = name});
  object_pool_t *pool = create((object_pool_options_t){.name = name, .object_size = 8, .capacity = 10, .heap = heap});
  object_pool_t *latin = create((object_pool_options_t){.name = "gr\xfcn", .object_size = 8, .capacity = 10});
  assert_int_equal(strlen(pool_heap_name(heap)), 30);
  pool_stats_json(text, sizeof text);
  assert_non_null(strstr(text, "{\"name\":\"\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\",\"heap\":\"\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac\",\"object"));
  assert_non_null(strstr(text, "{\"name\":\"gr\\ufffdn\","));
  object_pool_destroy(latin);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

static bool make_object(void *object, void *context) { return (void)object, (void)context, true; }

static void keep_figures(const object_pool_figures_t *figures, void *kept) { *(object_pool_figures_t *)kept = *figures; }

/* Use state, generation and free list together, hooks or not. */
static void six_bytes_an_object(void **state)
{
  (void)state;
  for (int hooks = 0; hooks < 2; hooks++) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 16, .capacity = 100000, .construct = hooks ? make_object : NULL});
    object_pool_figures_t f;
    object_pools_visit(keep_figures, &f);   /* there is no other */
    assert_true(f.held_bytes < 100000 * (16 + 4.5));
    object_pool_destroy(pool);
  }
}

/* ---- no pool ---- */

#define REFUSED(nothing) (errno = 0, must(nothing), must(errno == EINVAL))
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

/* ---- get and put ---- */

static void fixed_pool(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 48, .capacity = MOST, .flags = flags});
    assert_int_equal(object_pool_capacity(pool), MOST);
    errno = 77;
    get_all(pool, MOST);
    for (size_t i = 1; i < MOST; i++)
      assert_ptr_equal(objects[i], (char *)objects[i - 1] + 48);
    agrees(pool, MOST);
    for (size_t i = 0; i < MOST; i += 3)
      object_pool_put(pool, objects[i]);
    agrees(pool, MOST - (MOST + 2) / 3);
    assert_int_equal(errno, 77);
    for (size_t i = 0; i < MOST; i += 3)
      assert_non_null(objects[i] = object_pool_get(pool));
    assert_null(object_pool_get(pool));
    assert_int_equal(errno, ENOMEM);
    agrees(pool, MOST);
    object_pool_destroy(pool);
  }
}

/* A model beside it: which objects are live. */
static void random_life(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    dice_t dice = {flags + 1};
    object_pool_t *pool = create((object_pool_options_t){.object_size = 24, .capacity = 300, .when_full = OBJECT_POOL_GROW, .max_capacity = 2000, .flags = flags});
    size_t live = 0;
    for (int step = 0; step < 60000; step++) {
      size_t phase = (size_t)step / 5000 % 4, most = phase == 0 ? 250 : phase == 1 ? 2000 : phase == 2 ? 1200 : 50;
      if (live < most && dice_below(&dice, 2)) {
        objects[live] = object_pool_get(pool);
        assert_non_null(objects[live]);
        *(void **)objects[live] = &objects[live];
        live++;
      } else if (live) {
        size_t i = live > most ? live - 1 : dice_below(&dice, live);
        assert_ptr_equal(*(void **)objects[i], &objects[i]);
        object_pool_put(pool, objects[i]);
        assert_false(object_pool_in_use(pool, objects[i]));
        objects[i] = objects[--live];
        if (i < live)
          *(void **)objects[i] = &objects[i];
      }
      if (step % 997 == 0)
        agrees(pool, live);
      if (step % 4001 == 0)
        object_pool_shrink(pool, 0);
    }
    agrees(pool, live);
    object_pool_destroy(pool);
  }
}

static void batches(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 1000, .flags = flags});
    assert_int_equal(object_pool_get_batch(pool, objects, 0), 0);
    assert_int_equal(object_pool_get_batch(pool, objects, 400), 400);
    agrees(pool, 400);
    errno = 0;
    assert_int_equal(object_pool_get_batch(pool, objects + 400, 700), 600);
    assert_int_equal(errno, ENOMEM);
    agrees(pool, 1000);
    object_pool_put_batch(pool, objects + 100, 800);
    agrees(pool, 200);
    object_pool_put_batch(pool, objects, 0);
    object_pool_put_batch(pool, objects + 900, 100);
    object_pool_put_batch(pool, objects, 100);
    agrees(pool, 0);
    object_pool_destroy(pool);
  }
}

static void put_all(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 1000, .flags = flags});
    object_pool_put_all(pool);
    agrees(pool, 0);
    for (size_t live = 1; live <= 1000; live += 333) {
      get_all(pool, live);
      object_pool_put(pool, objects[0]);
      assert_ptr_equal(object_pool_get(pool), objects[0]);
      object_pool_handle_t handle = object_pool_handle(pool, objects[live / 2]), hot = object_pool_handle(pool, objects[0]);
      object_pool_put_all(pool);
      agrees(pool, 0);
      assert_null(object_pool_resolve(pool, handle));
      get_all(pool, live);
      assert_null(object_pool_resolve(pool, handle));
      assert_null(object_pool_resolve(pool, hot));
      object_pool_put_all(pool);
    }
    object_pool_destroy(pool);
  }
}

static void walk_while_changing(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 16, .capacity = 500, .flags = flags});
    get_all(pool, 500);
    size_t seen = 0;
    for (void *object = NULL; (object = object_pool_next(pool, object)) != NULL; seen++)
      object_pool_put(pool, object);
    assert_int_equal(seen, 500);
    agrees(pool, 0);
    get_all(pool, 500);
    for (size_t i = 0; i < 500; i++)
      if (i % 10)
        object_pool_put(pool, objects[i]);
    agrees(pool, 50);
    assert_ptr_equal(object_pool_next(pool, NULL), objects[0]);
    assert_ptr_equal(object_pool_next(pool, objects[3]), objects[10]);
    assert_ptr_equal(object_pool_next(pool, (char *)objects[9] + 5), objects[10]);
    assert_ptr_equal(object_pool_next(pool, (char *)1), objects[0]);
    assert_null(object_pool_next(pool, (void *)UINTPTR_MAX));
    object_pool_destroy(pool);
  }
}

/* A walk through many live objects knows what comes; what is put ahead of it must not be met all the same. */
static void walk_with_changes_ahead(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 16, .capacity = 3000, .flags = flags});
    for (int round = 0; round < 2; round++) {
      get_all(pool, 3000);
      size_t seen = 0, ahead = 0;
      for (void *object = NULL; (object = object_pool_next(pool, object)) != NULL; seen++) {
        assert_true(object_pool_in_use(pool, object));
        size_t i = (size_t)((char *)object - (char *)objects[0]) / 16;
        if (i % 100 == 3 && i + 70 < 3000) {
          object_pool_put(pool, objects[i + 70]);
          ahead++;
        }
        if (i == 500)
          object_pool_put(pool, objects[501]);
        assert_true(check_object_pool(pool));
      }
      assert_int_equal(seen, 3000 - ahead - 1);
      object_pool_put_all(pool);
      assert_null(object_pool_next(pool, objects[10]));
    }
    object_pool_destroy(pool);
  }
}

/* What stands for "nothing" in somebody's memory: in dumps, in filled blocks, in this library's own records. */
static const uintptr_t well_known[] = {
  0, 1, 0x0b0b0b0b0b0b0b0b, 0x1deadb0b1deadb0b, 0x5a5a5a5a5a5a5a5a, 0x8badf00d8badf00d, 0xa5a5a5a5a5a5a5a5, 0xbaadf00dbaadf00d,
  0xcdcdcdcdcdcdcdcd, 0xdeadbeefdeadbeef, 0xdeadbeef, 0xfeeefeeefeeefeee, UINTPTR_MAX};
enum { WELL_KNOWN = sizeof well_known / sizeof *well_known };

/* The object that was put last is kept apart from the others: there is none yet, it is free, it is live, or it went back. */
typedef enum hot_case { HOT_NOT_YET, HOT_FREE_NOW, HOT_LIVE_NOW, HOT_NO_LONGER, HOT_CASES } hot_case_t;

/* Leaves objects[0] to objects[3] live, in any case. */
static object_pool_t *create_in_case(object_pool_options_t options, hot_case_t hot)
{
  object_pool_t *pool = create(options);
  get_all(pool, 5);
  if (hot != HOT_NOT_YET)
    object_pool_put(pool, objects[4]);
  if (hot == HOT_LIVE_NOW)
    assert_ptr_equal(object_pool_get(pool), objects[4]);
  if (hot == HOT_NO_LONGER) {
    object_pool_put_all(pool);
    get_all(pool, 4);
  }
  agrees(pool, hot == HOT_NOT_YET || hot == HOT_LIVE_NOW ? 5 : 4);
  return pool;
}

static void is_no_object_of(object_pool_t *pool, const void *address)
{
  assert_false(object_pool_in_use(pool, address));
  object_pool_handle_t handle = object_pool_handle(pool, address);
  assert_int_equal(handle.index | handle.generation, 0);
  assert_null(object_pool_resolve(pool, handle));
  void *next = object_pool_next(pool, address);
  assert_true(!next || (uintptr_t)next > (uintptr_t)address);
  assert_true(!next || object_pool_in_use(pool, next));
}

static void well_known_addresses(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags) {
      object_pool_t *pool = create_in_case((object_pool_options_t){.object_size = 1, .capacity = 200, .flags = flags}, hot);
      size_t live = object_pool_live(pool);
      for (size_t i = 0; i < WELL_KNOWN; i++)
        is_no_object_of(pool, (void *)well_known[i]);
      for (size_t i = 0; i <= sizeof *pool; i++)
        is_no_object_of(pool, (char *)pool + i);
      agrees(pool, live);
      object_pool_destroy(pool);
    }
}

static void any_address(void **state)
{
  (void)state;
  int here = 0;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 40, .capacity = 50, .flags = flags});
    object_pool_t *other = create((object_pool_options_t){.object_size = 40, .capacity = 50, .flags = flags});
    get_all(pool, 50);
    object_pool_put(pool, objects[20]);
    void *foreign = object_pool_get(other);
    const void *none[] = {NULL, &here, pool, foreign, objects[20], (char *)objects[0] + 8, (char *)objects[0] - 48,
                          (char *)objects[49] + 48, (char *)objects[5] + 1, (void *)UINTPTR_MAX, (void *)(uintptr_t)agrees};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
      assert_false(object_pool_in_use(pool, none[i]));
      assert_null(object_pool_resolve(pool, object_pool_handle(pool, none[i])));
    }
    assert_true(object_pool_in_use(pool, objects[0]) && object_pool_in_use(pool, objects[49]) && object_pool_in_use(other, foreign));
    object_pool_destroy(other);
    object_pool_destroy(pool);
  }
}

/* ---- misuse ---- */

typedef struct misuse { object_pool_t *pool; void *object; } misuse_t;
static void do_put(void *argument)
{
  const misuse_t *m = argument;
  object_pool_put(m->pool, m->object);
}
static void do_put_batch(void *argument)
{
  misuse_t *m = argument;
  object_pool_put_batch(m->pool, &m->object, 1);
}

static void put_ends_the_program(object_pool_t *pool, void *object)
{
  char words[128];
  snprintf(words, sizeof words, "tidepool: object_pool_put(0x%lx): not a live object of pool \"mine\"\n", (unsigned long)(uintptr_t)object);
  aborts_with(do_put, &(misuse_t){pool, object}, words);
  aborts_with(do_put_batch, &(misuse_t){pool, object}, "tidepool: object_pool_put_batch(0x");
}

static void bad_puts(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++) {
    object_pool_options_t o = {.name = "mine", .object_size = 32, .capacity = 50, .construct = kind & 4 ? make_object : NULL,
                               .flags = (kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0) | (kind & 2 ? OBJECT_POOL_CHECKED : 0)};
    object_pool_t *pool = create(o), *other = create(o);
    get_all(pool, 50);
    void *foreign = object_pool_get(other), *block = pool_alloc(32);
    object_pool_put(pool, objects[3]);
    object_pool_put(pool, objects[4]);
    put_ends_the_program(pool, objects[3]);
    put_ends_the_program(pool, objects[4]);
    put_ends_the_program(pool, NULL);
    put_ends_the_program(pool, foreign);
    put_ends_the_program(pool, block);
    put_ends_the_program(pool, (char *)objects[7] + 16);
    put_ends_the_program(pool, (char *)objects[49] + 32);
    put_ends_the_program(pool, pool);
    object_pool_put_all(pool);
    put_ends_the_program(pool, objects[7]);
    pool_free(block);
    object_pool_destroy(other);
    object_pool_destroy(pool);
  }
}

/* Whatever is hot in the pool, and in the one it overflows to, which is asked too. */
static void bad_puts_of_well_known_addresses(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags) {
      object_pool_t *last = create_in_case((object_pool_options_t){.object_size = 1, .capacity = 5, .flags = flags}, hot);
      object_pool_options_t o = {.name = "mine", .object_size = 1, .capacity = 5, .flags = flags};
      o.when_full = OBJECT_POOL_OVERFLOW, o.overflow = last;
      object_pool_t *pool = create_in_case(o, hot);
      for (size_t i = 0; i < WELL_KNOWN; i++)
        put_ends_the_program(pool, (void *)well_known[i]);
      put_ends_the_program(pool, (char *)pool + 1);
      put_ends_the_program(pool, (char *)last + 1);
      object_pool_destroy(pool);
      object_pool_destroy(last);
    }
}

static void put_with_threads(void *argument)
{
  start_second_thread();
  do_put(argument);
}

static void bad_puts_with_threads(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags) {
      object_pool_t *pool = create_in_case((object_pool_options_t){.object_size = 16, .capacity = 10, .flags = flags}, hot);
      for (size_t i = 0; i < WELL_KNOWN; i++)
        aborts_with(put_with_threads, &(misuse_t){pool, (void *)well_known[i]}, "not a live object of pool");
      object_pool_destroy(pool);
    }
}

/* ---- pools that are gone ---- */

static object_pool_handle_t kept;
static size_t told;

static void call_get(object_pool_t *pool, void *object) { objects[0] = object_pool_get(pool), (void)object; }
static void call_put(object_pool_t *pool, void *object) { object_pool_put(pool, object); }
static void call_get_batch(object_pool_t *pool, void *object) { told = object_pool_get_batch(pool, objects, 2), (void)object; }
static void call_put_batch(object_pool_t *pool, void *object) { object_pool_put_batch(pool, &object, 1); }
static void call_put_all(object_pool_t *pool, void *object) { object_pool_put_all(pool), (void)object; }
static void call_in_use(object_pool_t *pool, void *object) { told = object_pool_in_use(pool, object); }
static void call_next(object_pool_t *pool, void *object) { objects[0] = object_pool_next(pool, object); }
static void call_live(object_pool_t *pool, void *object) { told = object_pool_live(pool), (void)object; }
static void call_capacity(object_pool_t *pool, void *object) { told = object_pool_capacity(pool), (void)object; }
static void call_shrink(object_pool_t *pool, void *object) { told = object_pool_shrink(pool, 0), (void)object; }
static void call_handle(object_pool_t *pool, void *object) { kept = object_pool_handle(pool, object); }
static void call_resolve(object_pool_t *pool, void *object) { objects[0] = object_pool_resolve(pool, kept), (void)object; }
static void call_destroy(object_pool_t *pool, void *object) { object_pool_destroy(pool), (void)object; }

static const struct {
  const char *name;
  void (*call)(object_pool_t *pool, void *object);
} calls[] = {
  {"get", call_get}, {"put", call_put}, {"get_batch", call_get_batch}, {"put_batch", call_put_batch}, {"put_all", call_put_all},
  {"in_use", call_in_use}, {"next", call_next}, {"live", call_live}, {"capacity", call_capacity}, {"shrink", call_shrink},
  {"handle", call_handle}, {"resolve", call_resolve}, {"destroy", call_destroy},
};
enum { CALLS = sizeof calls / sizeof *calls };

typedef struct use { object_pool_t *pool; void *object; size_t call; } use_t;

static void do_use(void *argument)
{
  const use_t *use = argument;
  calls[use->call].call(use->pool, use->object);
}

static void do_use_with_threads(void *argument)
{
  start_second_thread();
  do_use(argument);
}

static void ends_the_program(use_t use, const char *words)
{
  aborts_with(do_use, &use, words);
  aborts_with(do_use_with_threads, &use, words);
}

/* With one thread and with two; with the object that was hot, one that was not, and none. */
static void every_use_ends_the_program(object_pool_t *pool)
{
  for (size_t call = 0; call < CALLS; call++) {
    char words[128];
    snprintf(words, sizeof words, "tidepool: object_pool_%s(0x%lx): not a live object pool\n", calls[call].name,
             (unsigned long)(uintptr_t)pool);
    ends_the_program((use_t){pool, objects[4], call}, words);
    if (strstr("put put_batch in_use next handle", calls[call].name)) {
      aborts_with(do_use, &(use_t){pool, objects[0], call}, words);
      aborts_with(do_use, &(use_t){pool, NULL, call}, words);
    }
  }
}

static void destroyed_with_something_hot(void **state)
{
  (void)state;
  for (hot_case_t hot = 0; hot < HOT_CASES; hot++)
    FOR_BOTH(flags) {
      object_pool_t *pool = create_in_case((object_pool_options_t){.object_size = 32, .capacity = 200, .flags = flags}, hot);
      kept = object_pool_handle(pool, objects[1]);
      object_pool_destroy(pool);
      every_use_ends_the_program(pool);
    }
}

/* A walk through many live objects knows what comes, and had come half way. */
static void destroyed_while_walked(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 1000, .flags = flags});
    get_all(pool, 1000);
    for (size_t i = 0; i < 500; i++)
      assert_ptr_equal(object_pool_next(pool, objects[i]), objects[i + 1]);
    object_pool_destroy(pool);
    every_use_ends_the_program(pool);
  }
}

/* Bits: for one thread, checked, with a hook. */
static object_pool_options_t options_of_kind(unsigned kind, pool_heap_t *heap)
{
  return (object_pool_options_t){.object_size = 32, .capacity = 200, .heap = heap, .construct = kind & 4 ? make_object : NULL,
    .flags = (kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0) | (kind & 2 ? OBJECT_POOL_CHECKED : 0)};
}

static void destroyed_with_hooks(void **state)
{
  (void)state;
  for (unsigned kind = 2; kind < 8; kind++) {
    object_pool_t *pool = create(options_of_kind(kind, NULL));
    get_all(pool, 5);
    kept = object_pool_handle(pool, objects[1]);
    object_pool_destroy(pool);
    every_use_ends_the_program(pool);
  }
}

/* Its heap may write over what it gets back. */
enum { HEAP_KINDS = 5 };
static pool_heap_t *heap_of_kind(int kind)
{
  static char memory[256 << 10];
  pool_heap_options_t options[HEAP_KINDS] = {
    {.name = "plain"}, {.flags = POOL_HEAP_ZERO_ON_FREE}, {.flags = POOL_HEAP_CHECKED}, {.budget = 256 << 10},
    {.memory = memory, .memory_size = sizeof memory}};
  pool_heap_t *heap = pool_heap_create(&options[kind]);
  assert_non_null(heap);
  return heap;
}

static object_pool_t *create_in_heap(pool_heap_t *heap, unsigned flags)
{
  object_pool_options_t o = {.object_size = 32, .capacity = 200, .heap = heap, .flags = flags};
  object_pool_t *pool = create_in_case(o, HOT_FREE_NOW);
  kept = object_pool_handle(pool, objects[1]);
  return pool;
}

static void destroyed_in_each_heap(void **state)
{
  (void)state;
  for (int kind = 0; kind < HEAP_KINDS; kind++)
    FOR_BOTH(flags) {
      pool_heap_t *heap = heap_of_kind(kind);
      object_pool_t *pool = create_in_heap(heap, flags);
      object_pool_destroy(pool);
      every_use_ends_the_program(pool);
      pool_heap_destroy(heap);
    }
}

/* A heap that ends, or starts anew, takes its pools along. */
static void gone_with_each_heap(void **state)
{
  (void)state;
  for (int kind = 0; kind < HEAP_KINDS; kind++)
    for (int resets = 0; resets < 2; resets++)
      FOR_BOTH(flags) {
        pool_heap_t *heap = heap_of_kind(kind);
        object_pool_t *pool = create_in_heap(heap, flags);
        resets ? pool_heap_reset(heap) : pool_heap_destroy(heap);
        every_use_ends_the_program(pool);
        if (resets)
          pool_heap_destroy(heap);
      }
}

/* So do heaps that end with what they hold in the hands of others: a hot object, a walk, hooks. */
static void gone_with_a_heap(void **state)
{
  (void)state;
  for (int resets = 0; resets < 2; resets++)
    for (unsigned kind = 0; kind < 8; kind++)
      for (hot_case_t hot = 0; hot < (kind < 2 ? HOT_CASES : 1); hot++) {   /* with hooks nothing is hot */
        pool_heap_t *heap = heap_of_kind(0);
        object_pool_t *pool = create_in_case(options_of_kind(kind, heap), hot);
        kept = object_pool_handle(pool, objects[1]);
        for (void *object = NULL; object != objects[2];)
          object = object_pool_next(pool, object);
        resets ? pool_heap_reset(heap) : pool_heap_destroy(heap);
        for (size_t call = 0; call < CALLS; call++)
          ends_the_program((use_t){pool, objects[4], call}, "): not a live object pool\n");
        if (resets)
          pool_heap_destroy(heap);
      }
}

/* A pool in front of one that is gone notices as soon as it has to ask it. */
static void overflow_gone_first(bool with_heap)
{
  FOR_BOTH(flags) {
    pool_heap_t *heap = heap_of_kind(0);
    object_pool_t *last = create((object_pool_options_t){.object_size = 40, .capacity = 5, .heap = heap, .flags = flags});
    object_pool_options_t o = {.object_size = 40, .capacity = 5, .flags = flags};
    o.when_full = OBJECT_POOL_OVERFLOW, o.overflow = last;
    object_pool_t *pool = create(o);
    get_all(pool, 10);
    kept = object_pool_handle(pool, objects[7]);
    with_heap ? pool_heap_destroy(heap) : object_pool_destroy(last);
    char words[128];
    snprintf(words, sizeof words, "(0x%lx): not a live object pool\n", (unsigned long)(uintptr_t)last);
    for (size_t call = 0; call < CALLS; call++)
      if (strstr("get put get_batch put_batch handle resolve", calls[call].name))
        ends_the_program((use_t){pool, objects[7], call}, words);
    errno = 0;
    object_pool_t *refused = object_pool_create(&o);
    assert_null(refused);
    assert_int_equal(errno, EINVAL);
    kept = object_pool_handle(pool, objects[2]);
    assert_ptr_equal(object_pool_resolve(pool, kept), objects[2]);
    object_pool_put(pool, objects[2]);
    assert_ptr_equal(object_pool_get(pool), objects[2]);
    object_pool_destroy(pool);
    if (!with_heap)
      pool_heap_destroy(heap);
  }
}

static void overflow_destroyed_first(void **state)
{
  (void)state;
  overflow_gone_first(false);
}

static void overflow_gone_with_its_heap(void **state)
{
  (void)state;
  overflow_gone_first(true);
}

static void destroy_twice(void *pool) { object_pool_destroy(pool); object_pool_destroy(pool); }

static void destroyed_twice(void **state)
{
  (void)state;
  object_pool_t *pool = create(good_options());
  aborts_with(destroy_twice, pool, "tidepool: object_pool_destroy(0x");
  object_pool_destroy(pool);
  object_pool_destroy(NULL);
}

/* ---- handles ---- */

static void handles(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 4, .flags = flags});
    assert_null(object_pool_resolve(pool, (object_pool_handle_t){0, 0}));
    get_all(pool, 4);
    object_pool_handle_t handle[4];
    for (int i = 0; i < 4; i++) {
      handle[i] = object_pool_handle(pool, objects[i]);
      assert_ptr_equal(object_pool_resolve(pool, handle[i]), objects[i]);
    }
    for (int round = 0; round < 1000; round++) {
      int i = round % 4;
      object_pool_put(pool, objects[i]);
      assert_null(object_pool_resolve(pool, handle[i]));
      assert_ptr_equal(object_pool_get(pool), objects[i]);
      assert_null(object_pool_resolve(pool, handle[i]));
      object_pool_handle_t again = object_pool_handle(pool, objects[i]);
      assert_true(again.index == handle[i].index && again.generation != handle[i].generation);
      handle[i] = again;
      for (int k = 0; k < 4; k++)
        assert_ptr_equal(object_pool_resolve(pool, handle[k]), objects[k]);
    }
    assert_null(object_pool_resolve(pool, (object_pool_handle_t){4, 1}));
    assert_null(object_pool_resolve(pool, (object_pool_handle_t){UINT32_MAX, UINT32_MAX}));
    object_pool_destroy(pool);
  }
}

/* Many uses pass at once, behind the interface: of the hot object, and of one that is not. */
enum { ONE_USE = HOT_GET + HOT_PUT };

static void handles_outlast_four_thousand_million_uses(void **state)
{
  (void)state;
  static const uint64_t many[] = {(uint64_t)1 << 30, ((uint64_t)1 << 31) - 1, (uint64_t)1 << 31, 3000000000, UINT32_MAX - 1};
  for (size_t n = 0; n < sizeof many / sizeof *many; n++)
    FOR_BOTH(flags) {
      object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 4, .flags = flags});
      get_all(pool, 2);
      object_pool_handle_t hot = object_pool_handle(pool, objects[1]), cold = object_pool_handle(pool, objects[0]);
      object_pool_put(pool, objects[1]);
      pool->hot->state += many[n] * ONE_USE;
      pool->arrays[0]->uses[0] += (uint32_t)many[n];
      assert_ptr_equal(object_pool_get(pool), objects[1]);
      assert_null(object_pool_resolve(pool, hot));
      assert_null(object_pool_resolve(pool, cold));
      hot = object_pool_handle(pool, objects[1]), cold = object_pool_handle(pool, objects[0]);
      assert_ptr_equal(object_pool_resolve(pool, hot), objects[1]);
      assert_ptr_equal(object_pool_resolve(pool, cold), objects[0]);
      agrees(pool, 2);
      object_pool_destroy(pool);
    }
}

/* One object of an array was used 4,000,000,000 times, its neighbour once. The array went, and that of another is used as often as the
 * generations of 32 bits leave room for, and a little more. */
static void handles_outlast_arrays(void **state)
{
  (void)state;
  for (int lap = 0; lap < 2; lap++)
    FOR_BOTH(flags) {
      object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 4, .when_full = OBJECT_POOL_GROW, .flags = flags});
      object_pool_handle_t old[8];
      get_all(pool, 12);
      for (int i = 0; i < 8; i++)
        old[i] = object_pool_handle(pool, objects[4 + i]);
      for (int gone = 0; gone < 3; gone++) {
        object_array_t *array = pool->arrays[pool->arrays[0]->permanent];
        array->uses[7] += 4000000000;
        object_pool_put_all(pool);
        assert_int_equal(object_pool_shrink(pool, 0), 4);
        if (lap)
          pool->next_index = UINT32_MAX;
        get_all(pool, 12);
        array = pool->arrays[pool->arrays[0]->permanent];
        for (int i = 0; i < 8; i++)
          for (int k = 0; k < 8; k++) {
            uint32_t uses = array->uses[i];
            assert_null(object_pool_resolve(pool, old[k]));
            array->uses[i] = lap ? uses : 294967295u + (uint32_t)k;
            assert_null(object_pool_resolve(pool, old[k]));
            array->uses[i] = uses;
          }
        agrees(pool, 12);
      }
      object_pool_destroy(pool);
    }
}

/* Chains whose objects have more indices than a handle has are refused, and none comes to be by growth. */
static void indices_of_a_chain(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *last = create((object_pool_options_t){.object_size = 32, .capacity = 4, .when_full = OBJECT_POOL_GROW, .flags = flags});
    object_pool_options_t o = {.object_size = 32, .capacity = 100, .when_full = OBJECT_POOL_OVERFLOW, .overflow = last, .flags = flags};
    uint32_t first = last->arrays[0]->first_index;
    last->arrays[0]->first_index = UINT32_MAX - 100 - 4 + 1;
    is_refused(o);
    last->arrays[0]->first_index = UINT32_MAX - 100 - 4;
    object_pool_t *front = create(o);
    get_all(front, 104);
    for (int i = 0; i < 104; i++) {
      object_pool_handle_t handle = object_pool_handle(front, objects[i]);
      assert_ptr_equal(object_pool_resolve(front, handle), objects[i]);
      assert_ptr_equal(object_pool_resolve(last, (object_pool_handle_t){handle.index, handle.generation}), NULL);
    }
    o.overflow = front;
    is_refused(o);
    last->arrays[0]->first_index = first;
    object_pool_t *foremost = create(o);
    /* All indices that are left are used, and no others as long as there is whom they were left to. */
    foremost->capacity = UINT32_MAX - 120;
    last->indices_before = UINT32_MAX - 20;
    get_all(last, 16);
    assert_null(object_pool_get(front));
    assert_int_equal(last->indices_before, UINT32_MAX - 20);
    foremost->capacity = 100;
    assert_null(object_pool_get(front));
    object_pool_destroy(foremost);
    assert_non_null(object_pool_get(front));
    assert_int_equal(last->indices_before, 100);
    agrees(last, 21);
    object_pool_destroy(front);
    last->indices_before = UINT32_MAX - 20;
    get_all(last, object_pool_capacity(last) - 20);
    assert_int_equal(last->indices_before, 0);
    object_pool_destroy(last);
  }
}

/* ---- growing and shrinking ---- */

static void growth(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 64, .capacity = 10, .max_capacity = 3001, .when_full = OBJECT_POOL_GROW, .flags = flags});
    errno = 0;
    get_all(pool, 3001);
    assert_int_equal(errno, 0);
    assert_int_equal(object_pool_capacity(pool), 3001);
    assert_null(object_pool_get(pool));
    assert_int_equal(errno, ENOMEM);
    agrees(pool, 3001);
    assert_int_equal(object_pool_shrink(pool, 10), 3001);
    object_pool_handle_t low = object_pool_handle(pool, objects[0]), high = object_pool_handle(pool, objects[3000]);
    for (size_t i = 10; i < 3001; i++)
      object_pool_put(pool, objects[i]);
    agrees(pool, 10);
    assert_int_equal(object_pool_shrink(pool, 1000) >= 1000, 1);
    assert_int_equal(object_pool_shrink(pool, 0), 10);
    agrees(pool, 10);
    assert_ptr_equal(object_pool_resolve(pool, low), objects[0]);
    assert_null(object_pool_resolve(pool, high));
    get_all(pool, 2990);
    assert_null(object_pool_resolve(pool, high));
    agrees(pool, 3000);
    object_pool_destroy(pool);
  }
}

static void grows_from_nothing(void **state)
{
  (void)state;
  object_pool_t *pool = create((object_pool_options_t){.object_size = 100, .when_full = OBJECT_POOL_GROW});
  assert_int_equal(object_pool_capacity(pool), 0);
  assert_null(object_pool_next(pool, NULL));
  assert_false(object_pool_in_use(pool, NULL));
  get_all(pool, 500);
  agrees(pool, 500);
  object_pool_put_all(pool);
  assert_int_equal(object_pool_shrink(pool, 0), 0);
  get_all(pool, 500);
  object_pool_destroy(pool);
}

static void shrinks_by_itself(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 4 << 20, .purge_delay_ms = 20});
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 64, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap, .flags = flags});
    pool_stats_t small, large, again;
    pool_heap_stats(heap, &small);
    get_all(pool, 4000);
    pool_heap_stats(heap, &large);
    assert_true(large.held_bytes > small.held_bytes + 200000);
    for (size_t i = 1; i < 4000; i++)
      object_pool_put(pool, objects[i]);
    agrees(pool, 1);
    os_fake.now_ms += 19;
    assert_true(object_pool_capacity(pool) >= 4000);
    os_fake.now_ms += 1;
    for (int i = 0; i < 2; i++)
      object_pool_put(pool, object_pool_get(pool));
    assert_int_equal(object_pool_capacity(pool), 100);
    pool_heap_trim(heap, 0);
    pool_heap_stats(heap, &again);
    assert_int_equal(again.live_bytes, small.live_bytes);
    assert_true(again.held_bytes <= small.held_bytes + 8192);   /* records of the size classes that came into use */
    agrees(pool, 1);
    get_all(pool, 1000);
    object_pool_put_all(pool);
    os_fake.now_ms += 19;
    assert_true(object_pool_capacity(pool) >= 1000);
    os_fake.now_ms += 1;
    assert_int_equal(object_pool_capacity(pool), 100);
    object_pool_destroy(pool);
  }
  pool_heap_destroy(heap);
}

/* The pools' own heap is full: growth goes on in smaller steps, then get fails, and nothing is lost. */
static void exhausted_budget(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 256 << 10});
  errno = 0;
  object_pool_t *too_large = object_pool_create(&(object_pool_options_t){.object_size = 1024, .capacity = 400, .heap = heap});
  assert_null(too_large);
  assert_int_equal(errno, ENOMEM);
  object_pool_t *pool = create((object_pool_options_t){.object_size = 256, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap});
  size_t most = 0;
  for (int round = 0; round < 3; round++) {
    size_t got = 0;
    errno = 0;
    while ((objects[got] = object_pool_get(pool)) != NULL)
      got++;
    assert_int_equal(errno, ENOMEM);
    assert_true(got * 256 > (160 << 10));
    assert_true(round == 0 || got == most);
    most = got;
    agrees(pool, got);
    object_pool_put_all(pool);
    assert_int_equal(object_pool_shrink(pool, 0), 100);
  }
  object_pool_destroy(pool);
  pool_stats_t s;
  pool_heap_stats(heap, &s);
  assert_int_equal(s.live_blocks, 0);
  pool_heap_destroy(heap);
}

/* Steps that are too large are only tried: the request is exhausted when the least is refused, once. */
static void grow_by_smaller_steps(void *heap)
{
  object_pool_t *pool = create((object_pool_options_t){.object_size = 256, .capacity = 500, .when_full = OBJECT_POOL_GROW, .heap = heap});
  pool_stats_t s;
  size_t got = 0;
  while (got < 600 && object_pool_get(pool))
    got++;
  must(got == 600 && pool_heap_stats(heap, &s) && s.exhausted_count == 0);
  settings.abort_on_exhausted = false;
  while (object_pool_get(pool))
    got++;
  must(pool_heap_stats(heap, &s) && s.exhausted_count == 1);
  settings.abort_on_exhausted = true;
}

static void grow_to_the_end(void *heap)
{
  grow_by_smaller_steps(heap);
  object_pool_t *pool = create((object_pool_options_t){.object_size = 16, .capacity = 1, .when_full = OBJECT_POOL_GROW, .heap = heap});
  while (object_pool_get(pool)) {
  }
}

static void probing_is_quiet(void **state)
{
  (void)state;
  bool before = settings.abort_on_exhausted;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 224 << 10});
  settings.abort_on_exhausted = true;
  in_child(grow_by_smaller_steps, heap);
  aborts_with(grow_to_the_end, heap, "memory exhausted");
  settings.abort_on_exhausted = before;
  pool_heap_destroy(heap);
}

static bool give_another_pool_up(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed;
  object_pool_t **pools = context;
  object_pool_put_all(pools[1]);
  object_pool_shrink(pools[1], 0);
  return attempt == 0;
}

static void exhausted_heap_calls_back(void **state)
{
  (void)state;
  object_pool_t *pools[2];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 640 << 10, .on_exhausted = give_another_pool_up, .context = pools});
  object_pool_options_t o = {.object_size = 512, .capacity = 100, .when_full = OBJECT_POOL_GROW, .max_capacity = 700, .heap = heap};
  pools[0] = create(o);
  pools[1] = create(o);
  get_all(pools[1], 500);
  get_all(pools[0], 500);
  assert_int_equal(object_pool_capacity(pools[1]), 100);
  agrees(pools[0], 500);
  object_pool_destroy(pools[0]);
  object_pool_destroy(pools[1]);
  pool_heap_destroy(heap);
}

/* A callback that gets from the pool whose growth has called it: it is called for that in turn, but not without end. */
typedef struct asks { object_pool_t *pool; bool filling; unsigned calls, deep, deepest; } asks_t;

static bool get_and_try_again(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt;
  asks_t *asks = context;
  if (asks->filling)
    return false;
  asks->calls++;
  asks->deepest = max_size(++asks->deep, asks->deepest);
  assert_null(object_pool_get(asks->pool));
  asks->deep--;
  return true;
}

static void growth_within_growth_ends(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    asks_t asks = {0};
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 64 << 10, .on_exhausted = get_and_try_again, .context = &asks});
    asks.pool = create((object_pool_options_t){.object_size = 1000, .capacity = 50, .when_full = OBJECT_POOL_GROW, .heap = heap, .flags = flags});
    asks.filling = true;
    for (size_t size = 1024; size >= 16; size /= 8)
      while (pool_heap_alloc(heap, size)) {
      }
    asks.filling = false;
    size_t got = object_pool_get_batch(asks.pool, objects, 60);
    assert_in_range(got, 50, 59);
    assert_true(asks.calls > 0 && asks.deepest < 100);
    agrees(asks.pool, got);
    object_pool_destroy(asks.pool);
    pool_heap_destroy(heap);
  }
}

/* One that leaves by longjmp() leaves nothing behind that the next growth meets, wherever on the stack that begins. */
static jmp_buf before_growth;
static unsigned leaves;

static bool leave_or_raise(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)needed, (void)context;
  if (leaves) {
    leaves--;
    longjmp(before_growth, 1);
  }
  return attempt == 0 && pool_heap_set_budget(heap, 1 << 20);
}

__attribute__((noinline)) static void *get_from(object_pool_t *pool, int frames)
{
  char volatile here[64] = {0};
  void *object = frames ? get_from(pool, frames - 1) : object_pool_get(pool);
  return here[0] ? NULL : object;
}

/* Returns with what it got until the callback had left so many times. */
static size_t get_until_it_was_left(object_pool_t *pool, int frames, unsigned times)
{
  static size_t got;   /* longjmp() keeps it */
  got = 0;
  leaves = times;
  (void)!setjmp(before_growth);
  while (leaves) {
    objects[99] = get_from(pool, frames);
    assert_non_null(objects[99]);
    got++;
  }
  return got;
}

static void grows_after_a_callback_left(void **state)
{
  (void)state;
  static char memory[128 << 10];
  for (int kind = 0; kind < 16; kind++) {
    pool_heap_options_t options = {.budget = 64 << 10, .on_exhausted = leave_or_raise};
    if (kind & 2)
      options.memory = memory, options.memory_size = sizeof memory;
    pool_heap_t *heap = pool_heap_create(&options);
    object_pool_t *pool = create((object_pool_options_t){.object_size = 1000, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = heap,
                                                         .flags = kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0});
    pool_stats_t before, after;
    size_t got = get_until_it_was_left(pool, 0, 1);
    pool_heap_stats(heap, &before);
    assert_int_equal(get_until_it_was_left(pool, kind & 4 ? 0 : 4, 2), 0);
    pool_heap_stats(heap, &after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    agrees(pool, got);
    assert_non_null(get_from(pool, kind & 8 ? 0 : 8));
    agrees(pool, got + 1);
    object_pool_destroy(pool);
    pool_heap_destroy(heap);
  }
}

/* Nobody can tell a callback that was left from one that this get is deeper within; after however many gets in vain, memory that is there
 * again is found at once. */
static bool leave_or_refuse(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt, (void)context;
  if (!leaves)
    return false;
  leaves--;
  longjmp(before_growth, 1);
}

static void grows_after_many_in_vain(void **state)
{
  (void)state;
  for (size_t vain = 1; vain < 300000; vain = vain * 3 + 1) {
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 64 << 10, .on_exhausted = leave_or_refuse});
    object_pool_t *pool = create((object_pool_options_t){.object_size = 1000, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = heap});
    size_t got = get_until_it_was_left(pool, 0, 1);
    while (get_from(pool, 8))
      got++;
    for (size_t i = 1; i < vain; i++)
      assert_null(get_from(pool, 8));
    assert_true(pool_heap_set_budget(heap, 1 << 20));
    assert_non_null(get_from(pool, 8));
    agrees(pool, got + 1);
    object_pool_destroy(pool);
    pool_heap_destroy(heap);
  }
}

/* Whichever of the blocks that an array needs has no room: nothing is lost with the callback that leaves. */
static bool leave(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt, (void)context;
  longjmp(before_growth, 1);
}

static void get_or_be_left(object_pool_t *pool)
{
  if (setjmp(before_growth) == 0)
    objects[99] = object_pool_get(pool);
}

static void *block_or_be_left(pool_heap_t *heap, size_t size)
{
  return setjmp(before_growth) == 0 ? pool_heap_alloc(heap, size) : NULL;
}

static void no_block_is_lost_when_a_callback_leaves(void **state)
{
  (void)state;
  static char memory[4 << 20];
  for (size_t block = 1000; block < 3 << 20; block += 40000)
    for (int guest = 0; guest < 2; guest++) {
      pool_heap_options_t options = {.on_exhausted = leave, .budget = sizeof memory};
      if (guest)
        options.memory = memory, options.memory_size = sizeof memory;
      pool_heap_t *heap = pool_heap_create(&options);
      object_pool_t *pool = create((object_pool_options_t){.object_size = 4, .capacity = 130000, .when_full = OBJECT_POOL_GROW, .heap = heap});
      void **batch = pool_alloc(130000 * sizeof *batch);
      assert_int_equal(object_pool_get_batch(pool, batch, 130000), 130000);
      void *beside = block_or_be_left(heap, block);
      pool_stats_t before, after;
      pool_heap_stats(heap, &before);
      get_or_be_left(pool);
      pool_heap_stats(heap, &after);
      assert_true(after.live_blocks == before.live_blocks || object_pool_capacity(pool) > 130000);
      pool_heap_free(heap, beside);
      object_pool_destroy(pool);
      pool_heap_stats(heap, &after);
      assert_int_equal(after.live_blocks, 0);
      pool_heap_destroy(heap);
      pool_free(batch);
    }
}

/* Nothing of a pool whose creation was left outlives its heap; the records come back from one round to the next. */
static void create_or_be_left(pool_heap_t *heap, size_t capacity)
{
  if (setjmp(before_growth) == 0)
    assert_null(object_pool_create(&(object_pool_options_t){.object_size = 64, .capacity = capacity, .heap = heap}));
}

static void a_create_that_is_left(void **state)
{
  (void)state;
  size_t held = 0;
  for (int round = 0; round < 50; round++) {
    pool_stats_t all;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20, .on_exhausted = leave});
    for (size_t capacity = 1 << 14; capacity < 1 << 20; capacity *= 8)
      create_or_be_left(heap, capacity);
    pool_heap_destroy(heap);
    pool_heap_stats(pool_heap_default(), &all);
    held = round == 1 ? all.held_bytes : held;
    assert_true(round < 2 || all.held_bytes == held);
  }
}

/* A callback that resets the heap, as one may: no pool is made of what that has taken away, whether there is room then or not. */
static bool reset_all(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)needed;
  ++*(unsigned *)context;
  pool_heap_reset(heap);
  return attempt == 0;
}

static void a_create_whose_callback_resets(void **state)
{
  (void)state;
  static char memory[8 << 20];
  for (int kind = 0; kind < 4; kind++) {
    unsigned asked = 0;
    pool_heap_options_t options = {.budget = 6 << 20, .on_exhausted = reset_all, .context = &asked};
    if (kind & 1)
      options.memory = memory, options.memory_size = sizeof memory;
    pool_heap_t *heap = pool_heap_create(&options);
    size_t capacity = kind & 2 ? 8000 : 3000;
    while (!asked && pool_heap_alloc(heap, 900)) {
    }
    for (int i = 0; i < 4000 && pool_heap_alloc(heap, 900); i++) {
    }
    asked = 0;
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 1000, .capacity = capacity, .heap = heap});
    object_pool_t *other = create((object_pool_options_t){.object_size = 64, .capacity = 10});
    assert_true(asked > 0 && !pool == (capacity == 8000) && other != pool);
    if (pool) {
      get_all(pool, capacity);
      agrees(pool, capacity);
      object_pool_destroy(pool);
    }
    get_all(other, 10);
    agrees(other, 10);
    object_pool_destroy(other);
    pool_stats_t stats;
    pool_heap_stats(heap, &stats);
    assert_int_equal(stats.held_bytes, stats.live_bytes + stats.cached_bytes + stats.idle_bytes + stats.metadata_bytes);
    pool_heap_destroy(heap);
  }
}

/* It drops the pool that grows with all others of the heap, and that is said. */
static void grow_a_pool_that_is_reset(void *argument)
{
  unsigned asked = 0;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 64 << 10, .on_exhausted = reset_all, .context = &asked});
  object_pool_t *pool = create((object_pool_options_t){.object_size = 1000, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = heap});
  (void)argument;
  while (object_pool_get(pool)) {
  }
}

static void a_growth_whose_callback_resets(void **state)
{
  (void)state;
  aborts_with(grow_a_pool_that_is_reset, NULL, "not a live object pool");
}

/* However many steps are tried, a heap's callback is asked as often for one get as for one block. */
static bool always(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)heap, (void)needed, (void)attempt;
  ++*(unsigned *)context;
  return true;
}

static void a_callback_is_asked_as_for_a_block(void **state)
{
  (void)state;
  unsigned asked = 0;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 200 << 10, .on_exhausted = always, .context = &asked});
  object_pool_t *pool = create((object_pool_options_t){.object_size = 100, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap});
  while (object_pool_get(pool)) {
  }
  assert_int_equal(asked, 64);
  asked = 0;
  assert_null(object_pool_create(&(object_pool_options_t){.object_size = 100, .capacity = 10000, .heap = heap}));
  assert_int_equal(asked, 64);
  pool_heap_destroy(heap);
}

/* However little a callback adds each time, the arrays that there may be are enough for much. */
static bool raise_a_little(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  (void)needed, (void)attempt, (void)context;
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  return pool_heap_set_budget(heap, stats.budget + (64 << 10));
}

static void grows_little_by_little(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 9 << 20, .on_exhausted = raise_a_little});
  object_pool_t *pool = create((object_pool_options_t){.object_size = 4096, .when_full = OBJECT_POOL_GROW, .heap = heap});
  void *block;
  for (pool_stats_t stats; pool_heap_stats(heap, &stats), stats.budget - stats.held_bytes > 256 << 10;)
    assert_non_null(block = pool_heap_alloc(heap, 100 << 10));
  for (int i = 0; i < 1000; i++)
    assert_non_null(object_pool_get(pool));
  agrees(pool, 1000);
  pool_heap_destroy(heap);
}

static void idle_arrays_stay_where_nothing_is_purged(void **state)
{
  (void)state;
  static char memory[256 << 10];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = memory, .memory_size = sizeof memory, .purge_delay_ms = POOL_PURGE_NEVER});
  object_pool_t *pool = create((object_pool_options_t){.object_size = 100, .capacity = 10, .when_full = OBJECT_POOL_GROW, .heap = heap});
  get_all(pool, 200);
  size_t capacity = object_pool_capacity(pool);
  object_pool_put_all(pool);
  os_fake.now_ms += 1 << 30;
  assert_int_equal(object_pool_capacity(pool), capacity);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

static void in_the_callers_memory(void **state)
{
  (void)state;
  static char memory[64 << 10];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = memory + 3, .memory_size = sizeof memory - 3});
  assert_non_null(heap);
  object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap});
  size_t got = 0;
  while ((objects[got] = object_pool_get(pool)) != NULL) {
    assert_true((char *)objects[got] >= memory && (char *)objects[got] + 32 <= memory + sizeof memory);
    memset(objects[got++], 1, 32);
  }
  assert_true(got > 900);
  agrees(pool, got);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

/* A heap drops its pools with everything else; the figures forget them. */
static void dropped_with_the_heap(void **state)
{
  (void)state;
  char text[8192];
  object_pool_t *stays = create((object_pool_options_t){.name = "stays", .object_size = 8, .capacity = 10});
  for (int round = 0; round < 4; round++) {
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.flags = round > 1 ? POOL_HEAP_ZERO_ON_FREE : 0});
    object_pool_t *pool = create((object_pool_options_t){.name = "scene", .object_size = 100, .capacity = 1000, .heap = heap});
    get_all(pool, 1000);
    object_pool_destroy(create((object_pool_options_t){.object_size = 100, .capacity = 1000, .heap = heap}));
    pool_stats_json(text, sizeof text);
    assert_non_null(strstr(text, "\"scene\""));
    round % 2 ? pool_heap_reset(heap) : pool_heap_destroy(heap);
    pool_stats_json(text, sizeof text);
    assert_null(strstr(text, "\"scene\""));
    assert_non_null(strstr(text, "\"object_pools\":[{\"name\":\"stays\""));
    if (round % 2)
      pool_heap_destroy(heap);
  }
  object_pool_destroy(stays);
}

static size_t live_blocks_of(pool_heap_t *heap)
{
  pool_stats_t stats;
  assert_true(pool_heap_stats(heap, &stats));
  return stats.live_blocks;
}

/* What the heap's overflow served for a pool, objects, records or all of it, would be nobody's when the heap drops the pool. */
static void what_overflowed_is_dropped_too(void **state)
{
  (void)state;
  static char memory[8 << 10];
  for (int round = 0; round < 6; round++) {
    pool_heap_t *larger = pool_heap_create(NULL);
    pool_heap_options_t options = {.overflow = larger, .budget = (size_t)256 << 10};
    if (round / 2 == 1)
      options = (pool_heap_options_t){.overflow = larger, .memory = memory, .memory_size = sizeof memory};
    pool_heap_t *heap = pool_heap_create(&options);
    while (round / 2 == 2 && live_blocks_of(larger) == 0)
      assert_non_null(pool_heap_alloc(heap, 64));
    size_t before = live_blocks_of(larger);
    create((object_pool_options_t){.object_size = 100, .capacity = 50, .heap = heap});
    create((object_pool_options_t){.object_size = 300, .capacity = 5000, .heap = heap});
    assert_true(live_blocks_of(larger) > before);
    round % 2 ? pool_heap_reset(heap) : pool_heap_destroy(heap);
    assert_int_equal(live_blocks_of(larger), before);
    if (round % 2)
      pool_heap_destroy(heap);
    pool_heap_destroy(larger);
  }
}

/* ---- eviction ---- */

static void *choose_context(object_pool_t *pool, void *context)
{
  void *victim = *(void **)context;
  assert_true(!victim || object_pool_in_use(pool, victim));
  return victim;
}

static void eviction(void **state)
{
  (void)state;
  void *victim = NULL;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 8, .when_full = OBJECT_POOL_EVICT, .choose_victim = choose_context,
                                                         .context = &victim, .flags = flags});
    get_all(pool, 8);
    object_pool_put(pool, objects[2]);
    assert_ptr_equal(object_pool_get(pool), objects[2]);
    victim = NULL;
    assert_null(object_pool_get(pool));
    assert_int_equal(errno, ENOMEM);
    for (int i = 0; i < 8; i++) {
      object_pool_handle_t handle = object_pool_handle(pool, objects[i]), neighbour = object_pool_handle(pool, objects[(i + 1) % 8]);
      victim = objects[i];
      assert_ptr_equal(object_pool_get(pool), victim);
      assert_null(object_pool_resolve(pool, handle));
      assert_ptr_equal(object_pool_resolve(pool, neighbour), objects[(i + 1) % 8]);
      agrees(pool, 8);
    }
    void *batch[12];
    object_pool_put(pool, objects[0]);
    assert_int_equal(object_pool_get_batch(pool, batch, 12), 2);   /* the victim once, not again and again */
    agrees(pool, 8);
    object_pool_destroy(pool);
  }
}

/* Names one after the other, by address, and begins again. */
static void *choose_next(object_pool_t *pool, void *context)
{
  void **last = context, *next = object_pool_next(pool, *last);
  return *last = next ? next : object_pool_next(pool, NULL);
}

static bool are_different(void **of, size_t count)
{
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++)
      if (of[i] == of[k])
        return false;
  return true;
}

/* The pool that evicts is the one asked, or the end of a chain; it has `free` objects left, the chooser has come to some place. */
static void batch_by_eviction(unsigned flags, bool hooked, size_t in_front, size_t free)
{
  void *last = NULL, *batch[40], *old[10];
  object_pool_options_t o = {.object_size = 32, .capacity = 10, .when_full = OBJECT_POOL_EVICT, .choose_victim = choose_next,
                             .context = &last, .flags = flags, .construct = hooked ? make_object : NULL};
  object_pool_t *evicts = create(o), *pools[3] = {evicts};
  for (size_t i = 0; i < in_front; i++)
    pools[i + 1] = create((object_pool_options_t){.object_size = 32, .capacity = 5, .when_full = OBJECT_POOL_OVERFLOW,
                                                  .overflow = pools[i], .flags = flags, .construct = o.construct});
  assert_int_equal(object_pool_get_batch(evicts, old, 10 - free), 10 - free);
  for (size_t place = 0; place < 10; place += 3) {
    errno = 0;
    last = place < 10 - free ? old[place] : NULL;
    size_t got = object_pool_get_batch(pools[in_front], batch, 40);
    assert_true(are_different(batch, got));
    assert_in_range(got, in_front * 5 + (place ? 0 : free), in_front * 5 + 10);
    assert_int_equal(errno, ENOMEM);
    for (size_t i = 0; i < got; i++)
      object_pool_put(pools[in_front], batch[i]);
    for (size_t i = 0; i <= in_front; i++)
      object_pool_put_all(pools[i]);
    assert_int_equal(object_pool_get_batch(evicts, old, 10 - free), 10 - free);
  }
  for (size_t i = in_front + 1; i-- > 0;)
    object_pool_destroy(pools[i]);
}

static void batches_by_eviction(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 8; kind++)
    for (size_t in_front = 0; in_front < 3; in_front++)
      for (size_t free = 0; free <= 10; free += 5)
        batch_by_eviction((kind & 1 ? OBJECT_POOL_SINGLE_THREAD : 0) | (kind & 2 ? OBJECT_POOL_CHECKED : 0), kind & 4, in_front, free);
}

/* Where a batch is offered its own object it ends, and its object is not touched: by no hook, and not by a new use. */
static int made, ended;
static bool make_few(void *object, void *context) { return (void)object, (void)context, ++made <= 4; }
static void count_end(void *object, void *context) { (void)object, (void)context, ended++; }

static void batch_keeps_what_it_has(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    void *last = NULL, *batch[8];
    made = ended = 0;
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 4, .when_full = OBJECT_POOL_EVICT, .context = &last,
      .choose_victim = choose_next, .construct = make_few, .destruct = count_end, .flags = flags | OBJECT_POOL_CHECKED});
    assert_int_equal(object_pool_get_batch(pool, batch, 8), 4);
    assert_int_equal(errno, ENOMEM);
    assert_true(made == 4 && ended == 0);
    for (int i = 0; i < 4; i++)
      assert_true(object_pool_in_use(pool, batch[i]));
    agrees(pool, 4);
    object_pool_destroy(pool);
  }
}

/* A chooser that puts what it chooses: the object is got again, by a batch that has it already. */
static void *put_and_choose(object_pool_t *pool, void *last)
{
  void *object = choose_next(pool, last);
  object_pool_put(pool, object);
  return object;
}

static void batch_has_nothing_twice(void **state)
{
  (void)state;
  static const unsigned more[] = {0, OBJECT_POOL_CHECKED};
  for (size_t m = 0; m < 2; m++)
    FOR_BOTH(flags) {
      void *last = NULL, *batch[8];
      object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 4, .when_full = OBJECT_POOL_EVICT, .context = &last,
        .choose_victim = put_and_choose, .flags = flags | more[m]});
      size_t got = object_pool_get_batch(pool, batch, 8);
      assert_int_equal(got, 4);
      for (size_t i = 0; i < got; i++)
        for (size_t k = 0; k < i; k++)
          assert_ptr_not_equal(batch[i], batch[k]);
      agrees(pool, 4);
      object_pool_destroy(pool);
    }
}

/* Two batches at once: the second begins, and ends, in the chooser of the first. */
typedef struct nested { void *last, *inner[6]; size_t got; bool begun; } nested_t;
static void *choose_in_a_batch(object_pool_t *pool, void *context)
{
  nested_t *nested = context;
  if (!nested->begun) {
    nested->begun = true;
    nested->got = object_pool_get_batch(pool, nested->inner, 6);
  }
  return choose_next(pool, &nested->last);
}

static void batches_within_batches(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    nested_t nested = {0};
    void *batch[20];
    object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 10, .when_full = OBJECT_POOL_EVICT,
                                                         .choose_victim = choose_in_a_batch, .context = &nested, .flags = flags});
    get_all(pool, 7);
    size_t got = object_pool_get_batch(pool, batch, 20);
    assert_int_equal(nested.got, 6);
    assert_true(are_different(nested.inner, 6));
    assert_in_range(got, 3, 10);
    assert_true(are_different(batch, got));
    agrees(pool, 10);
    object_pool_destroy(pool);
  }
}

/* As many batches as a batch has evictions, each at its end before the next begins: none of them costs the one outside its map. */
static void *choose_within_a_batch(object_pool_t *pool, void *context)
{
  nested_t *nested = context;
  if (!nested->begun) {
    nested->begun = true;
    nested->got += object_pool_get_batch(pool, nested->inner, 1);
    nested->begun = false;
  }
  return choose_next(pool, &nested->last);
}

static void many_batches_within_a_batch(void **state)
{
  (void)state;
  enum { MANY = 1000000 };
  nested_t nested = {0};
  void **batch = pool_alloc(MANY * sizeof *batch);
  object_pool_t *pool = create((object_pool_options_t){.object_size = 8, .capacity = MANY, .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_within_a_batch, .context = &nested});
  assert_int_equal(object_pool_get_batch(pool, batch, MANY), MANY);
  assert_int_equal(object_pool_get_batch(pool, batch, MANY / 2), MANY / 2);
  assert_int_equal(nested.got, MANY / 2);
  object_pool_destroy(pool);
  pool_free(batch);
}

/* A chooser that changes what the batch has so far: nothing of that is left for the next batch. */
typedef struct changing { void **batch, *first, *victim; unsigned calls; } changing_t;
static void *choose_and_change(object_pool_t *pool, void *context)
{
  changing_t *c = context;
  if (++c->calls == 3) {
    object_pool_put(pool, c->batch[0]);
    c->batch[0] = NULL;
    return NULL;
  }
  return c->calls == 1 ? c->first : c->victim;
}

static void a_batch_that_is_changed(void **state)
{
  (void)state;
  void *batch[4];
  changing_t change = {.batch = batch};
  object_pool_t *pool = create((object_pool_options_t){.object_size = 16, .capacity = 200, .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_and_change, .context = &change});
  get_all(pool, 200);
  change.first = objects[70], change.victim = objects[71];
  assert_int_equal(object_pool_get_batch(pool, batch, 3), 2);
  while (object_pool_live(pool) < 200)
    assert_non_null(object_pool_get(pool));
  change.victim = change.first;
  for (int round = 0; round < 20; round++) {
    change.calls = 10;
    assert_int_equal(object_pool_get_batch(pool, batch, 1), 1);
    assert_ptr_equal(batch[0], change.first);
  }
  agrees(pool, 200);
  object_pool_destroy(pool);
}

static void batches_look_at_the_clock(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *pool = create((object_pool_options_t){.object_size = 100, .capacity = 10, .when_full = OBJECT_POOL_GROW, .flags = flags});
    pool_stats_t before, after;
    get_all(pool, 1000);
    object_pool_put_all(pool);
    pool_heap_stats(pool_heap_default(), &before);
    os_fake.now_ms += 1 << 30;
    assert_int_equal(object_pool_get_batch(pool, objects, 5), 5);
    pool_heap_stats(pool_heap_default(), &after);
    assert_true(after.live_bytes < before.live_bytes);
    agrees(pool, 5);
    object_pool_destroy(pool);
  }
}

/* What on_exhausted is told that a pool needs is what it needs, but for what the heap rounds it up to. */
static size_t was_told;
static void reset_nothing(void *object, void *context) { (void)object, (void)context; }
static bool raise_by_what_is_told(pool_heap_t *heap, size_t needed, unsigned attempt, void *context)
{
  was_told = needed;
  return attempt == 0 && pool_heap_set_budget(heap, *(size_t *)context + needed);
}

static void pools_tell_what_they_need(void **state)
{
  (void)state;
  for (unsigned kind = 0; kind < 6; kind++) {
    size_t room = 1 << 20;
    pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = room, .on_exhausted = raise_by_what_is_told, .context = &room});
    object_pool_t *pool = object_pool_create(&(object_pool_options_t){
      .object_size = kind & 1 ? 16 : 1, .capacity = 1500000, .heap = heap, .when_full = kind & 2 ? OBJECT_POOL_EVICT : OBJECT_POOL_FAIL,
      .choose_victim = kind & 2 ? choose_next : NULL, .reset = kind & 4 ? reset_nothing : NULL});
    assert_non_null(pool);
    assert_true(was_told > 1500000 * (size_t)(kind & 1 ? 20 : 5));
    object_pool_destroy(pool);
    pool_heap_destroy(heap);
  }
}

/* A pool that could not be made leaves its chain as it was. */
static void a_chain_that_was_refused(void **state)
{
  (void)state;
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20});
  object_pool_t *tail = create((object_pool_options_t){.object_size = 64, .capacity = 16, .when_full = OBJECT_POOL_GROW});
  for (size_t less = 200; less < 100000; less *= 3)
    assert_null(object_pool_create(&(object_pool_options_t){.object_size = 64, .capacity = UINT32_MAX - less, .heap = heap,
                                                            .when_full = OBJECT_POOL_OVERFLOW, .overflow = tail}));
  get_all(tail, MOST);
  agrees(tail, MOST);
  object_pool_destroy(tail);
  pool_heap_destroy(heap);
}

/* Two million, in any way: what looked at each object for each would take hours. */
static void large_batches(void **state)
{
  (void)state;
  enum { MANY = 2000000 };
  void **batch = pool_alloc(MANY * sizeof *batch), *last = NULL;
  for (unsigned kind = 0; kind < 4; kind++, last = NULL) {
    object_pool_options_t o = {.object_size = 8, .capacity = MANY, .when_full = OBJECT_POOL_EVICT, .choose_victim = choose_next,
                               .context = &last, .construct = kind & 1 ? make_object : NULL};
    object_pool_t *evicts = create(o), *pool = evicts;
    if (kind & 2)
      pool = create((object_pool_options_t){.object_size = 8, .capacity = 1, .when_full = OBJECT_POOL_OVERFLOW, .overflow = evicts});
    assert_int_equal(object_pool_get_batch(pool, batch, MANY), MANY);
    assert_int_equal(object_pool_get_batch(pool, batch, MANY), MANY);   /* evicts each */
    if (pool != evicts)
      object_pool_destroy(pool);
    object_pool_destroy(evicts);
  }
  pool_free(batch);
}

static void *choose_by_putting(object_pool_t *pool, void *context)
{
  object_pool_put(pool, objects[5]);
  void *object = object_pool_get(pool);
  assert_ptr_equal(object, objects[5]);
  object_pool_put(pool, objects[6]);
  return *(bool *)context ? objects[6] : objects[5];
}

/* The chooser put what it names: then there is room, and that is what is given. */
static void chooser_that_gets_and_puts(void **state)
{
  (void)state;
  bool names_free_one = true;
  object_pool_t *pool = create((object_pool_options_t){.object_size = 32, .capacity = 8, .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_by_putting, .context = &names_free_one});
  get_all(pool, 8);
  assert_ptr_equal(object_pool_get(pool), objects[6]);
  names_free_one = false;
  assert_ptr_equal(object_pool_get(pool), objects[5]);
  agrees(pool, 7);
  object_pool_destroy(pool);
}

static void *choose_foreign(object_pool_t *pool, void *context) { return (void)pool, context; }
static void get_one(void *pool) { objects[9] = object_pool_get(pool); }

static void chooser_names_a_foreign_one(void **state)
{
  (void)state;
  int foreign;
  object_pool_t *pool = create((object_pool_options_t){.name = "mine", .object_size = 32, .capacity = 1, .when_full = OBJECT_POOL_EVICT,
                                                       .choose_victim = choose_foreign, .context = &foreign});
  get_all(pool, 1);
  aborts_with(get_one, pool, "not a live object of pool \"mine\"");
  object_pool_destroy(pool);
}

/* ---- overflow ---- */

static void overflow(void **state)
{
  (void)state;
  FOR_BOTH(flags) {
    object_pool_t *last = create((object_pool_options_t){.object_size = 40, .capacity = 5, .when_full = OBJECT_POOL_GROW, .max_capacity = 20, .flags = flags});
    object_pool_t *middle = create((object_pool_options_t){.object_size = 40, .capacity = 10, .when_full = OBJECT_POOL_OVERFLOW, .overflow = last, .flags = flags});
    object_pool_t *pool = create((object_pool_options_t){.object_size = 40, .capacity = 10, .when_full = OBJECT_POOL_OVERFLOW, .overflow = middle, .flags = flags});
    object_pool_handle_t handle[40];
    get_all(pool, 40);
    assert_null(object_pool_get(pool));
    agrees(pool, 10), agrees(middle, 10), agrees(last, 20);
    for (int i = 0; i < 40; i++) {
      handle[i] = object_pool_handle(pool, objects[i]);
      assert_ptr_equal(object_pool_resolve(pool, handle[i]), objects[i]);
      assert_int_equal(object_pool_in_use(pool, objects[i]), i < 10);
    }
    for (int i = 39; i >= 0; i -= 2)
      object_pool_put(pool, objects[i]);
    agrees(pool, 5), agrees(middle, 5), agrees(last, 10);
    for (int i = 0; i < 40; i++)
      assert_ptr_equal(object_pool_resolve(pool, handle[i]), i % 2 ? NULL : objects[i]);
    object_pool_put_all(pool);
    agrees(pool, 0), agrees(middle, 5);
    object_pool_put(pool, objects[38]);
    object_pool_put(middle, objects[36]);
    agrees(last, 8);
    object_pool_destroy(pool);
    object_pool_destroy(middle);
    object_pool_destroy(last);
  }
}

static int time_stands_still(void **state)
{
  (void)state;
  os_fake_heal();
  return 0;
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
    cmocka_unit_test(fixed_pool),
    cmocka_unit_test(random_life),
    cmocka_unit_test(batches),
    cmocka_unit_test(put_all),
    cmocka_unit_test(walk_while_changing),
    cmocka_unit_test(walk_with_changes_ahead),
    cmocka_unit_test(well_known_addresses),
    cmocka_unit_test(any_address),
    cmocka_unit_test(bad_puts),
    cmocka_unit_test(bad_puts_of_well_known_addresses),
    cmocka_unit_test(bad_puts_with_threads),
    cmocka_unit_test(destroyed_with_something_hot),
    cmocka_unit_test(destroyed_while_walked),
    cmocka_unit_test(destroyed_with_hooks),
    cmocka_unit_test(destroyed_in_each_heap),
    cmocka_unit_test(gone_with_each_heap),
    cmocka_unit_test(gone_with_a_heap),
    cmocka_unit_test(overflow_destroyed_first),
    cmocka_unit_test(overflow_gone_with_its_heap),
    cmocka_unit_test(destroyed_twice),
    cmocka_unit_test(handles),
    cmocka_unit_test(handles_outlast_four_thousand_million_uses),
    cmocka_unit_test(handles_outlast_arrays),
    cmocka_unit_test(indices_of_a_chain),
    cmocka_unit_test(growth),
    cmocka_unit_test(grows_from_nothing),
    cmocka_unit_test(shrinks_by_itself),
    cmocka_unit_test(exhausted_budget),
    cmocka_unit_test(probing_is_quiet),
    cmocka_unit_test(exhausted_heap_calls_back),
    cmocka_unit_test(growth_within_growth_ends),
    cmocka_unit_test(grows_after_a_callback_left),
    cmocka_unit_test(no_block_is_lost_when_a_callback_leaves), cmocka_unit_test(a_create_that_is_left), cmocka_unit_test(a_create_whose_callback_resets),
    cmocka_unit_test(a_growth_whose_callback_resets), cmocka_unit_test(a_callback_is_asked_as_for_a_block),
    cmocka_unit_test(idle_arrays_stay_where_nothing_is_purged), cmocka_unit_test(grows_little_by_little), cmocka_unit_test(grows_after_many_in_vain),
    cmocka_unit_test(in_the_callers_memory),
    cmocka_unit_test(dropped_with_the_heap),
    cmocka_unit_test(what_overflowed_is_dropped_too),
    cmocka_unit_test(eviction),
    cmocka_unit_test(batches_by_eviction),
    cmocka_unit_test(batch_keeps_what_it_has),
    cmocka_unit_test(batch_has_nothing_twice),
    cmocka_unit_test(batches_within_batches), cmocka_unit_test(many_batches_within_a_batch),
    cmocka_unit_test(large_batches),
    cmocka_unit_test(a_batch_that_is_changed), cmocka_unit_test(batches_look_at_the_clock),
    cmocka_unit_test(pools_tell_what_they_need), cmocka_unit_test(a_chain_that_was_refused),
    cmocka_unit_test(chooser_that_gets_and_puts),
    cmocka_unit_test(chooser_names_a_foreign_one),
    cmocka_unit_test(overflow),
  };
  return cmocka_run_group_tests_name("object_pool", tests, time_stands_still, NULL);
}
