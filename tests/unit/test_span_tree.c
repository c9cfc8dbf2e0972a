/* SPDX-License-Identifier: MIT
 * Against a model that looks at every bit: which stretch is the lowest, how long the longest is, and whether every node says
 * so. */
#include "base/trees.h"
#include "unit.h"

enum { SMALL_MOST = 4096 };

typedef struct modelled {
  span_tree_t tree;
  size_t bits, words, nodes;
  bool *model;
} modelled_t;

static void modelled_new(modelled_t *m, size_t bits)
{
  m->bits = bits;
  m->words = (bits + WORD_BITS - 1) / WORD_BITS;
  m->nodes = span_tree_words(bits);
  m->model = calloc(bits + 1, sizeof *m->model);
  word_t *map = calloc(m->words + 1, sizeof *map);
  uint64_t *node = malloc((m->nodes + 1) * sizeof *node);
  assert_true(m->model && map && node);
  memset(node, 0xee, (m->nodes + 1) * sizeof *node); /* nothing may count on zeroes */
  span_tree_init(&m->tree, map, node, bits);
}

static void modelled_end(modelled_t *m)
{
  uint64_t past;
  memset(&past, 0xee, sizeof past);
  assert_int_equal(m->tree.node[m->nodes], past);
  assert_int_equal(m->tree.map[m->words], 0);
  free(m->tree.map);
  free(m->tree.node);
  free(m->model);
}

static void change(modelled_t *m, size_t from, size_t to, bool set)
{
  memset(m->model + from, set, to - from);
  if (set)
    span_set(&m->tree, from, to);
  else
    span_clear(&m->tree, from, to);
}

/* starts[n]: where the lowest stretch of at least n begins. Returns the longest. */
static size_t look_at_every_bit(const modelled_t *m, size_t *starts)
{
  size_t longest = 0, length = 0;
  for (size_t i = 0; i < m->bits; i++) {
    length = m->model[i] ? length + 1 : 0;
    if (length > longest)
      starts[longest = length] = i + 1 - length;
  }
  return longest;
}

static void agrees(const modelled_t *m)
{
  static size_t starts[SMALL_MOST + 2];
  size_t longest = look_at_every_bit(m, starts);
  assert_int_equal(span_longest(&m->tree), longest);
  for (size_t n = 1; n <= longest; n++)
    assert_int_equal(span_find(&m->tree, n), starts[n]);
  assert_int_equal(span_find(&m->tree, longest + 1), SPAN_NONE);
  assert_int_equal(span_find(&m->tree, m->bits + 1), SPAN_NONE);
  for (size_t i = 0; i < m->bits; i++)
    assert_int_equal(bit_test(m->tree.map, i), m->model[i]);
}

/* The three lengths of [from, to), by looking. */
static uint64_t node_for(const modelled_t *m, size_t from, size_t to)
{
  size_t low = 0, length = 0, longest = 0;
  for (size_t i = from; i < to; i++) {
    length = i < m->bits && m->model[i] ? length + 1 : 0;
    low += length == i + 1 - from;
    longest = max_size(longest, length);
  }
  return low | (uint64_t)length << SPAN_LENGTH_BITS | (uint64_t)longest << (2 * SPAN_LENGTH_BITS);
}

static void every_node_agrees(const modelled_t *m)
{
  size_t bits = (size_t)m->tree.leaves * WORD_BITS;
  for (size_t level = 1; level <= m->tree.leaves; level *= 2, bits /= 2)
    for (size_t i = 0; i < level; i++)
      assert_int_equal(m->tree.node[level + i], node_for(m, i * bits, (i + 1) * bits));
}

/* ---- one word ---- */

/* Every pattern of 12 bits at each place of a word, and of two. */
static void every_pattern(void **state)
{
  (void)state;
  for (size_t bits = 64; bits <= 128; bits += 64)
    for (size_t shift = 0; shift + 12 <= bits; shift += 4) {
      modelled_t m;
      modelled_new(&m, bits);
      for (size_t pattern = 0; pattern < 1 << 12; pattern++) {
        for (size_t i = 0; i < 12; i++)
          if (m.model[shift + i] != (pattern >> i & 1))
            change(&m, shift + i, shift + i + 1, pattern >> i & 1);
        agrees(&m);
      }
      modelled_end(&m);
    }
}

static void every_stretch(void **state)
{
  (void)state;
  for (size_t bits = 1; bits <= 130; bits++)
    for (size_t from = 0; from < bits; from++)
      for (size_t to = from + 1; to <= bits; to += to < from + 3 || to + 3 > bits ? 1 : 13) {
        modelled_t m;
        modelled_new(&m, bits);
        change(&m, from, to, true);
        assert_int_equal(span_longest(&m.tree), to - from);
        assert_int_equal(span_find(&m.tree, to - from), from);
        assert_int_equal(span_find(&m.tree, 1), from);
        assert_int_equal(span_find(&m.tree, to - from + 1), SPAN_NONE);
        modelled_end(&m);
      }
}

/* ---- many words ---- */

static const size_t sizes[] = {1,   2,   63,  64,  65,   100,  127,  128,  129,  191,  193,
                               256, 500, 511, 513, 1000, 1024, 1025, 2047, 3333, 4095, 4096};

