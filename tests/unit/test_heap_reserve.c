/* SPDX-License-Identifier: MIT
 * Memory of a reserve that the system would not take when its heap ended is given later, and counted until then. And memory of
 * a reserve whose heap could not be made. */
#include "heap/heap.h"
#include "heap/tick.h"
#include "kinds.h"
#include "os_fake.h"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static pool_heap_t *shared;

static void destroy_forbidden(pool_heap_t *heap)
{
  pool_forbid_system_calls(true);
  pool_heap_destroy(heap);
  pool_forbid_system_calls(false);
}

static void destroy_refused(pool_heap_t *heap)
{
  os_fake.fail_kinds = 1 << OS_UNMAP | 1 << OS_PURGE;
  pool_heap_destroy(heap);
  os_fake_heal();
}

static void destroy_at_limit(pool_heap_t *heap) /* of mappings */
{
  os_fake.fail_kinds = 1 << OS_UNMAP;
  pool_heap_destroy(heap);
  os_fake_heal();
}

static void give_by_trim(void) { must(pool_trim(0) > 0); }
static void give_by_trim_of_another(void) { pool_heap_trim(shared, SIZE_MAX); }

static void give_by_tick(void)
{
  os_fake.now_ms += 1000000;
  heap_look_at_clock(thread_current());
}

static void give_to_a_new_heap(void)
{
  os_fake.fail_from = os_fake.calls + 1; /* the records, as a step and as no more than needed */
  os_fake.fail_to = os_fake.fail_from + 2;
  pool_heap_destroy(heap_new(&(pool_heap_options_t){.reserve = 20 << 20}));
  must(os_fake.failed > 0);
}

typedef struct late_end {
  void (*destroy)(pool_heap_t *heap);
  void (*give)(void);
  bool memory_went;
} late_end_t;

/* It is held and idle until the system takes it, and its slots are nobody else's. */
static void taken_later(void *argument)
{
  const late_end_t *end = argument;
  os_fake_heal();
  shared = heap_new(NULL);
  pool_heap_destroy(heap_new(&(pool_heap_options_t){.reserve = 200 << 20})); /* the map of so many slots */
  pool_trim(0);
  size_t mapped = os_fake.mapped_bytes, idle = figures(pool_heap_default()).idle_bytes,
         held = figures(pool_heap_default()).held_bytes;
  size_t more = 0;
  for (size_t turn = 0; turn < 3; turn++) {
    heap_t *ended = heap_new(&(pool_heap_options_t){.reserve = 20 << 20, .flags = turn ? POOL_HEAP_PREFAULT : 0});
    more += end->memory_went ? 0 : ended->region.size;
    end->destroy(ended);
  }
  must(figures(pool_heap_default()).idle_bytes >= idle + more && figures(pool_heap_default()).held_bytes >= held + more);
  must(figures(pool_heap_default()).idle_bytes <= idle + more + MIB);
  pool_heap_t *other = heap_new(&(pool_heap_options_t){.reserve = 20 << 20});
  free_all(other, fill(other, 1000, BLOCKS));
  pool_heap_destroy(other);
  must(os_fake.mapped_bytes >= mapped + (60 << 20) && check_everything());
  end->give();
  must(os_fake.mapped_bytes <= mapped + MIB && check_everything());
  must(figures(pool_heap_default()).idle_bytes <= idle + MIB && figures(pool_heap_default()).held_bytes <= held + MIB);
  pool_heap_destroy(heap_new(&(pool_heap_options_t){.reserve = 20 << 20}));
}
WITH(taken_later, late_end_t, {destroy_forbidden, give_by_trim, false}, {destroy_refused, give_by_trim, false},
     {destroy_at_limit, give_by_trim, true}, {destroy_forbidden, give_by_trim_of_another, false},
     {destroy_refused, give_by_tick, false}, {destroy_at_limit, give_by_tick, true},
     {destroy_refused, give_to_a_new_heap, false})

/* ---- a creation that fails beside somebody who looks at the region already ---- */

static bool looking;

static void *look(void *argument)
{
  (void)argument;
  lock_acquire(&heaps_lock);
  __atomic_store_n(&looking, true, __ATOMIC_RELEASE);
  usleep(20000);
  __atomic_store_n(&looking, false, __ATOMIC_RELEASE);
  lock_release(&heaps_lock);
  return NULL;
}

static void while_it_fails(os_call_t kind)
{
  static pthread_t thread;
  static bool started;
  if (kind == OS_LOCK_MEMORY && !started) {
    started = pthread_create(&thread, NULL, look, NULL) == 0;
    must(started && pthread_detach(thread) == 0);
    while (!__atomic_load_n(&looking, __ATOMIC_ACQUIRE))
      usleep(100);
  }
  must((kind != OS_UNMAP && kind != OS_PURGE) || !__atomic_load_n(&looking, __ATOMIC_ACQUIRE));
}

/* Its memory goes when they have finished. */
static void fails_beside_a_question(void *argument)
{
  const size_t *reserve = argument;
  os_fake_heal();
  pool_free(pool_alloc(1));
  size_t mapped = os_fake.mapped_bytes;
  os_fake.fail_kinds = 1 << OS_LOCK_MEMORY;
  os_fake.during = while_it_fails;
  must(!pool_heap_create(&(pool_heap_options_t){.reserve = *reserve, .flags = POOL_HEAP_LOCK_MEMORY}) && errno == ENOMEM);
  must(!looking);
  os_fake_heal();
  must(check_everything());
  pool_trim(0);
  must(os_fake.mapped_bytes <= mapped + MIB);
}
WITH(fails_beside_a_question, size_t, 20 << 20, 6 << 20, 4 << 20)

/* A process's first look at the clock ticks, which none of these is about. */
static int look_once(void **state)
{
  (void)state;
  os_fake_heal();
  pool_free(pool_alloc(1));
  heap_look_at_clock(thread_current());
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(taken_later_test),
    cmocka_unit_test(fails_beside_a_question_test),
  };
  return cmocka_run_group_tests_name("heap_reserve", tests, look_once, NULL);
}
