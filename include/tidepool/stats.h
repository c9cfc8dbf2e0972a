/* SPDX-License-Identifier: MIT
 *
 * tidepool/stats.h: what a heap holds, as numbers and as JSON.
 *
 *   live       in blocks that callers have
 *   cached     free, in the magazines of threads and in depots
 *   idle       free, in slabs and free runs
 *   metadata   in the manager's own records for these
 *   children   held by child heaps
 *   held       the sum of all these, to the byte
 *
 * Some free memory has no pages behind it. Pages that the manager returned to the system, and pages that nobody has touched
 * yet, stay mapped and cost only addresses. So the same bytes are counted a second way:
 *
 *   free       of idle: backed by pages, as far as the manager knows. It may be returned after the purge delay
 *   returned   free and still mapped, but not backed. A part of it is held: free blocks in slabs, and free units of a reserve
 *   mapped     live + cached + free + returned + metadata + children, to the byte
 *
 * The default heap also counts memory that no heap owns:
 *
 *   - free memory of the process, wherever it was used before
 *   - free memory of the regions of small budgets
 *   - records that serve all heaps
 *
 *   - in returned and mapped: all that the manager has mapped and no heap holds
 *
 * So the heaps without a parent, the default heap included, add up to all memory that the manager holds, and to all that it has
 * mapped. The memory of a heap in a buffer of the caller counts too, although the manager did not map it. The tables of guarded
 * heaps and profiles do not count. */
#ifndef TIDEPOOL_STATS_H
#define TIDEPOOL_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

typedef struct pool_stats {
  size_t budget;          /* bytes; 0: no limit */
  size_t held_bytes;      /* taken from the system or the caller's buffer and not returned */
  size_t peak_held_bytes; /* the most that held_bytes has been. The default heap counts free memory only when figures are
                           * read */
  size_t live_bytes;      /* usable bytes of live blocks */
  size_t live_blocks;
  size_t cached_bytes;
  size_t idle_bytes;
  size_t metadata_bytes;
  size_t children_bytes;     /* held by heaps whose parent is this heap, and by their children */
  uint64_t exhausted_count;  /* requests that returned NULL */
  uint64_t retried_count;    /* calls of on_exhausted that returned true */
  uint64_t overflowed_count; /* requests that the overflow heap served */
  uint64_t purged_bytes;     /* returned to the system, in total. The default heap counts the whole process, including blocks
                              * and reserves that were mappings of their own */
  size_t largest_free;       /* pool_heap_largest(), without what that call frees first: the quarantine of a checked heap, and,
                              * if a budget is the limit, the freed blocks that a small heap keeps */
  size_t fragmentation;      /* free bytes outside the longest piece, in thousandths of all free bytes; 0: there is one piece.
                              * Only for heaps for which pool_heap_largest() is exact */
  size_t free_bytes;         /* of idle_bytes: backed by pages. Blocks that were never handed out count as backed */
  size_t returned_bytes;     /* free and mapped, but not backed: returned to the system, or never used */
  size_t mapped_bytes;       /* live, cached, free, returned, metadata and children */
  size_t advised_bytes;      /* in huge pages that the default heap asked the system for. /proc/PID/smaps says what it gave */
} pool_stats_t;

/* Stores the figures of a heap in *stats. They are exact if no thread uses the heap meanwhile, and close otherwise. A
 * background thread that returns memory counts as a user. The call changes no figure of any heap, except that the default heap
 * notes its peak_held_bytes. It takes one lock of the heap at a time, each for microseconds. false and EINVAL, with
 * pool_error(): heap or stats is NULL. */
POOL_INLINE bool pool_heap_stats(pool_heap_t *heap, pool_stats_t *stats);

/* The function behind pool_heap_stats(). `size` is sizeof(pool_stats_t) as the caller was compiled. It fills that many bytes,
 * with 0 for figures that the library does not have. */
POOL_API bool pool_heap_stats_sized(pool_heap_t *heap, pool_stats_t *stats, size_t size) POOL_NAME(heap_stats);

POOL_INLINE bool pool_heap_stats(pool_heap_t *heap, pool_stats_t *stats)
{
  return pool_heap_stats_sized(heap, stats, sizeof(pool_stats_t));
}

/* Writes the figures of a heap as one JSON object, with those of each pool that has slabs. Like snprintf(), it writes at most
 * `size` bytes, terminates the text if size > 0, and returns the length of the whole text. A result of `size` or more means
 * that the text is cut. Check the result of every call: other threads may lengthen the text between two calls. The function
 * allocates nothing. If the heap is NULL, the text is null. */
POOL_API size_t pool_heap_stats_json(pool_heap_t *heap, char *buffer, size_t size) POOL_NAME(heap_stats_json);

/* Writes the figures of the whole process as pool_heap_stats_json() does: {"heaps":[...], "object_pools":[...],
 * "refused_system_calls":n}. refused_system_calls counts the calls that pool_forbid_system_calls() made fail.
 *
 * It changes no heap, and may run while a thread uses its POOL_HEAP_SINGLE_THREAD heap. Heaps in a small memory are read
 * without their lock, also by pool_heap_stats_json(). Their figures may be out of date. Their largest_free is the longest free
 * piece, as far as the budget has room. Freed blocks that the heap keeps for the next request count as free, but their pages as
 * held. */
POOL_API size_t pool_stats_json(char *buffer, size_t size) POOL_NAME(stats_json);

POOL_END_DECLS

#endif
