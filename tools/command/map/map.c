/* SPDX-License-Identifier: MIT
 *
 * What a map is made of: arrays that grow, tables from addresses to indices, and the sums. */
#include "map.h"
#include "base/machine.h"
#include "command.h"
#include <stdlib.h>
#include <string.h>

static void *grown(void *array, size_t *room, size_t needed, size_t size)
{
  if (needed <= *room)
    return array;
  *room = needed + needed / 2 + 64;
  array = reallocarray(array, *room, size);
  if (!array)
    command_fail(COMMAND_FAILED, "map: no memory");
  return array;
}

/* ---- tables ---- */

typedef struct map_entry {
  uint64_t key; /* 0: free, and no record has that address */
  uint32_t value;
} map_entry_t;

static map_entry_t *entry_of(const map_table_t *table, uint64_t key)
{
  size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (table->room - 1);
  while (table->entries[at].key && table->entries[at].key != key)
    at = (at + 1) & (table->room - 1);
  return &table->entries[at];
}

uint32_t map_table_get(const map_table_t *table, uint64_t key)
{
  const map_entry_t *entry = table->room && key ? entry_of(table, key) : NULL;
  return entry && entry->key ? entry->value : MAP_NONE;
}

static void table_grow(map_table_t *table)
{
  map_table_t larger = {.room = table->room ? table->room * 2 : 256, .count = table->count};
  larger.entries = calloc(larger.room, sizeof *larger.entries);
  if (!larger.entries)
    command_fail(COMMAND_FAILED, "map: no memory");
  for (size_t i = 0; i < table->room; i++)
    if (table->entries[i].key)
      *entry_of(&larger, table->entries[i].key) = table->entries[i];
  free(table->entries);
  *table = larger;
}

void map_table_put(map_table_t *table, uint64_t key, uint32_t value)
{
  if ((table->count + 1) * 2 > table->room)
    table_grow(table);
  map_entry_t *entry = entry_of(table, key);
  table->count += entry->key == 0;
  *entry = (map_entry_t){key, value};
}

void map_table_free(map_table_t *table)
{
  free(table->entries);
  *table = (map_table_t){.room = 0};
}

/* ---- adding ---- */

uint32_t map_add_row(map_t *map, uint32_t heap, map_row_kind_t kind)
{
  map->rows = grown(map->rows, &map->row_room, map->row_count + 1, sizeof *map->rows);
  map->rows[map->row_count] = (map_row_t){.heap = heap, .kind = (uint8_t)kind};
  return (uint32_t)map->row_count++;
}

map_place_t *map_add_place(map_t *map, map_place_t place)
{
  map->places = grown(map->places, &map->place_room, map->place_count + 1, sizeof *map->places);
  map->places[map->place_count] = place;
  map->arenas[map->arena_count - 1].place_count++;
  return &map->places[map->place_count++];
}

map_arena_t *map_add_arena(map_t *map, map_arena_t arena)
{
  map->arenas = grown(map->arenas, &map->arena_room, map->arena_count + 1, sizeof *map->arenas);
  arena.first_place = map->place_count;
  map->arenas[map->arena_count] = arena;
  return &map->arenas[map->arena_count++];
}

size_t map_add_words(map_t *map, size_t count)
{
  size_t first = map->word_count;
  map->words = grown(map->words, &map->word_room, first + count, sizeof *map->words);
  memset(map->words + first, 0, count * sizeof *map->words);
  map->word_count += count;
  return first;
}

/* ---- questions ---- */

uint32_t map_row_of(map_t *map, uint32_t heap, map_row_kind_t kind)
{
  const map_heap_t *of = &map->heaps[heap];
  for (uint32_t i = of->first_row + of->row_count; i-- > of->first_row;)
    if (map->rows[i].kind == kind)
      return i;
  return MAP_NONE;
}

