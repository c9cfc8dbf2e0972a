/* SPDX-License-Identifier: MIT
 *
 * A thread's magazines, the fast path of the manager. For each size class the thread holds one loaded magazine and a stock
 * of full ones; allocation pops from the loaded one and free pushes to it, whoever allocated the block, without a lock, without
 * looking at the block, its slab or its neighbours.
 *
 * The top entry of the loaded magazine is kept beside the pointer to the one below it, so that an allocation is one
 * dependent load shorter: the plain stack loads a word that the last free has just stored to an address that hung on the
 * class map (cfrac 3.18 s without, 3.03 with). The entry after it is prefetched, since its user will write to it:
 *
 *     top: block handed out next, NULL: none        below -> entry n-1, n-2, ... 1, NULL
 *
 * Empty: top is NULL and `below` is the word under the floor, so that the first push stores the NULL that ends them.
 * Full: the word above that is the next magazine's. A class without a magazine, class 0, and every class of a thread that
 * has none point at a static magazine that is empty and full, so the slow path is found without a check of its own.
 *
 *   C1 every entry is a block of the class, and in no other place (S2)
 *   C2 a magazine in a stock is full to its last word; there are stock.count of them
 *   C3 an empty magazine that is put away, here or in a depot, has NULL in its last word
 *
 * Only the owner writes, or a thread that has claimed the cache (caches.h). No lock says when C1 and C2 hold: they do while the
 * owner is in no call. Others read figures with relaxed loads, which are exact then. */
#ifndef MAGAZINES_H
#define MAGAZINES_H

#include "bin/bin.h"
#include "os/thread_local.h"
#include "thread/allowance.h"

typedef struct loaded {
  void *top;
  void **below;
} loaded_t;

typedef struct cache {
  loaded_t of[CLASS_CACHED + 1];
} cache_t;

_Static_assert(CLASS_SCALE % sizeof(loaded_t) == 0, "what the table says is a place in a cache");

/* Where in a cache the magazine for a size is, in bytes; size <= SIZE_CACHED. */
static inline size_t loaded_place(size_t size) { return size_class_scaled(size) / (CLASS_SCALE / sizeof(loaded_t)); }

/* The static magazine that is empty and full: above its last word a push finds no room, and in it a pop finds nothing. */
extern INTERNAL void *magazine_sentinel[MAGAZINE_WORDS];
#define MAGAZINE_SENTINEL (&magazine_sentinel[MAGAZINE_WORDS - 1])

/* The default heap's cache of the calling thread. In place of malloc it is in the thread's own block, which is a load less. A
 * library that is opened at run time finds some 1.6 KiB there for itself and all others, so it has a pointer there instead, to
 * the cache in the thread's record or, where there is no record, to one that is empty and full. */
#ifdef TIDEPOOL_CACHE_IN_TLS
extern INTERNAL THREAD_LOCAL cache_t default_cache;
typedef loaded_t THREAD_SPACE *default_loaded_t;
static inline default_loaded_t default_loaded(size_t size_class)
{
  return THREAD_POINTER(loaded_t, default_cache, size_class * sizeof(loaded_t));
}
static inline default_loaded_t default_loaded_for(size_t size)
{
  return THREAD_POINTER(loaded_t, default_cache, loaded_place(size));
}
#else
extern INTERNAL THREAD_LOCAL cache_t *default_cache;
typedef loaded_t *default_loaded_t;
static inline default_loaded_t default_loaded(size_t size_class) { return &default_cache->of[size_class]; }
static inline default_loaded_t default_loaded_for(size_t size)
{
  return (loaded_t *)((char *)default_cache->of + loaded_place(size));
}
#endif

/* Pop and push are written once for both kinds of pointer. The owner's stores are relaxed atomics where the compiler can
 * say so (others read them for figures); in the thread's own address space a plain store is the same instruction. */
#ifdef UNDER_SANITIZER
#define OWNER_LOAD(place)         __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define OWNER_STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)
#define OWNER_STEP(place, words)  OWNER_STORE(place, (place) + (words))
/* clang 14 would lose the address space of the operand. */
#elif defined __x86_64__ && !defined __clang__
#define OWNER_LOAD(place)         (place)
#define OWNER_STORE(place, value) ((place) = (value))
#define OWNER_STEP(place, words)  __asm__("addq %1, %0" : "+m"(place) : "i"((words)*8) : "cc")
#else
#define OWNER_LOAD(place)         (place)
#define OWNER_STORE(place, value) ((place) = (value))
#define OWNER_STEP(place, words)  OWNER_STORE(place, (place) + (words))
#endif

