/* SPDX-License-Identifier: MIT
 * Granules against a model that looks at each of them: what is free, which block is where, how long the longest is. */
#include "../dice.h"
#include "base/granules.h"
#include "unit.h"

typedef struct modelled {
  granules_t g;
  size_t count, blocks;
  uint32_t *block; /* of each granule: where its block begins, and 1; 0: it is free */
  uint64_t dice;
} modelled_t;

/* Nothing behind the index may be written to. */
static void modelled_new(modelled_t *m, size_t count, uint64_t seed)
{
  size_t bytes = granules_index_bytes(count);
  char *index = malloc(bytes + 8);
  *m = (modelled_t){.count = count, .block = calloc(count + 1, sizeof *m->block), .dice = seed};
  assert_true(index && m->block);
  memset(index, 0, bytes);
  memset(index + bytes, 0xee, 8);
  granules_init(&m->g, index, count);
}

static void modelled_end(modelled_t *m)
{
  const unsigned char *past = (unsigned char *)granules_index(&m->g) + granules_index_bytes(m->count);
  for (size_t i = 0; i < 8; i++)
    assert_int_equal(past[i], 0xee);
  free(granules_index(&m->g));
  free(m->block);
}

static size_t end_of_block(const modelled_t *m, size_t from)
{
  size_t end = from;
  while (end < m->count && m->block[end] == from + 1)
    end++;
  return end;
}

static size_t longest_of(const modelled_t *m)
{
  size_t longest = 0, length = 0;
  for (size_t i = 0; i < m->count; i++) {
    length = m->block[i] ? 0 : length + 1;
    longest = max_size(longest, length);
  }
  return longest;
}

static size_t pages_used(const modelled_t *m)
{
  size_t granules = 0;
  for (size_t page = 0; page * GRANULE_PAGE < m->count; page++) {
    size_t end = min_size((page + 1) * GRANULE_PAGE, m->count), i = page * GRANULE_PAGE;
    while (i < end && !m->block[i])
      i++;
    granules += i < end ? end - page * GRANULE_PAGE : 0;
  }
  return granules;
}

static void mark(modelled_t *m, size_t from, size_t to, size_t block)
{
  for (size_t i = from; i < to; i++)
    m->block[i] = (uint32_t)block;
}

static void agrees(modelled_t *m)
{
  size_t next = 0, blocks = 0;
  check_granules(&m->g);
  for (size_t i = 0; i < m->count; i++) {
    bool begins = m->block[i] == i + 1;
    assert_int_equal(granules_begins(&m->g, i), begins);
    size_t end = 0, from = m->block[i] ? m->block[i] - 1 : GRANULES_NONE;
    assert_int_equal(granules_around(&m->g, i, &end), from);
    assert_true(from == GRANULES_NONE || end == end_of_block(m, from));
    if (begins) {
      for (; next <= i; next++)
        assert_int_equal(granules_next(&m->g, next), i);
      assert_int_equal(granules_end(&m->g, i), end_of_block(m, i));
      blocks++;
    }
  }
  assert_int_equal(granules_next(&m->g, next), GRANULES_NONE);
  assert_int_equal(m->g.blocks, blocks);
}

/* What the longest request is follows from the same search as a request. It is the longest stretch, unless more than the search
 * looks at are of its class: then it may be a quarter shorter. */
static void longest_agrees(modelled_t *m)
{
  granule_fit_t fit;
  size_t longest = granules_longest(&m->g), longest_free = longest_of(m);
  if (longest_free < GRANULES_LEAST)
    assert_int_equal(longest, 0);
  assert_true(longest <= longest_free && (longest_free < GRANULES_LEAST || 5 * longest >= 4 * longest_free));
  if (m->count <= 1024)
    assert_int_equal(longest, longest_free < GRANULES_LEAST ? 0 : longest_free);
  if (longest)
    assert_true(granules_find(&m->g, longest, &fit));
  assert_false(granules_find(&m->g, longest + 1 + (longest == 0), &fit));
  assert_int_equal(granules_longest_within(&m->g, SIZE_MAX), longest_free);
  assert_int_equal(granules_longest_beside(&m->g), longest_free);
}

/* ---- one step ---- */

