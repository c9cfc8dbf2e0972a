/* SPDX-License-Identifier: MIT
 *
 * Whether to grow is decided under the pool's lock. The array is created without it, and entered if that is still wanted. */
#include "heap/blocks.h"
#include "object_pool/cache.h"
#include "object_pool/operations.h"
#include "os/lock.h"

enum {
  GROW_LEAST_BYTES = 4096, /* a smaller first array is not worth it */
  GROW_SHORT = 16          /* if memory is short, the least step is the capacity divided by this */
};

static size_t most_of(const object_pool_t *pool) { return pool->max_capacity ? pool->max_capacity : UINT32_MAX - 1; }

/* A whole step doubles the pool, so the number of arrays is logarithmic in the number of objects. */
static size_t step_most(const object_pool_t *pool, size_t capacity, size_t room)
{
  return min_size(max_size(max_size(capacity, GROW_LEAST_BYTES / pool->stride), 1), room);
}

/* The least step grows with the number of arrays. Otherwise small arrays would use up all OBJECT_ARRAYS places. */
static size_t step_least(size_t capacity, size_t room, uint32_t arrays)
{
  size_t part = arrays < OBJECT_ARRAYS / 3 ? GROW_SHORT : arrays < OBJECT_ARRAYS / 3 * 2 ? GROW_SHORT / 2 : 2;
  return min_size(max_size(capacity / part, 1), room);
}

static object_array_t *array_create_step(object_pool_t *pool, const attempt_t *from, size_t capacity, size_t room, size_t least)
{
  size_t step = step_most(pool, capacity, room);
  for (;; step = max_size(step / 2, least)) {
    bool sane = step <= PTRDIFF_MAX / pool->stride;
    object_array_t *array = sane ? array_create(pool, from, step) : NULL;
    if (array || step == least)
      return array;
  }
}

typedef enum growth { GREW, AT_LIMIT, OUT_OF_MEMORY } growth_t;

/* Creates an array and enters it. If another thread made room meanwhile, this one destroys its own array. It returns GREW even
 * if that room is taken again, because the pool may not be at its limit. *least: bytes of the least step. */
static growth_t grow_once(object_pool_t *pool, const attempt_t *from, size_t *least)
{
  lock_acquire(&pool->lock);
  size_t capacity = pool->capacity, indices = array_free_indices(pool),
         left = most_of(pool) - min_size(capacity, most_of(pool));
  uint32_t arrays = pool->array_count;
  bool room = array_with_room(pool) != NULL;
  bool at_most = !left || pool->array_count == OBJECT_ARRAYS || pool->ending;
  lock_release(&pool->lock);
  if (room || at_most)
    return room ? GREW : AT_LIMIT;
  /* Pools that overflowed to this one may have ended and freed indices. A recount takes heaps_lock, so only if they are
   * short. */
  if (indices < step_most(pool, capacity, left) && registry_recount_indices(pool))
    return GREW;
  if (!indices)
    return AT_LIMIT;
  left = min_size(left, indices);

  /* The lock is free until the array is entered: another thread may make room, or the pool may end. */
  INSIDE_GATE(GATE_LIFE);
  size_t step = step_least(capacity, left, arrays);
  *least = array_bytes(pool, step);
  object_array_t *array = array_create_step(pool, from, capacity, left, step);
  lock_acquire(&pool->lock);
  room = array_with_room(pool) != NULL;
  bool entered = array && !room && array->capacity <= most_of(pool) - pool->capacity && array_enter(pool, array);
  bool grew = room || entered || pool->capacity > capacity;
  lock_release(&pool->lock);
  if (array && !entered)
    array_destroy(pool, array, "object_pool_get", false);
  return grew ? GREW : array ? AT_LIMIT : OUT_OF_MEMORY;
}

/* Returns whether a request of this heap may call the program, and so may never return. */
static bool calls_back(const heap_t *heap)
{
  while (heap && !heap->on_exhausted)
    heap = heap_overflow(heap);
  return heap != NULL;
}

/* The callback may call get for a pool that has to grow, and that pool's heap may call back again. To end such recursion, each
 * thread notes where on its stack the outermost callback was called. If the stack is no longer that deep, longjmp() has left
 * the callback. If it is that deep again, nobody can tell, so nested callbacks are allowed. After USELESS_WITHIN useless ones
 * in a row, only each 2^n-th is called. Growth without a callback continues. */
enum { USELESS_WITHIN = 16 };
static bool may_ask_within(void)
{
  unsigned before = object_thread.useless_growths;
  object_thread.useless_growths = (uint16_t)(before == UINT16_MAX ? USELESS_WITHIN : before + 1);
  return before <= USELESS_WITHIN || is_power_of_two(before);
}

/* Moves on to the next attempt. The thread holds no lock and no memory. Returns false if nothing is left to try. */
static bool next_attempt(const object_pool_t *pool, attempt_t *from, size_t bytes)
{
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  bool outermost = here >= object_thread.growth_frame;
  if (outermost) {
    object_thread.growth_frame = here;
    object_thread.useless_growths = 0;
  }
  bool again = heap_next_attempt(from, bytes, outermost || may_ask_within());
  if (outermost)
    object_thread.growth_frame = 0;
  must_be_live(pool, "object_pool_get"); /* the callback may have reset the heap, which drops its pools */
  return again;
}

