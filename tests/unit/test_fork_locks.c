/* SPDX-License-Identifier: MIT
 * The locks of a fork, each held by somebody else in turn. */
#include "bin/bin.h"
#include "debug/profile_lines.h"
#include "debug/sample_pages.h"
#include "debug/sites.h"
#include "heap/heap.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "os/lock.h"
#include "os_fake.h"
#include "sleepers.h"
#include "space/metadata.h"
#include <sys/wait.h>
#include <unistd.h>

/* A lock may be held with those of lower places. */
typedef enum place {
  PLACE_LIFE,
  PLACE_STARTUP,
  PLACE_HEAPS,
  PLACE_ARRAYS,
  PLACE_ENDS,
  PLACE_THREADS,
  PLACE_HEADED,
  PLACE_LARGE,
  PLACE_HEAP,
  PLACE_BIN,
  PLACE_DEPOT,
  PLACE_DUE,
  PLACE_BUDGET_BELOW,
  PLACE_BUDGET,
  PLACE_BUDGET_FRONT,
  PLACE_GATE,
  PLACE_HUGE,
  PLACE_REGION,
  PLACE_LEAVES
} place_t;
typedef struct fork_lock {
  const char *name;
  unsigned place;
  lock_t *lock;
  lock_kind_t kind; /* of those that a fork closes and does not take; LOCK_KINDS: it takes this one */
} fork_lock_t;

enum { FORK_LOCKS_MOST = 2000 };
static fork_lock_t fork_locks[FORK_LOCKS_MOST];
static size_t fork_locks_count;
static bool fork_is_over;

static void add_lock_of_kind(const char *name, unsigned place, lock_t *lock, lock_kind_t kind)
{
  must(fork_locks_count < FORK_LOCKS_MOST);
  fork_locks[fork_locks_count++] = (fork_lock_t){.name = name, .place = place, .lock = lock, .kind = kind};
}

static void add_fork_lock(const char *name, unsigned place, lock_t *lock) { add_lock_of_kind(name, place, lock, LOCK_KINDS); }

static void add_gate_of_heaps(lock_t *gate) { add_fork_lock("a gate of heaps", PLACE_LIFE, gate); }
static void add_gate_of_arrays(lock_t *gate) { add_fork_lock("a gate of arrays", PLACE_ARRAYS, gate); }
static void add_gate_of_ends(lock_t *gate) { add_fork_lock("a gate of threads that end", PLACE_ENDS, gate); }
static void add_headed_gate(lock_t *gate) { add_fork_lock("a gate of blocks with heads", PLACE_HEADED, gate); }
static void add_large_gate(lock_t *gate) { add_fork_lock("a gate of large blocks", PLACE_LARGE, gate); }
static void add_gate(lock_t *gate) { add_fork_lock("a gate", PLACE_GATE, gate); }

static void add_locks_of(heap_t *heap, place_t budget)
{
  add_lock_of_kind("the lock of a heap", PLACE_HEAP, &heap->lock, LOCKS_OF_HEAPS);
  FOR_EACH_BIN(bin, heap) {
    add_lock_of_kind("the lock of a bin", PLACE_BIN, &bin->lock, LOCKS_OF_BINS);
    for (unsigned i = 0; i < depots_shards(&bin->depots); i++)
      add_lock_of_kind("the lock of a depot", PLACE_DEPOT, &depot_at(&bin->depots, i)->lock, LOCKS_OF_DEPOTS);
  }
  add_lock_of_kind("the lock of a budget", budget, &heap->budget.lock, LOCKS_OF_BUDGETS);
  if (heap->space != &space_of_process && !heap_has_granules(heap))
    add_fork_lock("the lock of a heap's own space", PLACE_REGION, &heap->region.space.lock);
}

static bool lock_is_held(const fork_lock_t *at) { return __atomic_load_n(&at->lock->word, __ATOMIC_ACQUIRE) != 0; }
static bool is_shut(const fork_lock_t *at)
{
  return at->kind == LOCK_KINDS ? lock_is_held(at) : __atomic_load_n(&closure_closed[at->kind], __ATOMIC_ACQUIRE);
}

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
      lock_must(at, is_shut(at) == (at->place < held->place || (at->kind != LOCK_KINDS && at->kind == held->kind)), __LINE__);
  lock_release(held->lock);
  must(pthread_join(thread, NULL) == 0);
  all_are_open();
}

