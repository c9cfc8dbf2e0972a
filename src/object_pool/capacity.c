/* SPDX-License-Identifier: MIT
 *
 * A thread decides under the pool's lock whether there is anything to gain, makes an array with the lock open, and enters it
 * under the lock again, if that is still wanted. Arrays go the same way back. */
#include "object_pool/capacity.h"
#include "heap/blocks.h"
#include "object_pool/cache.h"
#include "object_pool/object_misuse.h"
#include "object_pool/registry.h"
#include "space/gate.h"

enum {
  GROW_LEAST_BYTES = 4096, /* a first step of less is not worth an array */
  GROW_SHORT = 16          /* the least step, if memory is short, is this part of the capacity */
};

static size_t most_of(const object_pool_t *pool) { return pool->max_capacity ? pool->max_capacity : UINT32_MAX - 1; }

/* A whole step doubles the pool, so the number of steps grows with the logarithm of the objects. */
static size_t step_most(const object_pool_t *pool, size_t capacity, size_t room)
{
  return min_size(max_size(max_size(capacity, GROW_LEAST_BYTES / pool->stride), 1), room);
}

/* A pool has at most OBJECT_ARRAYS arrays. The more there are, the larger the next one must be, or the places would be used up
 * by small ones. */
static size_t step_least(size_t capacity, size_t room, uint32_t arrays)
{
  size_t part = arrays < OBJECT_ARRAYS / 3 ? GROW_SHORT : arrays < OBJECT_ARRAYS / 3 * 2 ? GROW_SHORT / 2 : 2;
  return min_size(max_size(capacity / part, 1), room);
}

/* Tries a whole step, then half of it again and again, down to the least. */
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

/* Makes an array and enters it. Several threads may be here at once, and another may have made room meanwhile: then this one
 * gives its own array back. It has to try again even if that room is taken already, since the pool has grown and may not be at
 * its limit. *least: the bytes of the least step. */
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
  /* Pools that overflowed to this one may be gone, and their indices are free then. Looking for that takes heaps_lock, so it is
   * done only if indices are short. */
  if (indices < step_most(pool, capacity, left) && registry_recount_indices(pool))
    return GREW;
  if (!indices)
    return AT_LIMIT;
  left = min_size(left, indices);

  /* Between the decision above and the entry below the lock is open: another thread may make room, or the pool may end. */
  lock_t *gate = gate_enter(GATE_LIFE);
  size_t step = step_least(capacity, left, arrays);
  *least = array_bytes(pool, step);
  object_array_t *array = array_create_step(pool, from, capacity, left, step);
  lock_acquire(&pool->lock);
  room = array_with_room(pool) != NULL;
  bool entered = array && !room && array->capacity <= most_of(pool) - pool->capacity && array_enter(pool, array);
  bool grew = room || entered || pool->capacity > capacity;
  lock_release(&pool->lock);
  if (array && !entered)
    array_destroy(pool, array, "object_pool_get");
  gate_leave(gate);
  return grew ? GREW : array ? AT_LIMIT : OUT_OF_MEMORY;
}

/* Says whether memory from this heap may call the program, which may never come back. */
static bool calls_back(const heap_t *heap)
{
  while (heap && !heap->on_exhausted)
    heap = heap_overflow(heap);
  return heap != NULL;
}

/* The callback may get in turn, from a pool that has to grow, whose heap calls back. So that this ends, each thread knows where
 * on its stack the outermost such callback was called. If the stack is no longer that deep, the callback has left by longjmp(),
 * and is over. If it has left and the stack is as deep again, nobody can tell. So nested callbacks are allowed. After
 * USELESS_WITHIN in a row that were of no use, only each 2^n-th is called. Growth without a callback goes on. */
enum { USELESS_WITHIN = 16 };
static bool may_ask_within(void)
{
  unsigned before = object_thread.useless_growths;
  object_thread.useless_growths = (uint16_t)(before == UINT16_MAX ? USELESS_WITHIN : before + 1);
  return before <= USELESS_WITHIN || is_power_of_two(before);
}

/* Goes on to the next attempt, with nothing in hand. False: nothing is left to try. */
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
  must_be_live(pool, "object_pool_get"); /* the callback may have reset the heap, and that drops its pools */
  return again;
}

/* Only a heap that is out of memory is asked for its next attempt. A pool at its limit, and one that has grown, need none.
 * errno tells of a failure alone. */
