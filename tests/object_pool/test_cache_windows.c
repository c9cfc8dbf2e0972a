/* SPDX-License-Identifier: MIT
 * Every window of a call of one thread, with a call of another in it. A processor can be told to stop after each instruction,
 * so the windows need not be hit by chance: the first thread stops after some instruction of its call, the second one begins
 * its own, and goes as far as it can or stops in its turn; then the first one ends its call, and the second.
 *
 * Whatever the order, no object has two users, none is lost, and no get is refused while an object was free all the time. Waits
 * only end runs in which the threads wait for each other; a machine that is slow sees other orders, and the same must hold. */
#include "slots.h"

#if defined __x86_64__ && defined __linux__
#include "object_pool/types.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
  CAPACITY = 256,
  TRAP_FLAG = 0x100,
  NEVER = 0,
  MOMENT_NS = 500000, /* in which a call ends, or a step is taken, by a thread that does not wait for the other */
  LATE_NS = 500000000
};

/* ---- threads that do what they are told, and stop where they are told ---- */

typedef enum party_state { RESTS, IS_TOLD, STOPS, GOES_ON } party_state_t;

typedef struct party {
  pthread_t thread;
  atomic_int state; /* party_state_t */
  object_pool_t *pool;
  const char *told;
  size_t stop_at; /* instructions */
  atomic_size_t steps;
  slot_t *held[CAPACITY];
  size_t count;
} party_t;

static party_t parties[2];
static _Thread_local party_t *self;

