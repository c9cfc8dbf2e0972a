/* SPDX-License-Identifier: MIT
 *
 * Of blocks whose places in the program are known: those of one slab, and who keeps slabs of which little is live. */
#include "command.h"
#include "map_print.h"
#include <stdlib.h>

void map_blocks_of(const map_t *map, const map_arena_t *arena, const map_place_t *place, size_t *from, size_t *to)
{
  *from = map_first_block(map, place->start);
  *to = *from;
  uint64_t end = place->start + map_bytes(arena, place);
  while (*to < map->block_count && map->blocks[*to].address < end)
    ++*to;
}

typedef struct keepers {
  const map_t *map;
  const callers_t *callers;
  map_keeper_t *of;
  size_t count, room;
} keepers_t;

static void add_keeper(keepers_t *keepers, map_keeper_t keeper)
{
  if (keepers->count == keepers->room) {
    keepers->room = keepers->room * 2 + 1024;
    keepers->of = reallocarray(keepers->of, keepers->room, sizeof *keepers->of);
    if (!keepers->of)
      command_fail(COMMAND_FAILED, "map: no memory");
  }
  keepers->of[keepers->count++] = keeper;
}

/* What the slab holds is put down to its live blocks, to each as much. */
static void add_slab(keepers_t *keepers, const map_arena_t *arena, const map_place_t *place)
{
  const map_t *map = keepers->map;
  const callers_t *callers = keepers->callers;
  size_t from, to;
  map_blocks_of(map, arena, place, &from, &to);
  for (size_t i = from; i < to; i++) {
    uint32_t site = map->blocks[i].site < callers->stack_count ? callers->same[map->blocks[i].site] : 0;
    add_keeper(keepers, (map_keeper_t){site, map->rows[place->row].block_size, map_bytes(arena, place) / (to - from), 1});
  }
}

static int by_place(const void *one, const void *other)
{
  const map_keeper_t *a = one, *b = other;
  if (a->stack != b->stack)
    return a->stack < b->stack ? -1 : 1;
  return a->block_size < b->block_size ? -1 : a->block_size > b->block_size;
}

static int by_bytes(const void *one, const void *other)
{
  const map_keeper_t *a = one, *b = other;
  return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : by_place(a, b);
}

/* Those of one stack in one class are one. */
static void join(keepers_t *keepers)
{
  size_t used = 0;
  if (keepers->count)
    qsort(keepers->of, keepers->count, sizeof *keepers->of, by_place);
  for (size_t i = 0; i < keepers->count; i++) {
    map_keeper_t *last = used ? &keepers->of[used - 1] : NULL;
    if (last && by_place(last, &keepers->of[i]) == 0) {
      last->bytes += keepers->of[i].bytes;
      last->blocks += keepers->of[i].blocks;
    } else
      keepers->of[used++] = keepers->of[i];
  }
  keepers->count = used;
  if (used)
    qsort(keepers->of, used, sizeof *keepers->of, by_bytes);
}

map_keeper_t *map_keepers(const map_t *map, const map_source_t *source, size_t *count)
{
  keepers_t keepers = {.map = map, .callers = &source->callers};
  bool are_known = map->block_count && source->callers.stack_count;
  for (size_t i = 0; i < map->arena_count && are_known; i++)
    for (size_t k = 0; k < map->arenas[i].place_count; k++) {
      const map_arena_t *arena = &map->arenas[i];
      const map_place_t *place = &map->places[arena->first_place + k];
      if (place->kind == PLACE_SLAB && place->row != MAP_NONE && map_live(place) * UINT64_C(2) < place->capacity)
        add_slab(&keepers, arena, place);
    }
  join(&keepers);
  *count = keepers.count;
  return keepers.of;
}
