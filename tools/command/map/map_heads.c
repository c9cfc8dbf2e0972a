/* SPDX-License-Identifier: MIT
 *
 * What heads say of blocks: of heaps that are checked or have sites it is known how much was asked for, and where, and which
 * blocks came back and are in quarantine. A head that does not fit its block is passed over. */
#include "command.h"
#include "debug/guard.h"
#include "debug/guard_head.h"
#include "map.h"
#include "map_read.h"
#include <stdlib.h>

enum { BLOCKS_MOST = 1 << 22 };

typedef struct heads {
  map_t *map;
  memory_t *memory;
  size_t room;
} heads_t;

static void add_block(heads_t *heads, uint64_t address, const head_t *head)
{
  map_t *map = heads->map;
  if (map->block_count == heads->room) {
    heads->room = heads->room * 2 + 1024;
    map->blocks = reallocarray(map->blocks, heads->room, sizeof *map->blocks);
    if (!map->blocks)
      command_fail(COMMAND_FAILED, "map: no memory");
  }
  map->blocks[map->block_count++] = (map_block_t){address, head->size, MAP_NO_AGE, head->allocated};
}

static bool read_head(const heads_t *heads, uint64_t address, uint64_t usable, head_t *head)
{
  return memory_read(heads->memory, address, head, sizeof *head) && head->usable == usable && usable >= GUARD_BYTES &&
         head->size <= usable - GUARD_BYTES;
}

/* Of a bin the blocks in quarantine are counted; what is known of one by itself is not to be counted again. */
static void mark_returned(map_t *map, map_place_t *place, uint32_t block)
{
  map_row_t *row = &map->rows[place->row];
  bit_set(map->words + place->words + bits_words(place->capacity), block);
  place->cached++;
  row->withheld -= row->withheld != 0;
}

static void read_slab(heads_t *heads, map_place_t *place)
{
  map_t *map = heads->map;
  uint64_t size = map->rows[place->row].block_size;
  head_t head;
  for (uint32_t i = 0; i < place->fresh && map->block_count < BLOCKS_MOST; i++) {
    if (map_state(map, place, i) != MAP_LIVE || !read_head(heads, place->start + i * size, size, &head))
      continue;
    if (head.sum & DEAD_BIT)
      mark_returned(map, place, i);
    else
      add_block(heads, place->start + i * size, &head);
  }
}

static void read_large(heads_t *heads, const map_place_t *place)
{
  head_t head;
  if (read_head(heads, place->start, place->size, &head) && !(head.sum & DEAD_BIT))
    add_block(heads, place->start, &head);
}

void map_read_heads(map_t *map, memory_t *memory)
{
  heads_t heads = {.map = map, .memory = memory};
  for (size_t i = 0; i < map->place_count && map->block_count < BLOCKS_MOST; i++) {
    map_place_t *place = &map->places[i];
    if (place->row == MAP_NONE || !map->heaps[map->rows[place->row].heap].headed)
      continue;
    if (place->kind == PLACE_SLAB)
      read_slab(&heads, place);
    else if (place->kind == PLACE_LARGE)
      read_large(&heads, place);
  }
  map_order_blocks(map);
}
