/* SPDX-License-Identifier: MIT
 *
 * Heaps and object pools of each kind, for a debugger. Says a line for each address: what `tidepool where` has to say of it,
 * and one for each heap: its live blocks and their bytes. Then it calls stopped(), and with an argument it misuses a block, so
 * that it ends inside the manager. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>

enum { BLOCKS = 1000, SIZE = 100 };

static char memory[64 << 10];
static char outside[64];
static pool_heap_t *dense;
static const void *volatile told[64]; /* read by gdb alone */
static size_t told_count;
static void *blocks[BLOCKS];

void stopped(void);
__attribute__((noinline)) void stopped(void) { __asm__ volatile("" ::: "memory"); }

/* `inside`: some bytes behind the beginning. `what`, an expression, stays a line. */
static void tell(const void *address, size_t inside, const char *what)
{
  const void *at = (const void *)((uintptr_t)address + inside);
  told[told_count++] = at;
  printf("where %p ", at);
  for (; *what; what++)
    *what == '\n' ? printf("\\n") : putchar(*what);
  puts("");
}

static void *block_of(pool_heap_t *heap, size_t size)
{
  void *block = pool_heap_alloc(heap, size);
  if (!block)
    abort();
  return memset(block, 1, size);
}

static pool_heap_t *made(pool_heap_options_t options)
{
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    abort();
  return heap;
}

/* A walk would empty magazines and quarantine. With the figures of a checked heap its blocks' guards count: `bytes` is without.
 */
static void count(pool_heap_t *heap, size_t bytes)
{
  pool_stats_t s;
  pool_heap_stats(heap, &s);
  printf("heap %s %zu %zu\n", pool_heap_name(heap), s.live_blocks, bytes ? bytes : s.live_bytes);
}

static void of_a_plain_heap(void)
{
  pool_heap_t *heap = made((pool_heap_options_t){.name = "plain heap"});
  for (size_t i = 0; i < BLOCKS; i++)
    blocks[i] = block_of(heap, SIZE);
  for (size_t i = 1; i < BLOCKS; i += 2)
    pool_heap_free(heap, blocks[i]);
  tell(blocks[0], 0, "live, block .* class of 112 bytes, 112 bytes, of heap \"plain heap\"");
  tell(blocks[2], 50, "\\+50 of .*live, .* of heap \"plain heap\"");
  tell(blocks[BLOCKS - 1], 0, "freed, in a magazine, .* of heap \"plain heap\"");
  tell(block_of(heap, 100000), 0, "live, .* of heap \"plain heap\"");
  tell(block_of(heap, 300 << 20), 4096, "\\+4096 of .*live, a mapping of its own, .* of heap \"plain heap\"");
  count(heap, 0);
}

static void of_the_default_heap(void)
{
  void *first = pool_alloc(24), *freed = pool_alloc(24), *large = pool_alloc(1 << 20);
  if (!first || !freed || !large)
    abort();
  pool_free(freed);
  tell(first, 0, "live, .* class of 32 bytes, 32 bytes, of the default heap");
  tell(freed, 0, "freed, in a magazine, .* of the default heap");
  tell(large, 0, "live, a large block, .* of the default heap");
  tell(outside, 0, "not the manager's memory");
}

static void of_others(void)
{
  pool_heap_t *small = made((pool_heap_options_t){.name = "buffer", .memory = memory, .memory_size = sizeof memory});
  void *first = block_of(small, 40), *freed = block_of(small, 40), *last = block_of(small, 500);
  pool_heap_free(small, freed);
  tell(first, 0, "live, cut from granules, 48 bytes, of heap \"buffer\"");
  tell(freed, 0, "free granules, of heap \"buffer\"");
  tell(last, 2000, "granules that were never handed out, of heap \"buffer\"");
  tell(last, 300, "\\+300 of .* live, .* of heap \"buffer\"");
  count(small, 0);

  pool_heap_t *checked = made((pool_heap_options_t){.name = "checked", .flags = POOL_HEAP_CHECKED});
  void *kept = block_of(checked, SIZE), *live = block_of(checked, SIZE);
  pool_heap_free(checked, kept);
  tell(live, 0, "live, .* 100 bytes, of heap \"checked\"");
  tell(kept, 0, "freed, in quarantine, .* 100 bytes, of heap \"checked\"\n  allocated by .*\n  freed by ");
  tell(block_of(checked, 400000), 5,
       "\\+5 of .* live, a large block, 400,000 bytes, of heap \"checked\"\n  allocated by block_of");
  void *large = block_of(checked, 400000);
  pool_heap_free(checked, large);
  tell(large, 0, "freed, in quarantine, a large block, 400,000 bytes, of heap \"checked\"");
  count(checked, SIZE + 400000);

  count(made((pool_heap_options_t){.name = "with a budget", .budget = 64 << 20, .reserve = 1 << 20}), 0);
}

