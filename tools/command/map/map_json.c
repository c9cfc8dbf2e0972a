/* SPDX-License-Identifier: MIT
 *
 * The figures of a map for scripts. */
#include "command.h"
#include "map_print.h"
#include <inttypes.h>

static void write_row(const map_row_t *row, FILE *to)
{
  static const char *const names[MAP_ROW_KINDS] = {"class", "large", "mapped", "granules"};
  fprintf(to,
          "{\"kind\":\"%s\",\"block_size\":%" PRIu32 ",\"places\":%" PRIu64 ",\"live_blocks\":%" PRIu64
          ",\"cached_blocks\":%" PRIu64 ",\"free_blocks\":%" PRIu64 ",\"fresh_blocks\":%" PRIu64 ",\"live_bytes\":%" PRIu64
          ",\"held_bytes\":%" PRIu64 ",\"less_than_half\":%" PRIu64 ",\"less_than_quarter\":%" PRIu64 "}",
          names[row->kind], row->block_size, row->places, row->blocks[MAP_LIVE], row->blocks[MAP_CACHED], row->blocks[MAP_FREE],
          row->blocks[MAP_FRESH], row->live_bytes, row->held_bytes, row->half_bytes, row->quarter_bytes);
}

static void write_heap(const map_t *map, const map_heap_t *heap, FILE *to)
{
  bool first = true;
  fputs("{\"name\":", to);
  command_quote(heap->name, to);
  fprintf(to, ",\"budget\":%" PRIu64 ",\"held_bytes\":%" PRIu64 ",\"rows\":[", heap->budget, heap->held);
  for (uint32_t i = 0; i < heap->row_count; i++) {
    const map_row_t *row = &map->rows[heap->first_row + i];
    if (!map_row_is_used(row))
      continue;
    fputs(first ? "" : ",", to);
    first = false;
    write_row(row, to);
  }
  fputs("]}", to);
}

static void write_arena(const map_t *map, const map_arena_t *arena, FILE *to)
{
  static const char *const names[] = {"window", "region", "granules", "mappings"};
  fprintf(to,
          "{\"kind\":\"%s\",\"base\":%" PRIu64 ",\"unit\":%" PRIu64 ",\"units\":%" PRIu32 ",\"used_units\":%" PRIu32
          ",\"places\":%zu,\"heap\":",
          names[arena->kind], arena->base, UINT64_C(1) << arena->unit_log2, arena->unit_count, arena->used_end,
          arena->place_count);
  if (arena->heap != MAP_NONE)
    command_quote(map->heaps[arena->heap].name, to);
  fputs(arena->heap == MAP_NONE ? "null}" : "}", to);
}

void map_print_json(const map_t *map, const map_source_t *source, FILE *to)
{
  fputs("{\"of\":", to);
  command_quote(source->title, to);
  if (source->seconds >= 0)
    fprintf(to, ",\"seconds\":%.9f", source->seconds);
  fprintf(to, ",\"changing\":%zu,\"known_blocks\":%zu,\"heaps\":[", map->changing, map->block_count);
  for (size_t i = 0; i < map->heap_count; i++) {
    fputs(i ? ",\n" : "\n", to);
    write_heap(map, &map->heaps[i], to);
  }
  fputs("],\"huge\":", to);
  map_print_huge_json(map, to);
  fputs(",\"arenas\":[", to);
  for (size_t i = 0; i < map->arena_count; i++) {
    fputs(i ? ",\n" : "\n", to);
    write_arena(map, &map->arenas[i], to);
  }
  fputs("]}\n", to);
}
