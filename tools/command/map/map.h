/* SPDX-License-Identifier: MIT
 *
 * The heap map of a process: its arenas, what is in each unit of them, and the state of every block. It is read from outside
 * while the process runs on, so a slab whose parts did not agree in a few looks is marked as changing.
 *
 *   - A row is what a heap has of one kind: a size class, large blocks, mappings, granules.
 *   - A place is a stretch of an arena: a slab, a large block, units that are free and hold memory. In a place with blocks the
 *     state of each is in two bitmaps, and by where it lies to the fresh mark. */
#ifndef MAP_H
#define MAP_H

#include "base/bits.h"
#include "memory.h"
#include <stdio.h>

struct export_root;

#define MAP_NONE UINT32_MAX
enum { MAP_NAME = 32 };

typedef enum map_state { MAP_LIVE, MAP_CACHED, MAP_FREE, MAP_FRESH, MAP_STATES } map_state_t;

typedef enum map_row_kind { MAP_CLASS, MAP_LARGE, MAP_MAPPED, MAP_GRANULES, MAP_ROW_KINDS } map_row_kind_t;

typedef struct map_row {
  uint32_t heap;
  uint8_t kind;            /* map_row_kind_t */
  uint8_t size_class;      /* of the heap; 0: the row is none's */
  uint32_t block_size;     /* of a class */
  uint32_t withheld;       /* blocks that look live and are in quarantine, */
  uint32_t withheld_bytes; /* and of those of no class their bytes */
  uint64_t bin;            /* its address */
  uint64_t places;         /* slabs, runs or mappings; of granules pages in use */
  uint64_t blocks[MAP_STATES], live_bytes;
  uint64_t held_bytes, half_bytes, quarter_bytes; /* in slabs; in those less than half full, and less than a quarter */
} map_row_t;

typedef struct map_heap {
  uint64_t address, budget, held;
  char name[MAP_NAME];
  uint32_t arena; /* of its region; MAP_NONE: it has none */
  uint32_t first_row, row_count;
  bool headed; /* each of its blocks has a head, which says what was asked for and where */
} map_heap_t;

typedef enum map_arena_kind { ARENA_WINDOW, ARENA_REGION, ARENA_GRANULES, ARENA_MAPPINGS } map_arena_kind_t;

typedef struct map_arena {
  uint64_t base;
  uint8_t kind; /* map_arena_kind_t */
  uint8_t unit_log2;
  uint32_t unit_count, used_end;
  uint32_t heap; /* whose region it is; MAP_NONE: no heap's */
  size_t first_place, place_count;
} map_arena_t;

typedef enum map_place_kind {
  PLACE_SLAB,
  PLACE_LARGE,
  PLACE_SPARE,    /* freed, and kept by a thread */
  PLACE_REGION,   /* a heap lives in it, whose region is an arena of its own */
  PLACE_IDLE,     /* free, and it holds memory */
  PLACE_GRANULES, /* a page of them: each is as a block */
  PLACE_KEPT,     /* a mapping that was freed and waits for the next block */
  PLACE_CHANGING  /* what is there could not be told */
} map_place_kind_t;

typedef struct map_place {
  uint64_t start;
  uint32_t unit, units; /* in its arena */
  uint32_t row;         /* MAP_NONE: it is no heap's */
  uint8_t kind;         /* map_place_kind_t */
  bool changing;        /* its parts did not agree */
  uint32_t capacity, fresh, free, cached;
  uint64_t size; /* usable, of a large block */
  size_t words;  /* where its bitmap of free blocks begins, and behind that the one of cached blocks; of `map_t.words` */
} map_place_t;

/* A block of which more is known than its state: those of a recording, and those of heaps with heads. By address, and its site
 * is a number in the callers. */
#define MAP_NO_AGE UINT64_MAX
typedef struct map_block {
  uint64_t address, size, age_ns;
  uint32_t site;
} map_block_t;

