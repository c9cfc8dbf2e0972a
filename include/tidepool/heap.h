/* SPDX-License-Identifier: MIT
 *
 * tidepool/heap.h: a manager of your own for one subsystem. It has a budget, a policy for when it is exhausted, and an end.
 *
 * All threads may use one heap at once unless it is POOL_HEAP_SINGLE_THREAD. Destroy, reset and walk need the other threads to
 * stay out of that heap meanwhile, and nothing else: no flush and no registration. Any thread may call them. Sizes are bytes.
 * Success keeps errno. With NULL for the heap a call returns NULL, false or 0 and sets EINVAL. For each EINVAL
 * pool_error() says what was wrong.
 *
 * A call with a heap that was destroyed, or with anything else that is no heap, ends the program with one line and abort(),
 * where this is seen. So does destroying a heap that is still the parent or the overflow of a live one. */
#ifndef TIDEPOOL_HEAP_H
#define TIDEPOOL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* The heap calls this, with no lock held, when it cannot serve `bytes_needed` within its budget. The function may free blocks,
 * reset object pools or raise the budget. It returns true to have the heap try again, false to give up. For one request
 * `attempt` counts from 0 to 63. */
typedef bool pool_exhausted_fn(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);

enum {
  /* One thread alone uses the heap, which has no locks. */
  POOL_HEAP_SINGLE_THREAD = 1 << 0,

  /* `reserve` is touched at creation, and kept. */
  POOL_HEAP_PREFAULT = 1 << 1,

  /* `reserve` or `memory`, and the heap's records, are locked with mlock(). The limit must have room for both. */
  POOL_HEAP_LOCK_MEMORY = 1 << 2,

  /* Nothing of a returned block stays in memory. What this heap overflows to lies in the other heap, which wipes it only if it
   * has the flag too. */
  POOL_HEAP_ZERO_ON_FREE = 1 << 3,

  /* The heap fills a new block with 0xcd and a returned one with the bytes of 0x1deadb0b, and keeps that in quarantine until
   * there are 4 MiB of them, or a 16th of the tightest budget above it or of its own memory. A block of more than an eighth of
   * that is not kept. The fill is verified when a block leaves the quarantine and when its memory is given out again, unless
   * that was of a large block; 64 bytes in front of a block, and 32 behind what was asked for, when it is freed; and all of
   * them at reset and destroy, and when the program ends by exit(). A second free is found at once. Each finding ends the
   * program with one line: the call that found it, the block with the size that was asked for, the offset (negative in front),
   * the heap's name. A write to the head in front destroys what it says: of the block the size is then what there is room for,
   * or 0. A block takes 96 bytes more, or its alignment and 32 if that is more than 64. pool_usable_size() is the requested
   * size, and pool_heap_realloc() to another size moves the block, so that a use of its old address is found. What is in
   * quarantine counts as cached; a request that would fail without it, a trim and pool_heap_largest() empty it. */
  POOL_HEAP_CHECKED = 1 << 4,

  /* Each block knows the site at which it was allocated: the return address of the call, and its callers', as many in all as
   * the option `sites` says. pool_heap_report() and pool_heap_walk() tell of it, and with the option `leaks` so does the end of
   * the heap or of the program. Nothing is filled or verified, and nothing is kept. As in a checked heap, which has sites
   * anyway, a block takes 96 bytes more, or its alignment and 32 if that is more than 64; pool_usable_size() is the requested
   * size, pool_heap_realloc() to another size moves the block, and threads keep no spare blocks. The arrays of an object pool
   * have the site at which the pool was created. Where there is no system it is refused, as any flag that is not known. */
  POOL_HEAP_SITES = 1 << 5,

  /* Each block has pages of its own and ends at an inaccessible one, as far as the alignment of 16 or its own allows; there is
   * one in front of its pages, too. The bytes beside it on its pages are verified when it is freed, at reset, destroy and
   * exit(). A freed block is inaccessible, until 64 GiB of addresses were used (256 MiB where they have 32 bits, an eighth of a
   * limit on them), and then the oldest serves again. An access outside, a read too, is a fault: a line says which block it
   * was, where that was allocated and freed, and the program ends by SIGSEGV, or its own handler goes on. A system call that is
   * given such memory fails with EFAULT. A block takes whole pages of the budget. It has two mappings while it is live: when
   * blocks have three quarters of those that the system allows a process, or no page of the budget is left, further ones are
   * those of a checked heap. Blocks read as zero. Such a heap has neither a reserve nor `memory`. */
  POOL_HEAP_GUARDED = 1 << 6,

