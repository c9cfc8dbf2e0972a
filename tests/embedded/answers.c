/* SPDX-License-Identifier: MIT
 *
 * What heaps of the profile embedded answer, beside what board.c does with them: sizes, questions about an address, heaps
 * inside heaps, budgets of parents, checked and zeroing heaps, and each kind of misuse. It is compiled as board.c is. */
#include <tidepool/embedded.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/stats.h>

#if __STDC_HOSTED__ && defined __linux__
#include <stdio.h>
#include <stdlib.h>
static void board_say(const char *text) { fputs(text, stdout); }
#define board_end(status) exit(status)
#else
#include "board.h"
#endif

enum { MEMORY = 16 << 10, NO_MEMORY = 12, WRONG = 22 };

static _Alignas(64) unsigned char memory[MEMORY], more[MEMORY];

/* ---- misuse: the hook leaves the call, as a firmware that restarts would ---- */

static void *place[5];
static const char *said;
static const void *of;

void pool_embedded_abort(const char *call, const void *address, const char *what)
{
  (void)call;
  said = what, of = address;
  __builtin_longjmp(place, 1);
}

static bool is_same(const char *a, const char *b)
{
  while (*a && *a == *b)
    a++, b++;
  return *a == *b;
}

static void must_hold(bool holds, const char *what)
{
  if (holds)
    return;
  board_say("FAILED: ");
  board_say(what);
  board_say("\n");
  board_end(1);
}
#define must(condition) must_hold(condition, #condition)

/* A call that ends with these words about this address. */
#define ends_with(what, address, call) \
  do { \
    said = "nothing"; \
    if (!__builtin_setjmp(place)) \
      call; \
    must(is_same(said, what) && of == (const void *)(address)); \
  } while (0)

static pool_heap_t *heap_in(unsigned char *where, unsigned flags)
{
  return pool_heap_create(&(pool_heap_options_t){.memory = where, .memory_size = MEMORY, .flags = flags});
}

/* The compiler knows the sizes that were requested, and would warn of the bytes beyond them. */
static unsigned char *of_any_size(void *block)
{
  __asm__("" : "+r"(block));
  return block;
}

static bool is_all(const unsigned char *bytes, size_t size, unsigned char byte)
{
  while (size && *bytes == byte)
    bytes++, size--;
  return !size;
}

static void fill(unsigned char *bytes, size_t size, unsigned char byte)
{
  for (size_t i = 0; i < size; i++)
    bytes[i] = byte;
}

/* ---- sizes ---- */

static void test_least(void)
{
  pool_heap_options_t o = {.memory = memory, .memory_size = 1};
  size_t least = o.memory_size = pool_heap_least_memory(&o);
  must(least && least < MEMORY);
  pool_heap_t *heap = pool_heap_create(&o);
  must(heap && pool_heap_alloc(heap, 1) && !pool_heap_alloc(heap, 1) && pool_embedded_errno == NO_MEMORY);
  pool_heap_destroy(heap);
  o.memory_size = least - 1;
  must(!pool_heap_create(&o) && pool_embedded_errno == WRONG);
  pool_embedded_errno = 0;
  must(!pool_heap_least_memory(NULL) && pool_embedded_errno == WRONG);
}

static volatile size_t too_large = (size_t)-1;

static void test_sizes(void)
{
  pool_heap_t *heap = heap_in(memory, 0);
  must(pool_heap_good_size(heap, 100) == 112 && pool_heap_good_size(heap, 0) == 32);
  must(pool_heap_good_size(heap, too_large) == too_large && pool_heap_good_size(heap, too_large - 1) == too_large - 1);
  unsigned char *a = of_any_size(pool_heap_alloc(heap, 100));
  must(a && pool_usable_size(a) == 112);
  fill(a, 112, 7);
  must(pool_heap_realloc(heap, a, 200) == a && pool_resize_in_place(a, 400) && pool_usable_size(a) == 400);
  must(is_all(a, 112, 7) && !pool_resize_in_place(a, MEMORY));
  unsigned char *b = of_any_size(pool_heap_zalloc(heap, 50));
  must(b && is_all(b, pool_usable_size(b), 0) && !pool_resize_in_place(a, 600));
  unsigned char *moved = pool_heap_realloc(heap, a, 1000);
  must(moved && moved != a && is_all(moved, 112, 7) && !pool_in_use(a));
  must(!pool_heap_realloc(heap, moved, 0) && !pool_in_use(moved) && pool_heap_realloc(heap, NULL, 10) == a);
  for (size_t alignment = 16; alignment <= 1024; alignment *= 2)
    must((uintptr_t)pool_heap_aligned_alloc(heap, alignment, 40) % alignment == 0);
  must(!pool_heap_aligned_alloc(heap, 48, 40) && pool_embedded_errno == WRONG);
  must(!pool_heap_calloc(heap, too_large, 2) && !pool_heap_alloc(heap, too_large) && pool_embedded_errno == NO_MEMORY);
  size_t largest = pool_heap_largest(heap);
  pool_stats_t stats;
  must(largest && !pool_heap_alloc(heap, largest + 1) && pool_heap_stats(heap, &stats) && stats.exhausted_count == 3);
  must(stats.largest_free == largest && pool_heap_alloc(heap, largest));
  must(pool_heap_trim(heap, 0) == 0 && !pool_heap_report(heap, 1) && !pool_forbid_system_calls(true));
  must(pool_heap_name(heap)[0] == 'h' && pool_heap_name(heap)[5]);
  pool_heap_destroy(heap);
}

