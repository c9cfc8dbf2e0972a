/* SPDX-License-Identifier: MIT
 * Long random lives under a filter of system calls: whatever heaps, object pools and threads do once the library is up, it
 * takes the calls that docs/DESIGN.md promises to be enough (System calls). */
#include "../dice.h"
#include "../sealed.h"
#include "heaps.h"
#include <sys/wait.h>

enum { THREADS = 4, SLOTS = 200, MOVES = 5000, OBJECTS = 300, ROUNDS = 2, WITHOUT_BUDGETS = 2 };

/* What threads have in common. */
typedef struct world {
  bool budgets;
  pool_heap_t *heaps[6];
  size_t count;
  object_pool_t *pool;
} world_t;

/* What a thread has. */
typedef struct life {
  world_t *world;
  uint64_t dice;
  pool_heap_t *own;
  object_pool_t *own_pool;
  struct {
    pool_heap_t *heap;
    void *block;
  } slots[SLOTS];
  void *objects[OBJECTS];
} life_t;

/* Small ones mostly, and some that are runs or mappings of their own. */
static size_t some_size(uint64_t *dice)
{
  size_t size = one_in(dice, 500) ? 24 * MIB : one_in(dice, 40) ? 3 * MIB : one_in(dice, 6) ? 100 * KIB : 2000;
  return below(dice, size);
}

static void touch(void *block, size_t size)
{
  if (block && size)
    ((volatile char *)block)[0] = ((volatile char *)block)[size - 1] = 1;
}

/* ---- the heap of a thread ---- */

static void begin_own(life_t *life)
{
  static const unsigned flags[] = {0, POOL_HEAP_SINGLE_THREAD, POOL_HEAP_CHECKED, POOL_HEAP_ZERO_ON_FREE};
  static const size_t budgets[] = {0, 512 * KIB, 5 * MIB, 40 * MIB}, reserves[] = {0, 0, 2 * MIB};
  pool_heap_options_t options = {.flags = flags[below(&life->dice, COUNT_OF(flags))]};
  options.reserve = reserves[below(&life->dice, COUNT_OF(reserves))];
  options.budget = life->world->budgets ? budgets[below(&life->dice, COUNT_OF(budgets))] : 0;
  if (options.budget && options.budget < 2 * options.reserve)
    options.reserve = 0;
  life->own = heap_with(options);
  life->own_pool = object_pool_create(&(object_pool_options_t){.object_size = 8 + below(&life->dice, 300),
                                                               .capacity = 50,
                                                               .when_full = OBJECT_POOL_GROW,
                                                               .flags = OBJECT_POOL_SINGLE_THREAD});
  must(life->own_pool);
}

/* Without its blocks: they end with it. */
static void forget_own(life_t *life)
{
  for (size_t i = 0; i < SLOTS; i++)
    if (life->slots[i].heap == life->own) {
      life->slots[i].heap = NULL;
      life->slots[i].block = NULL;
    }
}

static void end_own(life_t *life)
{
  forget_own(life);
  object_pool_destroy(life->own_pool);
  pool_heap_destroy(life->own);
}

static pool_heap_t *some_heap(life_t *life)
{
  size_t i = below(&life->dice, life->world->count + 1);
  return i < life->world->count ? life->world->heaps[i] : life->own;
}

/* ---- steps ---- */

static void change_slot(life_t *life)
{
  size_t i = below(&life->dice, SLOTS), size = some_size(&life->dice);
  void *block = life->slots[i].block;
  if (block && one_in(&life->dice, 2)) {
    void *moved = pool_heap_realloc(life->slots[i].heap, block, size + 1);
    touch(moved, size + 1);
    life->slots[i].block = moved ? moved : block;
    return;
  }
  if (block)
    pool_heap_free(life->slots[i].heap, block);
  pool_heap_t *heap = life->slots[i].heap = some_heap(life);
  size_t alignment = (size_t)1 << below(&life->dice, 17);
  block = one_in(&life->dice, 10)   ? pool_heap_zalloc(heap, size)
          : one_in(&life->dice, 20) ? pool_heap_aligned_alloc(heap, alignment, size)
                                    : pool_heap_alloc(heap, size);
  touch(block, size);
  life->slots[i].block = block;
}

static void change_objects(life_t *life)
{
  object_pool_t *pool = one_in(&life->dice, 2) ? life->world->pool : life->own_pool;
  size_t count = below(&life->dice, OBJECTS), got = object_pool_get_batch(pool, life->objects, count);
  for (size_t i = 0; i < got; i++)
    object_pool_put(pool, life->objects[i]);
  if (one_in(&life->dice, 20))
    object_pool_shrink(pool, 50);
  object_pool_put_all(life->own_pool);
}