static void wake(party_t *party) { syscall(SYS_futex, &party->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

static void set_state(party_t *party, party_state_t state)
{
  atomic_store(&party->state, state);
  wake(party);
}

static bool sleep_while(party_t *party, int state, const struct timespec *time)
{
  return syscall(SYS_futex, &party->state, FUTEX_WAIT_PRIVATE, state, time, NULL, 0) == 0 || errno != ETIMEDOUT;
}

/* Steps are counted in the thread that takes them. */
static void on_step(int number, siginfo_t *info, void *context)
{
  (void)number, (void)info;
  greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
  if (!self || atomic_fetch_add(&self->steps, 1) + 1 != self->stop_at)
    return;
  *flags &= ~TRAP_FLAG;
  set_state(self, STOPS);
  while (atomic_load(&self->state) == STOPS)
    sleep_while(self, STOPS, NULL);
}

/* Beyond the red zone, into which the flags may not be pushed. */
static inline void step(bool on)
{
  if (on)
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
  else
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
}

static _Atomic uint64_t run_began_ns;

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool all_is_taken(const object_pool_t *pool, size_t but) { return LOAD(pool->taken) + but >= CAPACITY; }

static bool stock_is_full(const object_pool_t *pool)
{
  for (const object_stock_t *stock = pool->stocks; stock; stock = stock->next)
    if (stock->cache && stock->count == stock->most && stock->cache->hot_is_free)
      return true;
  return false;
}

static void hold(party_t *party, slot_t *slot)
{
  must(!slot->owner); /* none has two users */
  slot->owner = 1;
  party->held[party->count++] = slot;
}

/* A thread that stands still in its cache for a second keeps what it has. So where the machine took half of that, a get may be
 * refused. */
static bool is_late(void) { return now_ns() - run_began_ns > LATE_NS; }

static void get_one(party_t *party)
{
  slot_t *slot = object_pool_get(party->pool);
  while (!slot && is_late())
    slot = object_pool_get(party->pool);
  must(slot); /* none is refused */
  hold(party, slot);
}

static void get_batch(party_t *party, size_t count)
{
  void *batch[CAPACITY];
  size_t got = object_pool_get_batch(party->pool, batch, count);
  must(got == count || is_late());
  for (size_t i = 0; i < got; i++)
    hold(party, batch[i]);
}

static void put_one(party_t *party)
{
  slot_t *slot = party->held[--party->count];
  slot->owner = 0;
  object_pool_put(party->pool, slot);
}

static void hand_over(party_t *from, party_t *to) { to->held[to->count++] = from->held[--from->count]; }

static void do_one(party_t *party, char what)
{
  switch (what) {
  case 'g':
    get_one(party);
    return;
  case 'p':
    put_one(party);
    return;
  case 'h':
    hand_over(party == &parties[0] ? &parties[1] : &parties[0], party);
    return;
  case 'a':
    while (!all_is_taken(party->pool, 0))
      get_one(party);
    return; /* what is free is in caches */
  case 'b':
    while (!all_is_taken(party->pool, 4))
      get_one(party);
    return;
  case 's':
    for (int i = 0; i < 40; i++)
      get_one(party);
    while (!stock_is_full(party->pool))
      put_one(party);
    return;
  default:
    must(what == '3');
    get_batch(party, 3);
  }
}

static void *listen(void *argument)
{
  party_t *party = self = argument;
  for (;;) {
    while (atomic_load(&party->state) == RESTS)
      sleep_while(party, RESTS, NULL);
    if (!party->told)
      return NULL;
    step(party->stop_at != NEVER);
    for (const char *what = party->told; *what; what++)
      do_one(party, *what);
    step(false);
    set_state(party, RESTS);
  }
}

static void tell(party_t *party, const char *what, size_t stop_at)
{
  party->told = what;
  party->stop_at = stop_at;
  atomic_store(&party->steps, 0);
  set_state(party, IS_TOLD);
}

/* Until the thread rests or stops. One that waits for the other is given up for the moment. */
static void wait_a_moment(party_t *party)
{
  static const struct timespec moment = {.tv_nsec = MOMENT_NS};
  size_t steps = SIZE_MAX;
  for (int state; state = atomic_load(&party->state), state == IS_TOLD || state == GOES_ON;) {
    if (sleep_while(party, state, &moment))
      continue;
    if (atomic_load(&party->steps) == steps)
      return;
    steps = atomic_load(&party->steps);
  }
}

static void go_on(party_t *party)
{
  int stops = STOPS;
  if (atomic_compare_exchange_strong(&party->state, &stops, GOES_ON))
    wake(party);
}

static void wait_for_the_end(party_t *party)
{
  for (int state; (state = atomic_load(&party->state)) != RESTS;) {
    if (state == STOPS)
      go_on(party);
    else
      sleep_while(party, state, NULL);
  }
}

static void do_at_once(party_t *party, const char *what)
{
  tell(party, what, NEVER);
  wait_for_the_end(party);
}

/* ---- and what they are told ---- */

typedef struct meeting {
  const char *name, *second_before, *first_before, *second_too, *first, *second;
  bool third; /* thread, that has free objects in its cache */
} meeting_t;

/* The second thread makes the pool so full that all that is free is in caches, where it is to reach for them. */
static const meeting_t meetings[] = {
  {"a get of the hot object, in a reach", "", "gp", "a", "g", "g", false},
  {"a get from the stock, in a reach", "", "g", "a", "g", "g", false},
  {"two gets, in a reach for two", "", "gp", "a", "gg", "gg", false},
  {"a put of the hot object, in a reach", "", "ggp", "a", "p", "g", false},
  {"a put into the stock, in a reach", "", "gggp", "a", "p", "g", false},
  {"a put and a get, in a reach", "", "gggp", "a", "pg", "g", false},
  {"a put that spills, in a reach", "", "s", "a", "p", "g", false},
  {"a first get, in gets", "", "", "b", "g", "ggg", false},
  {"a first put, in gets", "gg", "hh", "b", "p", "ggg", false},
  {"a first put, in a reach", "gggp", "hh", "a", "p", "g", true},
  {"a reach, in gets and puts", "", "", "app", "g", "pgp", false},
  {"a reach, in a reach", "", "", "a", "g", "g", true},
  {"a batch, in gets and puts", "", "", "apppp", "3", "pgp", false},
  {"a get, in a batch", "", "gp", "a", "g", "3", false},
};

static void end_run(object_pool_t *pool)
{
  for (size_t k = 0; k < 2; k++) {
    for (size_t i = 0; i < parties[k].count; i++)
      parties[k].held[i]->owner = 0;
    while (parties[k].count)
      object_pool_put(pool, parties[k].held[--parties[k].count]);
  }
  slots_agree(pool, 0);
  slots_can_be_had(pool, CAPACITY);
  object_pool_destroy(pool);
}

static void run(const meeting_t *meeting, size_t first_stop, size_t second_stop)
{
  party_t *first = &parties[0], *second = &parties[1];
  object_pool_t *pool = first->pool = second->pool = slots_pool(CAPACITY, OBJECT_POOL_FAIL);
  if (meeting->third)
    object_pool_put(pool, object_pool_get(pool));
  do_at_once(second, meeting->second_before);
  do_at_once(first, meeting->first_before);
  do_at_once(second, meeting->second_too);
  atomic_store(&run_began_ns, now_ns());
  tell(first, meeting->first, first_stop);
  for (int state; state = atomic_load(&first->state), state == IS_TOLD;)
    sleep_while(first, state, NULL);
  tell(second, meeting->second, second_stop);
  wait_a_moment(second);
  go_on(first);
  wait_a_moment(first);
  wait_for_the_end(second);
  wait_for_the_end(first);
  end_run(pool);
}

static size_t stride_of(size_t steps, size_t most) { return 1 + steps / most; }

/* Up to so many windows of the first call, with all of the second in them; and up to twice as many of the second, when the
 * first one stops somewhere and ends in them. */
static void windows_of(const meeting_t *meeting, size_t most, dice_t *dice)
{
  run(meeting, SIZE_MAX, SIZE_MAX);
  size_t steps = parties[0].steps, more_steps = parties[1].steps;
  for (size_t k = 1; k <= steps; k += 1 + dice_below(dice, 2 * stride_of(steps, most) - 1))
    run(meeting, k, NEVER);
  for (size_t k = 1; k <= more_steps; k += 1 + dice_below(dice, 2 * stride_of(more_steps, 2 * most) - 1))
    run(meeting, 1 + dice_below(dice, steps), k);
}

static void calls_in_each_window_of_a_call(void **state)
{
  (void)state;
  if (SANITIZED)
    skip();
  const char *asked = getenv("WINDOWS"); /* how many of each call */
  dice_t dice = {1};
  sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, NULL);
  for (size_t k = 0; k < 2; k++)
    must(pthread_create(&parties[k].thread, NULL, listen, &parties[k]) == 0);
  for (size_t w = 0; w < sizeof meetings / sizeof *meetings; w++)
    windows_of(&meetings[w], asked ? strtoul(asked, NULL, 10) : 15, &dice);
  for (size_t k = 0; k < 2; k++) {
    tell(&parties[k], NULL, NEVER);
    pthread_join(parties[k].thread, NULL);
  }
}
#else
static void calls_in_each_window_of_a_call(void **state)
{
  (void)state;
  skip();
}
#endif

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_in_each_window_of_a_call)};
  return cmocka_run_group_tests_name("object_pool cache_windows", tests, NULL, NULL);
}
