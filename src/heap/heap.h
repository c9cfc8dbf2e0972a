/* SPDX-License-Identifier: MIT
 * The struct of a heap, the default heap, the list of all heaps, and of each heap its records, bins and classes. */
#ifndef HEAP_HEAP_H
#define HEAP_HEAP_H

#include "base/granules.h"
#include "misuse.h"
#include "os/tool.h"
#include "space/huge.h"
#include "thread/thread.h"
#include <tidepool/heap.h>

/* ---- the struct ----
 *
 * A heap has one bin for each size class, large blocks, a budget, and counters. This folder serves requests that the fast path
 * cannot serve, and looks up pointers that the class map does not know. The fast paths (in api/) pop and push without this
 * folder. Heaps without a fast path, and the requests that it passes on, pop their magazines here.
 *
 * A heap takes its slabs and runs from the process's space, or from a region of its own: the caller's memory, a reserve, or,
 * for a small budget, as much as the budget allows. A region of up to 8 MiB has no room for slabs of many classes. It is cut
 * into granules, of which blocks of any size consist (granular.h).
 *
 *   H1 a bin exists from the first request of its class on and stays as long as the heap
 *   H2 budget.held == head_bytes, the records, the slabs of all bins, the large and huge blocks, as far as they are not in
 *      a prepaid region, the used pages of granules, and the bytes held by heaps whose parent this is
 *   H3 the list of large runs holds exactly the heap's runs of the kinds RUN_LARGE and RUN_SPARE
 *
 * H2 does not hold inside calls that take or return memory: memory is charged before it is taken and discharged after it is
 * returned. H3 does not hold inside the gate of large blocks, where a run is linked before its kind is set. */

enum { HEAP_NAME_SIZE = 32 };
#define HEAP_LIVE_MARK ((uint64_t)0x6c6f6f7065646974) /* "tidepool" in memory */

typedef struct pool_heap heap_t;
typedef bool heap_exhausted_fn(heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);

typedef struct request {
  size_t size, alignment;
  origin_t by;
  struct located *from; /* NULL, or a block that may grow into the result in place or by moving its pages */
  bool zero;            /* the block has to read as zero */
  bool together;        /* the block must not be standalone */
  bool drawn;           /* this request becomes a sample in any case */
  bool counted;         /* a profile has counted the request */
  bool in_profile;      /* result of that: the block has to enter the profile */
  bool grown;           /* result: `from` has become the block */
  bool in_granules;     /* result: the block was cut from granules */
  bool standalone;      /* result: the block is standalone */
  block_past_t past;    /* result: the former contents */
  size_t usable;        /* result: bytes of the block */
  heap_t *heap;         /* result: the block's heap */
} request_t;

/* Takes a block without giving anything up for it. NULL: there is no memory, or no budget. */
typedef void *heap_take_fn(heap_t *heap, request_t *r);

/* The system's memory is granules in a run or a huge block, or units in slots of the window. */
typedef enum region_kind {
  REGION_NONE,      /* in the process's space */
  REGION_GUEST,     /* in the caller's memory, the heap itself and all records too */
  REGION_OF_SYSTEM, /* in the system's memory, charged as it is used */
  REGION_PREPAID    /* in the system's memory, charged as a whole at creation: a reserve */
} region_kind_t;

/* Properties of a heap are bits of one word beside POOL_HEAP_CHECKED and other flags of the interface. The word does not change
 * once another thread can find the heap. */
enum {
  HEAP_CACHED = 1 << 16,                             /* threads may cache its blocks */
  HEAP_WITHIN_REACH = 1 << 17,                       /* other threads can reach what a thread has cached of it */
  HEAP_PLAIN_GRANULES = 1 << 18,                     /* its region is of granules whose blocks need no head and no wipe */
  HEAP_GUARDED_UNASKED = 1 << 19,                    /* guarded by a process option alone: not beside a budget */
  HEAP_MARKED = 1 << 20,                             /* a tool is told which of its memory may be touched: a guest with heads */
  HEAP_MARKED_INSIDE = 1 << 21,                      /* that memory is in a block of another such guest */
  HEAP_HEADED = POOL_HEAP_CHECKED | POOL_HEAP_SITES, /* any of these: its blocks have heads (heap/debug_hooks.h) */
  HEAP_REAL_TIME = POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY /* its pages are in memory from the start, and never returned */
};

/* Freed blocks that are withheld for a while (debug/quarantine.h). */
typedef struct quarantine {
  char *first, *last; /* oldest, newest */
  uint32_t bytes;
  uint32_t blocks_of_no_bin; /* blocks that are of no bin */
} quarantine_t;

