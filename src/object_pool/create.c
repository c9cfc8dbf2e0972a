/* SPDX-License-Identifier: MIT
 *
 * A pool is created from its options, and destroyed. Options are verified before memory is taken. A pool that is being
 * destroyed stays in the list until its hooks have run, because each of them may leave by longjmp(). */
#include "base/text.h"
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include "object_pool/operations.h"
#include "option.h"
#include "os/lock.h"

enum { FLAGS_KNOWN = OBJECT_POOL_SINGLE_THREAD | OBJECT_POOL_CHECKED };

/* By default, small objects are aligned to the largest power of two that divides their size, so none is padded. */
static size_t alignment_of(const object_pool_options_t *o)
{
  if (o->alignment)
    return o->alignment;
  return o->object_size < NATURAL_ALIGNMENT ? o->object_size & -o->object_size : NATURAL_ALIGNMENT;
}

/* Returns whether the chain has no cycle and no pool that has ended or is ending. Brent's turtle stays at powers of two. */
static bool chain_ends(const object_pool_t *pool)
{
  const object_pool_t *turtle = pool;
  for (size_t steps = 1, next_stay = 2; pool; steps++) {
    if (pool->mark != OBJECT_POOL_MARK || pool->ending)
      return false;
    pool = overflow_of(pool);
    if (pool && pool == turtle)
      return false;
    if (steps == next_stay) {
      turtle = pool;
      next_stay *= 2;
    }
  }
  return true;
}

/* A pool for several threads must not lead them to a pool or heap without a lock. */
static bool is_for_one_thread(const object_pool_options_t *o) { return o->flags & OBJECT_POOL_SINGLE_THREAD; }

/* Objects of the other pool stand in for this one's: same size, same alignment or more, and room for the indices of all. */
static bool overflow_is_valid(const object_pool_options_t *o)
{
  const object_pool_t *to = o->overflow;
  if (!to)
    return invalid(INVALID_NO_OVERFLOW);
  if (!chain_ends(to))
    return invalid(INVALID_OVERFLOW_CHAIN);
  if (to->object_size != o->object_size)
    return invalid(INVALID_OVERFLOW_SIZE, to->object_size, o->object_size);
  if (to->alignment < alignment_of(o))
    return invalid(INVALID_OVERFLOW_ALIGNMENT, to->alignment, alignment_of(o));
  if (to->single_thread && !is_for_one_thread(o))
    return invalid(INVALID_OVERFLOW_OF_ONE_THREAD, o->flags);
  return handles_stand_behind(o->overflow, o->capacity, false) || invalid(INVALID_OVERFLOW_INDICES, o->capacity);
}

/* A thread that gets may take memory from the heap and its overflow heaps, so it must be allowed to call them. */
static bool heap_is_valid_to_grow(const object_pool_options_t *o)
{
  const heap_t *heap = o->heap;
  while (heap && !heap->lock.solo)
    heap = heap_overflow(heap);
  return !heap || is_for_one_thread(o) || invalid(INVALID_HEAP_OF_ONE_THREAD, o->flags);
}

static size_t stride_of(const object_pool_options_t *o) { return round_up(o->object_size + watch_zone(), alignment_of(o)); }

/* Sizes are verified before a multiplication: an index has 32 bits, and all objects fit into half the address space. */
static bool sizes_are_valid(const object_pool_options_t *o)
{
  if (!o->object_size)
    return invalid(INVALID_OBJECT_SIZE_IS_0);
  if (o->object_size > PTRDIFF_MAX - watch_zone())
    return invalid(INVALID_OBJECT_SIZE, o->object_size);
  if (o->alignment && !is_power_of_two(o->alignment))
    return invalid(INVALID_ALIGNMENT, o->alignment);
  if (o->alignment > PTRDIFF_MAX / 2)
    return invalid(INVALID_ALIGNMENT_IS_LARGE, o->alignment, PTRDIFF_MAX / 2);
  size_t stride = stride_of(o), most = min_size(UINT32_MAX - 1, PTRDIFF_MAX / stride);
  if (stride > PTRDIFF_MAX)
    return invalid(INVALID_OBJECT_SIZE, o->object_size);
  return o->capacity <= most || invalid(INVALID_CAPACITY, o->capacity, most, stride);
}

static bool has_capacity(const object_pool_options_t *o) { return o->capacity || invalid(INVALID_CAPACITY_IS_0); }

static bool policy_is_valid(const object_pool_options_t *o)
{
  switch (o->when_full) {
  case OBJECT_POOL_GROW:
    if (!HAS_GROWTH)
      return invalid(INVALID_LEFT_OUT, (uintptr_t) "growth");
    if (o->max_capacity && o->max_capacity < o->capacity)
      return invalid(INVALID_MAX_CAPACITY, o->max_capacity, o->capacity);
    return heap_is_valid_to_grow(o);
  case OBJECT_POOL_EVICT:
    if (!HAS_EVICTION)
      return invalid(INVALID_LEFT_OUT, (uintptr_t) "eviction");
    return has_capacity(o) && (o->choose_victim || invalid(o->overflow ? INVALID_OVERFLOW_IS_UNUSED : INVALID_NO_VICTIM));
  case OBJECT_POOL_OVERFLOW:
    if (!HAS_OVERFLOW)
      return invalid(INVALID_LEFT_OUT, (uintptr_t) "overflow");
    return has_capacity(o) && overflow_is_valid(o);
  case OBJECT_POOL_FAIL:
    return has_capacity(o);
  default:
    return invalid(INVALID_WHEN_FULL, o->when_full);
  }
}

