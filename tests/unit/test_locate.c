/* SPDX-License-Identifier: MIT
 * What an address is: any address, in blocks of every kind, beside them, after they were freed. */
#include "addresses.h"
#include "heap/heap.h"
#include <pthread.h>
#include <unistd.h>

/* ---- blocks of one heap ---- */

static void of_the_heap(pool_heap_t *heap, bool freed_is_known)
{
  for (size_t size = 1; size < 12 * MIB; size = size * 5 / 3 + 7) {
    char *block = pool_heap_alloc(heap, size), *behind = pool_heap_alloc(heap, size);
    if (!behind) {
      pool_heap_free(heap, block);
      break;
    }
    is_block(heap, block, size);
    is_block(heap, behind, size);
    pool_heap_free(heap, block);
    must(!pool_in_use(block) && !pool_in_use(block + size - 1) && !pool_block_start(block, NULL));
    must(!freed_is_known || size > 4 * MIB || pool_heap_of(block) == heap);
    is_block(heap, behind, size);
    pool_heap_free(heap, behind);
  }
  must(check_everything());
}

static void of_every_kind(void *argument)
{
  (void)argument;
  manager_up();
  of_the_heap(pool_heap_default(), false);
  pool_heap_options_t kinds[] = {{0},
                                 {.budget = 300 << 10},
                                 {.budget = 7 << 20},
                                 {.budget = 40 << 20},
                                 {.reserve = 5 << 20},
                                 {.reserve = 30 << 20},
                                 {.flags = POOL_HEAP_SINGLE_THREAD},
                                 {.flags = POOL_HEAP_ZERO_ON_FREE},
                                 {.memory = buffer + 5, .memory_size = 4 << 20},
                                 {.memory = buffer + 64, .memory_size = 100000}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    pool_heap_t *heap = new_heap(kinds[i]);
    of_the_heap(heap, heap->region.kind);
    pool_heap_destroy(heap);
  }
}

/* The requested bytes of a checked heap's block are in use, and no more. */
static void of_a_checked_heap(void *argument)
{
  (void)argument;
  manager_up();
  pool_heap_t *heap = new_heap((pool_heap_options_t){.flags = POOL_HEAP_CHECKED});
  for (size_t size = 1; size < MIB; size = size * 3 + 1) {
    char *block = pool_heap_alloc(heap, size);
    is_block(heap, block, size);
    must(pool_usable_size(block) == size && !pool_in_use(block + size));
    pool_heap_free(heap, block);
    must(!pool_in_use(block));
  }
  char *empty = pool_heap_alloc(heap, 0);
  must(pool_in_use(empty) && !pool_in_use(empty + 1));
  pool_heap_destroy(heap);
}

/* The free parts of a region, its records, and the region itself once it is gone. */
static void around_a_region(void *argument)
{
  const pool_heap_options_t *options = argument;
  manager_up();
  pool_heap_t *heap = new_heap(*options);
  char *block = pool_heap_alloc(heap, 100), *region = heap->region.start, *end = region + heap->region.size;
  end = !heap_is_guest(heap) && heap->region.run ? (char *)round_up((uintptr_t)end, UNIT)
                                                 : end; /* the last unit is its own to the end */
  for (char *at = region; at < end; at += 997)
    must((at >= block && at < block + 112) || (!pool_in_use(at) && pool_heap_of(at) == heap));
  must(pool_heap_of(end - 1) == heap && pool_heap_of(region) == heap);
  must(pool_heap_of(end) != heap && pool_heap_of(region - 1) != heap && !pool_in_use(end) && !pool_in_use(region - 1));
  pool_heap_destroy(heap);
  must(pool_heap_of(block) != heap && pool_heap_of(region) != heap && !pool_in_use(block));
  must(check_everything());
}

static void around_a_region_test(void **state)
{
  static const pool_heap_options_t kinds[] = {{.budget = 100 << 10},
                                              {.budget = 3 << 20},
                                              {.budget = 8 << 20},
                                              {.reserve = 4 << 20},
                                              {.reserve = 6 << 20},
                                              {.reserve = 50 << 20},
                                              {.memory = buffer + 7, .memory_size = 50000},
                                              {.memory = buffer, .memory_size = 6 << 20}};
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    in_child(around_a_region, (void *)(uintptr_t)&kinds[i]);
}

/* ---- the default heap's ---- */

static void in_magazines_and_spares(void *argument)
{
  enum { FEW = 200 };
  char *blocks[FEW];
  (void)argument;
  manager_up();
  static const size_t sizes[] = {16, 100, 1000, 8000, 30000, 50000, 300000};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    for (size_t i = 0; i < FEW; i++)
      must((blocks[i] = pool_alloc(sizes[s])) != NULL);
    for (size_t i = 0; i < FEW; i += 2)
      pool_free(blocks[i]);
    for (size_t i = 0; i < FEW; i++)
      must(pool_in_use(blocks[i]) == i % 2 && (pool_block_start(blocks[i] + 5, NULL) == blocks[i]) == i % 2);
    pool_trim(0);
    for (size_t i = 0; i < FEW; i++)
      must(pool_in_use(blocks[i]) == i % 2);
    for (size_t i = 1; i < FEW; i += 2)
      pool_free(blocks[i]);
    for (size_t i = 0; i < FEW; i++)
      must(!pool_in_use(blocks[i]));
  }
}

