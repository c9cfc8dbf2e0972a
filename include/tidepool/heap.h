/* SPDX-License-Identifier: MIT
 *
 * tidepool/heap.h: a manager of your own for one subsystem, with a budget, a policy for when it is exhausted, and an end.
 *
 * All threads may use one heap at once unless it is POOL_HEAP_SINGLE_THREAD. Destroy, reset and walk need the other threads to
 * stay out of that heap for their duration, and nothing else: no flush, no registration; any thread may call them. Sizes are
 * bytes; errno is kept on success. A NULL heap: NULL, false or 0, and EINVAL.
 *
 * A heap that was destroyed, or anything else that is no heap, ends the program with one line and abort(), where it is seen. So
 * does destroying a heap that is still the parent or the overflow of a live one. */
#ifndef TIDEPOOL_HEAP_H
#define TIDEPOOL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* Called with no lock held when `heap` cannot serve `bytes_needed` within its budget. It may free blocks, reset object pools,
 * raise the budget. true: try again. false: give up. `attempt` counts from 0 for one request, to 63. */
typedef bool pool_exhausted_fn(pool_heap_t *heap, size_t bytes_needed, unsigned attempt, void *context);

enum {
  POOL_HEAP_SINGLE_THREAD = 1 << 0,   /* one thread only, no locks */
  POOL_HEAP_PREFAULT = 1 << 1,        /* touch `reserve` at creation, and keep it */
  POOL_HEAP_LOCK_MEMORY = 1 << 2,     /* mlock() it and the heap's records: the limit must have room for both */
  POOL_HEAP_ZERO_ON_FREE = 1 << 3,    /* nothing of a returned block stays in memory; what it overflows to lies in the other heap,
                                       * which wipes only if it has the flag */
  POOL_HEAP_CHECKED = 1 << 4          /* see below */
};

/* A CHECKED heap fills a returned block with the bytes of 0x1deadb0b and a new one with 0xcd, verifies the fill when the block
 * is given out again, keeps a canary behind the requested size that is verified at free, and finds a second free at once. Each
 * finding ends the program with one line that names the block and the offset. pool_usable_size() is the requested size, and
 * pool_heap_realloc() to another size moves the block, so that a use of its old address is found. */

#define POOL_PURGE_NEVER 0xffffffffu

typedef struct pool_heap_options {
  const char        *name;              /* copied, up to 31 bytes; NULL: a generated one */
  size_t             budget;            /* most bytes held at any instant, records too; 0: no limit. With one, or an ancestor's,
                                         * what sleeping threads have cached is taken from them when it is used up */
  size_t             reserve;           /* bytes for blocks, any number, taken at creation, so that growth up to it in blocks of
                                         * one size class cannot fail, as pool_heap_good_size() counts them. Each further class in
                                         * use may keep up to a slab from the others, and what is of no class takes whole units.
                                         * Records come on top, or out of it where the budget has no room for both. One above 8 MiB
                                         * takes whole GiB of 3 TiB of addresses, so a process has at most 3072 heaps with such a
                                         * reserve */
  pool_heap_t       *parent;            /* what this heap holds also counts against the parent's budget, and so upward */
  pool_exhausted_fn *on_exhausted;
  pool_heap_t       *overflow;          /* serves a request that this heap, after on_exhausted, cannot */
  void              *context;           /* for on_exhausted */
  void              *memory;            /* the caller's buffer: everything, metadata too, lives in it and the system is never asked.
                                         * It has to last as long as the heap, also in the child of a fork, where the stacks of other
                                         * threads do not.
                                         * If it begins a block of another heap, its address is that block; within, this heap
                                         * answers. Blocks of a heap in a block of up to 32 KiB of the default heap: to
                                         * pool_heap_free and pool_heap_realloc only, never to pool_free, pool_realloc or
                                         * pool_usable_size, which would take them for the default heap's */
  size_t             memory_size;
  const size_t      *size_classes;      /* ascending multiples of 16 up to 256 KiB, copied; NULL: the built-in table */
  size_t             size_class_count;  /* at most 104 */
  unsigned           purge_delay_ms;    /* how long idle memory of a reserve, or of a budget up to 8 MiB, is kept; 0: the default;
                                         * POOL_PURGE_NEVER, which `memory` may have too. EINVAL for other heaps: what they have
                                         * idle is the process's. Object pools keep their idle arrays as long */
  unsigned           flags;             /* POOL_HEAP_* */
} pool_heap_options_t;