static void random_changes(void **state)
{
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (uint64_t seed = 1; seed <= 4; seed++) {
      dice_t dice = {seed * 1000 + s};
      modelled_t m;
      modelled_new(&m, sizes[s]);
      assert_int_equal(span_longest(&m.tree), 0);
      assert_int_equal(span_find(&m.tree, 1), SPAN_NONE);
      for (size_t i = 0; i < 150; i++) {
        size_t from = dice_below(&dice, m.bits + 1), length = dice_below(&dice, (size_t)1 << dice_below(&dice, 13));
        change(&m, from, min_size(from + length, m.bits), dice_below(&dice, 2));
        agrees(&m);
        if (i % 10 == 0)
          every_node_agrees(&m);
      }
      change(&m, 0, m.bits, true);
      agrees(&m);
      change(&m, 0, m.bits, false);
      agrees(&m);
      every_node_agrees(&m);
      modelled_end(&m);
    }
}

/* A map that has bits already. */
static void from_a_map(void **state)
{
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    dice_t dice = {s};
    modelled_t m;
    modelled_new(&m, sizes[s]);
    for (size_t i = 0; i < m.bits; i++)
      if ((m.model[i] = dice_below(&dice, 5) != 0))
        bit_set(m.tree.map, i);
    span_tree_init(&m.tree, m.tree.map, m.tree.node, m.bits);
    agrees(&m);
    every_node_agrees(&m);
    modelled_end(&m);
  }
}

/* As an allocator uses it: the lowest that will do is taken, something else given back. */
static void taken_and_given(void **state)
{
  enum { RUNS = 200 };
  (void)state;
  for (uint64_t seed = 1; seed <= 6; seed++) {
    struct {
      size_t from, to;
    } runs[RUNS] = {{0}};
    dice_t dice = {seed};
    modelled_t m;
    modelled_new(&m, 1500 + dice_below(&dice, 500));
    change(&m, 0, m.bits, true);
    for (size_t i = 0; i < 4000; i++) {
      size_t r = dice_below(&dice, RUNS), n = 1 + dice_below(&dice, dice_below(&dice, 9) ? 8 : 70);
      if (runs[r].to) {
        change(&m, runs[r].from, runs[r].to, true);
        runs[r].to = 0;
      } else if ((runs[r].from = span_find(&m.tree, n)) != SPAN_NONE) {
        runs[r].to = runs[r].from + n;
        for (size_t bit = runs[r].from; bit < runs[r].to; bit++)
          assert_true(m.model[bit]);
        change(&m, runs[r].from, runs[r].to, false);
      }
      if (i % 50 == 0)
        agrees(&m);
    }
    modelled_end(&m);
  }
}

/* ---- the largest there can be ---- */

static void as_large_as_can_be(void **state)
{
  size_t bits = SPAN_BITS_MOST;
  modelled_t m;
  (void)state;
  modelled_new(&m, bits);
  assert_int_equal(span_tree_words(bits), 2 * bits / WORD_BITS);
  change(&m, 0, bits, true);
  assert_int_equal(span_longest(&m.tree), bits);
  assert_int_equal(span_find(&m.tree, bits), 0);
  change(&m, bits / 2, bits / 2 + 1, false);
  assert_int_equal(span_longest(&m.tree), bits / 2);
  assert_int_equal(span_find(&m.tree, bits / 2), 0);
  change(&m, 5, 6, false);
  assert_int_equal(span_find(&m.tree, bits / 2 - 6), 6);
  assert_int_equal(span_find(&m.tree, bits / 2 - 5), bits / 2 + 1);
  assert_int_equal(span_longest(&m.tree), bits / 2 - 1);
  /* Gaps of each length, at the far end of each. */
  change(&m, 0, bits, false);
  size_t at = 0;
  for (size_t n = 1; n < 1000; n++, at += 2 * n)
    change(&m, at + n, at + 2 * n, true);
  for (size_t n = 1, from = 0; n < 1000; n++, from += 2 * n)
    assert_int_equal(span_find(&m.tree, n), from + n);
  assert_int_equal(span_find(&m.tree, 1000), SPAN_NONE);
  change(&m, bits - 1000, bits, true);
  assert_int_equal(span_find(&m.tree, 1000), bits - 1000);
  modelled_end(&m);
}

/* Across every border of two halves, of any length on either side. */
static void across_borders(void **state)
{
  modelled_t m;
  (void)state;
  modelled_new(&m, 4096);
  for (size_t border = 64; border < 4096; border += 64)
    for (size_t left = 0; left <= min_size(border, 130); left += 1 + left / 2)
      for (size_t right = 0; right <= min_size(4096 - border, 130); right += 1 + right / 2) {
        change(&m, border - left, border + right, true);
        assert_int_equal(span_longest(&m.tree), left + right);
        assert_int_equal(span_find(&m.tree, max_size(left + right, 1)), left + right ? border - left : SPAN_NONE);
        change(&m, border - left, border + right, false);
      }
  modelled_end(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_pattern),  cmocka_unit_test(every_stretch),   cmocka_unit_test(random_changes),
    cmocka_unit_test(from_a_map),     cmocka_unit_test(taken_and_given), cmocka_unit_test(as_large_as_can_be),
    cmocka_unit_test(across_borders),
  };
  return cmocka_run_group_tests_name("span tree", tests, NULL, NULL);
}
