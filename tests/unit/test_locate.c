/* SPDX-License-Identifier: MIT
 * What an address is: any address, in blocks of every kind, beside them, after they were freed, in heaps that live in each other's
 * memory. */
#include "heap/heap_life.h"
#include "os_fake.h"
#include "unit.h"
#include <pthread.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>

enum { BLOCKS = 300 };

static _Alignas(4096) char buffer[6 << 20];

static void bring_up(void)
{
  os_fake_heal();
  pool_free(pool_alloc(1));
}

static pool_heap_t *new_heap(pool_heap_options_t options)
{
  pool_heap_t *heap = pool_heap_create(&options);
  must(heap && check_everything());
  return heap;
}

static pool_heap_t *new_guest(void *memory, size_t size) { return new_heap((pool_heap_options_t){.memory = memory, .memory_size = size}); }

static void is_block(pool_heap_t *heap, char *block, size_t size)
{
  size_t usable = pool_usable_size(block), said, step = max_size(usable / 300, 1);
  must(usable >= size);
  for (size_t at = 0; at < usable; at += at + 64 > usable || at < 64 ? 1 : step) {
    must(pool_in_use(block + at) && pool_block_start(block + at, &said) == block && said == usable);
    must(pool_heap_of(block + at) == heap);
  }
}

/* Of the heap, but no block. */
static void is_nobodys(const pool_heap_t *heap, const char *address)
{
  size_t said = 5;
  must(!pool_in_use(address) && !pool_block_start(address, &said) && said == 5 && !pool_block_start(address, NULL));
  must(pool_heap_of(address) == heap);
}

static void free_default(void *block) { pool_free(block); }

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
  bring_up();
  of_the_heap(pool_heap_default(), false);
  pool_heap_options_t kinds[] = {{0}, {.budget = 300 << 10}, {.budget = 7 << 20}, {.budget = 40 << 20}, {.reserve = 5 << 20}, {.reserve = 30 << 20},
                                 {.flags = POOL_HEAP_SINGLE_THREAD}, {.flags = POOL_HEAP_ZERO_ON_FREE}, {.memory = buffer + 5, .memory_size = 4 << 20},
                                 {.memory = buffer + 64, .memory_size = 100000}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    pool_heap_t *heap = new_heap(kinds[i]);
    of_the_heap(heap, heap->region_kind);
    pool_heap_destroy(heap);
  }
}

/* The requested bytes of a checked heap's block are in use, and no more. */
static void of_a_checked_heap(void *argument)
{
  (void)argument;
  bring_up();
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
  bring_up();
  pool_heap_t *heap = new_heap(*options);
  char *block = pool_heap_alloc(heap, 100), *region = heap->region, *end = region + heap->region_size;
  end = heap->region_run ? (char *)round_up((uintptr_t)end, UNIT) : end;   /* the last unit is its own to the end */
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
  static const pool_heap_options_t kinds[] = {{.budget = 100 << 10}, {.budget = 3 << 20}, {.budget = 8 << 20}, {.reserve = 4 << 20}, {.reserve = 6 << 20},
                                              {.reserve = 50 << 20}, {.memory = buffer + 7, .memory_size = 50000}, {.memory = buffer, .memory_size = 6 << 20}};
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
  bring_up();
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
  bring_up();
  pool_heap_t *guest = new_guest(buffer, sizeof buffer), *slots = new_heap((pool_heap_options_t){.reserve = 20 << 20});
  struct { char *block; size_t size; } live[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    live[i].size = 1 + dice_below(&dice, (size_t)16 << dice_below(&dice, 14));
    pool_heap_t *heap = i % 3 == 0 ? guest : i % 3 == 1 ? slots : pool_heap_default();
    if ((live[i].block = pool_heap_alloc(heap, live[i].size)) != NULL)
      live[i].size = pool_usable_size(live[i].block);
  }
  must(!pool_in_use(argument) && !pool_heap_of(NULL) && !pool_heap_of((void *)UINTPTR_MAX) && !pool_heap_of(&dice) && !pool_heap_of((void *)(uintptr_t)new_guest));
  must(!pool_in_use(class_window.map) && !pool_in_use(guest) && pool_heap_of(guest) == guest && !pool_heap_of(slots));
  for (size_t i = 0; i < 200000; i++) {
    const char *near = live[dice_below(&dice, BLOCKS)].block;
    uintptr_t any = dice_roll(&dice) >> dice_below(&dice, 64);
    const char *address = (const char *)(any + (dice_below(&dice, 4) ? (uintptr_t)near : dice_below(&dice, 2) ? class_window.start : 0));
    char *start = NULL;
    for (size_t j = 0; j < BLOCKS; j++)
      if (live[j].block && (size_t)(address - live[j].block) < live[j].size)
        start = live[j].block;
    must(pool_in_use(address) == (start != NULL) && pool_block_start(address, NULL) == start);
  }
}

/* ---- guests ---- */

/* A guest in a block of another heap, with a part of the block on either side that is not its own. (In one of up to 32 KiB its blocks
 * would be taken for the other heap's by pool_free(), says heap.h.) */
