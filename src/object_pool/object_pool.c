/* SPDX-License-Identifier: MIT
 * Object pools. */
#include "object_pool/capacity.h"
#include "object_pool/handle.h"
#include "object_pool/object_misuse.h"
#include "base/text.h"
#include "space/metadata.h"
#include "misuse.h"
#include <errno.h>
#include <string.h>

enum { FLAGS_KNOWN = OBJECT_POOL_SINGLE_THREAD | OBJECT_POOL_CHECKED };

/* ---- all pools ---- */

static object_pool_t *all_pools, *newest_pool;   /* under heaps_lock, oldest first */

static void leave_all(object_pool_t *pool)
{
  *(pool->previous ? &pool->previous->next : &all_pools) = pool->next;
  *(pool->next ? &pool->next->previous : &newest_pool) = pool->previous;
  *(pool->previous_in_heap ? &pool->previous_in_heap->next_in_heap : &pool->heap->object_pools) = pool->next_in_heap;
  if (pool->next_in_heap)
    pool->next_in_heap->previous_in_heap = pool->previous_in_heap;
}

/* Leaves a record in which no fast path finds what it looks for, so that whoever still uses it comes to must_be_live(). */
static void end_record(object_pool_t *pool)
{
  pool->front.state = pool->shared.state = 0;
  pool->run_bytes = 0;
  pool->mark = pool->shared_mark = 0;
}

/* The records of pools, apart from any heap's blocks. They are used again for pools alone, so that a pointer to one that is gone leads
 * to a record that says so. */
static object_pool_t *unused_pools;   /* under heaps_lock */
static metadata_kind_t pool_records = {.size = sizeof(object_pool_t), .alignment = METADATA_ALIGNMENT};   /* with them */

static object_pool_t *record_take_in_heap(const resort_t *from)
{
  object_pool_t *pool = heap_probe(from, sizeof *pool, NATURAL_ALIGNMENT);
  if (pool)
    pool->is_apart = false;
  return pool;
}

static object_pool_t *record_take(heap_t *heap, const resort_t *from)
{
  if (!heap_has_records_apart(heap) || !heap_charge_record(heap, sizeof(object_pool_t)))
    return record_take_in_heap(from);
  lock_acquire(&heaps_lock);
  object_pool_t *pool = unused_pools;
  if (pool)
    unused_pools = pool->next;
  else
    pool = metadata_take_kind(&pool_records);
  lock_release(&heaps_lock);
  if (pool)
    pool->is_apart = true;
  else
    heap_discharge_record(heap, sizeof *pool);
  return pool;
}

/* Under heaps_lock. */
static void record_keep(heap_t *heap, object_pool_t *pool)
{
  pool->next = unused_pools;
  unused_pools = pool;
  heap_discharge_record(heap, sizeof *pool);
}

static void record_give(heap_t *heap, object_pool_t *pool, const char *call)
{
  end_record(pool);
  if (!pool->is_apart) {
    heap_free(heap, pool, call);
    return;
  }
  lock_acquire(&heaps_lock);
  record_keep(heap, pool);
  lock_release(&heaps_lock);
}

/* A block that the heap's overflow served does not end with the heap. */
static void give_overflowed(const heap_t *heap, void *block, const char *call)
{
  if (heap->overflow && heap_locate_block(heap, block, call).heap != heap)
    heap_free(NULL, block, call);
}

/* A heap that ends takes its pools along without a word. What they have apart from it, or from where it overflows to, goes back. */
static void drop_pool(heap_t *heap, object_pool_t *pool)
{
  static const char call[] = "pool_heap_destroy";
  leave_all(pool);
  end_record(pool);
  for (uint32_t k = 0; k < pool->array_count; k++) {
    object_array_t *array = pool->arrays[k];
    if (array->place != ARRAY_IN_FRONT)
      give_overflowed(heap, array->objects, call);
    if (array->place == ARRAY_APART)
      heap_give_record(heap, array, array->record_bytes);
    else
      give_overflowed(heap, array, call);
  }
  if (pool->is_apart)
    record_keep(heap, pool);
  else
    give_overflowed(heap, pool, call);
}

static void drop_pools_of(heap_t *heap)
{
  while (heap->object_pools)
    drop_pool(heap, heap->object_pools);
}

