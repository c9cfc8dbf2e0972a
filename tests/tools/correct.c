/* SPDX-License-Identifier: MIT
 *
 * Programs without a bug, in which memory that a tool knows is inside of other memory that it knows, or which options that they
 * did not ask for might lead astray: correct.py has that nobody says anything.
 *
 * usage: correct CASE    all: one after the other */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static void *must(void *it)
{
  if (!it)
    abort();
  return it;
}

/* ---- arrays of objects in heaps whose blocks have heads ---- */

static void use_objects(pool_heap_t *heap, size_t size, bool destroy_first)
{
  object_pool_t *pool = must(object_pool_create(&(object_pool_options_t){.object_size = size, .capacity = 5, .heap = heap}));
  void *objects[5];
  for (int i = 0; i < 5; i++)
    memset(objects[i] = must(object_pool_get(pool)), i, size);
  for (int i = 0; i < 5; i++)
    object_pool_put(pool, objects[i]);
  if (destroy_first)
    object_pool_destroy(pool);
}

static void arrays(void)
{
  static const unsigned flags[] = {0, POOL_HEAP_CHECKED, POOL_HEAP_SITES, POOL_HEAP_GUARDED, POOL_HEAP_ZERO_ON_FREE};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    for (size_t size = 16; size <= 20000; size *= 5) {
      pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.flags = flags[i]});
      if (!heap && strstr(pool_error(), "only the debug library"))
        continue;
      use_objects(must(heap), size, true);
      use_objects(heap, size, true); /* in what the first has left */
      use_objects(heap, size, false);
      pool_heap_reset(heap);
      use_objects(heap, size, false);
      pool_heap_destroy(heap);
    }
  use_objects(NULL, 96, true);
  use_objects(NULL, 96, true);
}

/* ---- heaps in blocks of heaps ---- */

enum { OUTER = 1 << 20, INNER = 100000 };
static char memory[OUTER];
static pool_heap_t *volatile outer, *volatile inner;
static void *volatile kept;

static pool_heap_t *heap_in(void *buffer, size_t size)
{
  return must(pool_heap_create(&(pool_heap_options_t){.memory = buffer, .memory_size = size}));
}

static char *use_inner(void)
{
  char *block = must(pool_heap_alloc(outer, INNER));
  inner = heap_in(block, INNER);
  kept = memset(must(pool_heap_alloc(inner, 100)), 1, 100);
  use_objects(inner, 40, true);
  void *other = must(pool_heap_alloc(inner, 200));
  pool_heap_free(inner, memset(other, 2, 200));
  return block;
}

static void nested(void)
{
  outer = heap_in(memory, sizeof memory);
  for (int i = 0; i < 3; i++) {
    char *block = use_inner();
    pool_heap_destroy(inner);
    memset(block, 3, INNER);
    pool_heap_free(outer, block);
  }
  use_inner();
  pool_heap_reset(inner);
  kept = must(pool_heap_alloc(inner, 100)); /* and it stays at the end */
}

/* ---- what only a record of the manager leads to ---- */

static bool no_help(pool_heap_t *heap, size_t size, unsigned attempt, void *context)
{
  (void)heap, (void)size, (void)attempt, (void)context;
  return false;
}

static pool_heap_t *volatile budgeted;
NOINLINE static void make_with_context(void)
{
  budgeted =
    must(pool_heap_create(&(pool_heap_options_t){.budget = 1 << 20, .on_exhausted = no_help, .context = must(malloc(100))}));
}

NOINLINE static void wipe_stack(void)
{
  volatile char words[16 << 10];
  for (size_t i = 0; i < sizeof words; i++)
    words[i] = 0;
}

static void contexts(void)
{
  make_with_context();
  wipe_stack();
  for (int i = 0; i < 10; i++) {
    void *context = must(malloc(10));
    pool_heap_destroy(must(pool_heap_create(&(pool_heap_options_t){.context = context})));
    free(context);
  }
}

/* ---- what is left of a block that was wiped ---- */

enum { SECRET = 2000 };

static void expect_wiped(const char *block)
{
  static char seen[SECRET];
  int file = open("/proc/self/mem", O_RDONLY);
  if (file < 0 || pread(file, seen, sizeof seen, (off_t)(uintptr_t)block) != sizeof seen)
    return; /* nothing is there any more */
  close(file);
  size_t left = 0;
  for (size_t i = 0; i < sizeof seen; i++)
    left += seen[i] == 'S';
  if (left)
    printf("%zu bytes are left\n", left);
}

static void wiped(void)
{
  pool_heap_t *heap = must(pool_heap_create(&(pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE}));
  for (int how = 0; how < 4; how++) {
    char *block = memset(must(pool_heap_alloc(heap, SECRET)), 'S', SECRET);
    if (how == 0)
      pool_heap_free(heap, block);
    else if (how == 1)
      block = (char *)((uintptr_t)block + 0 * (uintptr_t)must(pool_heap_realloc(heap, block, 100 * SECRET)));
    else if (how == 2)
      pool_heap_reset(heap);
    else
      pool_heap_destroy(heap);
    expect_wiped(block);
  }
}

/* ---- what options make of heaps and object pools ---- */

static void expect_blocks(const char *what, pool_heap_t *heap, size_t size, size_t least)
{
  size_t count = 0;
  while (count < least && pool_heap_alloc(heap, size))
    count++;
  if (count < least)
    printf("%s: %zu blocks of %zu bytes, and %zu are wanted\n", what, count, size, least);
}

