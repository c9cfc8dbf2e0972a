/* SPDX-License-Identifier: MIT
 *
 * tidepool/object_pool.h: fixed-size objects that are got and put instead of made and freed.
 *
 * An object pool makes its objects once, in one contiguous array, and hands them out again and again. Everything it knows
 * of an object is held outside of it (a bit and a 32-bit count of its uses), so any type can be pooled and live objects are
 * walked by address. What happens when the pool is full is a policy of the pool.
 *
 * Threads: all threads may use one pool at once unless it is OBJECT_POOL_SINGLE_THREAD. Create, destroy, and a walk through a
 * pool that others change meanwhile, are said below. Hooks run with no lock held and may get and put in the same pool. In the child
 * of a fork an object that another thread's hook was busy with is free, as if it had never been used; what it owned is lost there.
 * Sizes are bytes, capacities objects. Success leaves errno as it was, whatever hooks and choose_victim did to it.
 *
 * Hooks, choose_victim and on_exhausted return. One that leaves by longjmp(), by a C++ exception or with its thread leaves no lock held
 * and no list half changed: the pool serves on. The object that a hook was run on is out of use, neither free nor live, until the pool
 * ends, and destructed then if it was constructed and is not yet; its array does not shrink away. object_pool_destroy() that was left
 * goes on when the same thread calls it again, from no deeper on its stack; object_pool_create() has made nothing. In the child of a fork
 * by a thread that has left a hook, what hooks of others were busy with may stay out of use, too. A pool that another thread was
 * destroying ends there with its heap. The functions are noexcept, so in C++ an exception that reaches a caller may end the program:
 * catch it in the hook.
 *
 * Cost: get and put are O(1) and touch neither the system nor the object. In a pool without hooks, a get and the put of the
 * object that was put last are fifteen instructions together, twenty-five where the pool is not OBJECT_POOL_SINGLE_THREAD but
 * the process has one thread; any others some hundred each, with a lock where there are threads. That is without growth, hooks and
 * eviction, and while no array that a growing pool added is idle: with one, each call looks at the clock, some 30 ns, and the call
 * that gives it back takes the system's time, and a pass over the array's counts of uses.
 *
 * No pool: with NULL for the pool every call does nothing and returns NULL, false, 0 or the handle {0, 0}, and errno is EINVAL.
 * Only object_pool_destroy(NULL) is no error.
 *
 * Misuse (a put of anything but a live object of this pool or of one it overflows to) ends the program, always:
 *     tidepool: object_pool_put(0x7f0123456789): not a live object of pool "sparks"
 *
 * Any call with a pool that was destroyed, or dropped with its heap, ends the program where it is seen. It is seen until the
 * memory of the pool's own record is in use again, by its heap or by the owner of the heap's memory; what such a call does then
 * is undefined:
 *     tidepool: object_pool_get(0x7f0123456700): not a live object pool */
#ifndef TIDEPOOL_OBJECT_POOL_H
#define TIDEPOOL_OBJECT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidepool/heap.h>

POOL_BEGIN_DECLS

typedef struct object_pool object_pool_t;

typedef enum object_pool_policy {
  OBJECT_POOL_FAIL,       /* full: get returns NULL (size the pool so that it never is, or do without the object) */
  OBJECT_POOL_GROW,       /* full: get more memory, up to max_capacity. Nobody waits for a thread in the heap's on_exhausted, which
                           * may get and put here; in the end such a get is NULL without calling it again. So it may be after the
                           * callback has left by longjmp(), until a get that begins no deeper on the stack than the one it left */
  OBJECT_POOL_EVICT,      /* full: choose_victim names a live object; it is taken from its user and given out anew */
  OBJECT_POOL_OVERFLOW    /* full: another pool of the same object size serves */
} object_pool_policy_t;

typedef enum object_pool_reset_time {
  OBJECT_POOL_RESET_ON_GET,   /* lazy: just before an object is used again */
  OBJECT_POOL_RESET_ON_PUT    /* eager: when it comes back */
} object_pool_reset_time_t;

enum {
  OBJECT_POOL_SINGLE_THREAD = 1 << 0,   /* one thread only, no lock */
  OBJECT_POOL_CHECKED = 1 << 1          /* see below */
};

/* A CHECKED pool destructs an object when it is put, fills it with the bytes of 0x1deadb0b, verifies the fill when the object
 * is got again (and when the pool shrinks or ends), fills it with 0xcd and constructs it anew: every use is a first use, so
 * reset is never called. A write after put ends the program with a line that names the object, the offset and the pool. */

