/* SPDX-License-Identifier: MIT */
#include "magazine.h"
#include "os/fatal.h"

__attribute__((aligned(MAGAZINE_BYTES))) void *magazine_nowhere[MAGAZINE_WORDS];

THREAD_LOCAL cache_t magazine_front_cache = {.of = {[0 ... CLASS_CACHED] = {.slot = MAGAZINE_NOWHERE}}};

void magazines_init(magazines_t *magazines, cache_t *cache, const void *thread)
{
  *magazines = (magazines_t){.cache = cache, .thread = thread};
  for (unsigned c = 0; c <= CLASS_CACHED; c++) {
    cache->of[c].top = NULL;
    cache->of[c].slot = magazines->seen[c] = MAGAZINE_NOWHERE;
  }
}

/* Makes the entries up to `top` the loaded magazine; `top` at the floor is an empty one. */
static void load(cache_t *cache, unsigned c, void **top)
{
  OWNER_STORE(cache->of[c].top, *top);
  OWNER_STORE(cache->of[c].slot, top - 1);
}

static bool has_magazine(const cache_t *cache, unsigned c) { return cache->of[c].slot != MAGAZINE_NOWHERE; }

void *magazines_refill(magazines_t *magazines, pool_t *pool)
{
  cache_t *cache = magazines->cache;
  unsigned c = pool->size_class;
  void **top = magazines->spare[c];
  void **empty = has_magazine(cache, c) ? cache->of[c].slot + 1 : NULL;
  if (top && *top) {
    magazines->spare[c] = empty;
  } else {
    top = pool_exchange_empty(pool, empty, pool->magazine_most, magazines->thread);
    if (!top) {
      OWNER_STORE(cache->of[c].slot, MAGAZINE_NOWHERE);   /* the empty one has gone to the pool */
      return NULL;
    }
  }
  void *block = *top;
  load(cache, c, top - 1);
  return block;
}

void magazines_overflow(magazines_t *magazines, pool_t *pool, void *block)
{
  cache_t *cache = magazines->cache;
  unsigned c = pool->size_class, k = pool->magazine_most;
  void **spare = magazines->spare[c], **full = cache->of[c].slot, **floor;
  void *top = cache->of[c].top;
  if (unlikely(!spare || full == MAGAZINE_NOWHERE))
    floor = pool_new_magazine(pool, k);
  else
    floor = *spare ? pool_exchange_full(pool, spare, k, magazines->thread) : spare;
  if (unlikely(!floor)) {
    pool_put(pool, &block, 1);
    return;
  }
  if (full != MAGAZINE_NOWHERE)
    magazines->spare[c] = full;
  /* As two pushes onto the empty magazine would leave it; a magazine has room for two. */
  *floor = NULL;
  if (top)
    *++floor = top;
  OWNER_STORE(cache->of[c].top, block);
  OWNER_STORE(cache->of[c].slot, floor);
}

void magazines_flush(magazines_t *magazines, pool_t *pool)
{
  cache_t *cache = magazines->cache;
  unsigned c = pool->size_class;
  if (magazines->spare[c])
    pool_retire_magazine(pool, magazines->spare[c]);
  magazines->spare[c] = NULL;
  if (!has_magazine(cache, c))
    return;
  void *top = cache->of[c].top, **slot = cache->of[c].slot;
  OWNER_STORE(cache->of[c].top, NULL);
  OWNER_STORE(cache->of[c].slot, MAGAZINE_NOWHERE);
  if (top)
    pool_put(pool, &top, 1);
  else
    *++slot = NULL;
  pool_retire_magazine(pool, slot);
}

void magazines_drop(magazines_t *magazines, pool_t *pool)
{
  unsigned c = pool->size_class;
  loaded_t *loaded = &magazines->cache->of[c];
  if (magazines->spare[c])
    pool_keep_magazine(pool, magazines->spare[c]);
  if (loaded->slot != MAGAZINE_NOWHERE)
    pool_keep_magazine(pool, loaded->slot + !loaded->top);
  magazines->spare[c] = NULL;
  OWNER_STORE(loaded->top, NULL);
  OWNER_STORE(loaded->slot, MAGAZINE_NOWHERE);
}

bool magazines_idle(magazines_t *magazines, unsigned size_class)
{
  void **slot = magazines->cache->of[size_class].slot;
  bool idle = slot != MAGAZINE_NOWHERE && slot == magazines->seen[size_class];
  magazines->seen[size_class] = slot;
  return idle;
}

/* ---- for others ---- */

typedef struct entries { void *top, **slot, **spare; } entries_t;

static entries_t entries_of(const magazines_t *magazines, unsigned c)
{
  const cache_t *cache = magazines->cache;
  return (entries_t){__atomic_load_n(&cache->of[c].top, __ATOMIC_RELAXED), __atomic_load_n(&cache->of[c].slot, __ATOMIC_RELAXED),
                     __atomic_load_n(&magazines->spare[c], __ATOMIC_RELAXED)};
}

/* Calls for each entry from `top` down; the floor of a magazine is never its word 0. */
static size_t count_entries(void **top, const void *wanted, bool *found)
{
  size_t n = 0;
  void *entry;
  for (; top && ((uintptr_t)top & (MAGAZINE_BYTES - 1)) && (entry = __atomic_load_n(top, __ATOMIC_RELAXED)) != NULL; top--, n++)
    *found |= entry == wanted;
  return n;
}

static size_t count_all(const magazines_t *magazines, unsigned c, const void *wanted, bool *found)
{
  entries_t e = entries_of(magazines, c);
  size_t n = count_entries(e.spare, wanted, found);
  if (!e.top)
    return n;
  *found |= e.top == wanted;
  return n + 1 + count_entries(e.slot, wanted, found);
}

size_t magazines_count(const magazines_t *magazines, unsigned size_class)
{
  bool found = false;
  return count_all(magazines, size_class, NULL, &found);
}

bool magazines_hold(const magazines_t *magazines, unsigned size_class, const void *block)
{
  bool found = false;
  count_all(magazines, size_class, block, &found);
  return found;
}
