/* SPDX-License-Identifier: MIT
 * Who reads a thread's magazines beside it never takes a live block for one in them. */
#include "one_bin.h"
#include <pthread.h>
#include <unistd.h>

/* Another thread reads where the entries are in two loads, between which the owner may pop the last one: what it sees are then
 * no blocks that somebody has. In an empty magazine may be what it had in another class. */
static void emptied_between_two_loads(void **state)
{
  (void)state;
  static void *live[LIVE];
  static char popped[16];
  unsigned emptied = 0;
  for (unsigned c = 1; c <= CLASS_CACHED; c += 7) {
    all_new(c);
    loaded_t *loaded = &cache.of[c];
    size_t count = 0;
    for (unsigned i = 0; i < 2000; i++) {
      if (i / 200 % 2 && count > 1)
        give(live[--count]);
      else
        live[count++] = allocate();
      for (void **magazine = magazines.of[c].empties; magazine; magazine = magazine_below(magazine))
        for (unsigned word = 1; word < MAGAZINE_WORDS - 1; word++)
          magazine[word] = live[0];
      if (loaded->top || loaded->below == MAGAZINE_SENTINEL)
        continue;
      emptied++;
      loaded->top = popped;
      assert_false(magazines_hold(&magazines, c, live[0]));
      loaded->top = NULL;
    }
    while (count)
      give(live[--count]);
    magazines_flush(&magazines, &bin);
  }
  assert_true(emptied > 10);
}

static void poison_all(void **magazine, void *with)
{
  for (; magazine; magazine = magazine_below(magazine))
    for (unsigned word = 1; word < MAGAZINE_WORDS - 1; word++)
      magazine[word] = with;
}

static void none_below(void *const *word, void *const *below, const void *poison)
{
  for (; word > below || *word; word--)
    assert_ptr_not_equal(*word, poison);
}

/* The slabs write from the top down, so whoever comes down behind them may come to words that are not written yet. Where they
 * have fewer blocks than the magazine has room for, such words are left. */
static void slabs_fill_what_is_clear(void **state)
{
  (void)state;
  static void *live[LIVE];
  static char poison[16];
  unsigned filled = 0, fewer = 0;
  for (unsigned c = 1; c <= CLASS_CACHED; c += 5) {
    bin_threads = c % 2 ? 100 : 1;
    all_new(c);
    const loaded_t *loaded = &cache.of[c];
    size_t count = 0;
    for (unsigned i = 0; i < 2000; i++) {
      poison_all(magazines.of[c].empties, poison);
      for (unsigned k = 0; k < DEPOT_SHARDS; k++)
        poison_all(depot_at(&bin.depots, k)->empties, poison);
      bool by_slabs = !loaded->top && !magazines.of[c].full && !depots_seem_filled(&bin.depots);
      if (by_slabs && loaded->below != MAGAZINE_SENTINEL)
        for (void **word = magazine_of(loaded->below + 1) + 1; word < loaded->below; word++)
          *word = poison;
      if (i / 300 % 2 && count) {
        give(live[--count]);
        continue;
      }
      live[count++] = allocate();
      void **below = loaded->below;
      if (!by_slabs || below == MAGAZINE_SENTINEL)
        continue;
      void **word = magazine_of(below + 1) + MAGAZINE_WORDS - 1;
      fewer += !loaded->top || word > below + 2;
      filled++;
      none_below(word, below, poison);
    }
    while (count)
      give(live[--count]);
    magazines_flush(&magazines, &bin);
    bin_drain(&bin);
  }
  bin_threads = 1;
  assert_true(filled > 100 && fewer > 10);
}

/* The same of a magazine that was empty when blocks were pushed to it, and is used up: above them are old words. The slabs have
 * a few blocks for it, or many. */
