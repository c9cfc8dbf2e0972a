/* SPDX-License-Identifier: MIT
 *
 * The arenas of a process, those of the window and those of regions, and what each unit of them is. */
#include "command.h"
#include "debug/export_root.h"
#include "map.h"
#include "map_read.h"
#include <stdlib.h>
#include <string.h>

enum { RUNS_AT_ONCE = 512, LOOKS = 4 };

/* What is read of one arena: its units' bits, and the descriptors of so many units from `runs_from` on. */
typedef struct reader {
  map_t *map;
  memory_t *memory;
  arena_t arena;
  uint32_t number, end; /* of the arena in the map; the unit behind the last */
  word_t *room, *dirty, *start;
  run_t runs[RUNS_AT_ONCE];
  uint32_t runs_from, runs_to;
} reader_t;

/* ---- runs ---- */

/* Remote pointers are only numbers: they may point anywhere. */
static uint64_t run_address(const reader_t *reader, uint32_t unit)
{
  return number_of(reader->arena.runs) + (uint64_t)unit * sizeof(run_t);
}

static const run_t *run_at(reader_t *reader, uint32_t unit)
{
  if (unit < reader->runs_from || unit >= reader->runs_to) {
    uint32_t count = reader->end - unit < RUNS_AT_ONCE ? reader->end - unit : RUNS_AT_ONCE;
    reader->runs_from = reader->runs_to = unit;
    if (memory_read(reader->memory, run_address(reader, unit), reader->runs, count * sizeof(run_t)))
      reader->runs_to = unit + count;
    else if (memory_read(reader->memory, run_address(reader, unit), reader->runs, sizeof(run_t)))
      reader->runs_to = unit + 1;
    else
      return NULL;
  }
  return &reader->runs[unit - reader->runs_from];
}

static uint64_t address_of(const reader_t *reader, uint32_t unit)
{
  return number_of(reader->arena.base) + ((uint64_t)unit << UNIT_LOG2);
}

static map_place_t place_of(const reader_t *reader, uint32_t unit, uint32_t units, map_place_kind_t kind)
{
  return (map_place_t){.start = address_of(reader, unit), .unit = unit, .units = units, .row = MAP_NONE, .kind = (uint8_t)kind};
}

/* ---- slabs ---- */

/* Where the bitmap must be, by its length. */
static uint64_t bitmap_of(const reader_t *reader, uint32_t unit, const run_t *run)
{
  if (run->capacity <= SHORT_BITMAP_WORDS * WORD_BITS)
    return run_address(reader, unit) + offsetof(run_t, short_bitmap);
  size_t words = LONG_BITMAP_WORDS;
  return reader->arena.long_bitmaps && bits_words(run->capacity) <= words
           ? number_of(reader->arena.long_bitmaps) + unit * words * sizeof(word_t)
           : 0;
}

static uint32_t count_bits(const word_t *words, uint32_t bits)
{
  uint32_t count = 0;
  for (size_t i = 0; i < bits_words(bits); i++)
    count += bits_set_in(words[i]);
  return count;
}

/* What cannot be true of a slab is not believed; what is only in the middle of a change is read again. */
static bool is_slab(const reader_t *reader, uint32_t unit, const run_t *run, uint32_t row)
{
  uint64_t bytes = (uint64_t)run->units << UNIT_LOG2;
  return row != MAP_NONE && number_of(run->start) == address_of(reader, unit) && run->capacity &&
         run->capacity <= bytes / reader->map->rows[row].block_size && run->fresh <= run->capacity &&
         run->free_count <= run->fresh && bitmap_of(reader, unit, run);
}

/* Bits from the fresh mark on mean nothing: those words may hold what an earlier slab left. */
static void clear_from(word_t *words, uint32_t from, uint32_t bits)
{
  for (uint32_t i = from; i < bits && i % WORD_BITS; i++)
    bit_clear(words, i);
  for (size_t w = bits_words(from); w < bits_words(bits); w++)
    words[w] = 0;
}

static bool read_slab(reader_t *reader, uint32_t unit, const run_t *run, map_place_t *place)
{
  map_t *map = reader->map;
  uint32_t row = map_table_get(&map->bin_at, number_of(run->owner));
  if (!is_slab(reader, unit, run, row))
    return false;
  place->kind = PLACE_SLAB;
  place->row = row;
  place->capacity = run->capacity;
  place->fresh = run->fresh;
  place->words = map_add_words(map, 2 * bits_words(run->capacity));
  word_t *words = map->words + place->words;
  if (!memory_read(reader->memory, bitmap_of(reader, unit, run), words, bits_words(run->fresh) * sizeof *words))
    return false;
  clear_from(words, run->fresh, run->capacity);
  place->free = count_bits(words, run->capacity);
  place->changing = place->free != run->free_count;
  return true;
}