  /* Blocks of any size are cut out of one piece, as in a buffer, with a budget of up to 8 MiB too, and not up to 1 MiB alone.
   * More of the budget can be live then, in blocks of mixed sizes: 98 % instead of 80 % of 4 MiB in blocks of 8 to 4096 bytes.
   * No thread keeps blocks of it, so an allocation and its free take some times as long, under one lock for all threads. It
   * needs such a budget, or `memory`, and goes without reserve and size_classes. */
  POOL_HEAP_DENSE = 1 << 7
};

#define POOL_PURGE_NEVER 0xffffffffu

/* Every field that is 0 or NULL means the default. */
typedef struct pool_heap_options {
  /* The heap copies up to 31 bytes of its name. With NULL a name is generated. */
  const char *name;

  /* The heap, with its records, never holds more bytes than this; 0 is no limit. If it or an ancestor has a budget at creation,
   * what sleeping threads have cached is taken from them when the budget is used up. */
  size_t budget;

  /* Bytes for blocks, of any number, are taken at creation, so that growth up to them in blocks of one size class cannot fail,
   * as pool_heap_good_size() counts them. Each further class in use may keep up to a slab from the others, and what is of no
   * class takes whole units. Records come on top, or out of the reserve where the budget has no room for both. A reserve above
   * 8 MiB takes whole GiB of 3 TiB of addresses, so a process has at most 3072 heaps with such a reserve; where addresses have
   * 32 bits, 32 MiB at a time of 1.5 GiB. */
  size_t reserve;

  /* What this heap holds counts against the parent's budget too, and so upward. */
  pool_heap_t *parent;

  pool_exhausted_fn *on_exhausted;

  /* This heap serves a request that the new one cannot serve, not even after on_exhausted. */
  pool_heap_t *overflow;

  /* on_exhausted gets this. */
  void *context;

  /* In the caller's buffer everything lives, the records too, and the system is never asked. One of up to 8 MiB, and without
   * size_classes, serves blocks of any size out of one piece: a block takes its size rounded up to 16 bytes, and 32 at least.
   * The heap takes at most 640 bytes and 1.6 % of the buffer; pool_heap_least_memory() says from what size on there is a heap.
   * The buffer has to last as long as the heap, also in the child of a fork, where the stacks of other threads do not.
   *
   * A buffer may be, or begin, a block of another heap. Its first address is then that block; for addresses within, this heap
   * answers. If it is in a block of up to 32 KiB of the default heap, the new heap's blocks must go to pool_heap_free and
   * pool_heap_realloc only: pool_free, pool_realloc and pool_usable_size would take them for the default heap's. */
  void *memory;
  size_t memory_size;

  /* Block sizes that replace the built-in ones: ascending multiples of 16 up to 256 KiB, at most 104 of them. The heap copies
   * them. */
  const size_t *size_classes;
  size_t size_class_count;

  /* Idle memory of a reserve, or of a budget of up to 8 MiB, is kept for so many milliseconds; 0 is the default of the process,
   * which says, too, how often that is looked at: it stays longer where the process keeps its own longer. What a heap with
   * POOL_HEAP_SINGLE_THREAD has idle of a budget of up to 1 MiB, or as POOL_HEAP_DENSE, goes back only at its own frees that
   * leave a page without a block; pool_heap_trim() gives it back at once.
   * `memory` may have POOL_PURGE_NEVER only. Other heaps get EINVAL (pool_error() says so), because what they have idle is the
   * process's. Object pools keep their idle arrays as long. */
  unsigned purge_delay_ms;

  /* POOL_HEAP_SINGLE_THREAD and the like. */
  unsigned flags;
} pool_heap_options_t;

