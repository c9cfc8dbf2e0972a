/* SPDX-License-Identifier: MIT */
#include "bin/bin.h"
#include "region.h"
#include "unit.h"

static run_t *slab_new(region_t *region, size_t units, unsigned c, size_t block_size)
{
  run_t *slab = space_take(&region->space, units, 1);
  assert_non_null(slab);
  slab_init(slab, &region->arena, region, c, block_size);
  return slab;
}

static void put_back(run_t *slab, size_t index)
{
  bit_set(slab->bitmap, index);
  slab->free_count++;
}

static size_t units_of(size_t block_size) { return (block_size * 8 + UNIT - 1) >> UNIT_LOG2; }

/* The index without a division is the index, for every class and every byte that a slab of it can have. */
static void index_by_inverse(void **state)
{
  (void)state;
  for (size_t size = BLOCK_ALIGNMENT; size <= SIZE_MAX_CLASS; size += size < 4096 ? 16 : 4096) {
    uint64_t inverse = slab_inverse(size);
    size_t end = units_of(size) << UNIT_LOG2;
    for (size_t i = 0; i * size < end; i++) {
      assert_int_equal(i * size * inverse >> INVERSE_SHIFT, i);
      assert_int_equal((i * size + size - 1) * inverse >> INVERSE_SHIFT, i);
      assert_int_equal((i * size + size / 2) * inverse >> INVERSE_SHIFT, i);
    }
  }
}

/* Fresh blocks come in address order, the lowest last in the array, each of them once. */
static void fresh_blocks(void **state)
{
  (void)state;
  static void *blocks[5000];
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    size_t size = size_class_size(c);
    run_t *slab = slab_new(region_new(REGION_BYTES), units_of(size), c, size);
    assert_true(slab->capacity >= 8 && (size_t)slab->capacity * size <= (size_t)slab->units << UNIT_LOG2);
    assert_true(slab_is_unused(slab));
    char *next = slab->start;
    for (size_t want = 1; slab_has_fresh(slab); want = want * 2 + 1) {
      size_t got = slab_take_fresh(slab, size, blocks, want);
      assert_int_equal(got, min_size(want, slab->capacity - (size_t)(next - slab->start) / size));
      for (size_t i = 0; i < got; i++, next += size)
        assert_ptr_equal(blocks[want - 1 - i], next);
    }
    assert_int_equal(slab_take_fresh(slab, size, blocks, 10), 0);
    assert_int_equal((size_t)(next - slab->start), slab->capacity * size);
  }
}

static void answers(void **state)
{
  (void)state;
  size_t size = 48, index;
  run_t *slab = slab_new(region_new(REGION_BYTES), 1, 3, size);
  uint64_t inverse = slab_inverse(size);
  void *blocks[10];
  slab_take_fresh(slab, size, blocks, 10);
  put_back(slab, 4);
  for (size_t offset = 0; offset < UNIT; offset++) {
    slab_answer_t answer = slab_ask(slab, size, inverse, offset, &index);
    assert_int_equal(index, offset / size);
    if (offset % size || index >= 10)
      assert_int_equal(answer, SLAB_NOT_A_BLOCK);
    else
      assert_int_equal(answer, index == 4 ? SLAB_FREE : SLAB_LIVE_OR_CACHED);
  }
}

/* Random blocks go back; what is taken next is the lowest of them, whatever the batch. */
static void free_blocks_in_address_order(void **state)
{
  (void)state;
  static void *blocks[5000];
  dice_t dice = {9};
  for (unsigned c = 1; c < CLASS_COUNT; c += 7) {
    size_t size = size_class_size(c);
    run_t *slab = slab_new(region_new(REGION_BYTES), units_of(size), c, size);
    size_t fresh = slab_take_fresh(slab, size, blocks, slab->capacity - slab->capacity / 3);
    for (unsigned turn = 0; turn < 30; turn++) {
      size_t put = 0, last = 0;
      for (size_t i = 0; i < fresh; i++)
        if (!bit_test(slab->bitmap, i) && dice_below(&dice, 3) == 0) {
          put_back(slab, i);
          put++;
        }
      while (slab->free_count) {
        size_t free_before = slab->free_count, want = 1 + dice_below(&dice, 70);
        size_t got = slab_take_free(slab, size, blocks, want);
        assert_int_equal(got, min_size(want, free_before));
        assert_int_equal(slab->free_count, free_before - got);
        for (size_t i = 0; i < got; i++) {
          size_t at = (size_t)((char *)blocks[want - 1 - i] - slab->start) + size; /* + size: 0 is before the first */
          assert_true(at > last && !bit_test(slab->bitmap, at / size - 1));
          last = at;
        }
      }
      assert_int_equal(bits_count(slab->bitmap, 0, slab->capacity), 0);
    }
  }
}

