/* SPDX-License-Identifier: MIT
 *
 * Arrays are created with no lock of the pool held, and entered under the lock. No two of a pool share handle indices. */
#include "object_pool/array.h"
#include "base/fill.h"
#include "heap/heap.h"
#include "option.h"
#include <string.h>

/* The first quarter of the 32-bit indices. The rest is left for pools that later overflow to this one. */
enum { INDICES_OF_A_LAP = 1 << 30 };

static bool may_have_laps(bool hooked, bool single_thread, unsigned when_full)
{
  return HAS_CACHES && !hooked && !single_thread && when_full != OBJECT_POOL_EVICT;
}

size_t array_record_bytes(bool hooked, bool single_thread, unsigned when_full, size_t capacity)
{
  size_t maps = (hooked ? 2 : may_have_laps(hooked, single_thread, when_full)) +
                (HAS_EVICTION && when_full == OBJECT_POOL_EVICT ? BATCH_MAPS : 0);
  size_t words = bit_tree_words(capacity) + maps * bits_words(capacity);
  size_t uses_apart = may_have_laps(hooked, single_thread, when_full) ? USES_TOGETHER - sizeof(word_t) : 0;
  return sizeof(object_array_t) + words * sizeof(word_t) + uses_apart + capacity * sizeof(uint32_t);
}

static size_t record_bytes(const object_pool_t *pool, size_t capacity)
{
  return array_record_bytes(is_hooked(pool), pool->single_thread, pool->when_full, capacity);
}

static size_t objects_bytes(const object_pool_t *pool, size_t capacity)
{
  return round_up(capacity * pool->stride, NATURAL_ALIGNMENT);
}

size_t array_bytes(const object_pool_t *pool, size_t capacity)
{
  return objects_bytes(pool, capacity) + record_bytes(pool, capacity);
}

static void array_lay_out(const object_pool_t *pool, object_array_t *array, size_t capacity)
{
  word_t *at = bit_tree_init(&array->free, (word_t *)(array + 1), capacity);
  array->capacity = (uint32_t)capacity;
  if (may_have_laps(is_hooked(pool), pool->single_thread, pool->when_full)) {
    array->laps = at;
    at += bits_words(capacity);
  }
  if (is_hooked(pool)) {
    array->busy = at;
    array->made = at + bits_words(capacity);
    at += 2 * bits_words(capacity);
  }
  if (may_evict(pool)) {
    array->in_batch = at;
    at += BATCH_MAPS * bits_words(capacity);
  }
  array->uses = (uint32_t *)(array->laps ? round_up((uintptr_t)at, USES_TOGETHER) : (uintptr_t)at);
}

/* The watched bytes of an array begin behind a record in front, or with its own block. */
static void tell_tool(const object_pool_t *pool, const object_array_t *array, void (*tell)(const void *start, size_t size))
{
  const char *from = array->is_outside ? array->objects : array->objects - watch_zone();
  tell(from, (size_t)(array->objects - from) + array->capacity * pool->stride);
}

/* Every user has passed its order to the thread that ends the array (hooks.c). */
void array_destroy(const object_pool_t *pool, object_array_t *array, const char *call, bool with_heap)
{
  if (is_watched(pool)) {
    os_tool_meet_order(array);
    os_tool_meet_order(pool);
    tell_tool(pool, array, os_tool_open);
  }
  bool apart = heap_has_records_outside(pool->heap) && array->is_outside; /* firmware has no code for them */
  void *block = apart ? array->objects : (char *)array;
  if (apart)
    heap_give_record(pool->heap, array, array->record_bytes);
  pool_give_block(pool, block, call, with_heap);
}

/* Tells the tool that a block of this heap is an array. */
static void watch_array_block(const heap_t *heap, const void *block)
{
  if (heap_is_marked(heap))
    os_tool_leave_block(heap, block);
}

/* Takes the record outside of the heap's blocks, in memory that is already zero, so counts of unused objects take no page. The
 * record shares a block with the objects if the heap cannot have records outside of its blocks, or its budget has no room for
 * them. Only the record is zeroed then: users of the objects touch them first. */