/* ---- addresses ---- */

static void test_heap_in_heap(void)
{
  pool_heap_t *outer = heap_in(memory, 0);
  unsigned char *block = pool_heap_alloc(outer, 8000);
  pool_heap_t *inner = pool_heap_create(&(pool_heap_options_t){.memory = block, .memory_size = 8000});
  unsigned char *within = pool_heap_alloc(inner, 100);
  size_t size = 0;
  must(inner && within && pool_heap_of(within) == inner && pool_heap_of(block) == outer && pool_heap_of(block + 1) == inner);
  must(pool_block_start(within + 50, &size) == within && size == pool_usable_size(within));
  must(pool_block_start(block, &size) == block && size == 8000 && pool_usable_size(block) == 8000);
  must(pool_heap_of(memory + 1) == outer && !pool_in_use(memory + 1) && !pool_heap_of(more));
  ends_with("a block of another heap", within, pool_heap_free(outer, within));
  pool_heap_destroy(inner);
  must(pool_heap_of(within) == outer && pool_block_start(within, NULL) == block);
  pool_heap_free(outer, block);
  must(!pool_in_use(block));
  pool_heap_destroy(outer);
}

static void test_parents(void)
{
  pool_heap_options_t o = {.memory = memory, .memory_size = MEMORY, .budget = 12 << 10};
  pool_heap_t *parent = pool_heap_create(&o);
  o = (pool_heap_options_t){.memory = more, .memory_size = MEMORY, .parent = parent};
  pool_heap_t *child = pool_heap_create(&o);
  pool_stats_t stats;
  must(parent && child && pool_heap_alloc(child, 4000));
  must(pool_heap_stats(parent, &stats) && stats.children_bytes > 4000 && stats.held_bytes <= 12 << 10);
  must(!pool_heap_alloc(child, 9000) && pool_embedded_errno == NO_MEMORY);
  must(!pool_heap_set_budget(parent, 4096) && pool_heap_set_budget(parent, 0) && pool_heap_alloc(child, 9000));
  ends_with("still the parent or the overflow of a live heap", parent, pool_heap_destroy(parent));
  pool_heap_destroy(child);
  must(pool_heap_stats(parent, &stats) && stats.children_bytes == 0);
  pool_heap_destroy(parent);
}

/* ---- other contexts: one may run whenever the lock is free ---- */

static void (*other_context)(void); /* runs once, the next time that the lock is about to be taken */
static unsigned depth;

void pool_embedded_lock(void)
{
  void (*run)(void) = depth ? NULL : other_context;
  if (run) {
    other_context = NULL;
    run();
  }
  depth++;
}

void pool_embedded_unlock(void) { depth--; }

static pool_heap_t *ending;
static void end_heap(void)
{
  pool_heap_destroy(ending);
  fill(more, MEMORY, 0xff);
}

/* The list of heaps is read while its memory is there: the other context uses that of a heap that it has destroyed. */
static void test_other_heap_ends(void)
{
  pool_heap_t *heap = heap_in(memory, 0);
  unsigned char *block = pool_heap_alloc(heap, 100), *inside;
  ending = heap_in(more, 0);
  inside = pool_heap_alloc(ending, 100);
  must(block && inside);
  other_context = end_heap;
  ends_with("not a block of any heap", inside + 16, must(!pool_usable_size(inside + 16)));
  must(!other_context && !depth && pool_usable_size(block) == 112);
  pool_heap_destroy(heap);
}

/* ---- kinds of heaps ---- */

static void test_zeroing(void)
{
  pool_heap_t *heap = heap_in(memory, POOL_HEAP_ZERO_ON_FREE | POOL_HEAP_SINGLE_THREAD);
  unsigned char *a = pool_heap_alloc(heap, 96), *b = pool_heap_alloc(heap, 96);
  fill(a, 96, 1), fill(b, 96, 2);
  pool_heap_free(heap, a);
  must(is_all(a, 96, 0) && is_all(b, 96, 2) && pool_heap_realloc(heap, b, 40) == b);
  must(is_all(b, 40, 2) && is_all(b + 48, 48, 0));
  pool_heap_reset(heap);
  must(is_all(b, 40, 0));
  pool_heap_destroy(heap);
}