/* After a slab was emptied all its blocks are fresh, and do not pass for zeroed ones. */
static void emptied(void **state)
{
  (void)state;
  void *blocks[600];
  run_t *slab = slab_new(region_new(REGION_BYTES), 1, 2, 32);
  slab->zeroed = true;
  slab_take_fresh(slab, 32, blocks, 600);
  for (size_t i = 0; i < 600; i += 2)
    put_back(slab, i);
  slab_empty(slab);
  assert_true(slab_is_unused(slab) && slab->fresh == 0 && slab->free_count == 0 && !slab->zeroed);
  assert_int_equal(bits_count(slab->bitmap, 0, slab->capacity), 0);
}

/* The entries of `blocks`, which are all but the last in a row, up or down. */
static size_t put_row(run_t *slab, size_t from, size_t count, bool down, void *last)
{
  void *blocks[MAGAZINE_CAPACITY_MOST];
  for (size_t i = 0; i < count; i++)
    blocks[i] = slab->start + (down ? from + count - 1 - i : from + i) * 48;
  if (last)
    blocks[count - 1] = last;
  must(slab_may_be_stretch(blocks, count, 48) == !last);
  return slab_put_stretch(slab, 48, slab_inverse(48), blocks, count);
}

/* Neighbours in memory get their bits together. Where one of them is no block, was free, or is not in the row, none gets any.
 */
static void stretches(void **state)
{
  (void)state;
  void *fresh[1000];
  run_t *slab = slab_new(region_new(REGION_BYTES), 1, 3, 48);
  assert_int_equal(slab_take_fresh(slab, 48, fresh, 1000), 1000);
  for (size_t count = 2; count <= MAGAZINE_CAPACITY_MOST; count++)
    for (size_t from = 0; from < 130; from++)
      for (int down = 0; down < 2; down++) {
        assert_int_equal(put_row(slab, from, count, down, NULL), count);
        assert_int_equal(bits_next_set(slab->bitmap, 0, 1000), from);
        assert_int_equal(bits_count(slab->bitmap, 0, 1000), count);
        assert_int_equal(bits_count(slab->bitmap, from, from + count), count);
        bits_clear(slab->bitmap, from, from + count);
      }
  for (int down = 0; down < 2; down++) {
    for (size_t free = 10; free < 20; free++) {
      bit_set(slab->bitmap, free);
      assert_int_equal(put_row(slab, 10, 10, down, NULL), 0);
      bit_clear(slab->bitmap, free);
    }
    assert_int_equal(put_row(slab, 995, 10, down, NULL), 0); /* beyond the fresh mark */
    assert_int_equal(put_row(slab, 0, 10, down, slab->start + 500 * 48), 0);
  }
  void *between[] = {slab->start + 8, slab->start + 8 + 48, slab->start + 8 + 96};
  assert_true(slab_may_be_stretch(between, 3, 48));
  assert_int_equal(slab_put_stretch(slab, 48, slab_inverse(48), between, 3), 0);
  void *outside[] = {slab->start - 48, slab->start};
  assert_int_equal(slab_put_stretch(slab, 48, slab_inverse(48), outside, 2), 0);
  void *twice[] = {slab->start, slab->start + 96, slab->start + 96}; /* as long as a row of three */
  assert_true(slab_may_be_stretch(twice, 3, 48));
  assert_int_equal(slab_put_stretch(slab, 48, slab_inverse(48), twice, 3), 0);
  assert_int_equal(bits_count(slab->bitmap, 0, slab->capacity), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(index_by_inverse), cmocka_unit_test(fresh_blocks),
    cmocka_unit_test(answers),          cmocka_unit_test(free_blocks_in_address_order),
    cmocka_unit_test(emptied),          cmocka_unit_test(stretches),
  };
  return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
