/* SPDX-License-Identifier: MIT
 *
 * Of blocks whose places in the program are known: those of one slab, and who keeps slabs of which little is live. */
#include "command.h"
#include "map_print.h"
#include <stdlib.h>

static size_t first_at(const map_t *map, uint64_t address)
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

void map_blocks_of(const map_t *map, const map_arena_t *arena, const map_place_t *place, size_t *from, size_t *to)
{
  *from = first_at(map, place->start);
  *to = *from;
  uint64_t end = place->start + map_bytes(arena, place);
  while (*to < map->block_count && map->blocks[*to].address < end)
    ++*to;
}

/* What the slab holds is put down to its live blocks, to each as much. */
static void add_slab(const map_t *map, const map_arena_t *arena, const map_place_t *place, const map_source_t *source,
                     map_keeper_t *keepers)
{
  const callers_t *callers = &source->callers;
  size_t from, to;
  map_blocks_of(map, arena, place, &from, &to);
  for (size_t i = from; i < to; i++) {
    uint32_t site = map->blocks[i].site < callers->stack_count ? callers->same[map->blocks[i].site] : 0;
    keepers[site].bytes += map_bytes(arena, place) / (to - from);
    keepers[site].blocks++;
  }
}

static int by_bytes(const void *one, const void *other)
{
  uint64_t a = ((const map_keeper_t *)one)->bytes, b = ((const map_keeper_t *)other)->bytes;
  return a < b ? 1 : a > b ? -1 : 0;
}

map_keeper_t *map_keepers(const map_t *map, const map_source_t *source, size_t *count)
{
  size_t stacks = map->block_count ? source->callers.stack_count : 0, used = 0;
  map_keeper_t *keepers = calloc(stacks + 1, sizeof *keepers);
  *count = 0;
  if (!keepers)
    command_fail(COMMAND_FAILED, "map: no memory");
  for (size_t i = 0; i < map->arena_count && stacks; i++)
    for (size_t k = 0; k < map->arenas[i].place_count; k++) {
      const map_arena_t *arena = &map->arenas[i];
      const map_place_t *place = &map->places[arena->first_place + k];
      if (place->kind == PLACE_SLAB && map_live(place) * UINT64_C(2) < place->capacity)
        add_slab(map, arena, place, source, keepers);
    }
  for (uint32_t i = 0; i < stacks; i++)
    if (keepers[i].blocks)
      keepers[used++] = (map_keeper_t){i, keepers[i].bytes, keepers[i].blocks};
  qsort(keepers, used, sizeof *keepers, by_bytes);
  *count = used;
  return keepers;
}