static void takes(modelled_t *m, const granule_fit_t *fit)
{
  size_t before = pages_used(m);
  for (size_t i = fit->at; i < fit->at + fit->count; i++)
    assert_int_equal(m->block[i], 0);
  assert_true(fit->from <= fit->at && fit->at + fit->count <= fit->to && fit->to <= m->count);
  size_t opens = granules_unused(&m->g, fit->at, fit->at + fit->count);
  granules_take(&m->g, fit);
  mark(m, fit->at, fit->at + fit->count, fit->at + 1);
  assert_int_equal(pages_used(m), before + opens);
}

static void take_some(modelled_t *m, size_t most)
{
  granule_fit_t fit;
  size_t count = GRANULES_LEAST + below(&m->dice, most);
  if (!granules_find(&m->g, count, &fit))
    assert_true(granules_longest(&m->g) < count);
  else
    takes(m, &fit);
}

static bool has_aligned(const modelled_t *m, size_t count, size_t alignment, size_t first)
{
  for (size_t i = 0, length = 0; i < m->count; i++) {
    length = m->block[i] ? 0 : length + 1;
    if (length >= count && (i + 1 - count + first) % alignment == 0)
      return true;
  }
  return false;
}

static void take_aligned(modelled_t *m, size_t most)
{
  granule_fit_t fit;
  size_t count = GRANULES_LEAST + below(&m->dice, most), alignment = (size_t)1 << below(&m->dice, 8);
  size_t first = below(&m->dice, 1000);
  if (!granules_find_aligned(&m->g, count, alignment, first, &fit)) {
    assert_true(longest_of(m) < count + alignment - 1 || m->count > 1024);
    assert_true(m->count > 128 || !has_aligned(m, count, alignment, first)); /* all of so few windows are looked at */
    return;
  }
  assert_int_equal((fit.at + first) % alignment, 0);
  takes(m, &fit);
}

/* The pages that a block would be the first in may be too dear. */
static void take_within(modelled_t *m, size_t most)
{
  granule_fit_t fit;
  size_t count = GRANULES_LEAST + below(&m->dice, most), room = below(&m->dice, 3) * GRANULE_PAGE;
  size_t longest = granules_longest_within(&m->g, room);
  assert_int_equal(granules_find_within(&m->g, count, 1, 0, room, &fit), count <= longest);
  if (count > longest)
    return;
  assert_true(granules_unused(&m->g, fit.at, fit.at + count) <= room);
  takes(m, &fit);
}

/* Returns a block at random; GRANULES_NONE: there is none. */
static size_t any_block(modelled_t *m)
{
  size_t from = granules_next(&m->g, below(&m->dice, m->count));
  return from != GRANULES_NONE ? from : granules_next(&m->g, 0);
}

static void give_one(modelled_t *m, size_t most)
{
  size_t from = any_block(m), before = pages_used(m);
  (void)most;
  if (from == GRANULES_NONE)
    return;
  size_t end = end_of_block(m, from);
  mark(m, from, end, 0);
  assert_int_equal(granules_give(&m->g, from, end), before - pages_used(m));
}

static void shorten_one(modelled_t *m, size_t most)
{
  size_t from = any_block(m), before = pages_used(m);
  (void)most;
  size_t end = from == GRANULES_NONE ? 0 : end_of_block(m, from);
  if (from == GRANULES_NONE || end - from == GRANULES_LEAST)
    return;
  size_t new_end = from + GRANULES_LEAST + below(&m->dice, end - from - GRANULES_LEAST);
  mark(m, new_end, end, 0);
  assert_int_equal(granules_shorten(&m->g, end, new_end), before - pages_used(m));
}

static void lengthen_one(modelled_t *m, size_t most)
{
  size_t from = any_block(m), free = 0;
  (void)most;
  if (from == GRANULES_NONE)
    return;
  size_t end = end_of_block(m, from);
  while (end + free < m->count && !m->block[end + free])
    free++;
  assert_int_equal(granules_behind(&m->g, end), free);
  if (!free)
    return;
  size_t new_end = end + 1 + below(&m->dice, free);
  granules_lengthen(&m->g, end, new_end);
  mark(m, end, new_end, from + 1);
}

/* ---- tests ---- */

