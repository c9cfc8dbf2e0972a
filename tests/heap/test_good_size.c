/* SPDX-License-Identifier: MIT
 * What pool_heap_good_size() says of a size can be used of a block of that size, in heaps of all kinds. */
#include "heaps.h"
#include <sys/mman.h>

enum { BLOCKS = 60, MEMORY = 12 << 20 };

static size_t classes[8];

/* Ascending multiples of 16. */
static size_t draw_classes(dice_t *dice)
{
  size_t count = 1 + dice_below(dice, COUNT_OF(classes)), last = 0;
  for (size_t i = 0; i < count; i++)
    last = classes[i] = last + 16 * (1 + dice_below(dice, 1 + ((size_t)1 << dice_below(dice, 11))));
  return count;
}

static size_t draw_size(dice_t *dice, unsigned log2) { return dice_below(dice, (size_t)1 << dice_below(dice, log2)); }

static pool_heap_t *draw_heap(dice_t *dice, char *memory, pool_heap_t *overflow, pool_heap_options_t *o)
{
  static const unsigned flags[] = {0, POOL_HEAP_SINGLE_THREAD, POOL_HEAP_ZERO_ON_FREE, POOL_HEAP_DENSE};
  *o = (pool_heap_options_t){.flags = flags[dice_below(dice, COUNT_OF(flags))], .overflow = overflow};
  if (dice_below(dice, 3) == 0) {
    o->size_class_count = draw_classes(dice);
    o->size_classes = classes;
  }
  switch (dice_below(dice, 5)) {
  case 0:
    o->memory = memory + dice_below(dice, 100);
    o->memory_size = 2000 + draw_size(dice, 24) % (MEMORY - 2100);
    break;
  case 1:
    o->reserve = 1 + draw_size(dice, 24);
    break;
  case 2:
    o->budget = 30000 + draw_size(dice, 25);
    break;
  case 3:
    o->reserve = 1 + draw_size(dice, 23);
    o->budget = o->reserve + 30000 + draw_size(dice, 23);
    break;
  default:
    break;
  }
  return pool_heap_create(o);
}

typedef struct drawn {
  unsigned char *block;
  size_t good, key;
} drawn_t;

static void all_hold(const drawn_t *drawn, size_t count)
{
  for (size_t i = 0; i < count; i++)
    must(pattern_holds(drawn[i].block, drawn[i].good, drawn[i].key));
}

static void write_good_sizes(dice_t *dice, pool_heap_t *heap, const pool_heap_options_t *o)
{
  drawn_t drawn[BLOCKS];
  size_t count = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t size = draw_size(dice, 22), good = pool_heap_good_size(heap, size);
    must(good >= size && pool_heap_good_size(heap, good) == good);
    unsigned char *block = pool_heap_alloc(heap, opaque(size));
    if (!block)
      continue;
    if (pool_usable_size(block) < good)
      fprintf(stderr, "flags %x, budget %zu, reserve %zu, memory %zu, %zu classes: good_size(%zu) is %zu, usable %zu\n",
              o->flags, o->budget, o->reserve, o->memory_size, o->size_class_count, size, good, pool_usable_size(block));
    must(pool_usable_size(block) >= good);
    drawn[count] = (drawn_t){block, good, i};
    pattern_write(block, good, i);
    count++;
    if (i % 8 == 7 && count) {
      drawn_t *last = &drawn[--count];
      must(pattern_holds(last->block, last->good, last->key));
      pool_heap_free(heap, last->block);
    }
  }
  all_hold(drawn, count);
  while (count)
    pool_heap_free(heap, drawn[--count].block);
  must(check_heap(heap));
}

static void random_heaps(void **state)
{
  (void)state;
  enum { TIMES = 300 };
  dice_t dice = {7};
  char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  size_t heaps = 0, with_overflow = 0;
  for (int i = 0; i < TIMES; i++) {
    pool_heap_options_t o, of_overflow;
    pool_heap_t *overflow = i % 3 ? NULL : draw_heap(&dice, memory, NULL, &of_overflow);
    if (overflow && of_overflow.memory) {
      pool_heap_destroy(overflow);
      overflow = NULL;
    }
    pool_heap_t *heap = draw_heap(&dice, memory, overflow, &o);
    if (heap)
      write_good_sizes(&dice, heap, &o);
    heaps += heap != NULL;
    with_overflow += heap && overflow;
    pool_heap_destroy(heap);
    pool_heap_destroy(overflow);
  }
  assert_true(heaps > TIMES / 2 && with_overflow > TIMES / 10);
  munmap(memory, MEMORY);
}

/* A size that is none is what it was, and a good size is one, of the default heap, too. */
static void of_the_default_heap(void **state)
{
  (void)state;
  pool_heap_options_t none = {0};
  dice_t dice = {8};
  for (int i = 0; i < 20; i++)
    write_good_sizes(&dice, pool_heap_default(), &none);
  assert_true(pool_heap_good_size(pool_heap_default(), SIZE_MAX) == SIZE_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_heaps), cmocka_unit_test(of_the_default_heap)};
  return cmocka_run_group_tests_name("good_size", tests, NULL, NULL);
}
