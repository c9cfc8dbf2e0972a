/* SPDX-License-Identifier: MIT
 *
 * tidepool/heap.h: a heap for one subsystem, with a budget, a policy for when the budget is exhausted, and an end.
 *
 *     pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.name = "cache", .budget = 64 << 20});
 *     void *block = pool_heap_alloc(heap, 100);
 *     pool_heap_free(heap, block);
 *     pool_heap_destroy(heap);     with every block that is still live
 *
 * All sizes are in bytes.
 *
 * Threads: all threads may use one heap at once, unless it is POOL_HEAP_SINGLE_THREAD. Any thread may destroy, reset or walk a
 * heap that no other thread uses meanwhile. No registration or flush is needed.
 *
 * Errors: an allocation that fails returns NULL and sets errno to ENOMEM. If the heap is NULL, a call returns NULL, false or 0
 * and sets EINVAL. pool_error() describes each EINVAL. Success leaves errno unchanged.
 *
 * Misuse ends the program with one line and abort(). Destroying the parent or the overflow of a live heap is always detected. A
 * call with a destroyed heap, or with a pointer to no heap, usually is. */
#ifndef TIDEPOOL_HEAP_H
#define TIDEPOOL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* The heap calls this when it cannot serve a request of `bytes_needed` bytes. The function may free blocks, shrink object pools
 * or raise the budget. It returns true to have the heap try again, and false to give up. `attempt` counts the calls for one
 * request, from 0 to 63.
 *
 * The library holds no lock meanwhile, but your code may: any allocation can call this. If the allocating code holds a mutex
 * that the function locks, the thread deadlocks. Use pthread_mutex_trylock(), and return false if it fails. */
typedef bool pool_exhausted_fn(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);

enum {
  /* Only one thread uses the heap. The heap takes no locks. */
  POOL_HEAP_SINGLE_THREAD = 1 << 0,

  /* All pages of `reserve` are faulted in at creation and never released. */
  POOL_HEAP_PREFAULT = 1 << 1,

  /* `reserve` or `memory`, and the heap's records, are locked with mlock(). RLIMIT_MEMLOCK must have room for them. */
  POOL_HEAP_LOCK_MEMORY = 1 << 2,

  /* Freed blocks are zeroed. The overflow heap zeroes the blocks that it serves only if it has the flag too. */
  POOL_HEAP_ZERO_ON_FREE = 1 << 3,

  /* The heap detects writes outside a block, writes to a freed block, and second frees. Each ends the program with one line.
   * The line has the call that detected it, the block with its requested size, the offset and the heap. The offset is negative
   * in front of the block.
   *
   *   - A second free is detected at once.
   *   - 64 bytes in front of a block and 32 bytes behind its requested size are verified when it is freed.
   *   - A new block is filled with 0xcd, a freed one with the bytes of 0x1deadb0b. Freed blocks stay in quarantine. It holds 4
   *     MiB, or a 16th of the heap's memory or of its tightest budget if that is less. It keeps no block of more than an eighth
   *     of that. The fill is verified when a block leaves quarantine and, unless it was large, when its memory is reused.
   *   - Reset, destroy and exit() verify everything.
   *
   * Cost: 96 bytes more for each block, or its alignment and 32 bytes if the alignment is more than 64. pool_usable_size()
   * returns the requested size. pool_heap_realloc() to another size moves the block, which detects a use of its old address.
   *
   * Blocks in quarantine count as cached. A request that would fail, a trim and pool_heap_largest() empty it first. A write in
   * front of a block may destroy its size: the line then has a wrong size.
   *
   * Only the debug library and the library for firmware: EINVAL in libtidepool, with pool_error(). */
  POOL_HEAP_CHECKED = 1 << 4,

  /* Each block records its site: the return address of the call that allocated it, and those of its callers. The option `sites`
   * sets how many addresses. pool_heap_report() and pool_heap_walk() give the sites. The option `leaks` reports them when the
   * heap or the program ends. The array of an object pool has the site at which the pool was created.
   *
   * A block takes as many bytes as in a checked heap, which also records sites. Threads cache no blocks. Nothing is filled,
   * verified or kept in quarantine. Only the debug library: EINVAL in libtidepool, with pool_error(). */
  POOL_HEAP_SITES = 1 << 5,