/* Returns a new heap. With NULL for the options all are defaults. The parent and the overflow heap must outlive it.
 *
 * NULL and EINVAL: the options contradict each other, or a buffer or budget is too small for the heap's own records;
 * pool_error() says which, and how much the records take. NULL and ENOMEM: there is no memory, or an ancestor's budget has no
 * room.
 *
 * It takes some microseconds, and with a reserve as long as mapping that takes. A fork() meanwhile waits for it. */
POOL_INLINE pool_heap_t *pool_heap_create(const pool_heap_options_t *options);

/* What pool_heap_create calls, for those who cannot call an inline function. `size` is sizeof(pool_heap_options_t) as the
 * caller knows it: programs of an older header go on when the struct grows, and one of a newer header gets EINVAL, with
 * pool_error(), if it sets a field that the library does not know. */
POOL_API pool_heap_t *pool_heap_create_sized(const pool_heap_options_t *options, size_t size) POOL_NAME(heap_create);

POOL_INLINE pool_heap_t *pool_heap_create(const pool_heap_options_t *options)
{
  return pool_heap_create_sized(options, sizeof(pool_heap_options_t));
}

/* Ends every block of the heap, and the heap. NULL is no error. The cost grows with the number of slabs, not of blocks. No live
 * heap may have it as its parent or overflow. */
POOL_API void pool_heap_destroy(pool_heap_t *heap) POOL_NAME(heap_destroy);

/* Ends every block of the heap. Slabs stay held for reuse; larger runs go back. It costs as much as destroy. */
POOL_API void pool_heap_reset(pool_heap_t *heap) POOL_NAME(heap_reset);

/* Does for this heap what pool_trim does for the default heap. If it, or an ancestor, had a budget at its creation, the spare
 * blocks of all threads go back. */
POOL_API size_t pool_heap_trim(pool_heap_t *heap, size_t keep) POOL_NAME(heap_trim);

/* Sets the budget; 0 is no limit. It returns false, and the budget is unchanged, if more is held even after a trim and without
 * what the children have idle. What threads have cached of children, and children of one thread, are not asked. No thread sees
 * another budget meanwhile.
 *
 * If a budget of up to 8 MiB is raised, the heap goes on in the process's memory; a heap in `memory` stays in it. What sleeping
 * threads have cached stays out of reach if neither the heap nor an ancestor had a budget at its creation. */
POOL_API bool pool_heap_set_budget(pool_heap_t *heap, size_t budget) POOL_NAME(heap_set_budget);

/* These do what their namesakes in pool.h do. When the heap is exhausted it tries, in this order: its own cached and idle
 * memory, without the idle arrays of object pools; on_exhausted, as long as that says true and at most 64 times; the overflow
 * heap. Then they return NULL and set ENOMEM. Each of these is counted in the figures.
 *
 * pool_heap_realloc takes blocks that the overflow heap served, and may move a block back. */
POOL_API void *pool_heap_alloc(pool_heap_t *heap, size_t size) POOL_NAME(heap_alloc) POOL_RETURNS_BLOCK(2);
POOL_API void *pool_heap_zalloc(pool_heap_t *heap, size_t size) POOL_NAME(heap_zalloc) POOL_RETURNS_BLOCK(2);
POOL_API void *pool_heap_calloc(pool_heap_t *heap, size_t count, size_t size) POOL_NAME(heap_calloc) POOL_RETURNS_BLOCK(2, 3);
POOL_API void *pool_heap_realloc(pool_heap_t *heap, void *block, size_t size) POOL_NAME(heap_realloc)
  __attribute__((warn_unused_result, alloc_size(3)));
POOL_API void *pool_heap_aligned_alloc(pool_heap_t *heap, size_t alignment, size_t size) POOL_NAME(heap_aligned_alloc)
  POOL_RETURNS_ALIGNED_BLOCK(2, 3);

/* Does what pool_good_size does, for this heap's size classes. For a heap that is checked, guarded or has sites it returns what
 * a block would take, not what can be used of it. */
POOL_API size_t pool_heap_good_size(const pool_heap_t *heap, size_t size) POOL_NAME(heap_good_size);

