/* SPDX-License-Identifier: MIT
 *
 * Objects that are needed again and again, three ways. Got from an object pool, where they keep their constructed state and
 * only what changes is set. Made by an allocator: allocated and set up whole. And, in the program of malloc, from what one
 * would write by hand for one type: an array, a list through the free ones and an in-use flag in each, with no thread, no
 * misuse, no growth and no second pool in mind. */
#include "bench.h"
#include <string.h>

#ifdef BENCH_OBJECT_POOLS
#include <tidepool/object_pool.h>
#endif

typedef struct object {
  struct object *next_free; /* by hand only */
  bool in_use;
  float x, y, dx, dy;
  char name[24];
  void *texture;
} object_t; /* 64 bytes */
_Static_assert(sizeof(object_t) == LINE, "a line");

/* What a constructor does, and what has to be done at each use. */
static inline object_t *set_up(object_t *o)
{
  memset(o, 0, sizeof *o);
  memcpy(o->name, "an object with a name", 22);
  o->texture = o;
  return o;
}

static inline object_t *start(object_t *o, size_t i)
{
  o->x = o->y = (float)i;
  o->dx = o->dy = 1;
  return o;
}

static inline void move(object_t *o)
{
  o->x += o->dx;
  o->y += o->dy;
}

/* ---- a way: make, get, put, put_all, move_all, drop ---- */

#ifdef BENCH_OBJECT_POOLS

typedef object_pool_t ours_t;

static bool construct(void *object, void *context)
{
  (void)context;
  set_up(object);
  return true;
}

static ours_t *make(size_t count, bool shared)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){
    .object_size = sizeof(object_t), .alignment = LINE, .capacity = count, .flags = shared ? 0 : OBJECT_POOL_SINGLE_THREAD});
  if (!pool)
    bench_out_of_memory();
  for (size_t i = 0; i < count; i++)
    construct(object_pool_get(pool), NULL);
  object_pool_put_all(pool);
  return pool;
}
static inline object_t *get(ours_t *pool, size_t i) { return start(object_pool_get(pool), i); }
static inline void put(ours_t *pool, object_t *o) { object_pool_put(pool, o); }
static inline void put_all(ours_t *pool, object_t **objects, size_t count)
{
  (void)objects, (void)count, object_pool_put_all(pool);
}
static inline void move_all(ours_t *pool, object_t **objects, size_t count)
{
  (void)objects, (void)count;
  for (object_t *o = NULL; (o = object_pool_next(pool, o)) != NULL;)
    move(o);
}
static void drop(ours_t *pool) { object_pool_destroy(pool); }

#else

typedef void ours_t;
static ours_t *make(size_t count, bool shared) { return (void)count, (void)shared, NULL; }
static inline object_t *get(ours_t *none, size_t i)
{
  return (void)none, start(set_up(taken(bench_alloc(sizeof(object_t)))), i);
}
static inline void put(ours_t *none, object_t *o) { (void)none, bench_free(o); }
static inline void put_all(ours_t *none, object_t **objects, size_t count)
{
  (void)none;
  for (size_t i = 0; i < count; i++)
    bench_free(objects[i]);
}
static inline void move_all(ours_t *none, object_t **objects, size_t count)
{
  (void)none;
  for (size_t i = 0; i < count; i++)
    move(objects[i]);
}
static void drop(ours_t *none) { (void)none; }

#endif

#ifdef BENCH_BY_HAND

typedef struct by_hand {
  object_t *objects, *free;
  size_t count;
} by_hand_t;

static void hand_put_all(by_hand_t *h)
{
  for (size_t i = h->count; i-- > 0;) {
    h->objects[i].in_use = false;
    h->objects[i].next_free = i + 1 < h->count ? &h->objects[i + 1] : NULL;
  }
  h->free = h->objects;
}

static void hand_make(by_hand_t *h, size_t count)
{
  *h = (by_hand_t){.objects = taken(bench_aligned_alloc(LINE, count * sizeof(object_t))), .count = count};
  for (size_t i = 0; i < count; i++)
    set_up(&h->objects[i]);
  hand_put_all(h);
}

__attribute__((noinline)) static object_t *hand_get(by_hand_t *h, size_t i)
{
  object_t *o = h->free;
  if (!o)
    return NULL;
  h->free = o->next_free;
  o->in_use = true;
  return start(o, i);
}

__attribute__((noinline)) static void hand_put(by_hand_t *h, object_t *o)
{
  if (!o->in_use)
    __builtin_trap();
  o->in_use = false;
  o->next_free = h->free;
  h->free = o;
}

