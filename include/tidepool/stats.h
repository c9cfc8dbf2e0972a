/* SPDX-License-Identifier: MIT
 *
 * tidepool/stats.h: what a heap holds, and for what.
 *
 *   live     with the caller
 *   cached   free, in a magazine of some thread or in a depot
 *   idle     free, in a slab or a free run
 *   held     live + cached + idle + metadata, the manager's own records for them, + what child heaps hold; to the byte
 *
 * What belongs to nobody counts as the default heap's: what the process's space has free, also where the blocks of other heaps
 * were; what regions of small budgets have free; records that serve all heaps. So the figures of the default heap and of all
 * heaps without a parent add up to what the manager holds. Memory that was mapped and never used is not counted, nor are the
 * program's own data and its code. */
#ifndef TIDEPOOL_STATS_H
#define TIDEPOOL_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

typedef struct pool_stats {
  size_t budget;          /* bytes; 0: no limit */
  size_t held_bytes;      /* taken from the system or the caller's buffer and not given back */
  size_t peak_held_bytes; /* the most held_bytes has been; the default heap counts what was free when somebody asks */
  size_t live_bytes;      /* usable bytes of live blocks */
  size_t live_blocks;
  size_t cached_bytes;
  size_t idle_bytes;
  size_t metadata_bytes;
  size_t children_bytes;     /* held by heaps whose parent this is, and by theirs */
  uint64_t exhausted_count;  /* requests that ended in NULL */
  uint64_t retried_count;    /* calls of on_exhausted that returned true */
  uint64_t overflowed_count; /* requests that the overflow heap served */
  uint64_t purged_bytes;     /* given back to the system, in total; for the default heap by the whole process, with blocks and
                              * reserves that were mappings of their own and ended */
  size_t largest_free;       /* what pool_heap_largest() says. Of a checked heap that call first gives back what was freed
                              * and is kept for a while, and this figure is without it */
  size_t fragmentation;      /* of a heap as it is exact for: how many thousandths of the free bytes of its memory, used or not,
                              * are in other pieces than the longest; 0: all are in one */
} pool_stats_t;

/* Fills in the figures. They are exact if no thread uses the heap meanwhile, and otherwise close. It takes one lock of the heap
 * at a time, for microseconds. It returns false, with EINVAL and pool_error(), if heap or stats is NULL. */
POOL_INLINE bool pool_heap_stats(pool_heap_t *heap, pool_stats_t *stats);

/* What pool_heap_stats calls. `size` is sizeof(pool_stats_t) as the caller knows it: so many bytes are filled, with 0 where the
 * library has no figure for them. */
POOL_API bool pool_heap_stats_sized(pool_heap_t *heap, pool_stats_t *stats, size_t size) POOL_NAME(heap_stats);

POOL_INLINE bool pool_heap_stats(pool_heap_t *heap, pool_stats_t *stats)
{
  return pool_heap_stats_sized(heap, stats, sizeof(pool_stats_t));
}

/* Writes the figures as one JSON object, with those of each pool that has slabs. As snprintf does, it writes at most `size`
 * bytes, always terminated if size > 0, and returns the length of the whole text. With NULL for the heap the text is null. It
 * allocates nothing. */
POOL_API size_t pool_heap_stats_json(pool_heap_t *heap, char *buffer, size_t size) POOL_NAME(heap_stats_json);

/* Writes {"heaps":[...], "object_pools":[...], "refused_system_calls":n} in the same way: everything in the process, and how
 * often pool_forbid_system_calls() made a call fail that needed the system. It changes no heap, and may come while the one
 * thread of a POOL_HEAP_SINGLE_THREAD heap is at work in it. Of a heap in a small memory this and pool_heap_stats_json() read
 * without its lock: a figure may be of a moment ago, largest_free is the longest free piece as far as the budget has room, and
 * freed blocks that the heap keeps for the next request count as free, but their pages as held. */
POOL_API size_t pool_stats_json(char *buffer, size_t size) POOL_NAME(stats_json);

POOL_END_DECLS

#endif
