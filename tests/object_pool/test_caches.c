/* SPDX-License-Identifier: MIT
 * What threads keep of a shared pool is nobody's loss: it is found when the pool is exhausted, and counted as free. */
#include "heap/heap.h"
#include "object_pool/cache.h"
#include "slots.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CAPACITY = 1000 };

/* A system whose threads cannot be waited for has no caches; all else holds there too. */
static bool can_have_caches(void) { return heap_reaches_threads(); }
static void has_cached(object_pool_t *pool) { assert_true(!can_have_caches() || caches_count(pool) > 10); }

/* ---- a thread that has a cache, and does something when it is told ---- */

typedef struct other {
  object_pool_t *pool;
  void *object;
  void (*act)(struct other *other);
  atomic_int asked, done;
  pthread_t thread;
} other_t;

static void *obey(void *argument)
{
  other_t *other = argument;
  for (int turn = 1;; turn++) {
    while (atomic_load(&other->asked) != turn)
      usleep(100);
    if (!other->act)
      return NULL;
    other->act(other);
    atomic_store(&other->done, turn);
  }
}

static void let(other_t *other, void (*act)(other_t *other))
{
  other->act = act;
  int turn = atomic_fetch_add(&other->asked, 1) + 1;
  while (act && atomic_load(&other->done) != turn)
    usleep(100);
}

static void begin(other_t *other, object_pool_t *pool)
{
  *other = (other_t){.pool = pool};
  must(pthread_create(&other->thread, NULL, obey, other) == 0);
}

static void end(other_t *other)
{
  let(other, NULL);
  must(pthread_join(other->thread, NULL) == 0);
}

static void get_one(other_t *other) { must((other->object = object_pool_get(other->pool)) != NULL); }
static void put_one(other_t *other) { object_pool_put(other->pool, other->object); }
static void fill_its_cache(other_t *other)
{
  void *some[100];
  for (int i = 0; i < 100; i++)
    must((some[i] = object_pool_get(other->pool)) != NULL);
  for (int i = 0; i < 100; i++)
    object_pool_put(other->pool, some[i]);
}

/* ---- nothing is lost ---- */

/* A sleeping thread has some, and so has this one. A batch finds them as well, and before a pool grows or overflows they are
 * used. */
static void exhausted(void **state)
{
  (void)state;
  other_t other;
  void *batch[CAPACITY + 100];
  for (int round = 0; round < 3; round++) {
    object_pool_t *pool = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
    begin(&other, pool);
    let(&other, fill_its_cache);
    slots_agree(pool, 0);
    has_cached(pool);
    object_pool_put(pool, object_pool_get(pool));
    slots_agree(pool, 0);
    if (round == 0) {
      slots_can_be_had(pool, CAPACITY);
    } else if (round == 1) {
      assert_int_equal(object_pool_get_batch(pool, batch, CAPACITY + 100), CAPACITY);
      slots_agree(pool, CAPACITY);
      object_pool_put_batch(pool, batch, CAPACITY);
    } else {
      let(&other, get_one);
      assert_int_equal(object_pool_get_batch(pool, batch, CAPACITY), CAPACITY - 1);
      object_pool_put_batch(pool, batch, CAPACITY - 1);
      let(&other, put_one);
    }
    slots_agree(pool, 0);
    end(&other);
    slots_agree(pool, 0);
    object_pool_destroy(pool);
  }
}

/* Uses that processors fetch together would go from one to the other with each get and put of two threads. Where this thread
 * has taken some before, from the pool's array, both may have had objects of the first stretch. */