static void for_each_shared(void (*act)(lock_t *))
{
  for (object_pool_t *pool = all_pools; pool; pool = pool->next)
    if (!pool->single_thread)
      act(&pool->lock);
}

static void acquire_pools(void) { for_each_shared(lock_acquire); }
static void release_pools(void) { for_each_shared(lock_release); }

/* What a hook of a thread that is not here was half through with is as if it had never been used: no other hook may be run on it. */
static void free_if_deserted(object_pool_t *pool, object_array_t *array, size_t i)
{
  void *object = object_at(pool, array, i);
  if (is_in_own_hook(object))
    return;
  bit_clear(array->made, i);
  if (pool->checked)
    misuse_fill_dead(pool, object);
  set_busy(pool, array, i, false);
  release(pool, array, i);
}

static void free_deserted(object_pool_t *pool)
{
  for (uint32_t k = 0; k < pool->array_count && pool->busy; k++) {
    object_array_t *array = pool->arrays[k];
    for (size_t i = 0; (i = bits_next_set(array->busy, i, array->capacity)) < array->capacity; i++)
      free_if_deserted(pool, array, i);
  }
}

/* The thread that was making an array is not in this process either: in that of its fork no thread makes one. */
static void reset_pools(void)
{
  for_each_shared(lock_reset);
  for (object_pool_t *pool = all_pools; pool; pool = pool->next) {
    lock_reset(&pool->growth);
    if (!pool->single_thread && !pool->ending)
      free_deserted(pool);
  }
}

/* Of a pool that one thread uses there is no lock, and its arrays may go at any moment: nothing but its own words is looked at. */
static void figures_of(const object_pool_t *pool, object_pool_figures_t *f)
{
  *f = (object_pool_figures_t){.object_size = pool->object_size, .capacity = LOAD(pool->capacity), .live = live_count(pool),
                               .arrays = LOAD(pool->array_count), .held_bytes = sizeof *pool + LOAD(pool->held_bytes)};
  memcpy(f->name, pool->name, sizeof f->name);
  memcpy(f->heap, pool->heap->name, sizeof f->heap);
}

void object_pools_visit(object_pool_visit_fn *visit, void *context)
{
  object_pool_figures_t figures;
  lock_acquire(&heaps_lock);
  for (object_pool_t *pool = all_pools; pool; pool = pool->next) {
    figures_of(pool, &figures);
    visit(&figures, context);
  }
  lock_release(&heaps_lock);
}

static const heap_dependents_t object_pools = {drop_pools_of, object_pools_visit, acquire_pools, release_pools, reset_pools};

static void enter_all(object_pool_t *pool)
{
  lock_acquire(&heaps_lock);
  heap_dependents = &object_pools;
  pool->previous = newest_pool;
  *(newest_pool ? &newest_pool->next : &all_pools) = pool;
  newest_pool = pool;
  object_pool_t *beside = pool->next_in_heap = pool->heap->object_pools;
  pool->heap->object_pools = pool;
  if (beside)
    beside->previous_in_heap = pool;
  lock_release(&heaps_lock);
}

/* ---- create and destroy ---- */

static size_t alignment_of(const object_pool_options_t *o)
{
  if (o->alignment)
    return o->alignment;
  return o->object_size < NATURAL_ALIGNMENT ? o->object_size & -o->object_size : NATURAL_ALIGNMENT;
}

/* The chain ends, and without meeting a pool twice: Brent's turtle stays at each power of two. */
static bool chain_ends(const object_pool_t *pool)
{
  const object_pool_t *turtle = pool;
  for (size_t steps = 1, next_stay = 2; pool; steps++) {
    if (pool->mark != OBJECT_POOL_MARK || pool->ending)
      return false;
    pool = pool->overflow;
    if (pool && pool == turtle)
      return false;
    if (steps == next_stay) {
      turtle = pool;
      next_stay *= 2;
    }
  }
  return true;
}

/* All threads would come to what has no lock. */
static bool is_for_one_thread(const object_pool_options_t *o) { return o->flags & OBJECT_POOL_SINGLE_THREAD; }

static bool overflow_is_valid(const object_pool_options_t *o)
{
  const object_pool_t *to = o->overflow;
  return to && chain_ends(to) && to->object_size == o->object_size && to->alignment >= alignment_of(o) &&
         (is_for_one_thread(o) || !to->single_thread) && handles_stand_behind(o->overflow, o->capacity, false);
}

