/* SPDX-License-Identifier: MIT
 *
 * The parts of an object pool. A get or a put moves a bit, hooks run without the lock, and memory comes in arrays from a heap.
 *
 * An array is a block of the heap with the objects, and a record. A bit of the record says that an object is free. The lowest
 * free object is found in few steps (base/bits.h). The bits are the free list; there is no other.
 *
 *     | object | object | ... | record | level 0 | level 1 | ... | laps or busy, made | in_batch: evicts | uses[capacity] |
 *
 * The uses in a shared pool begin at a multiple of USES_TOGETHER (array.h).
 *
 * An object is free (its bit is set), live (with a user) or busy (a hook runs on it). No other thread sees a busy object, and
 * none can put it. A get moves an object from free to busy while it is constructed or reset, and then to live. A put moves it
 * from live to busy while it is reset or destructed, and then to free. If no hook has work to do, the object is never busy.
 *
 * The hot object was put last. Its state is in the pool, not in its array, so a get and a put of it are a test and an addition.
 * Only pools that have no hooks and are not checked have one.
 *
 *   O1 a bit of level 0 is set exactly for a free object, one of a higher level exactly for a word below that is not 0
 *   O2 taken == capacity - set bits of level 0; words of level 0 below `lowest` are 0
 *   O3 current, if it has a free object, is the oldest array that has one
 *   O4 the hot object is taken in its array; its state has the bit HOT_FREE or HOT_LIVE. Without both there is no hot object
 *   O5 busy objects, those with a hook running, are taken; they are not live
 *   O6 arrays are in ascending order of address; their ranges of indices do not overlap, and end below 2^32 - indices_before
 *   O7 every object from `walked` on, up to walked_bytes behind it, is taken and not busy
 *   O8 pool.capacity, taken and busy == the sums of the arrays'; unused_count == the unused arrays, which have no object taken
 *   O9 an object of the home array is live exactly if its uses say so (array.h); if it is taken and not live, it is in one
 *      thread's cache (cache.h), once
 *
 * They hold whenever the pool's lock is free. A pool of one thread has no lock: they hold between its calls, and while its
 * hooks run. O2, O5 and O8 no longer hold once a pool with hooks is being destroyed, as its objects become busy in turn.
 *
 * Order: the pool's lock protects the records of arrays, except the uses of objects in caches. A walk without the lock reads
 * bits with relaxed order. Each object that it returns was live at some moment of the call. The content of an object reaches
 * its next user by the lock's release and acquire, or stays with the thread that cached it. The lock is taken for the pool's
 * hot object, unless the process has one thread. */
#ifndef OBJECT_POOL_TYPES_H
#define OBJECT_POOL_TYPES_H

#include "base/bits.h"
#include "heap/heap.h"
#include "os/lock.h"
#include "os/tool.h"
#include <tidepool/object_pool.h>

enum {
  OBJECT_ARRAYS = 48, /* a growth step doubles the capacity, or adds at least a sixteenth if memory is short */
  BATCH_MAPS = 8,     /* the batches that may evict in one pool at once without taking each other's maps */
  OBJECT_SLOTS = 128, /* slots for pools with caches; slot 0 is for all others */
  OBJECT_STOCK = 62,  /* most objects of a thread's stock. Half of them and one more fill a stretch of uses (cache.c) */
  OBJECT_POOL_NAME_SIZE = 32
};

/* For words that other threads read without the lock. */
#define LOAD(place)         __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)
#define ADD(place, by)      STORE(place, (place) + (by))

