/* SPDX-License-Identifier: MIT
 * What ends the program: a heap that is none, blocks of another heap, blocks freed twice. One line names call and address. */
#include "heaps.h"
#include <tidepool/object_pool.h>

/* ---- a heap that was destroyed ---- */

static void do_alloc(pool_heap_t *heap) { (void)!pool_heap_alloc(heap, 10); }
static void do_alloc_medium(pool_heap_t *heap) { (void)!pool_heap_alloc(heap, 10000); }
static void do_zalloc(pool_heap_t *heap) { (void)!pool_heap_zalloc(heap, 10); }
static void do_calloc(pool_heap_t *heap) { (void)!pool_heap_calloc(heap, 10, 10); }
static void do_realloc(pool_heap_t *heap) { (void)!pool_heap_realloc(heap, NULL, 10); }
static void do_aligned_alloc(pool_heap_t *heap) { (void)!pool_heap_aligned_alloc(heap, 64, 10); }
static void do_free(pool_heap_t *heap) { pool_heap_free(heap, pool_alloc(10)); }
static void do_trim(pool_heap_t *heap) { pool_heap_trim(heap, 0); }
static void do_reset(pool_heap_t *heap) { pool_heap_reset(heap); }
static void do_destroy(pool_heap_t *heap) { pool_heap_destroy(heap); }
static void do_set_budget(pool_heap_t *heap) { pool_heap_set_budget(heap, 1 << 20); }
static void do_walk(pool_heap_t *heap) { pool_heap_walk(heap, visit_nothing, NULL); }
static void do_stats(pool_heap_t *heap) { stats_of(heap); }
static void do_name(pool_heap_t *heap) { (void)!pool_heap_name(heap); }
static void do_json(pool_heap_t *heap) { pool_heap_stats_json(heap, NULL, 0); }
static void do_good_size(pool_heap_t *heap) { pool_heap_good_size(heap, 10); }
static void do_object_pool(pool_heap_t *heap)
{
  (void)!object_pool_create(&(object_pool_options_t){.object_size = 10, .capacity = 10, .heap = heap});
}
static void do_parent(pool_heap_t *heap) { heap_with((pool_heap_options_t){.parent = heap}); }
static void do_overflow(pool_heap_t *heap) { heap_with((pool_heap_options_t){.overflow = heap}); }

static const struct {
  const char *call;
  void (*act)(pool_heap_t *);
} calls[] = {
  {"pool_heap_alloc", do_alloc},
  {"pool_heap_alloc", do_alloc_medium},
  {"pool_heap_zalloc", do_zalloc},
  {"pool_heap_calloc", do_calloc},
  {"pool_heap_realloc", do_realloc},
  {"pool_heap_aligned_alloc", do_aligned_alloc},
  {"pool_heap_free", do_free},
  {"pool_heap_trim", do_trim},
  {"pool_heap_reset", do_reset},
  {"pool_heap_destroy", do_destroy},
  {"pool_heap_set_budget", do_set_budget},
  {"pool_heap_walk", do_walk},
  {"pool_heap_stats", do_stats},
  {"pool_heap_name", do_name},
  {"pool_heap_stats_json", do_json},
  {"pool_heap_create", do_parent},
  {"pool_heap_create", do_overflow},
  {"pool_heap_good_size", do_good_size},
  {"object_pool_create", do_object_pool},
};

typedef struct destroyed {
  void (*act)(pool_heap_t *);
  pool_heap_options_t options;
} destroyed_t;

static void use_destroyed(void *argument)
{
  const destroyed_t *destroyed = argument;
  pool_heap_t *heap = heap_with(destroyed->options), *volatile gone = heap;
  must(pool_heap_alloc(heap, 10));
  pool_heap_destroy(heap);
  destroyed->act(gone);
}

