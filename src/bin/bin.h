/* SPDX-License-Identifier: MIT
 *
 * A bin serves one size class of one heap: its slabs and its depots of spare magazines. The slabs have a lock, and each depot.
 *
 * A thread keeps a small stock of full magazines. Further blocks go back to the bitmaps, because a refill from there is in
 * address order and reunites the objects of a user (Lua: 3.7 s if half the class may stay in magazines, 2.2 s with a 64th). The
 * exception is blocks that one thread frees and another allocates: the depots take whole magazines of them, last in first out.
 *
 *   B1 outstanding == blocks of all slabs that are neither free bits nor fresh: with callers, in magazines, in the depots
 *   B2 a slab is in the list that its free count says: slab_list_of(); only `current` and slabs whose blocks are all fresh, in
 *      the list SLAB_RESET, have fresh blocks
 *   B3 idle == idle blocks of all slabs, and returned_bytes == the length of their purged parts
 *   B4 a bin with a slab without an outstanding block says may_have_unused, unless a request has just opened that slab
 *
 *   D2 a bin with magazines in its depots is due, unless it is single-threaded: ticks empty what is not needed
 *   D3 a bin whose depots are in use (shards) is in the list for forks (bins_with_depots), unless it is single-threaded; the
 *      others have nothing there
 *
 * The invariants hold whenever the bin's lock is free; D2 also needs the depots' locks free and no thread in a call. For a
 * single-threaded bin, which has no lock, they hold between its calls. The holder of the bin's lock owns a magazine on the way
 * from a depot to the bitmaps. */
#ifndef BIN_BIN_H
#define BIN_BIN_H

#include "base/bits.h"
#include "base/low_water.h"
#include "bin/depot.h"
#include "size_class.h"
#include "space/space.h"

/* i = offset * inverse >> INVERSE_SHIFT is offset / size without a division: exact while offset * size < 2^INVERSE_SHIFT, which
 * holds for a slab of up to 8 blocks of 256 KiB. */
enum { INVERSE_SHIFT = 40 };
static inline uint64_t slab_inverse(size_t block_size)
{
  return (((uint64_t)1 << INVERSE_SHIFT) + block_size - 1) / block_size;
}

/* Lists of slabs by how many of their blocks are free, in quarters. Blocks are taken from the fullest, so that the emptiest
 * become unused. The current slab may be in SLAB_NONE_FREE and have fresh blocks.
 *
 * Idle blocks came back since a purge last visited their slab, and are still free. A slab that has free blocks but no idle ones
 * is settled: everything that could be purged is. Blocks are taken from it last. */
enum { SLAB_NONE_FREE, SLAB_PARTIAL_1, SLAB_PARTIAL_2, SLAB_PARTIAL_3, SLAB_PARTIAL_4, SLAB_SETTLED, SLAB_RESET, SLAB_LISTS };

typedef struct bin {
  /* Data read without the lock has its own cache line. */
  uint32_t block_size;
  uint32_t slab_bytes; /* preferred length of a slab, whole units */
  uint8_t size_class;
  uint8_t magazine_capacity; /* blocks that a magazine of this class may hold */
  uint8_t magazine_most;     /* the highest value that this ever had: no magazine of the bin holds more */
  bool cached;
  uint8_t stock_most; /* full magazines that a thread may keep beside the loaded one */
  uint8_t plane;      /* BIN_PLANE_*: the plane of the class map that has its class */
  bool purges;        /* free parts of its slabs are purged */
  uint64_t inverse;
  space_t *space;
  budget_t *budget;
  struct pool_heap *heap; /* the owner; bins never access it */

  size_t capacity; /* blocks of all slabs; seldom changes */
  struct bin *due_next;

  lock_t lock;    /* protects everything that follows, except the depots, which have their own locks */
  run_t *current; /* the slab with fresh blocks */
  run_t *slabs[SLAB_LISTS];

  uint32_t partial_count; /* slabs in the partial lists */
  uint32_t withheld;      /* outstanding blocks of a checked heap that no caller has (debug/quarantine.h); not under the lock */
  size_t slab_count;
  size_t outstanding;
  size_t held_bytes;
  size_t idle;           /* blocks, of all slabs */
  size_t returned_bytes; /* purged parts of slabs */
  low_water_t low_idle;
  size_t unneeded;     /* idle blocks that this epoch still has to purge */
  bool purges_in_puts; /* single-threaded, or with a purge delay of 0 */
  uint8_t puts;        /* single-threaded bins: puts since the last read of the clock */
  bool purge_failed;   /* the system refused the last purge */
  uint64_t epoch_ms;   /* the end of the last epoch of low_idle */
  struct bin *due_previous;
  bool goes_on; /* it is in the second queue of due.c */

  _Alignas(DEPOT_LINE) depots_t depots; /* empty if threads keep no magazines of this class */
  bool due;             /* in the list of bins that a tick visits. Every exchange reads this and the next, in a cached line */
  bool ended;           /* for good */
  bool may_have_unused; /* a slab may have become unused since all of them were last visited (B4) */
  struct bin *with_depots_next, *with_depots_previous;
} bin_t;

