/* SPDX-License-Identifier: MIT
 * What an address is in heaps that live in each other's memory. */
#include "addresses.h"

/* A guest in a block of another heap, with a part of the block on either side that is not its own. (In one of up to 32 KiB its
 * blocks would be taken for the other heap's by pool_free(), says heap.h.) */
static void in_a_block(void *argument)
{
  (void)argument;
  manager_up();
  pool_heap_t *heaps[] = {pool_heap_default(), new_heap((pool_heap_options_t){0}),
                          new_heap((pool_heap_options_t){.budget = 4 << 20}),
                          new_heap((pool_heap_options_t){.reserve = 20 << 20}), new_guest(buffer, sizeof buffer)};
  for (size_t h = 0; h < 5; h++)
    for (size_t size = 40000; size < 3 * MIB; size *= 4) {
      char *memory = pool_heap_alloc(heaps[h], size), *behind = memory + size - 1000;
      pool_heap_t *guest = new_guest(memory + 1000, size - 2000);
      char *block = pool_heap_alloc(guest, 500);
      must(block > memory && block < behind);
      is_block(guest, block, 500);
      must(pool_heap_of(memory) == heaps[h] && pool_in_use(memory) && pool_block_start(memory + 999, NULL) == memory);
      must(pool_heap_of(behind) == heaps[h] && pool_block_start(behind + 999, NULL) == memory);
      is_nobodys(guest, memory + 1000);
      is_nobodys(guest, behind - 1);
      pool_free(block);
      is_nobodys(guest, block);
      pool_heap_destroy(guest);
      is_block(heaps[h], memory, size);
      pool_heap_free(heaps[h], memory);
      must(check_everything());
    }
}

/* A guest that has a block for itself: the block's own address is the block, as it is to the heap that it is of. */
static bool is_the_block(const pool_block_t *block, void *context)
{
  if (block->start == context)
    must(pool_in_use(block->start) && pool_block_start(block->start, NULL) == block->start &&
         pool_usable_size(block->start) == block->size);
  return true;
}

static void fills_a_block(void *argument)
{
  const pool_heap_options_t *options = argument;
  manager_up();
  pool_heap_t *outer = new_heap(*options);
  for (size_t size = 40000; size < 6 * MIB && size < pool_heap_good_size(outer, size) + MIB; size *= 5) {
    char *memory = pool_heap_alloc(outer, size);
    must(memory);
    size_t usable = pool_usable_size(memory), said;
    pool_heap_t *guest = new_guest(memory, usable), *inner = NULL;
    char *within = pool_heap_alloc(guest, usable / 2);
    must(within && (inner = new_guest(within, usable / 2)) != NULL);
    char *block = pool_heap_alloc(inner, 100);
    must(pool_heap_of(memory) == outer && pool_in_use(memory) && pool_usable_size(memory) == usable);
    must(pool_block_start(memory, &said) == memory && said == usable);
    must(pool_heap_of(within) == guest && pool_in_use(within) && pool_block_start(within, NULL) == within);
    is_nobodys(guest, memory + 1);
    is_nobodys(inner, within + 1);
    is_block(inner, block, 100);
    must(pool_heap_walk(outer, is_the_block, memory) && pool_heap_walk(guest, is_the_block, within));
    pool_heap_destroy(inner);
    is_block(guest, within, usable / 2);
    pool_free(within);
    pool_heap_destroy(guest);
    guest = new_guest(memory, usable);
    must(pool_realloc(memory, usable) == memory);
    pool_heap_destroy(guest);
    is_block(outer, memory, usable);
    pool_free(memory);
    must(check_everything());
  }
  pool_heap_destroy(outer);
}
WITH(fills_a_block, pool_heap_options_t, {0}, {.budget = 7 << 20}, {.reserve = 40 << 20}, {.flags = POOL_HEAP_CHECKED})

/* A guest in memory that is no block answers for all of it. */
static void fills_no_block(void *argument)
{
  (void)argument;
  manager_up();
  pool_heap_t *guest = new_guest(buffer, 100000);
  is_nobodys(guest, buffer);
  is_nobodys(guest, buffer + 1);
  aborts_with(free_default, buffer, "not a block of any heap");
}