/* A head takes 96 bytes, in classes of the program's own too. */
static void classes(void)
{
  static const size_t sizes[] = {64, 256};
  pool_heap_options_t options = {.size_classes = sizes, .size_class_count = 2, .budget = 16 << 20};
  pool_heap_t *heap = must(pool_heap_create(&options));
  expect_blocks("classes", heap, 256, (size_t)(16 << 20) / (256 + 96) * 9 / 10);
  pool_heap_destroy(heap);
}

/* Of a budget that comes later no block takes whole pages. */
static void later_budgets(void)
{
  pool_heap_t *heap = must(pool_heap_create(NULL));
  pool_heap_t *parent = must(pool_heap_create(NULL)), *child = must(pool_heap_create(&(pool_heap_options_t){.parent = parent}));
  pool_heap_set_budget(heap, 1 << 20);
  pool_heap_set_budget(parent, 1 << 20);
  expect_blocks("later", heap, 100, 2000);
  expect_blocks("later, of a parent", child, 100, 2000);
  pool_heap_destroy(child);
  pool_heap_destroy(parent);
  pool_heap_destroy(heap);
}

/* ---- each call, of each kind of heap ---- */

static bool count_block(const pool_block_t *block, void *context)
{
  *(size_t *)context += pool_in_use(block->start);
  return true;
}

/* A block is copied when it is resized, aligned, and asked about; 32 MiB is more than valgrind serves. */
static void use_blocks(pool_heap_t *heap, bool has_large)
{
  static const size_t sizes[] = {1, 48, 3000, 10, 300000, 70000};
  char *block = NULL, *aligned = must(pool_heap_aligned_alloc(heap, 256, 600)), *zeroed = must(pool_heap_zalloc(heap, 5000));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes - (has_large ? 0 : 2); i++) {
    block = must(pool_heap_realloc(heap, block, sizes[i]));
    memset(block, 5, sizes[i]);
    pool_resize_in_place(block, sizes[i] / 2 + 1);
  }
  aligned = must(pool_heap_realloc(heap, memset(aligned, 6, 600), 900));
  size_t live = 0;
  pool_heap_walk(heap, count_block, &live);
  if (live < 3 || zeroed[4999] || aligned[599] != 6 || pool_usable_size(aligned) < 900 || pool_heap_of(block) != heap)
    printf("%zu blocks are live, or they are not as they were left\n", live);
  pool_heap_free(heap, zeroed);
  pool_free(aligned);
  pool_heap_trim(heap, 0);
  pool_heap_largest(heap);
  pool_heap_free(heap, block);
}

static void calls(void)
{
  static const size_t sizes[] = {64, 256};
  static char large[OUTER], small[60000];
  pool_heap_t *parent = must(pool_heap_create(NULL)), *overflow = must(pool_heap_create(NULL));
  const pool_heap_options_t kinds[] = {{.parent = parent},
                                       {.flags = POOL_HEAP_ZERO_ON_FREE},
                                       {.flags = POOL_HEAP_SINGLE_THREAD, .size_classes = sizes, .size_class_count = 2},
                                       {.budget = 16 << 20, .overflow = overflow},
                                       {.reserve = 4 << 20, .flags = POOL_HEAP_PREFAULT},
                                       {.budget = 2 << 20, .flags = POOL_HEAP_DENSE},
                                       {.memory = large, .memory_size = sizeof large, .flags = POOL_HEAP_ZERO_ON_FREE},
                                       {.memory = small, .memory_size = sizeof small, .overflow = overflow}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    pool_heap_t *heap = must(pool_heap_create(&kinds[i]));
    for (int round = 0; round < 3; round++) {
      use_blocks(heap, !kinds[i].memory);
      use_objects(heap, 40, round);
      if (round)
        pool_heap_reset(heap);
    }
    pool_heap_destroy(heap);
    if (kinds[i].memory)
      memset(kinds[i].memory, 7, kinds[i].memory_size); /* it is the program's again */
  }
  pool_heap_destroy(overflow);
  pool_heap_destroy(parent);
}

/* A node gives its child back when it is reset. */
typedef struct node {
  struct node *child;
} node_t;

static object_pool_t *nodes;

static bool make_node(void *object, void *context)
{
  (void)context;
  ((node_t *)object)->child = NULL;
  return true;
}

static void reset_node(void *object, void *context)
{
  (void)context;
  node_t *child = ((node_t *)object)->child;
  ((node_t *)object)->child = NULL;
  if (child)
    object_pool_put(nodes, child);
}

static void children(void)
{
  object_pool_options_t options = {.object_size = sizeof(node_t),
                                   .capacity = 10,
                                   .construct = make_node,
                                   .reset = reset_node,
                                   .reset_time = OBJECT_POOL_RESET_ON_PUT};
  nodes = must(object_pool_create(&options));
  for (int i = 0; i < 100; i++) {
    node_t *node = must(object_pool_get(nodes));
    node->child = must(object_pool_get(nodes));
    object_pool_put(nodes, node);
  }
  if (object_pool_live(nodes))
    printf("%zu nodes are live\n", object_pool_live(nodes));
  object_pool_destroy(nodes);
}

int main(int count, char **arguments)
{
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"arrays", arrays},     {"nested", nested},   {"contexts", contexts},
               {"wiped", wiped},       {"classes", classes}, {"later_budgets", later_budgets},
               {"children", children}, {"calls", calls}};
  bool found = false;
  for (size_t i = 0; count == 2 && i < sizeof cases / sizeof *cases; i++)
    if (!strcmp(cases[i].name, arguments[1]) || !strcmp("all", arguments[1])) {
      cases[i].run();
      found = true;
    }
  return found ? 0 : 2;
}