/* bin_purges(): free parts of slabs are purged. bin_has_magazines(): threads keep magazines. */
static inline bool bin_purges(const bin_t *bin) { return bin->purges; }
static inline bool bin_has_magazines(const bin_t *bin) { return bin->cached; }

enum { BIN_PLANE_NONE, BIN_PLANE_DEFAULT, BIN_PLANE_HEAP };

_Static_assert(BLOCK_ALIGNMENT == 1 << ALIGNMENT_LOG2, "the class map counts in steps of the alignment");

/* The number of threads with a record. Sizes of magazines depend on it, and are correct for any value. */
extern INTERNAL uint32_t bin_threads;

typedef enum block_past { BLOCK_USED, BLOCK_FRESH, BLOCK_ZEROED } block_past_t;

/* Any thread reads figures without the lock, and a single-threaded bin has none, so the store is atomic. */
static inline void set_figure(size_t *figure, size_t value) { __atomic_store_n(figure, value, __ATOMIC_RELAXED); }

/* ---- bins that are due ----
 *
 * The bins that a tick has to visit: those used since their last tick, and those with work left. A process may have many bins.
 * A due bin stays due, in the list or in the hands of a tick, until the tick finds nothing left.
 *
 * A second list has the bins whose depots a fork has to visit: those that ever had a magazine in a depot. */

extern lock_t bins_due_lock;

/* Called under the lock of the bin. due_leave() removes an ending bin from both lists. A tick may have taken it already. */
void due_enter(bin_t *bin);
void due_go_on(bin_t *bin); /* by a tick, which visits the bin once more */
void due_leave(bin_t *bin);

/* Every change of the bin calls this, under its lock. */
static inline void due_note_use(bin_t *bin)
{
  if (unlikely(!bin->due) && !bin->ended && !bin->lock.solo)
    due_enter(bin);
}

/* Makes the bin due though it has not changed: its region or a depot has work for a tick. Takes the bin's lock. */
void bin_become_due(bin_t *bin);

/* The bins whose depots are in use, linked by with_depots_next. A bin enters under its lock when its depots are taken, and
 * leaves when it ends. A fork passes the locks of bins before it reads the list, so the list does not change while no bin can
 * be locked. Single-threaded bins have no lock that a fork visits, and do not enter. */
extern bin_t *bins_with_depots;
bool depots_begin(bin_t *bin); /* returns false if there is no memory */

/* A tick begins with all bins that are due now. bins_tick_is_under_way() returns whether any of them is left. */
void bins_begin_tick(void);
bool bins_tick_is_under_way(void);

bool bins_are_due(void);

/* Takes the next bin of this tick, or returns NULL. *goes_on: this tick has visited it before. Without `may_begin`, only
 * such bins are taken. The bin stays `due`, so no use of it enters it meanwhile. */
bin_t *due_next(bool may_begin, bool *goes_on);

