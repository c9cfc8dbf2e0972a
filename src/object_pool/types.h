/* SPDX-License-Identifier: MIT
 *
 * What an object pool is made of. Get and put move a bit, hooks run outside the lock, and memory comes in arrays from a heap.
 *
 * An array is a block of the heap, the objects, and elsewhere a record of what is known of them. A bit says that an object is
 * free, and the lowest free object is found in few steps (base/bit_tree.h). There is no list: the bits are the free list.
 *
 *     | object | object | ... | record | level 0 | level 1 | ... | laps or busy, made | in_batch: evicts | uses[capacity] |
 *
 * In a shared pool uses begin at a multiple of USES_TOGETHER (array.h).
 *
 * An object is free (its bit is set), live (with a user) or busy (a hook is running on it). A busy object is neither free nor
 * live, so no other thread sees it and none can put it. A get takes an object from free to busy, while it is constructed or
 * reset, and on to live. A put takes it from live to busy, while it is reset or destructed, and on to free. If no hook has
 * anything to do, busy is left out.
 *
 * The hot object is the one that was put last. Its state is in the pool, not in its array, so that a get and a put of it are
 * a test and an addition. Only pools without hooks that are not checked have one.
 *
 *   O1 a bit of level 0 is set exactly for a free object, one of a higher level exactly for a word below that is not 0
 *   O2 taken == capacity - set bits of level 0; words of level 0 below `lowest` are 0
 *   O3 current, if it has a free object, is the oldest array that has one
 *   O4 the hot object is taken, as its array sees it; its state has the bit HOT_FREE or HOT_LIVE. With neither there is none
 *   O5 busy objects, those with a hook running, are taken; they are not live
 *   O6 arrays are in ascending order of address; their ranges of indices do not overlap, and end below 2^32 - indices_before
 *   O7 every object from `walked` on, up to walked_bytes behind it, is taken and not busy
 *   O8 pool.capacity, taken and busy == the sums of the arrays'; unused_count == the arrays that are unused, which have no
 *      object taken
 *   O9 in a pool with a home array an object of that is live exactly while its uses say so (array.h). One that is taken and
 *      not live is in a thread's cache (cache.h), once
 *
 * All of them hold whenever the pool's lock is free; in a pool of one thread, which has no lock, between its calls, and while
 * its hooks run. O2, O5 and O8 hold no more once a pool with hooks is being destroyed: each object then becomes busy as its
 * turn comes.
 *
 * Order: everything an array knows is written under the pool's lock; the walk of a pool that cannot grow reads bits without
 * it, relaxed, and promises no more than that each object it returns was live at some moment of the call. The content of an
 * object goes from the thread that put it to the one that gets it by the lock's release and acquire, or stays with the thread
 * in its cache; what is done with the pool's hot object without the lock is done while the process has one thread. */
#ifndef OBJECT_POOL_TYPES_H
#define OBJECT_POOL_TYPES_H

#include "base/bits.h"
#include "heap/types.h"
#include <tidepool/object_pool.h>

enum {
  OBJECT_ARRAYS = 48, /* each growth step doubles the capacity, or adds a sixteenth where memory is short */
  BATCH_MAPS = 8,     /* so many batches may evict in one pool at once before they are in each other's way */
  OBJECT_SLOTS = 128, /* so many pools have caches in threads */
  OBJECT_STOCK = 62,  /* free objects in a thread's stock: half of them and one more have a stretch of uses (cache.c) */
  OBJECT_POOL_NAME_SIZE = 32
};

/* For words that other threads may read without the lock. */
#define LOAD(place)         __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)
#define ADD(place, by)      STORE(place, (place) + (by))

/* Says where the record of an array (object_array_t) and what follows it are: apart, out of reach of a write past an object, if
 * the heap can have that; else in front of the objects, in their block. */
typedef enum array_place { ARRAY_APART, ARRAY_IN_FRONT } array_place_t;

