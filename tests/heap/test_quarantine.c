/* SPDX-License-Identifier: MIT
 * Blocks of a checked heap that came back are kept for a while: what is written to them is found, at the latest at the end. So
 * is what is written outside of blocks that were never freed. */
#include "../dice.h"
#include "checked_kinds.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { SIZES = 6, MOST = 4 << 20, PART = 16, GUARD = 96 };
static const size_t sizes[SIZES] = {0, 1, 100, 1000, 3000, 20000};

/* What is in a checked heap's hands at most. */
static size_t most_kept(size_t k)
{
  size_t limit = kinds[k].budget ? kinds[k].budget : kinds[k].memory_size;
  return limit && limit / PART < MOST ? limit / PART : MOST;
}

static bool keeps(size_t k, size_t size) { return size + GUARD + 500 + size / 8 <= most_kept(k) / 8; }

/* ---- it is kept ---- */

static void not_used_again_soon(void **state)
{
  (void)state;
  for (size_t k = 0; k < ROOMY; k++)
    for (size_t s = 0; s < SIZES; s++) {
      pool_heap_t *heap = heap_with(kinds[k]);
      void *first = pool_heap_alloc(heap, sizes[s]);
      bool kept = keeps(k, sizes[s]);
      pool_heap_free(heap, first);
      pool_stats_t stats = stats_of(heap);
      assert_int_equal(stats.live_blocks, 0);
      assert_int_equal(stats.live_bytes, 0);
      assert_int_equal(stats.cached_bytes != 0, kept);
      assert_false(pool_in_use(first));
      assert_true(pool_heap_walk(heap, visit_nothing, NULL));
      for (size_t i = 0; i < 7 && kept; i++) {
        void *block = pool_heap_alloc(heap, sizes[s]);
        assert_true(block && block != first);
        pool_heap_free(heap, block);
      }
      assert_true(check_heap(heap));
      pool_heap_trim(heap, 0);
      assert_int_equal(stats_of(heap).cached_bytes, 0);
      pool_heap_destroy(heap);
    }
}

static void bounded(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++) {
    pool_heap_t *heap = heap_with(kinds[k]);
    uint64_t dice = k;
    size_t most = 0;
    for (size_t i = 0; i < 20000; i++) {
      void *block = pool_heap_alloc(heap, below(&dice, 400));
      assert_non_null(block);
      pool_heap_free(heap, block);
      if (i % 16 == 0)
        most = max_size(most, stats_of(heap).cached_bytes);
    }
    assert_true(most <= most_kept(k) && most > most_kept(k) / 5 * 4);
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
}

/* The tightest of the ancestors' budgets counts. */
static void bounded_by_a_parent(void **state)
{
  (void)state;
  pool_heap_t *parent = heap_with_budget(4 << 20);
  pool_heap_t *heap = heap_with((pool_heap_options_t){.parent = parent, .flags = POOL_HEAP_CHECKED});
  for (size_t i = 0; i < 20000; i++)
    pool_heap_free(heap, pool_heap_alloc(heap, 100));
  size_t cached = stats_of(heap).cached_bytes;
  assert_true(cached <= (4 << 20) / PART && cached > (4 << 20) / PART - 1000);
  pool_heap_destroy(heap);
  pool_heap_destroy(parent);
}

/* ---- a heap that needs it has it ---- */

static void exhausted_heaps_give_it_up(void **state)
{
  static const size_t of[] = {16, 100, 1000};
  (void)state;
  for (size_t k = 3; k < COUNT_OF(kinds); k++)
    for (size_t s = 0; s < COUNT_OF(of); s++) {
      pool_heap_t *heap = heap_with(kinds[k]);
      list_t list = {0};
      size_t count = list_exhaust(&list, heap, of[s]);
      assert_true(count > 5);
      for (int round = 0; round < 3; round++) {
        list_free(&list, heap);
        assert_int_equal(list_exhaust(&list, heap, of[s]), count);
      }
      list_free(&list, heap);
      size_t largest = pool_heap_largest(heap);
      assert_int_equal(stats_of(heap).cached_bytes, 0);
      void *block = pool_heap_alloc(heap, largest);
      assert_non_null(block);
      assert_null(pool_heap_alloc(heap, largest + 4096));
      pool_heap_free(heap, block);
      assert_true(check_heap(heap));
      pool_heap_destroy(heap);
    }
}