/* At few sizes the ends of words and pages are everywhere. */
static void random_steps(void **state)
{
  static void (*const steps[])(modelled_t *, size_t) = {take_some, take_some, take_some, take_aligned, take_within,
                                                        give_one,  give_one,  give_one,  shorten_one,  lengthen_one};
  static const size_t counts[] = {2,   3,   5,   62,  63,  64,  65,  126,  127,  128, 200,
                                  255, 256, 257, 511, 512, 513, 700, 1024, 2049, 5000};
  (void)state;
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (uint64_t seed = 1; seed <= 6; seed++) {
      modelled_t m;
      modelled_new(&m, counts[c], seed * 100 + c);
      size_t most = seed % 3 == 0 ? counts[c] : seed % 3 == 1 ? 4 : 40;
      for (size_t i = 0; i < 400; i++) {
        steps[below(&m.dice, sizeof steps / sizeof *steps)](&m, most);
        if (i % 4 == 0 || counts[c] < 300) {
          agrees(&m);
          longest_agrees(&m);
        }
      }
      modelled_end(&m);
    }
}

/* All that was taken comes back as one stretch, in whatever order it comes. */
static void all_of_it_comes_back(void **state)
{
  (void)state;
  for (size_t count = GRANULES_LEAST; count < 1500; count += 1 + count / 7) {
    modelled_t m;
    modelled_new(&m, count, count);
    granule_fit_t fit;
    while (granules_find(&m.g, GRANULES_LEAST, &fit))
      takes(&m, &fit);
    assert_int_equal(m.g.blocks, count / GRANULES_LEAST);
    agrees(&m);
    while (m.g.blocks)
      give_one(&m, 0);
    agrees(&m);
    assert_int_equal(granules_longest(&m.g), count);
    assert_int_equal(m.g.live, 0);
    modelled_end(&m);
  }
}

/* The fit is the best of the memory up to a quarter, and the lowest of its class. */
static void a_good_fit_is_found(void **state)
{
  static const size_t lengths[] = {40, 9, 20, 9, 300, 70, 64, 2};
  (void)state;
  modelled_t m;
  modelled_new(&m, 2000, 1);
  granule_fit_t fit, all[2 * 8];
  for (size_t i = 0; i < 16; i++) {
    assert_true(granules_find(&m.g, i % 2 ? GRANULES_LEAST : lengths[i / 2], &all[i]));
    takes(&m, &all[i]);
  }
  while (granules_find(&m.g, GRANULES_LEAST, &fit))
    takes(&m, &fit);
  for (size_t i = 0; i < 16; i += 2) {
    mark(&m, all[i].at, all[i].at + all[i].count, 0);
    granules_give(&m.g, all[i].at, all[i].at + all[i].count);
  }
  static const size_t wanted[][2] = {{2, 14}, {9, 2}, {8, 2}, {17, 4}, {33, 0}, {60, 10}, {65, 10}, {71, 8}, {300, 8}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    assert_true(granules_find(&m.g, wanted[i][0], &fit));
    assert_int_equal(fit.at, all[wanted[i][1]].at);
  }
  assert_false(granules_find(&m.g, 301, &fit));
  modelled_end(&m);
}

/* Fills a memory with short blocks and gives some back, one in so many; what can be kept is kept. */
static void keep_some(granules_t *g, uint64_t *dice, size_t one)
{
  granule_fit_t fit;
  for (size_t most = 40; most > 2; most /= 2)
    while (granules_find(g, GRANULES_LEAST + below(dice, most), &fit))
      granules_take(g, &fit);
  for (size_t i = 0; (i = granules_next(g, i)) != GRANULES_NONE;) {
    size_t end = granules_end(g, i);
    if (!one_in(dice, one) && !granules_keep(g, i, end))
      granules_give(g, i, end);
    i = end;
  }
}

/* The longest piece is known before what is kept is given. */
static void kept_blocks_join_the_longest_piece(void **state)
{
  (void)state;
  size_t longer = 0;
  for (uint64_t round = 0; round < 40; round++) {
    modelled_t m;
    uint64_t dice = round;
    modelled_new(&m, KEPT_COUNT, 1);
    keep_some(&m.g, &dice, 2 + round * 50);
    size_t between = granules_longest_within(&m.g, SIZE_MAX), live = m.g.live;
    granule_piece_t piece = granules_longest_piece(&m.g);
    check_granules(&m.g);
    assert_int_equal(m.g.live, live);
    for (size_t from; (from = granules_take_any_kept(&m.g)) != GRANULES_NONE;)
      granules_give(&m.g, from, granules_end(&m.g, from));
    assert_int_equal(piece.to - piece.from, granules_longest_within(&m.g, SIZE_MAX));
    assert_int_equal(granules_around(&m.g, piece.from, &(size_t){0}), GRANULES_NONE);
    assert_true(granules_next(&m.g, piece.from) >= piece.to);
    longer += piece.to - piece.from > between;
    modelled_end(&m);
  }
  assert_true(longer > 20);
}