static inline void hand_move_all(by_hand_t *h)
{
  for (size_t i = 0; i < h->count; i++)
    if (h->objects[i].in_use)
      move(&h->objects[i]);
}

#endif

/* ---- the cases ---- */

static object_t **object_list(const bench_state_t *state) { return bench_scratch(state); }

static void pairs(bench_state_t *state)
{
  ours_t *pool = make(1000, false);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    put(pool, get(pool, i));
  bench_end(state, rounds);
  bench_live(state, sizeof(object_t));
  drop(pool);
}

#ifdef BENCH_BY_HAND
static void hand_pairs(bench_state_t *state)
{
  by_hand_t h;
  hand_make(&h, 1000);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    hand_put(&h, taken(hand_get(&h, i)));
  bench_end(state, rounds);
  bench_live(state, sizeof(object_t));
  bench_free(h.objects);
}
#endif

/* `count` objects, and then again and again one of them. */
static inline void replace_at_random(bench_state_t *state, ours_t *pool, object_t **live, size_t count)
{
  random_t random = random_for(state);
  for (size_t i = 0; i < count; i++)
    live[i] = get(pool, i);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    object_t **slot = &live[random_below(&random, count)];
    put(pool, *slot);
    *slot = get(pool, i);
  }
  bench_end(state, rounds);
}

static void slots(bench_state_t *state)
{
  const size_t count = bench_case_of(state)->count;
  object_t **live = object_list(state);
  ours_t *pool = make(2 * count, false);
  replace_at_random(state, pool, live, count);
  put_all(pool, live, count);
  drop(pool);
  bench_live(state, count * sizeof(object_t));
}

#ifdef BENCH_BY_HAND
static void hand_slots(bench_state_t *state)
{
  const size_t count = bench_case_of(state)->count;
  object_t **live = object_list(state);
  random_t random = random_for(state);
  by_hand_t h;
  hand_make(&h, 2 * count);
  for (size_t i = 0; i < count; i++)
    live[i] = hand_get(&h, i);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    object_t **slot = &live[random_below(&random, count)];
    hand_put(&h, *slot);
    *slot = taken(hand_get(&h, i));
  }
  bench_end(state, rounds);
  bench_free(h.objects);
  bench_live(state, count * sizeof(object_t));
}
#endif

/* `size` is how many of a hundred stay live, spread evenly. Returns how many, and where they are. */
static size_t thin_out(const bench_state_t *state, object_t **live, size_t count, random_t *random, object_t **rest,
                       size_t *rest_count)
{
  const size_t percent = bench_case_of(state)->size;
  size_t kept = 0;
  *rest_count = 0;
  for (size_t i = 0; i < count; i++)
    if (random_below(random, 100) < percent)
      live[kept++] = live[i];
    else
      rest[(*rest_count)++] = live[i];
  return kept;
}

enum { WALKED = 100000 };
static object_t *rest[WALKED];

static void walk(bench_state_t *state)
{
  object_t **live = object_list(state);
  random_t random = random_for(state);
  ours_t *pool = make(WALKED, false);
  for (size_t i = 0; i < WALKED; i++)
    live[i] = get(pool, i);
  size_t rest_count, kept = thin_out(state, live, WALKED, &random, rest, &rest_count);
  for (size_t i = 0; i < rest_count; i++)
    put(pool, rest[i]);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    move_all(pool, live, kept);
  bench_end(state, rounds * kept);
  put_all(pool, live, kept);
  drop(pool);
  bench_live(state, WALKED * sizeof(object_t));
}

#ifdef BENCH_BY_HAND
static void hand_walk(bench_state_t *state)
{
  object_t **live = object_list(state);
  random_t random = random_for(state);
  by_hand_t h;
  hand_make(&h, WALKED);
  for (size_t i = 0; i < WALKED; i++)
    live[i] = hand_get(&h, i);
  size_t rest_count, kept = thin_out(state, live, WALKED, &random, rest, &rest_count);
  for (size_t i = 0; i < rest_count; i++)
    hand_put(&h, rest[i]);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    hand_move_all(&h);
  bench_end(state, rounds * kept);
  bench_free(h.objects);
  bench_live(state, WALKED * sizeof(object_t));
}
#endif