/* From a number to another: addresses to indices. */
typedef struct map_table {
  struct map_entry *entries;
  size_t room, count; /* a power of two, at most half of it full */
} map_table_t;

/* What the system says of the mappings: how much is in memory, and of that in huge pages. `shared`: of these mappings it
 * says that of others too. */
typedef struct map_huge {
  bool is_known;
  const char *why; /* it is not */
  uint64_t resident, in_huge_pages, shared;
} map_huge_t;

typedef struct map {
  map_heap_t *heaps;
  map_row_t *rows;
  map_arena_t *arenas;
  map_place_t *places;
  word_t *words;
  size_t heap_count, row_count, arena_count, place_count, word_count;
  size_t heap_room, row_room, arena_room, place_room, word_room;
  map_table_t heap_at, bin_at; /* from the address of a record to the heap; to the row */
  uint32_t *window_arenas;     /* by slot */
  size_t window_slots;
  uint64_t window_start;
  size_t changing; /* places that are, and lists that had no end */
  map_block_t *blocks;
  size_t block_count;
  map_huge_t huge;
} map_t;

/* Reads all that the root leads to. False: the memory has no heap where the root says, and *why says what it may be. */
bool map_read(map_t *map, memory_t *memory, const struct export_root *root, char why[256]);
void map_free(map_t *map);

/* The parts of it, in their order. */
bool map_read_heaps(map_t *map, memory_t *memory, const struct export_root *root, char why[256]);
void map_read_arenas(map_t *map, memory_t *memory, const struct export_root *root);
void map_read_mappings(map_t *map, memory_t *memory, const struct export_root *root);
void map_read_caches(map_t *map, memory_t *memory, const struct export_root *root);
void map_read_heads(map_t *map, memory_t *memory);
void map_sum(map_t *map);

/* Sorts what is known of blocks. */
void map_order_blocks(map_t *map);

/* The index of the first known block at or behind an address; their number: there is none. */
size_t map_first_block(const map_t *map, uint64_t address);

/* Takes live blocks of which nothing is known for free ones, and sums again. A process that plays a recording has blocks of its
 * own beside the recorded ones, such as the C library's record of a thread. */
void map_keep_known(map_t *map);

/* Adding to it; what there is no memory for ends the program. */
uint32_t map_add_row(map_t *map, uint32_t heap, map_row_kind_t kind);
map_place_t *map_add_place(map_t *map, map_place_t place);
map_arena_t *map_add_arena(map_t *map, map_arena_t arena);
size_t map_add_words(map_t *map, size_t count);

/* The index that belongs to an address; MAP_NONE: none does. */
uint32_t map_table_get(const map_table_t *table, uint64_t key);
void map_table_put(map_table_t *table, uint64_t key, uint32_t value);
void map_table_free(map_table_t *table);

/* The row of a heap of that kind, which is the last or the last but one that it has. */
uint32_t map_row_of(map_t *map, uint32_t heap, map_row_kind_t kind);

/* The place of a heap's block; NULL: it is in none. */
map_place_t *map_place_at(const map_t *map, uint32_t heap, uint64_t address);

static inline const word_t *map_free_bits(const map_t *map, const map_place_t *place) { return map->words + place->words; }
static inline const word_t *map_cached_bits(const map_t *map, const map_place_t *place)
{
  return map->words + place->words + bits_words(place->capacity);
}
static inline bool map_has_blocks(const map_place_t *place)
{
  return place->kind == PLACE_SLAB || place->kind == PLACE_GRANULES;
}
static inline uint64_t map_bytes(const map_arena_t *arena, const map_place_t *place)
{
  return (uint64_t)place->units << arena->unit_log2;
}
map_state_t map_state(const map_t *map, const map_place_t *place, uint32_t block);
static inline uint32_t map_live(const map_place_t *place) { return place->fresh - place->free - place->cached; }

/* How full it is: live bytes of all, from 0 to 1. */
double map_fullness(const map_t *map, const map_arena_t *arena, const map_place_t *place);

#endif
