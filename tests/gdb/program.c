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
static void *blocks[BLOCKS];

void stopped(void);
__attribute__((noinline)) void stopped(void) { __asm__ volatile("" ::: "memory"); }

/* `inside`: some bytes behind the beginning. */
static void tell(const void *address, size_t inside, const char *what)
{
  printf("where %p %s\n", (void *)((uintptr_t)address + inside), what);
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
  tell(block_of(heap, 8 << 20), 4096, "\\+4096 of .*live, a mapping of its own, .* of heap \"plain heap\"");
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
  tell(freed, 0, "free granules, .* of heap \"buffer\"");
  tell(last, 300, "\\+300 of .* live, .* of heap \"buffer\"");
  count(small, 0);

  pool_heap_t *checked = made((pool_heap_options_t){.name = "checked", .flags = POOL_HEAP_CHECKED});
  void *kept = block_of(checked, SIZE), *live = block_of(checked, SIZE);
  pool_heap_free(checked, kept);
  tell(live, 0, "live, .* 100 bytes, of heap \"checked\"");
  tell(kept, 0, "freed, in quarantine, .* of heap \"checked\"");
  count(checked, SIZE);

  count(made((pool_heap_options_t){.name = "with a budget", .budget = 64 << 20, .reserve = 1 << 20}), 0);
}

static void of_object_pools(void)
{
  static const unsigned flags[] = {0, OBJECT_POOL_SINGLE_THREAD};
  static const char *const names[] = {"shared ones", "own ones"};
  for (size_t i = 0; i < 2; i++) {
    object_pool_t *pool =
      object_pool_create(&(object_pool_options_t){.name = names[i], .object_size = 48, .capacity = 10, .flags = flags[i]});
    void *live = pool ? object_pool_get(pool) : NULL, *put = live ? object_pool_get(pool) : NULL;
    if (!put)
      abort();
    object_pool_put(pool, put);
    printf("object %p %s live\nobject %p %s free\n", live, names[i], put, names[i]);
  }
}

int main(int argc, char **argv)
{
  of_a_plain_heap();
  of_the_default_heap();
  of_others();
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
