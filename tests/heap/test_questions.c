/* SPDX-License-Identifier: MIT
 * A question changes nothing: whoever asks a heap for its figures leaves those of all heaps as they were. */
#include "../dice.h"
#include "../unit/json.h"
#include "heaps.h"

enum { BLOCKS = 700 };

static void adds_up(const pool_stats_t *s)
{
  assert_int_equal(s->held_bytes, s->live_bytes + s->cached_bytes + s->idle_bytes + s->metadata_bytes + s->children_bytes);
}

static void are_the_same(const pool_stats_t *a, const pool_stats_t *b)
{
  assert_int_equal(a->budget, b->budget);
  assert_int_equal(a->held_bytes, b->held_bytes);
  assert_int_equal(a->peak_held_bytes, b->peak_held_bytes);
  assert_int_equal(a->live_bytes, b->live_bytes);
  assert_int_equal(a->live_blocks, b->live_blocks);
  assert_int_equal(a->cached_bytes, b->cached_bytes);
  assert_int_equal(a->idle_bytes, b->idle_bytes);
  assert_int_equal(a->metadata_bytes, b->metadata_bytes);
  assert_int_equal(a->children_bytes, b->children_bytes);
  assert_int_equal(a->exhausted_count, b->exhausted_count);
  assert_int_equal(a->retried_count, b->retried_count);
  assert_int_equal(a->overflowed_count, b->overflowed_count);
  assert_int_equal(a->purged_bytes, b->purged_bytes);
  assert_int_equal(a->largest_free, b->largest_free);
  assert_int_equal(a->fragmentation, b->fragmentation);
}

enum { FAMILY = 3 };

/* The sums hold at the first question already, and the last one has the answer of the first. The parent comes first: what it
 * says of its child is what the child says after. */
static void ask_all(pool_heap_t *const *heaps)
{
  pool_stats_t first[FAMILY];
  for (size_t i = 0; i < FAMILY; i++)
    first[i] = stats_of(heaps[i]);
  assert_int_equal(first[0].children_bytes, first[1].held_bytes);
  for (size_t i = 0; i < FAMILY; i++) {
    adds_up(&first[i]);
    json_read_heap(heaps[i]);
    assert_int_equal(json_number("held_bytes"), first[i].held_bytes);
    assert_int_equal(json_number("children_bytes"), first[i].children_bytes);
    assert_int_equal(json_number("idle_bytes"), first[i].idle_bytes);
    assert_int_equal(json_number("live_bytes"), first[i].live_bytes);
  }
  json_read_process();
  for (size_t i = FAMILY; i-- > 0;) {
    pool_stats_t last = stats_of(heaps[i]);
    are_the_same(&first[i], &last);
  }
}

typedef struct family {
  pool_heap_t *heaps[FAMILY]; /* a parent, its child, and the default heap */
  bool exact;                 /* neither a budget above the child's nor quarantine makes its largest request another */
  uint64_t dice;
  size_t live[BLOCKS], count; /* which blocks are there */
  void *blocks[BLOCKS];
} family_t;

static size_t any_length(uint64_t *dice)
{
  static const size_t most[] = {64, 520, 520, 4000, 20000};
  return 1 + below(dice, most[below(dice, COUNT_OF(most))]);
}

/* This call frees what is kept and in quarantine. */
static void largest_is_no_less(family_t *family)
{
  size_t said = stats_of(family->heaps[1]).largest_free, largest = pool_heap_largest(family->heaps[1]);
  assert_true(said <= largest);
  assert_true(!family->exact || said == largest);
  ask_all(family->heaps);
}

/* Every eighth block is the parent's. */
static void free_one(family_t *family)
{
  size_t *at = &family->live[below(&family->dice, family->count)], i = *at;
  pool_heap_free(family->heaps[i % 8 != 0], family->blocks[i]);
  *at = family->live[--family->count];
}

static void live_and_ask(family_t *family)
{
  for (size_t i = 0; i < BLOCKS; i++) {
    family->live[i] = i;
    family->blocks[i] = pool_heap_alloc(family->heaps[i % 8 != 0], any_length(&family->dice));
  }
  for (family->count = BLOCKS; family->count;) {
    free_one(family);
    if (family->count % 32 == 0 || family->count < 8)
      ask_all(family->heaps);
    if (family->count % 96 == 0)
      largest_is_no_less(family);
  }
  assert_true(check_heap(family->heaps[0]) && check_heap(family->heaps[1]));
}

static char asked_memory[8 << 20];

static const pool_heap_options_t asked[] = {
  {0},
  {.flags = POOL_HEAP_SINGLE_THREAD},
  {.flags = POOL_HEAP_ZERO_ON_FREE},
  {.flags = POOL_HEAP_SITES},
  {.budget = 64 << 10},
  {.budget = 700 << 10},
  {.budget = 1 << 20},
  {.budget = 1 << 20, .flags = POOL_HEAP_SINGLE_THREAD},
  {.budget = 1 << 20, .flags = POOL_HEAP_ZERO_ON_FREE},
  {.budget = 8 << 20, .flags = POOL_HEAP_DENSE},
  {.budget = 8 << 20, .flags = POOL_HEAP_DENSE | POOL_HEAP_SINGLE_THREAD},
  {.budget = 6 << 20},
  {.budget = 64 << 20},
  {.reserve = 1 << 20},
  {.reserve = 12 << 20},
  {.memory = asked_memory, .memory_size = 64 << 10},
  {.memory = asked_memory, .memory_size = 1 << 20},
  {.memory = asked_memory, .memory_size = sizeof asked_memory},
  {.memory = asked_memory, .memory_size = sizeof asked_memory, .budget = 600 << 10},
  {.flags = POOL_HEAP_CHECKED},
  {.budget = 1 << 20, .flags = POOL_HEAP_CHECKED},
  {.budget = 64 << 20, .flags = POOL_HEAP_CHECKED},
};
static const pool_heap_options_t asked_parents[] = {
  {0}, {.budget = 600 << 10}, {.budget = 1 << 20}, {.budget = 4 << 20, .flags = POOL_HEAP_DENSE}, {.budget = 64 << 20}};

static void questions_change_nothing(void **state)
{
  (void)state;
  json_needed();
  for (size_t p = 0; p < COUNT_OF(asked_parents); p++)
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
      pool_heap_options_t options = asked[i];
      static family_t family;
      pool_heap_t *parent = heap_with(asked_parents[p]);
      options.parent = parent;
      pool_heap_t *child = pool_heap_create(&options);
      if (child) {
        bool bounded = asked_parents[p].budget || (options.memory && options.budget);
        family = (family_t){.heaps = {parent, child, pool_heap_default()},
                            .exact = !bounded && !(options.flags & POOL_HEAP_CHECKED),
                            .dice = p << 8 | i};
        live_and_ask(&family);
        pool_heap_destroy(child);
      }
      pool_heap_destroy(parent);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(questions_change_nothing)};
  return cmocka_run_group_tests_name("questions", tests, NULL, NULL);
}