static void destroyed_heap(void **state)
{
  (void)state;
  static char buffer[64 << 10];
  static const pool_heap_options_t kinds[] = {
    {.budget = 0}, {.memory = buffer, .memory_size = sizeof buffer}, {.budget = 1 << 20}};
  char words[80];
  for (size_t i = 0; i < COUNT_OF(calls); i++)
    for (size_t kind = 0; kind < COUNT_OF(kinds); kind++) {
      snprintf(words, sizeof words, "tidepool: %s(0x", calls[i].call);
      aborts_with(use_destroyed, &(destroyed_t){calls[i].act, kinds[kind]}, words);
      aborts_with(use_destroyed, &(destroyed_t){calls[i].act, kinds[kind]}, "): not a live heap\n");
    }
}

static void use_no_heap(void *argument)
{
  static uint64_t nothing[1024];
  ((const destroyed_t *)argument)->act((pool_heap_t *)nothing);
}

static void no_heap_at_all(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(calls); i++)
    aborts_with(use_no_heap, &(destroyed_t){calls[i].act, {0}}, "): not a live heap\n");
}

static void end_the_default(void *act) { ((const destroyed_t *)act)->act(pool_heap_default()); }

static void the_default_heap_has_no_end(void **state)
{
  (void)state;
  aborts_with(end_the_default, &(destroyed_t){do_destroy, {0}}, "tidepool: pool_heap_destroy(0x");
  aborts_with(end_the_default, &(destroyed_t){do_reset, {0}}, "tidepool: pool_heap_reset(0x");
}

/* ---- blocks of another heap ---- */

typedef struct mistake {
  pool_heap_options_t options, of_other;
  size_t size;
} mistake_t;

/* Seen at the latest when the magazine it went to is emptied. */
static void free_in_another_heap(void *argument)
{
  const mistake_t *m = argument;
  pool_heap_t *heap = heap_with(m->options), *other = heap_with(m->of_other);
  must(pool_heap_alloc(heap, m->size));
  pool_heap_free(heap, pool_heap_alloc(other, m->size));
  pool_heap_trim(heap, 0);
}

static void realloc_in_another_heap(void *argument)
{
  const mistake_t *m = argument;
  pool_heap_t *heap = heap_with(m->options), *other = heap_with(m->of_other);
  (void)!pool_heap_realloc(heap, pool_heap_alloc(other, m->size), m->size * 2);
}

static void free_a_block_of_the_default_heap(void *argument)
{
  const mistake_t *m = argument;
  pool_heap_t *heap = heap_with(m->options);
  must(pool_heap_alloc(heap, m->size));
  pool_heap_free(heap, pool_alloc(m->size));
}

static void block_of_another_heap(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds[] = {
    {.budget = 0}, {.budget = 1 << 20}, {.flags = POOL_HEAP_CHECKED}, {.flags = POOL_HEAP_ZERO_ON_FREE}};
  static const size_t sizes[] = {40, 3000, 100000, 500000};
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    for (size_t j = 0; j < COUNT_OF(kinds); j++)
      for (size_t k = 0; k < COUNT_OF(sizes); k += 1 + (i == j)) {
        mistake_t m = {kinds[i], kinds[j], sizes[k]};
        aborts_with(free_in_another_heap, &m, "a block of a");
        aborts_with(realloc_in_another_heap, &m, "): a block of another heap: a block of ");
      }
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    aborts_with(free_a_block_of_the_default_heap, &(mistake_t){.options = kinds[i], .size = 40},
                "): a block of another heap: a block of ");
}

/* ---- realloc of what is no live block, also where the default heap is named ---- */

static pool_heap_t *heap_or_default(const mistake_t *m) { return m->size ? heap_with(m->options) : pool_heap_default(); }

static void realloc_within_a_block(void *argument)
{
  pool_heap_t *heap = heap_or_default(argument);
  char *block = pool_heap_alloc(heap, 200);
  (void)!pool_heap_realloc(heap, block + 16, 400);
}

static void realloc_what_went_back(void *argument)
{
  pool_heap_t *heap = heap_or_default(argument);
  void *block = pool_heap_alloc(heap, 200);
  must(pool_heap_alloc(heap, 200));
  pool_heap_free(heap, block);
  pool_heap_trim(heap, 0);
  (void)!pool_heap_realloc(heap, block, 200);
}

