/* SPDX-License-Identifier: MIT
 * The manager comes up or does not, forks in the middle of anything, and leaves a thread that ends the process a way to allocate. */
#include "bin/due.h"
#include "heap/heap_life.h"
#include "space/gate.h"
#include "space/metadata.h"
#include "os_fake.h"
#include "unit.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <unistd.h>

static _Alignas(4096) char buffer[4 << 20];

/* ---- the beginning ---- */

static void refused_at_first(void *argument)
{
  const uint32_t *kinds = argument;
  os_fake_heal();
  os_fake.fail_kinds = *kinds;
  for (size_t i = 0; i < 3; i++) {
    errno = 0;
    must(!pool_alloc(100) && errno == ENOMEM);
    errno = 0;
    must(!pool_calloc(10, 100000) && errno == ENOMEM);
    errno = 0;
    must(!pool_heap_create(NULL) && errno == ENOMEM);
    must(!pool_in_use(argument) && !pool_heap_of(&kinds) && pool_trim(0) == 0);
  }
  os_fake_heal();
  void *block = pool_alloc(100);
  must(block && pool_heap_of(block) == pool_heap_default() && check_everything());
  pool_free(block);
  must(check_everything());
}

static void refused_at_first_test(void **state)
{
  static const uint32_t kinds[] = {UINT32_MAX, 1 << OS_MAP_AT, 1 << OS_MAP_AT | 1 << OS_UNMAP};
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    in_child(refused_at_first, (void *)(uintptr_t)&kinds[i]);
}

static pthread_barrier_t all_there;

static void *come_up(void *argument)
{
  void **block = argument;
  pthread_barrier_wait(&all_there);
  *block = pool_alloc(100);
  must(*block && manager_ready());
  return NULL;
}

/* Many threads are the first at once. */
static void all_at_once(void *argument)
{
  pthread_t threads[8];
  void *blocks[8];
  (void)argument;
  os_fake_heal();
  pthread_barrier_init(&all_there, NULL, 8);
  for (size_t i = 0; i < 8; i++)
    must(pthread_create(&threads[i], NULL, come_up, &blocks[i]) == 0);
  for (size_t i = 0; i < 8; i++)
    pthread_join(threads[i], NULL);
  for (size_t i = 0; i < 8; i++)
    for (size_t j = 0; j < i; j++)
      must(blocks[i] != blocks[j]);
  must(check_everything());
}

/* ---- forks of a process with one thread, from the middle of a call ---- */

static uint64_t fork_at;
static pid_t forked = -1;

/* As a signal handler might that interrupted this call. Both go on with it. */
static void fork_now(os_call_t kind)
{
  (void)kind;
  if (os_fake.calls != fork_at || forked >= 0)
    return;
  os_fake.during = NULL;
  forked = fork();
  must(forked >= 0);
}

static void some_work(void)
{
  enum { FEW = 60 };
  dice_t dice = {7};
  void *blocks[FEW] = {0};
  pool_heap_t *heaps[3];
  for (size_t i = 0; i < 3; i++)
    must((heaps[i] = pool_heap_create(&(pool_heap_options_t){.budget = i == 1 ? 3 << 20 : 0, .reserve = i == 2 ? 10 << 20 : 0})) != NULL);
  for (size_t i = 0; i < 600; i++) {
    size_t at = dice_below(&dice, FEW), size = 1 + dice_below(&dice, (size_t)16 << dice_below(&dice, 20)), n = dice_below(&dice, 6);
    os_fake.now_ms += 10;
    if (blocks[at]) {
      must(*(char *)blocks[at] == (char)at);
      pool_free(blocks[at]);
      blocks[at] = NULL;
    } else if ((blocks[at] = n < 3 ? pool_heap_alloc(heaps[n], size) : pool_alloc(size)) != NULL) {
      *(char *)blocks[at] = (char)at;
    }
    if (i % 100 == 99)
      pool_trim(0);
  }
  for (size_t i = 0; i < FEW; i++)
    pool_free(blocks[i]);
  for (size_t i = 0; i < 3; i++)
    pool_heap_destroy(heaps[i]);
  pool_trim(0);
  must(check_everything() && space_of_process.used_units == 0);
}