typedef struct heap_region {
  uint8_t kind;   /* region_kind_t; the other fields are for heaps with a region */
  bool locked;    /* its pages stay in memory */
  uint32_t gives; /* large frees so far; with granules, frees that left a page unused */
  uint32_t purge_delay_ms;
  char *start; /* its units or granules, or the caller's memory */
  size_t size;
  range_t guest;       /* REGION_GUEST: the caller's memory, in the tree of all guests */
  heap_t *around;      /* REGION_GUEST: the guest whose memory it is in */
  granules_t granules; /* map NULL: the region is of units */
  char *base;          /* address of granule 0 */
  /* The record of a guest of granules ends here. */
  word_t *dirty, *idle; /* granules of the system: pages that hold only old data, and those that did so at the last tick */
  uint64_t ticked_ms, purged_bytes;
  uint32_t ticked_page; /* where a round over the idle pages continues; 0: none is under way */
  run_t *run;           /* granules of the system: one of the two */
  huge_t *huge;
  void *records; /* granules of the system: the index, and `dirty` and `idle` */
  size_t record_bytes;
  space_t space;          /* a region of units as a space */
  arena_t arena;          /* a guest's units */
  struct pool_heap *next; /* the next heap with a region of units, during a fork */
} heap_region_t;

/* Firmware has only guests of granules. */
static inline bool region_is_guest(const heap_region_t *region) { return !HAS_SYSTEM || region->kind == REGION_GUEST; }
static inline bool region_is_prepaid(const heap_region_t *region) { return HAS_SYSTEM && region->kind == REGION_PREPAID; }

struct pool_heap {
  /* A fork reads these fields of each of thousands of heaps, so they are adjacent. */
  uint64_t mark;       /* HEAP_LIVE_MARK until the heap is destroyed */
  lock_t lock;         /* protects creation of bins, the list of large runs, granules, and records */
  heap_t *next;        /* in the list of all heaps */
  unsigned bins_end;   /* beyond the highest class that has a bin; stored before the bin */
  uint8_t class_count; /* own classes are numbered 1 to class_count; 0: the built-in table */
  bool has_lines;      /* a profile has lines of it, all of which belong to this use of the record */
  uint32_t flags;      /* POOL_HEAP_CHECKED and others, HEAP_CACHED and others */
  budget_t budget;
  space_t *space;                   /* the process's, or its region's; NULL: a guest of granules */
  uint32_t class_most;              /* larger requests take runs of their own */
  heap_take_fn *take;               /* NULL: heap_take_plain(). Stored with release, by a profile while others allocate */
  const uint32_t *class_sizes;      /* class 0 included */
  huge_t *huge;                     /* newest of its mappings; under huge_lock */
  run_t *large;                     /* newest of its large runs and spares */
  size_t large_blocks, large_bytes; /* live large and huge blocks, and their usable bytes */
  size_t large_held;                /* bytes held by these and by spares */
  uint64_t exhausted_count, retried_count, overflowed_count;
  uint64_t purged_bytes; /* by its own trims, if it has no region to count them */
  heap_exhausted_fn *on_exhausted;
  void *context;
  union {
    reach_list_t reach;      /* caches that may hold blocks, if the heap is within reach */
    quarantine_t quarantine; /* if the heap is checked: no thread caches its blocks then */
  };
  heap_t *parent, *overflow;
  heap_t *previous;                 /* in the list of all heaps but the default one */
  struct object_pool *object_pools; /* its object pools, newest first; under heaps_lock */
  size_t users;                     /* heaps that have it as parent or overflow; under heaps_lock */

  size_t head_bytes;           /* bytes held by the heap's own records from the start */
  size_t metadata_bytes;       /* part of head_bytes that is for no block */
  size_t metadata_shared;      /* part of metadata_bytes that is the process's metadata; constant */
  size_t record_bytes;         /* charged for later records */
  size_t record_run_bytes;     /* runs with records of a guest, or of the default heap */
  char *records, *records_end; /* room for more records, paid for; a guest and the default heap go on in runs */
  void *records_start;         /* records of a reserve, reserve_records bytes */
  size_t reserve_records;
  char name[HEAP_NAME_SIZE];
  heap_region_t region;
  const struct block_source *source; /* the source of all blocks (heap/large.h); NULL: of samples at most */
  bin_t *bins[CLASS_COUNT];          /* NULL: no request of the class yet. Published with release, read with acquire */
};

/* The record of a guest of granules is shorter: no bins, no space. Its index behind it is aligned to 8 bytes. */
enum {
  HEAP_RECORD_END = offsetof(heap_t, region) + offsetof(heap_region_t, dirty),
  HEAP_RECORD_SHORT = (HEAP_RECORD_END + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t),
  HEAP_RECORD_SHORT_MOST = 512
};
_Static_assert(HEAP_RECORD_SHORT <= HEAP_RECORD_SHORT_MOST, "a heap in a small memory leaves it to the blocks");