/* A frame: `count` objects, then all of them back at once. */
static void frames(bench_state_t *state)
{
  const size_t count = bench_case_of(state)->count;
  object_t **live = object_list(state);
  ours_t *pool = make(count, false);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    for (size_t k = 0; k < count; k++)
      live[k] = get(pool, k);
    put_all(pool, live, count);
  }
  bench_end(state, rounds * count);
  drop(pool);
  bench_live(state, count * sizeof(object_t));
}

#ifdef BENCH_BY_HAND
static void hand_frames(bench_state_t *state)
{
  const size_t count = bench_case_of(state)->count;
  object_t **live = object_list(state);
  by_hand_t h;
  hand_make(&h, count);
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++) {
    for (size_t k = 0; k < count; k++)
      live[k] = hand_get(&h, k);
    hand_put_all(&h);
  }
  bench_end(state, rounds * count);
  bench_free(h.objects);
  bench_live(state, count * sizeof(object_t));
}
#endif

/* One pool for all threads, made by the first that comes; who leaves last drops it. */
static int shared_lock, shared_users;
static ours_t *shared_pool;
static ours_t *shared_enter(size_t count)
{
  while (__atomic_exchange_n(&shared_lock, 1, __ATOMIC_ACQUIRE))
    ;
  if (shared_users++ == 0)
    shared_pool = make(count, true);
  ours_t *pool = shared_pool;
  __atomic_store_n(&shared_lock, 0, __ATOMIC_RELEASE);
  return pool;
}
static void shared_leave(void)
{
  while (__atomic_exchange_n(&shared_lock, 1, __ATOMIC_ACQUIRE))
    ;
  if (--shared_users == 0)
    drop(shared_pool);
  __atomic_store_n(&shared_lock, 0, __ATOMIC_RELEASE);
}

static void threads(bench_state_t *state)
{
  ours_t *pool = shared_enter(250 * larger(4, bench_threads(state)));
  const uint64_t rounds = bench_begin(state);
  for (uint64_t i = 0; i < rounds; i++)
    put(pool, get(pool, i));
  bench_end(state, rounds);
  bench_live(state, sizeof(object_t));
  shared_leave();
}

static void shared_slots(bench_state_t *state)
{
  const size_t count = bench_case_of(state)->count;
  object_t **live = object_list(state);
  ours_t *pool = shared_enter(2 * larger(2, bench_threads(state)) * count);
  replace_at_random(state, pool, live, count);
  for (size_t i = 0; i < count; i++)
    put(pool, live[i]);
  shared_leave();
  bench_live(state, count * sizeof(object_t));
}

#define PAIRS         "get an object and put it"
#define SLOTS         "replace one of 10,000 live objects, chosen at random"
#define WALK(percent) "move a live one of 100,000 objects, " percent " of them live"
#define FRAMES        "get 1,000 objects, put all of them at once: one of them"
#define BY_HAND       ", list by hand"

static const bench_case_t cases[] = {
  {"object_pools/pairs", PAIRS, pairs, .brief = true},
  {"object_pools/slots", SLOTS, slots, .count = 10000, .brief = true},
  {"object_pools/walk_10", WALK("10 %"), walk, .size = 10},
  {"object_pools/walk_50", WALK("50 %"), walk, .size = 50},
  {"object_pools/walk_100", WALK("100 %"), walk, .size = 100, .brief = true},
  {"object_pools/frames", FRAMES, frames, .count = 1000, .brief = true},
  {"object_pools/threads", PAIRS ", in a pool that all threads share", threads, .threads = RUN_THREADS(1) | RUN_THREADS(2),
   .brief = true},
  {"object_pools/shared_slots", "replace one of a thread's 4,000 live objects at random, in a pool that all share",
   shared_slots, .count = 4000, .threads = RUN_THREADS(1) | RUN_THREADS(2), .brief = true},
#ifdef BENCH_BY_HAND
  {"object_pools/pairs_by_hand", PAIRS BY_HAND, hand_pairs, .count = 1, .brief = true},
  {"object_pools/slots_by_hand", SLOTS BY_HAND, hand_slots, .count = 10000, .brief = true},
  {"object_pools/walk_10_by_hand", WALK("10 %") BY_HAND, hand_walk, .size = 10},
  {"object_pools/walk_50_by_hand", WALK("50 %") BY_HAND, hand_walk, .size = 50},
  {"object_pools/walk_100_by_hand", WALK("100 %") BY_HAND, hand_walk, .size = 100, .brief = true},
  {"object_pools/frames_by_hand", FRAMES BY_HAND, hand_frames, .count = 1000, .brief = true},
#endif
};

BENCH_SUBJECT(object_pools, cases);
