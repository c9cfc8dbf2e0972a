/* SPDX-License-Identifier: MIT
 *
 * The arrays of a pool: finding the array and the position of an object; creating, entering, leaving and destroying arrays;
 * taking and returning their objects, and the hot object. The pool's lock is held, except while an array is created or
 * destroyed: the heap takes its own locks for that. */
#ifndef ARRAY_H
#define ARRAY_H

#include "heap/blocks.h"
#include "object_pool/types.h"

enum { NATURAL_ALIGNMENT = 16 };

/* Bytes of uses that processors fetch together: two cache lines. The objects in a thread's cache fill such stretches, as far as
 * possible: threads with objects in one stretch would take it from each other's processor at every get and put. */
enum { USES_TOGETHER = 128 };

/* Returns the position of an object in this array, or a number at or beyond the capacity if the array does not have it. The
 * product with the inverse, rotated, is the quotient exactly for multiples of the stride. */
static inline size_t object_position(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  uintptr_t product = ((uintptr_t)object - (uintptr_t)array->objects) * pool->inverse;
  return product >> pool->shift | product << (-pool->shift & (ADDRESS_BITS - 1));
}

static inline void *object_at(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  return array->objects + i * pool->stride;
}

/* Only the home array of a pool, whose objects threads cache, has laps. */
static inline bool has_laps(const object_array_t *array) { return HAS_CACHES && array->laps; }

/* Without laps, the uses of an object are its gets. With laps, the highest bit is set while the object is live, and the other
 * bits count its puts. The lap is the next higher bit of that count. */
#define USES_LIVE 0x80000000u

/* Returns the gets of an object, modulo 2^32. Its handle adds first_generation. Called under the lock. */
static inline uint32_t gets_of(const object_array_t *array, size_t i)
{
  uint32_t uses = LOAD(array->uses[i]);
  if (!has_laps(array))
    return uses;
  return (uses & ~USES_LIVE) + (uses / USES_LIVE) + ((uint32_t)bit_test(array->laps, i) << 31);
}

static inline bool is_in_use(const uint32_t *uses) { return LOAD(*uses) & USES_LIVE; }

/* The thread that gets or puts an object changes its uses, in one instruction where compilers emit three. Other threads may
 * read the word, but none writes it. end_use() returns false, without a change, if the object is not live or its lap ends. The
 * assembly tests for overflow: two negative numbers overflow, except at the end of a lap. */
#if defined __x86_64__ && defined __GCC_ASM_FLAG_OUTPUTS__ && !defined UNDER_SANITIZER
static inline void start_use(uint32_t *uses) { __asm__("addl %1, %0" : "+m"(*uses) : "i"(USES_LIVE) : "cc"); }
static inline bool end_use(uint32_t *uses)
{
  bool ended;
  __asm__("addl %2, %1" : "=@cco"(ended), "+m"(*uses) : "i"(USES_LIVE + 1));
  if (unlikely(!ended))
    ADD(*uses, USES_LIVE - 1);
  return ended;
}
#else
static inline void start_use(uint32_t *uses) { ADD(*uses, USES_LIVE); }
static inline bool end_use(uint32_t *uses)
{
  uint32_t now = LOAD(*uses);
  if (!(now & USES_LIVE) || now == UINT32_MAX)
    return false;
  STORE(*uses, now + USES_LIVE + 1);
  return true;
}
#endif

OWN_COPY COLD void end_lap(object_array_t *array, size_t i)
{
  STORE(array->uses[i], 0);
  bit_test(array->laps, i) ? bit_clear(array->laps, i) : bit_set(array->laps, i);
}

/* The same under the lock, also at the end of a lap. */
static inline bool end_use_locked(object_array_t *array, size_t i)
{
  if (likely(end_use(array->uses + i)))
    return true;
  bool ends = is_in_use(array->uses + i);
  if (ends)
    end_lap(array, i);
  return ends;
}

static inline void count_get(object_array_t *array, size_t i)
{
  if (has_laps(array))
    start_use(array->uses + i);
  else
    STORE(array->uses[i], array->uses[i] + 1);
}

