/* SPDX-License-Identifier: MIT
 * Heaps in small memories, in a buffer or with a budget: how much of it serves mixed sizes, what the largest request is, and
 * the least memory that there can be a heap in. */
#include "../dice.h"
#include "heaps.h"

enum { MOST = 1 << 20, BLOCKS = 1 << 14 };
static _Alignas(4096) char buffer[MOST];

typedef struct held_block {
  unsigned char *start;
  size_t size;
} held_block_t;

/* What a program has of a heap; every byte of it is known. */
typedef struct program {
  pool_heap_t *heap;
  size_t least, most, count, live;
  uint64_t dice;
  held_block_t blocks[BLOCKS];
} program_t;
static program_t program;

static void starts(pool_heap_t *heap, size_t least, size_t most)
{
  program.heap = heap;
  program.least = least;
  program.most = most;
  program.count = program.live = 0;
  program.dice = 7;
}

static size_t any_size(void) { return program.least + below(&program.dice, program.most - program.least + 1); }

static void verify(const held_block_t *b)
{
  for (size_t i = 0; i < b->size; i++)
    assert_int_equal(b->start[i], byte_of((uintptr_t)b->start + b->size, i));
}

static void fill_from(const held_block_t *b, size_t from)
{
  for (size_t i = from; i < b->size; i++)
    b->start[i] = byte_of((uintptr_t)b->start + b->size, i);
}

static bool take_one(size_t size)
{
  held_block_t b = {pool_heap_alloc(program.heap, size), size};
  if (!b.start)
    return false;
  assert_true(program.count < BLOCKS && pool_usable_size(b.start) >= size);
  fill_from(&b, 0);
  program.blocks[program.count++] = b;
  program.live += size;
  return true;
}

static void give_one(void)
{
  held_block_t *b = &program.blocks[below(&program.dice, program.count)];
  verify(b);
  pool_heap_free(program.heap, b->start);
  program.live -= b->size;
  *b = program.blocks[--program.count];
}

static void give_all(void)
{
  while (program.count)
    give_one();
}

/* Until the first request that is refused. */
static void fill_up(void)
{
  while (take_one(any_size())) {}
}

/* Goes on at a level; returns how many requests were refused. */
static size_t replace(size_t level, size_t steps)
{
  size_t refused = 0;
  for (size_t i = 0; i < steps; i++) {
    size_t size = any_size();
    while (program.count && program.live + size > level)
      give_one();
    refused += !take_one(size);
  }
  return refused;
}

/* ---- how much of it serves ---- */

typedef struct measured {
  size_t least, most, memory;
  unsigned filled; /* thousandths of it */
  size_t refused;  /* of REPLACED at four fifths of that */
} measured_t;
enum { REPLACED = 4000 };

static const measured_t table[] = {{8, 512, 16 << 10, 750, REPLACED / 50},
                                   {8, 512, 64 << 10, 900, 0},
                                   {8, 512, 256 << 10, 940, 0},
                                   {8, 512, MOST, 950, 0},
                                   {8, 4096, 64 << 10, 880, REPLACED / 20},
                                   {8, 4096, 256 << 10, 950, 0},
                                   {8, 4096, MOST, 970, 0},
                                   {64, 64, 64 << 10, 930, 0}};

static void serves(pool_heap_t *heap, const measured_t *m, unsigned less)
{
  starts(heap, m->least, m->most);
  fill_up();
  assert_true(program.live * 1000 >= m->memory * (m->filled - less));
  assert_true(replace(program.live / 5 * 4, REPLACED) <= m->refused * (less ? 2 : 1));
  assert_true(check_heap(heap));
  give_all();
  pool_stats_t s = stats_of(heap);
  assert_int_equal(s.live_bytes, 0);
  assert_int_equal(s.fragmentation, 0);
  assert_int_equal(s.largest_free, pool_heap_largest(heap)); /* that frees what is kept */
  s = stats_of(heap);
  assert_int_equal(s.held_bytes, s.metadata_bytes);
  pool_heap_destroy(heap);
}

static void small_memories_serve_mixed_sizes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(table); i++) {
    serves(heap_with((pool_heap_options_t){.memory = buffer, .memory_size = table[i].memory}), &table[i], 0);
    serves(heap_with_budget(table[i].memory), &table[i], table[i].memory < 64 << 10 ? 60 : 20);
  }
}

