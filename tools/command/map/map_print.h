/* SPDX-License-Identifier: MIT
 *
 * A map as text, for scripts, and as a page. */
#ifndef MAP_PRINT_H
#define MAP_PRINT_H

#include "map_process.h"

/* The sums of all rows, or of those of one heap. `packed_bytes` is what would be held if the live blocks of each class were
 * together in as few slabs as they need. */
typedef struct map_sums {
  uint64_t places, blocks[MAP_STATES], live_bytes, held_bytes, packed_bytes, half_bytes, quarter_bytes;
} map_sums_t;
#define MAP_ALL_HEAPS MAP_NONE
map_sums_t map_sums(const map_t *map, uint32_t heap);

/* Has something to be shown. */
static inline bool map_row_is_used(const map_row_t *row) { return row->places || row->blocks[MAP_LIVE]; }

/* What a row is called: its block size, or its kind. */
enum { MAP_LABEL = 32 };
const char *map_row_label(const map_row_t *row, char room[MAP_LABEL]);

/* In one line where an arena is, and what. */
void map_print_arena(const map_t *map, const map_arena_t *arena, FILE *to);

/* What there is in one sentence: how much is held, and in slabs of which little is live. */
void map_print_summary(const map_t *map, FILE *to);
void map_print_hint(const map_source_t *source, FILE *to);

/* How much is resident, and in huge pages; or that it cannot be known. */
void map_print_huge(const map_t *map, FILE *to);
void map_print_huge_json(const map_t *map, FILE *to);

void map_print(const map_t *map, const map_source_t *source, FILE *to);
void map_print_json(const map_t *map, const map_source_t *source, FILE *to);
void map_write_page(const map_t *map, const map_source_t *source, FILE *to);

/* Those whose blocks keep slabs that are less than half full, the most first: how much of what these hold is put down to them.
 */
typedef struct map_keeper {
  uint32_t stack; /* of callers.stacks */
  uint32_t block_size;
  uint64_t bytes, blocks;
} map_keeper_t;
map_keeper_t *map_keepers(const map_t *map, const map_source_t *source, size_t *count);

/* The blocks of a place of which more is known: [from, to) of map_t.blocks. */
void map_blocks_of(const map_t *map, const map_arena_t *arena, const map_place_t *place, size_t *from, size_t *to);

#endif