static void in_a_block(void *argument)
{
  (void)argument;
  bring_up();
  pool_heap_t *heaps[] = {pool_heap_default(), new_heap((pool_heap_options_t){0}), new_heap((pool_heap_options_t){.budget = 4 << 20}),
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
    must(pool_in_use(block->start) && pool_block_start(block->start, NULL) == block->start && pool_usable_size(block->start) == block->size);
  return true;
}

static void fills_a_block(void *argument)
{
  const pool_heap_options_t *options = argument;
  bring_up();
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
  bring_up();
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
  bring_up();
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
      size_t around = i + 1;   /* whose the block of guest i's own memory is: the guest, or who is around it */
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
  static const size_t orders[][6] = {{5, 4, 3, 2, 1, 0}, {0, 1, 2, 3, 4, 5}, {2, 4, 0, 5, 1, 3}, {3, 1, 5, 0, 4, 2}, {1, 0, 3, 2, 5, 4}};
  (void)state;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    in_child(in_each_other, (void *)(uintptr_t)orders[i]);
}

/* Very many beside and in each other, that come and go: the innermost is it. */
static void many_guests(void *argument)
{
  enum { GUESTS = 60, LEAST = 12000 };
  struct { pool_heap_t *heap; size_t from, to; } guests[GUESTS] = {{0}};
  dice_t dice = {*(const uint64_t *)argument};
  bring_up();
  for (size_t step = 0; step < 400; step++) {
    size_t i = dice_below(&dice, GUESTS);
    if (guests[i].heap) {
      bool around = false;   /* one that has another in it cannot be asked to write its own records any more */
      for (size_t j = 0; j < GUESTS; j++)
        around |= j != i && guests[j].heap && guests[j].from >= guests[i].from && guests[j].to <= guests[i].to;
      if (!around) {
        pool_heap_destroy(guests[i].heap);
        guests[i].heap = NULL;
      }
    } else {
      /* In the free units of one that is there, or somewhere else altogether. */
      size_t in = dice_below(&dice, GUESTS), size = LEAST + dice_below(&dice, 300000), from = dice_below(&dice, sizeof buffer - size);
      if (guests[in].heap) {
        char *block = pool_heap_alloc(guests[in].heap, size = LEAST + dice_below(&dice, 60000));
        if (!block)
          continue;
        from = (size_t)(block - buffer);
      }
      bool apart = true;
      for (size_t j = 0; j < GUESTS; j++)
        apart &= !guests[j].heap || (guests[in].heap && guests[j].from <= from && guests[j].to >= from + size) || guests[j].to <= from || from + size <= guests[j].from;
      if (!apart || !(guests[i].heap = pool_heap_create(&(pool_heap_options_t){.memory = buffer + from, .memory_size = size})))
        continue;
      guests[i].from = from;
      guests[i].to = from + size;
    }
    for (size_t k = 0; k < 100; k++) {
      size_t at = dice_below(&dice, sizeof buffer), shortest = SIZE_MAX;
      pool_heap_t *expected = NULL;
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

/* ---- while what it is about goes ---- */

typedef struct freeing { size_t visited, count; } freeing_t;

/* The blocks of the highest slabs are freed last, and their addresses and records go with them. */
static bool free_all_but_the_first(const pool_block_t *block, void *context)
{
  freeing_t *freeing = context;
  if (freeing->visited++)
    pool_free(block->start);
  if (freeing->visited == freeing->count)
    pool_trim(0);
  return true;
}

/* A visitor that frees what it is given takes away what the walk stands on. */
static void walked_and_freed(void *argument)
{
  const size_t *size = argument;
  size_t count = 40 * MIB / *size;
  freeing_t freeing = {.count = count};
  bring_up();
  space_of_process.purge_delay_ms = 0;
  for (size_t i = 0; i < count; i++)
    must(pool_alloc(*size));
  must(pool_heap_walk(pool_heap_default(), free_all_but_the_first, &freeing) && freeing.visited == count);
  pool_trim(0);
  must(space_of_process.used_units <= 4 && check_everything());
}

static void walked_and_freed_test(void **state)
{
  static const size_t sizes[] = {100, 2000, 30000, 100000};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    in_child(walked_and_freed, (void *)(uintptr_t)&sizes[i]);
}

static bool ending;
static char *last_block;

/* Each block's memory goes back to the system with it: a mapping, a run at the end of its arena, a slab there. */
static void *checked_blocks(void *argument)
{
  pool_heap_options_t options = {.flags = POOL_HEAP_CHECKED | *(const unsigned *)argument};
  pool_heap_t *heap = pool_heap_create(&options);
  static const size_t sizes[] = {(4 << 20) + 100, 2 << 20, 200000};
  must(heap);
  for (size_t turn = 0; turn < 240; turn++) {
    size_t size = sizes[turn % 3];
    char *block = pool_heap_alloc(heap, size);
    must(block);
    __atomic_store_n(&last_block, block, __ATOMIC_RELAXED);
    pool_heap_free(heap, block);
    pool_trim(0);
    pool_heap_trim(heap, 0);
  }
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  return NULL;
}

/* What was asked for stands in the block. */
static void measured_meanwhile(void *argument)
{
  pthread_t thread;
  size_t size;
  bring_up();
  must(pthread_create(&thread, NULL, checked_blocks, argument) == 0);
  while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
    char *at = __atomic_load_n(&last_block, __ATOMIC_RELAXED) + 100;
    char *start = pool_block_start(at, &size);
    must(!start || (start <= at && (size_t)(at - start) < size));
  }
  pthread_join(thread, NULL);
  must(check_everything());
}

static void *grow_and_shrink(void *argument)
{
  enum { MANY = 1200 };
  static void *blocks[MANY];
  (void)argument;
  for (size_t turn = 0; turn < 20; turn++) {
    for (size_t i = 0; i < MANY; i++)
      must((blocks[i] = pool_alloc(30000)) != NULL);
    for (size_t i = 0; i < MANY; i++)
      pool_free(blocks[i]);
    pool_trim(0);
  }
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  return NULL;
}

/* Questions about slabs that end meanwhile, and the records of their arena with them. */
static void asked_meanwhile(void *argument)
{
  pthread_t thread;
  dice_t dice = {3};
  (void)argument;
  bring_up();
  must(pthread_create(&thread, NULL, grow_and_shrink, NULL) == 0);
  while (!__atomic_load_n(&ending, __ATOMIC_RELAXED))
    pool_in_use((char *)class_window.start + dice_below(&dice, 50 * MIB));
  pthread_join(thread, NULL);
  must(check_everything());
}

/* ---- misuse ---- */

static void free_of_guest(void *block) { pool_heap_free(pool_heap_of(block), block); }

static void told_apart(void *argument)
{
  (void)argument;
  bring_up();
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

static void *come_and_go(void *argument)
{
  dice_t dice = {(uintptr_t)argument};
  char *memory = buffer + (size_t)(uintptr_t)argument * MIB;
  while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
    pool_heap_options_t options = {0};
    switch (dice_below(&dice, 5)) {
    case 0: options.budget = 500 << 10; break;
    case 1: options.reserve = 10 << 20; break;
    case 2: options.reserve = 5 << 20; break;
    case 3: options.memory = memory; options.memory_size = MIB; break;
    default: break;
    }
    pool_heap_t *heap = pool_heap_create(&options);
    must(heap);
    for (size_t i = 0; i < 20; i++) {
      size_t size = 1 + dice_below(&dice, (size_t)16 << dice_below(&dice, 15));
      char *block = pool_heap_alloc(heap, size);
      must(!block || (pool_in_use(block + size - 1) && pool_heap_of(block) == heap && pool_block_start(block + size / 2, NULL) == block));
      if (i % 2)
        pool_free(block);
    }
    pool_heap_destroy(heap);
  }
  return NULL;
}

/* Questions about what comes and goes meanwhile have no certain answer, but they have one. */
static void beside_threads(void *argument)
{
  pthread_t threads[3];
  dice_t dice = {1};
  (void)argument;
  bring_up();
  char *mine = pool_alloc(50000), *other = pool_alloc(60);
  for (uintptr_t i = 0; i < 3; i++)
    must(pthread_create(&threads[i], NULL, come_and_go, (void *)i) == 0);
  for (size_t i = 0; i < 20000; i++) {
    uintptr_t any = dice_roll(&dice) >> (64 - 8 - dice_below(&dice, 30));
    pool_heap_of((char *)class_window.start + any);
    pool_in_use((char *)class_window.start + any);
    pool_heap_of(buffer + any % sizeof buffer);
    pool_block_start(buffer + any % sizeof buffer, NULL);
    must(pool_block_start(mine + any % 50000, NULL) == mine && pool_block_start(other + any % 60, NULL) == other);
  }
  __atomic_store_n(&ending, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  must(check_everything());
}

IN_CHILD(of_every_kind)
IN_CHILD(of_a_checked_heap)
IN_CHILD(in_magazines_and_spares)
IN_CHILD(anything_at_all)
IN_CHILD(in_a_block)
IN_CHILD(fills_no_block)
IN_CHILD(asked_meanwhile)
WITH(measured_meanwhile, unsigned, 0, POOL_HEAP_SINGLE_THREAD)
IN_CHILD(told_apart)
IN_CHILD(beside_threads)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_every_kind_test),
    cmocka_unit_test(of_a_checked_heap_test),
    cmocka_unit_test(around_a_region_test),
    cmocka_unit_test(in_magazines_and_spares_test),
    cmocka_unit_test(anything_at_all_test),
    cmocka_unit_test(in_a_block_test),
    cmocka_unit_test(fills_a_block_test),
    cmocka_unit_test(fills_no_block_test),
    cmocka_unit_test(in_each_other_test),
    cmocka_unit_test(many_guests_test),
    cmocka_unit_test(walked_and_freed_test),
    cmocka_unit_test(asked_meanwhile_test),
    cmocka_unit_test(measured_meanwhile_test),
    cmocka_unit_test(told_apart_test),
    cmocka_unit_test(beside_threads_test),
  };
  return cmocka_run_group_tests_name("locate", tests, NULL, NULL);
}