/* A heap. NULL options: all defaults. NULL + EINVAL: options that contradict each other, a buffer or budget too small for the
 * heap's own records; NULL + ENOMEM, also where an ancestor's budget has no room. Parent and overflow heap must outlive it.
 * Some microseconds; with a reserve as long as mapping it takes, and a fork() meanwhile waits for it. */
POOL_API pool_heap_t *pool_heap_create(const pool_heap_options_t *options) POOL_NOEXCEPT;

/* Every block of it is gone, and the heap. NULL is fine. Costs by the number of slabs, not of blocks. No live heap may have it
 * as its parent or overflow. */
POOL_API void pool_heap_destroy(pool_heap_t *heap) POOL_NOEXCEPT;

/* Every block of it is gone; slabs stay held for reuse, larger runs go back. Costs as destroy. */
POOL_API void pool_heap_reset(pool_heap_t *heap) POOL_NOEXCEPT;

/* As pool_trim, for this heap. If it, or an ancestor, had a budget at its creation, the spare blocks of all threads go back. */
POOL_API size_t pool_heap_trim(pool_heap_t *heap, size_t keep) POOL_NOEXCEPT;

/* false, and the budget is unchanged, if more is held even after a trim and without what its children have idle, but for what threads
 * have cached of those, and for those of one thread; no thread sees another budget meanwhile. 0: no limit.
 * Where it is raised beyond a budget of up to 8 MiB the heap goes on in the process's memory; one in `memory` stays in it.
 * What sleeping threads have cached stays out of reach where neither the heap nor an ancestor had a budget at its creation. */
POOL_API bool pool_heap_set_budget(pool_heap_t *heap, size_t budget) POOL_NOEXCEPT;

/* As their namesakes in pool.h. When the heap is exhausted, in this order: its own cached and idle memory, without the idle arrays of
 * object pools; on_exhausted, as long as it says true and at most 64 times; the overflow heap; then NULL and ENOMEM. Each is counted in
 * the figures.
 * pool_heap_realloc takes blocks that the overflow heap served, and may move a block back. */
POOL_API void *pool_heap_alloc(pool_heap_t *heap, size_t size) POOL_NOEXCEPT POOL_RETURNS_BLOCK(2);
POOL_API void *pool_heap_zalloc(pool_heap_t *heap, size_t size) POOL_NOEXCEPT POOL_RETURNS_BLOCK(2);
POOL_API void *pool_heap_calloc(pool_heap_t *heap, size_t count, size_t size) POOL_NOEXCEPT POOL_RETURNS_BLOCK(2, 3);
POOL_API void *pool_heap_realloc(pool_heap_t *heap, void *block, size_t size) POOL_NOEXCEPT
  __attribute__((warn_unused_result, alloc_size(3)));
POOL_API void *pool_heap_aligned_alloc(pool_heap_t *heap, size_t alignment, size_t size) POOL_NOEXCEPT
  POOL_RETURNS_ALIGNED_BLOCK(2, 3);

/* As pool_good_size, for this heap's size classes. Checked heaps: what a block would take, not what can be used of it. */
POOL_API size_t pool_heap_good_size(const pool_heap_t *heap, size_t size) POOL_NOEXCEPT;

/* As pool_free, faster, for blocks of this heap; one that the overflow heap served is fine here. */
POOL_API void pool_heap_free(pool_heap_t *heap, void *block) POOL_NOEXCEPT;

/* The heap behind pool_alloc(); it cannot be reset or destroyed. Never NULL. */
POOL_API pool_heap_t *pool_heap_default(void) POOL_NOEXCEPT;

/* The heap's name, which lives as long as the heap does; NULL for NULL. */
POOL_API const char *pool_heap_name(const pool_heap_t *heap) POOL_NOEXCEPT;

typedef struct pool_block { void *start; size_t size; } pool_block_t;
typedef bool pool_visit_fn(const pool_block_t *block, void *context);   /* false stops the walk */

/* Visits each live block once, by address in each slab. The visitor may free the block it is given, and allocate: blocks that
 * are new in this heap are visited or not. false: it was stopped. */
POOL_API bool pool_heap_walk(pool_heap_t *heap, pool_visit_fn *visit, void *context) POOL_NOEXCEPT;

/* For the calling thread: from now on what would need the system (more memory, or giving some back) fails instead of asking.
 * What cannot be given back is kept, a destroyed heap's as the default heap's, and goes back at a later call of a thread that may.
 * Returns what held before. For real-time threads on a prefaulted heap; pool_stats_json() has the count. */
POOL_API bool pool_forbid_system_calls(bool forbid) POOL_NOEXCEPT;

POOL_END_DECLS

#endif