/* One of each length is kept, and that one is had again. */
static void freed_blocks_are_kept(void **state)
{
  (void)state;
  modelled_t m;
  modelled_new(&m, KEPT_COUNT, 1);
  granule_fit_t fit;
  size_t first[KEPT_LONGEST + 2], kept = 0;
  for (size_t length = GRANULES_LEAST; length <= KEPT_LONGEST + 1; length++)
    for (size_t twice = 0; twice < 2; twice++) {
      assert_true(granules_find(&m.g, length, &fit));
      granules_take(&m.g, &fit);
      first[length] = fit.at;
    }
  for (size_t length = KEPT_LONGEST + 1; length >= GRANULES_LEAST; length--) {
    size_t to = first[length] + length;
    bool fits = length <= KEPT_LONGEST;
    uint32_t live = m.g.live;
    assert_false(granules_is_kept(&m.g, first[length], to));
    assert_int_equal(granules_keep(&m.g, first[length], to), fits);
    assert_int_equal(granules_is_kept(&m.g, first[length], to), fits);
    assert_false(granules_is_kept(&m.g, first[length] - length, first[length])); /* the other of that length */
    assert_int_equal(m.g.live, live - (fits ? length : 0));
    kept += fits ? length : 0;
    check_granules(&m.g);
  }
  assert_int_equal(granules_take_kept(&m.g, KEPT_LONGEST), first[KEPT_LONGEST]);
  assert_int_equal(granules_take_kept(&m.g, KEPT_LONGEST), GRANULES_NONE);
  assert_int_equal(granules_take_kept(&m.g, KEPT_LONGEST + 1), GRANULES_NONE);
  check_granules(&m.g);
  size_t all = 0;
  for (size_t from; (from = granules_take_any_kept(&m.g)) != GRANULES_NONE; all += granules_end(&m.g, from) - from)
    check_granules(&m.g);
  assert_int_equal(all, kept - KEPT_LONGEST);
  modelled_end(&m);
  modelled_new(&m, KEPT_COUNT - 1, 1);
  assert_true(granules_find(&m.g, 2, &fit));
  granules_take(&m.g, &fit);
  assert_false(granules_keep(&m.g, fit.at, fit.at + 2));
  assert_int_equal(granules_take_kept(&m.g, 2), GRANULES_NONE);
  assert_int_equal(granules_take_any_kept(&m.g), GRANULES_NONE);
  modelled_end(&m);
}

/* In the largest memories two words of a row have one bit of its parts. The second word is found when the first has none. */
static void two_words_are_one_part(void **state)
{
  enum { PAIRS = WORD_BITS * WORD_BITS, LOW = 10, HIGH = PAIRS - 10 }; /* two words of a row are so many blocks of 2 granules */
  (void)state;
  modelled_t m;
  modelled_new(&m, GRANULES_MOST, 1);
  granule_fit_t fit;
  for (size_t i = 0; i < PAIRS; i++) {
    assert_true(granules_find(&m.g, 2, &fit) && fit.at == 2 * i);
    granules_take(&m.g, &fit);
  }
  granules_give(&m.g, 2 * LOW, 2 * LOW + 2);
  granules_give(&m.g, 2 * HIGH, 2 * HIGH + 2);
  for (size_t i = 0; i < 2; i++) {
    assert_true(granules_find(&m.g, 2, &fit));
    assert_int_equal(fit.at, i ? 2 * HIGH : 2 * LOW);
    granules_take(&m.g, &fit);
    check_granules(&m.g);
  }
  assert_true(granules_find(&m.g, 2, &fit));
  assert_int_equal(fit.at, 2 * PAIRS);
  modelled_end(&m);
}

/* The index is what a small memory cannot spare much for: 1.4 %, and 1.6 with words of 32 bits. */
static void the_index_is_small(void **state)
{
  (void)state;
  for (size_t count = 4096; count <= GRANULES_MOST; count *= 2)
    assert_true(granules_index_bytes(count) * 1000 <= (WORD_BITS > 32 ? 14 : 16) * count * 16);
  assert_true(granules_index_bytes(64) <= 96);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_steps),
    cmocka_unit_test(all_of_it_comes_back),
    cmocka_unit_test(a_good_fit_is_found),
    cmocka_unit_test(freed_blocks_are_kept),
    cmocka_unit_test(kept_blocks_join_the_longest_piece),
    cmocka_unit_test(two_words_are_one_part),
    cmocka_unit_test(the_index_is_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