typedef struct object_pool_options {
  const char *name;                                    /* copied, up to 31 bytes of whole characters; NULL: a generated one */
  size_t object_size;
  size_t alignment;                                    /* 0: 16, or the natural alignment of a smaller object */
  size_t capacity;                                     /* objects made up front, in one contiguous array; 0 only with GROW */
  size_t max_capacity;                                 /* GROW: 0 means no limit */
  object_pool_policy_t when_full;
  bool (*construct)(void *object, void *context);      /* once for each object, before its first use; false: get fails */
  void (*reset)(void *object, void *context);          /* before each later use, at reset_time */
  void (*destruct)(void *object, void *context);       /* once for each object that was used, when the pool ends or shrinks */
  object_pool_reset_time_t reset_time;
  void *(*choose_victim)(object_pool_t *pool, void *context);   /* EVICT needs it; NULL returned: get fails */
  object_pool_t *overflow;                             /* OVERFLOW needs it; it must outlive this pool */
  pool_heap_t *heap;                                   /* where the memory comes from, and whose budget it counts against; NULL: default */
  void *context;                                       /* for the hooks */
  unsigned flags;                                      /* OBJECT_POOL_SINGLE_THREAD, OBJECT_POOL_CHECKED */
} object_pool_options_t;

/* A pool with all its objects' memory. NULL + EINVAL: no options; object_size 0; an alignment that is no power of two; a
 * capacity that overflows (2^32 objects, PTRDIFF_MAX bytes), is 0 without GROW or above max_capacity; EVICT without
 * choose_victim; an overflow pool that is missing, is of another object size or a lesser alignment, leads back to itself, or
 * has no indices of 32 bits left for handles of so many objects more; a shared pool that overflows to, or grows in the heap
 * of, one thread only; unknown flags or policies. NULL + ENOMEM: the heap has not the memory. The heap must outlive the
 * pool, or take it along: pool_heap_reset() and pool_heap_destroy() drop the pools of a heap as they drop blocks, without
 * destructing their objects. */
POOL_API object_pool_t *object_pool_create(const object_pool_options_t *options) POOL_NOEXCEPT __attribute__((warn_unused_result));

/* Destructs every object that was ever used, live ones too, and gives the memory back. NULL is fine. No other thread is in a
 * call with this pool. A hook may still ask, get (NULL), put, put_all and shrink: these do nothing any more, run no hook, and what is
 * live is destructed in its turn. O(capacity). */
POOL_API void object_pool_destroy(object_pool_t *pool) POOL_NOEXCEPT;

/* An object, or NULL and ENOMEM: the pool is full and its policy does not help. NULL with construct's errno if construct failed. */
POOL_API void *object_pool_get(object_pool_t *pool) POOL_NOEXCEPT __attribute__((warn_unused_result));

/* Takes an object back, also one that the overflow pool served. Anything else, NULL too, ends the program. */
POOL_API void object_pool_put(object_pool_t *pool, void *object) POOL_NOEXCEPT;

/* Stores up to `count` objects in `objects`, each different, unless a hook or another thread puts some meanwhile; returns how many it
 * got. Fewer: ENOMEM (or construct's errno). Where choose_victim names an object that the batch has, the batch ends. Should a hook
 * leave, what was stored so far is live. Without hooks the lock is taken once for all that are free; what comes by growth, eviction or
 * overflow takes it again. */
POOL_API size_t object_pool_get_batch(object_pool_t *pool, void **objects, size_t count) POOL_NOEXCEPT;
POOL_API void   object_pool_put_batch(object_pool_t *pool, void **objects, size_t count) POOL_NOEXCEPT;

/* Collective reset: all live objects of this pool come back at once; what an overflow pool served stays out. O(capacity / 64),
 * without touching an object, unless there is work for each (reset on put, a checked pool). */
POOL_API void object_pool_put_all(object_pool_t *pool) POOL_NOEXCEPT;

/* Whether this is a live object of this pool (its address, not one inside it). Any address at all. O(1). */
POOL_API bool object_pool_in_use(const object_pool_t *pool, const void *object) POOL_NOEXCEPT;

/* Walks the live objects of this pool by address: NULL starts and ends. `previous` is an object of the pool; it may have been put
 * meanwhile, and others got and put: the walk goes on with the first live object behind it. */
POOL_API void *object_pool_next(const object_pool_t *pool, const void *previous) POOL_NOEXCEPT;

/* How many objects are live, how many there are; O(1). A pool that grew gives arrays that were idle for the purge delay of its
 * heap back by itself, in the next get, put or question for its capacity: a pool that nobody calls keeps them, also where its heap
 * is exhausted. */
POOL_API size_t object_pool_live(const object_pool_t *pool) POOL_NOEXCEPT;
POOL_API size_t object_pool_capacity(const object_pool_t *pool) POOL_NOEXCEPT;