/* Returns the size of the largest request that the heap would serve now. The next of that size is served, and one of a byte
 * more is not, if no other thread allocates meanwhile, and the heap is in `memory` of up to 8 MiB or has a budget of up to 1
 * MiB, or of up to 8 MiB as POOL_HEAP_DENSE, that was never raised, and no size classes of its own. For another heap it is what
 * its region or its budgets have room for in one piece: blocks that are free in slabs are not looked at, and nobody knows what
 * the system has. It holds the heap's lock for a bounded number of steps, which take a few microseconds at most; where a
 * budget, and not the region, is what is short, it looks at each free piece. With NULL it returns 0 and sets EINVAL;
 * pool_error() says so. */
POOL_API size_t pool_heap_largest(pool_heap_t *heap) POOL_NAME(heap_largest);

/* Returns the least memory_size that pool_heap_create() accepts with the rest of these options, at the address `memory`, or at
 * any if that is NULL; and where memory_size is 0, too, the least budget. For heaps with size classes of their own or a reserve
 * it is a size that is enough. With NULL it is the least budget of a plain heap. 0 and EINVAL: pool_heap_create() would
 * refuse the other options whatever the size, where `memory` is NULL at some address; or `size` is not that of the options;
 * pool_error() says why. */
POOL_INLINE size_t pool_heap_least_memory(const pool_heap_options_t *options);

/* What pool_heap_least_memory calls, as pool_heap_create() calls pool_heap_create_sized(). */
POOL_API size_t pool_heap_least_memory_sized(const pool_heap_options_t *options, size_t size) POOL_NAME(heap_least_memory);

POOL_INLINE size_t pool_heap_least_memory(const pool_heap_options_t *options)
{
  return pool_heap_least_memory_sized(options, sizeof(pool_heap_options_t));
}

/* Frees a block of this heap, faster than pool_free. It also takes a block that the overflow heap served. */
POOL_API void pool_heap_free(pool_heap_t *heap, void *block) POOL_NAME(heap_free);

/* Returns the heap behind pool_alloc(), which cannot be reset or destroyed; never NULL. */
POOL_API pool_heap_t *pool_heap_default(void) POOL_NAME(heap_default);

/* Returns the heap's name, which lives as long as the heap does; NULL for NULL. */
POOL_API const char *pool_heap_name(const pool_heap_t *heap) POOL_NAME(heap_name);

/* It may grow at its end. A program that was compiled before it did so reads what it knows. */
typedef struct pool_block {
  void *start;
  size_t size;

  /* Where it was allocated, as a return address; NULL: the heap has no sites, or had no memory for this one. */
  const void *site;
} pool_block_t;

/* Gets each live block of a walk; false stops the walk. */
typedef bool pool_visit_fn(const pool_block_t *block, void *context);

/* Visits each live block once, by address in each slab. The visitor may free the block it is given, and allocate; blocks that
 * are new in this heap may be visited or not. It returns false if the visitor stopped it. */
POOL_API bool pool_heap_walk(pool_heap_t *heap, pool_visit_fn *visit, void *context) POOL_NAME(heap_walk);

/* Writes the live blocks of the heap to a file, with their bytes, by sites, the one with the most bytes first:
 *
 *     heap "sessions": 10 blocks, 10,080 bytes live
 *             9,072 bytes in 9 blocks from session_open+0x2c (server.c:41)
 *             1,008 bytes in 1 block from session_copy+0x31 (server.c:57)
 *
 * Names are those of the program's own tables, and lines are known if it has them (-g) and the program addr2line is there.
 * A heap without sites has its sum alone. As in a walk, the other threads must stay out of the heap. It allocates nothing.
 * False: not all of it was written, and errno says why; EINVAL and pool_error() for NULL. */
POOL_API bool pool_heap_report(pool_heap_t *heap, int fd) POOL_NAME(heap_report);

/* With true, what would need the system fails from now on in the calling thread, for more memory or to give some back. What
 * cannot be given back is kept, that of a destroyed heap as the default heap's, and goes back at a later call of a thread that
 * may ask the system. Returns what held before. It is for real-time threads on a prefaulted heap; pool_stats_json() has the
 * count. */
POOL_API bool pool_forbid_system_calls(bool forbid) POOL_NAME(forbid_system_calls);

POOL_END_DECLS

#endif
