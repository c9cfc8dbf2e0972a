/* SPDX-License-Identifier: MIT
 *
 * What an object pool is made of. Get and put move a bit, hooks run outside the lock, and memory comes in arrays from a heap.
 *
 * An array is a block of the heap, the objects, and elsewhere a record of what is known of them. A bit says that an object is
 * free, and the lowest free object is found in few steps (base/bit_tree.h). There is no list: the bits are the free list.
 *
 *     | object | object | ... | array_t | level 0 | level 1 | ... | busy, made: hooked | in_batch: evicts | uses[capacity] |
 *
 * An object is free (its bit is set), live (with a user) or busy (a hook is running on it: neither free nor live, so that no
 * one else sees it and no one can put it). get: free, busy while it is constructed or reset, live. put: live, busy while it is
 * reset or destructed, free. Where no hook has anything to do, busy is left out.
 *
 * The hot object is the one that was put last. Its state is in the pool, not in its array, so that a get and a put of it are
 * a test and an addition. Only pools without hooks that are not checked have one.
 *
 *   O1 a bit of level 0 is set exactly for a free object, one of a higher level exactly for a word below that is not 0
 *   O2 taken == capacity - set bits of level 0; words of level 0 below `lowest` are 0
 *   O3 current is the oldest array that has a free object, if there is one
 *   O4 the hot object is taken, as its array sees it; its state has the bit HOT_FREE or HOT_LIVE. With neither there is none
 *   O5 busy objects, those with a hook running, are taken; they are not live
 *   O6 arrays are in ascending order of address; their ranges of indices do not overlap, and end below 2^32 - indices_before
 *   O7 every object of the run is taken and not busy
 *   O8 pool.capacity, taken and busy == the sums of the arrays'; unused_count == the arrays that are unused, which have no object taken
 *
 * Order: everything an array knows is written under the pool's lock; the walk of a pool that cannot grow reads bits without
 * it, relaxed, and promises no more than that each object it returns was live at some moment of the call. The content of an
 * object goes from the thread that put it to the one that gets it by the lock's release and acquire; what is done with the
 * hot object without the lock is done while the process has one thread. */
#ifndef OBJECT_POOL_TYPES_H
#define OBJECT_POOL_TYPES_H

#include "base/bit_tree.h"
#include "heap/types.h"
#include <tidepool/object_pool.h>

enum {
  OBJECT_ARRAYS = 48,           /* each growth step doubles the capacity, or adds a sixteenth where memory is short */
  BATCH_MAPS = 8,               /* so many batches may evict in one pool at once before they are in each other's way */
  OBJECT_POOL_NAME_SIZE = 32
};

/* What others may read without the lock. */
#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)
#define ADD(place, by) STORE(place, (place) + (by))

/* Where the array_t and what follows it are: out of reach of a write past an object, where the heap can have that; in front of
 * the objects, in their block. */
typedef enum array_place { ARRAY_APART, ARRAY_IN_FRONT } array_place_t;

typedef struct object_array {
  char     *objects;
  uint32_t  capacity;
  uint32_t  taken;              /* not free: live, hot or busy */
  uint32_t *uses;               /* how often each was got; in a handle with first_generation on top */
  uint32_t  first_index;
  uint64_t  first_generation;   /* beyond those of earlier arrays: a handle of one that is gone resolves to nothing */
  uint32_t  age;                /* arrays made before it */
  bool      permanent;          /* made with the pool */
  uint8_t   place;              /* array_place_t */
  bool      unused;             /* without an object taken, since: */
  uint64_t  unused_since_ms;
  size_t    bytes;              /* of objects and records */
  size_t    record_bytes;
  bit_tree_t free;              /* a bit for each object */
  uint64_t *busy, *made;        /* NULL without hooks. made: constructed, or used before */
  uint64_t *in_batch;           /* BATCH_MAPS, for the batches of the pool's batch_at. NULL in a pool that does not evict */
} object_array_t;

typedef struct hot {
  void           *object;       /* NULL: none */
  uint64_t        state;        /* its puts, and what can be done with it: hot.h */
  object_array_t *array;
  uint32_t        position;     /* in its array */
} hot_t;

struct object_pool {
  hot_t    hot_single;          /* the hot object of a single-threaded pool */
  const char *walked;           /* where consecutive live objects were last walked to, in a single-threaded pool, */
  size_t   walked_bytes;        /* and how far the last of them is from there; 0: nothing is known */
  size_t   stride;
  object_array_t *only;         /* an array that can be walked without the lock; NULL: take the lock */
  hot_t    hot_shared;          /* the hot object of a pool that is not single-threaded */
  uint32_t mark;                /* OBJECT_POOL_MARK while it is live */
  uint32_t shared_mark;         /* the same, but only in a pool that is neither hooked nor single_thread */
  hot_t   *hot;                 /* the one of the two that may be other than none */
  uint64_t inverse;             /* of the odd part of the stride, modulo 2^64 */
  uint32_t shift;               /* and its power of two */
  bool     hooked;              /* an object needs more than a bit when it is got or put */
  bool     checked;
  bool     resets_on_put;
  bool     single_thread;
  bool     ending;              /* being destroyed: hooks may still get and put */
  uint8_t  when_full;
  lock_t   lock;
  object_array_t *current;
  uint32_t array_count;
  uint32_t unused_count;
  object_array_t *arrays[OBJECT_ARRAYS];
  size_t   capacity, max_capacity;
  size_t   taken, busy;         /* objects of all arrays */
  size_t   held_bytes;          /* by arrays */
  lock_t   growth;              /* held while an array is made, where no code of the program runs meanwhile; outside of all others */
  uint32_t arrays_made;
  uint32_t next_index;          /* behind the array that came last: those of arrays that went are used again as late as can be */
  uint32_t indices_before;      /* at most so many objects are in the pools that overflow to this one, and have the lower indices */
  uint64_t next_generation;
  uint32_t purge_delay_ms;
  size_t   object_size, alignment;
  bool   (*construct)(void *object, void *context);
  void   (*reset)(void *object, void *context);
  void   (*destruct)(void *object, void *context);
  void  *(*choose_victim)(object_pool_t *pool, void *context);
  void    *context;
  object_pool_t *overflow;
  bool     overflow_is_apart;   /* the record of that one is, and can be read for ever */
  uint32_t recounted_at;        /* how many pools that overflow had ended when indices were last recounted. Under heaps_lock, as */
  size_t   counted_before;      /* what that counts of each pool: the objects of those that overflow to it */
  heap_t  *heap;
  object_pool_t *next, *previous;   /* among all pools */
  object_pool_t *next_in_heap, *previous_in_heap;
  uint64_t batches;             /* that ever evicted here */
  uint64_t batch_at[BATCH_MAPS];    /* the number of the one whose objects have their bits in this map of in_batch; 0: none */
  uint32_t batch_maps_taken;    /* so often was one taken from another batch */
  const void *ender;            /* the thread that destroys it, */
  uintptr_t ender_frame;        /* and where on its stack */
  bool     is_apart;            /* this record is, and is used again for object pools alone */
  char     name[OBJECT_POOL_NAME_SIZE];
};
#define OBJECT_POOL_MARK 0x6c6f6f70u

/* A question changes nothing but the lock, and what is due by the clock. */
static inline object_pool_t *asked(const object_pool_t *pool) { return (object_pool_t *)(uintptr_t)pool; }

#endif