/* From 500 KiB on a freed block waits for the next of its length. */
static void of_dense_heaps(void)
{
  dense = made((pool_heap_options_t){.name = "dense", .budget = 1 << 20, .flags = POOL_HEAP_DENSE});
  void *live = block_of(dense, SIZE), *kept = NULL, *longer = NULL;
  count(dense, 0); /* which gives kept blocks back */
  kept = block_of(dense, 200);
  longer = block_of(dense, 2000);
  pool_heap_free(dense, kept);
  pool_heap_free(dense, longer);
  tell(live, 8, "\\+8 of .* live, cut from granules, 112 bytes, of heap \"dense\"");
  tell(kept, 199, "\\+199 of .* freed, kept for the next of its length, cut from granules, 208 bytes, of heap \"dense\"");
  tell(longer, 0, "free granules, of heap \"dense\"");

  pool_heap_t *checked =
    made((pool_heap_options_t){.name = "dense and checked", .budget = 4 << 20, .flags = POOL_HEAP_DENSE | POOL_HEAP_CHECKED});
  live = block_of(checked, SIZE);
  kept = block_of(checked, 200);
  pool_heap_free(checked, kept);
  tell(live, 0, "live, cut from granules, 100 bytes, of heap \"dense and checked\"\n  allocated by block_of");
  tell(live, (size_t)-1, "-1 of .* live, cut from granules, 100 bytes, of heap \"dense and checked\"");
  tell(kept, 0, "freed, in quarantine, cut from granules, 200 bytes, .*\n  allocated by block_of.*\n  freed by of_dense_heaps");
  count(checked, SIZE);

  pool_heap_t *sites = made((pool_heap_options_t){.name = "with sites", .flags = POOL_HEAP_SITES});
  tell(block_of(sites, SIZE), 0, "live, .* 100 bytes, of heap \"with sites\"\n  allocated by block_of.*program");
  count(sites, SIZE);
}

/* Not for each core file: a yard's records are long. */
static void of_guarded_heaps(void)
{
  pool_heap_t *guarded = made((pool_heap_options_t){.name = "guarded", .flags = POOL_HEAP_GUARDED});
  void *live = block_of(guarded, SIZE), *longer = block_of(guarded, 8192), *freed = block_of(guarded, 50);
  pool_heap_free(guarded, freed);
  tell(live, 0, "live, in pages of its own, 100 bytes, of heap \"guarded\"");
  tell(longer, 5000, "\\+5000 of .* live, in pages of its own, 8,192 bytes, of heap \"guarded\"");
  tell(longer, 8192, "\\+8192 of .* in an inaccessible page beside a block, live, in pages of its own, 8,192 bytes");
  tell(freed, 0, "freed, in pages of its own, .* 50 bytes, of heap \"guarded\"");
  count(guarded, SIZE + 8192);

  pool_heap_t *ended = made((pool_heap_options_t){.name = "that ends", .flags = POOL_HEAP_GUARDED});
  freed = block_of(ended, 60);
  pool_heap_free(ended, freed);
  pool_heap_destroy(ended);
  tell(freed, 0, "freed, .* of heap \"that ends\", which has ended, 60 bytes");
}

static void of_object_pools(void)
{
  static const unsigned flags[] = {0, OBJECT_POOL_SINGLE_THREAD};
  static const char *const names[] = {"shared ones", "own ones"};
  for (size_t i = 0; i < 2; i++) {
    object_pool_t *pool =
      object_pool_create(&(object_pool_options_t){.name = names[i], .object_size = 48, .capacity = 10, .flags = flags[i]});
    void *live = pool ? object_pool_get(pool) : NULL;
    for (int again = 0; again < 2; again++) {
      object_pool_put(pool, live);
      if (object_pool_get(pool) != live)
        abort();
    }
    void *put = live ? object_pool_get(pool) : NULL;
    if (!put)
      abort();
    object_pool_put(pool, put);
    printf("object %p %s live 3\nobject %p %s free 1\n", live, names[i], put, names[i]);
  }
}

int main(int argc, char **argv)
{
  of_a_plain_heap();
  of_the_default_heap();
  of_others();
  of_dense_heaps();
  if (argc > 1 && !strcmp(argv[1], "guarded"))
    of_guarded_heaps();
  of_object_pools();
  fflush(stdout);
  stopped();
  if (argc > 1 && !strcmp(argv[1], "misuse"))
    pool_free(outside);
  if (argc > 1 && !strcmp(argv[1], "twice")) {
    pool_heap_t *heap = pool_heap_of(blocks[0]);
    void *one = blocks[0], *two = blocks[2];
    pool_heap_free(heap, one);
    pool_heap_free(heap, two);
    pool_heap_free(heap, one); /* is not seen at once */
    stopped();
  }
  return 0;
}