/* One in the other in the other, ended in any order. */
static void in_each_other(void *argument)
{
  enum { DEEP = 6 };
  const size_t *order = argument;
  pool_heap_t *guests[DEEP];
  char *memory[DEEP + 1], *blocks[DEEP];
  size_t sizes[DEEP + 1];
  bool gone[DEEP] = {0};
  manager_up();
  sizes[0] = 3 * MIB;
  memory[0] = pool_alloc(sizes[0]);
  for (size_t i = 0; i < DEEP; i++) {
    guests[i] = new_guest(memory[i], sizes[i]);
    blocks[i] = pool_heap_alloc(guests[i], 50);
    sizes[i + 1] = sizes[i] / 2;
    must((memory[i + 1] = pool_heap_alloc(guests[i], sizes[i + 1])) != NULL && blocks[i]);
  }
  for (size_t ended = 0; ended <= DEEP; ended++) {
    for (size_t i = 0; i < DEEP; i++) {
      size_t around = i + 1; /* whose the block of guest i's own memory is: the guest, or who is around it */
      while (around && gone[around - 1])
        around--;
      pool_heap_t *expected = around ? guests[around - 1] : pool_heap_default();
      must(pool_heap_of(blocks[i]) == expected);
      if (!gone[i])
        is_block(guests[i], blocks[i], 50);
    }
    if (ended < DEEP) {
      pool_heap_destroy(guests[order[ended]]);
      gone[order[ended]] = true;
    }
  }
  is_block(pool_heap_default(), memory[0], sizes[0]);
  pool_free(memory[0]);
  must(check_everything());
}

static void in_each_other_test(void **state)
{
  static const size_t orders[][6] = {
    {5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, 5}, {2, 4, 0, 5, 1, 3}, {3, 1, 5, 0, 4, 2}, {1, 0, 3, 2, 5, 4}};
  (void)state;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    in_child(in_each_other, (void *)(uintptr_t)orders[i]);
}

/* Very many beside and in each other, that come and go: the innermost is it. */
static void many_guests(void *argument)
{
  enum { GUESTS = 60, LEAST = 12000 };
  struct {
    pool_heap_t *heap;
    size_t from, to;
  } guests[GUESTS] = {{0}};
  dice_t dice = {*(const uint64_t *)argument};
  manager_up();
  for (size_t step = 0; step < 400; step++) {
    size_t i = dice_below(&dice, GUESTS);
    if (guests[i].heap) {
      bool around = false; /* one that has another in it cannot be asked to write its own records any more */
      for (size_t j = 0; j < GUESTS; j++)
        around |= j != i && guests[j].heap && guests[j].from >= guests[i].from && guests[j].to <= guests[i].to;
      if (!around) {
        pool_heap_destroy(guests[i].heap);
        guests[i].heap = NULL;
      }
    } else {
      /* In the free units of one that is there, or somewhere else altogether. */
      size_t in = dice_below(&dice, GUESTS), size = LEAST + dice_below(&dice, 300000),
             from = dice_below(&dice, sizeof buffer - size);
      if (guests[in].heap) {
        char *block = pool_heap_alloc(guests[in].heap, size = LEAST + dice_below(&dice, 60000));
        if (!block)
          continue;
        from = (size_t)(block - buffer);
      }
      bool apart = true;
      for (size_t j = 0; j < GUESTS; j++)
        apart &= !guests[j].heap || (guests[in].heap && guests[j].from <= from && guests[j].to >= from + size) ||
                 guests[j].to <= from || from + size <= guests[j].from;
      if (!apart || !(guests[i].heap = pool_heap_create(&(pool_heap_options_t){.memory = buffer + from, .memory_size = size})))
        continue;
      guests[i].from = from;
      guests[i].to = from + size;
    }
    for (size_t k = 0; k < 100; k++) {
      size_t at = dice_below(&dice, sizeof buffer), shortest = SIZE_MAX;
      pool_heap_t *expected = NULL;
      bool begins = false; /* a guest, where the block that it lives in may begin, too */
      for (size_t j = 0; j < GUESTS; j++)
        begins |= guests[j].heap && at == guests[j].from;
      if (begins)
        continue;
      for (size_t j = 0; j < GUESTS; j++)
        if (guests[j].heap && at - guests[j].from < guests[j].to - guests[j].from && guests[j].to - guests[j].from < shortest) {
          shortest = guests[j].to - guests[j].from;
          expected = guests[j].heap;
        }
      must(pool_heap_of(buffer + at) == expected);
    }
  }
  must(check_everything());
}

static void many_guests_test(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++)
    in_child(many_guests, &seed);
}

IN_CHILD(in_a_block)
IN_CHILD(fills_no_block)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(in_a_block_test),    cmocka_unit_test(fills_a_block_test), cmocka_unit_test(fills_no_block_test),
    cmocka_unit_test(in_each_other_test), cmocka_unit_test(many_guests_test),
  };
  return cmocka_run_group_tests_name("locate_guests", tests, NULL, NULL);
}