/* ---- one slab ----
 *
 * A slab is a run cut into equal blocks of one size class. Free blocks are bits in a bitmap beside the run's descriptor. Blocks
 * that were never handed out are beyond the fresh mark, so memory that is not needed is never touched. Nothing is stored inside
 * a block: a slab of 64 KiB holds 64 KiB of blocks, and a program that writes past its block cannot damage the manager.
 *
 *   S1 set bits of the bitmap == free_count <= fresh <= capacity; no bit at or beyond fresh is set
 *   S2 a block is in exactly one place: the caller, one magazine, one depot, one bit, or beyond the fresh mark
 *   S3 a purged part is free; settled <= free_count, and at least 1 where a part is purged
 *
 * The memory of a slab is purged by parts: pages, or longer parts if the slab has more than 64 pages. A part is free if every
 * block that has a byte in it is free.
 *
 * The functions are called under the lock of the bin that owns the slab. S1 and S3 hold whenever that lock is free. S2 does not
 * hold during a pop or a push, when an entry is in two words of its thread; no other thread uses those. */

void slab_init(run_t *slab, arena_t *arena, void *owner, unsigned size_class, size_t block_size);

/* Makes all blocks fresh again. They keep their contents, so they do not read as zero. An ending slab is emptied too, because
 * the next slab in its units may expect a bitmap of zeros. */
void slab_empty(run_t *slab);

/* Takes up to `want` free blocks, the lowest first; the last in `blocks` is the lowest. */
size_t slab_take_free(run_t *slab, size_t block_size, void **blocks, size_t want);

/* Call it after free blocks were taken: parts with such a block no longer count as purged (S3). */
void slab_note_taken(run_t *slab, size_t block_size, uint64_t inverse);
size_t slab_take_fresh(run_t *slab, size_t block_size, void **blocks, size_t want);

size_t slab_part_bytes(const run_t *slab);

/* Returns the free parts that are not known to be purged. */
word_t slab_idle_parts(const run_t *slab, size_t block_size, uint64_t inverse);

static inline size_t slab_parts_length(const run_t *slab, word_t parts)
{
  return parts ? (size_t)__builtin_popcountll(parts) * slab_part_bytes(slab) : 0;
}

/* Purges free parts, neighbours in one system call and the highest first, until the system refuses. Returns the bytes. */
size_t slab_purge(run_t *slab, space_t *space, word_t parts);

/* Returns the free blocks that came back since a purge last visited the slab. */
static inline size_t slab_idle(const run_t *slab) { return slab->free_count - slab->settled; }

/* slab_put_stretch() sets the bits of blocks that follow each other in memory, up or down, and returns how many. It returns 0,
 * and does nothing, if they do not, are not all in the slab, or are not all valid. slab_may_be_stretch() is a quick test:
 * programs free many blocks in the order in which they allocated them, or in the reverse. */
size_t slab_put_stretch(run_t *slab, size_t block_size, uint64_t inverse, void *const *blocks, size_t count);
static inline bool slab_may_be_stretch(void *const *blocks, size_t count, size_t block_size)
{
  size_t length = (count - 1) * block_size, distance = count ? (size_t)((char *)blocks[count - 1] - (char *)blocks[0]) : 0;
  return count > 1 && (distance == length || distance == -length);
}

static inline bool slab_is_unused(const run_t *slab) { return slab->free_count == slab->fresh; }
static inline bool slab_has_fresh(const run_t *slab) { return slab->fresh != slab->capacity; }

typedef enum slab_answer { SLAB_LIVE_OR_CACHED, SLAB_FREE, SLAB_NOT_A_BLOCK } slab_answer_t;

/* Looks up the block at `offset` bytes; *index is the block around it. SLAB_NOT_A_BLOCK: no block was handed out there. */
static inline slab_answer_t slab_ask(const run_t *slab, size_t block_size, uint64_t inverse, size_t offset, size_t *index)
{
  size_t i = *index = offset * inverse >> INVERSE_SHIFT;
  if (unlikely(i * block_size != offset || i >= slab->fresh))
    return SLAB_NOT_A_BLOCK;
  return bit_test(slab->bitmap, i) ? SLAB_FREE : SLAB_LIVE_OR_CACHED;
}

