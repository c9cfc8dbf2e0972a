/* SPDX-License-Identifier: MIT
 *
 * What hooks and checked pools add to a get and a put: the object is busy, neither free nor live, while a hook runs on it.
 * Hooks run with no lock held, may call the pool again, and may never come back. What fails inside a hook on its way to success
 * must not show: errno stays. */
#ifndef HOOKS_H
#define HOOKS_H

#include "object_pool/hot.h"
#include "object_pool/watch.h"

/* What a thread notes of its own doing in object pools, in few bytes, because dlopen must find room for them. It is one
 * variable that is not static: clang makes four of a static one, with gaps between them. */
typedef struct object_thread {
  const void *hook_on;      /* the object that it is running a hook on, for the child of a fork; NULL: none */
  uint16_t more_hooks;      /* hooks on other objects, from within that hook or beside it, by coroutines */
  uint16_t useless_growths; /* growths of no use within the outermost one */
  uintptr_t growth_frame;   /* where on its stack the outermost growth began; 0: there is none */
} object_thread_t;
extern INTERNAL THREAD_LOCAL object_thread_t object_thread;

/* Says whether the calling thread runs a hook on a busy object. If it runs more than one, every busy object is taken for its
 * own. A hook that was left by longjmp() still counts. */
static inline bool is_in_own_hook(const void *object) { return object_thread.more_hooks || object_thread.hook_on == object; }

static inline bool has_work_on_put(const object_pool_t *pool)
{
  return is_checked(pool) || is_watched(pool) || (pool->resets_on_put && pool->reset);
}
static inline bool has_work_on_end(const object_pool_t *pool)
{
  return is_hooked(pool) && (pool->destruct || is_checked(pool));
}

/* Makes a live object busy, before a hook runs on it. Under the lock. */
static inline void live_to_busy(object_pool_t *pool, object_array_t *array, size_t i)
{
  STORE(pool->walked_bytes, 0);
  set_busy(pool, array, i, true);
  if (is_checked(pool))
    bit_clear(array->made, i);
}

/* Both are called with no lock held. hooks_on_put() resets or destructs an object that was live and is busy. hooks_hand_out()
 * makes a busy object live, or free if it could not be constructed: NULL then. `used`: it was used before, and has come back by
 * put. */
void hooks_on_put(const object_pool_t *pool, const object_array_t *array, void *object);
void *hooks_hand_out(object_pool_t *pool, object_array_t *array, size_t i, bool used);

/* Ends a busy object. `made`: it was constructed, and is destructed. */
void hooks_end(const object_pool_t *pool, const object_array_t *array, size_t i, bool made, const char *call);

/* False: no free object. Otherwise *object is it, or NULL: it could not be constructed. Takes the lock itself. */
bool hooks_take(object_pool_t *pool, void **object);

/* False: not a live object of this pool. Takes the lock itself. */
bool hooks_give(object_pool_t *pool, void *object);

/* Takes an object of this very pool, hooked or not. False: there is no free one. A hooked pool may also return true with NULL,
 * if the object could not be constructed (hooks_take()). */
static inline bool try_get(object_pool_t *pool, void **object)
{
  if (is_hooked(pool))
    return hooks_take(pool, object);
  lock_acquire(&pool->lock);
  *object = take_plain(pool);
  lock_release(&pool->lock);
  return *object != NULL;
}

#endif