static void dense_budgets_serve_mixed_sizes(void **state)
{
  (void)state;
  static const measured_t dense[] = {{8, 4096, 4 << 20, 970, 0}, {8, 512, 3 << 20, 940, 0}, {8, 4096, 8 << 20, 970, 0}};
  for (size_t i = 0; i < COUNT_OF(dense); i++)
    for (unsigned flags = 0; flags <= POOL_HEAP_SINGLE_THREAD; flags += POOL_HEAP_SINGLE_THREAD)
      serves(heap_with((pool_heap_options_t){.budget = dense[i].memory, .flags = POOL_HEAP_DENSE | flags}), &dense[i], 0);
}

/* It goes on outside of the region. */
static void a_dense_budget_is_raised(void **state)
{
  (void)state;
  pool_heap_options_t options = {.budget = 8 << 20, .flags = POOL_HEAP_DENSE};
  assert_true(pool_heap_least_memory(&options) < 4 << 10);
  pool_heap_t *heap = heap_with(options);
  void *large = pool_heap_alloc(heap, pool_heap_largest(heap)), *small = pool_heap_alloc(heap, 4 << 20);
  assert_true(large && !small && pool_heap_set_budget(heap, 16 << 20));
  small = pool_heap_alloc(heap, 4 << 20);
  assert_true(small && check_heap(heap) && stats_of(heap).held_bytes <= 16 << 20);
  pool_heap_free(heap, small);
  pool_heap_free(heap, large);
  pool_heap_destroy(heap);
}

/* ---- the largest request ---- */

static void largest_is_exact(void)
{
  size_t largest = pool_heap_largest(program.heap); /* first: what a checked heap keeps does not count in the figures */
  pool_stats_t before = stats_of(program.heap);
  assert_int_equal(before.largest_free, largest);
  void *block = largest ? pool_heap_alloc(program.heap, largest) : NULL;
  assert_true(block || !largest);
  pool_heap_free(program.heap, block);
  errno = UNTOUCHED;
  assert_null(pool_heap_alloc(program.heap, largest + 1));
  assert_int_equal(errno, ENOMEM);
  assert_int_equal(stats_of(program.heap).held_bytes, before.held_bytes);
}

static void with_largest(pool_heap_options_t options, size_t lowered)
{
  pool_heap_t *heap = heap_with(options);
  starts(heap, 1, 700);
  largest_is_exact();
  for (size_t i = 0; i < 300; i++) {
    if (program.count && one_in(&program.dice, 3))
      give_one();
    else
      take_one(any_size());
    if (lowered && i == 100)
      assert_true(pool_heap_set_budget(heap, stats_of(heap).held_bytes + lowered));
    if (i % 5 == 0)
      largest_is_exact();
  }
  fill_up();
  largest_is_exact();
  assert_true(check_heap(heap));
  give_all();
  largest_is_exact();
  pool_heap_destroy(heap);
}

static void the_largest_request_is_known(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags <= POOL_HEAP_CHECKED; flags += POOL_HEAP_CHECKED) {
    with_largest((pool_heap_options_t){.memory = buffer + 3, .memory_size = 2048, .flags = flags}, 0);
    with_largest((pool_heap_options_t){.memory = buffer, .memory_size = 100000, .flags = flags}, 0);
    with_largest((pool_heap_options_t){.budget = 60000, .flags = flags}, 0);
    with_largest((pool_heap_options_t){.budget = 60000, .flags = flags}, 5000);
    with_largest((pool_heap_options_t){.memory = buffer, .memory_size = 60000, .budget = 30000, .flags = flags}, 0);
    pool_heap_t *parent = heap_with_budget(100000);
    with_largest((pool_heap_options_t){.memory = buffer, .memory_size = 200000, .parent = parent, .flags = flags}, 0);
    pool_heap_destroy(parent);
  }
}

/* ---- the least memory ---- */

static void the_least_memory_is_known(void **state)
{
  (void)state;
  for (unsigned flags = 0; flags <= POOL_HEAP_CHECKED; flags += POOL_HEAP_CHECKED) {
    pool_heap_options_t o = {.flags = flags};
    size_t least_budget = pool_heap_least_memory(&o), anywhere;
    o.budget = least_budget - 1;
    refuses(o, EINVAL);
    o.budget = least_budget;
    pool_heap_t *heap = heap_with(o);
    assert_non_null(pool_heap_alloc(heap, 1));
    pool_heap_destroy(heap);
    o = (pool_heap_options_t){.memory_size = 1, .flags = flags};
    anywhere = pool_heap_least_memory(&o);
    assert_true(anywhere <= 1024);
    for (size_t at = 0; at < 64; at++) {
      o.memory = buffer + at;
      size_t least = o.memory_size = pool_heap_least_memory(&o);
      assert_true(least <= anywhere && least + 15 >= anywhere);
      heap = heap_with(o);
      assert_non_null(pool_heap_alloc(heap, 1));
      assert_true(check_heap(heap));
      pool_heap_destroy(heap);
      o.memory_size = least - 1;
      refuses(o, EINVAL);
    }
  }
  size_t classes[] = {16, 48};
  pool_heap_options_t o = {.memory = buffer, .size_classes = classes, .size_class_count = 2};
  o.memory_size = pool_heap_least_memory(&o);
  pool_heap_destroy(heap_with(o));
  assert_int_equal(pool_heap_least_memory(NULL), pool_heap_least_memory(&(pool_heap_options_t){0}));
}