/* ---- the slabs of a bin ----
 *
 * The slabs of one bin, in lists by how many of their blocks are free. Blocks come from the fullest slabs, so that the emptiest
 * become unused and can be closed. Called under the lock of the bin. */

/* Return the minimum and the preferred length of a class's slabs, in bytes. */
size_t slabs_least_bytes(size_t block_size);
size_t slabs_bytes_for(size_t block_size, bool tight);

/* Sets the capacity of a magazine and of a thread's stock, from the blocks of the class and the number of threads. */
void slabs_size_magazines(bin_t *bin);

/* Call it when blocks have changed shards: the depots may hold `by` more magazines. */
void slabs_note_change(bin_t *bin, size_t by);

/* Takes up to `want` blocks for a thread of the shard: free ones of the fullest slabs, or fresh ones if none is free. The
 * lowest is stored last. *past, if not NULL, describes their contents. */
size_t slabs_take(bin_t *bin, void **blocks, size_t want, unsigned shard, block_past_t *past);

/* Returns whether an open slab has a block to take. */
bool slabs_have_free(const bin_t *bin);

/* Returns whether a slab may become unused if so many blocks come back. Reads few slabs. */
bool slabs_may_end_one(const bin_t *bin, size_t blocks);

/* Takes blocks back. If one was not handed out, it releases the lock and ends the program. */
void slabs_put(bin_t *bin, void *const *blocks, size_t count, unsigned shard);

/* Closes slabs without outstanding blocks of which at least `least_touched` bytes were touched since they were opened. */
void slabs_close_unused(bin_t *bin, size_t least_touched);

/* Purges free parts of slabs until `*blocks` idle ones have settled, which it counts down, or `calls` system calls were made. A
 * visit that purges nothing counts as a call. Returns the bytes. */
size_t slabs_purge(bin_t *bin, size_t *blocks, size_t calls);

/* Purges the blocks that were not needed for the purge delay. Returns how many calls are left. */
enum { PURGE_CALLS = 8 };     /* system calls in one step (step_budget_t), and while the lock of a bin is held */
enum { BIN_STEPS_MOST = 32 }; /* steps of one caller for bins at once: a system call takes some microseconds */
size_t slabs_purge_unneeded(bin_t *bin, size_t calls, uint64_t now_ms);

/* Free all blocks at once. slabs_reset() keeps the slabs as if just opened; slabs_close_all() gives them back. */
void slabs_reset(bin_t *bin);
void slabs_close_all(bin_t *bin);

/* ---- steps ----
 *
 * Threads that take slow paths purge in steps. A step budget tells how many steps a caller makes: one, or one for each STEP_MS
 * since the last caller. So frequent callers pay little, and a program that seldom calls still returns memory in time. */

enum { STEP_MS = 4, STEPS_MOST = 128 };

/* Time of the last caller; 0 before the first. */
typedef uint64_t step_budget_t;

/* Returns the caller's number of steps. Threads may arrive out of order: a step more or fewer is harmless. */
static inline size_t step_budget_take(step_budget_t *budget, uint64_t now_ms)
{
  uint64_t last = __atomic_load_n(budget, __ATOMIC_RELAXED), since = last && now_ms > last ? now_ms - last : 0;
  if (now_ms != last)
    __atomic_store_n(budget, now_ms, __ATOMIC_RELAXED);
  return max_size(min_size(since / STEP_MS, STEPS_MOST), 1);
}

/* ---- the interface: single blocks, whole magazines, queries, and returning memory ---- */

typedef struct bin_make {
  unsigned size_class;
  size_t block_size;
  struct pool_heap *heap;
  space_t *space;
  budget_t *budget;
  uint8_t plane;
  bool single_thread;   /* no lock */
  bool tight;           /* choose a slab length that wastes little, as bin_units_for() assumes */
  bool purges;          /* may purge free parts of slabs that are in use */
  bool cached;          /* threads keep magazines of this bin */
  unsigned shards_most; /* the most depots, a power of two; 0 means DEPOT_SHARDS */
} bin_make_t;
void bin_init(bin_t *bin, const bin_make_t *make);

/* Returns how many units of a region serve `bytes` of blocks of one size. */
size_t bin_units_for(size_t block_size, size_t bytes);