static bool heap_is_valid_to_grow(const object_pool_options_t *o)
{
  const heap_t *heap = o->heap;
  while (heap && !heap->lock.solo)
    heap = heap->overflow;
  return !heap || is_for_one_thread(o);
}

static bool sizes_are_valid(const object_pool_options_t *o)
{
  if (!o->object_size || o->object_size > PTRDIFF_MAX || (o->alignment && !is_power_of_two(o->alignment)) ||
      o->alignment > PTRDIFF_MAX / 2)
    return false;
  size_t stride = round_up(o->object_size, alignment_of(o));
  return o->capacity < UINT32_MAX && stride <= PTRDIFF_MAX / max_size(o->capacity, 1);
}

static bool policy_is_valid(const object_pool_options_t *o)
{
  switch (o->when_full) {
  case OBJECT_POOL_GROW:
    return (!o->max_capacity || o->max_capacity >= o->capacity) && heap_is_valid_to_grow(o);
  case OBJECT_POOL_EVICT:
    return o->capacity && o->choose_victim;
  case OBJECT_POOL_OVERFLOW:
    return o->capacity && overflow_is_valid(o);
  default:
    return o->capacity && o->when_full == OBJECT_POOL_FAIL;
  }
}

static bool options_are_valid(const object_pool_options_t *o)
{
  return o && sizes_are_valid(o) && !(o->flags & ~(unsigned)FLAGS_KNOWN) &&
         (o->reset_time == OBJECT_POOL_RESET_ON_GET || o->reset_time == OBJECT_POOL_RESET_ON_PUT) && policy_is_valid(o);
}

static void set_name(object_pool_t *pool, const char *name)
{
  static uint32_t generated;
  text_t text = {pool->name, OBJECT_POOL_NAME_SIZE, 0};
  if (name) {
    text_string(&text, name);
  } else {
    text_string(&text, "object-pool-");
    text_number(&text, __atomic_add_fetch(&generated, 1, __ATOMIC_RELAXED));
  }
  text_finish(&text);
}

/* Newton's iteration: an odd number is its own inverse modulo 8, and each step doubles the bits that are right. */
static uint64_t inverse_of_odd(uint64_t odd)
{
  uint64_t inverse = odd;
  for (int bits = 3; bits < 64; bits *= 2)
    inverse *= 2 - odd * inverse;
  return inverse;
}

static void set_geometry(object_pool_t *pool, const object_pool_options_t *o)
{
  pool->object_size = o->object_size;
  pool->alignment = alignment_of(o);
  pool->stride = round_up(o->object_size, pool->alignment);
  pool->shift = (uint32_t)__builtin_ctzl(pool->stride);
  pool->inverse = inverse_of_odd(pool->stride >> pool->shift);
}

static bool is_hooked(const object_pool_options_t *o)
{
  return (o->flags & OBJECT_POOL_CHECKED) || o->construct || o->reset || o->destruct;
}

static void pool_set_up(object_pool_t *pool, heap_t *heap, const object_pool_options_t *o)
{
  *pool = (object_pool_t){
    .is_apart = pool->is_apart, .checked = o->flags & OBJECT_POOL_CHECKED, .single_thread = o->flags & OBJECT_POOL_SINGLE_THREAD,
    .resets_on_put = o->reset_time == OBJECT_POOL_RESET_ON_PUT, .when_full = (uint8_t)o->when_full,
    .max_capacity = o->max_capacity, .purge_delay_ms = heap->space->purge_delay_ms, .construct = o->construct, .reset = o->reset,
    .destruct = o->destruct, .choose_victim = o->choose_victim, .context = o->context,
    .overflow = o->when_full == OBJECT_POOL_OVERFLOW ? o->overflow : NULL, .heap = heap, .mark = OBJECT_POOL_MARK};
  pool->hot = pool->single_thread ? &pool->front : &pool->shared;
  pool->lock.solo = pool->growth.solo = pool->single_thread;
  pool->hooked = is_hooked(o);
  pool->shared_mark = !pool->hooked && !pool->single_thread ? OBJECT_POOL_MARK : 0;
  set_geometry(pool, o);
  set_name(pool, o->name);
}

