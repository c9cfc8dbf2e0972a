/* SPDX-License-Identifier: MIT
 * Against a model that looks at every bit: which one is the lowest, and whether each level says what is below. */
#include "base/bits.h"
#include "unit.h"

typedef struct modelled {
  bit_tree_t tree;
  size_t bits, words, count;
  word_t *storage;
  bool *model;
} modelled_t;

static void modelled_new(modelled_t *m, size_t bits)
{
  m->bits = m->count = bits;
  m->words = bit_tree_words(bits);
  m->storage = malloc((m->words + 1) * sizeof *m->storage);
  m->model = malloc(bits);
  assert_true(m->storage && m->model);
  memset(m->storage, 0xee, (m->words + 1) * sizeof *m->storage); /* nothing may count on zeroes */
  memset(m->model, true, bits);
  assert_ptr_equal(bit_tree_init(&m->tree, m->storage, bits), m->storage + m->words);
}

static void modelled_end(modelled_t *m)
{
  word_t past;
  memset(&past, 0xee, sizeof past);
  assert_int_equal(m->storage[m->words], past);
  free(m->storage);
  free(m->model);
}

static void change(modelled_t *m, size_t i, bool set)
{
  if (m->model[i] == set)
    return;
  m->model[i] = set;
  m->count += set ? 1 : -(size_t)1;
  if (set)
    bit_tree_set(&m->tree, i);
  else
    bit_tree_clear(&m->tree, i);
}

static size_t lowest_of(const modelled_t *m)
{
  size_t i = 0;
  while (!m->model[i])
    i++;
  return i;
}

static void lowest_agrees(modelled_t *m)
{
  if (m->count)
    assert_int_equal(bit_tree_lowest(&m->tree), lowest_of(m));
}

/* Bits beyond the last are never set, on no level, and the top has one word. */
static void every_level_agrees(const modelled_t *m)
{
  size_t bits = m->bits;
  for (size_t i = 0; i < bits; i++)
    assert_int_equal(bit_tree_test(&m->tree, i), m->model[i]);
  for (uint32_t l = 0; l < m->tree.levels; l++, bits = bits_words(bits)) {
    for (size_t w = 0; w < bits_words(bits); w++) {
      assert_int_equal(m->tree.level[l][w] & ~bits_of_word(bits, w), 0);
      if (l + 1 < m->tree.levels)
        assert_int_equal(bit_test(m->tree.level[l + 1], w), m->tree.level[l][w] != 0);
    }
  }
  assert_int_equal(bits, 1);
  for (size_t w = 0; w < bits_words(m->bits); w++) {
    assert_int_equal(bit_tree_word(&m->tree, w), m->tree.level[0][w]);
    assert_true(w >= m->tree.lowest || m->tree.level[0][w] == 0);
  }
}

static const size_t sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097, 5000, 8192, 20000};

/* From the first to the last, and the other way. */
static void in_order(void **state)
{
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    modelled_t m;
    modelled_new(&m, sizes[s]);
    every_level_agrees(&m);
    for (size_t i = 0; i < m.bits; i++) {
      assert_int_equal(bit_tree_lowest(&m.tree), i);
      change(&m, i, false);
    }
    every_level_agrees(&m);
    for (size_t i = m.bits; i-- > 0;) {
      change(&m, i, true);
      assert_int_equal(bit_tree_lowest(&m.tree), i);
    }
    every_level_agrees(&m);
    modelled_end(&m);
  }
}

static void random_changes(void **state)
{
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (uint64_t seed = 1; seed <= 3; seed++) {
      dice_t dice = {seed * 1000 + s};
      modelled_t m;
      modelled_new(&m, sizes[s]);
      for (size_t round = 0; round < 40; round++) {
        size_t from = dice_below(&dice, m.bits), length = dice_below(&dice, (size_t)1 << dice_below(&dice, 15));
        bool set = dice_below(&dice, 2);
        for (size_t i = from; i < min_size(m.bits, from + length); i++)
          if (dice_below(&dice, 10))
            change(&m, i, set);
        lowest_agrees(&m);
        every_level_agrees(&m);
      }
      modelled_end(&m);
    }
}

/* The lowest is taken, another comes back. */
static void taken_and_given(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    dice_t dice = {seed};
    modelled_t m;
    modelled_new(&m, 4000 + dice_below(&dice, 1000));
    for (size_t i = 0; i < 20000; i++) {
      if (m.count && dice_below(&dice, 5) < 3)
        change(&m, bit_tree_lowest(&m.tree), false);
      else
        change(&m, dice_below(&dice, m.bits), true);
      lowest_agrees(&m);
    }
    every_level_agrees(&m);
    modelled_end(&m);
  }
}

static void filled_again(void **state)
{
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    modelled_t m;
    modelled_new(&m, sizes[s]);
    for (size_t i = 0; i < m.bits; i++)
      change(&m, i, false);
    bit_tree_fill(&m.tree, m.bits);
    memset(m.model, true, m.bits);
    every_level_agrees(&m);
    assert_int_equal(bit_tree_lowest(&m.tree), 0);
    modelled_end(&m);
  }
}

/* How many words a tree has, and that of the most bits there can be has no more levels than there is room for. */
static void words(void **state)
{
  (void)state;
  assert_int_equal(bit_tree_words(1), 1);
  assert_int_equal(bit_tree_words(WORD_BITS), 1);
  assert_int_equal(bit_tree_words(WORD_BITS + 1), 2 + 1);
  assert_int_equal(bit_tree_words(WORD_BITS * WORD_BITS), WORD_BITS + 1);
  assert_int_equal(bit_tree_words(WORD_BITS * WORD_BITS + 1), WORD_BITS + 1 + 2 + 1);
  if (ADDRESS_BITS > 32 && WORD_BITS > 32)
    assert_int_equal(bit_tree_words((size_t)((uint64_t)1 << 32)), ((size_t)1 << 26) + (1 << 20) + (1 << 14) + (1 << 8) + 4 + 1);
  size_t levels = 0;
  for (size_t bits = (size_t)UINT32_MAX - WORD_BITS; bits > 1; bits = bits_words(bits))
    levels++;
  assert_int_equal(levels, BIT_TREE_LEVELS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(in_order),     cmocka_unit_test(random_changes), cmocka_unit_test(taken_and_given),
    cmocka_unit_test(filled_again), cmocka_unit_test(words),
  };
  return cmocka_run_group_tests_name("bit tree", tests, NULL, NULL);
}
