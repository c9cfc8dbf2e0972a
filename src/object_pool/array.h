/* SPDX-License-Identifier: MIT
 *
 * The arrays of a pool: finding the array and the position of an object; creating, entering, leaving and destroying arrays. The
 * pool's lock is held, except while an array is created or destroyed: the heap takes its own locks for that. */
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
static inline bool has_laps(const object_array_t *array) { return HAS_SYSTEM && array->laps; }

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

static inline void set_gets(object_array_t *array, size_t i, uint32_t gets)
{
  STORE(array->uses[i], has_laps(array) ? (gets - 1) | USES_LIVE : gets);
  if (has_laps(array))
    (gets - 1) & USES_LIVE ? bit_set(array->laps, i) : bit_clear(array->laps, i);
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
  if (HAS_SYSTEM && !has_unused(pool) && !pool->gets_without_cache)
    STORE(pool->slot, pool->own_slot);
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
void array_destroy(const object_pool_t *pool, object_array_t *array, const char *call);

/* Returns the longest range of indices that no array has: the most objects of a new array. Called under the lock. */
size_t array_free_indices(const object_pool_t *pool);

/* Enters the array into the pool. False: the pool has the most arrays or indices. */
bool array_enter(object_pool_t *pool, object_array_t *array);

/* Takes an array out of the pool. None of its objects is taken. */
void array_leave(object_pool_t *pool, object_array_t *array);

#endif