static void threads_share_no_stretch_of_uses(void **state)
{
  enum { STRETCH = USES_TOGETHER / sizeof(uint32_t), TURNS = 400, ALL = 4 * TURNS };
  (void)state;
  for (size_t before = 0; before < STRETCH; before += 5) {
    object_pool_t *pool = slots_pool(ALL, OBJECT_POOL_FAIL);
    const object_array_t *array = pool->arrays[0];
    void *batch[STRETCH];
    char owners[ALL / STRETCH] = {0};
    size_t shared = 0;
    other_t other;
    begin(&other, pool);
    must(object_pool_get_batch(pool, batch, before) == before && (uintptr_t)array->uses % USES_TOGETHER == 0);
    for (int turn = 0; turn < TURNS; turn++) {
      char owner = turn % 2 ? 'a' : 'b';
      if (owner == 'a')
        other.object = object_pool_get(pool);
      else
        let(&other, get_one);
      size_t i = object_position(pool, array, other.object);
      must(i < ALL);
      shared += owners[i / STRETCH] && owners[i / STRETCH] != owner;
      owners[i / STRETCH] = owner;
    }
    assert_true(!can_have_caches() || shared <= (before ? 2 * STRETCH : 0));
    object_pool_put_all(pool);
    end(&other);
    slots_agree(pool, 0);
    object_pool_destroy(pool);
  }
}

static void grows_when_it_must(void **state)
{
  (void)state;
  other_t other;
  object_pool_t *pool = slots_pool(CAPACITY, OBJECT_POOL_GROW);
  void *all[CAPACITY];
  begin(&other, pool);
  let(&other, fill_its_cache);
  has_cached(pool);
  for (size_t i = 0; i < CAPACITY; i++)
    must((all[i] = object_pool_get(pool)) != NULL);
  assert_int_equal(object_pool_capacity(pool), CAPACITY);
  let(&other, get_one);
  assert_true(object_pool_capacity(pool) > CAPACITY);
  let(&other, put_one);
  for (size_t i = 0; i < CAPACITY; i++)
    object_pool_put(pool, all[i]);
  assert_int_equal(object_pool_shrink(pool, 0), CAPACITY);
  slots_agree(pool, 0);
  end(&other);
  object_pool_destroy(pool);
}

/* An array that nobody needs goes back, though the objects that are to be used instead are in caches of threads that sleep. */
static void idle_arrays_go_back(void **state)
{
  (void)state;
  enum { SLEEPERS = 13, EACH = 5, FEW = 64 };
  other_t others[SLEEPERS];
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.purge_delay_ms = 20});
  object_pool_t *pool = object_pool_create(
    &(object_pool_options_t){.object_size = sizeof(slot_t), .capacity = FEW, .when_full = OBJECT_POOL_GROW, .heap = heap});
  void *mine[FEW + 1];
  for (size_t i = 0; i <= FEW; i++)
    must((mine[i] = object_pool_get(pool)) != NULL);
  assert_true(object_pool_capacity(pool) > FEW);
  for (size_t t = 0; t < SLEEPERS; t++) {
    begin(&others[t], pool);
    for (size_t i = t * EACH; i < (t + 1) * EACH && i < FEW; i++) {
      others[t].object = mine[i];
      let(&others[t], put_one);
    }
  }
  object_pool_put(pool, mine[FEW]);
  for (int i = 0; i < 10000 && object_pool_capacity(pool) > FEW; i++) {
    usleep(1000);
    object_pool_put(pool, object_pool_get(pool));
  }
  assert_int_equal(object_pool_capacity(pool), FEW);
  slots_agree(pool, 0);
  for (size_t t = 0; t < SLEEPERS; t++)
    end(&others[t]);
  object_pool_destroy(pool);
  pool_heap_destroy(heap);
}

static void overflows_when_it_must(void **state)
{
  (void)state;
  other_t other;
  object_pool_t *last = slots_pool(10, OBJECT_POOL_FAIL);
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){
    .object_size = sizeof(slot_t), .capacity = CAPACITY, .when_full = OBJECT_POOL_OVERFLOW, .overflow = last});
  begin(&other, pool);
  let(&other, fill_its_cache);
  void *all[CAPACITY + 10];
  for (size_t i = 0; i < CAPACITY + 10; i++) {
    must((all[i] = object_pool_get(pool)) != NULL);
    assert_int_equal(object_pool_live(last), i < CAPACITY ? 0 : i - CAPACITY + 1);
  }
  assert_null(object_pool_get(pool));
  for (size_t i = 0; i < CAPACITY + 10; i++)
    object_pool_put(pool, all[i]);
  slots_agree(pool, 0);
  slots_agree(last, 0);
  end(&other);
  object_pool_destroy(pool);
  object_pool_destroy(last);
}