static void has_no_least(pool_heap_options_t options, const char *why)
{
  errno = UNTOUCHED;
  assert_int_equal(pool_heap_least_memory(&options), 0);
  assert_int_equal(errno, EINVAL);
  assert_non_null(strstr(pool_error(), why));
}

static void invalid_options_have_no_least_memory(void **state)
{
  static const size_t sizes[] = {17, 0, (size_t)1 << 30, SIZE_MAX};
  (void)state;
  for (size_t memory_size = 0; memory_size < 2; memory_size++) {
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
      has_no_least((pool_heap_options_t){.memory_size = memory_size, .size_classes = &sizes[i], .size_class_count = 1},
                   "size_classes[0] is ");
    has_no_least((pool_heap_options_t){.memory_size = memory_size, .size_classes = sizes}, "size_class_count is 0");
    has_no_least((pool_heap_options_t){.memory_size = memory_size, .size_class_count = 2}, "size_classes is NULL");
    has_no_least((pool_heap_options_t){.memory_size = memory_size, .flags = 1u << 31}, "is unknown");
    has_no_least((pool_heap_options_t){.memory_size = memory_size, .flags = POOL_HEAP_PREFAULT}, "POOL_HEAP_PREFAULT");
  }
  has_no_least((pool_heap_options_t){.reserve = SIZE_MAX}, "reserve is ");
  has_no_least((pool_heap_options_t){.memory = buffer, .reserve = 4096}, "reserve is 4096, but must be 0 with memory");
  has_no_least((pool_heap_options_t){.memory = (void *)(UINTPTR_MAX - 100)}, "beyond the last address");
  has_no_least((pool_heap_options_t){.memory_size = 1, .purge_delay_ms = 1}, "purge_delay_ms is 1");
  assert_true(pool_heap_least_memory(&(pool_heap_options_t){.purge_delay_ms = 1}) > 0);
}

/* ---- bad input ---- */

static void any_input_at_all(void **state)
{
  (void)state;
  for (size_t size = 0; size < 300; size++)
    refuses((pool_heap_options_t){.memory = buffer, .memory_size = size}, EINVAL);
  refuses((pool_heap_options_t){.memory = (void *)(UINTPTR_MAX - 4095), .memory_size = 8192}, EINVAL);
  refuses((pool_heap_options_t){.memory = (void *)(UINTPTR_MAX - 3), .memory_size = 3}, EINVAL);
  refuses((pool_heap_options_t){.memory = buffer, .memory_size = SIZE_MAX}, EINVAL);
  pool_heap_t *heap = heap_with((pool_heap_options_t){.memory = buffer, .memory_size = 2048});
  for (size_t bit = 11; bit < 8 * sizeof(size_t); bit++)
    for (size_t less = 0; less < 40; less += 13) {
      size_t size = ((size_t)2 << bit) - 1 - less;
      assert_null(pool_heap_alloc(heap, size));
      assert_null(pool_heap_calloc(heap, size, 2));
      assert_null(pool_heap_aligned_alloc(heap, (size_t)1 << bit, 8));
    }
  assert_true(pool_heap_largest(heap) > 1000);
  pool_heap_destroy(heap);
}

/* A budget that ends at each of the first requests in turn. What is live then stays as it is, and the heap goes on when there
 * is a budget again. */
static void exhausted_at_each_request(void **state)
{
  (void)state;
  for (size_t ends = 1; ends < 60; ends++) {
    pool_heap_t *heap = heap_with_budget(64 << 10);
    starts(heap, 1, 3000);
    for (size_t i = 0; i < 60; i++) {
      if (i == ends)
        assert_true(pool_heap_set_budget(heap, stats_of(heap).held_bytes));
      if (one_in(&program.dice, 3) && program.count)
        give_one();
      else
        take_one(any_size());
      assert_true(stats_of(heap).held_bytes <= stats_of(heap).budget);
    }
    assert_true(pool_heap_set_budget(heap, 64 << 10) && check_heap(heap));
    fill_up();
    assert_true(program.live > 50 << 10);
    give_all();
    pool_heap_destroy(heap);
  }
}

/* ---- a block changes its size ---- */