static object_array_t *take_memory(object_pool_t *pool, const attempt_t *from, size_t bytes, size_t records)
{
  size_t alignment = max_size(pool->alignment, NATURAL_ALIGNMENT), front = round_up(records + watch_zone(), alignment);
  object_array_t *array = NULL;
  char *objects = NULL;
  if (heap_has_records_outside(pool->heap) && !watch_keeps_records()) {
    objects = heap_probe(from, bytes, alignment);
    if (!objects)
      return NULL;
    watch_array_block(from->heap, objects);
    array = heap_take_record_outside(pool->heap, records);
    if (array)
      array->is_outside = true;
    else
      heap_free(pool->heap, objects, from->by);
  }
  if (!array) {
    char *block = heap_probe(from, front + bytes, alignment);
    if (!block)
      return NULL;
    watch_array_block(from->heap, block);
    array = memset(block, 0, front);
    objects = block + front;
  }
  array->objects = objects;
  return array;
}

/* Every free object of a checked pool is full of dead bytes, including new ones. */
object_array_t *array_create(object_pool_t *pool, const attempt_t *from, size_t capacity)
{
  size_t bytes = objects_bytes(pool, capacity), records = record_bytes(pool, capacity);
  object_array_t *array = take_memory(pool, from, bytes, records);
  if (!array)
    return NULL;
  array->record_bytes = records;
  array->bytes = bytes + records;
  array_lay_out(pool, array, capacity);
  for (size_t i = 0; is_checked(pool) && i < capacity; i++)
    dead_fill(object_at(pool, array, i), pool->object_size);
  if (is_watched(pool)) {
    os_tool_leave_order(array);
    tell_tool(pool, array, os_tool_close);
  }
  return array;
}

/* O6: returns the lowest free range of indices at or above `at` that ends at `end` or before. UINT32_MAX: there is none. Arrays
 * are in order of address, not of index, so the search starts over after each array in the way. */
static uint32_t free_index(const object_pool_t *pool, uint64_t at, uint32_t capacity, uint64_t end)
{
  for (uint32_t k = 0; k < pool->array_count;) {
    const object_array_t *array = pool->arrays[k++];
    if (at < (uint64_t)array->first_index + array->capacity && array->first_index < at + capacity) {
      at = (uint64_t)array->first_index + array->capacity;
      k = 0;
    }
  }
  return at + capacity <= end ? (uint32_t)at : UINT32_MAX;
}

/* A free range begins at 0 or behind an array. */
size_t array_free_indices(const object_pool_t *pool)
{
  uint64_t end = UINT32_MAX - pool->indices_before, longest = 0;
  for (uint32_t k = 0; k <= pool->array_count; k++) {
    uint64_t at = k ? (uint64_t)pool->arrays[k - 1]->first_index + pool->arrays[k - 1]->capacity : 0, next = end;
    for (uint32_t j = 0; j < pool->array_count; j++)
      if (pool->arrays[j]->first_index >= at && pool->arrays[j]->first_index < next)
        next = pool->arrays[j]->first_index;
    longest = next > at && next - at > longest ? next - at : longest;
  }
  return longest;
}

/* Indices are reused only after a quarter of all are used up, so the handles of a destroyed array stay invalid for long. */
static uint32_t new_index(const object_pool_t *pool, uint32_t capacity)
{
  uint64_t end = UINT32_MAX - pool->indices_before;
  uint32_t index = free_index(pool, pool->next_index, capacity, min_size(end, INDICES_OF_A_LAP));
  return index != UINT32_MAX ? index : free_index(pool, 0, capacity, end);
}

/* Arrays are in order of address for a binary search. Walks omit the lock if `only` is set, so that array must stay. */
bool array_enter(object_pool_t *pool, object_array_t *array)
{
  uint32_t k = pool->array_count;
  array->first_index = HAS_GROWTH ? new_index(pool, array->capacity) : 0;
  if (!array->permanent)
    array->laps = NULL;
  if (k == OBJECT_ARRAYS || array->first_index == UINT32_MAX)
    return false;
  for (; k > 0 && pool->arrays[k - 1]->objects > array->objects; k--)
    STORE(pool->arrays[k], pool->arrays[k - 1]);
  pool->arrays[k] = array;
  STORE(pool->array_count, pool->array_count + 1);
  ADD(pool->capacity, array->capacity);
  ADD(pool->held_bytes, array->bytes);
  array->age = pool->arrays_made++;
  array->first_generation = pool->next_generation;
  pool->next_index = array->first_index + array->capacity;
  /* The only array of a pool that grows may leave during another thread's walk, so such a walk takes the lock. */
  STORE(pool->only, pool->array_count == 1 && (pool->single_thread || !may_grow(pool)) ? array : NULL);
  return true;
}