static void fork_in_the_middle(void *argument)
{
  fork_at = *(const uint64_t *)argument;
  os_fake_heal();
  os_fake.during = fork_now;
  some_work();
  if (forked == 0)
    _exit(0);
  int status = -1;
  must(forked < 0 || (waitpid(forked, &status, 0) == forked && WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

static void count_calls(void *argument)
{
  uint64_t calls;
  int *ends = argument;
  os_fake_heal();
  some_work();
  calls = os_fake.calls;
  must(write(ends[1], &calls, sizeof calls) == sizeof calls);
}

static void fork_in_the_middle_test(void **state)
{
  int ends[2];
  uint64_t calls = 0;
  (void)state;
  assert_int_equal(pipe(ends), 0);
  in_child(count_calls, ends);
  assert_int_equal(read(ends[0], &calls, sizeof calls), sizeof calls);
  assert_true(calls > 50);
  for (uint64_t n = 1; n <= calls; n += 1 + n / 40)
    in_child(fork_in_the_middle, &n);
}

/* ---- forks among threads that do everything there is ---- */

static bool stop;

static bool see_block(const pool_block_t *block, void *context)
{
  (void)context;
  return block->start != NULL;
}

static void heaps_come_and_go(dice_t *dice, size_t number)
{
  pool_heap_options_t options = {0};
  switch (dice_below(dice, 6)) {
  case 0: options.budget = 200 << 10; break;
  case 1: options.budget = 4 << 20; break;
  case 2: options.reserve = 10 << 20; break;
  case 3: options.memory = buffer + number * MIB; options.memory_size = MIB; break;
  case 4: options.flags = POOL_HEAP_SINGLE_THREAD; break;
  default: break;
  }
  pool_heap_t *heap = pool_heap_create(&options), *below = heap ? pool_heap_create(&(pool_heap_options_t){.parent = heap, .budget = 100 << 10}) : NULL;
  must(heap);
  for (size_t i = 0; i < 30; i++) {
    void *block = pool_heap_alloc(heap, dice_below(dice, (size_t)16 << dice_below(dice, 16)));
    must(!block || pool_heap_of(block) == heap);
    if (i % 2)
      pool_free(block);
  }
  pool_heap_walk(heap, see_block, NULL);
  object_pool_t *bin = object_pool_create(&(object_pool_options_t){.object_size = 64, .heap = heap});
  if (bin) {
    void *object = object_pool_get(bin);
    if (object)
      object_pool_put(bin, object);
    object_pool_destroy(bin);
  }
  if (below)
    pool_heap_destroy(below);
  if (dice_below(dice, 2))
    pool_heap_reset(heap);
  pool_heap_destroy(heap);
}

static void *use_and_end(void *argument)
{
  void *blocks[50];
  (void)argument;
  for (size_t i = 0; i < 50; i++)
    blocks[i] = pool_alloc(50 * i);
  for (size_t i = 0; i < 50; i++)
    pool_free(blocks[i]);
  return NULL;
}

static void *do_everything(void *argument)
{
  size_t number = (size_t)(uintptr_t)argument;
  dice_t dice = {number};
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    pthread_t thread;
    pool_stats_t stats;
    char text[200];
    switch (dice_below(&dice, 8)) {
    case 0: heaps_come_and_go(&dice, number); break;
    case 1: pool_trim(dice_below(&dice, 2) * MIB); break;
    case 2: must(pool_heap_stats(pool_heap_default(), &stats)); break;
    case 3: pool_stats_json(text, sizeof text); break;
    case 4: must(pthread_create(&thread, NULL, use_and_end, NULL) == 0 && pthread_join(thread, NULL) == 0); break;
    case 5: pool_free(pool_alloc(5 * MIB + dice_below(&dice, MIB))); break;
    default: use_and_end(NULL);
    }
    __atomic_add_fetch(&os_fake.now_ms, 7, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void work_in_the_child(void *argument)
{
  dice_t dice = {*(const size_t *)argument};
  use_and_end(NULL);
  for (size_t i = 0; i < 6; i++)
    heaps_come_and_go(&dice, 3);
  pthread_t thread;
  must(pthread_create(&thread, NULL, use_and_end, NULL) == 0 && pthread_join(thread, NULL) == 0);
  os_fake.now_ms += 1000;
  use_and_end(NULL);
  pool_free(pool_alloc(7 * MIB));
  pool_trim(0);
}

static void fork_among_threads(void *argument)
{
  pthread_t threads[3];
  (void)argument;
  os_fake_heal();
  for (uintptr_t i = 0; i < 3; i++)
    must(pthread_create(&threads[i], NULL, do_everything, (void *)i) == 0);
  for (size_t turn = 0; turn < 60; turn++)
    in_child(work_in_the_child, &turn);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  must(check_everything());
}

/* While a heap ends its bins may be locked, and what can lead to them is gone before it leaves the list that a fork goes by. */
static void *end_heaps(void *argument)
{
  enum { MANY = 400 };
  (void)argument;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    pool_heap_t *heap = pool_heap_create(NULL);
    must(heap);
    for (size_t i = 0; i < MANY; i++)
      must(pool_heap_alloc(heap, 16 + i * 32));
    pool_heap_destroy(heap);
  }
  return NULL;
}

static void tick_in_the_child(void *argument)
{
  (void)argument;
  for (size_t i = 0; i < 200; i++) {
    os_fake.now_ms += 1000;
    pool_free(pool_alloc(40000));
  }
}

static void fork_while_heaps_end(void *argument)
{
  pthread_t threads[2];
  (void)argument;
  os_fake_heal();
  pool_free(pool_alloc(1));
  space_of_process.purge_delay_ms = 0;   /* much is purged meanwhile, which is where a fork gets a word in */
  for (size_t i = 0; i < 2; i++)
    must(pthread_create(&threads[i], NULL, end_heaps, NULL) == 0);
  for (size_t turn = 0; turn < 60; turn++)
    in_child(tick_in_the_child, NULL);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  must(check_everything());
}

/* ---- the locks of a fork, each held by somebody else in turn ---- */

/* A lock may be held with those of lower places. */
typedef enum place {
  PLACE_LIFE, PLACE_HEAPS, PLACE_ARRAYS, PLACE_THREADS, PLACE_LARGE, PLACE_HEAP, PLACE_DUE, PLACE_BUDGET_BELOW, PLACE_BUDGET, PLACE_BUDGET_FRONT, PLACE_GATE, PLACE_HUGE,
  PLACE_REGION, PLACE_LEAVES
} place_t;
typedef struct fork_lock {
  const char   *name;
  unsigned      place;
  lock_t       *lock;
  const lock_t *outer;   /* under which that is made whose lock it is */
} fork_lock_t;

enum { FORK_LOCKS_MOST = 400 };
static fork_lock_t fork_locks[FORK_LOCKS_MOST];
static size_t fork_locks_count;
static bool fork_is_over;

static void add_fork_lock(const char *name, unsigned place, lock_t *lock)
{
  must(fork_locks_count < FORK_LOCKS_MOST);
  fork_locks[fork_locks_count++] = (fork_lock_t){.name = name, .place = place, .lock = lock};
}

static void add_gate_of_heaps(lock_t *gate) { add_fork_lock("a gate of heaps", PLACE_LIFE, gate); }
static void add_gate_of_arrays(lock_t *gate) { add_fork_lock("a gate of arrays", PLACE_ARRAYS, gate); }
static void add_large_gate(lock_t *gate) { add_fork_lock("a gate of large blocks", PLACE_LARGE, gate); }
static void add_gate(lock_t *gate) { add_fork_lock("a gate", PLACE_GATE, gate); }

static void add_locks_of(heap_t *heap, place_t budget)
{
  add_fork_lock("the lock of a heap", PLACE_HEAP, &heap->lock);
  FOR_EACH_BIN(bin, heap)
    add_fork_lock("the lock of a bin", PLACE_HEAP, &bin->lock), fork_locks[fork_locks_count - 1].outer = &heap->lock;
  add_fork_lock("the lock of a budget", budget, &heap->budget.lock);
  if (heap != &default_heap)
    add_fork_lock("the lock of a heap's own space", PLACE_REGION, &heap->own_space.lock);
}

static bool lock_is_held(const fork_lock_t *at) { return __atomic_load_n(&at->lock->word, __ATOMIC_ACQUIRE) != 0; }

static void lock_must(const fork_lock_t *at, bool what, int line)
{
  if (!what)
    must_failed(__FILE__, line, at->name);
}

static void all_are_open(void)
{
  for (const fork_lock_t *at = fork_locks; at < fork_locks + fork_locks_count; at++)
    lock_must(at, !lock_is_held(at), __LINE__);
}

static void *fork_once(void *unused)
{
  int status = -1;
  pid_t child = fork();
  __atomic_store_n(&fork_is_over, true, __ATOMIC_RELEASE);
  must(child >= 0);
  if (child == 0) {
    all_are_open();
    _exit(0);
  }
  must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return unused;
}

static void *sleep_for_ever(void *argument)
{
  (void)argument;
  use_and_end(NULL);
  pthread_barrier_wait(&all_there);
  while (pause() != 0) {
  }
  return NULL;
}

enum { WITH_SLEEPERS = 2 };

/* The fork sleeps at this lock, with those before it and without those behind it. */
static void fork_waits_for(const fork_lock_t *held)
{
  pthread_t thread;
  fork_is_over = false;
  lock_acquire(held->lock);
  must(pthread_create(&thread, NULL, fork_once, NULL) == 0);
  while (__atomic_load_n(&held->lock->word, __ATOMIC_ACQUIRE) != WITH_SLEEPERS &&
         !__atomic_load_n(&fork_is_over, __ATOMIC_ACQUIRE))
    usleep(50);
  lock_must(held, !__atomic_load_n(&fork_is_over, __ATOMIC_ACQUIRE), __LINE__);
  for (const fork_lock_t *at = fork_locks; at < fork_locks + fork_locks_count; at++)
    if (at->place != held->place)
      lock_must(at, lock_is_held(at) == (at->place < held->place), __LINE__);
  lock_release(held->lock);
  must(pthread_join(thread, NULL) == 0);
  all_are_open();
}

/* Whoever is woken makes bins and takes their locks: a fork that opens those afterwards opens what it never had. */
static size_t opened;
static bool is_budget(const fork_lock_t *at) { return at->place >= PLACE_BUDGET_BELOW && at->place <= PLACE_BUDGET_FRONT; }   /* in any order */
static bool is_inside(const fork_lock_t *other, const fork_lock_t *at)
{
  return other->outer == at->lock || (other->place > at->place && !(is_budget(other) && is_budget(at)));
}

static void all_have_sleepers(void)
{
  for (const fork_lock_t *at = fork_locks; at < fork_locks + fork_locks_count; at++) {
    lock_must(at, lock_is_held(at), __LINE__);
    at->lock->word = WITH_SLEEPERS;
  }
}

static void opened_from_the_inside(const uint32_t *word)
{
  const fork_lock_t *at = fork_locks;
  while (at < fork_locks + fork_locks_count && &at->lock->word != word)
    at++;
  must(at < fork_locks + fork_locks_count);
  for (const fork_lock_t *other = fork_locks; other < fork_locks + fork_locks_count; other++)
    lock_must(other, !lock_is_held(other) || !is_inside(other, at), __LINE__);
  opened++;
}

static void fork_opens_the_other_way_round(void)
{
  pthread_t thread;
  os_fake.forking = all_have_sleepers;
  os_fake.woken = opened_from_the_inside;
  must(pthread_create(&thread, NULL, fork_once, NULL) == 0 && pthread_join(thread, NULL) == 0);
  os_fake.forking = NULL;
  os_fake.woken = NULL;
  must(opened == fork_locks_count);
}

static void fork_takes_all_locks(void *argument)
{
  static const pool_heap_options_t kinds[] = {{0}, {.budget = 200 << 10}, {.budget = 20 << 20}, {.reserve = 10 << 20},
                                              {.memory = buffer, .memory_size = 1 << 20}};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  static const fork_lock_t leaves[] = {
    {"bin_magazines_lock", PLACE_LEAVES, &bin_magazines_lock, NULL},
    {"the process's space", PLACE_LEAVES + 1, &space_of_process.lock, NULL},
    {"space_slots_lock", PLACE_LEAVES + 2, &space_slots_lock, NULL},
    {"guests_lock", PLACE_LEAVES + 3, &guests_lock, NULL},
    {"metadata_lock", PLACE_LEAVES + 4, &metadata_lock, NULL},
  };
  pool_heap_t *heaps[KINDS + 1];
  pthread_t thread;
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < KINDS; i++)
    must((heaps[i] = pool_heap_create(&kinds[i])) != NULL);
  must((heaps[KINDS] = pool_heap_create(&(pool_heap_options_t){.parent = heaps[2], .budget = 4 << 20})) != NULL);
  pthread_barrier_init(&all_there, NULL, 2);
  must(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);   /* so that the process has threads throughout */
  pthread_barrier_wait(&all_there);
  add_fork_lock("heaps_lock", PLACE_HEAPS, &heaps_lock);
  add_fork_lock("threads_lock", PLACE_THREADS, &threads_lock);
  add_fork_lock("bins_due_lock", PLACE_DUE, &bins_due_lock);
  add_fork_lock("huge_lock", PLACE_HUGE, &huge_lock);
  gate_each(GATE_LIFE, add_gate_of_heaps);
  gate_each(GATE_ARRAYS, add_gate_of_arrays);
  gate_each(GATE_LARGE, add_large_gate);
  gate_each(GATE_SYSTEM, add_gate);
  must(fork_locks[fork_locks_count - 1].place == PLACE_GATE);
  add_locks_of(&default_heap, PLACE_BUDGET_FRONT);
  for (size_t i = 0; i <= KINDS; i++) {
    must(pool_heap_alloc(heaps[i], 100) && pool_heap_alloc(heaps[i], 3000));
    add_locks_of(heaps[i], i == KINDS ? PLACE_BUDGET_BELOW : PLACE_BUDGET);
  }
  for (unsigned i = 0; i < sizeof leaves / sizeof *leaves; i++)
    add_fork_lock(leaves[i].name, leaves[i].place, leaves[i].lock);
  for (const fork_lock_t *at = fork_locks; at < fork_locks + fork_locks_count; at++)
    fork_waits_for(at);
  fork_opens_the_other_way_round();
  must(check_everything());
}

/* ---- the end: a handler of SIGABRT that goes on allocating, whatever the thread held ---- */

enum { TWICE_SIZE = 64, HANDLER_BLOCKS = 8 };
static char *small_one, *large_one, *huge_one, *of_heap;
static pool_heap_t *a_heap, *mine;

static void allocate_in_the_handler(void)
{
  for (size_t size = 0; size < 20 * MIB; size = size * 3 + 1) {
    char *block = pool_alloc(size), *zeroed = pool_calloc(1, size), *aligned = pool_aligned_alloc(256 * KIB, size), *other = pool_heap_alloc(a_heap, size);
    must(block && zeroed && aligned && other && all_zero(zeroed, size) && (uintptr_t)aligned % (256 * KIB) == 0);
    must(pool_usable_size(block) >= size && pool_usable_size(aligned) >= size);
    pattern_write(block, size, 1);
    block = pool_realloc(block, 2 * size + 10);
    must(block && pattern_kept(block, size, size, 1));
    pool_free(block);
    pool_free(zeroed);
    pool_heap_free(a_heap, other);
  }
  errno = 0;
  volatile size_t too_much = SIZE_MAX / 2 + 1;
  must(!pool_alloc(too_much) && errno == ENOMEM);
}

/* What it had from before: that of a class, and a run, can be had larger; what is not known without a lock cannot, and stays. */
static void reallocate_in_the_handler(void)
{
  small_one = pool_realloc(small_one, 5000);
  large_one = pool_realloc(large_one, 900000);
  must(small_one && pattern_kept(small_one, 100, 100, 5) && large_one && pattern_kept(large_one, 100000, 100000, 6));
  errno = 0;
  char *moved = pool_realloc(huge_one, 30 * MIB);
  must((moved || errno == ENOMEM) && pattern_holds(moved ? moved : huge_one, 8 * MIB, 7));
  errno = 0;
  moved = pool_heap_realloc(a_heap, of_heap, 1000);
  must((moved || errno == ENOMEM) && pattern_holds(moved ? moved : of_heap, 200, 8));
  pool_free(small_one);
  pool_free(large_one);
  pool_free(huge_one);
  pool_heap_free(a_heap, of_heap);
  pool_free(NULL);
}

static bool visit(const pool_block_t *block, void *context) { return block && context; }

/* The magazines of the thread are as whatever went wrong left them, and may hold a block twice. None comes out of them. */
static void each_block_once_in_the_handler(void)
{
  char *those[HANDLER_BLOCKS];
  for (size_t i = 0; i < HANDLER_BLOCKS; i++) {
    must((those[i] = pool_alloc(TWICE_SIZE)) != NULL);
    for (size_t k = 0; k < i; k++)
      must(those[i] != those[k]);
  }
  for (size_t i = 0; i < HANDLER_BLOCKS; i++)
    pool_free(those[i]);
}

/* The answers may be wrong, in the middle of whatever it was, but they come. */
static void ask_in_the_handler(void)
{
  static char text[100000];
  pool_stats_t stats;
  pool_heap_stats(pool_heap_default(), &stats);
  pool_heap_stats(a_heap, &stats);
  pool_stats_json(text, sizeof text);
  pool_in_use(small_one);
  pool_block_start(huge_one, NULL);
  pool_heap_of(of_heap);
  pool_heap_walk(mine, visit, text);
}

static void handle_abort(int number)
{
  static const char words[] = "handled\n";
  (void)number;
  ask_in_the_handler();
  each_block_once_in_the_handler();
  allocate_in_the_handler();
  reallocate_in_the_handler();
  must(write(STDERR_FILENO, words, sizeof words - 1) > 0);
}

static void get_ready(void)
{
  pthread_t thread;
  signal(SIGABRT, handle_abort);
  os_fake_heal();
  must((a_heap = pool_heap_create(NULL)) && (mine = pool_heap_create(&(pool_heap_options_t){.budget = 8 << 20})));
  must((small_one = pool_alloc(100)) && (large_one = pool_alloc(100000)) && (huge_one = pool_alloc(8 * MIB)) && (of_heap = pool_heap_alloc(a_heap, 200)));
  pattern_write(small_one, 100, 5);
  pattern_write(large_one, 100000, 6);
  pattern_write(huge_one, 8 * MIB, 7);
  pattern_write(of_heap, 200, 8);
  pthread_barrier_init(&all_there, NULL, 2);
  must(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);
  pthread_barrier_wait(&all_there);
}

/* Twice in the magazines of the thread, one apart so that it is not seen at once; and none of them is full, or it would go as it is. */
static void free_twice(pool_heap_t *heap)
{
  for (size_t i = 0; i < 8; i++)
    must(pool_heap_alloc(heap, TWICE_SIZE));
  void *a = pool_heap_alloc(heap, TWICE_SIZE), *b = pool_heap_alloc(heap, TWICE_SIZE);
  pool_heap_free(heap, a);
  pool_heap_free(heap, b);
  pool_heap_free(heap, a);
}

static void found_in_a_tick(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  for (size_t i = 0; i < 100000; i++) {
    os_fake.now_ms += 30;
    pool_free(pool_alloc(40000));
  }
}

static void *end_with_it(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  return NULL;
}

static void found_at_the_end_of_a_thread(void *heap)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, end_with_it, heap) == 0);
  pthread_join(thread, NULL);
}

