/* SPDX-License-Identifier: MIT
 *
 * A thread's magazines, the fast path of the manager, and its allowance for them. The thread has one loaded magazine and a
 * stock of full ones for each size class. Allocations pop from the loaded magazine and frees push to it, whichever thread
 * allocated the block. They take no lock, and do not read the block, its slab or its neighbours.
 *
 * The top entry of the loaded magazine is kept beside the pointer to the entry below it, which saves an allocation one
 * dependent load. A plain stack would load a word that the last free has just stored, to an address that depended on the class
 * map (cfrac takes 3.03 s, and 3.18 s with a plain stack). The next entry is prefetched, since its user will write to it:
 *
 *     top: block handed out next, NULL: none        below -> entry n-1, n-2, ... 1, NULL
 *
 * Empty: top is NULL and `below` is the word under the floor, so the first push stores the NULL that ends the entries. Full:
 * the word above `below` belongs to the next magazine. A class without a magazine, class 0, and every class of a thread without
 * a record point to a static magazine that is both empty and full, so they reach the slow path without another test.
 *
 *   C1 every entry is a block of the class, and in no other place (S2)
 *   C2 a magazine in a stock is full to its last word; there are stock.count of them, and none has more than bin.magazine_most
 *   C3 an empty magazine that is put away, here or in a depot, has NULL in its last word
 *
 * Only the owner writes, or a thread that has claimed the cache (thread.h). C1 and C2 hold while the owner is in no call. Other
 * threads read figures by relaxed loads, which are exact then. */
#ifndef THREAD_MAGAZINES_H
#define THREAD_MAGAZINES_H

#include "base/bits.h"
#include "base/machine.h"
#include "bin/bin.h"

/* ---- allowances ----
 *
 * The caches of all threads share one budget of bytes. Each thread has an allowance from it, for its magazines of all heaps and
 * its spares. A magazine counts as if it were full, with its own 512 bytes.
 *
 * A thread's share is the budget divided by the number of threads. Its allowance begins with 1/16 of the share, and grows by
 * such steps while the thread caches more, up to the share and until the budget is spent. So a thread that caches little has a
 * small allowance, also while it sleeps. Each thread has at least ALLOWANCE_LEAST: 1,000 threads hold at most the budget and 16
 * MiB.
 *
 *   W1 the allowances of all live threads add up to what is granted
 *   W2 left == allowed - bytes counted for default_magazines and for spares; of_heaps == bytes counted for the magazines in
 *      heap_cache_t
 *
 * W1 holds whenever threads_lock is free and no thread is in a call; W2 while the thread is in no call. */

enum {
  ALLOWANCE_LEAST = 16 << 10,
  ALLOWANCE_STEPS = 16,          /* in a share */
  THREADS_MANY = 5,              /* with fewer threads, more exchanges would cost more than the memory saves */
  ALLOWANCE_MAGAZINE = 4,        /* the largest magazine takes 1/4 of an allowance, so that a few classes have room */
  MAGAZINE_BYTES_MOST = 97 << 10 /* the most that a magazine counts */
};

/* Only the owner changes the fields. The exception is of_heaps: a thread that flushes the magazines of a heap lowers it. */
typedef struct allowance {
  uint32_t slow_paths; /* taken so far; a thread checks its allowance after every few of them */
  ptrdiff_t left;      /* bytes that the thread may still cache; below 0 it checks at once */
  size_t allowed;
  size_t of_heaps;
  bool tight; /* the largest magazines would exceed their part, or threads are many; any thread may read it */
} allowance_t;

/* With many threads, a class begins with magazines of two blocks, which double after every eight exchanges with the bin. So a
 * thread that does little leaves most of a page to other threads. */
static inline bool threads_are_many(void) { return __atomic_load_n(&bin_threads, __ATOMIC_RELAXED) >= THREADS_MANY; }

extern INTERNAL allowance_t allowance_of_nobody;

/* Sets the budget at startup, before any thread has an allowance. It is at most 1/32 of a memory limit. */
void allowances_init(size_t budget);
size_t allowances_budget(void);

/* Divides the budget among `threads`. Called under threads_lock. */
void allowances_divide(size_t threads);

/* Takes back all allowances except the caller's, or all if `own` is NULL. For the child of a fork. */
void allowances_forget_others(const allowance_t *own);

void allowance_begin(allowance_t *allowance);
void allowance_end(allowance_t *allowance);

/* Grows the allowance by a step. Returns false if the thread has its share or the budget is spent. */
bool allowance_grow(allowance_t *allowance);

/* Returns an unused step, and everything beyond the share. */
void allowance_shrink(allowance_t *allowance);

static inline ptrdiff_t allowance_left(const allowance_t *allowance)
{
  return allowance->left - (ptrdiff_t)__atomic_load_n(&allowance->of_heaps, __ATOMIC_RELAXED);
}

/* Counts bytes that the thread caches more. A thread beyond its allowance checks it at the next slow path. Other threads need
 * no comparison at each slow path. */
static inline void allowance_look_soon(allowance_t *allowance) { allowance->slow_paths = UINT32_MAX; }
static inline void allowance_use(allowance_t *allowance, ptrdiff_t bytes)
{
  allowance->left -= bytes;
  if (unlikely(allowance->left < 0))
    allowance_look_soon(allowance);
}