/* A block of the other size is at hand, so this one moves, and is freed a second time. */
static void realloc_the_last_freed(void *argument)
{
  pool_heap_t *heap = heap_or_default(argument);
  pool_heap_free(heap, pool_heap_alloc(heap, 400));
  void *block = pool_heap_alloc(heap, 200);
  pool_heap_free(heap, block);
  (void)!pool_heap_realloc(heap, block, 400);
}

static void reallocs_of_no_live_block(void **state)
{
  (void)state;
  static const mistake_t kinds[] = {{.size = 0}, {.size = 1}, {.options = {.budget = 64 << 20}, .size = 1}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    mistake_t m = kinds[i];
    aborts_with(realloc_within_a_block, &m, "pool_heap_realloc(");
    aborts_with(realloc_what_went_back, &m, "): already freed: a block of ");
    aborts_with(realloc_the_last_freed, &m, "pool_heap_realloc(");
  }
}

/* ---- no blocks ---- */

static void free_what_is_none(void *argument)
{
  static char nothing[64];
  const mistake_t *m = argument;
  pool_heap_free(heap_with(m->options), nothing + m->size);
}

static void free_inside(void *argument)
{
  const mistake_t *m = argument;
  pool_heap_t *heap = heap_with(m->options);
  char *block = pool_heap_alloc(heap, 400);
  pool_heap_free(heap, block + m->size);
  pool_heap_trim(heap, 0);
}

static void free_twice(void *argument)
{
  const mistake_t *m = argument;
  pool_heap_t *heap = heap_with(m->options);
  void *block = pool_heap_alloc(heap, m->size), *volatile again = block;
  must(pool_heap_alloc(heap, m->size));
  pool_heap_free(heap, block);
  pool_heap_free(heap, again);
  pool_heap_trim(heap, 0);
}

static void free_after_destroy(void *argument)
{
  const mistake_t *m = argument;
  pool_heap_t *heap = heap_with(m->options);
  void *block = pool_heap_alloc(heap, m->size), *volatile gone = block;
  pool_heap_destroy(heap);
  pool_free(gone);
}

static void not_a_block(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds[] = {
    {.budget = 0}, {.budget = 1 << 20}, {.budget = 64 << 20}, {.flags = POOL_HEAP_CHECKED}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    mistake_t m = {.options = kinds[i]};
    aborts_with(free_what_is_none, &m, "): not a block of any heap");
    m.size = 16;
    aborts_with(free_inside, &m, "): not a block of any heap");
    m.size = 40;
    aborts_with(free_twice, &m, "): freed twice");
    aborts_with(free_after_destroy, &m, "): not a block of any heap");
    m.size = 100000; /* its memory may be nobody's by then */
    aborts_with(free_twice, &m, "tidepool: pool_heap_free(0x");
  }
}

/* ---- a heap that others count on ---- */

static void destroy_parent(void *unused)
{
  (void)unused;
  pool_heap_t *parent = heap_with_budget(4 << 20);
  heap_with((pool_heap_options_t){.parent = parent});
  pool_heap_destroy(parent);
}

static void destroy_overflow(void *unused)
{
  (void)unused;
  pool_heap_t *overflow = heap_with_budget(4 << 20);
  heap_with((pool_heap_options_t){.overflow = overflow});
  pool_heap_destroy(overflow);
}

static void used_by_others(void **state)
{
  (void)state;
  aborts_with(destroy_parent, NULL, "still the parent or the overflow of a live heap");
  aborts_with(destroy_overflow, NULL, "still the parent or the overflow of a live heap");
  pool_heap_t *parent = heap_with_budget(4 << 20),
              *child = heap_with((pool_heap_options_t){.parent = parent, .overflow = parent});
  pool_heap_destroy(child);
  pool_heap_destroy(parent);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(destroyed_heap),
    cmocka_unit_test(no_heap_at_all),
    cmocka_unit_test(the_default_heap_has_no_end),
    cmocka_unit_test(block_of_another_heap),
    cmocka_unit_test(not_a_block),
    cmocka_unit_test(used_by_others),
    cmocka_unit_test(reallocs_of_no_live_block),
  };
  return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