static bool make_first_array(object_pool_t *pool, const resort_t *from, size_t capacity)
{
  if (!capacity)
    return true;
  object_array_t *array = array_create(pool, from, capacity);
  if (!array)
    return false;
  array->permanent = true;
  pool->current = array;
  return array_enter(pool, array);
}

/* From what the heap whose turn it is has: all of it, or nothing. */
static object_pool_t *create_from(const resort_t *from, const object_pool_options_t *o)
{
  heap_t *heap = from->first;
  object_pool_t *pool = record_take(heap, from);
  if (!pool)
    return NULL;
  pool_set_up(pool, heap, o);
  if (make_first_array(pool, from, o->capacity))
    return pool;
  record_give(heap, pool, "object_pool_create");
  return NULL;
}

static size_t bytes_of_options(const object_pool_options_t *o)
{
  size_t objects = round_up(o->capacity * round_up(o->object_size, alignment_of(o)), NATURAL_ALIGNMENT);
  return sizeof(object_pool_t) + objects + array_record_bytes(is_hooked(o), o->when_full, o->capacity);
}

static void forget(object_pool_t *pool)
{
  lock_acquire(&heaps_lock);
  leave_all(pool);
  lock_release(&heaps_lock);
}

object_pool_t *object_pool_create(const object_pool_options_t *options)
{
  heap_t *heap = options && options->heap ? options->heap : &heap_front;
  if (heap->mark != HEAP_LIVE_MARK)
    fatal_misuse("object_pool_create", heap, "not a live heap");
  if (!options_are_valid(options)) {
    errno = EINVAL;
    return NULL;
  }
  if (heap == &heap_front && !heap_front_ready())
    return full();
  int error = errno;
  resort_t from = heap_first_resort(heap);
  object_pool_t *pool;
  while (!(pool = create_from(&from, options)) && heap_next_resort(&from, bytes_of_options(options), true)) {
  }
  if (!pool)
    return heap_exhausted(heap);
  if (!handles_stand_behind(pool->overflow, options->capacity, true)) {   /* it has grown meanwhile */
    array_destroy(pool, pool->arrays[0], "object_pool_create");
    record_give(heap, pool, "object_pool_create");
    errno = EINVAL;
    return NULL;
  }
  errno = error;
  enter_all(pool);
  return pool;
}

/* Of a pool that ends. What is live now has come too late to be put: the figures are told. A hook that was run on a busy one never came
 * back, and how far it had come nobody knows. */
static void end_objects(object_pool_t *pool, object_array_t *array, const char *call)
{
  for (size_t i = 0; i < array->capacity; i++) {
    bool busy = bit_test(array->busy, i), made = bit_test(array->made, i);
    if (!bit_tree_test(&array->free, i) && !busy)
      ADD(pool->busy, 1);
    store_bit(array->busy, i, true);
    bit_clear(array->made, i);
    STORE(pool->run_bytes, 0);   /* the hook before may have walked */
    if (made || (pool->checked && !busy))
      hooks_end(pool, object_at(pool, array, i), made, call);
  }
}

/* An earlier call of this thread, from here or deeper on its stack, was left by a hook. */
static bool was_left(const object_pool_t *pool, uintptr_t here)
{
  return pool->ender == (const void *)&object_thread && here >= pool->ender_frame;
}

/* The pool stays among the others until its hooks are through: should one leave, what there is goes with the heap, or with the next call
 * of this, which goes on behind that hook's object. */
void object_pool_destroy(object_pool_t *pool)
{
  if (!pool)
    return;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (pool->mark != OBJECT_POOL_MARK || (pool->ending && !was_left(pool, here)))
    misuse_no_live_pool(pool, "object_pool_destroy");
  pool->ender = (const void *)&object_thread;
  pool->ender_frame = here;
  hot_cool(pool);
  pool->ending = true;
  STORE(pool->run_bytes, 0);
  for (uint32_t k = 0; has_work_on_end(pool) && k < pool->array_count; k++)
    end_objects(pool, pool->arrays[k], "object_pool_destroy");
  forget(pool);
  for (uint32_t k = 0; k < pool->array_count; k++)
    array_destroy(pool, pool->arrays[k], "object_pool_destroy");
  record_give(pool->heap, pool, "object_pool_destroy");
}