/* Only a heap without memory needs the next attempt, not a pool that is at its limit or has grown. Success restores errno. */
static bool grow_by_any_attempt(object_pool_t *pool)
{
  int error = errno;
  size_t least = 0;
  /* The site of the pool's creation says more than that of the get which found no room. */
  attempt_t from = heap_first_attempt(pool->heap, ORIGIN_AT("object_pool_get", pool->created_by));
  from.together = watch_keeps_arrays();
  growth_t growth;
  while ((growth = grow_once(pool, &from, &least)) == OUT_OF_MEMORY && next_attempt(pool, &from, least)) {}
  errno = error;
  if (growth == OUT_OF_MEMORY)
    heap_exhausted(pool->heap, from.by.call, least);
  if (growth == GREW)
    object_thread.useless_growths = 0;
  return growth == GREW;
}

/* An array may already be unused when it is entered. Its clock begins then. */
void capacity_note_unused(object_pool_t *pool)
{
  LOCKED(&pool->lock);
  for (uint32_t k = 0; k < pool->array_count; k++)
    if (!pool->arrays[k]->taken && !pool->arrays[k]->unused)
      hot_array_to_unused(pool, pool->arrays[k]);
}

bool capacity_grow(object_pool_t *pool)
{
  if (calls_back(pool->heap))
    return grow_by_any_attempt(pool);
  LOCKED(&pool->growth);
  return grow_by_any_attempt(pool);
}

/* ---- arrays leave ---- */

/* A pool that is being destroyed keeps all its arrays, because it visits their objects while hooks may come here. */
static bool leaves_enough(const object_pool_t *pool, const object_array_t *array, size_t keep)
{
  return !pool->ending && pool->capacity - array->capacity >= keep;
}

/* Returns the newest array before `age` that is due (or now_ms is NULL) and may leave, with room for `keep` objects left. */
static object_array_t *newest_to_go(const object_pool_t *pool, uint32_t age, size_t keep, const uint64_t *now_ms)
{
  object_array_t *newest = NULL;
  for (uint32_t k = 0; k < pool->array_count; k++) {
    object_array_t *array = pool->arrays[k];
    bool due = !now_ms || (is_unused(array) && *now_ms - array->unused_since_ms >= pool->purge_delay_ms);
    if (!array->permanent && !array->taken && due && leaves_enough(pool, array, keep) && array->age < age &&
        (!newest || array->age > newest->age))
      newest = array;
  }
  return newest;
}

static bool has_made(const object_array_t *array) { return bits_next_set(array->made, 0, array->capacity) < array->capacity; }

static void busy_to_free(object_pool_t *pool, object_array_t *array, size_t i)
{
  set_busy(pool, array, i, false);
  object_to_free(pool, array, i);
}

/* Destructs the free objects of an array one by one, each while it is busy. So a hook that leaves by longjmp() loses only its
 * own object, and threads can get the others. The next object is made busy before the last becomes free: only then is the array
 * unused again. The lock is held, but not while a hook runs. Returns true if no constructed or taken object is left. */
static bool end_free_objects(object_pool_t *pool, object_array_t *array, const char *call)
{
  size_t capacity = array->capacity, last = capacity;
  for (size_t i = 0; i < capacity; i++) {
    bool made = bit_test(array->made, i);
    if (!bit_tree_test(&array->free, i) || !(made || is_checked(pool)))
      continue;
    take_bits(pool, array, i / WORD_BITS, bit_of(i), 1);
    set_busy(pool, array, i, true);
    bit_clear(array->made, i);
    if (last < capacity)
      busy_to_free(pool, array, last);
    last = i;
    lock_release(&pool->lock);
    hooks_end(pool, array, i, made, call);
    lock_acquire(&pool->lock);
  }
  if (last < capacity)
    busy_to_free(pool, array, last);
  return !array->taken && !has_made(array);
}

/* Another thread may get an object while hooks run; its array then stays. Each age is tried once, so the loop ends. */
static void shrink_arrays(object_pool_t *pool, size_t keep, const uint64_t *now_ms, const char *call)
{
  object_array_t *array;
  uint32_t age = UINT32_MAX;
  lock_acquire(&pool->lock);
  while ((array = newest_to_go(pool, age, keep, now_ms)) != NULL) {
    age = array->age;
    /* The pool's destruction may also have begun while hooks ran. */
    if (has_work_on_end(pool) && !(end_free_objects(pool, array, call) && leaves_enough(pool, array, keep)))
      continue;
    lock_t *gate = gate_enter(GATE_ARRAYS);
    array_leave(pool, array);
    lock_release(&pool->lock);
    array_destroy(pool, array, call, false);
    gate_leave(gate);
    lock_acquire(&pool->lock);
  }
  lock_release(&pool->lock);
}

void capacity_shrink_if_due(object_pool_t *pool, size_t keep)
{
  uint64_t now = os_now_ms();
  if (home_of(pool))
    caches_empty(pool);
  shrink_arrays(pool, keep, &now, "object_pool_shrink");
}

size_t object_pool_capacity(const object_pool_t *pool)
{
  if (!is_given(pool, "object_pool_capacity"))
    return 0;
  look_at_clock(asked(pool), 0);
  return LOAD(pool->capacity);
}

/* The hot object counts as taken in its array, so it cools first. */
size_t object_pool_shrink(object_pool_t *pool, size_t capacity)
{
  if (!is_given(pool, "object_pool_shrink"))
    return 0;
  lock_acquire(&pool->lock);
  hot_cool(pool);
  lock_release(&pool->lock);
  shrink_arrays(pool, capacity, NULL, "object_pool_shrink");
  return LOAD(pool->capacity);
}
