/* SPDX-License-Identifier: MIT
 *
 * tidepool/object_pool.h: fixed-size objects that are got and put instead of made and freed.
 *
 * An object pool makes its objects once, in one contiguous array, and hands them out again and again. Everything it knows of an
 * object is held outside of it (a bit and a 32-bit count of its uses). So any type can be pooled, and live objects are walked
 * by address. What happens when the pool is full is a policy of the pool. Sizes are bytes, capacities are objects.
 *
 * Threads: all threads may use one pool at once unless it is OBJECT_POOL_SINGLE_THREAD. For create, destroy, and a walk through
 * a pool that others change meanwhile, see below. In the child of a fork an object that another thread's hook was busy with is
 * free, as if it had never been used; what it owned is lost there.
 *
 * Hooks run with no lock held and may get and put in the same pool. Success leaves errno as it was, whatever hooks and
 * choose_victim did to it.
 *
 * Hooks, choose_victim and on_exhausted should return. One that leaves by longjmp(), by a C++ exception or with its thread
 * leaves no lock held and no list half changed: the pool serves on. The object that a hook was run on is then out of use,
 * neither free nor live, until the pool ends. It is destructed then if it was constructed and is not destructed yet; its array
 * does not shrink away. An object_pool_destroy() that was left goes on when the same thread calls it again, from no deeper on
 * its stack. An object_pool_create() that was left has made nothing.
 *
 * In the child of a fork by a thread that has left a hook, what hooks of others were busy with may stay out of use, too. A pool
 * that another thread was destroying ends there with its heap. The functions are noexcept, so in C++ an exception that reaches
 * a caller may end the program: catch it in the hook.
 *
 * Cost: get and put are O(1) and touch neither the system nor the object. In a pool without hooks, a get and the put of the
 * object that was put last are fifteen instructions together. In one that is not OBJECT_POOL_SINGLE_THREAD they are thirty-one,
 * however many threads use it. There each thread keeps free objects of the array that was made with the pool, up to 63 and a
 * sixteenth of it. So few of its gets and puts take the lock. A pool is full only when no thread has any: the get that would
 * fail, grow or overflow collects them first, which takes some microseconds. After that threads keep none for a thousand gets,
 * nor while an array is idle. EVICT pools, objects of arrays that were added, and all but 127 of a process's pools go without;
 * so does a system without membarrier(). Other gets and puts are some hundred instructions each, with a lock where there are
 * threads.
 *
 * That is without growth, hooks and eviction, and while no array that a growing pool added is idle. With such an array each
 * call looks at the clock, which takes some 30 ns. The call that gives the array back takes the system's time, and a pass over
 * the array's counts of uses.
 *
 * No pool: with NULL for the pool every call does nothing and returns NULL, false, 0 or the handle {0, 0}, and errno is EINVAL,
 * of which pool_error() says more. Only object_pool_destroy(NULL) is no error.
 *
 * Misuse (a put of anything but a live object of this pool or of one it overflows to) ends the program, always:
 *     tidepool: object_pool_put(0x7f0123456789): not a live object of pool "sparks"
 *
 * Any call with a pool that was destroyed, or dropped with its heap, ends the program where this is seen. It is seen until the
 * memory of the pool's own record is in use again, by its heap or by the owner of the heap's memory. What such a call does then
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

/* What a get does when no object is free. */
typedef enum object_pool_policy {
  /* It returns NULL. Size the pool so that this never happens, or do without the object. */
  OBJECT_POOL_FAIL,

  /* The pool gets more memory, up to max_capacity. Nobody waits for a thread in the heap's on_exhausted, which may get and put
   * here; in the end such a get is NULL without calling it again. The same may hold after the callback has left by longjmp(),
   * until a get that begins no deeper on the stack than the one it left. */
  OBJECT_POOL_GROW,

  /* choose_victim names a live object, which is taken from its user and given out anew. */
  OBJECT_POOL_EVICT,

  /* Another pool of the same object size serves. */
  OBJECT_POOL_OVERFLOW
} object_pool_policy_t;