static map_place_t *place_in(const map_t *map, const map_arena_t *arena, uint64_t address)
{
  size_t from = arena->first_place, to = from + arena->place_count;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (map->places[middle].start <= address)
      from = middle + 1;
    else
      to = middle;
  }
  map_place_t *place = from > arena->first_place ? &map->places[from - 1] : NULL;
  return place && address - place->start < map_bytes(arena, place) ? place : NULL;
}

static bool holds(const map_arena_t *arena, uint64_t address)
{
  return address - arena->base < (uint64_t)arena->unit_count << arena->unit_log2;
}

/* A region may lie inside an arena of the window, so it is asked first. */
map_place_t *map_place_at(const map_t *map, uint32_t heap, uint64_t address)
{
  uint32_t own = heap < map->heap_count ? map->heaps[heap].arena : MAP_NONE;
  if (own != MAP_NONE && holds(&map->arenas[own], address))
    return place_in(map, &map->arenas[own], address);
  uint64_t slot = (address - map->window_start) >> SLOT_LOG2;
  uint32_t arena = slot < map->window_slots ? map->window_arenas[slot] : MAP_NONE;
  return arena != MAP_NONE ? place_in(map, &map->arenas[arena], address) : NULL;
}

map_state_t map_state(const map_t *map, const map_place_t *place, uint32_t block)
{
  if (block >= place->fresh)
    return MAP_FRESH;
  if (bit_test(map_free_bits(map, place), block))
    return MAP_FREE;
  return bit_test(map_cached_bits(map, place), block) ? MAP_CACHED : MAP_LIVE;
}

double map_fullness(const map_t *map, const map_arena_t *arena, const map_place_t *place)
{
  uint64_t bytes = map_bytes(arena, place), live = 0;
  if (place->kind == PLACE_SLAB && place->row != MAP_NONE)
    live = (uint64_t)map_live(place) * map->rows[place->row].block_size;
  else if (place->kind == PLACE_GRANULES)
    return place->capacity ? (double)map_live(place) / place->capacity : 0;
  else if (place->kind == PLACE_LARGE)
    live = place->size;
  return bytes ? (double)(live < bytes ? live : bytes) / (double)bytes : 0;
}

static int by_address(const void *one, const void *other)
{
  uint64_t a = ((const map_block_t *)one)->address, b = ((const map_block_t *)other)->address;
  return a < b ? -1 : a > b;
}

void map_order_blocks(map_t *map)
{
  if (map->block_count)
    qsort(map->blocks, map->block_count, sizeof *map->blocks, by_address);
}

