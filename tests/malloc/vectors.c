/* SPDX-License-Identifier: MIT
 *
 * Two vectors grow in turn. Each soon stands in the way of the other, so that large blocks move again and again, with all that
 * the system has to move for it: pages that were made usable in several steps are several mappings to it.
 *
 * usage: vectors MIB      how much the two hold in the end */
#include "ours.h"
#include "testing.h"

enum { FIRST_WORDS = 512 };

typedef struct vector {
  uint64_t *words;
  size_t count;
  uint64_t seed;
} vector_t;

static size_t words_each;

/* Differs from word to word and from vector to vector, so that every page in the wrong place is seen. */
static uint64_t word_at(const vector_t *vector, size_t i) { return vector->seed + i * 0x9e3779b97f4a7c15u; }

static void check(const vector_t *vector)
{
  for (size_t i = 0; i < vector->count; i++)
    if (vector->words[i] != word_at(vector, i))
      fail_msg("word %zu of %zu is wrong", i, vector->count);
}

static void grow(vector_t *vector)
{
  size_t count = vector->count ? vector->count + vector->count / 2 : FIRST_WORDS;
  if (count > words_each)
    count = words_each;
  vector->words = realloc(vector->words, count * sizeof *vector->words);
  assert_non_null(vector->words);
  check(vector);
  for (; vector->count < count; vector->count++)
    vector->words[vector->count] = word_at(vector, vector->count);
}

static void test_two_vectors_grow_in_turn(void **state)
{
  (void)state;
  vector_t vectors[2] = {{.seed = 1}, {.seed = 2}};
  while (vectors[1].count < words_each) {
    grow(&vectors[0]);
    check(&vectors[1]);
    grow(&vectors[1]);
    check(&vectors[0]);
  }
  for (size_t i = 0; i < COUNT_OF(vectors); i++)
    free(vectors[i].words);
}

int main(int argc, char **argv)
{
  assert_int_equal(argc, 2);
  words_each = strtoul(argv[1], NULL, 10) * MIB / sizeof(uint64_t) / 2;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_vectors_grow_in_turn)};
  return cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
}