static void blocks_change_where_they_are(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.memory = buffer, .memory_size = 20000});
  char *block = pool_heap_alloc(heap, 100), *behind = pool_heap_alloc(heap, 100);
  memset(block, 1, 100);
  pool_heap_free(heap, behind);
  assert_ptr_equal(block = pool_heap_realloc(heap, block, 15000), behind - 112);
  assert_true(pool_usable_size(block) >= 15000 && block[99] == 1);
  assert_ptr_equal(pool_heap_realloc(heap, block, 40), block);
  assert_int_equal(pool_usable_size(block), 48);
  assert_true(pool_heap_largest(heap) > 18000);
  char *aligned = pool_heap_aligned_alloc(heap, 4096, 100);
  assert_true(aligned && (uintptr_t)aligned % 4096 == 0);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

/* ---- a freed block that is kept for the next request is free for everybody ---- */

static bool count_blocks(const pool_block_t *block, void *context)
{
  (void)block;
  ++*(size_t *)context;
  return true;
}

static void free_again(void *block) { pool_heap_free(program.heap, block); }
static void free_again_without_heap(void *block) { pool_free(block); }

static void freed_blocks_are_free(void **state)
{
  (void)state;
  for (size_t budget = 0; budget < 2; budget++) {
    pool_heap_t *heap =
      budget ? heap_with_budget(700 << 10) : heap_with((pool_heap_options_t){.memory = buffer, .memory_size = 700 << 10});
    size_t all = pool_heap_largest(heap), walked = 0, held = stats_of(heap).held_bytes;
    program.heap = heap;
    for (size_t size = 1; size <= 600; size += 40) {
      char *block = pool_heap_alloc(heap, size), *other = pool_heap_alloc(heap, size);
      pool_heap_free(heap, block);
      assert_false(pool_in_use(block));
      aborts_with(free_again, block, "freed twice");
      aborts_with(free_again_without_heap, block, "freed twice");
      assert_true(check_heap(heap));
      assert_ptr_equal(pool_heap_alloc(heap, size), block);
      assert_true(pool_in_use(block) && stats_of(heap).live_blocks == 2);
      pool_heap_free(heap, other);
      pool_heap_free(heap, block);
      assert_true(pool_heap_walk(heap, count_blocks, &walked) && walked == 0);
      assert_int_equal(stats_of(heap).live_blocks, 0);
      assert_int_equal(stats_of(heap).held_bytes, held);
      other = pool_heap_alloc(heap, size);
      pool_heap_free(heap, other);
      assert_int_equal(pool_heap_largest(heap), all);
      block = pool_heap_alloc(heap, size);
      other = pool_heap_alloc(heap, 100);
      pool_heap_free(heap, other);
      assert_non_null(block = pool_heap_realloc(heap, block, all - 1000)); /* over what is kept */
      pool_heap_free(heap, block);
    }
    pool_heap_destroy(heap);
  }
}

/* ---- the budget is kept ---- */

enum { THREADS = 4, ROUNDS = 3000 };

static void take_and_give(size_t index, void *context)
{
  pool_heap_t *heap = context;
  uint64_t dice = index + 1;
  void *blocks[32] = {0};
  for (size_t i = 0; i < ROUNDS; i++) {
    size_t at = below(&dice, COUNT_OF(blocks));
    pool_heap_free(heap, blocks[at]);
    blocks[at] = pool_heap_alloc(heap, below(&dice, one_in(&dice, 9) ? 40000 : 600));
    pool_stats_t s;
    if (i % 8 == 0)
      must(pool_heap_stats(heap, &s) && s.held_bytes <= s.budget && s.peak_held_bytes <= s.budget);
  }
  for (size_t i = 0; i < COUNT_OF(blocks); i++)
    pool_heap_free(heap, blocks[i]);
}

static void the_budget_is_kept_at_every_instant(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(700 << 10);
  run_threads(THREADS, take_and_give, heap);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(small_memories_serve_mixed_sizes),
    cmocka_unit_test(dense_budgets_serve_mixed_sizes),
    cmocka_unit_test(a_dense_budget_is_raised),
    cmocka_unit_test(the_largest_request_is_known),
    cmocka_unit_test(the_least_memory_is_known),
    cmocka_unit_test(invalid_options_have_no_least_memory),
    cmocka_unit_test(any_input_at_all),
    cmocka_unit_test(exhausted_at_each_request),
    cmocka_unit_test(blocks_change_where_they_are),
    cmocka_unit_test(freed_blocks_are_free),
    cmocka_unit_test(the_budget_is_kept_at_every_instant),
  };
  return cmocka_run_group_tests_name("small", tests, NULL, NULL);
}