size_t map_first_block(const map_t *map, uint64_t address)
{
  size_t from = 0, to = map->block_count;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (map->blocks[middle].address < address)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

/* ---- sums ---- */

static void sum_slab(map_t *map, const map_arena_t *arena, const map_place_t *place)
{
  map_row_t *row = &map->rows[place->row];
  uint64_t bytes = map_bytes(arena, place);
  row->places++;
  row->blocks[MAP_LIVE] += map_live(place);
  row->blocks[MAP_CACHED] += place->cached;
  row->blocks[MAP_FREE] += place->free;
  row->blocks[MAP_FRESH] += place->capacity - place->fresh;
  row->held_bytes += bytes;
  if (map_live(place) && map_live(place) * UINT64_C(2) < place->capacity)
    row->half_bytes += bytes;
  if (map_live(place) && map_live(place) * UINT64_C(4) < place->capacity)
    row->quarter_bytes += bytes;
}

static void sum_large(map_row_t *row, const map_arena_t *arena, const map_place_t *place)
{
  row->places++;
  row->blocks[place->kind == PLACE_LARGE ? MAP_LIVE : MAP_FREE]++;
  row->live_bytes += place->kind == PLACE_LARGE ? place->size : 0;
  row->held_bytes += map_bytes(arena, place);
}

/* Blocks in quarantine are with no caller, and look as if they were. */
static void settle(map_row_t *row)
{
  uint64_t withheld = row->withheld < row->blocks[MAP_LIVE] ? row->withheld : row->blocks[MAP_LIVE];
  row->blocks[MAP_LIVE] -= withheld;
  row->blocks[MAP_CACHED] += withheld;
  row->live_bytes -= row->withheld_bytes < row->live_bytes ? row->withheld_bytes : row->live_bytes;
  if (row->kind == MAP_CLASS)
    row->live_bytes = row->blocks[MAP_LIVE] * row->block_size;
}

void map_sum(map_t *map)
{
  for (size_t i = 0; i < map->arena_count; i++) {
    const map_arena_t *arena = &map->arenas[i];
    for (size_t k = 0; k < arena->place_count; k++) {
      const map_place_t *place = &map->places[arena->first_place + k];
      if (place->row == MAP_NONE)
        continue;
      if (place->kind == PLACE_SLAB)
        sum_slab(map, arena, place);
      else if (place->kind == PLACE_LARGE || place->kind == PLACE_SPARE)
        sum_large(&map->rows[place->row], arena, place);
    }
  }
  for (size_t i = 0; i < map->row_count; i++)
    settle(&map->rows[i]);
}

/* ---- without what is not known ---- */

static bool is_known(const map_t *map, uint64_t from, uint64_t end)
{
  size_t i = map_first_block(map, from);
  return i < map->block_count && map->blocks[i].address < end;
}

static void free_unknown(map_t *map, map_place_t *place, uint32_t block_size)
{
  for (uint32_t i = 0; i < place->fresh; i++) {
    uint64_t block = place->start + (uint64_t)i * block_size;
    if (map_state(map, place, i) != MAP_LIVE || is_known(map, block, block + block_size))
      continue;
    bit_set(map->words + place->words, i);
    place->free++;
  }
}

static void forget_sums(map_row_t *row)
{
  if (row->kind != MAP_GRANULES)
    *row = (map_row_t){
      .heap = row->heap, .kind = row->kind, .size_class = row->size_class, .block_size = row->block_size, .bin = row->bin};
}

void map_keep_known(map_t *map)
{
  for (size_t i = 0; i < map->arena_count; i++) {
    const map_arena_t *arena = &map->arenas[i];
    for (size_t k = 0; k < arena->place_count; k++) {
      map_place_t *place = &map->places[arena->first_place + k];
      if (place->kind == PLACE_SLAB && place->row != MAP_NONE)
        free_unknown(map, place, map->rows[place->row].block_size);
      else if (place->kind == PLACE_LARGE && !is_known(map, place->start, place->start + map_bytes(arena, place)))
        place->kind = PLACE_SPARE;
    }
  }
  for (size_t i = 0; i < map->row_count; i++)
    forget_sums(&map->rows[i]);
  map_sum(map);
}

/* ---- all ---- */

/* A heap that ended meanwhile hides those behind it in the list. */
enum { LOOKS = 4 };

bool map_read(map_t *map, memory_t *memory, const struct export_root *root, char why[256])
{
  bool is_read = false;
  *map = (map_t){.heaps = NULL};
  for (unsigned look = 0; look < LOOKS && (!look || map->changing); look++) {
    map_free(map);
    memory_forget(memory);
    is_read = map_read_heaps(map, memory, root, why);
  }
  if (!is_read)
    return false;
  map_read_arenas(map, memory, root);
  map_read_mappings(map, memory, root);
  map_read_caches(map, memory, root);
  map_read_heads(map, memory);
  map_sum(map);
  for (size_t i = 0; i < map->place_count; i++)
    map->changing += map->places[i].changing;
  return true;
}

void map_free(map_t *map)
{
  free(map->heaps);
  free(map->rows);
  free(map->arenas);
  free(map->places);
  free(map->words);
  map_table_free(&map->heap_at);
  map_table_free(&map->bin_at);
  free(map->window_arenas);
  free(map->blocks);
  *map = (map_t){.heaps = NULL};
}