static void found_in_a_trim(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  pool_heap_trim(*(pool_heap_t **)heap, 0);
}

static void found_in_a_walk(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  pool_heap_walk(*(pool_heap_t **)heap, see_block, NULL);
}

static void *hold_and_sleep(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  pthread_barrier_wait(&all_there);
  while (pause() != 0) {
  }
  return NULL;
}

/* In another thread's magazines, by who reaches for them. */
static void found_when_reached_for(void *heap)
{
  pthread_t thread;
  must(pthread_create(&thread, NULL, hold_and_sleep, heap) == 0);
  pthread_barrier_wait(&all_there);
  pool_heap_trim(mine, 0);
}

static void found_in_the_call(void *heap)
{
  void *block = pool_heap_alloc(*(pool_heap_t **)heap, 100000);
  pool_heap_free(*(pool_heap_t **)heap, block);
  pool_heap_free(*(pool_heap_t **)heap, block);
}

/* Of something else, while the magazines hold a block twice. */
static void found_beside_another(void *heap)
{
  free_twice(*(pool_heap_t **)heap);
  found_in_the_call(heap);
}

static void found_destroyed(void *heap)
{
  pool_heap_t *gone = pool_heap_create(NULL);
  (void)heap;
  pool_heap_destroy(gone);
  must(!pool_heap_alloc(gone, 10));
}