#define MAGAZINE_POP(loaded) \
  (__extension__({ \
    __auto_type loaded_ = (loaded); \
    void *block_ = loaded_->top; \
    RESULT_REGISTER(block_); \
    if (likely(block_)) { \
      void **below_ = loaded_->below; \
      void *next_ = *below_; \
      __builtin_prefetch(next_, 1); \
      OWNER_STORE(loaded_->top, next_); \
      OWNER_STEP(loaded_->below, -1); \
    } \
    block_; \
  }))

#define MAGAZINE_PUSH(loaded, block) \
  (__extension__({ \
    __auto_type loaded_ = (loaded); \
    void **entry_ = loaded_->below + 1; \
    bool room_ = likely(!magazine_is_full_at(entry_)); \
    if (room_) { \
      OWNER_STORE(*entry_, loaded_->top); \
      OWNER_STORE(loaded_->top, (block)); \
      OWNER_STORE(loaded_->below, entry_); \
    } \
    room_; \
  }))

/* The magazines of one class that are not loaded, each list linked through word 0. */
typedef struct stock {
  void **full;
  void **empties;    /* that were full and have been used up */
  void **seen;       /* loaded.below at the last tick */
  uint8_t count;     /* of full ones */
  uint8_t low;       /* the fewest since the last tick */
  uint8_t exchanges; /* with the bin, beside many threads, since the class had no magazine */
  uint8_t magazines; /* that the thread has of the class, loaded and empty ones too, */
  uint32_t price;    /* and what each counts of its allowance: as much as the largest that it has noted */
} stock_t;

/* Everything a thread holds of one heap. */
typedef struct magazines {
  cache_t *cache;
  allowance_t *allowance;
  bool of_heap;   /* not the default one: other threads may flush them */
  uint8_t number; /* of the thread, modulo 256; it tells the shard of a depot where there are few processors */
  stock_t of[CLASS_CACHED + 1];
} magazines_t;

/* Without an allowance nothing is counted. */
void magazines_init(magazines_t *magazines, cache_t *cache, unsigned number, allowance_t *allowance, bool of_heap);

/* The loaded magazine is empty: a block from the stock, the bin's depot or its slabs. NULL: the bin has none. */
void *magazines_refill(magazines_t *magazines, bin_t *bin);

/* The loaded magazine is full (or there is none): the block goes to another one or, without memory for one, to the slabs. */
void magazines_overflow(magazines_t *magazines, bin_t *bin, void *block);

/* Gives everything of one class back to its bin. */
void magazines_flush(magazines_t *magazines, bin_t *bin);

/* Forgets all entries of one class, whose blocks have ended. The magazines themselves go to the bin. */
void magazines_drop(magazines_t *magazines, bin_t *bin);

/* What was not needed since the last call goes back to the bin: the whole of a class that was not used, the full magazines
 * that were never reached of one that was. */
void magazines_tick(magazines_t *magazines, bin_t *bin);

/* Says whether any class has a magazine. Any thread may ask. */
bool magazines_any(const magazines_t *magazines);

/* Returns a number that is another one, but by chance, once the magazines were used. Any thread may ask. */
uint64_t magazines_stamp(const magazines_t *magazines);

/* Forgets all loaded magazines: the cache is as before the thread's first one. */
void magazines_forget(cache_t *cache);

/* Returns how many bytes of the allowance the magazines of one class count. */
size_t magazines_counted(const magazines_t *magazines, const bin_t *bin);

/* Returns how many blocks of one class are in them. Any thread may ask. */
size_t magazines_count(const magazines_t *magazines, unsigned size_class);

/* Says whether `block` is in them. Any thread may ask; the answer is exact when the owner is quiet. */
bool magazines_hold(const magazines_t *magazines, unsigned size_class, const void *block);

/* Visits all blocks of one class. For magazines whose owner is not there any more. */
void magazines_each(const magazines_t *magazines, unsigned size_class, void (*visit)(const void *block, void *context),
                    void *context);

#endif