static void slabs_fill_what_was_pushed_to(void **state)
{
  (void)state;
  enum { MOST = 1 << 14 };
  static void *live[MOST];
  static char poison[16];
  unsigned filled = 0, fewer = 0;
  for (unsigned c = 1; c <= CLASS_CACHED; c += 8)
    for (unsigned spare = 0; spare < 20; spare += 3) {
      all_new(c);
      const loaded_t *loaded = &cache.of[c];
      size_t count = 0;
      while (count < 400 || loaded->top)
        live[count++] = allocate();
      magazines_flush(&magazines, &bin);
      for (size_t pushed = 3; pushed; pushed--)
        give(live[--count]);
      void **magazine = magazine_of(loaded->below), **last = magazine + MAGAZINE_WORDS - 1;
      for (void **word = loaded->below + 1; word < last; word++)
        *word = poison;
      size_t in_slabs = bin.capacity - bin.outstanding;
      while (in_slabs-- > spare) /* all others are a second thread's */
        count += bin_take(&bin, live + count, 1, NULL);
      while (loaded->top)
        live[count++] = allocate();
      live[count++] = allocate();
      none_below(last, loaded->below, poison);
      filled += magazine_of(loaded->below + 1) == magazine;
      fewer += last > loaded->below + 2;
      while (count)
        give(live[--count]);
      magazines_flush(&magazines, &bin);
      bin_drain(&bin);
      agrees(0);
    }
  assert_true(filled > 30 && fewer > 20);
}

/* ---- beside a reader ---- */

typedef void act_fn(void *block);

typedef struct owner {
  act_fn *act;
  void *block;
} owner_t;

static void *owner_acts(void *argument)
{
  owner_t *owner = argument;
  owner->act(owner->block);
  return NULL;
}

static void lock_bin(void (*act)(lock_t *))
{
  unsigned shards = depots_shards(&bin.depots); /* their number changes under the bin's lock */
  act(&bin.lock);
  for (unsigned i = 0; i < shards; i++)
    act(&depot_at(&bin.depots, i)->lock);
}

/* Lets another thread act until it waits for the bin; or until it is through, if it never gives its magazine away. */
static void act_until_it_waits(owner_t *owner, pthread_t *thread)
{
  enum { WAIT_STEPS = 20000 };
  loaded_t *loaded = &cache.of[bin.size_class];
  lock_bin(lock_acquire);
  assert_int_equal(pthread_create(thread, NULL, owner_acts, owner), 0);
  for (int i = 0; i < WAIT_STEPS && __atomic_load_n(&loaded->below, __ATOMIC_RELAXED) != MAGAZINE_SENTINEL; i++)
    usleep(1000);
}

static void go_on(pthread_t thread)
{
  lock_bin(lock_release);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void take_one(void *unused)
{
  (void)unused;
  allocate();
}

/* What is about to be the bin's may be another thread's before the owner goes on, so its record lists no more of it. */
static void given_is_not_listed(void **state)
{
  (void)state;
  enum { MOST = 200 };
  static void *blocks[MOST];
  for (unsigned c = 2; c <= 20; c += 6) {
    all_new(c);
    const loaded_t *loaded = &cache.of[c];
    size_t count = 0, held = 0;
    while (count < MOST)
      blocks[count++] = allocate();
    bin.stock_most = 0; /* a full magazine goes to the bin at once */
    while (count && (loaded->below == MAGAZINE_SENTINEL || !magazine_is_full_at(loaded->below + 1)))
      give(blocks[--count]);
    void **full = loaded->below, *top = loaded->top;
    size_t entries = magazine_entries(full);
    assert_true(count && entries && magazine_is_full_at(full + 1));
    pthread_t thread;
    act_until_it_waits(&(owner_t){give, blocks[--count]}, &thread);
    for (size_t i = 0; i < entries; i++)
      held += magazines_hold(&magazines, c, full[-(ptrdiff_t)i]);
    bool holds_top = magazines_hold(&magazines, c, top);
    go_on(thread);
    assert_int_equal(held, 0);
    assert_true(holds_top);
    while (count)
      give(blocks[--count]);
    magazines_flush(&magazines, &bin);
    bin_drain(&bin);
    agrees(0);
  }
}

static void used_up_is_not_listed(void **state)
{
  (void)state;
  all_new(9);
  loaded_t *loaded = &cache.of[9];
  do
    allocate();
  while (loaded->top);
  assert_true(loaded->below != MAGAZINE_SENTINEL && !magazines.of[9].full);
  pthread_t thread;
  act_until_it_waits(&(owner_t){take_one, NULL}, &thread);
  bool left = __atomic_load_n(&loaded->below, __ATOMIC_RELAXED) == MAGAZINE_SENTINEL;
  go_on(thread);
  assert_true(left && loaded->below != MAGAZINE_SENTINEL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(emptied_between_two_loads),     cmocka_unit_test(slabs_fill_what_is_clear),
    cmocka_unit_test(slabs_fill_what_was_pushed_to), cmocka_unit_test(given_is_not_listed),
    cmocka_unit_test(used_up_is_not_listed),
  };
  return cmocka_run_group_tests_name("magazine_reader", tests, NULL, NULL);
}
