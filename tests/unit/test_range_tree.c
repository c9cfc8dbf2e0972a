/* SPDX-License-Identifier: MIT
 * Against a sorted array: which range begins last before an address, which first behind it, whatever the order in which they
 * came; and never deeper than a tree that was filled at random. */
#include "base/trees.h"
#include "unit.h"

enum { MANY = 60000, FEW = 300, DEPTH_MOST = 60 }; /* 60,000 ranges: some 40 at most; one more is rarer than 1 in 10^6 */

static range_t ranges[MANY];
static bool present[MANY];
static range_t *tree;

static uintptr_t start_of(size_t i) { return (UINTPTR_MAX >> 17) + 1 + i * (ADDRESS_BITS > 32 ? 0x10000 : 0x1000); }

static void all_new(size_t count)
{
  tree = NULL;
  memset(present, 0, sizeof present);
  for (size_t i = 0; i < count; i++)
    ranges[i] = (range_t){.start = start_of(i), .size = 0x8000};
}

static void insert(size_t i)
{
  range_insert(&tree, &ranges[i]);
  present[i] = true;
}

static void drop(size_t i)
{
  range_remove(&tree, &ranges[i]);
  present[i] = false;
}

/* Returns how many there are; every one between its neighbours. `stack` stands for recursion, which a bad tree would overflow.
 */
static size_t walk(size_t *depth)
{
  struct {
    const range_t *at;
    size_t depth;
  } stack[2 * DEPTH_MOST];
  size_t count = 0, top = 0;
  uintptr_t last = 0;
  *depth = 0;
  const range_t *at = tree;
  for (size_t deep = 1; at || top;) {
    for (; at; at = at->left, deep++) {
      assert_true(top < 2 * DEPTH_MOST);
      stack[top].at = at;
      stack[top++].depth = deep;
    }
    at = stack[--top].at;
    deep = stack[top].depth;
    *depth = max_size(*depth, deep);
    assert_true(at->start > last);
    last = at->start;
    count++;
    at = at->right;
    deep++;
  }
  return count;
}

static void shape_is_good(size_t expected)
{
  size_t depth;
  assert_int_equal(walk(&depth), expected);
  assert_true(depth <= (expected < 2 ? expected : 10 + 5 * (size_t)log2_floor(expected) / 2));
}

static const range_t *model_below(size_t count, uintptr_t address)
{
  const range_t *found = NULL;
  for (size_t i = 0; i < count; i++)
    if (present[i] && ranges[i].start <= address)
      found = &ranges[i];
  return found;
}

static const range_t *model_above(size_t count, uintptr_t address)
{
  for (size_t i = 0; i < count; i++)
    if (present[i] && ranges[i].start >= address)
      return &ranges[i];
  return NULL;
}

static void agrees_at(size_t count, uintptr_t address)
{
  assert_ptr_equal(range_at_or_below(tree, address), model_below(count, address));
  assert_ptr_equal(range_at_or_above(tree, address), model_above(count, address));
}

static void agrees(size_t count)
{
  agrees_at(count, 0);
  agrees_at(count, UINTPTR_MAX);
  for (size_t i = 0; i < count; i++)
    for (int off = -1; off <= 1; off++)
      agrees_at(count, ranges[i].start + (uintptr_t)off);
}

static void nothing_in_it(void **state)
{
  (void)state;
  all_new(FEW);
  agrees(FEW);
  insert(7);
  agrees(FEW);
  shape_is_good(1);
  drop(7);
  assert_null(tree);
  agrees(FEW);
}

static void random_order(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    dice_t dice = {seed};
    size_t count = 0;
    all_new(FEW);
    for (size_t i = 0; i < 3000; i++) {
      size_t at = dice_below(&dice, FEW);
      if (present[at])
        drop(at);
      else
        insert(at);
      count += present[at] ? 1 : -(size_t)1;
      if (i % 20 == 0) {
        shape_is_good(count);
        for (size_t j = 0; j < 20; j++)
          agrees_at(FEW, start_of(0) + dice_below(&dice, FEW * 0x10000 + 0x20000) - 0x10000);
      }
    }
    agrees(FEW);
  }
}

/* What begins where says how deep it is, not when it came. */
static size_t depth_of(const size_t *order, size_t count)
{
  size_t depth;
  for (size_t i = 0; i < count; i++)
    insert(order[i]);
  assert_int_equal(walk(&depth), count);
  assert_true(depth <= DEPTH_MOST);
  return depth;
}

static void any_order_gives_one_shape(void **state)
{
  static size_t ascending[MANY], descending[MANY], shuffled[MANY], alternating[MANY];
  dice_t dice = {9};
  (void)state;
  for (size_t i = 0; i < MANY; i++) {
    ascending[i] = shuffled[i] = i;
    descending[i] = MANY - 1 - i;
    alternating[i] = i % 2 ? MANY - 1 - i / 2 : i / 2;
  }
  for (size_t i = MANY; i-- > 1;) {
    size_t j = dice_below(&dice, i + 1), swap = shuffled[i];
    shuffled[i] = shuffled[j];
    shuffled[j] = swap;
  }
  const size_t *orders[] = {ascending, descending, shuffled, alternating};
  size_t depth = 0;
  for (size_t i = 0; i < 4; i++) {
    all_new(MANY);
    size_t this = depth_of(orders[i], MANY);
    assert_true(!depth || this == depth);
    depth = this;
  }
  print_message("%d ranges: %zu deep\n", MANY, depth);
  for (size_t i = 0; i < MANY; i += 7)
    assert_ptr_equal(range_at_or_below(tree, start_of(i) + 5), &ranges[i]);
  for (size_t i = 0; i < MANY; i++)
    if (i % 1000)
      drop(shuffled[i]);
  shape_is_good(MANY / 1000);
}

/* Starts that differ in few bits, as mappings of one size from one place on do: every one in the next slot, page or GiB. */
static void starts_alike(void **state)
{
  (void)state;
  for (unsigned log2 = 4; log2 <= ADDRESS_BITS - 24; log2++) {
    size_t depth, count = min_size(20000, ((size_t)1 << (ADDRESS_BITS - 1 - log2)) - 1);
    tree = NULL;
    for (size_t i = 0; i < count; i++) {
      ranges[i] = (range_t){.start = (i + 1) << log2, .size = 1};
      range_insert(&tree, &ranges[i]);
    }
    assert_int_equal(walk(&depth), count);
    assert_true(depth <= DEPTH_MOST);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_in_it),
    cmocka_unit_test(random_order),
    cmocka_unit_test(any_order_gives_one_shape),
    cmocka_unit_test(starts_alike),
  };
  return cmocka_run_group_tests_name("range tree", tests, NULL, NULL);
}
