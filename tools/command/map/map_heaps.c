/* SPDX-License-Identifier: MIT
 *
 * The heaps of a process, and of each the rows that it has: a size class for each of its bins, and what is of no class. */
#include "command.h"
#include "debug/export_root.h"
#include "map.h"
#include "map_read.h"
#include <stdlib.h>
#include <string.h>

enum { HEAPS_MOST = 1 << 20, BLOCK_MOST = 1 << 20 };

/* A heap in a small memory of the caller ends in front of its bins, where that memory may end too. */
static bool read_record(memory_t *memory, uint64_t address, heap_t *heap)
{
  memset(heap, 0, sizeof *heap);
  if (!memory_read(memory, address, heap, HEAP_RECORD_SHORT) || heap->mark != HEAP_LIVE_MARK)
    return false;
  return (heap->region.kind == REGION_GUEST && heap->region.granules.map) || memory_read(memory, address, heap, sizeof *heap);
}

/* Its heap is the one that names it, and its class the one that it stands at. */
static bool is_bin(const bin_t *bin, uint64_t heap, unsigned size_class)
{
  return number_of(bin->heap) == heap && bin->size_class == size_class && bin->block_size >= BLOCK_ALIGNMENT &&
         bin->block_size <= BLOCK_MOST && bin->block_size % BLOCK_ALIGNMENT == 0;
}

static void read_bin(map_t *map, memory_t *memory, uint32_t heap, uint64_t address, unsigned size_class)
{
  bin_t bin;
  if (!memory_read(memory, address, &bin, sizeof bin) || !is_bin(&bin, map->heaps[heap].address, size_class) ||
      map_table_get(&map->bin_at, address) != MAP_NONE) {
    map->changing++;
    return;
  }
  uint32_t row = map_add_row(map, heap, MAP_CLASS);
  map->rows[row].bin = address;
  map->rows[row].size_class = (uint8_t)size_class;
  map->rows[row].block_size = bin.block_size;
  map->rows[row].withheld = bin.withheld;
  map_table_put(&map->bin_at, address, row);
}

static void read_bins(map_t *map, memory_t *memory, uint32_t heap, const heap_t *record)
{
  unsigned end = record->bins_end < CLASS_COUNT ? record->bins_end : CLASS_COUNT;
  for (unsigned size_class = 1; size_class < end; size_class++)
    if (record->bins[size_class])
      read_bin(map, memory, heap, number_of(record->bins[size_class]), size_class);
}

static void add_heap(map_t *map, memory_t *memory, uint64_t address, const heap_t *record)
{
  uint32_t number = (uint32_t)map->heap_count;
  if (map->heap_count == map->heap_room) {
    map->heap_room = map->heap_room * 2 + 16;
    map->heaps = reallocarray(map->heaps, map->heap_room, sizeof *map->heaps);
    if (!map->heaps)
      command_fail(COMMAND_FAILED, "map: no memory");
  }
  map_heap_t *heap = &map->heaps[map->heap_count++];
  *heap = (map_heap_t){.address = address,
                       .budget = record->budget.limit,
                       .held = record->budget.held,
                       .arena = MAP_NONE,
                       .headed = record->flags & HEAP_HEADED,
                       .first_row = (uint32_t)map->row_count};
  memcpy(heap->name, record->name, sizeof heap->name - 1);
  map_table_put(&map->heap_at, address, number);
  if (record->region.granules.map)
    map_add_row(map, number, MAP_GRANULES);
  else
    read_bins(map, memory, number, record);
  map_add_row(map, number, MAP_LARGE);
  map_add_row(map, number, MAP_MAPPED);
  map->heaps[number].row_count = (uint32_t)map->row_count - map->heaps[number].first_row;
  if (record->flags & POOL_HEAP_CHECKED) {
    map_row_t *row = &map->rows[map_row_of(map, number, record->region.granules.map ? MAP_GRANULES : MAP_LARGE)];
    row->withheld = record->quarantine.blocks_of_no_bin;
    row->withheld_bytes = record->quarantine.bytes;
  }
}

/* A heap that ends just now leaves the list, and what it led to is seen no more: it is said that something changed. */
bool map_read_heaps(map_t *map, memory_t *memory, const export_root_t *root, char why[256])
{
  static heap_t record;
  uint64_t at = root->default_heap;
  for (; at && map->heap_count < HEAPS_MOST; at = number_of(record.next)) {
    if (map_table_get(&map->heap_at, at) != MAP_NONE || !read_record(memory, at, &record)) {
      map->changing++;
      break;
    }
    add_heap(map, memory, at, &record);
  }
  if (!map->heap_count)
    snprintf(why, 256, "its heaps cannot be read");
  return map->heap_count != 0;
}