typedef struct object_array {
  char *objects;
  uint32_t capacity;
  uint32_t taken; /* not free: live, hot or busy */
  uint32_t *uses; /* how often each was got: gets_of() */
  uint32_t first_index;
  uint64_t first_generation; /* beyond those of earlier arrays: a handle of one that is gone resolves to nothing */
  uint32_t age;              /* arrays made before it */
  bool permanent;            /* made with the pool */
  uint8_t place;             /* array_place_t */
  bool unused;               /* no object is taken, and the array may go for that */
  uint64_t unused_since_ms;  /* valid while it is unused */
  size_t bytes;              /* of objects and records */
  size_t record_bytes;
  bit_tree_t free;     /* a bit for each object */
  word_t *laps;        /* likewise, in a home array, else NULL: whether its uses have gone through all values once more */
  word_t *busy, *made; /* NULL without hooks. made: constructed, or used before */
  word_t *in_batch;    /* BATCH_MAPS, for the batches of the pool's batch_at. NULL in a pool that does not evict */
} object_array_t;

/* What a thread has of one pool (cache.h): its hot object, and a stock. */
typedef struct object_cache {
  void *hot;
  uint32_t *uses; /* of the hot object */
  union {
    struct {
      bool busy;        /* its owner is at work on it */
      bool hot_is_free; /* else it is live, or there is none */
    };
    uint16_t busy_and_hot;
  };
  bool claimed; /* by another thread that reaches for it */
  bool is_out;  /* that thread has seen the owner out of it */
  struct object_stock *stock;
} object_cache_t;

typedef struct object_stock {
  object_cache_t *cache; /* NULL: its thread has ended */
  object_pool_t *pool;
  struct object_stock *next; /* of the same pool, or unused */
  uint32_t count, most;
  uint32_t positions[OBJECT_STOCK]; /* in the home array */
} object_stock_t;

typedef struct hot {
  void *object;   /* NULL: none */
  uint64_t state; /* its puts, and what can be done with it: hot.h */
  object_array_t *array;
  uint32_t position; /* in its array */
} hot_t;

