/* SPDX-License-Identifier: MIT
 *
 * A hook runs without the lock. Under the lock, its object becomes busy before and free or live afterwards. */
#include "base/fill.h"
#include "object_pool/operations.h"
#include <string.h>

enum { NEW_BYTE = 0xcd };

THREAD_LOCAL object_thread_t object_thread;

/* ---- memory tools ----
 *
 * A thread that leaves an object passes its order to the object's next user; the maker of an array, to all users; and every
 * user, by the pool, to the thread that ends an array. */

/* The order of an object has an address in the array's record, because the program may have a lock at the object's own. */
static const void *order_of(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  return array->uses + object_position(pool, array, object);
}

/* An object is put, maybe by a thread that did not get it (object_pool_put_all(), an eviction). */
static void watch_come_back(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  os_tool_meet_order(array);
  os_tool_meet_order(order_of(pool, array, object));
}

static void watch_leave(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  os_tool_leave_order(order_of(pool, array, object));
  os_tool_leave_order(pool);
}

/* `used`: the object had a user before. It then keeps its content if the pool has hooks and is not checked. Otherwise its
 * content is undefined. */
static void watch_take(const object_pool_t *pool, const object_array_t *array, const void *object, bool used)
{
  watch_come_back(pool, array, object);
  bool keeps = used && (pool->construct || pool->reset || pool->destruct) && !is_checked(pool);
  os_tool_begin_block(pool, object, pool->object_size);
  if (!keeps)
    os_tool_forget(object, pool->object_size);
  if (is_checked(pool) || keeps)
    os_tool_open(object, pool->object_size);
}

static void watch_give(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  watch_leave(pool, array, object);
  os_tool_end_block(pool, object, pool->object_size);
}

/* watch_open() and watch_close() enclose a hook on an object without a user. */
static void watch_open(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  if (!is_watched(pool))
    return;
  watch_come_back(pool, array, object);
  os_tool_open(object, pool->object_size);
}

static void watch_close(const object_pool_t *pool, const object_array_t *array, const void *object)
{
  if (!is_watched(pool))
    return;
  watch_leave(pool, array, object);
  os_tool_close(object, pool->object_size);
}

/* ---- hooks ---- */

/* Calls the reset or the destructor of the pool. */
static void call_hook(const object_pool_t *pool, void (*hook)(void *object, void *context), void *object)
{
  int error = errno;
  if (hook)
    hook(object, pool->context);
  errno = error;
}

/* A failed constructor's errno is left to the caller of get. */
static bool construct(const object_pool_t *pool, void *object)
{
  int error = errno;
  bool done = !pool->construct || pool->construct(object, pool->context);
  if (done)
    errno = error;
  return done;
}

/* No object is in two hooks at once. So a note of this object is from a hook that longjmp() has left. */
static void hook_enter(const void *object)
{
  if (!object_thread.hook_on || object_thread.hook_on == object)
    object_thread.hook_on = object;
  else if (object_thread.more_hooks < UINT16_MAX) /* after so many were left by longjmp(), the count stays at its end */
    object_thread.more_hooks++;
}

/* Only the noted hook clears the note; others are counted. */
static void hook_leave(const void *object)
{
  if (object_thread.hook_on == object)
    object_thread.hook_on = NULL;
  else if (object_thread.more_hooks < UINT16_MAX)
    object_thread.more_hooks--;
}

/* Returns whether the calling thread runs a hook on a busy object. If it runs several hooks, this is true for every busy
 * object. A hook that was left by longjmp() still counts. */
static bool is_in_own_hook(const void *object) { return object_thread.more_hooks || object_thread.hook_on == object; }

/* Ends the program at the first wrong byte. Its offset leads to the write. */
void misuse_verify_dead(const object_pool_t *pool, const void *object, const char *call)
{
  const char *written = dead_find_written(object, pool->object_size);
  if (unlikely(written != NULL))
    fatal_damage_of_object(call, object, AFTER_PUT, (size_t)(written - (const char *)object), pool->object_size, pool->name);
}

/* A checked object is constructed for each user, over bytes that nobody can mistake for an object. */
static bool make_ready_checked(const object_pool_t *pool, void *object)
{
  misuse_verify_dead(pool, object, "object_pool_get");
  memset(object, NEW_BYTE, pool->object_size);
  if (construct(pool, object))
    return true;
  dead_fill(object, pool->object_size);
  return false;
}

/* A used object is only reset, since it is still constructed. `used`: it had a user before. */
static bool make_ready(const object_pool_t *pool, const object_array_t *array, void *object, bool used)
{
  if (is_watched(pool))
    watch_take(pool, array, object, used);
  if (is_checked(pool))
    return make_ready_checked(pool, object);
  if (!used)
    return construct(pool, object);
  if (!pool->resets_on_put)
    call_hook(pool, pool->reset, object);
  return true;
}