/* Gives arrays that a growing pool added and that hold no live object back, newest first, as long as `capacity` objects are
 * left; the array made up front stays. Returns the new capacity. */
POOL_API size_t object_pool_shrink(object_pool_t *pool, size_t capacity) POOL_NOEXCEPT;

/* A name for one use of an object. An index of 0 never resolves. */
typedef struct object_pool_handle { uint32_t index, generation; } object_pool_handle_t;

/* The handle of a live object, of this pool or served by its overflow pool; {0, 0} for anything else. */
POOL_API object_pool_handle_t object_pool_handle(const object_pool_t *pool, const void *object) POOL_NOEXCEPT;

/* The object, or NULL once that use of it has ended: by put, put_all, eviction or shrink. Handles repeat after 2^32 uses of one object;
 * those of arrays that went, no sooner than 2^32 uses in the pool. */
POOL_API void *object_pool_resolve(const object_pool_t *pool, object_pool_handle_t handle) POOL_NOEXCEPT;

/* OBJECT_POOL_DEFINE(particles, struct particle) defines particles_t and particles_create(), particles_get(), ...: the functions
 * above for one type, so that an object of another does not compile. particles_create() takes the options without
 * object_size, and the type's alignment where it is more than the default. */
#define OBJECT_POOL_DEFINE(name, type)                                                                                       \
  typedef struct name##_pool name##_t;                                                                                       \
  OBJECT_POOL_INLINE_ object_pool_t *name##_untyped(const name##_t *pool)                                                    \
  {                                                                                                                          \
    return (object_pool_t *)(uintptr_t)pool;                                                                                 \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ name##_t *name##_create(const object_pool_options_t *options)                                          \
  {                                                                                                                          \
    if (!options)                                                                                                            \
      return (name##_t *)object_pool_create(options);                                                                        \
    object_pool_options_t typed = *options;                                                                                  \
    typed.object_size = sizeof(type);                                                                                        \
    if (!typed.alignment && __alignof__(type) > 16)                                                                          \
      typed.alignment = __alignof__(type);                                                                                   \
    return (name##_t *)object_pool_create(&typed);                                                                           \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ void name##_destroy(name##_t *pool) { object_pool_destroy(name##_untyped(pool)); }                     \
  OBJECT_POOL_INLINE_ type *name##_get(name##_t *pool) { return (type *)object_pool_get(name##_untyped(pool)); }             \
  OBJECT_POOL_INLINE_ void name##_put(name##_t *pool, type *object) { object_pool_put(name##_untyped(pool), object); }       \
  OBJECT_POOL_INLINE_ size_t name##_get_batch(name##_t *pool, type **objects, size_t count)                                  \
  {                                                                                                                          \
    return object_pool_get_batch(name##_untyped(pool), (void **)objects, count);                                             \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ void name##_put_batch(name##_t *pool, type **objects, size_t count)                                    \
  {                                                                                                                          \
    object_pool_put_batch(name##_untyped(pool), (void **)objects, count);                                                    \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ void name##_put_all(name##_t *pool) { object_pool_put_all(name##_untyped(pool)); }                     \
  OBJECT_POOL_INLINE_ bool name##_in_use(const name##_t *pool, const type *object)                                           \
  {                                                                                                                          \
    return object_pool_in_use(name##_untyped(pool), object);                                                                 \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ type *name##_next(const name##_t *pool, const type *previous)                                          \
  {                                                                                                                          \
    return (type *)object_pool_next(name##_untyped(pool), previous);                                                         \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ size_t name##_live(const name##_t *pool) { return object_pool_live(name##_untyped(pool)); }            \
  OBJECT_POOL_INLINE_ size_t name##_capacity(const name##_t *pool) { return object_pool_capacity(name##_untyped(pool)); }    \
  OBJECT_POOL_INLINE_ size_t name##_shrink(name##_t *pool, size_t capacity)                                                  \
  {                                                                                                                          \
    return object_pool_shrink(name##_untyped(pool), capacity);                                                               \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ object_pool_handle_t name##_handle(const name##_t *pool, const type *object)                           \
  {                                                                                                                          \
    return object_pool_handle(name##_untyped(pool), object);                                                                 \
  }                                                                                                                          \
  OBJECT_POOL_INLINE_ type *name##_resolve(const name##_t *pool, object_pool_handle_t handle)                                \
  {                                                                                                                          \
    return (type *)object_pool_resolve(name##_untyped(pool), handle);                                                        \
  }                                                                                                                          \
  struct name##_pool

/* The compilers do not warn of those that a program does not use. */
#define OBJECT_POOL_INLINE_ static inline __attribute__((unused))

POOL_END_DECLS

#endif
