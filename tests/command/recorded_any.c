/* SPDX-License-Identifier: MIT
 *
 *   recorded-any SEED STEPS
 *
 * Does anything of the interface by chance, and prints what is live when it ends, by its own count: bytes and blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <tidepool.h>
#include <unistd.h>

enum { HEAPS = 6, POOLS = 8, BLOCKS = 3000, BATCH = 30, SHARED_SIZE = 24 };
typedef enum owner_kind { NOBODY, MALLOC, HEAP, POOL } owner_kind_t;

typedef struct block {
  void *start;
  size_t size;
  owner_kind_t kind;
  unsigned owner;
} block_t;

typedef struct pool {
  object_pool_t *pool;
  size_t size;
  int heap; /* -1: the default heap */
} pool_t;

static block_t blocks[BLOCKS];
static pool_heap_t *heaps[HEAPS]; /* 0 is the default heap */
static pool_t pools[POOLS];       /* others overflow to 0, which stays */
static uint64_t seed;

static unsigned any(unsigned below)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (unsigned)(seed >> 11) % below;
}

static size_t any_size(void) { return any(10) ? any(600) : any(40) ? any(20000) : any(3000000); }

/* An overflow heap may have served. */
static unsigned heap_at(const void *start)
{
  const pool_heap_t *heap = pool_heap_of(start);
  unsigned h = 0;
  while (h < HEAPS && heaps[h] != heap)
    h++;
  if (h == HEAPS)
    abort();
  return h;
}

static void add(void *start, size_t size, owner_kind_t kind, unsigned owner)
{
  if (start && kind == HEAP)
    owner = heap_at(start);
  for (unsigned tries = 0; start && tries < 20 * BLOCKS; tries++) {
    block_t *block = &blocks[any(BLOCKS)];
    if (block->kind != NOBODY)
      continue;
    *block = (block_t){start, size, kind, owner};
    return;
  }
  if (start)
    abort();
}

static void forget_all(owner_kind_t kind, unsigned owner)
{
  for (block_t *block = blocks; block < blocks + BLOCKS; block++)
    if (block->kind == kind && block->owner == owner)
      block->kind = NOBODY;
}

static size_t live(void)
{
  size_t count = 0;
  for (const block_t *block = blocks; block < blocks + BLOCKS; block++)
    count += block->kind != NOBODY;
  return count;
}

/* ---- blocks ---- */

static void take_block(unsigned h)
{
  size_t size = any_size(), count = size / 8;
  pool_heap_t *heap = heaps[h];
  void *batch[BATCH];
  switch (any(h ? 4 : 9)) {
  case 0:
    add(pool_heap_alloc(heap, size), size, HEAP, h);
    break;
  case 1:
    add(pool_heap_zalloc(heap, size), size, HEAP, h);
    break;
  case 2:
    add(pool_heap_calloc(heap, count, 8), count * 8, HEAP, h);
    break;
  case 3:
    add(pool_heap_aligned_alloc(heap, 128, size), size, HEAP, h);
    break;
  case 4:
    add(pool_alloc(size), size, HEAP, 0);
    break;
  case 5:
    add(malloc(size), size, MALLOC, 0);
    break;
  case 6:
    add(calloc(count, 8), count * 8, MALLOC, 0);
    break;
  case 7:
    add(aligned_alloc(64, size / 64 * 64), size / 64 * 64, MALLOC, 0);
    break;
  case 8:
    for (size_t i = pool_alloc_batch(size % 2000, batch, BATCH); i > 0; i--)
      add(batch[i - 1], size % 2000, HEAP, 0);
    break;
  }
}

static void change_block(block_t *block)
{
  size_t size = any_size() + 1;
  void *to = NULL;
  if (block->kind == MALLOC)
    to = realloc(block->start, size);
  else if (block->kind == HEAP && any(3) == 0)
    to = pool_resize_in_place(block->start, size) ? block->start : NULL;
  else if (block->kind == HEAP)
    to = any(2) ? pool_realloc(block->start, size) : pool_heap_realloc(heaps[block->owner], block->start, size);
  if (!to)
    return;
  block->start = to;
  block->size = size;
  if (block->kind == HEAP)
    block->owner = heap_at(to);
}

static void end_block(block_t *block)
{
  void *start = block->start;
  owner_kind_t kind = block->kind;
  block->kind = NOBODY;
  if (kind == MALLOC)
    free(start);
  else if (kind == POOL)
    object_pool_put(pools[block->owner].pool, start);
  else if (kind == HEAP && any(4) == 0) {
    if (pool_realloc(start, 0))
      abort();
  } else if (kind == HEAP && any(3) == 0)
    pool_free_batch(&start, 1);
  else if (kind == HEAP)
    any(2) ? pool_free(start) : pool_heap_free(heaps[block->owner], start);
}

/* ---- heaps ---- */

static void lose_pools(unsigned h)
{
  for (unsigned p = 0; p < POOLS; p++)
    if (pools[p].pool && pools[p].heap == (int)h) {
      forget_all(POOL, p);
      pools[p].pool = NULL;
    }
}