/* All that a budget allows, and it is refused more. */
static void exhaust(life_t *life)
{
  list_t list = {0};
  if (!life->world->budgets)
    return;
  pool_heap_t *heap = life->world->heaps[WITHOUT_BUDGETS + below(&life->dice, life->world->count - WITHOUT_BUDGETS)];
  list_exhaust(&list, heap, 1000 + below(&life->dice, 60000));
  list_free(&list, heap);
}

static void step(life_t *life)
{
  change_slot(life);
  if (one_in(&life->dice, 30))
    change_objects(life);
  if (one_in(&life->dice, 1000))
    exhaust(life);
  if (one_in(&life->dice, 2000))
    pool_trim(0);
  if (one_in(&life->dice, 1000))
    pool_heap_trim(some_heap(life), 0);
  if (one_in(&life->dice, 500)) {
    forget_own(life);
    pool_heap_reset(life->own);
  }
  if (one_in(&life->dice, 1000)) {
    end_own(life);
    begin_own(life);
  }
  if (one_in(&life->dice, 1000))
    (void)stats_of(some_heap(life));
}

static void live(size_t index, void *context)
{
  static life_t lives[THREADS + 1];
  life_t *life = &lives[index];
  *life = (life_t){.world = context, .dice = index + 1};
  begin_own(life);
  for (size_t i = 0; i < MOVES; i++)
    step(life);
  end_own(life);
  for (size_t i = 0; i < SLOTS; i++)
    if (life->slots[i].block)
      pool_heap_free(life->slots[i].heap, life->slots[i].block);
}

/* ---- all of it ---- */

static void begin_world(world_t *world)
{
  world->heaps[0] = pool_heap_default();
  world->heaps[1] = heap_with((pool_heap_options_t){.name = "any"});
  world->count = WITHOUT_BUDGETS;
  if (world->budgets) {
    world->heaps[2] = heap_with_budget(60 * MIB);
    world->heaps[3] = heap_with((pool_heap_options_t){.budget = 20 * MIB, .parent = world->heaps[2]});
    world->heaps[4] = heap_with_budget(3 * MIB);
    world->heaps[5] = heap_with((pool_heap_options_t){.budget = 30 * MIB, .reserve = 4 * MIB});
    world->count = 6;
  }
  object_pool_options_t options = {.object_size = 100, .capacity = 1000, .when_full = OBJECT_POOL_GROW};
  options.heap = world->budgets ? world->heaps[2] : NULL;
  must(world->pool = object_pool_create(&options));
}

static void fork_once(world_t *world)
{
  pid_t child = fork();
  if (child == 0) {
    live(THREADS, world);
    syscall(SYS_exit_group, 0);
  }
  int status = 0;
  must(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void nothing(size_t index, void *context) { (void)index, (void)context; }

/* The first thread is started before: for that the C library makes other calls. */
static void lives(void *argument)
{
  world_t world = {.budgets = *(const bool *)argument};
  begin_world(&world);
  live(THREADS, &world);
  run_threads(1, nothing, NULL);
  seal(SEAL_FENCES | SEAL_THREADS | SEAL_FORKS | SEAL_BREAK);
  for (size_t i = 0; i < ROUNDS; i++) {
    run_threads(THREADS, live, &world);
    fork_once(&world);
  }
}

/* Alone, and without a budget or an object pool that others have too: no fences either. */
static void life_alone(void *argument)
{
  world_t world = {.budgets = false};
  (void)argument;
  begin_world(&world);
  seal(SEAL_BREAK);
  live(0, &world);
}

static void other_calls_end_the_process(void *argument)
{
  (void)argument;
  seal(SEAL_BREAK);
  syscall(SYS_sched_yield);
}

static void sealed(void (*run)(void *), void *argument)
{
  if (SANITIZED || !seal_begin())
    skip();
  in_sealed_child(run, argument);
}

static void lives_with_budgets(void **state)
{
  (void)state;
  sealed(lives, &(bool){true});
}

static void lives_without_budgets(void **state)
{
  (void)state;
  sealed(lives, &(bool){false});
}

static void one_life_alone(void **state)
{
  (void)state;
  sealed(life_alone, NULL);
}

static void are_noticed(void **state)
{
  (void)state;
  if (SANITIZED || !seal_begin())
    skip();
  int status = end_of_child(other_calls_end_the_process, NULL);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SEAL_REFUSED);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_life_alone),
    cmocka_unit_test(lives_without_budgets),
    cmocka_unit_test(lives_with_budgets),
    cmocka_unit_test(are_noticed),
  };
  return cmocka_run_group_tests_name("system calls", tests, NULL, NULL);
}