static bool grow_by_any_attempt(object_pool_t *pool)
{
  int error = errno;
  size_t least = 0;
  attempt_t from = heap_first_attempt(pool->heap, "object_pool_get");
  from.together = watch_keeps_arrays();
  from.caller = pool->created_by; /* which says more of an array than the get that happened to find no room */
  growth_t growth;
  while ((growth = grow_once(pool, &from, &least)) == OUT_OF_MEMORY && next_attempt(pool, &from, least)) {}
  errno = error;
  if (growth == OUT_OF_MEMORY)
    heap_exhausted(pool->heap, from.call, least);
  if (growth == GREW)
    object_thread.useless_growths = 0;
  return growth == GREW;
}

/* The clock of an array begins when it becomes unused, also if that is when it is made. */
void capacity_note_unused(object_pool_t *pool)
{
  lock_acquire(&pool->lock);
  for (uint32_t k = 0; k < pool->array_count; k++)
    if (!pool->arrays[k]->taken && !pool->arrays[k]->unused)
      hot_array_to_unused(pool, pool->arrays[k]);
  lock_release(&pool->lock);
}

/* The lock of growth is not held around a callback (capacity.h). */
bool capacity_grow(object_pool_t *pool)
{
  if (calls_back(pool->heap))
    return grow_by_any_attempt(pool);
  lock_acquire(&pool->growth);
  bool try_again = grow_by_any_attempt(pool);
  lock_release(&pool->growth);
  return try_again;
}

/* ---- arrays go ---- */

/* A pool that ends keeps all its arrays. */
static bool leaves_enough(const object_pool_t *pool, const object_array_t *array, size_t keep)
{
  return !pool->ending && pool->capacity - array->capacity >= keep;
}

/* Returns the newest array before `age` that may go: no object of it is taken, it is due (or no clock is asked), and room for
 * `keep` objects is left. A pool that ends keeps its arrays, because it goes through their objects while its hooks may come by
 * here. */
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

/* A free object that is about to be ended is taken and busy meanwhile, so that no thread gets it. */
static void free_to_busy(object_pool_t *pool, object_array_t *array, size_t i)
{
  bit_tree_clear(&array->free, i);
  ADD(pool->taken, 1);
  array->taken++;
  if (is_unused(array))
    array_become_used(pool, array);
  set_busy(pool, array, i, true);
}

static void busy_to_free(object_pool_t *pool, object_array_t *array, size_t i)
{
  set_busy(pool, array, i, false);
  object_to_free(pool, array, i);
}

/* Ends the free objects of an array one after the other, each as busy, so that a hook that leaves loses that one alone, and the
 * others may be got meanwhile. The next is taken before the last goes back: only then is the array unused again. The lock is
 * held on entry and on return, but not while a hook runs. True: there is nothing left to end, and nobody has taken one. */
static bool end_free_objects(object_pool_t *pool, object_array_t *array, const char *call)
{
  size_t capacity = array->capacity, last = capacity;
  for (size_t i = 0; i < capacity; i++) {
    bool made = bit_test(array->made, i);
    if (!bit_tree_test(&array->free, i) || !(made || is_checked(pool)))
      continue;
    free_to_busy(pool, array, i);
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

/* While hooks run the lock is open, and another thread may take an object of the array, which then stays. Each age is tried
 * once, so that this ends. */
static void shrink_arrays(object_pool_t *pool, size_t keep, const uint64_t *now_ms, const char *call)
{
  object_array_t *array;
  uint32_t age = UINT32_MAX;
  lock_acquire(&pool->lock);
  while ((array = newest_to_go(pool, age, keep, now_ms)) != NULL) {
    age = array->age;
    /* While hooks ran, an object of the array may have been got, or the pool may have begun to end. */
    if (has_work_on_end(pool) && !(end_free_objects(pool, array, call) && leaves_enough(pool, array, keep)))
      continue;
    lock_t *gate = gate_enter(GATE_ARRAYS);
    array_leave(pool, array);
    lock_release(&pool->lock);
    array_destroy(pool, array, call);
    gate_leave(gate);
    lock_acquire(&pool->lock);
  }
  lock_release(&pool->lock);
}

void capacity_shrink_if_due(object_pool_t *pool, size_t keep)
{
  uint64_t now = os_now_ms();
  if (HAS_SYSTEM)
    caches_empty(pool);
  shrink_arrays(pool, keep, &now, "object_pool_shrink");
}

size_t object_pool_capacity(const object_pool_t *pool)
{
  if (!is_given(pool, "object_pool_capacity"))
    return 0;
  look_at_clock(asked(pool));
  return LOAD(pool->capacity);
}

/* The hot object counts as taken in its array, so it goes back first. */
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