typedef enum object_pool_reset_time {
  OBJECT_POOL_RESET_ON_GET, /* lazy: just before an object is used again */
  OBJECT_POOL_RESET_ON_PUT  /* eager: when it comes back */
} object_pool_reset_time_t;

enum {
  /* One thread alone uses the pool, which has no lock. */
  OBJECT_POOL_SINGLE_THREAD = 1 << 0,

  /* The pool destructs an object when it is put and fills it with the bytes of 0x1deadb0b. It verifies the fill when the object
   * is got again, when the pool shrinks or it or its heap ends, and at exit() (that of one thread, where the process has one).
   * Before a use it fills the object with 0xcd and constructs it anew: every use is a first use, so reset is never called;
   * where it is an option (checked=all, guarded=all) that asks for this, reset runs before destruct. A write after put ends the
   * program with a line that names the object, the offset and the pool. */
  OBJECT_POOL_CHECKED = 1 << 1
};

/* Every field that is 0 or NULL means the default. */
typedef struct object_pool_options {
  /* The pool copies up to 31 bytes of its name, of whole characters. With NULL a name is generated. */
  const char *name;

  /* The alignment is a power of two. 0 is 16, or the natural alignment of a smaller object. */
  size_t object_size;
  size_t alignment;

  /* So many objects are made up front, in one contiguous array. 0 is for OBJECT_POOL_GROW only. */
  size_t capacity;

  /* OBJECT_POOL_GROW does not grow the pool beyond this; 0 is no limit. */
  size_t max_capacity;

  object_pool_policy_t when_full;

  /* construct runs once for each object, before its first use; if it returns false, get fails. reset runs before each later
   * use, at reset_time. destruct runs once for each object that was used, when the pool ends or shrinks. */
  bool (*construct)(void *object, void *context);
  void (*reset)(void *object, void *context);
  void (*destruct)(void *object, void *context);
  object_pool_reset_time_t reset_time;

  /* OBJECT_POOL_EVICT needs this. If it returns NULL, get fails. */
  void *(*choose_victim)(object_pool_t *pool, void *context);

  /* OBJECT_POOL_OVERFLOW needs this pool, which must outlive the new one. */
  object_pool_t *overflow;

  /* The memory comes from this heap and counts against its budget. NULL is the default heap. */
  pool_heap_t *heap;

  /* The hooks get this. */
  void *context;

  /* OBJECT_POOL_SINGLE_THREAD and OBJECT_POOL_CHECKED. */
  unsigned flags;
} object_pool_options_t;

/* Returns a pool with the memory of all its objects. The heap must outlive the pool, or take it along: pool_heap_reset() and
 * pool_heap_destroy() drop the pools of a heap as they drop blocks, without destructing their objects.
 *
 * NULL and ENOMEM: the heap has not the memory. NULL and EINVAL, with pool_error():
 *
 *   - there are no options, or unknown flags or policies
 *   - the object size is 0, or the alignment is no power of two
 *   - the capacity overflows (2^32 objects, PTRDIFF_MAX bytes), is 0 without GROW, or with GROW is above max_capacity
 *   - EVICT has no choose_victim
 *   - the overflow pool is missing, is of another object size or a lesser alignment, or leads back to itself
 *   - the overflow pool has no indices of 32 bits left for handles of so many objects more
 *   - a shared pool overflows to a pool, or grows in a heap, of one thread only */
POOL_INLINE object_pool_t *object_pool_create(const object_pool_options_t *options);

/* What object_pool_create calls. `size` is sizeof(object_pool_options_t) as the caller knows it, as for
 * pool_heap_create_sized(). */
POOL_API object_pool_t *object_pool_create_sized(const object_pool_options_t *options, size_t size)
  POOL_NAME(object_pool_create) __attribute__((warn_unused_result));

