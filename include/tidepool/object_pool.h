/* SPDX-License-Identifier: MIT
 *
 * tidepool/object_pool.h: pools of fixed-size objects that are created once and reused.
 *
 *     object_pool_t *sparks = object_pool_create(&(object_pool_options_t){
 *       .name = "sparks", .object_size = sizeof(struct spark), .capacity = 1000});
 *     struct spark *spark = object_pool_get(sparks);     NULL: all 1000 are live
 *     object_pool_put(sparks, spark);
 *     object_pool_destroy(sparks);
 *
 * The objects lie in one contiguous array. The pool stores nothing inside them: a bit and a 32-bit count of uses for each
 * object are kept elsewhere. So any type can be pooled, and live objects can be walked by address. A policy says what a get
 * does when the pool is full. All sizes are in bytes, all capacities in objects.
 *
 * Threads: all threads may use one pool at once, unless it is OBJECT_POOL_SINGLE_THREAD. object_pool_destroy() needs the other
 * threads to stay out.
 *
 * Errors: if the pool is NULL, every call except object_pool_destroy() does nothing and returns NULL, false, 0 or the handle
 * {0, 0}. It sets EINVAL, with pool_error(). Success leaves errno unchanged, whatever hooks do to it.
 *
 * Cost: without growth, hooks and eviction, get and put are O(1), make no system call and do not touch the object. A get and
 * the put of its object take 24 instructions on x86-64 in a single-threaded pool, and 40 in a shared one. The figures include
 * the loop and the calls into the shared library. Other gets and puts take some hundred instructions each, in a shared pool
 * with a lock.
 *
 *   - Each thread caches free objects of a shared pool's first array: up to 63, and at most a sixteenth of it. Most gets and
 *     puts therefore take no lock. A get that finds the pool full first collects the caches, which takes some microseconds.
 *     Threads then cache nothing for a thousand gets. They also cache nothing while an added array is idle.
 *   - Threads cache nothing of pools with hooks, checked pools, EVICT pools and added arrays. They cache objects of at most 127
 *     pools of a process, and of none on a system without membarrier().
 *   - Each call reads the clock, which takes some 30 ns, while an array that a growing pool added is idle. The call that frees
 *     the array makes a system call and reads the array's counts of uses.
 *
 * Misuse ends the program with one line and abort(). A put of anything but a live object of the pool, or of one that it
 * overflows to, is always detected:
 *     tidepool: object_pool_put(0x7f0123456789): not a live object of pool "sparks"
 *
 * A call with a pool that was destroyed, or that ended with its heap, is detected until the memory of the pool's record is
 * reused. It is undefined afterwards.
 *     tidepool: object_pool_get(0x7f0123456700): not a live object pool
 *
 * Hooks: construct, reset and destruct run without a lock and may get and put in the same pool. Hooks, choose_victim and
 * on_exhausted should return. If one leaves by longjmp(), by a C++ exception or with its thread, the pool remains usable:
 *
 *   - The object that the hook worked on is neither free nor live until the pool ends. It is destructed then if it was
 *     constructed and not yet destructed. Its array is not returned earlier.
 *   - An interrupted object_pool_destroy() continues when the same thread calls it again, from no deeper on its stack. An
 *     interrupted object_pool_create() has created nothing.
 *   - The functions are noexcept: in C++ an exception that reaches the caller may end the program. Catch it in the hook.
 *
 * An object that another thread's hook was working on at a fork() is free in the child, and counts as never used. The child
 * loses the resources that the object owned. If the forking thread has left a hook, such objects may stay out of use. A pool
 * that another thread was destroying ends in the child with its heap. */
#ifndef TIDEPOOL_OBJECT_POOL_H
#define TIDEPOOL_OBJECT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidepool/heap.h>

POOL_BEGIN_DECLS

typedef struct object_pool object_pool_t;

/* The action of a get when no object is free. */
typedef enum object_pool_policy {
  /* It returns NULL. Choose a capacity that suffices, or do without the object. */
  OBJECT_POOL_FAIL,

  /* The pool allocates another array, up to max_capacity objects in all. The heap's on_exhausted may get and put in the pool. A
   * get that needs another array meanwhile, in any thread, does not wait: it may return NULL without calling on_exhausted
   * again. If on_exhausted left by longjmp(), this lasts until a get that begins no deeper on the stack than the interrupted
   * one. */
  OBJECT_POOL_GROW,

  /* choose_victim names a live object. The pool takes it from its user and returns it. */
  OBJECT_POOL_EVICT,

  /* Another pool of the same object size serves the get. */
  OBJECT_POOL_OVERFLOW
} object_pool_policy_t;