static uint32_t most_uses(const object_array_t *array)
{
  uint32_t most = 0;
  for (size_t i = 0; i < array->capacity; i++)
    most = gets_of(array, i) > most ? gets_of(array, i) : most;
  return most;
}

/* The generations of later arrays begin beyond every use of this one, so its handles resolve to nothing. */
void array_leave(object_pool_t *pool, object_array_t *array)
{
  uint32_t k = array_behind(pool, array->objects);
  STORE(pool->walked_bytes, 0);
  if (is_unused(array))
    array_become_used(pool, array);
  ADD(pool->capacity, -(size_t)array->capacity);
  ADD(pool->held_bytes, -array->bytes);
  STORE(pool->array_count, pool->array_count - 1);
  for (; k < pool->array_count; k++)
    STORE(pool->arrays[k], pool->arrays[k + 1]); /* a loop that does not become memmove() (base/fill.h) */
  if (pool->current == array)
    pool->current = array_with_room(pool);
  uint64_t next = array->first_generation + most_uses(array);
  if (next > pool->next_generation)
    pool->next_generation = next;
  STORE(pool->only, pool->array_count == 1 && pool->single_thread ? pool->arrays[0] : NULL);
}

/* ---- arrays become unused ---- */

/* Notes when the array became unused. Returns false if it never leaves the pool. */
static bool become_unused(object_pool_t *pool, object_array_t *array)
{
  if (!HAS_GROWTH || array->permanent || pool->purge_delay_ms == PURGE_NEVER)
    return false;
  array->unused = true;
  array->unused_since_ms = os_now_ms();
  STORE(pool->unused_count, pool->unused_count + 1);
  STORE(pool->slot, 0);
  return true;
}

/* A free hot object counts as taken until now, so its array may become unused. */
void hot_cool(object_pool_t *pool)
{
  if (!HAS_HOT_OBJECTS)
    return;
  hot_t was = *pool->hot;
  if (!was.object)
    return;
  STORE(pool->hot->object, NULL);
  STORE(pool->hot->state, 0);
  was.array->uses[was.position] = hot_uses(&was);
  if (hot_is_free(&was) && put_bit(pool, was.array, was.position))
    become_unused(pool, was.array);
}

void hot_array_to_unused(object_pool_t *pool, object_array_t *array)
{
  if (become_unused(pool, array))
    hot_cool(pool);
}

/* Ends the use of these objects of a home array, but not of those in caches, which stay there: end_use() writes to the count of
 * such an object for a moment, which its owner may be changing. Returns the others. */
static word_t end_uses(object_array_t *array, size_t w, word_t taken)
{
  word_t live = 0;
  for (size_t i; taken; taken &= taken - 1)
    if (is_in_use(array->uses + (i = w * WORD_BITS + lowest_bit(taken))) && end_use_locked(array, i))
      live |= taken & -taken;
  return live;
}

void array_put_all(object_pool_t *pool, object_array_t *array)
{
  uint32_t before = array->taken;
  for (size_t w = 0; before && w < bits_words(array->capacity); w++) {
    word_t live = live_word(array, w);
    if (has_laps(array))
      live = end_uses(array, w, live);
    if (live)
      bit_tree_set_bits(&array->free, w, live);
    array->taken -= bits_set_in(live);
  }
  ADD(pool->taken, array->taken - (size_t)before);
  if (before && !array->taken)
    hot_array_to_unused(pool, array);
}

const void *array_find_written(const object_pool_t *pool)
{
  for (uint32_t k = 0; k < pool->array_count; k++) {
    const object_array_t *array = pool->arrays[k];
    for (size_t i = 0; i < array->capacity; i++) {
      const void *object = object_at(pool, array, i);
      if (bit_tree_test(&array->free, i) && !bit_test(array->made, i) && !is_dead(object, pool->object_size))
        return object;
    }
  }
  return NULL;
}