static void found_in_use(void *heap)
{
  must(pool_heap_create(&(pool_heap_options_t){.parent = *(pool_heap_t **)heap}));
  pool_heap_destroy(*(pool_heap_t **)heap);
}

typedef struct ending { void (*find)(void *); pool_heap_t **heap; } ending_t;

static void end(void *argument)
{
  const ending_t *ending = argument;
  get_ready();
  ending->find(ending->heap);
}

static void the_end(void **state)
{
  static pool_heap_t *front = &default_heap;
  static const ending_t endings[] = {
    {found_in_a_tick, &front}, {found_in_a_tick, &a_heap}, {found_in_a_tick, &mine}, {found_at_the_end_of_a_thread, &front},
    {found_at_the_end_of_a_thread, &a_heap}, {found_at_the_end_of_a_thread, &mine}, {found_in_a_trim, &front}, {found_in_a_trim, &a_heap},
    {found_in_a_walk, &front}, {found_in_a_walk, &a_heap}, {found_when_reached_for, &mine}, {found_in_the_call, &front},
    {found_in_the_call, &a_heap}, {found_in_the_call, &mine}, {found_beside_another, &front}, {found_beside_another, &a_heap}, {found_beside_another, &mine},
    {found_destroyed, &mine}, {found_in_use, &mine},
  };
  (void)state;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    aborts_with(end, (void *)(uintptr_t)&endings[i], "\nhandled\n");
}

IN_CHILD(all_at_once)
IN_CHILD(fork_while_heaps_end)
IN_CHILD(fork_takes_all_locks)

/* A sanitizer's own allocator is not made for threads that are started in the child of a process with threads. */
static void fork_among_threads_test(void **state)
{
  (void)state;
  if (SANITIZED)
    skip();
  in_child(fork_among_threads, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(refused_at_first_test),
    cmocka_unit_test(all_at_once_test),
    cmocka_unit_test(fork_in_the_middle_test),
    cmocka_unit_test(fork_among_threads_test),
    cmocka_unit_test(fork_while_heaps_end_test),
    cmocka_unit_test(fork_takes_all_locks_test),
    cmocka_unit_test(the_end),
  };
  return cmocka_run_group_tests_name("startup", tests, NULL, NULL);
}