  /* Each block has pages of its own between two inaccessible pages. It ends at the second one, or less than its alignment
   * before it. An access outside the block, or to a freed block, is a fault. A line names the block and where it was allocated
   * and freed. Then the program's own handler runs, or SIGSEGV ends the program. A system call with such memory fails with
   * EFAULT.
   *
   *   - The other bytes on the block's pages are verified when it is freed, and at reset, destroy and exit().
   *   - A freed block stays inaccessible until 64 GiB of addresses are used; then the oldest one is reused. The limit is 256
   *     MiB on 32-bit systems, and an eighth of the process's limit on addresses, if that is less.
   *   - Blocks read as zero.
   *
   * Cost: whole pages of the budget, and two mappings for each live block. Further blocks are only checked once blocks use
   * three quarters of the mappings that the system allows, or the budget has no page left. The flag excludes `reserve` and
   * `memory`. Only the debug library: EINVAL in libtidepool, with pool_error(). */
  POOL_HEAP_GUARDED = 1 << 6,

  /* Blocks of any size are cut from one piece. Every heap with a budget or `memory` of up to 8 MiB does that. The flag needs
   * one of these, and excludes `reserve` and `size_classes`: creation fails if the heap would be another one. */
  POOL_HEAP_DENSE = 1 << 7
};

#define POOL_PURGE_NEVER 0xffffffffu

/* Every field that is 0 or NULL means the default. */
typedef struct pool_heap_options {
  /* The heap copies up to 31 bytes of its name. NULL: a name is generated. */
  const char *name;

  /* The most bytes that the heap ever holds, with its records, but without the lists of blocks that threads cache; 0 is no
   * limit. If the heap or an ancestor has a budget at creation, an exhausted heap also takes back the caches of sleeping
   * threads. */
  size_t budget;

  /* Bytes that are allocated at creation, for blocks. Allocations within them cannot fail while all blocks are of one size
   * class. Count each block as pool_heap_good_size() bytes.
   *
   * Each further size class may keep up to one slab from the others. A block larger than all classes takes whole units. The
   * heap's records come on top, or out of the reserve if the budget has no room for both.
   *
   * A reserve above 8 MiB takes whole GiB of addresses, out of 3 TiB: at most 3072 heaps of a process have one. It takes
   * multiples of 32 MiB, out of 1.5 GiB, on 32-bit systems. */
  size_t reserve;

  /* The bytes that this heap holds count against the budgets of its parent and of all further ancestors, too. */
  pool_heap_t *parent;

  pool_exhausted_fn *on_exhausted;

  /* A heap that serves requests that the new one cannot serve, even after on_exhausted. */
  pool_heap_t *overflow;

  /* Passed to on_exhausted. */
  void *context;

  /* A buffer of yours for all blocks and records. The heap then makes no system call for memory. The buffer must outlive the
   * heap, also in the child of a fork(), where the stacks of other threads are gone. If the buffer is shared (MAP_SHARED), only
   * one process may use the heap, and the child of its fork() is another.
   *
   * A buffer of up to 8 MiB serves blocks of any size from one piece. A block takes its size rounded up
   * to 16 bytes, and at least 32. The heap takes at most 640 bytes and 1.6 % of the buffer. pool_heap_least_memory() returns
   * the least size.
   *
   * The buffer may be a block of another heap, or begin one. Its first address is then that block; addresses inside belong to
   * this heap. If it is a block of up to 32 KiB of the default heap, use only pool_heap_free() and pool_heap_realloc() inside
   * it. pool_free(), pool_realloc() and pool_usable_size() take the new heap's blocks for the default heap's. */
  void *memory;
  size_t memory_size;

  /* Block sizes that replace the built-in size classes: ascending multiples of 16 up to 256 KiB, at most 104 of them. The heap
   * copies them. In a heap with `memory`, a budget or a reserve of up to 8 MiB a block takes at least 32 bytes. */
  const size_t *size_classes;
  size_t size_class_count;

  /* How many milliseconds idle memory is kept before it is returned to the system; 0 is the process's delay. It is for heaps
   * with a reserve or a budget of up to 8 MiB. A heap in `memory` accepts only POOL_PURGE_NEVER. Other heaps get EINVAL, with
   * pool_error(), since their idle memory is the process's. Object pools in the heap keep idle arrays as long.
   *
   * The process's delay also determines how often idle memory is examined: if it is longer, memory is kept longer here.
   *
   * No other thread looks for idle memory in a single-threaded heap with a budget or a reserve of up to 8 MiB. It is returned
   * in pool_heap_trim(), and in the heap's own frees that leave a page without a block. */
  unsigned purge_delay_ms;

  /* POOL_HEAP_SINGLE_THREAD and the other flags above. */
  unsigned flags;
} pool_heap_options_t;

/* Creates a heap. NULL for the options means all defaults. The parent and the overflow heap must outlive the new one.
 *
 * NULL and EINVAL: the options contradict each other, or the buffer or budget is too small for the heap's records. pool_error()
 * says which, and how much is needed. NULL and ENOMEM: there is no memory, or an ancestor's budget has no room.
 *
 * It takes some microseconds, and mapping a reserve takes longer. A fork() by another thread waits meanwhile. */