/* After the pool was exhausted threads do without caches for a while, and then use them again. */
static void used_again(void **state)
{
  (void)state;
  other_t other;
  object_pool_t *pool = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
  begin(&other, pool);
  let(&other, fill_its_cache);
  slots_can_be_had(pool, CAPACITY);
  for (int i = 0; i < 1000; i++)
    object_pool_put(pool, object_pool_get(pool));
  let(&other, fill_its_cache);
  slots_agree(pool, 0);
  has_cached(pool);
  end(&other);
  object_pool_destroy(pool);
}

/* ---- put_all, handles, the ends of threads and pools ---- */

static void put_all_beside_caches(void **state)
{
  (void)state;
  other_t other;
  object_pool_t *pool = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
  begin(&other, pool);
  for (int round = 0; round < 5; round++) {
    let(&other, fill_its_cache);
    let(&other, get_one);
    object_pool_handle_t handle = object_pool_handle(pool, other.object);
    assert_ptr_equal(object_pool_resolve(pool, handle), other.object);
    object_pool_put(pool, object_pool_get(pool));
    void *mine = object_pool_get(pool);
    slots_agree(pool, 2);
    object_pool_put_all(pool);
    slots_agree(pool, 0);
    assert_null(object_pool_resolve(pool, handle));
    assert_false(object_pool_in_use(pool, mine));
    slots_can_be_had(pool, CAPACITY);
    slots_agree(pool, 0);
  }
  end(&other);
  object_pool_destroy(pool);
}

/* The counts of uses of the cached objects, behind those of the first BEFORE, are in pages that are read-only meanwhile. */
enum { BEFORE = 32768 };
static int put_all_beside_read_only_counts(object_pool_t *pool)
{
  signal(SIGSEGV, SIG_DFL);
  uint32_t *uses = pool->arrays[0]->uses + BEFORE;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)uses / page * page,
            behind = ((uintptr_t)(uses + OBJECT_STOCK) / page + 1) * page;
  must(mprotect((void *)start, behind - start, PROT_READ) == 0);
  object_pool_put_all(pool);
  return object_pool_live(pool) != 0;
}

static void put_all_changes_no_cached_one(void **state)
{
  (void)state;
  static void *before[BEFORE];
  object_pool_t *pool = slots_pool(2 * BEFORE, OBJECT_POOL_FAIL);
  assert_int_equal(object_pool_get_batch(pool, before, BEFORE), BEFORE);
  object_pool_put(pool, object_pool_get(pool));
  object_pool_put_batch(pool, before + 1, BEFORE - 1);
  has_cached(pool);
  slots_fork(pool, put_all_beside_read_only_counts);
  object_pool_destroy(pool);
}

static void *use_for_a_moment(void *argument)
{
  other_t *other = argument;
  fill_its_cache(other);
  return NULL;
}

/* What a thread has is back when it ends, and its stock is the next one's. */
static void threads_come_and_go(void **state)
{
  (void)state;
  object_pool_t *pool = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
  other_t other = {.pool = pool};
  for (int i = 0; i < 300; i++) {
    must(pthread_create(&other.thread, NULL, use_for_a_moment, &other) == 0);
    must(pthread_join(other.thread, NULL) == 0);
    assert_int_equal(caches_count(pool), 0);
  }
  size_t stocks = 0;
  for (const object_stock_t *stock = pool->stocks; stock; stock = stock->next)
    stocks++;
  assert_true(stocks <= 2);
  slots_agree(pool, 0);
  object_pool_destroy(pool);
}