/* A 32-bit process may have 2 GiB of addresses in a row. */
static void leave_no_half(void *pages[7])
{
  for (size_t i = 0; i < 7; i++)
    pages[i] = mmap((void *)((i + 1) << 29), 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void sizes_that_overflow(void **state)
{
  static const size_t too_many[] = {PTRDIFF_MAX, PTRDIFF_MAX - (3 << 16), PTRDIFF_MAX - (2 << 16), SIZE_MAX, SIZE_MAX - 100};
  void *pages[7];
  (void)state;
  leave_no_half(pages);
  for (size_t k = 0; k < COUNT_OF(kinds); k++) {
    pool_heap_t *heap = heap_with(kinds[k]);
    for (size_t i = 0; i < COUNT_OF(too_many); i++) {
      assert_null(pool_heap_alloc(heap, opaque(too_many[i])));
      for (size_t alignment = 16; alignment; alignment *= 2)
        assert_null(pool_heap_aligned_alloc(heap, alignment, opaque(too_many[i])));
    }
    assert_null(pool_heap_aligned_alloc(heap, opaque(((size_t)PTRDIFF_MAX >> 1) + 1), 100));
    pool_heap_destroy(heap);
  }
  for (size_t i = 0; i < 7; i++)
    munmap(pages[i], 1);
}

static void alignments(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++) {
    pool_heap_t *heap = heap_with(kinds[k]);
    for (size_t alignment = 16; alignment <= 8192; alignment *= 2)
      for (size_t s = 0; s < 4; s++) {
        char *block = pool_heap_aligned_alloc(heap, alignment, sizes[s]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % alignment, 0);
        assert_int_equal(pool_usable_size(block), sizes[s]);
        pattern_write(block, sizes[s], s);
        char *moved = pool_heap_realloc(heap, block, sizes[s] + 7);
        assert_true(moved && moved != block && pattern_kept(moved, sizes[s], sizes[s], s));
        pool_heap_free(heap, moved);
      }
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
}

/* ---- a late write is found, whatever comes next ---- */

typedef enum next { TRIM, RESET, DESTROY, EXHAUST, OTHERS, LARGEST, CHECK, EXIT, NEXTS } next_t;

typedef struct late {
  size_t kind, size;
  ptrdiff_t at;
  next_t next;
} late_t;

static void exhaust(pool_heap_t *heap)
{
  list_t list = {0};
  list_exhaust(&list, heap, 64);
}

static void free_others(pool_heap_t *heap)
{
  for (size_t i = 0; i < 50000; i++)
    pool_heap_free(heap, pool_heap_alloc(heap, 100));
}

static void go_on(pool_heap_t *heap, next_t next)
{
  if (next == TRIM)
    pool_heap_trim(heap, 0);
  else if (next == RESET)
    pool_heap_reset(heap);
  else if (next == DESTROY)
    pool_heap_destroy(heap);
  else if (next == EXHAUST)
    exhaust(heap);
  else if (next == OTHERS)
    free_others(heap);
  else if (next == LARGEST)
    pool_heap_largest(heap);
  else if (next == CHECK)
    check_heap(heap);
  else
    exit(0);
}

static void write_late(void *argument)
{
  const late_t *late = argument;
  pool_heap_t *heap = heap_with(kinds[late->kind]);
  pool_heap_free(heap, pool_heap_alloc(heap, 10));
  char *block = pool_heap_alloc(heap, late->size);
  pool_heap_free(heap, block);
  pool_heap_free(heap, pool_heap_alloc(heap, 10));
  block[late->at] ^= 1;
  go_on(heap, late->next);
}

static void late_writes_are_found(void **state)
{
  static const char *const calls[NEXTS] = {"pool_heap_trim",
                                           "pool_heap_reset",
                                           "pool_heap_destroy",
                                           "pool_heap_alloc",
                                           "pool_heap_free",
                                           "pool_heap_largest",
                                           "check",
                                           "exit"};
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (unsigned next = 0; next < NEXTS; next++) {
      late_t late = {k, 100, (ptrdiff_t)(next * 14), next};
      if (next == EXIT && kinds[k].flags & POOL_HEAP_SINGLE_THREAD)
        continue; /* nobody else looks into it, and a sanitizer has a thread of its own */
      if (next == EXHAUST && !kinds[k].budget && !kinds[k].memory)
        continue; /* nothing exhausts it */
      char words[160];
      snprintf(words, sizeof words, "written to after it was freed at offset %td of a block of 100 bytes", late.at);
      aborts_with(write_late, &late, words);
      snprintf(words, sizeof words, "tidepool: %s(0x", calls[next]);
      aborts_with(write_late, &late, words);
    }
}

/* In front of it there is what leads to the next of those that are kept. It is not followed. */
static void so_are_those_in_front(void **state)
{
  (void)state;
  for (ptrdiff_t at = -64; at < 0; at++) {
    late_t late = {0, 100, at, at % 2 ? TRIM : EXIT};
    aborts_with(write_late, &late, "written to after it was freed at offset -");
  }
}

/* ---- so is a write outside of a block that is not freed ---- */

static void write_outside(void *argument)
{
  const late_t *late = argument;
  pool_heap_t *heap = heap_with(kinds[late->kind]);
  must(pool_heap_alloc(heap, 10));
  volatile char *block = pool_heap_alloc(heap, late->size); /* or a compiler sees that nobody reads it */
  must(block && pool_heap_alloc(heap, 10));
  pool_heap_free(heap, pool_heap_alloc(heap, 10));
  block[late->at] ^= 1;
  go_on(heap, late->next);
}

static void writes_outside_live_blocks(void **state)
{
  static const next_t nexts[] = {RESET, DESTROY, EXIT};
  static const char *const calls[] = {"pool_heap_reset", "pool_heap_destroy", "exit"};
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (size_t s = 0; s < SIZES; s++)
      for (size_t n = 0; n < COUNT_OF(nexts); n++) {
        if (nexts[n] == EXIT && kinds[k].flags & POOL_HEAP_SINGLE_THREAD)
          continue;
        char words[160];
        late_t late = {k, sizes[s], -1, nexts[n]};
        snprintf(words, sizeof words, "): written before its beginning at offset -1 of a block of %zu bytes of heap", sizes[s]);
        aborts_with(write_outside, &late, words);
        late.at = (ptrdiff_t)sizes[s];
        snprintf(words, sizeof words, "): written past its end at offset %zu of a block of %zu bytes of heap", sizes[s],
                 sizes[s]);
        aborts_with(write_outside, &late, words);
        snprintf(words, sizeof words, "tidepool: %s(0x", calls[n]);
        aborts_with(write_outside, &late, words);
      }
}

/* Where nobody is in a call with the heap, one that has no head that can be believed has lost it. */
static void lose_the_head(void *argument)
{
  late_t late = *(const late_t *)argument;
  pool_heap_t *heap = heap_with(kinds[late.kind]);
  volatile char *block = pool_heap_alloc(heap, 100);
  __asm__("" : "+r"(block)); /* the compiler knows how long it is */
  for (int at = -64; at < -40; at++)
    block[at] = 0;
  go_on(heap, late.next);
}

/* The bug is in a child, and a C library that does not say that its parent had one thread leaves it open whether a thread was
 * lost in the middle of a call. */
#if __has_include(<sys/single_threaded.h>)
enum { KNOWS_THREADS = 1 };
#else
enum { KNOWS_THREADS = 0 };
#endif

static void lost_heads(void **state)
{
  (void)state;
  if (!KNOWS_THREADS)
    skip();
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (int reset = 0; reset < 2; reset++)
      aborts_with(lose_the_head, &(late_t){.kind = k, .next = reset ? RESET : DESTROY}, "written before its beginning");
}

/* ---- freed twice ---- */

static void free_again(void *argument)
{
  const late_t *late = argument;
  pool_heap_t *heap = heap_with(kinds[late->kind]);
  void *volatile block = pool_heap_alloc(heap, 100);
  pool_heap_free(heap, block);
  for (ptrdiff_t i = 0; i < late->at; i++)
    pool_heap_free(heap, pool_heap_alloc(heap, 100));
  pool_heap_free(heap, block);
}

/* Also after others of its size, for as long as it is kept. */
static void known_for_what_it_was(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    for (ptrdiff_t others = 0; others < (ptrdiff_t)most_kept(k) / 256 && others < 3000; others = others * 4 + 1) {
      late_t late = {.kind = k, .at = others};
      aborts_with(free_again, &late, "freed twice: a block of 100 bytes of heap \"heap-");
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(not_used_again_soon),        cmocka_unit_test(bounded),
    cmocka_unit_test(bounded_by_a_parent),        cmocka_unit_test(exhausted_heaps_give_it_up),
    cmocka_unit_test(sizes_that_overflow),        cmocka_unit_test(alignments),
    cmocka_unit_test(late_writes_are_found),      cmocka_unit_test(so_are_those_in_front),
    cmocka_unit_test(writes_outside_live_blocks), cmocka_unit_test(lost_heads),
    cmocka_unit_test(known_for_what_it_was),
  };
  return cmocka_run_group_tests_name("quarantine", tests, NULL, NULL);
}