POOL_INLINE pool_heap_t *pool_heap_create(const pool_heap_options_t *options);

/* The function behind pool_heap_create(), for callers that cannot use inline functions. `size` is sizeof(pool_heap_options_t)
 * as the caller was compiled. A program of an older header keeps working when the struct grows. A program of a newer header
 * gets EINVAL, with pool_error(), if it sets a field that the library does not know. */
POOL_API pool_heap_t *pool_heap_create_sized(const pool_heap_options_t *options, size_t size) POOL_NAME(heap_create);

POOL_INLINE pool_heap_t *pool_heap_create(const pool_heap_options_t *options)
{
  return pool_heap_create_sized(options, sizeof(pool_heap_options_t));
}

/* Frees every block of the heap, and the heap. NULL is allowed. It takes time proportional to the heap's slabs, not its blocks.
 * No live heap may have this heap as its parent or overflow. */
POOL_API void pool_heap_destroy(pool_heap_t *heap) POOL_NAME(heap_destroy);

/* Frees every block of the heap. The heap keeps its slabs for reuse and returns larger blocks. It takes time proportional to
 * the heap's slabs. */
POOL_API void pool_heap_reset(pool_heap_t *heap) POOL_NAME(heap_reset);

/* Does for this heap what pool_trim() does for the default heap. If the heap or an ancestor had a budget at its creation, the
 * caches of all threads are emptied. */
POOL_API size_t pool_heap_trim(pool_heap_t *heap, size_t keep) POOL_NAME(heap_trim);

/* Sets the budget; 0 is no limit. Returns false, with the budget unchanged, if the heap holds more even after a trim of the
 * heap and of its children's idle memory. Thread caches of children, and single-threaded children, are not trimmed. Other
 * threads see either the old budget or the new one.
 *
 * A heap with a budget of up to 8 MiB continues in the process's memory if the budget is raised. A heap in `memory` stays in
 * it. Caches of sleeping threads stay out of reach if neither the heap nor an ancestor had a budget at its creation.
 *
 * The default heap also holds memory that belongs to no heap (stats.h). This call compares the budget with all of it. Later
 * requests are compared only with the memory of the default heap's own blocks, the records for these, and its children. */
POOL_API bool pool_heap_set_budget(pool_heap_t *heap, size_t budget) POOL_NAME(heap_set_budget);

/* Allocate from one heap, as pool_alloc() and its family do from the default heap. An exhausted heap tries in this order:
 *
 *   1. its own cached and idle memory, without the idle arrays of object pools
 *   2. the process's free memory, if the budget has room
 *   3. a free block of up to four times the size
 *   4. on_exhausted, up to 64 times, as long as that returns true; each time 1 to 3 are tried again
 *   5. the overflow heap, in the same order, with its own on_exhausted
 *
 * Then the call returns NULL and sets ENOMEM. pool_stats_t counts retries, overflows and failures.
 *
 * pool_heap_realloc() also takes blocks that the overflow heap served, and may move them back. */
POOL_API void *pool_heap_alloc(pool_heap_t *heap, size_t size) POOL_NAME(heap_alloc) POOL_RETURNS_BLOCK(2);
POOL_API void *pool_heap_zalloc(pool_heap_t *heap, size_t size) POOL_NAME(heap_zalloc) POOL_RETURNS_BLOCK(2);
POOL_API void *pool_heap_calloc(pool_heap_t *heap, size_t count, size_t size) POOL_NAME(heap_calloc) POOL_RETURNS_BLOCK(2, 3);
POOL_API void *pool_heap_realloc(pool_heap_t *heap, void *block, size_t size) POOL_NAME(heap_realloc)
  __attribute__((warn_unused_result, alloc_size(3)));
POOL_API void *pool_heap_aligned_alloc(pool_heap_t *heap, size_t alignment, size_t size) POOL_NAME(heap_aligned_alloc)
  POOL_RETURNS_ALIGNED_BLOCK(2, 3);

/* Returns the size of the block that serves pool_heap_alloc(heap, size), as pool_good_size() does for the default heap. If the
 * heap has an overflow heap, blocks of both heaps have this size. Only the requested bytes of a block may be used in a heap
 * that is checked, guarded or has sites. */
POOL_API size_t pool_heap_good_size(const pool_heap_t *heap, size_t size) POOL_NAME(heap_good_size);

