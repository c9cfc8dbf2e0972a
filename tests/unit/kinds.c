/* SPDX-License-Identifier: MIT */
#include "kinds.h"
#include "heap/heap.h"
#include <errno.h>

_Alignas(4096) char buffer[12 << 20];
void *blocks[BLOCKS];
static const size_t some_classes[] = {16, 48, 1024, 1040, 65536, 262144};
typedef struct kind {
  const char *name;
  pool_heap_options_t options;
} kind_t;

static const kind_t kinds[] = {
  {"default", {0}},
  {"budget of 64 KiB", {.budget = 64 << 10}},
  {"budget of 1 MiB", {.budget = 1 << 20}},
  {"budget of 4 MiB", {.budget = 4 << 20}},
  {"budget of 8 MiB", {.budget = 8 << 20}},
  {"budget of 64 MiB", {.budget = 64 << 20}},
  {"reserve", {.reserve = 3 << 20}},
  {"reserve of 6 MiB", {.reserve = 6 << 20}},
  {"reserve of 20 MiB", {.reserve = 20 << 20}},
  {"reserve and budget", {.reserve = 3 << 20, .budget = 20 << 20}},
  {"memory", {.memory = buffer + 1, .memory_size = 1 << 20}},
  {"much memory", {.memory = buffer + 24, .memory_size = 10 << 20}},
  {"little memory", {.memory = buffer, .memory_size = 20000}},
  {"checked", {.flags = POOL_HEAP_CHECKED}},
  {"checked memory", {.flags = POOL_HEAP_CHECKED, .memory = buffer + 8, .memory_size = 3 << 20}},
  {"zero on free", {.flags = POOL_HEAP_ZERO_ON_FREE}},
  {"single thread", {.flags = POOL_HEAP_SINGLE_THREAD}},
  {"single thread, budget", {.flags = POOL_HEAP_SINGLE_THREAD, .budget = 2 << 20}},
  {"prefault", {.flags = POOL_HEAP_PREFAULT, .reserve = 2 << 20}},
  {"locked", {.flags = POOL_HEAP_LOCK_MEMORY, .memory = buffer, .memory_size = 2 << 20}},
  {"own classes", {.size_classes = some_classes, .size_class_count = 6}},
  {"own classes, budget", {.size_classes = some_classes, .size_class_count = 6, .budget = 6 << 20}},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

pool_heap_t *heap_new(const pool_heap_options_t *options)
{
  pool_heap_t *heap = pool_heap_create(options);
  must(heap && check_everything());
  return heap;
}

pool_stats_t figures(pool_heap_t *heap)
{
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats));
  must(!stats.budget || stats.held_bytes <= stats.budget);
  must(stats.peak_held_bytes >= stats.held_bytes);
  return stats;
}

size_t fill(pool_heap_t *heap, size_t size, size_t most)
{
  size_t n = 0;
  while (n < most && (blocks[n] = pool_heap_alloc(heap, size)) != NULL) {
    pattern_write(blocks[n], size, n);
    n++;
  }
  must(n == most || errno == ENOMEM);
  return n;
}

void verify(size_t size, size_t count)
{
  for (size_t i = 0; i < count; i++)
    must(pattern_holds(blocks[i], size, i));
}

void free_all(pool_heap_t *heap, size_t count)
{
  for (size_t i = 0; i < count; i++)
    pool_heap_free(heap, blocks[(i * 7919) % count]);
}

void for_each_kind(void (*test)(void *))
{
  for (size_t i = 0; i < KINDS; i++)
    in_child_named(kinds[i].name, test, (void *)(uintptr_t)&kinds[i].options);
}

bool count_block(const pool_block_t *block, void *context)
{
  size_t *count = context;
  must(block->size >= 200 && pool_in_use(block->start));
  ++*count;
  return *count != 17;
}

size_t usable_of(size_t count)
{
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    bytes += pool_usable_size(blocks[i]);
  return bytes;
}