/* A checked object is destructed and filled at each put, so that later uses of it show. If only an option of the process asked
 * for the checks, the program relies on `reset` to release what the object refers to, so that runs too. */
void hooks_on_put(const object_pool_t *pool, const object_array_t *array, void *object)
{
  hook_enter(object);
  if (is_watched(pool))
    watch_come_back(pool, array, object);
  if (is_checked(pool)) {
    if (pool->checked_unasked)
      call_hook(pool, pool->reset, object);
    call_hook(pool, pool->destruct, object);
    dead_fill(object, pool->object_size);
  } else if (pool->resets_on_put) {
    call_hook(pool, pool->reset, object);
  }
  if (is_watched(pool))
    watch_give(pool, array, object);
  hook_leave(object);
}

/* `made` is set after the hook has returned, since a constructor that was left by longjmp() leaves an unknown state. */
void *hooks_hand_out(object_pool_t *pool, object_array_t *array, size_t i, bool used)
{
  void *object = object_at(pool, array, i);
  hook_enter(object);
  bool ready = make_ready(pool, array, object, used);
  if (is_watched(pool) && ready)
    os_tool_leave_order(order_of(pool, array, object));
  else if (is_watched(pool))
    watch_give(pool, array, object);
  hook_leave(object);
  LOCKED(&pool->lock);
  if (ready)
    bit_set(array->made, i);
  set_busy(pool, array, i, false);
  if (!ready)
    object_to_free(pool, array, i);
  return ready ? object : NULL;
}

/* An object that needs no hook is never busy, which saves the second lock. A pool that is being destroyed gives out none. */
bool hooks_take(object_pool_t *pool, void **object)
{
  size_t i;
  lock_acquire(&pool->lock);
  object_array_t *array = pool->ending ? NULL : take_object(pool, &i);
  if (!array) {
    lock_release(&pool->lock);
    return false;
  }
  count_get(array, i);
  bool used = bit_test(array->made, i);
  /* The object is still constructed, and was reset at its put or is never reset. */
  bool ready = used && !is_checked(pool) && !is_watched(pool) && (pool->resets_on_put || !pool->reset);
  if (!ready)
    set_busy(pool, array, i, true);
  lock_release(&pool->lock);
  *object = ready ? object_at(pool, array, i) : hooks_hand_out(pool, array, i, used);
  return true;
}

/* The object is busy while its hook runs, so no other thread can get or put it. */
bool hooks_give(object_pool_t *pool, void *object)
{
  size_t i;
  lock_acquire(&pool->lock);
  object_array_t *array = array_of(pool, object, &i);
  if (!array || pool->ending || !is_live(pool, array, i)) {
    bool comes_too_late = array && pool->ending; /* object_pool_destroy() destructs it */
    lock_release(&pool->lock);
    return comes_too_late;
  }
  if (has_work_on_put(pool)) {
    live_to_busy(pool, array, i);
    lock_release(&pool->lock);
    hooks_on_put(pool, array, object);
    lock_acquire(&pool->lock);
    set_busy(pool, array, i, false);
  }
  object_to_free(pool, array, i);
  lock_release(&pool->lock);
  return true;
}

/* An object of a checked pool that is not constructed must still be full of dead bytes. */
void hooks_end(const object_pool_t *pool, const object_array_t *array, size_t i, bool made, const char *call)
{
  void *object = object_at(pool, array, i);
  hook_enter(object);
  watch_open(pool, array, object);
  if (made)
    call_hook(pool, pool->destruct, object);
  else
    misuse_verify_dead(pool, object, call);
  watch_close(pool, array, object);
  hook_leave(object);
}

/* In the child of a fork, frees an object in a lost thread's hook. It counts as never used, because its state is unknown. */
static void free_if_deserted(object_pool_t *pool, object_array_t *array, size_t i)
{
  void *object = object_at(pool, array, i);
  if (is_in_own_hook(object))
    return;
  bit_clear(array->made, i);
  watch_open(pool, array, object);
  if (is_checked(pool))
    dead_fill(object, pool->object_size);
  watch_close(pool, array, object);
  set_busy(pool, array, i, false);
  object_to_free(pool, array, i);
}

/* Arrays of pools without hooks have no map of busy objects. */
void hooks_free_deserted(object_pool_t *pool)
{
  for (uint32_t k = 0; k < pool->array_count && pool->busy; k++) {
    object_array_t *array = pool->arrays[k];
    for (size_t i = 0; (i = bits_next_set(array->busy, i, array->capacity)) < array->capacity; i++)
      free_if_deserted(pool, array, i);
  }
}