/* More pools than there are slots; a slot is another pool's after the end of the first, and nothing of that is found in it. */
static void more_pools_than_slots(void **state)
{
  (void)state;
  enum { POOLS = OBJECT_SLOTS + 50 };
  static object_pool_t *pools[POOLS];
  other_t other;
  begin(&other, NULL);
  for (int round = 0; round < 3; round++) {
    size_t with_slot = 0;
    for (size_t i = 0; i < POOLS; i++) {
      other.pool = pools[i] = slots_pool(CAPACITY / 4, OBJECT_POOL_FAIL);
      with_slot += pools[i]->slot != 0;
      slots_agree(pools[i], 0);
      object_pool_put(pools[i], object_pool_get(pools[i]));
      let(&other, fill_its_cache);
      slots_can_be_had(pools[i], CAPACITY / 4);
      slots_agree(pools[i], 0);
    }
    assert_int_equal(with_slot, can_have_caches() ? OBJECT_SLOTS - 1 : 0);
    for (size_t i = 0; i < POOLS; i++)
      object_pool_destroy(pools[(i + 7 * (size_t)round) % POOLS]);
  }
  end(&other);
}

/* A heap that ends takes its pools along, and their caches. */
static void heap_takes_them_along(void **state)
{
  (void)state;
  other_t other;
  pool_heap_t *heap = pool_heap_create(NULL);
  begin(&other, NULL);
  for (int round = 0; round < 300; round++) {
    object_pool_t *pool = object_pool_create(
      &(object_pool_options_t){.object_size = sizeof(slot_t), .capacity = 200 + (size_t)round, .heap = heap});
    must(pool);
    other.pool = pool;
    slots_agree(pool, 0);
    let(&other, fill_its_cache);
    object_pool_put(pool, object_pool_get(pool));
    slots_agree(pool, 0);
    assert_true(pool->slot || !can_have_caches());
    pool_heap_reset(heap);
  }
  pool_heap_destroy(heap);
  end(&other);
}

/* ---- misuse ---- */

static object_pool_t *misused;
static void *twice;
static void *in_another_thread(void *argument)
{
  (void)argument;
  object_pool_put(misused, twice);
  return NULL;
}

static void put_twice(int how)
{
  other_t other;
  void *more[3];
  twice = object_pool_get(misused);
  for (int i = 0; i < 3; i++)
    more[i] = object_pool_get(misused);
  if (how == 4) {
    object_pool_put_all(misused);
  } else if (how == 5) {
    begin(&other, misused);
    other.object = twice;
    let(&other, put_one);
  } else {
    object_pool_put(misused, twice);
  }
  for (int i = 0; i < how && how < 4; i++) /* it becomes the last but one, and further down */
    object_pool_put(misused, more[i]);
  if (how == 6) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_another_thread, NULL);
    pthread_join(thread, NULL);
  }
  object_pool_put(misused, twice);
}

static void found_when_it_is_put_twice(void **state)
{
  (void)state;
  for (int how = 0; how < 7; how++) {
    misused = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
    int words[2], status;
    char line[256] = "", expected[64];
    must(pipe(words) == 0);
    pid_t child = fork();
    if (!child) {
      dup2(words[1], 2);
      put_twice(how);
      _exit(0);
    }
    close(words[1]);
    must(read(words[0], line, sizeof line - 1) > 0);
    close(words[0]);
    must(waitpid(child, &status, 0) == child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    snprintf(expected, sizeof expected, "tidepool: object_pool_put(0x");
    assert_true(strncmp(line, expected, strlen(expected)) == 0 && strstr(line, ": not a live object of pool"));
    object_pool_destroy(misused);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(exhausted),
    cmocka_unit_test(threads_share_no_stretch_of_uses),
    cmocka_unit_test(grows_when_it_must),
    cmocka_unit_test(idle_arrays_go_back),
    cmocka_unit_test(overflows_when_it_must),
    cmocka_unit_test(used_again),
    cmocka_unit_test(put_all_beside_caches),
    cmocka_unit_test(put_all_changes_no_cached_one),
    cmocka_unit_test(threads_come_and_go),
    cmocka_unit_test(more_pools_than_slots),
    cmocka_unit_test(heap_takes_them_along),
    cmocka_unit_test(found_when_it_is_put_twice),
  };
  return cmocka_run_group_tests_name("object_pool caches", tests, NULL, NULL);
}