struct object_pool {
  hot_t hot_single;    /* the hot object of a single-threaded pool */
  const char *walked;  /* of a single-threaded pool: where consecutive live objects begin that a walk has found */
  size_t walked_bytes; /* how far from there such objects are followed by another; 0: nothing is known */
  size_t stride;
  object_array_t *only; /* an array that can be walked without the lock; NULL: take the lock */
  hot_t hot_shared;     /* the hot object of a pool that is not single-threaded. From here to `home` is what is read without the
                         * lock, and is not where the lock is: no thread that reads takes that from its holder */
  uint16_t slot;        /* where each thread's block has the pool's cache, in bytes; 0: caches are not used, now or ever. A slot
                         * that is read too late leads to a cache that is good as long as the pool lives */
  uint16_t own_slot;    /* what it is when they are */
  uint32_t mark;        /* OBJECT_POOL_MARK while it is live */
  uint32_t path;        /* which one gets and puts take, while it is live: PATH_... */
  uint32_t shift;       /* the power of two in the stride */
  uintptr_t inverse;    /* of the odd part of the stride, modulo 2^ADDRESS_BITS */
  object_array_t *home; /* whose free objects threads may have in caches; NULL: none's */
  hot_t *hot;           /* the one of the two that may be other than none */
  bool hooked;          /* an object needs more than a bit when it is got or put */
  bool checked, checked_unasked; /* the second: by an option of the process alone */
  bool watched;                  /* by a tool (watch.h) */
  bool resets_on_put;
  bool single_thread;
  bool ending; /* being destroyed: hooks may still get and put */
  uint8_t when_full;
  lock_t lock;
  object_stock_t *stocks;
  uint32_t gets_without_cache; /* still to come before caches are used again */
  object_array_t *current;
  uint32_t array_count;
  uint32_t unused_count;
  object_array_t *arrays[OBJECT_ARRAYS];
  size_t capacity, max_capacity;
  size_t taken, busy; /* objects of all arrays */
  size_t held_bytes;  /* by arrays */
  lock_t growth;      /* held while a get makes an array, unless that may call the program. Before all other locks */
  uint32_t arrays_made;
  uint32_t next_index;     /* behind those of the newest array: indices are used again as late as possible */
  uint32_t indices_before; /* how many indices are left to the pools that overflow to this one: theirs are the lower */
  uint64_t next_generation;
  const void *created_by; /* what the call that made it returned to */
  uint32_t purge_delay_ms;
  size_t object_size, alignment;
  bool (*construct)(void *object, void *context);
  void (*reset)(void *object, void *context);
  void (*destruct)(void *object, void *context);
  void *(*choose_victim)(object_pool_t *pool, void *context);
  void *context;
  object_pool_t *overflow;
  bool overflow_is_apart; /* the record of `overflow` is no block of a heap, and can be read for ever */
  uint32_t recounted_at;  /* how many overflowing pools had ended at the last recount of indices. Under heaps_lock */
  size_t counted_before;  /* of that recount: the objects of the pools that overflow to this one. Under heaps_lock */
  heap_t *heap;
  object_pool_t *next, *previous; /* among all pools */
  object_pool_t *next_in_heap, *previous_in_heap;
  uint64_t batches;              /* that ever evicted here */
  uint64_t batch_at[BATCH_MAPS]; /* the number of the batch whose objects have their bits in this map of in_batch; 0: none */
  uint32_t batch_maps_taken;     /* how often a map was taken from another batch */
  const void *ender;             /* the thread that destroys the pool */
  uintptr_t ender_frame;         /* where on that thread's stack the destruction began */
  bool is_apart;                 /* this record is no block of the heap, and is used again for object pools alone */
  char name[OBJECT_POOL_NAME_SIZE];
};
#define OBJECT_POOL_MARK 0x6c6f6f70u
#define PATH_SINGLE      (OBJECT_POOL_MARK + 1)
#define PATH_SHARED      (OBJECT_POOL_MARK + 2)
#define PATH_HOOKED      (OBJECT_POOL_MARK + 3)

/* What may be left out of a firmware is asked for by these. Checks are a kind of hook. */
static inline bool is_checked(const object_pool_t *pool) { return HAS_CHECKS && pool->checked; }
static inline bool is_hooked(const object_pool_t *pool) { return (HAS_HOOKS || HAS_CHECKS) && pool->hooked; }
static inline bool may_grow(const object_pool_t *pool) { return HAS_GROWTH && pool->when_full == OBJECT_POOL_GROW; }
static inline bool may_evict(const object_pool_t *pool) { return HAS_EVICTION && pool->when_full == OBJECT_POOL_EVICT; }
static inline bool may_overflow(const object_pool_t *pool) { return HAS_OVERFLOW && pool->when_full == OBJECT_POOL_OVERFLOW; }
static inline object_pool_t *overflow_of(const object_pool_t *pool) { return HAS_OVERFLOW ? pool->overflow : NULL; }
static inline bool has_unused(const object_pool_t *pool) { return HAS_GROWTH && pool->unused_count; }
static inline bool may_have_unused(const object_pool_t *pool)
{
  return HAS_GROWTH && LOAD(pool->unused_count);
} /* without the lock */
static inline word_t *busy_of(const object_array_t *array) { return HAS_HOOKS || HAS_CHECKS ? array->busy : NULL; }
static inline bool is_unused(const object_array_t *array) { return HAS_GROWTH && array->unused; }

/* A question changes nothing but the lock, and what is due by the clock. */
static inline object_pool_t *asked(const object_pool_t *pool) { return (object_pool_t *)(uintptr_t)pool; }

#endif
