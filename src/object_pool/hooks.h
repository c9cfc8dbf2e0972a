/* SPDX-License-Identifier: MIT
 *
 * Hooks and checked pools in a get and a put. The object is busy while a hook runs on it, neither free nor live. Hooks run with
 * no lock held, may call the pool again, and may leave by longjmp(). They do not change errno if they succeed. */
#ifndef HOOKS_H
#define HOOKS_H

#include "object_pool/cache.h"

/* A thread's state in object pools: few bytes, for dlopen() must find room. A static variable would become four with clang. */
typedef struct object_thread {
  const void *hook_on;      /* the object on which it runs a hook, for the child of a fork; NULL: none */
  uint16_t more_hooks;      /* hooks on other objects, nested or in coroutines */
  uint16_t useless_growths; /* useless growths within the outermost one */
  uintptr_t growth_frame;   /* where on its stack the outermost growth began; 0: none */
} object_thread_t;
extern INTERNAL THREAD_LOCAL object_thread_t object_thread;

static inline bool has_work_on_put(const object_pool_t *pool)
{
  return is_checked(pool) || is_watched(pool) || (pool->resets_on_put && pool->reset);
}
static inline bool has_work_on_end(const object_pool_t *pool)
{
  return is_hooked(pool) && (pool->destruct || is_checked(pool));
}

/* Makes a live object busy, before a hook runs on it. Called under the lock. */
static inline void live_to_busy(object_pool_t *pool, object_array_t *array, size_t i)
{
  STORE(pool->walked_bytes, 0);
  set_busy(pool, array, i, true);
  if (is_checked(pool))
    bit_clear(array->made, i);
}

/* hooks_on_put() resets or destructs an object that is busy and was live. hooks_hand_out() makes a busy object live and returns
 * it; if the constructor fails, the object becomes free and the result is NULL. `used`: it had a user. No lock is held. */
void hooks_on_put(const object_pool_t *pool, const object_array_t *array, void *object);
void *hooks_hand_out(object_pool_t *pool, object_array_t *array, size_t i, bool used);

/* Ends a busy object, and destructs it if it was constructed (`made`). */
void hooks_end(const object_pool_t *pool, const object_array_t *array, size_t i, bool made, const char *call);

/* Returns false if no object is free. *object is NULL if the constructor failed. It takes the lock. */
bool hooks_take(object_pool_t *pool, void **object);

/* Returns false if this is no live object of the pool. It takes the lock. */
bool hooks_give(object_pool_t *pool, void *object);

/* In the child of a fork, frees the objects that lost threads had in their hooks. */
void hooks_free_deserted(object_pool_t *pool);

/* Takes an object of this pool. Returns false if none is free. *object is NULL if the constructor of a hooked pool failed. */
static inline bool try_get(object_pool_t *pool, void **object)
{
  if (is_hooked(pool))
    return hooks_take(pool, object);
  pool_acquire(pool);
  *object = take_plain(pool);
  pool_release(pool);
  return *object != NULL;
}

#endif