typedef enum object_pool_reset_time {
  OBJECT_POOL_RESET_ON_GET, /* lazy: just before an object is used again */
  OBJECT_POOL_RESET_ON_PUT  /* eager: when the object is put */
} object_pool_reset_time_t;

enum {
  /* Only one thread uses the pool. The pool takes no lock. */
  OBJECT_POOL_SINGLE_THREAD = 1 << 0,

  /* The pool detects writes to an object after its put. Each ends the program with a line that names the object, the offset and
   * the pool.
   *
   * A put destructs the object and fills it with the bytes of 0x1deadb0b. The fill is verified at the next get, when the pool
   * shrinks, when the pool or its heap ends, and at exit(). exit() omits a single-threaded pool if the process has several
   * threads then. A get fills the object with 0xcd and constructs it anew. So every use is a first use, and reset is never
   * called. If an option of the debug library (checked=all, guarded=all) checks the pool, reset runs before destruct. */
  OBJECT_POOL_CHECKED = 1 << 1
};

/* Every field that is 0 or NULL means the default. */
typedef struct object_pool_options {
  /* The pool copies up to 31 bytes of its name, in whole characters. NULL: a name is generated. */
  const char *name;

  /* The alignment is a power of two. 0 is 16, or the natural alignment of a smaller object. */
  size_t object_size;
  size_t alignment;

  /* How many objects the first array has. 0 is for OBJECT_POOL_GROW only. */
  size_t capacity;

  /* The most objects of an OBJECT_POOL_GROW pool; 0 is no limit. */
  size_t max_capacity;

  object_pool_policy_t when_full;

  /* construct runs once for each object, before its first use; if it returns false, the get fails. reset runs before each later
   * use, at reset_time. destruct runs once for each object that was used, when the pool ends or shrinks. */
  bool (*construct)(void *object, void *context);
  void (*reset)(void *object, void *context);
  void (*destruct)(void *object, void *context);
  object_pool_reset_time_t reset_time;

  /* For OBJECT_POOL_EVICT: returns a live object, or NULL to let the get fail. */
  void *(*choose_victim)(object_pool_t *pool, void *context);

  /* For OBJECT_POOL_OVERFLOW: the pool that serves. It must outlive the new one. */
  object_pool_t *overflow;

  /* The heap that the memory comes from; it counts against that heap's budget. NULL is the default heap. */
  pool_heap_t *heap;

  /* Passed to the hooks and to choose_victim. */
  void *context;

  /* OBJECT_POOL_SINGLE_THREAD and OBJECT_POOL_CHECKED. */
  unsigned flags;
} object_pool_options_t;

/* Creates a pool with the memory of `capacity` objects. pool_heap_reset() and pool_heap_destroy() of its heap also end the
 * pool: they free it like a block, without destructing objects.
 *
 * NULL and ENOMEM: the heap does not have the memory. NULL and EINVAL, with pool_error():
 *
 *   - the options are NULL, or a flag or policy is unknown
 *   - object_size is 0, or alignment is not a power of two
 *   - capacity overflows (2^32 objects, PTRDIFF_MAX bytes), is 0 without GROW, or with GROW is more than max_capacity
 *   - EVICT has no choose_victim
 *   - the overflow pool is missing, has another object size or a smaller alignment, or leads back to itself
 *   - the overflow pool has not enough 32-bit indices left for the handles of so many more objects
 *   - a shared pool overflows to a single-threaded pool, or grows in a single-threaded heap */
POOL_INLINE object_pool_t *object_pool_create(const object_pool_options_t *options);

/* The function behind object_pool_create(). `size` is sizeof(object_pool_options_t) as the caller was compiled, as for
 * pool_heap_create_sized(). */
POOL_API object_pool_t *object_pool_create_sized(const object_pool_options_t *options, size_t size)
  POOL_NAME(object_pool_create) __attribute__((warn_unused_result));

POOL_INLINE object_pool_t *object_pool_create(const object_pool_options_t *options)
{
  return object_pool_create_sized(options, sizeof(object_pool_options_t));
}

/* Destructs every object that was ever used, live ones too, and frees the memory. NULL is allowed. It takes O(capacity).
 *
 * No other thread may be in a call with this pool. A hook may still call the pool: gets return NULL, and put, put_all and
 * shrink do nothing and run no hook. Queries work. Live objects are destructed in their turn. */
