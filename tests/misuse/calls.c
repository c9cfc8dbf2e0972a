/* SPDX-License-Identifier: MIT
 *
 * One call of pool.h or heap.h with one bug: CALL is given what KIND has made of a block of 100 bytes of the heap "texture
 * cache", or of the default heap where the call takes none and allocates.
 *
 * usage: calls CALL KIND */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>
#include <unistd.h>

enum { SIZE = 100, TRIES = 1000 };

static char static_memory[256];
static pool_heap_t *heap; /* "texture cache" */
static unsigned flags = POOL_HEAP_CHECKED;

static void *hidden(const void *address)
{
  uintptr_t value = (uintptr_t)address;
  __asm__ volatile("" : "+r"(value));
  return (void *)value;
}

static pool_heap_t *heap_called(const char *name)
{
  pool_heap_t *made = pool_heap_create(&(pool_heap_options_t){.name = name, .flags = flags});
  if (!made)
    _exit(3);
  return made;
}

static char *block_of(pool_heap_t *of)
{
  char *block = pool_heap_alloc(of, SIZE);
  if (!block)
    _exit(3);
  return hidden(memset(block, 1, SIZE));
}

/* ---- what takes a block ---- */

static void with_free(void *block) { pool_free(block); }
static void with_free_sized(void *block) { pool_free_sized(block, SIZE); }
static void with_free_batch(void *block) { pool_free_batch(&block, 1); }
static void with_realloc(void *block) { (void)!hidden(pool_realloc(block, 5000)); }
static void with_realloc_to_nothing(void *block) { (void)!hidden(pool_realloc(block, (size_t)(uintptr_t)hidden(NULL))); }
static void with_resize(void *block) { pool_resize_in_place(block, 50); }
static void with_usable_size(void *block) { pool_usable_size(block); }
static void with_heap_free(void *block) { pool_heap_free(heap, block); }
static void with_heap_realloc(void *block) { (void)!hidden(pool_heap_realloc(heap, block, 5000)); }
static void with_heap_realloc_to_nothing(void *block)
{
  (void)!hidden(pool_heap_realloc(heap, block, (size_t)(uintptr_t)hidden(NULL)));
}

/* ---- what allocates ---- */

static void with_alloc(void) { (void)!hidden(pool_alloc(SIZE)); }
static void with_zalloc(void) { (void)!hidden(pool_zalloc(SIZE)); }
static void with_calloc(void) { (void)!hidden(pool_calloc(1, SIZE)); }
static void with_realloc_of_nothing(void) { (void)!hidden(pool_realloc(NULL, SIZE)); }
static void with_aligned_alloc(void) { (void)!hidden(pool_aligned_alloc(16, SIZE)); }
static void with_alloc_batch(void)
{
  void *blocks[2];
  pool_alloc_batch(SIZE, blocks, 2);
}
static void with_heap_alloc(void) { (void)!hidden(pool_heap_alloc(heap, SIZE)); }
static void with_heap_zalloc(void) { (void)!hidden(pool_heap_zalloc(heap, SIZE)); }
static void with_heap_calloc(void) { (void)!hidden(pool_heap_calloc(heap, 1, SIZE)); }
static void with_heap_realloc_of_nothing(void) { (void)!hidden(pool_heap_realloc(heap, NULL, SIZE)); }
static void with_heap_realloc_that_moves(void) { (void)!hidden(pool_heap_realloc(heap, pool_heap_alloc(heap, 5000), SIZE)); }
static void with_heap_aligned_alloc(void) { (void)!hidden(pool_heap_aligned_alloc(heap, 16, SIZE)); }
static void with_object_pool_create(void)
{
  (void)!object_pool_create(&(object_pool_options_t){.object_size = SIZE, .capacity = 1, .heap = heap});
}
static void with_object_pool_get(void)
{
  object_pool_options_t options = {.object_size = SIZE, .when_full = OBJECT_POOL_GROW, .max_capacity = 1, .heap = heap};
  (void)!hidden(object_pool_get(object_pool_create(&options)));
}

static const struct call {
  const char *name;
  void (*take)(void *block);
  void (*allocate)(void);
} calls[] = {
  {"free", with_free, NULL},
  {"free-sized", with_free_sized, NULL},
  {"free-batch", with_free_batch, NULL},
  {"realloc", with_realloc, NULL},
  {"realloc-to-nothing", with_realloc_to_nothing, NULL},
  {"resize-in-place", with_resize, NULL},
  {"usable-size", with_usable_size, NULL},
  {"heap-free", with_heap_free, NULL},
  {"heap-realloc", with_heap_realloc, NULL},
  {"heap-realloc-to-nothing", with_heap_realloc_to_nothing, NULL},
  {"alloc", NULL, with_alloc},
  {"zalloc", NULL, with_zalloc},
  {"calloc", NULL, with_calloc},
  {"realloc-of-nothing", NULL, with_realloc_of_nothing},
  {"aligned-alloc", NULL, with_aligned_alloc},
  {"alloc-batch", NULL, with_alloc_batch},
  {"heap-alloc", NULL, with_heap_alloc},
  {"heap-zalloc", NULL, with_heap_zalloc},
  {"heap-calloc", NULL, with_heap_calloc},
  {"heap-realloc-of-nothing", NULL, with_heap_realloc_of_nothing},
  {"heap-realloc-that-moves", NULL, with_heap_realloc_that_moves},
  {"heap-aligned-alloc", NULL, with_heap_aligned_alloc},
  {"object-pool-create", NULL, with_object_pool_create},
  {"object-pool-get", NULL, with_object_pool_get},
};