/* Returns false for NULL and for a destroyed heap, whose record is reused only for heaps. */
static inline bool heap_is_live(const heap_t *heap) { return heap && heap->mark == HEAP_LIVE_MARK; }

#define HEAP_LOCKED(heap) \
  __attribute__((cleanup(lock_leave_scope), unused)) lock_t *locked = \
    (closure_acquire(LOCKS_OF_HEAPS, &(heap)->lock), &(heap)->lock)

/* These ask for features that firmware may leave out. */
static inline bool heap_is_checked(const heap_t *heap) { return HAS_CHECKS && heap->flags & POOL_HEAP_CHECKED; }
static inline bool heap_is_headed(const heap_t *heap) { return HAS_CHECKS && heap->flags & HEAP_HEADED; }
static inline bool heap_is_marked(const heap_t *heap) { return HAS_TOOLS && unlikely(heap->flags & HEAP_MARKED); }
static inline heap_t *heap_overflow(const heap_t *heap) { return HAS_OVERFLOW ? heap->overflow : NULL; }

/* The memory of a block with a head holds more than the block (heap/debug_hooks.h). */
enum {
  HEAD_FRONT = 64,                      /* bytes in front of the block, at least: they keep the alignment of a cache line */
  HEAD_BEHIND = 32,                     /* bytes behind the block */
  HEAD_BYTES = HEAD_FRONT + HEAD_BEHIND /* added to a request with an alignment of up to HEAD_FRONT */
};

/* Returns the bytes that hold a block for a request. A size too large for any heap stays too large. Memory that begins at a
 * multiple of the alignment has an aligned block. */
static inline size_t headed_size(size_t size, size_t alignment)
{
  size_t more = max_size(HEAD_FRONT, alignment) + HEAD_BEHIND;
  return size < SIZE_MAX - more ? size + more : SIZE_MAX;
}

enum { GRANULE_LOG2 = 4 };
#define GRANULE ((size_t)1 << GRANULE_LOG2)

static inline size_t granules_for(size_t size) { return max_size((size + GRANULE - 1) >> GRANULE_LOG2, GRANULES_LEAST); }

static inline bool heap_has_granules(const heap_t *heap) { return !HAS_SYSTEM || heap->region.granules.map != NULL; }

/* Returns the arena of the heap's region; NULL: it has no region, or one of granules. */
static inline arena_t *heap_own_arena(const heap_t *heap)
{
  return heap_has_granules(heap) ? NULL : heap->region.space.own_arena;
}

/* A heap in the caller's memory has no other memory. */
static inline bool heap_is_guest(const heap_t *heap) { return region_is_guest(&heap->region); }

/* ---- records ----
 *
 * A heap needs memory for its bins, its table of classes, and the records of its object pools. That memory is paid for at
 * creation if growth must not fail. It is in the caller's memory if the heap is. Otherwise it is the process's metadata. */

/* Take zeroed memory, charged to the heap until it is given back or the heap ends. heap_take_record() is called under the
 * heap's lock. heap_take_record_outside() serves the layers above and not for guests. */
void *heap_take_record(heap_t *heap, size_t size);
void *heap_take_record_outside(heap_t *heap, size_t size);
void heap_give_record(heap_t *heap, void *record, size_t size);

/* Returns whether the layers above can have records outside of its blocks: not in a caller's memory, nor if nothing may be
 * faulted in. */
static inline bool heap_has_records_outside(const heap_t *heap)
{
  return !heap_is_guest(heap) && !(heap->flags & HEAP_REAL_TIME);
}

/* Charge the heap for a record that is kept elsewhere. False: the budget is exhausted. */
bool heap_charge_record(heap_t *heap, size_t size);
void heap_discharge_record(heap_t *heap, size_t size);

/* ---- the list of heaps, bins and classes ---- */

extern INTERNAL heap_t default_heap; /* the heap behind pool_alloc() */
static inline bool heap_is_default(const heap_t *heap) { return heap == &default_heap; }

/* Brings the process-wide state up if the heap needs it. Returns false if the system refuses. */
bool heap_is_ready(const heap_t *heap);

/* The process-wide state is up (heap/life.h). No block exists before that. Stored last, with release. */
extern INTERNAL bool manager_came_up;
static inline bool manager_is_up(void) { return likely(__atomic_load_n(&manager_came_up, __ATOMIC_ACQUIRE)); }

/* Protects the list of heaps, and keeps their records for threads that find a run by its address and look at its bin. */
extern lock_t heaps_lock;
heap_t *heaps_first(void); /* the default heap; NULL: firmware has none */

/* Returns the first heap from `heap` on, itself included, that has locks. Single-threaded heaps have none. */
heap_t *heaps_shared_from(heap_t *heap);