/* Returns the index of the first array, in order of address, that ends behind `address`; array_count if there is none. */
OWN_COPY NOINLINE uint32_t array_behind(const object_pool_t *pool, const void *address)
{
  uint32_t low = 0, high = pool->array_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    const object_array_t *array = pool->arrays[middle];
    if ((uintptr_t)object_at(pool, array, array->capacity) <= (uintptr_t)address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Returns the array and the position of an object. NULL: it is no object of the pool. */
static inline object_array_t *array_of(const object_pool_t *pool, const void *object, size_t *position)
{
  uint32_t k = HAS_GROWTH && pool->array_count > 1 ? array_behind(pool, object) : 0;
  if (unlikely(k >= pool->array_count))
    return NULL;
  object_array_t *array = pool->arrays[k];
  *position = object_position(pool, array, object);
  return likely(*position < array->capacity) ? array : NULL;
}

/* O3: returns the oldest array that has a free object, or NULL. Called when `current` is full. */
OWN_COPY COLD object_array_t *array_with_room(const object_pool_t *pool)
{
  object_array_t *oldest = NULL;
  for (uint32_t k = 0; k < pool->array_count; k++) {
    object_array_t *array = pool->arrays[k];
    if (array->taken < array->capacity && (!oldest || array->age < oldest->age))
      oldest = array;
  }
  return oldest;
}

static inline void store_bit(word_t *map, size_t i, bool set)
{
  word_t word = LOAD(map[i / WORD_BITS]);
  STORE(map[i / WORD_BITS], set ? word | bit_of(i) : word & ~bit_of(i));
}

static inline void set_busy(object_pool_t *pool, object_array_t *array, size_t i, bool busy)
{
  store_bit(array->busy, i, busy);
  ADD(pool->busy, busy ? 1 : -(size_t)1);
}

/* Lets threads use the pool's caches unless one of the reasons against it holds (cache.h). */
static inline void resume_caches(object_pool_t *pool)
{
  if (HAS_CACHES && !has_unused(pool) && !pool->gets_without_cache && !pool->claimed)
    __atomic_store_n(&pool->slot, pool->own_slot, __ATOMIC_RELEASE);
}

static inline void array_become_used(object_pool_t *pool, object_array_t *array)
{
  array->unused = false;
  STORE(pool->unused_count, pool->unused_count - 1);
  resume_caches(pool);
}

/* Return the bytes of an array: of objects and record, and of the record alone for a pool that does not exist yet. */
size_t array_bytes(const object_pool_t *pool, size_t capacity);
size_t array_record_bytes(bool hooked, bool single_thread, unsigned when_full, size_t capacity);

/* Creates an array from the own memory of the current attempt's heap. NULL: it has not enough. */
object_array_t *array_create(object_pool_t *pool, const attempt_t *from, size_t capacity);

/* `with_heap`: the heap of the pool ends, and its own blocks with it. Those that its overflow served are freed. */
void array_destroy(const object_pool_t *pool, object_array_t *array, const char *call, bool with_heap);
static inline void pool_give_block(const object_pool_t *pool, void *block, const char *call, bool with_heap)
{
  if (with_heap)
    heap_give_overflowed(pool->heap, block, call);
  else
    heap_free(pool->heap, block, ORIGIN(call));
}

/* Returns the longest range of indices that no array has: the most objects of a new array. Called under the lock. */
size_t array_free_indices(const object_pool_t *pool);

/* Enters the array into the pool. False: the pool has the most arrays or indices. */
bool array_enter(object_pool_t *pool, object_array_t *array);

/* Takes an array out of the pool. None of its objects is taken. */
void array_leave(object_pool_t *pool, object_array_t *array);

/* ---- free objects are taken and returned ----
 *
 * In an array that is done by bits, for the hot object by two bits of a word in the pool. The hot object counts as taken in its
 * array, free or live, until it cools. The pool's lock is held. The hot object of a single-threaded pool needs no lock. */

/* The state of the hot object: one bit allows the next get, another the next put. The number of its puts is above them.
 *
 *     | puts | HOT_LIVE | HOT_FREE | 0000 |        its uses are its puts, and one more while it is live
 *
 * Adding HOT_GET turns the free bit into the live one. Adding HOT_PUT turns it back and carries into the count. If there is no
 * hot object, both bits are clear, so no get or put matches. No address could stand for "none": a program might put it. Both
 * bits are also clear in zeroed memory and in the fill of checked heaps and pools (0x1deadb0b, 0xcd). */
enum { HOT_FREE = 1 << 4, HOT_LIVE = 1 << 5, HOT_GET = HOT_LIVE - HOT_FREE, HOT_PUT = HOT_LIVE + HOT_FREE, HOT_PUTS_SHIFT = 6 };

static inline uint64_t hot_state(const hot_t *hot) { return __atomic_load_n(&hot->state, __ATOMIC_RELAXED); }
static inline bool hot_is_free(const hot_t *hot) { return HAS_HOT_OBJECTS && hot_state(hot) & HOT_FREE; }
static inline bool hot_is_live(const hot_t *hot) { return HAS_HOT_OBJECTS && hot_state(hot) & HOT_LIVE; }
static inline uint32_t hot_uses(const hot_t *hot) { return (uint32_t)(hot_state(hot) >> HOT_PUTS_SHIFT) + hot_is_live(hot); }

/* Two instructions on the word in memory, where gcc would emit a load and a store more. Other threads read the word for
 * figures, so it is stored at once. Sanitizers see the other form. */
#if defined __x86_64__ && defined __GCC_ASM_FLAG_OUTPUTS__ && !defined UNDER_SANITIZER
#define HOT_HAS(hot, bit) \
  (__extension__({ \
    bool has_; \
    __asm__("testb %2, %1" : "=@ccnz"(has_), "+m"((hot)->state) : "i"(bit)); \
    has_; \
  }))
#define HOT_MOVE(hot, by) __asm__("addq %1, %0" : "+m"((hot)->state) : "i"(by) : "cc")
#else
#define HOT_HAS(hot, bit) ((LOAD((hot)->state) & (bit)) != 0)
#define HOT_MOVE(hot, by) STORE((hot)->state, (hot)->state + (by))
#endif

/* Called for an object whose free bit is clear. */
static inline bool is_in_cache(const object_array_t *array, size_t i) { return has_laps(array) && !is_in_use(array->uses + i); }

/* Returns the free objects in caches of threads, without a lock. The figure is exact while no thread gets or puts. */
size_t caches_count(const object_pool_t *pool);

static inline bool is_hot(const object_pool_t *pool, const void *object)
{
  return HAS_HOT_OBJECTS && object == pool->hot->object;
}

static inline bool is_live(const object_pool_t *pool, const object_array_t *array, size_t i)
{
  if (bit_tree_test(&array->free, i) || (busy_of(array) && bit_test(busy_of(array), i)) || is_in_cache(array, i))
    return false;
  return !is_hot(pool, object_at(pool, array, i)) || hot_is_live(pool->hot);
}

/* Returns word `w` of the live objects. Those that are hot or in caches are in it, live or not. */
static inline word_t live_word(const object_array_t *array, size_t w)
{
  word_t not_live = bit_tree_word(&array->free, w) | (array->busy ? LOAD(array->busy[w]) : 0);
  return ~not_live & bits_of_word(array->capacity, w);
}

/* Returns the hot object to its array. */
COLD void hot_cool(object_pool_t *pool);

/* Called when the array has no taken object. The hot object cools, because its get does not look at the clock. */
COLD void hot_array_to_unused(object_pool_t *pool, object_array_t *array);

/* Sets the bit of an object. Returns true if its array has no taken object left. */
static inline bool put_bit(object_pool_t *pool, object_array_t *array, size_t i)
{
  STORE(pool->walked_bytes, 0);
  bit_tree_set(&array->free, i);
  ADD(pool->taken, -(size_t)1);
  if (unlikely(!pool->current || array->age < pool->current->age))
    pool->current = array;
  return unlikely(--array->taken == 0);
}

static inline void object_to_free(object_pool_t *pool, object_array_t *array, size_t i)
{
  if (put_bit(pool, array, i))
    hot_array_to_unused(pool, array);
}

/* Returns the oldest array that has a free object, so that newer ones become unused and can leave. NULL: no object is free. */
static inline object_array_t *array_to_take_from(object_pool_t *pool)
{
  object_array_t *array = pool->current;
  if (unlikely(!array || array->taken == array->capacity))
    array = pool->current = array_with_room(pool);
  return array;
}

/* Takes free objects of one word. */
static inline void take_bits(object_pool_t *pool, object_array_t *array, size_t w, word_t bits, size_t count)
{
  bit_tree_clear_bits(&array->free, w, bits);
  ADD(pool->taken, count);
  array->taken += (uint32_t)count;
  if (unlikely(is_unused(array)))
    array_become_used(pool, array);
}

/* Takes the lowest free object of that array. Its use is not counted yet. */
static ALWAYS_INLINE object_array_t *take_object(object_pool_t *pool, size_t *position)
{
  object_array_t *array = array_to_take_from(pool);
  if (unlikely(!array))
    return NULL;
  size_t i = *position = bit_tree_lowest(&array->free);
  take_bits(pool, array, i / WORD_BITS, bit_of(i), 1);
  return array;
}

static inline void hot_begin(hot_t *hot, const object_array_t *array, size_t i, void *object)
{
  hot->position = (uint32_t)i;
  STORE(hot->state, (uint64_t)array->uses[i] << HOT_PUTS_SHIFT | HOT_FREE);
  STORE(hot->object, object);
}

/* Makes an object hot in place of one that is live and in the same array. The next user writes to the object. Stores complete
 * in order, so one to a distant line delays the next. The prefetch saves a sixth of a put and get beyond the L1 cache. */
static inline void hot_replace(hot_t *hot, const object_array_t *array, size_t i, void *object)
{
  __builtin_prefetch(object, 1);
  array->uses[hot->position] = (uint32_t)(hot_state(hot) >> HOT_PUTS_SHIFT) + 1;
  hot_begin(hot, array, i, object);
}

/* Makes an object of any array the hot one, whether there was one before or not. */
static inline void warm(object_pool_t *pool, object_array_t *array, size_t i)
{
  hot_t *hot = pool->hot;
  if (hot->object)
    hot->array->uses[hot->position] = hot_uses(hot);
  hot->array = array;
  hot_begin(hot, array, i, object_at(pool, array, i));
}

/* Acquires the lock of a pool without reading it first, which would fetch the line twice from another processor. */
static inline void pool_acquire(object_pool_t *pool)
{
  if (pool->single_thread)
    return;
  if (os_single_threaded())
    lock_acquire(&pool->lock);
  else if (!lock_try(&pool->lock))
    lock_wait(&pool->lock);
}
static inline void pool_release(object_pool_t *pool)
{
  if (!pool->single_thread)
    lock_release(&pool->lock);
}

/* Takes the lock, because a thread that ends moves its cached objects to the array under it. The figure is exact while no
 * thread gets or puts, and close otherwise. It is never negative. */
static inline size_t live_count(const object_pool_t *pool)
{
  pool_acquire(asked(pool));
  size_t taken = LOAD(pool->taken),
         not_live = LOAD(pool->busy) + hot_is_free(pool->hot) + (home_of(pool) ? caches_count(pool) : 0);
  pool_release(asked(pool));
  return taken > not_live ? taken - not_live : 0;
}

static inline void count_gets_without_cache(object_pool_t *pool, size_t gets)
{
  if (!HAS_CACHES || likely(!pool->gets_without_cache))
    return;
  pool->gets_without_cache -= (uint32_t)min_size(gets, pool->gets_without_cache);
  resume_caches(pool);
}

/* Takes an object from a pool without hooks, the hot one if it is free. NULL: no object is free. */
static ALWAYS_INLINE void *take_plain(object_pool_t *pool)
{
  hot_t *hot = pool->hot;
  if (HAS_HOT_OBJECTS && hot->state & HOT_FREE) {
    STORE(hot->state, hot->state + HOT_GET);
    return hot->object;
  }
  size_t i;
  object_array_t *array = take_object(pool, &i);
  if (unlikely(!array))
    return NULL;
  count_get(array, i);
  count_gets_without_cache(pool, 1);
  return object_at(pool, array, i);
}

/* Returns whether an object that is put may become the hot one. The last taken object of an array that may leave must not: as
 * the hot object it counts as taken, so the array would never be unused. The hot objects of a pool with caches are in these. */
static inline bool may_be_hot(const object_pool_t *pool, const object_array_t *array)
{
  return HAS_HOT_OBJECTS && !hot_is_free(pool->hot) && !has_unused(pool) && (array->permanent || array->taken > 1) &&
         !home_of(pool);
}

/* Puts an object into a pool without hooks; false if it is not live there. */
static ALWAYS_INLINE bool give_plain(object_pool_t *pool, void *object)
{
  size_t i;
  hot_t *hot = pool->hot;
  if (is_hot(pool, object)) {
    if (!(hot->state & HOT_LIVE))
      return false;
    STORE(hot->state, hot->state + HOT_PUT);
    return true;
  }
  object_array_t *array = array_of(pool, object, &i);
  if (unlikely(!array || bit_tree_test(&array->free, i) || (has_laps(array) && !end_use_locked(array, i))))
    return false;
  if (may_be_hot(pool, array)) {
    warm(pool, array, i);
    return true;
  }
  object_to_free(pool, array, i);
  if (unlikely(HAS_HOT_OBJECTS && array->taken == 1 && !array->permanent && hot->object && hot->array == array))
    hot_cool(pool);
  return true;
}

static ALWAYS_INLINE bool give_locked(object_pool_t *pool, void *object)
{
  pool_acquire(pool);
  bool done = give_plain(pool, object);
  pool_release(pool);
  return done;
}

/* Frees all live objects of an array by words. Busy ones are freed by their hooks. The hot object has cooled. */
void array_put_all(object_pool_t *pool, object_array_t *array);

/* Returns a free object of a checked pool that was written to after its put, or NULL. Call it under the pool's lock, or where
 * no other thread uses the pool. */
const void *array_find_written(const object_pool_t *pool);

#endif
