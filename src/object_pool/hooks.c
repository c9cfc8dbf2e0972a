/* SPDX-License-Identifier: MIT
 *
 * A hook runs with the lock open, so the object is made busy under it first, and free or live under it afterwards. What happens
 * in between, no other thread can see. */
#include "object_pool/hooks.h"
#include "object_pool/object_misuse.h"
#include <string.h>

enum { NEW_BYTE = 0xcd };

THREAD_LOCAL object_thread_t object_thread;

static void touch(const object_pool_t *pool, void (*hook)(void *object, void *context), void *object)
{
  int error = errno;
  if (hook)
    hook(object, pool->context);
  errno = error;
}

static void reset(const object_pool_t *pool, void *object) { touch(pool, pool->reset, object); }
static void destruct(const object_pool_t *pool, void *object) { touch(pool, pool->destruct, object); }

/* A constructor that fails leaves its errno to the caller of get. */
static bool construct(const object_pool_t *pool, void *object)
{
  int error = errno;
  bool done = !pool->construct || pool->construct(object, pool->context);
  if (done)
    errno = error;
  return done;
}

/* No object is in two hooks at once. So if the thread already runs a hook on this object, that hook was left by longjmp(). */
static void hook_enter(const void *object)
{
  if (!object_thread.hook_on || object_thread.hook_on == object)
    object_thread.hook_on = object;
  else if (object_thread.more_hooks < UINT16_MAX) /* at the end of the count so many were left that it stays there */
    object_thread.more_hooks++;
}

/* Only the hook that was noted clears the note. Others are counted. */
static void hook_leave(const void *object)
{
  if (object_thread.hook_on == object)
    object_thread.hook_on = NULL;
  else if (object_thread.more_hooks < UINT16_MAX)
    object_thread.more_hooks--;
}

/* A checked object is constructed anew for each user, out of bytes that no one can take for an object. */
static bool make_ready_checked(const object_pool_t *pool, void *object)
{
  misuse_verify_dead(pool, object, "object_pool_get");
  memset(object, NEW_BYTE, pool->object_size);
  if (construct(pool, object))
    return true;
  misuse_fill_dead(pool, object);
  return false;
}

/* An object that was used is only reset, because it is still constructed. `used`: it was used before, and has come back by
 * put. */
static bool make_ready(const object_pool_t *pool, const object_array_t *array, void *object, bool used)
{
  if (is_watched(pool))
    watch_take(pool, array, object, used);
  if (is_checked(pool))
    return make_ready_checked(pool, object);
  if (!used)
    return construct(pool, object);
  if (!pool->resets_on_put)
    reset(pool, object);
  return true;
}

/* A checked object is destructed at each put, and filled, so that a later use of it shows. A program that has not asked for
 * that has in `reset` what becomes of what the object leads to. */
void hooks_on_put(const object_pool_t *pool, const object_array_t *array, void *object)
{
  hook_enter(object);
  if (is_watched(pool))
    watch_come_back(pool, array, object);
  if (is_checked(pool)) {
    if (pool->checked_unasked)
      reset(pool, object);
    destruct(pool, object);
    misuse_fill_dead(pool, object);
  } else if (pool->resets_on_put) {
    reset(pool, object);
  }
  if (is_watched(pool))
    watch_give(pool, array, object);
  hook_leave(object);
}

/* `made` is noted only after the hook has come back: of an object whose constructor was left nothing is known. */
void *hooks_hand_out(object_pool_t *pool, object_array_t *array, size_t i, bool used)
{
  void *object = object_at(pool, array, i);
  hook_enter(object);
  bool ready = make_ready(pool, array, object, used);
  if (is_watched(pool))
    (ready ? watch_ready : watch_give)(pool, array, object);
  hook_leave(object);
  lock_acquire(&pool->lock);
  if (ready)
    bit_set(array->made, i);
  set_busy(pool, array, i, false);
  if (!ready)
    object_to_free(pool, array, i);
  lock_release(&pool->lock);
  return ready ? object : NULL;
}

/* An object on which no hook has anything to do is never busy, which saves the second lock. A pool that ends gives no more
 * out. */
bool hooks_take(object_pool_t *pool, void **object)
{
  size_t i;
  lock_acquire(&pool->lock);
  object_array_t *array = pool->ending ? NULL : take_object(pool, &i);
  if (!array) {
    lock_release(&pool->lock);
    return false;
  }
  bool used = bit_test(array->made, i);
  /* An object that is still constructed, and has been reset or needs none, can go to its user as it is. */
  bool ready = used && !is_checked(pool) && !is_watched(pool) && (pool->resets_on_put || !pool->reset);
  if (!ready)
    set_busy(pool, array, i, true);
  lock_release(&pool->lock);
  *object = ready ? object_at(pool, array, i) : hooks_hand_out(pool, array, i, used);
  return true;
}

/* The object is busy while its hook runs, so that no other thread can get or put it. */
bool hooks_give(object_pool_t *pool, void *object)
{
  size_t i;
  lock_acquire(&pool->lock);
  object_array_t *array = array_of(pool, object, &i);
  if (!array || pool->ending || !is_live(pool, array, i)) {
    bool comes_too_late = array && pool->ending; /* it is destructed in its turn, or was already */
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

/* An object of a checked pool that was not constructed is free, so it must still be full of dead bytes. */
void hooks_end(const object_pool_t *pool, const object_array_t *array, size_t i, bool made, const char *call)
{
  void *object = object_at(pool, array, i);
  hook_enter(object);
  if (is_watched(pool))
    watch_open(pool, array, object);
  if (made)
    destruct(pool, object);
  else
    misuse_verify_dead(pool, object, call);
  if (is_watched(pool))
    watch_close(pool, array, object);
  hook_leave(object);
}