typedef struct object_array {
  char *objects;
  uint32_t capacity;
  uint32_t taken; /* live, hot or busy objects */
  uint32_t *uses; /* gets of each object: gets_of() */
  uint32_t first_index;
  uint64_t first_generation; /* beyond those of earlier arrays, so the handles of a destroyed one resolve to nothing */
  uint32_t age;              /* arrays made before it */
  bool permanent;            /* made with the pool */
  bool is_outside;           /* the record is no block of a heap, if the heap allows: a write past an object cannot reach it */
  bool unused;               /* no object is taken, and the array may leave */
  uint64_t unused_since_ms;  /* if unused */
  size_t bytes;              /* of objects and record */
  size_t record_bytes;
  bit_tree_t free;
  word_t *laps;        /* NULL except in a home array: for each object, the bit above the 31 that count its puts */
  word_t *busy, *made; /* NULL without hooks. made: constructed, or used before */
  word_t *in_batch;    /* BATCH_MAPS maps for the batches of batch_at; NULL if the pool does not evict */
} object_array_t;

/* A thread's cache of one pool (cache.h): its hot object and a stock. */
typedef struct object_cache {
  void *hot;
  uint32_t *uses; /* of the hot object */
  union {
    struct {
      bool busy;        /* the owner is changing it */
      bool hot_is_free; /* else it is live, or there is none */
    };
    uint16_t busy_and_hot;
  };
  struct object_stock *stock;
} object_cache_t;

typedef struct object_stock {
  object_cache_t *cache; /* NULL: its thread has ended */
  object_pool_t *pool;
  struct object_stock *next; /* of the same pool, or unused */
  claim_t claim;
  uint32_t count, most;
  uint32_t positions[OBJECT_STOCK]; /* in the home array */
} object_stock_t;

typedef struct hot {
  void *object;   /* NULL: none */
  uint64_t state; /* its puts and two flags: array.h */
  object_array_t *array;
  uint32_t position;
} hot_t;

struct object_pool {
  hot_t hot_single;    /* of a single-threaded pool */
  const char *walked;  /* of a single-threaded pool: a walk found consecutive live objects from here on */
  size_t walked_bytes; /* each object in these bytes is followed by another live one */
  size_t stride;
  object_array_t *only; /* the array, if it can be walked without the lock */
  uint16_t slot; /* byte offset of the pool's cache in a thread's block; 0: none is used. It publishes what a claim flushed */
  uint16_t own_slot; /* the slot while caches are used */
  uint32_t mark;  /* OBJECT_POOL_MARK while it is live. The fields up to `hot` are read without the lock, and rarely written */
  uint32_t path;  /* the path of gets and puts while it is live: PATH_... */
  uint32_t shift; /* the power of two in the stride */
  uintptr_t inverse;             /* of the odd part of the stride, modulo 2^ADDRESS_BITS */
  object_array_t *home;          /* its free objects may be in caches; NULL: no caches */
  bool hooked;                   /* a get or a put is more than a bit */
  bool checked, checked_unasked; /* checked_unasked: only an option of the process asked for it */
  bool watched;                  /* by a tool */
  bool resets_on_put;
  bool single_thread;
  bool ending; /* being destroyed: hooks may still get and put */
  uint8_t when_full;
  object_pool_t *overflow;
  hot_t *hot; /* hot_single or hot_shared */
  lock_t lock;
  hot_t hot_shared; /* of any other pool */
  object_stock_t *stocks;
  uint32_t gets_without_cache; /* gets until caches are used again */
  bool claimed;                /* its caches are claimed, so `slot` stays 0 */
  object_array_t *current;
  uint32_t array_count;
  uint32_t unused_count;
  object_array_t *arrays[OBJECT_ARRAYS];
  size_t capacity, max_capacity;
  size_t taken, busy; /* objects of all arrays */
  size_t held_bytes;  /* by arrays */
  lock_t growth;      /* held while a get creates an array, unless that may call the program. Before all other locks */
  uint32_t arrays_made;
  uint32_t next_index;     /* beyond the newest array: indices are reused as late as possible */
  uint32_t indices_before; /* lower indices, for the objects of pools that overflow to this one */
  uint64_t next_generation;
  const void *created_by; /* return address of the call that made it */
  uint32_t purge_delay_ms;
  size_t object_size, alignment;
  bool (*construct)(void *object, void *context);
  void (*reset)(void *object, void *context);
  void (*destruct)(void *object, void *context);
  void *(*choose_victim)(object_pool_t *pool, void *context);
  void *context;
  heap_t *heap;
  object_pool_t *next, *previous; /* among all pools */
  object_pool_t *next_in_heap, *previous_in_heap;
  uint64_t batches;              /* that ever evicted here */
  uint64_t batch_at[BATCH_MAPS]; /* the number of the batch that has this map of in_batch; 0: none */
  uint32_t batch_maps_taken;     /* how often a batch took another's map */
  const void *ender;             /* the thread that destroys the pool */
  uintptr_t ender_frame;         /* the beginning of the destruction on its stack */
  bool is_outside;               /* this record is no block of a heap; it serves only pools */
  char name[OBJECT_POOL_NAME_SIZE];
};
#define OBJECT_POOL_MARK 0x6c6f6f70u
#define PATH_SINGLE      (OBJECT_POOL_MARK + 1)
#define PATH_SHARED      (OBJECT_POOL_MARK + 2)
#define PATH_HOOKED      (OBJECT_POOL_MARK + 3)