static void make_heap(unsigned h)
{
  static char memory[HEAPS][1 << 20];
  static const unsigned flags[] = {
    0, 0, 0, POOL_HEAP_SINGLE_THREAD, POOL_HEAP_CHECKED, POOL_HEAP_ZERO_ON_FREE, POOL_HEAP_SITES};
  bool is_guest = any(4) == 0;
  heaps[h] = pool_heap_create(&(pool_heap_options_t){.name = any(4) ? "a heap" : NULL,
                                                     .budget = is_guest || any(2) ? 0 : (1u << 20) + any(8 << 20),
                                                     .flags = flags[any(sizeof flags / sizeof *flags)],
                                                     .overflow = any(3) ? NULL : heaps[0],
                                                     .memory = is_guest ? memory[h] : NULL,
                                                     .memory_size = is_guest ? sizeof memory[h] : 0});
}

static void change_heap(unsigned h)
{
  if (!h || any(20))
    return;
  if (!heaps[h]) {
    make_heap(h);
    return;
  }
  lose_pools(h);
  forget_all(HEAP, h);
  if (any(2))
    pool_heap_reset(heaps[h]);
  else {
    pool_heap_destroy(heaps[h]);
    heaps[h] = NULL;
  }
}

/* ---- object pools ---- */

static void *choose(object_pool_t *pool, void *context)
{
  (void)context;
  void *victim = object_pool_next(pool, NULL);
  for (block_t *block = blocks; block < blocks + BLOCKS; block++)
    if (block->kind == POOL && block->start == victim)
      block->kind = NOBODY;
  return victim;
}

static void make_pool(unsigned p)
{
  unsigned h = any(HEAPS), policy = any(4);
  bool overflows = policy == OBJECT_POOL_OVERFLOW;
  pools[p].heap = h && heaps[h] ? (int)h : -1;
  pools[p].size = overflows ? SHARED_SIZE : 1 + any(any(2) ? 10 : 300);
  pools[p].pool = object_pool_create(&(object_pool_options_t){.name = "a pool",
                                                              .object_size = pools[p].size,
                                                              .alignment = 1,
                                                              .capacity = 1 + any(100),
                                                              .when_full = (object_pool_policy_t)policy,
                                                              .choose_victim = choose,
                                                              .overflow = overflows ? pools[0].pool : NULL,
                                                              .heap = pools[p].heap >= 0 ? heaps[pools[p].heap] : NULL});
}

static void use_pool(unsigned p)
{
  void *batch[BATCH];
  size_t count = 0;
  object_pool_t *pool = pools[p].pool;
  switch (any(8)) {
  case 0:
    count = object_pool_get_batch(pool, batch, any(BATCH));
    break;
  case 1:
    for (block_t *block = blocks; block < blocks + BLOCKS && count < BATCH; block++)
      if (block->kind == POOL && block->owner == p) {
        batch[count++] = block->start;
        block->kind = NOBODY;
      }
    object_pool_put_batch(pool, batch, count);
    return;
  case 2:
    if (any(5) == 0) {
      forget_all(POOL, p);
      object_pool_put_all(pool);
    }
    return;
  case 3:
    object_pool_shrink(pool, any(100));
    return;
  case 4:
    if (p && any(10) == 0) {
      forget_all(POOL, p);
      object_pool_destroy(pool);
      pools[p].pool = NULL;
    }
    return;
  default:
    count = (batch[0] = object_pool_get(pool)) != NULL;
    break;
  }
  while (count-- > 0)
    add(batch[count], pools[p].size, POOL, object_pool_in_use(pool, batch[count]) ? p : 0);
}

static void step(void)
{
  block_t *block = &blocks[any(BLOCKS)];
  unsigned h = any(HEAPS), p = any(POOLS);
  if (live() > BLOCKS * 3 / 4 || any(3) == 0)
    end_block(block);
  else if (any(4) == 0)
    change_block(block);
  else if (any(3) == 0)
    change_heap(h);
  else if (any(3) && heaps[h])
    take_block(h);
  else if (pools[p].pool)
    use_pool(p);
  else
    make_pool(p);
}

int main(int count, char **arguments)
{
  if (count != 3)
    return 2;
  seed = strtoull(arguments[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
  heaps[0] = pool_heap_default();
  pools[0] = (pool_t){.size = SHARED_SIZE, .heap = -1};
  pools[0].pool =
    object_pool_create(&(object_pool_options_t){.name = "shared", .object_size = SHARED_SIZE, .alignment = 1, .capacity = 500});
  for (unsigned long i = strtoul(arguments[2], NULL, 10); i > 0; i--)
    step();
  size_t bytes = 0;
  for (const block_t *block = blocks; block < blocks + BLOCKS; block++)
    bytes += block->kind != NOBODY ? block->size : 0;
  char text[100];
  int length = snprintf(text, sizeof text, "%zu %zu\n", bytes, live());
  if (write(STDOUT_FILENO, text, (size_t)length) != length) /* stdio would allocate */
    return 1;
  _exit(0);
}
