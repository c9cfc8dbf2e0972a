/* SPDX-License-Identifier: MIT
 *
 * The entry point for readers of this process's memory (`tidepool map`). The addresses that lead to everything else follow the
 * head of the page that is shared with export=1. A number identifies the layout of all that is read there: a reader compiled
 * with another layout has another number and reads nothing. The process pays only for these words. */
#ifndef EXPORT_ROOT_H
#define EXPORT_ROOT_H

#include "base/granules.h"
#include "debug/export_page.h"
#include "debug/head_layout.h"
#include "heap/heap.h"

typedef struct export_root {
  uint64_t layout; /* export_layout() */
  uint64_t default_heap, window, slots, huge_ranges;
  uint64_t threads, lost_threads;    /* addresses of pointers to the first thread */
  uint64_t site_chunks, sites_taken; /* sites_place() */
  uint64_t unused;
} export_root_t;

/* The beginning of new memory. A page of an earlier version ends before the root. */
typedef struct export_head {
  export_page_t page;
  export_root_t root;
} export_head_t;

_Static_assert(sizeof(export_head_t) == 144, "the same everywhere, and aligned");

enum { EXPORT_LAYOUT = 1 }; /* incremented if a field keeps its place but changes its meaning */

/* Returns a hash of the layout that is read. Different layouts have different numbers, except by chance. */
static inline uint64_t export_layout(void)
{
#define AT(type, field)                   (uint16_t) offsetof(type, field)
#define AT_2(type, one, two)              AT(type, one), AT(type, two)
#define AT_4(type, one, two, three, four) AT_2(type, one, two), AT_2(type, three, four)
#define AT_6(type, one, two, three, ...)  AT_2(type, one, two), AT_4(type, three, __VA_ARGS__)
  static const uint16_t layout[] = {EXPORT_LAYOUT,
                                    ADDRESS_BITS,
                                    SLOT_LOG2,
                                    SLOTS_MOST,
                                    UNIT_LOG2,
                                    CLASS_COUNT,
                                    CLASS_CACHED,
                                    MAGAZINE_WORDS,
                                    DEPOT_SHARDS,
                                    DEPOT_SHARDS_MOST,
                                    HEAP_RECORD_SHORT,
                                    REGION_PREPAID,
                                    RUN_REGION,
                                    SLAB_LISTS,
                                    KEPT_LONGEST,
                                    GRANULE_LOG2,
                                    SITE_BITS,
                                    SITE_CHUNK_LOG2,
                                    KIND_BITS,
                                    AT_6(heap_t, mark, next, bins_end, budget, name, bins),
                                    AT_2(heap_t, region, flags),
                                    AT(heap_t, quarantine),
                                    sizeof(heap_t),
                                    AT_6(heap_region_t, kind, start, size, granules, base, space),
                                    sizeof(heap_region_t),
                                    AT_4(granules_t, map, count, live, blocks),
                                    AT_2(granules_t, used, taken_end),
                                    AT_2(budget_t, limit, held),
                                    AT_2(quarantine_t, bytes, blocks_of_no_bin),
                                    AT(space_t, own_arena),
                                    AT_6(bin_t, block_size, size_class, cached, heap, withheld, depots),
                                    sizeof(bin_t),
                                    AT_4(depots_t, of, more, shards, count),
                                    AT(depot_t, newest),
                                    sizeof(depot_t),
                                    AT_6(run_t, kind, size_class, units, capacity, free_count, fresh),
                                    AT_6(run_t, start, owner, bitmap, size, short_bitmap, next),
                                    sizeof(run_t),
                                    AT_4(arena_t, base, unit_count, committed, used_end),
                                    AT(arena_t, runs),
                                    AT_6(arena_t, long_bitmaps, dirty, start, room, slot, slots),
                                    sizeof(arena_t),
                                    AT(span_tree_t, map),
                                    AT_2(window_t, start, extent),
                                    AT_4(huge_t, range, owner, hidden, clean),
                                    sizeof(huge_t),
                                    AT_2(huge_standalone_t, offset, asked),
                                    AT_4(range_t, start, size, left, right),
                                    AT_4(thread_t, next, default_magazines, chains, chains_log2),
                                    AT_4(heap_cache_t, heap, next, magazines, cache),
                                    AT_2(magazines_t, cache, of),
                                    sizeof(magazines_t),
                                    AT_6(head_t, size, allocated, freed_and_front, usable, sum, next),
                                    AT_2(loaded_t, top, below),
                                    sizeof(cache_t),
                                    AT_2(stock_t, full, count),
                                    sizeof(stock_t)};
#undef AT_6
#undef AT_4
#undef AT_2
#undef AT
  uint64_t number = 0xcbf29ce484222325;
  for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
    number = (number ^ layout[i]) * 0x100000001b3;
  return number;
}

#endif