POOL_INLINE object_pool_t *object_pool_create(const object_pool_options_t *options)
{
  return object_pool_create_sized(options, sizeof(object_pool_options_t));
}

/* Destructs every object that was ever used, live ones too, and gives the memory back. NULL is no error. No other thread may be
 * in a call with this pool. A hook may still ask, get (NULL), put, put_all and shrink. These no longer do anything and run no
 * hook, and what is live is destructed in its turn. It takes O(capacity). */
POOL_API void object_pool_destroy(object_pool_t *pool) POOL_NAME(object_pool_destroy);

/* Returns an object. NULL and ENOMEM: the pool is full and its policy does not help. If construct failed, it returns NULL with
 * construct's errno. */
POOL_API void *object_pool_get(object_pool_t *pool) POOL_NAME(object_pool_get) __attribute__((warn_unused_result));

/* Takes an object back, also one that the overflow pool served. Anything else, NULL too, ends the program. */
POOL_API void object_pool_put(object_pool_t *pool, void *object) POOL_NAME(object_pool_put);

/* Stores up to `count` objects in `objects`, and returns how many it got. Each is different, unless a hook or another thread
 * puts some meanwhile. If these are fewer, errno is ENOMEM, or construct's. If choose_victim names an object that the batch
 * has, the batch ends. If a hook leaves, what was stored so far is live.
 *
 * Without hooks the lock is taken once for all that are free. What comes by growth, eviction or overflow takes it again. */
POOL_API size_t object_pool_get_batch(object_pool_t *pool, void **objects, size_t count) POOL_NAME(object_pool_get_batch);

/* Takes back `count` objects, as object_pool_put() does. */
POOL_API void object_pool_put_batch(object_pool_t *pool, void **objects, size_t count) POOL_NAME(object_pool_put_batch);

/* Takes back all live objects of this pool at once; what an overflow pool served stays out. It touches no object unless there
 * is work for each (reset on put, a checked pool). It takes O(capacity / 64), and where threads keep objects (above) some 2 ns
 * more for each live object, whose count of uses goes up. */
POOL_API void object_pool_put_all(object_pool_t *pool) POOL_NAME(object_pool_put_all);

/* Tells whether this is the address of a live object of this pool; an address inside an object is not. It takes any address at
 * all, in O(1). */
POOL_API bool object_pool_in_use(const object_pool_t *pool, const void *object) POOL_NAME(object_pool_in_use);

/* Returns the first live object of this pool behind `previous`, by address; NULL starts and ends the walk. `previous` is an
 * object of the pool. It may have been put meanwhile, and others got and put. */
POOL_API void *object_pool_next(const object_pool_t *pool, const void *previous) POOL_NAME(object_pool_next);

/* Return how many objects are live, and how many there are, in O(1).
 *
 * A pool that grew gives back by itself arrays that were idle for the purge delay of its heap, in the next get, put or question
 * for its capacity. A pool that nobody calls keeps them, also where its heap is exhausted. */
POOL_API size_t object_pool_live(const object_pool_t *pool) POOL_NAME(object_pool_live);
POOL_API size_t object_pool_capacity(const object_pool_t *pool) POOL_NAME(object_pool_capacity);

/* Gives back arrays that a growing pool added and that hold no live object, newest first, as long as `capacity` objects are
 * left. The array made up front stays. Returns the new capacity. */
POOL_API size_t object_pool_shrink(object_pool_t *pool, size_t capacity) POOL_NAME(object_pool_shrink);

/* This is a name for one use of an object. An index of 0 never resolves. The struct has no tag: a function has that name, and
 * g++ -Wshadow would warn. */
typedef struct {
  uint32_t index, generation;
} object_pool_handle_t;

/* Returns the handle of a live object, of this pool or served by its overflow pool; {0, 0} for anything else. */
POOL_API object_pool_handle_t object_pool_handle(const object_pool_t *pool, const void *object) POOL_NAME(object_pool_handle);