size_t allowance_share(void);

size_t allowances_granted(void);

/* ---- magazines ---- */

typedef struct loaded {
  void *top;
  void **below;
} loaded_t;

typedef struct cache {
  loaded_t of[CLASS_CACHED + 1];
} cache_t;

_Static_assert(CLASS_SCALE % sizeof(loaded_t) == 0, "what the table says is a place in a cache");

/* Returns the offset of the magazine for a size in a cache, in bytes; size <= SIZE_CACHED. */
static inline size_t loaded_place(size_t size) { return size_class_scaled(size) / (CLASS_SCALE / sizeof(loaded_t)); }

/* The static magazine that is empty and full: a push finds no room above its last word, and a pop finds nothing in it. */
extern INTERNAL void *magazine_sentinel[MAGAZINE_WORDS];
#define MAGAZINE_SENTINEL (&magazine_sentinel[MAGAZINE_WORDS - 1])

/* The default heap's cache of the calling thread. The malloc library keeps it in thread-local memory, which saves a load. A
 * library that is loaded at run time shares about 1.6 KiB of that with all others. So it keeps a pointer there, to the cache in
 * the thread's record or to the one that is empty and full. */
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

/* Pop and push are macros, because there are two kinds of pointer. The owner's stores must be atomic for threads that read
 * figures. Under a sanitizer they are relaxed atomics; elsewhere a plain store is the same instruction.
 *
 * OWNER_PUBLISH stores a pointer to entries, after the entries. A reader that found the pointer but not the entry would read
 * the old word in its place, and take a live block for a free one. A load by that pointer depends on it, so the reader needs no
 * order. arm64 has an instruction for it. Processors for x86 store in program order, so only the compiler must keep the order;
 * atomic functions of gcc do not take places that are relative to a segment register. */
#if defined __x86_64__ || defined __i386__
#define OWNER_PUBLISH(place, value) (__atomic_signal_fence(__ATOMIC_RELEASE), OWNER_STORE(place, value))
#else
#define OWNER_PUBLISH(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELEASE)
#endif
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
      OWNER_PUBLISH(loaded_->below, entry_); \
    } \
    room_; \
  }))

/* The magazines of one class that are not loaded; word 0 links each list. */
typedef struct stock {
  void **full;
  void **empties; /* used up */
  void **seen;    /* loaded.below at the last tick */
  uint8_t count;
  uint8_t low;       /* the fewest since the last tick */
  uint8_t exchanges; /* with the bin while threads are many, since the class had no magazine */
  uint8_t magazines; /* all that the thread has of the class, including loaded and empty ones */
  uint32_t price;    /* bytes of the allowance that each counts, as much as the largest so far */
} stock_t;

/* The magazines that a thread has of one heap. */
typedef struct magazines {
  cache_t *cache;
  allowance_t *allowance;
  bool others_flush; /* other threads may flush them: they are in a heap_cache_t */
  uint8_t number;    /* of the thread, modulo 256; chooses the shard while a bin has few depots */
  stock_t of[CLASS_CACHED + 1];
} magazines_t;

/* Without an allowance nothing is counted. */
void magazines_init(magazines_t *magazines, cache_t *cache, unsigned number, allowance_t *allowance, bool others_flush);

/* For an empty loaded magazine: returns a block from the stock, the bin's depot or its slabs; NULL if the bin has none. */
void *magazines_refill(magazines_t *magazines, bin_t *bin);

/* For a full loaded magazine, or none: the block goes to another magazine or, without memory for one, to the slabs. */
void magazines_overflow(magazines_t *magazines, bin_t *bin, void *block);

void magazines_flush(magazines_t *magazines, bin_t *bin);

/* Forgets all entries of one class, whose blocks have ended. The magazines go to the bin. */
void magazines_drop(magazines_t *magazines, bin_t *bin);

/* Returns to the bin: everything of a class that was unused since the last call, and full magazines that were never reached. */
void magazines_tick(magazines_t *magazines, bin_t *bin);

/* Returns whether any class has a magazine. Any thread may call it. */
bool magazines_any(const magazines_t *magazines);

/* Returns a number that very likely changes when the magazines are used. Any thread may call it. */
uint64_t magazines_stamp(const magazines_t *magazines);

/* Forgets all loaded magazines. The cache is then as new. */
void magazines_forget(cache_t *cache);

size_t magazines_counted(const magazines_t *magazines, const bin_t *bin);

/* Returns the most blocks of a class that they may hold, without reading them, for the owner. */
size_t magazines_most(const magazines_t *magazines, const bin_t *bin);

/* Returns how many blocks of one class they hold. Any thread may call it. */
size_t magazines_count(const magazines_t *magazines, unsigned size_class);

/* Returns whether they hold `block`. Any thread may call it; the result is exact while the owner is in no call. */
bool magazines_hold(const magazines_t *magazines, unsigned size_class, const void *block);

/* Visits all blocks of one class. For magazines of lost threads. */
void magazines_each(const magazines_t *magazines, unsigned size_class, void (*visit)(const void *block, void *context),
                    void *context);

#endif
