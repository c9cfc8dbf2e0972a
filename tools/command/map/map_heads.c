/* SPDX-License-Identifier: MIT
 *
 * What heads say of blocks: of heaps that are checked or have sites it is known how much was asked for, and where, and which
 * blocks came back and are in quarantine. A head that does not fit its block is passed over. */
#include "command.h"
#include "debug/head.h"
#include "debug/head_layout.h"
#include "map.h"
#include "map_read.h"
#include <stdlib.h>

enum { BLOCKS_MOST = 1 << 22 };

typedef struct head_list {
  map_t *map;
  memory_t *memory;
  size_t room;
} head_list_t;

static void add_block(head_list_t *list, uint64_t address, const head_t *head)
{
  map_t *map = list->map;
  if (map->block_count == list->room) {
    list->room = list->room * 2 + 1024;
    map->blocks = reallocarray(map->blocks, list->room, sizeof *map->blocks);
    if (!map->blocks)
      command_fail(COMMAND_FAILED, "map: no memory");
  }
  map->blocks[map->block_count++] = (map_block_t){address, head->size, MAP_NO_AGE, head->allocated};
}

static bool read_head(const head_list_t *list, uint64_t address, uint64_t usable, head_t *head)
{
  return memory_read(list->memory, address, head, sizeof *head) && head->usable == usable && usable >= HEAD_BYTES &&
         head->size <= usable - HEAD_BYTES;
}

/* Of a bin the blocks in quarantine are counted; what is known of one by itself is not to be counted again. */
static void mark_returned(map_t *map, map_place_t *place, uint32_t block)
{
  map_row_t *row = &map->rows[place->row];
  bit_set(map->words + place->words + bits_words(place->capacity), block);
  place->cached++;
  row->withheld -= row->withheld != 0;
}

static void read_slab(head_list_t *list, map_place_t *place)
{
  map_t *map = list->map;
  uint64_t size = map->rows[place->row].block_size;
  head_t head;
  for (uint32_t i = 0; i < place->fresh && map->block_count < BLOCKS_MOST; i++) {
    if (map_state(map, place, i) != MAP_LIVE || !read_head(list, place->start + i * size, size, &head))
      continue;
    if (head.sum & DEAD_BIT)
      mark_returned(map, place, i);
    else
      add_block(list, place->start + i * size, &head);
  }
}

static void read_large(head_list_t *list, const map_place_t *place)
{
  head_t head;
  if (read_head(list, place->start, place->size, &head) && !(head.sum & DEAD_BIT))
    add_block(list, place->start, &head);
}

void map_read_heads(map_t *map, memory_t *memory)
{
  head_list_t list = {.map = map, .memory = memory};
  for (size_t i = 0; i < map->place_count && map->block_count < BLOCKS_MOST; i++) {
    map_place_t *place = &map->places[i];
    if (place->row == MAP_NONE || !map->heaps[map->rows[place->row].heap].headed)
      continue;
    if (place->kind == PLACE_SLAB)
      read_slab(&list, place);
    else if (place->kind == PLACE_LARGE)
      read_large(&list, place);
  }
  map_order_blocks(map);
}