/* The layer of object pools. Called under heaps_lock when a heap with object pools is about to end all its blocks, and around
 * forks of a process with threads. Called without the lock by a thread that ends. */
struct object_pool_figures;
typedef void heap_dependent_visit_fn(const struct object_pool_figures *figures, void *context);
typedef struct heap_dependents {
  void (*verify)(heap_t *heap, bool alone,
                 const char *call); /* verifies objects that were put; without the lock. NULL: of all heaps */
  void (*drop)(heap_t *heap);
  void (*visit)(heap_dependent_visit_fn *visit, void *context); /* without the lock */
  void (*thread_ends)(void);
  void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
} heap_dependents_t;
extern const heap_dependents_t *heap_dependents; /* NULL: no object pool exists yet. Set once, under heaps_lock */

/* Questions of object pools that keep objects in threads. heap_reaches_threads(): a caller can wait until a thread is in no
 * call (os_fence_others). heap_watches_thread(): the calling thread's end will be noticed. */
static inline bool heap_reaches_threads(void) { return threads_can_be_reached; }
static inline bool heap_watches_thread(void) { return thread_current() != NULL; }

/* Called before the default heap has a bin. */
void heap_size_depots(unsigned processors);

static inline bool heap_is_bounded(const heap_t *heap)
{
  while (heap && !budget_limit(&heap->budget))
    heap = heap->parent;
  return heap != NULL;
}

/* Returns how the heap serves requests if not by heap_take_plain(): its blocks, or samples of them, may be standalone. Not NULL
 * before the manager is up, so that heap_serve() serves the very first request. */
static inline heap_take_fn *heap_take_otherwise(const heap_t *heap) { return __atomic_load_n(&heap->take, __ATOMIC_ACQUIRE); }
static inline bool heap_may_have_standalone(const heap_t *heap) { return unlikely(heap_take_otherwise(heap) != NULL); }

/* Takes from a magazine, a bin, a run, a mapping, or granules. */
void *heap_take_plain(heap_t *heap, request_t *r);

static inline bin_t *published_bin(const heap_t *heap, unsigned size_class)
{
  return __atomic_load_n(&heap->bins[size_class], __ATOMIC_ACQUIRE);
}
bin_t *heap_bin(heap_t *heap, unsigned size_class); /* creates it if needed; NULL: no memory */

/* Returns the bin of class `from` or the next one that exists; NULL: none. Heaps of granules have no bins. */
bin_t *heap_bin_from(const heap_t *heap, unsigned from);
#define FOR_EACH_BIN(bin, heap) for (bin_t *bin = heap_bin_from(heap, 1); bin; bin = heap_bin_from(heap, bin->size_class + 1u))

void heap_each_cached_bin(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *magazines, bin_t *bin));

static inline void heap_flush_magazines(magazines_t *magazines, heap_t *heap)
{
  heap_each_cached_bin(magazines, heap, magazines_flush);
}

/* Returns a thread's magazines of the heap; NULL: none. Under threads_lock. */
static inline const magazines_t *heap_magazines_in(const thread_t *thread, const heap_t *heap)
{
  return heap_is_default(heap) && !(heap->flags & HEAP_WITHIN_REACH) ? &thread->default_magazines
                                                                     : thread_magazines_if_any(thread, heap);
}

/* Returns whether threads find their magazines by the heap's address, for the fast path: the class follows from the size. */
static inline bool heap_has_cache_slot(const heap_t *heap)
{
  return heap->flags & HEAP_CACHED && !heap->overflow && !heap->class_count;
}

/* Returns the calling thread's magazines of the heap, with which it is busy until it leaves. NULL: it has none. */
magazines_t *heap_enter(heap_t *heap, thread_t *thread);
static inline void heap_leave(heap_t *heap, thread_t *thread)
{
  if (!heap_is_default(heap) || heap->flags & HEAP_WITHIN_REACH)
    thread_leave(thread);
}

static inline uint32_t heap_purge_delay_ms(const heap_t *heap)
{
  return heap_has_granules(heap) ? heap->region.purge_delay_ms : heap->space->purge_delay_ms;
}

uint32_t heap_block_size(const heap_t *heap, unsigned size_class);
size_t heap_good_size(const heap_t *heap, size_t size);

/* Returns the size of the block of granules that serves a size: that of a class if the heap has its own. */
size_t heap_own_class_size(const heap_t *heap, size_t size);
static inline size_t heap_granular_size(const heap_t *heap, size_t size)
{
  return HAS_SYSTEM && unlikely(heap->class_count) ? heap_own_class_size(heap, size) : size;
}

/* Returns the class that serves a size at an alignment. 0: the block is a run or a mapping. */
unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment);

#endif