/* Unknown options are refused, so that a later version may give them a meaning. */
static bool object_options_are_valid(const object_pool_options_t *o)
{
  unsigned unknown = o->flags & ~(unsigned)FLAGS_KNOWN;
  if (!sizes_are_valid(o))
    return false;
  if (unknown)
    return invalid(INVALID_FLAGS, o->flags, unknown);
  if (!HAS_CHECKS && o->flags & OBJECT_POOL_CHECKED)
    return invalid(INVALID_LEFT_OUT, (uintptr_t) "checks");
  if (!HAS_HOOKS && (o->construct || o->reset || o->destruct))
    return invalid(INVALID_LEFT_OUT, (uintptr_t) "hooks");
  if (o->reset_time != OBJECT_POOL_RESET_ON_GET && o->reset_time != OBJECT_POOL_RESET_ON_PUT)
    return invalid(INVALID_RESET_TIME, o->reset_time);
  return policy_is_valid(o);
}

/* Newton's iteration: an odd number is its own inverse modulo 8, and each step doubles the number of correct bits. */
static uintptr_t inverse_of_odd(uintptr_t odd)
{
  uintptr_t inverse = odd;
  for (int bits = 3; bits < ADDRESS_BITS; bits *= 2)
    inverse *= 2 - odd * inverse;
  return inverse;
}

static bool wants_checks(const object_pool_options_t *o) { return o->flags & OBJECT_POOL_CHECKED || settings.all; }

/* A checked or watched pool counts as hooked even without hooks, because every get and put must see the object. */
static bool wants_hooks(const object_pool_options_t *o)
{
  return (HAS_HOOKS || HAS_CHECKS) && (wants_checks(o) || o->construct || o->reset || o->destruct || objects_are_watched());
}

/* Sets every field but is_outside, because the record may have been another pool's. */
static void pool_set_up(object_pool_t *pool, heap_t *heap, const object_pool_options_t *o)
{
  static uint32_t last_number;
  *pool = (object_pool_t){.is_outside = pool->is_outside,
                          .checked = wants_checks(o),
                          .checked_unasked = wants_checks(o) && !(o->flags & OBJECT_POOL_CHECKED),
                          .watched = objects_are_watched(),
                          .single_thread = o->flags & OBJECT_POOL_SINGLE_THREAD,
                          .resets_on_put = o->reset_time == OBJECT_POOL_RESET_ON_PUT,
                          .when_full = (uint8_t)o->when_full,
                          .max_capacity = o->max_capacity,
                          .purge_delay_ms = heap_purge_delay_ms(heap),
                          .object_size = o->object_size,
                          .alignment = alignment_of(o),
                          .stride = stride_of(o),
                          .construct = o->construct,
                          .reset = o->reset,
                          .destruct = o->destruct,
                          .choose_victim = o->choose_victim,
                          .context = o->context,
                          .overflow = o->when_full == OBJECT_POOL_OVERFLOW ? o->overflow : NULL,
                          .heap = heap,
                          .mark = OBJECT_POOL_MARK};
  pool->hot = pool->single_thread ? &pool->hot_single : &pool->hot_shared;
  pool->lock.solo = pool->growth.solo = pool->single_thread;
  pool->hooked = wants_hooks(o);
  pool->path = is_hooked(pool) ? PATH_HOOKED : pool->single_thread ? PATH_SINGLE : PATH_SHARED;
  pool->shift = lowest_of_size(pool->stride);
  pool->inverse = inverse_of_odd(pool->stride >> pool->shift);
  text_name(pool->name, sizeof pool->name, o->name, "object-pool-", &last_number);
}

/* Creates a pool from the own memory of the attempt's heap, completely or not at all. A pool that grows may begin without an
 * array. The first array stays as long as the pool. */
static object_pool_t *create_from(const attempt_t *from, const object_pool_options_t *o)
{
  object_pool_t *pool = registry_take_record(from);
  if (!pool)
    return NULL;
  pool_set_up(pool, from->first, o);
  if (is_watched(pool))
    os_tool_begin_blocks(pool, !pool->is_outside);
  object_array_t *array = o->capacity ? array_create(pool, from, o->capacity) : NULL;
  if (array) {
    array->permanent = true;
    pool->current = array;
    array_enter(pool, array);
  } else if (o->capacity) {
    registry_end(pool, "object_pool_create", false);
    return NULL;
  }
  return pool;
}

static size_t bytes_of_options(const object_pool_options_t *o)
{
  size_t objects = round_up(o->capacity * stride_of(o), NATURAL_ALIGNMENT);
  return sizeof(object_pool_t) + objects + array_record_bytes(wants_hooks(o), is_for_one_thread(o), o->when_full, o->capacity);
}