/* ---- the bugs ---- */

static void stranger(const struct call *call) { call->take(hidden(static_memory)); }
static void inside(const struct call *call) { call->take(block_of(heap) + 16); }

static void twice(const struct call *call)
{
  char *block = block_of(heap);
  pool_heap_free(heap, block);
  call->take(block);
}

static void of_another_heap(const struct call *call) { call->take(block_of(heap_called("other"))); }
static void of_the_default_heap(const struct call *call) { call->take(block_of(pool_heap_default())); }

static void past_the_end(const struct call *call)
{
  char *block = block_of(heap);
  block[SIZE] = 'x';
  call->take(block);
}

static void in_front(const struct call *call)
{
  char *block = block_of(heap);
  block[-1] = 'x';
  call->take(block);
}

static void far_in_front(const struct call *call)
{
  char *block = block_of(heap);
  memset(block - 64, 0, 16);
  call->take(block);
}

static void written_while_kept(const struct call *call)
{
  char *block = block_of(heap);
  call->take(block);
  block[10] = 'x';
}

/* Which of the free blocks is given out next is the heap's affair. The trim ends the time that it is kept, and the page stays.
 */
static void written_after_free(const struct call *call)
{
  char *block = block_of(heap);
  block_of(heap);
  pool_heap_free(heap, block);
  pool_heap_trim(heap, 0);
  block[10] = 'x';
  for (int i = 0; i < TRIES; i++)
    call->allocate();
}

/* Found when the spare blocks go back. */
static void late(const struct call *call)
{
  char *block = block_of(heap), *between = block_of(heap);
  call->take(block);
  call->take(between);
  call->take(block);
  pool_heap_trim(heap, 0);
}

static void late_of_another_heap(const struct call *call)
{
  call->take(block_of(heap)); /* has the thread's cache in place, whose fast path cannot tell */
  call->take(block_of(heap_called("other")));
  pool_heap_trim(heap, 0);
}

static const struct kind {
  const char *name;
  void (*run)(const struct call *call);
  unsigned flags;
  bool in_default;
} kinds[] = {
  {"stranger", stranger, POOL_HEAP_CHECKED, false},
  {"inside", inside, POOL_HEAP_CHECKED, false},
  {"twice", twice, POOL_HEAP_CHECKED, false},
  {"twice-in-plain", twice, 0, false},
  {"twice-in-zeroing", twice, POOL_HEAP_ZERO_ON_FREE, false},
  {"of-another-heap", of_another_heap, POOL_HEAP_CHECKED, false},
  {"of-another-zeroing-heap", of_another_heap, POOL_HEAP_ZERO_ON_FREE, false},
  {"of-the-default-heap", of_the_default_heap, POOL_HEAP_CHECKED, false},
  {"past-the-end", past_the_end, POOL_HEAP_CHECKED, false},
  {"in-front", in_front, POOL_HEAP_CHECKED, false},
  {"far-in-front", far_in_front, POOL_HEAP_CHECKED, false},
  {"written-while-kept", written_while_kept, POOL_HEAP_CHECKED, false},
  {"written-after-free", written_after_free, POOL_HEAP_CHECKED, false},
  {"past-the-end-in-plain", past_the_end, 0, false},
  {"written-while-kept-in-plain", written_while_kept, 0, false},
  {"late", late, 0, false},
  {"late-of-another-heap", late_of_another_heap, 0, false},
  {"twice-in-default", twice, 0, true},
  {"past-the-end-in-default", past_the_end, 0, true},
  {"in-front-in-default", in_front, 0, true},
  {"far-in-front-in-default", far_in_front, 0, true},
  {"written-while-kept-in-default", written_while_kept, 0, true},
  {"written-after-free-in-default", written_after_free, 0, true},
};

int main(int argc, char **argv)
{
  for (size_t c = 0; argc == 3 && c < sizeof calls / sizeof *calls; c++)
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
      if (strcmp(calls[c].name, argv[1]) == 0 && strcmp(kinds[k].name, argv[2]) == 0) {
        flags = kinds[k].flags;
        heap = kinds[k].in_default ? pool_heap_default() : heap_called("texture cache");
        kinds[k].run(&calls[c]);
        return 0;
      }
  fputs("usage: calls CALL KIND\n", stderr);
  return 2;
}