static void anything_at_all(void *argument)
{
  dice_t dice = {4};
  manager_up();
  pool_heap_t *guest = new_guest(buffer, sizeof buffer), *slots = new_heap((pool_heap_options_t){.reserve = 20 << 20});
  struct {
    char *block;
    size_t size;
  } live[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    live[i].size = 1 + dice_below(&dice, (size_t)16 << dice_below(&dice, 14));
    pool_heap_t *heap = i % 3 == 0 ? guest : i % 3 == 1 ? slots : pool_heap_default();
    if ((live[i].block = pool_heap_alloc(heap, live[i].size)) != NULL)
      live[i].size = pool_usable_size(live[i].block);
  }
  must(!pool_in_use(argument) && !pool_heap_of(NULL) && !pool_heap_of((void *)UINTPTR_MAX) && !pool_heap_of(&dice) &&
       !pool_heap_of((void *)(uintptr_t)new_guest));
  must(!pool_in_use(class_window.map) && !pool_in_use(guest) && pool_heap_of(guest) == guest && !pool_heap_of(slots));
  for (size_t i = 0; i < 200000; i++) {
    const char *near = live[dice_below(&dice, BLOCKS)].block;
    uintptr_t any = dice_roll(&dice) >> dice_below(&dice, 64);
    const char *address = (const char *)(any + (dice_below(&dice, 4)   ? (uintptr_t)near
                                                : dice_below(&dice, 2) ? class_window.start
                                                                       : 0));
    char *start = NULL;
    for (size_t j = 0; j < BLOCKS; j++)
      if (live[j].block && (size_t)(address - live[j].block) < live[j].size)
        start = live[j].block;
    must(pool_in_use(address) == (start != NULL) && pool_block_start(address, NULL) == start);
  }
}

/* ---- misuse ---- */

static void free_of_guest(void *block) { pool_heap_free(pool_heap_of(block), block); }

static void told_apart(void *argument)
{
  (void)argument;
  manager_up();
  pool_heap_t *guest = new_guest(buffer, 5 << 20), *region = new_heap((pool_heap_options_t){.reserve = 20 << 20});
  pool_heap_t *heaps[] = {guest, region, new_heap((pool_heap_options_t){0})};
  for (size_t h = 0; h < 3; h++)
    for (size_t size = 100; size < 2 * MIB; size *= 100) {
      char *block = pool_heap_alloc(heaps[h], size), *behind = pool_heap_alloc(heaps[h], size);
      must(block && behind);
      aborts_with(free_default, block + 16, "not a block of any heap");
      aborts_with(free_default, block + 1, "not a block of any heap");
      aborts_with(free_of_guest, block + size / 2, "not a block of any heap");
      pool_free(block);
      pool_heap_trim(heaps[h], SIZE_MAX);
      aborts_with(free_default, block, "freed twice");
      must(pool_in_use(behind));
    }
  aborts_with(free_default, buffer + (5 << 20) - 16, "not a block of any heap");
  aborts_with(free_default, &heaps, "not a block of any heap");
}

/* ---- beside threads ---- */

static void *is_in_use(void *block) { return pool_in_use(block) ? block : NULL; }

/* A free block that goes from a thread into a depot, or into its slab, behind the first look there is found by the second. */
static void on_its_way(void *argument)
{
  const size_t *into_slab = argument;
  pthread_t thread;
  void *answer;
  manager_up();
  must(pthread_create(&thread, NULL, is_in_use, NULL) == 0 && pthread_join(thread, NULL) == 0); /* locks are real now */
  bin_t *bin = heap_bin(&default_heap, size_class_of(100));
  must(bin);
  void **top = bin_exchange_empty(bin, NULL, bin->magazine_capacity, 0), *block = *top;
  must(top && pool_in_use(block)); /* nobody has the magazine, so its blocks seem to be with callers */
  lock_acquire(&threads_lock);
  must(pthread_create(&thread, NULL, is_in_use, block) == 0);
  while (__atomic_load_n(&threads_lock.word, __ATOMIC_RELAXED) != 2) /* the question has come as far as the threads */
    usleep(1000);
  if (*into_slab) {
    bin_put(bin, top - magazine_entries(top) + 1, magazine_entries(top));
    bin_drop_magazine(bin, top, 0);
  } else
    bin_give_magazine(bin, top, 0);
  lock_release(&threads_lock);
  must(pthread_join(thread, &answer) == 0 && !answer && check_everything());
}

IN_CHILD(of_every_kind)
IN_CHILD(of_a_checked_heap)
IN_CHILD(in_magazines_and_spares)
IN_CHILD(anything_at_all)
WITH(on_its_way, size_t, false, true)

IN_CHILD(told_apart)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_every_kind_test),   cmocka_unit_test(of_a_checked_heap_test),
    cmocka_unit_test(around_a_region_test), cmocka_unit_test(in_magazines_and_spares_test),
    cmocka_unit_test(anything_at_all_test), cmocka_unit_test(on_its_way_test),
    cmocka_unit_test(told_apart_test),
  };
  return cmocka_run_group_tests_name("locate", tests, NULL, NULL);
}