/* Firmware has no threads whose caches would hold objects. */
enum { HAS_CACHES = HAS_SYSTEM };
static inline object_array_t *home_of(const object_pool_t *pool) { return HAS_CACHES ? pool->home : NULL; }

/* These ask for features that firmware may leave out. Checks are a kind of hook. */
static inline bool is_checked(const object_pool_t *pool) { return HAS_CHECKS && pool->checked; }
static inline bool is_hooked(const object_pool_t *pool) { return (HAS_HOOKS || HAS_CHECKS) && pool->hooked; }
static inline bool may_grow(const object_pool_t *pool) { return HAS_GROWTH && pool->when_full == OBJECT_POOL_GROW; }
static inline bool may_evict(const object_pool_t *pool) { return HAS_EVICTION && pool->when_full == OBJECT_POOL_EVICT; }
static inline object_pool_t *overflow_of(const object_pool_t *pool) { return HAS_OVERFLOW ? pool->overflow : NULL; }
static inline bool has_unused(const object_pool_t *pool) { return HAS_GROWTH && pool->unused_count; }
static inline bool may_have_unused(const object_pool_t *pool) /* without the lock */
{
  return HAS_GROWTH && LOAD(pool->unused_count);
}
static inline word_t *busy_of(const object_array_t *array) { return HAS_HOOKS || HAS_CHECKS ? array->busy : NULL; }
static inline bool is_unused(const object_array_t *array) { return HAS_GROWTH && array->unused; }

/* ---- memory tools (os/tool.h) ----
 *
 * Objects are parts of an array, so they cannot be blocks of malloc. The tool is told of each get and put. Free objects and the
 * bytes between objects are closed. A watched pool counts as hooked, so it has neither caches nor a hot object. */

/* If a leak search covers the manager's memory, arrays stay there and reports name objects. Otherwise arrays are blocks of
 * malloc, through which the search finds what objects refer to. */
static inline bool watch_keeps_arrays(void) { return os_tool.sees_all; }

/* A leak search that covers only malloc's memory needs the records of pools and arrays there too, or it ends at the pool. */
static inline bool watch_keeps_records(void) { return os_tool.allocates && !os_tool.sees_all; }

static inline bool objects_are_watched(void) { return os_tool.sees_bytes || os_tool.sees_orders; }
static inline bool is_watched(const object_pool_t *pool) { return HAS_TOOLS && unlikely(pool->watched); }

/* Returns the bytes between two objects, and in front of the first one behind a record. */
static inline size_t watch_zone(void) { return os_tool.sees_bytes ? OS_TOOL_ZONE : 0; }

/* A question changes only the lock, and what is due by the clock. */
static inline object_pool_t *asked(const object_pool_t *pool) { return (object_pool_t *)(uintptr_t)pool; }

#endif