/* Returns the size of the largest request that the heap would serve now. NULL for the heap returns 0 and sets EINVAL, with
 * pool_error().
 *
 * The figure is exact as long as no other thread allocates: a request of that size succeeds, and one of a byte more fails. This
 * holds for heaps without size_classes in `memory` of up to 8 MiB. It also holds for heaps with a budget of up to 8 MiB
 * that was never raised. The figure of another heap is the largest piece for which its region or its
 * budgets have room. It omits free blocks in slabs, and the system may have less.
 *
 * The call first frees the quarantine of a checked heap, and the freed blocks that a small heap keeps for the next request. It
 * holds the heap's lock for a few microseconds at most. It examines each free piece if a budget limits the heap, and not its
 * region. */
POOL_API size_t pool_heap_largest(pool_heap_t *heap) POOL_NAME(heap_largest);

/* Returns the least memory_size that pool_heap_create() accepts with the other options. `memory` is the address of the buffer;
 * if it is NULL, the result suffices at any address. If both `memory` and memory_size are 0, the result is the least budget.
 * NULL for the options returns the least budget of a heap with defaults.
 *
 * 0 and EINVAL, with pool_error(): pool_heap_create() refuses the other options at every size. If `memory` is NULL, one address
 * at which it does so is enough.
 *
 * The result for a heap with size_classes or a reserve suffices, but may not be the least. */
POOL_INLINE size_t pool_heap_least_memory(const pool_heap_options_t *options);

/* The function behind pool_heap_least_memory(). `size` is sizeof(pool_heap_options_t), as for pool_heap_create_sized(); any
 * other size is EINVAL, with pool_error(). */
POOL_API size_t pool_heap_least_memory_sized(const pool_heap_options_t *options, size_t size) POOL_NAME(heap_least_memory);

POOL_INLINE size_t pool_heap_least_memory(const pool_heap_options_t *options)
{
  return pool_heap_least_memory_sized(options, sizeof(pool_heap_options_t));
}

/* Frees a block of this heap, faster than pool_free(). It also takes a block that the overflow heap served. */
POOL_API void pool_heap_free(pool_heap_t *heap, void *block) POOL_NAME(heap_free);

/* Returns the heap behind pool_alloc(), which cannot be reset or destroyed; never NULL. */
POOL_API pool_heap_t *pool_heap_default(void) POOL_NAME(heap_default);

/* Returns the heap's name, which is valid as long as the heap; NULL for NULL. */
POOL_API const char *pool_heap_name(const pool_heap_t *heap) POOL_NAME(heap_name);

/* A live block. The struct may grow at its end; programs compiled before that read the fields that they know. */
typedef struct pool_block {
  void *start;
  size_t size;

  /* The return address of the call that allocated it. NULL: the heap has no sites, as in libtidepool, or had no memory for this
   * one. */
  const void *site;
} pool_block_t;

/* pool_heap_walk() calls this for each live block. It returns true to continue, and false to stop the walk. */
typedef bool pool_visit_fn(const pool_block_t *block, void *context);

/* Visits each live block once, in address order within each slab. Returns false if the visitor stopped the walk. The visitor
 * may free the block that it is given, and may allocate. Blocks that it allocates in this heap may be visited or not. */
POOL_API bool pool_heap_walk(pool_heap_t *heap, pool_visit_fn *visit, void *context) POOL_NAME(heap_walk);

/* Writes to a file how many blocks of the heap are live, and how many bytes, by site. The site with the most bytes comes first:
 *
 *     heap "sessions": 10 blocks, 10,080 bytes live
 *             9,072 bytes in 9 blocks from session_open+0x2c (server.c:41)
 *             1,008 bytes in 1 block from session_copy+0x31 (server.c:57)
 *
 * A heap without sites has only the sum. Function names are from the program's symbol tables. Lines need debug information (-g)
 * and the program addr2line. No other thread may use the heap meanwhile. The call allocates nothing. Only the debug library:
 * EINVAL in libtidepool.
 *
 * false: not all of it was written, and errno says why. NULL is EINVAL, with pool_error(). */
POOL_API bool pool_heap_report(pool_heap_t *heap, int fd) POOL_NAME(heap_report);

/* Forbids, or allows again, system calls for memory in the calling thread. Returns the previous setting. Use it in real-time
 * threads that work on a prefaulted heap.
 *
 * While they are forbidden, a call that needs memory from the system fails. refused_system_calls of pool_stats_json() counts
 * these calls. Memory that should be returned to the system is kept until a later call of a thread that may make system calls.
 * The memory of a destroyed heap counts as the default heap's until then. */
POOL_API bool pool_forbid_system_calls(bool forbid) POOL_NAME(forbid_system_calls);

POOL_END_DECLS

#endif