/* ---- all kinds of runs ---- */

static bool read_large(const reader_t *reader, uint32_t unit, const run_t *run, map_place_t *place)
{
  map_t *map = reader->map;
  uint32_t heap = map_table_get(&map->heap_at, number_of(run->owner));
  uint64_t bytes = (uint64_t)run->units << UNIT_LOG2;
  if (heap == MAP_NONE || number_of(run->start) != address_of(reader, unit) || run->size > bytes)
    return false;
  place->kind = run->kind == RUN_LARGE ? PLACE_LARGE : PLACE_SPARE;
  place->row = map_row_of(map, heap, MAP_LARGE);
  place->size = run->size;
  return true;
}

static bool read_run(reader_t *reader, uint32_t unit, const run_t *run, map_place_t *place)
{
  switch (run->kind) {
  case RUN_SLAB:
    return read_slab(reader, unit, run, place);
  case RUN_LARGE:
  case RUN_SPARE:
    return read_large(reader, unit, run, place);
  case RUN_REGION:
    place->kind = PLACE_REGION;
    return true;
  default:
    return false;
  }
}

/* A unit that is neither free nor of a run is being purged, or was given or taken between two looks. */
static uint32_t take_run(reader_t *reader, uint32_t unit)
{
  map_place_t place = place_of(reader, unit, 1, PLACE_CHANGING);
  size_t words = reader->map->word_count;
  for (unsigned look = 0; look < LOOKS; look++) {
    const run_t *run = run_at(reader, unit);
    reader->map->word_count = words;
    place = place_of(reader, unit, 1, PLACE_CHANGING);
    if (!run)
      break;
    if (run->units && run->units <= reader->end - unit) {
      place.units = run->units;
      if (read_run(reader, unit, run, &place) && !place.changing)
        break;
    }
    memory_forget(reader->memory);
    reader->runs_to = reader->runs_from;
  }
  place.changing |= place.kind == PLACE_CHANGING;
  if (place.kind == PLACE_CHANGING)
    place.row = MAP_NONE;
  map_add_place(reader->map, place);
  return unit + place.units;
}

static uint32_t take_unowned(reader_t *reader, uint32_t unit)
{
  uint32_t from = unit;
  while (unit < reader->end && !bit_test(reader->room, unit) && !bit_test(reader->start, unit))
    unit++;
  map_place_t place = place_of(reader, from, unit - from, PLACE_CHANGING);
  place.changing = true;
  map_add_place(reader->map, place);
  return unit;
}

static uint32_t take_free(reader_t *reader, uint32_t unit)
{
  bool dirty = bit_test(reader->dirty, unit);
  uint32_t from = unit;
  while (unit < reader->end && bit_test(reader->room, unit) && bit_test(reader->dirty, unit) == dirty)
    unit++;
  if (dirty)
    map_add_place(reader->map, place_of(reader, from, unit - from, PLACE_IDLE));
  return unit;
}

static void read_units(reader_t *reader)
{
  for (uint32_t unit = 0; unit < reader->end;)
    if (bit_test(reader->room, unit))
      unit = take_free(reader, unit);
    else if (bit_test(reader->start, unit))
      unit = take_run(reader, unit);
    else
      unit = take_unowned(reader, unit);
}

/* ---- arenas ---- */

static word_t *read_bits(memory_t *memory, const void *from, uint32_t bits)
{
  size_t bytes = bits_words(bits) * sizeof(word_t);
  word_t *words = calloc(1, bytes + sizeof *words);
  if (!words)
    command_fail(COMMAND_FAILED, "map: no memory");
  if (memory_read(memory, number_of(from), words, bytes))
    return words;
  free(words);
  return NULL;
}

/* At least a block fits into a unit, and no arena has more units than its slots. */
static bool is_arena(const arena_t *arena)
{
  return arena->base && arena->unit_count && arena->unit_count <= SPAN_BITS_MOST && arena->committed <= arena->unit_count &&
         arena->used_end <= arena->unit_count;
}