/* What a fork has closed is free at its moment. Of each kind the queue is held. */
static size_t opened, taken;

static void all_have_sleepers(void)
{
  for (const fork_lock_t *at = fork_locks; at < fork_locks + fork_locks_count; at++) {
    lock_must(at, is_shut(at) && lock_is_held(at) == (at->kind == LOCK_KINDS), __LINE__);
    taken += at->kind == LOCK_KINDS;
    if (at->kind == LOCK_KINDS)
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
    lock_must(other, !lock_is_held(other) || other->place <= at->place, __LINE__);
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
  must(opened == taken);
}

static void add_gates(void)
{
  static void (*const add[GATE_KINDS])(lock_t *) = {
    [GATE_LIFE] = add_gate_of_heaps, [GATE_ARRAYS] = add_gate_of_arrays, [GATE_ENDS] = add_gate_of_ends,
    [GATE_HEADED] = add_headed_gate, [GATE_LARGE] = add_large_gate,      [GATE_SYSTEM] = add_gate};
  for (unsigned kind = 0; kind < GATE_KINDS; kind++) {
    size_t before = fork_locks_count;
    must(add[kind] != NULL);
    gate_each(kind, add[kind]);
    must(fork_locks_count > before);
  }
}

static void add_queues(void)
{
  static const struct {
    const char *name;
    place_t place;
  } of[LOCK_KINDS] = {[LOCKS_OF_HEAPS] = {"the queue of heaps", PLACE_HEAP},
                      [LOCKS_OF_BINS] = {"the queue of bins", PLACE_BIN},
                      [LOCKS_OF_DEPOTS] = {"the queue of depots", PLACE_DEPOT},
                      [LOCKS_OF_BUDGETS] = {"the queue of budgets", PLACE_BUDGET_BELOW}};
  for (unsigned kind = 0; kind < LOCK_KINDS; kind++) {
    must(of[kind].name != NULL);
    add_fork_lock(of[kind].name, of[kind].place, closure_queue(kind));
  }
}

static void fork_takes_all_locks(void *argument)
{
  static const pool_heap_options_t kinds[] = {
    {0}, {.budget = 200 << 10}, {.budget = 20 << 20}, {.reserve = 10 << 20}, {.memory = buffer, .memory_size = 1 << 20}};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  static const fork_lock_t leaves[] = {
    {"bin_magazines_lock", PLACE_LEAVES, &bin_magazines_lock, LOCK_KINDS},
    {"the process's space", PLACE_LEAVES + 1, &space_of_process.lock, LOCK_KINDS},
    {"space_slots_lock", PLACE_LEAVES + 2, &space_slots_lock, LOCK_KINDS},
    {"guests_lock", PLACE_LEAVES + 3, &guests_lock, LOCK_KINDS},
    {"profile_lock", PLACE_LEAVES + 4, &profile_lock, LOCK_KINDS},
    {"sites_lock", PLACE_LEAVES + 5, &sites_lock, LOCK_KINDS},
    {"sample_pages_lock", PLACE_LEAVES + 6, &sample_pages_lock, LOCK_KINDS},
    {"metadata_lock", PLACE_LEAVES + 7, &metadata_lock, LOCK_KINDS},
  };
  pool_heap_t *heaps[KINDS + 1];
  pthread_t thread;
  (void)argument;
  os_fake_heal();
  for (size_t i = 0; i < KINDS; i++)
    must((heaps[i] = pool_heap_create(&kinds[i])) != NULL);
  must((heaps[KINDS] = pool_heap_create(&(pool_heap_options_t){.parent = heaps[2], .budget = 4 << 20})) != NULL);
  pthread_barrier_init(&all_there, NULL, 2);
  must(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0); /* so that the process has threads throughout */
  pthread_barrier_wait(&all_there);
  add_fork_lock("the lock of startup", PLACE_STARTUP, &startup_lock);
  add_fork_lock("heaps_lock", PLACE_HEAPS, &heaps_lock);
  add_fork_lock("threads_lock", PLACE_THREADS, &threads_lock);
  add_fork_lock("bins_due_lock", PLACE_DUE, &bins_due_lock);
  add_fork_lock("huge_lock", PLACE_HUGE, &huge_lock);
  add_gates();
  add_queues();
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

IN_CHILD(fork_takes_all_locks)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fork_takes_all_locks_test),
  };
  return cmocka_run_group_tests_name("fork_locks", tests, NULL, NULL);
}