POOL_API void object_pool_destroy(object_pool_t *pool) POOL_NAME(object_pool_destroy);

/* Returns an object. NULL and ENOMEM: the pool is full, and its policy found no object. NULL with construct's errno: construct
 * failed. */
POOL_API void *object_pool_get(object_pool_t *pool) POOL_NAME(object_pool_get) __attribute__((warn_unused_result));

/* Puts an object back, also one that the overflow pool served. Anything else, NULL too, ends the program. */
POOL_API void object_pool_put(object_pool_t *pool, void *object) POOL_NAME(object_pool_put);

/* Gets up to `count` objects into `objects`, and returns how many it got. If there are fewer than `count`, errno is ENOMEM or
 * construct's. All are different, unless a hook or another thread puts some of them meanwhile.
 *
 * A pool without hooks takes the lock once for all free objects. Growth, eviction and overflow take it again. The batch ends if
 * choose_victim names an object of the batch. If a hook leaves, the objects stored so far are live. */
POOL_API size_t object_pool_get_batch(object_pool_t *pool, void **objects, size_t count) POOL_NAME(object_pool_get_batch);

/* Puts `count` objects back, as object_pool_put() does. */
POOL_API void object_pool_put_batch(object_pool_t *pool, void **objects, size_t count) POOL_NAME(object_pool_put_batch);

/* Puts back all live objects of this pool at once, but not those that an overflow pool served. It takes O(capacity / 64), and
 * some 2 ns more for each live object in a pool with thread caches. It touches objects only if the pool is checked or resets on
 * put. */
POOL_API void object_pool_put_all(object_pool_t *pool) POOL_NAME(object_pool_put_all);

/* Returns whether this is the address of a live object of this pool. It accepts any address, in O(1). An address inside an
 * object is false. */
POOL_API bool object_pool_in_use(const object_pool_t *pool, const void *object) POOL_NAME(object_pool_in_use);

/* Returns the live object with the next higher address than `previous`; NULL starts and ends the walk. `previous` is an object
 * of the pool. Objects, `previous` too, may be got and put meanwhile. */
POOL_API void *object_pool_next(const object_pool_t *pool, const void *previous) POOL_NAME(object_pool_next);

/* object_pool_live() returns how many objects are live, and object_pool_capacity() how many there are, in O(1).
 *
 * A growing pool frees an added array that was idle for the heap's purge delay, in its next get, put or object_pool_capacity().
 * A pool that nobody calls keeps its arrays, also if its heap is exhausted. */
POOL_API size_t object_pool_live(const object_pool_t *pool) POOL_NAME(object_pool_live);
POOL_API size_t object_pool_capacity(const object_pool_t *pool) POOL_NAME(object_pool_capacity);

/* Frees added arrays without live objects, the newest first, as long as at least `capacity` objects remain. The first array
 * stays. Returns the new capacity. */
POOL_API size_t object_pool_shrink(object_pool_t *pool, size_t capacity) POOL_NAME(object_pool_shrink);

/* A handle identifies one use of an object, from get to put. An index of 0 never resolves. The struct has no tag, because a
 * function has that name and g++ -Wshadow would warn. */
typedef struct {
  uint32_t index, generation;
} object_pool_handle_t;

/* Returns the handle of a live object, of this pool or served by its overflow pool; {0, 0} for anything else. */
POOL_API object_pool_handle_t object_pool_handle(const object_pool_t *pool, const void *object) POOL_NAME(object_pool_handle);

/* Returns the object, or NULL once that use of it has ended: by put, put_all, eviction or shrink. The handles of an object
 * repeat after 2^32 uses of it. The handles of a freed array repeat after at least 2^32 uses in the pool. */
POOL_API void *object_pool_resolve(const object_pool_t *pool, object_pool_handle_t handle) POOL_NAME(object_pool_resolve);

/* OBJECT_POOL_DEFINE(particles, struct particle) defines particles_t, particles_create(), particles_get() and so on: the
 * functions above for one type. A call with an object of another type does not compile. particles_create() sets object_size,
 * and sets the alignment if it is 0 and the type's is more than 16. */
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

/* `unused`: compilers do not warn about functions that a program does not call. */
#define OBJECT_POOL_INLINE_ static inline __attribute__((unused, __always_inline__))

POOL_END_DECLS

#endif