static void read_arena(reader_t *reader)
{
  const arena_t *arena = &reader->arena;
  reader->end = arena->used_end < arena->committed ? arena->used_end : arena->committed;
  reader->room = read_bits(reader->memory, arena->room.map, reader->end);
  reader->dirty = read_bits(reader->memory, arena->dirty, reader->end);
  reader->start = read_bits(reader->memory, arena->start, reader->end);
  reader->runs_from = reader->runs_to = 0;
  if (reader->room && reader->dirty && reader->start)
    read_units(reader);
  else
    reader->map->changing++;
  free(reader->room);
  free(reader->dirty);
  free(reader->start);
}

/* MAP_NONE: what is there is no arena, or none any more. */
static uint32_t add_arena(map_t *map, memory_t *memory, uint64_t address, uint32_t heap)
{
  static reader_t reader;
  reader.map = map;
  reader.memory = memory;
  if (!memory_read(memory, address, &reader.arena, sizeof reader.arena) || !is_arena(&reader.arena)) {
    map->changing++;
    return MAP_NONE;
  }
  reader.number = (uint32_t)map->arena_count;
  map_add_arena(map, (map_arena_t){.base = number_of(reader.arena.base),
                                   .kind = heap == MAP_NONE ? ARENA_WINDOW : ARENA_REGION,
                                   .unit_log2 = UNIT_LOG2,
                                   .unit_count = reader.arena.unit_count,
                                   .used_end = reader.arena.used_end,
                                   .heap = heap});
  if (heap != MAP_NONE)
    map->heaps[heap].arena = reader.number;
  read_arena(&reader);
  return reader.number;
}

/* Which heap's region an arena is, by its address. */
static map_table_t find_regions(map_t *map, memory_t *memory)
{
  map_table_t regions = {.room = 0};
  for (uint32_t i = 0; i < map->heap_count; i++) {
    uint64_t region = map->heaps[i].address + offsetof(heap_t, region);
    uint8_t kind = REGION_NONE;
    if (map->rows[map->heaps[i].first_row].kind == MAP_GRANULES ||
        !memory_read(memory, region + offsetof(heap_region_t, kind), &kind, 1) || kind == REGION_NONE)
      continue;
    uint64_t arena = memory_word(memory, region + offsetof(heap_region_t, space) + offsetof(space_t, own_arena));
    if (arena && map_table_get(&regions, arena) == MAP_NONE)
      map_table_put(&regions, arena, i);
  }
  return regions;
}

/* The arena of a large reserve stands in several slots. */
static void read_window(map_t *map, memory_t *memory, const export_root_t *root, const map_table_t *regions)
{
  static arena_t *slots[SLOTS_MOST];
  map_table_t seen = {.room = 0};
  for (size_t i = 0; i < map->window_slots; i++)
    map->window_arenas[i] = MAP_NONE;
  if (!memory_read(memory, root->slots, slots, map->window_slots * sizeof *slots))
    map->window_slots = 0;
  for (size_t i = 0; i < map->window_slots; i++) {
    uint64_t address = number_of(slots[i]), slot = map->window_start + ((uint64_t)i << SLOT_LOG2);
    if (!slots[i] || slots[i] == SLOT_RESERVED)
      continue;
    uint32_t arena = map_table_get(&seen, address);
    if (arena == MAP_NONE && address - slot < SLOT) {
      arena = add_arena(map, memory, address, map_table_get(regions, address));
      map_table_put(&seen, address, arena);
    }
    map->window_arenas[i] = arena;
  }
  map_table_free(&seen);
}

void map_read_arenas(map_t *map, memory_t *memory, const export_root_t *root)
{
  window_t window = {.start = 0};
  memory_read(memory, root->window, &window, sizeof window);
  map->window_start = window.start;
  map->window_slots = min_size(window.extent >> (SLOT_LOG2 - ALIGNMENT_LOG2), SLOTS_MOST);
  map->window_arenas = calloc(map->window_slots + 1, sizeof *map->window_arenas);
  if (!map->window_arenas)
    command_fail(COMMAND_FAILED, "map: no memory");
  map_table_t regions = find_regions(map, memory);
  read_window(map, memory, root, &regions);
  for (uint32_t i = 0; i < map->heap_count; i++) {
    uint64_t region = map->heaps[i].address + offsetof(heap_t, region);
    if (map->rows[map->heaps[i].first_row].kind == MAP_GRANULES)
      map_read_granules(map, memory, i);
    else if (map->heaps[i].arena == MAP_NONE && regions.count) {
      uint64_t arena = memory_word(memory, region + offsetof(heap_region_t, space) + offsetof(space_t, own_arena));
      if (map_table_get(&regions, arena) == i)
        add_arena(map, memory, arena, i);
    }
  }
  map_table_free(&regions);
}