/* Counts the blocks of a bin, of which `in_threads` are in magazines of threads. Walks the depots under the lock. */
typedef struct bin_figures {
  size_t block_size, live_blocks, cached_blocks, slabs, held_bytes, idle_bytes;
  size_t returned_bytes; /* the part of idle_bytes that is purged */
} bin_figures_t;
bin_figures_t bin_figures(bin_t *bin, size_t in_threads);

/* Returns whether the block is in a depot. Walks the depots under the lock. */
bool bin_depot_holds(bin_t *bin, const void *block);

/* Exchanges an empty magazine, given by its floor, or NULL, for one with entries. Returns its top entry. If there is no memory,
 * it returns NULL and keeps the empty one. `capacity` is the number of blocks wanted from slabs. `number` is the thread's; it
 * chooses the depot while the bin has no more than DEPOT_SHARDS, and is only a hint. */
void **bin_exchange_empty(bin_t *bin, void **empty, unsigned capacity, unsigned number);

/* Exchanges a magazine with entries up to `top` for an empty one of `capacity`, and returns its floor. It needs no memory:
 * without another magazine the entries go to the slabs, and the magazine itself is returned. */
void **bin_exchange_full(bin_t *bin, void **top, unsigned capacity, unsigned number);

/* Returns the floor of an empty magazine, or NULL without memory. */
void **bin_new_magazine(bin_t *bin, unsigned capacity, unsigned number);

/* Takes a magazine and its entries, if any (the top may be the floor). */
void bin_give_magazine(bin_t *bin, void **top, unsigned number);

/* Takes a magazine and forgets its entries, which are not put back. */
void bin_drop_magazine(bin_t *bin, void **top, unsigned number);

/* Frees all blocks at once. The slabs stay, as if just opened. */
void bin_reset(bin_t *bin);

/* Ends a bin: gives its slabs to the space and its magazines to other bins. A tick may still access the bin. */
void bin_destroy(bin_t *bin);

/* Blocks without magazines. bin_take() stores the lowest block last, and returns how many it took; further calls may find more.
 * *past, if not NULL, describes their contents. Such blocks count for the first shard. */
size_t bin_take(bin_t *bin, void **blocks, size_t want, block_past_t *past);
void bin_put(bin_t *bin, void *const *blocks, size_t count);

/* bin_take_free() takes one block if an open slab has a free one. bin_has_free() returns whether that is so. */
bool bin_take_free(bin_t *bin, void **block, block_past_t *past);
bool bin_has_free(bin_t *bin);

/* Returns the index of the block at an address in a slab, handed out or not. An index beyond the last block means none. */
static inline size_t bin_block_index(const bin_t *bin, const run_t *slab, const void *address)
{
  return (size_t)((const char *)address - slab->start) * bin->inverse >> INVERSE_SHIFT;
}

/* Returns whether the block around `address`, in `slab`, is outside the slab: with a caller, in a magazine or in a depot.
 * *block is its beginning, even if it is free in the slab, or NULL if no block was ever handed out there or the slab is no
 * longer the bin's. For a single-threaded bin the caller holds the lock of the slab's space, which keeps the slab. */
bool bin_ask(bin_t *bin, const run_t *slab, const void *address, char **block);

/* Sets a bit of *live for each block WORD_BITS * w and up of the bin's slab at `start` that is outside the slab. Returns false
 * if there are no more blocks, or the slab is gone. */
bool bin_live_word(bin_t *bin, const run_t *slab, const char *start, size_t w, word_t *live);

/* Returns depot magazines that were not needed since the last call to the slabs, and unused slabs to the space. */
void bin_tick(bin_t *bin, uint64_t now_ms);

/* Ticks up to `most` due bins within `steps` (step_budget_t); returns how many. The caller's lock keeps bins from ending. */
unsigned bins_tick(unsigned most, size_t steps, uint64_t now_ms);

void bin_drain(bin_t *bin);

/* Returns whether a slab may become unused if so many blocks come back. */
bool bin_may_end_slab(bin_t *bin, size_t blocks);

size_t bin_purge(bin_t *bin);

#endif