static bool count_bytes(const pool_block_t *block, void *bytes)
{
  *(size_t *)bytes += block->size;
  return true;
}

static void test_checked(void)
{
  if (!HAS_CHECKS)
    return;
  pool_heap_t *heap = heap_in(memory, POOL_HEAP_CHECKED);
  unsigned char *a = pool_heap_alloc(heap, 50), *b = of_any_size(pool_heap_zalloc(heap, 60));
  size_t bytes = 0;
  must(a && b && pool_usable_size(a) == 50 && is_all(a, 50, 0xcd) && is_all(b, 60, 0) && pool_in_use(a + 49));
  must(!pool_in_use(a + 50) && !pool_resize_in_place(a, 60) && pool_heap_walk(heap, count_bytes, &bytes) && bytes == 110);
  unsigned char *moved = pool_heap_realloc(heap, a, 80);
  must(moved && moved != a && is_all(moved, 50, 0xcd) && !pool_in_use(a) && pool_heap_realloc(heap, moved, 80) == moved);
  must((a = pool_heap_realloc(heap, moved, 20)) != NULL && pool_usable_size(a) == 20);
  size_t largest = pool_heap_largest(heap);
  must(largest && !pool_heap_alloc(heap, largest + 1));
  b[60] = 0;
  ends_with("written past its end", b + 60, pool_heap_free(heap, b));
  pool_heap_reset(heap);
  a = pool_heap_alloc(heap, 50);
  pool_heap_free(heap, a);
  a[3] = 0;
  ends_with("written to after it was freed", a + 3, must(!pool_heap_alloc(heap, 50)));
}

/* Both ends of the blocks find a byte that was changed. */
static void must_end_with(const char *what, pool_heap_t *heap, unsigned char *changed)
{
  *changed ^= 1;
  ends_with(what, changed, pool_heap_reset(heap));
  ends_with(what, changed, pool_heap_destroy(heap));
  *changed ^= 1;
}

static void test_checked_ends(void)
{
  if (!HAS_CHECKS)
    return;
  pool_heap_t *heap = heap_in(memory, POOL_HEAP_CHECKED);
  unsigned char *first = of_any_size(pool_heap_alloc(heap, 50)), *freed = pool_heap_alloc(heap, 200);
  unsigned char *last = of_any_size(pool_heap_alloc(heap, 60));
  object_pool_options_t o = {.object_size = 40, .capacity = 4, .heap = heap, .flags = OBJECT_POOL_CHECKED};
  object_pool_t *pool = object_pool_create(&o);
  unsigned char *object = pool ? object_pool_get(pool) : NULL;
  must(first && freed && last && object);
  pool_heap_free(heap, freed);
  object_pool_put(pool, object);
  must_end_with("written past its end", heap, first + 50);
  must_end_with("written before its beginning", heap, last - 1);
  must_end_with("written to after it was freed", heap, freed + 199);
  must_end_with("written to after it was freed", heap, memory + MEMORY - 1);
  must_end_with("written to after it was put", heap, object + 39);
  pool_heap_reset(heap);
  must_end_with("written to after it was freed", heap, last);
  pool_heap_destroy(heap);
}

/* ---- misuse ---- */

static void test_misuse(unsigned flags)
{
  pool_heap_t *heap = heap_in(more, flags);
  unsigned char *a = pool_heap_alloc(heap, 100), *b = pool_heap_alloc(heap, 100);
  must(a && b);
  ends_with("not a block of any heap", memory, pool_heap_free(heap, memory));
  ends_with("not a block of any heap", a + 16, pool_heap_free(heap, a + 16));
  ends_with("not a block of any heap", more + MEMORY - 16, pool_heap_free(heap, more + MEMORY - 16));
  pool_heap_free(heap, a);
  ends_with("freed twice", a, pool_heap_free(heap, a));
  ends_with("already freed", a, must(!pool_usable_size(a)));
  ends_with("already freed", a, must(!pool_heap_realloc(heap, a, 300)));
  pool_heap_destroy(heap);
  ends_with("not a live heap", heap, must(!pool_heap_alloc(heap, 1)));
  pool_embedded_errno = 0;
  must(!pool_heap_alloc(NULL, 1) && pool_embedded_errno == WRONG);
}

int main(void)
{
  test_least();
  test_sizes();
  test_heap_in_heap();
  test_parents();
  test_other_heap_ends();
  test_zeroing();
  test_checked_ends();
  test_misuse(0);
  test_misuse(HAS_CHECKS ? POOL_HEAP_CHECKED : POOL_HEAP_ZERO_ON_FREE);
  test_checked();
  board_say("all is well\n");
  board_end(0);
  for (;;) {}
}
