/* SPDX-License-Identifier: MIT
 *
 * What the files of object pools call of each other: misuse, hooks, capacity, walks, and the list of all pools. */
#ifndef OBJECT_POOL_OPERATIONS_H
#define OBJECT_POOL_OPERATIONS_H

#include "heap/invalid.h"
#include "misuse.h"
#include "object_pool/array.h"
#include <errno.h>

/* ---- misuse ----
 *
 * Calls find that there is no pool, or a destroyed one. No lock is taken. */

static inline void *full(void)
{
  errno = ENOMEM;
  return NULL;
}

/* Sets EINVAL, as every call without a pool does except destroy. */
COLD void *misuse_no_pool(const char *call);
COLD _Noreturn void misuse_no_live_pool(const object_pool_t *pool, const char *call);

/* Precedes any other use of the pool. The record of a destroyed pool may be free or reused memory. It has the mark no more. */
static inline void must_be_live(const object_pool_t *pool, const char *call)
{
  if (unlikely(pool->mark != OBJECT_POOL_MARK))
    misuse_no_live_pool(pool, call);
}

/* Every call begins with this, except the fast paths. Returns false if there is nothing to do. */
static inline bool is_given(const object_pool_t *pool, const char *call)
{
  if (unlikely(!pool)) {
    misuse_no_pool(call);
    return false;
  }
  must_be_live(pool, call);
  return true;
}

/* Free objects of checked pools are full of dead bytes. Ends the program if this one was written to after its put. */
void misuse_verify_dead(const object_pool_t *pool, const void *object, const char *call);

/* ---- hooks and checked pools in a get and a put ----
 *
 * The object is busy while a hook runs on it, neither free nor live. Hooks run with no lock held, may call the pool again, and
 * may leave by longjmp(). They do not change errno if they succeed. */

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

/* ---- capacity ----
 *
 * A full pool grows by an array, if that is its policy. An array leaves when it had no live object for the heap's purge delay.
 * The array that was created with the pool stays.
 *
 * Called with no lock held: the heap may call the program, and hooks run before an array leaves. A thread that creates an array
 * holds pool->growth, which comes before every other lock, unless the heap may call the program. */

/* Returns true if the pool has room or may have it, so that the caller tries again. If the heap calls no callback, threads wait
 * for the one that creates an array: they would otherwise fail for lack of the memory that is about to become room. No thread
 * waits for one that may be in on_exhausted. That callback may wait for others in turn, or leave by longjmp(). */
COLD bool capacity_grow(object_pool_t *pool);

/* Called after the pool has grown. The new array is unused if its maker took an object that became free in another array. */
COLD void capacity_note_unused(object_pool_t *pool);

/* Lets arrays leave that have been unused for long enough. Room for `keep` objects is left. */
COLD void capacity_shrink_if_due(object_pool_t *pool, size_t keep);

/* A get calls this before it takes its `count` objects, because a hook may leave by longjmp() here. Room for them stays. */
static inline void look_at_clock(object_pool_t *pool, size_t count)
{
  if (unlikely(may_have_unused(pool)))
    capacity_shrink_if_due(pool, LOAD(pool->taken) + min_size(count, UINT32_MAX));
}

/* ---- walks and handles ---- */

/* The library calls this in place of object_pool_next(), a name that a program may define. */
NOINLINE void *walk_next(const object_pool_t *pool, const void *previous);

/* Returns whether `objects` more indices fit in front of those of this pool and its overflow pools. `stays` reserves them. */
bool handles_stand_behind(object_pool_t *pool, size_t objects, bool stays);

/* ---- all pools ----
 *
 * Heaps call the registry by heap_dependents: the pools of a heap end with it, a fork takes the locks of shared pools, and
 * figures are read. heaps_lock, taken before any pool's lock, protects the lists. */

/* Enter a pool into the lists, and take it out. */
void registry_enter(object_pool_t *pool);
void registry_leave(object_pool_t *pool);

/* Gives the pool indices back that were left to destroyed pools. Returns false if there are none. */
bool registry_recount_indices(object_pool_t *pool);

/* Takes a record from the heap that was asked, with only is_outside set, or NULL. */
object_pool_t *registry_take_record(const attempt_t *from);

/* Ends a pool that is in no list, without hooks. Later calls with its address find that it is no pool. `with_heap`: its heap
 * ends, too, and heaps_lock is held. */
void registry_end(object_pool_t *pool, const char *call, bool with_heap);

/* What heap_dependents->visit() shows of each pool. */
typedef struct object_pool_figures {
  char name[OBJECT_POOL_NAME_SIZE];
  char heap[HEAP_NAME_SIZE];
  size_t object_size, capacity, live, arrays, held_bytes;
} object_pool_figures_t;

#endif