/* Creates a pool completely or not at all, also for a fork. *refused: the chain has grown, and lacks room for the indices. */
static object_pool_t *create_whole(const attempt_t *from, const object_pool_options_t *o, bool *refused)
{
  INSIDE_GATE(GATE_LIFE);
  object_pool_t *pool = create_from(from, o);
  if (pool)
    registry_enter(pool); /* before the indices: a recount leaves them only to pools in the list */
  *refused = pool && !handles_stand_behind(overflow_of(pool), o->capacity, true);
  if (!*refused)
    return pool;
  registry_leave(pool);
  registry_end(pool, "object_pool_create", false);
  return NULL;
}

/* The heap may call the program between two attempts, when nothing of the pool exists. Success restores errno. */
static object_pool_t *create_from_options(const object_pool_options_t *options, const void *caller)
{
  heap_t *heap = options->heap;
  heap = heap ? heap : heaps_first();
  if (!heap)
    return invalid(INVALID_HEAP_IS_NULL, (uintptr_t) "object_pool_create");
  if (!heap_is_live(heap))
    fatal_misuse("object_pool_create", heap, NOT_A_HEAP_TEXT);
  if (!object_options_are_valid(options))
    return NULL;
  if (!heap_is_ready(heap))
    return full();
  int error = errno;
  attempt_t from = heap_first_attempt(heap, ORIGIN_AT("object_pool_create", caller));
  from.together = watch_keeps_arrays();
  object_pool_t *pool;
  bool refused;
  while (!(pool = create_whole(&from, options, &refused)) && !refused &&
         heap_next_attempt(&from, bytes_of_options(options), true)) {}
  if (refused)
    return invalid(INVALID_OVERFLOW_INDICES, options->capacity);
  if (!pool)
    return heap_exhausted(heap, from.by.call, bytes_of_options(options));
  pool->created_by = caller;
  errno = error;
  return pool;
}

/* The size of the options in the first version. */
enum { POOL_OPTIONS_LEAST = offsetof(object_pool_options_t, flags) + sizeof(unsigned) };

object_pool_t *object_pool_create_sized(const object_pool_options_t *options, size_t size)
{
  object_pool_options_t own;
  if (!options)
    return invalid(INVALID_OPTIONS_ARE_NULL, (uintptr_t) "object_pool_create");
  if (size < POOL_OPTIONS_LEAST)
    return invalid(INVALID_OPTIONS_ARE_CUT, size, POOL_OPTIONS_LEAST, (uintptr_t) "object_pool_options_t");
  if (!grown_take(&own, sizeof own, options, size))
    return invalid(INVALID_OPTIONS_ARE_NEWER, sizeof own, size, (uintptr_t) "object_pool_options_t");
  return create_from_options(&own, __builtin_return_address(0));
}

/* Destructs the objects of a pool that is being destroyed. Live ones can no longer be put, and count as busy. If an object is
 * busy already, its hook never returned and its state is unknown. So no other hook runs on it unless it was constructed. */
static void end_objects(object_pool_t *pool, object_array_t *array, const char *call)
{
  for (size_t i = 0; i < array->capacity; i++) {
    bool busy = bit_test(array->busy, i), made = bit_test(array->made, i);
    if (!bit_tree_test(&array->free, i) && !busy)
      ADD(pool->busy, 1);
    store_bit(array->busy, i, true);
    bit_clear(array->made, i);
    STORE(pool->walked_bytes, 0); /* the previous hook may have walked */
    if (made || (is_checked(pool) && !busy))
      hooks_end(pool, array, i, made, call);
  }
}

/* Returns whether a hook left an earlier call of this thread, made at this depth of the stack or deeper. */
static bool was_left(const object_pool_t *pool, uintptr_t here)
{
  return pool->ender == (const void *)&object_thread && here >= pool->ender_frame;
}

/* The pool stays in the list until its hooks have run. If one leaves by longjmp(), the next call of this function continues
 * behind that hook's object. Otherwise the heap's end drops the rest. */
void object_pool_destroy(object_pool_t *pool)
{
  if (!pool)
    return;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (pool->mark != OBJECT_POOL_MARK || (pool->ending && !was_left(pool, here)))
    misuse_no_live_pool(pool, "object_pool_destroy");
  if (unlikely(settings.leaks & LEAKS_AT_DESTROY) && !pool->ending)
    observer->destroy_pool(pool->name, pool->object_size, live_count(pool), pool->created_by);
  pool->ender = (const void *)&object_thread;
  pool->ender_frame = here;
  hot_cool(pool);
  pool->ending = true;
  STORE(pool->walked_bytes, 0);
  for (uint32_t k = 0; has_work_on_end(pool) && k < pool->array_count; k++)
    end_objects(pool, pool->arrays[k], "object_pool_destroy");
  INSIDE_GATE(GATE_LIFE);
  registry_leave(pool);
  registry_end(pool, "object_pool_destroy", false);
}