/* Returns the object, or NULL once that use of it has ended: by put, put_all, eviction or shrink. Handles repeat after 2^32
 * uses of one object; those of arrays that went, no sooner than 2^32 uses in the pool. */
POOL_API void *object_pool_resolve(const object_pool_t *pool, object_pool_handle_t handle) POOL_NAME(object_pool_resolve);

/* OBJECT_POOL_DEFINE(particles, struct particle) defines particles_t and particles_create(), particles_get() and so on: the
 * functions above for one type, so that an object of another does not compile. particles_create() takes the options without
 * object_size. It takes the type's alignment where that is more than the default. */
#define OBJECT_POOL_DEFINE(name, type) \
  typedef struct name##_pool name##_t; \
  OBJECT_POOL_INLINE_ object_pool_t *name##_untyped(const name##_t *pool) { return (object_pool_t *)(uintptr_t)pool; } \
  OBJECT_POOL_INLINE_ name##_t *name##_create(const object_pool_options_t *options) \
  { \
    if (!options) \
      return (name##_t *)object_pool_create(options); \
    object_pool_options_t typed = *options; \
    typed.object_size = sizeof(type); \
    if (!typed.alignment && __alignof__(type) > 16) \
      typed.alignment = __alignof__(type); \
    return (name##_t *)object_pool_create(&typed); \
  } \
  OBJECT_POOL_INLINE_ void name##_destroy(name##_t *pool) { object_pool_destroy(name##_untyped(pool)); } \
  OBJECT_POOL_INLINE_ type *name##_get(name##_t *pool) { return (type *)object_pool_get(name##_untyped(pool)); } \
  OBJECT_POOL_INLINE_ void name##_put(name##_t *pool, type *object) { object_pool_put(name##_untyped(pool), object); } \
  OBJECT_POOL_INLINE_ size_t name##_get_batch(name##_t *pool, type **objects, size_t count) \
  { \
    return object_pool_get_batch(name##_untyped(pool), (void **)objects, count); \
  } \
  OBJECT_POOL_INLINE_ void name##_put_batch(name##_t *pool, type **objects, size_t count) \
  { \
    object_pool_put_batch(name##_untyped(pool), (void **)objects, count); \
  } \
  OBJECT_POOL_INLINE_ void name##_put_all(name##_t *pool) { object_pool_put_all(name##_untyped(pool)); } \
  OBJECT_POOL_INLINE_ bool name##_in_use(const name##_t *pool, const type *object) \
  { \
    return object_pool_in_use(name##_untyped(pool), object); \
  } \
  OBJECT_POOL_INLINE_ type *name##_next(const name##_t *pool, const type *previous) \
  { \
    return (type *)object_pool_next(name##_untyped(pool), previous); \
  } \
  OBJECT_POOL_INLINE_ size_t name##_live(const name##_t *pool) { return object_pool_live(name##_untyped(pool)); } \
  OBJECT_POOL_INLINE_ size_t name##_capacity(const name##_t *pool) { return object_pool_capacity(name##_untyped(pool)); } \
  OBJECT_POOL_INLINE_ size_t name##_shrink(name##_t *pool, size_t capacity) \
  { \
    return object_pool_shrink(name##_untyped(pool), capacity); \
  } \
  OBJECT_POOL_INLINE_ object_pool_handle_t name##_handle(const name##_t *pool, const type *object) \
  { \
    return object_pool_handle(name##_untyped(pool), object); \
  } \
  OBJECT_POOL_INLINE_ type *name##_resolve(const name##_t *pool, object_pool_handle_t handle) \
  { \
    return (type *)object_pool_resolve(name##_untyped(pool), handle); \
  } \
  struct name##_pool

/* The compilers do not warn of those that a program does not use. */
#define OBJECT_POOL_INLINE_ static inline __attribute__((unused, __always_inline__))

POOL_END_DECLS

#endif
