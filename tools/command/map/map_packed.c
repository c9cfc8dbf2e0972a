/* SPDX-License-Identifier: MIT */
#include "map_packed.h"
#include "command.h"
#include "map_print.h"
#include <stdlib.h>
#include <string.h>

/* A page stays so small that a browser opens it at once. */
enum { STATES_MOST = 4 << 20, KNOWN_MOST = 8 << 20, CHANGING = 16 };

static void add_byte(packed_t *packed, unsigned byte)
{
  if (packed->count == packed->room) {
    packed->room = packed->room * 2 + 4096;
    packed->bytes = realloc(packed->bytes, packed->room);
    if (!packed->bytes)
      command_fail(COMMAND_FAILED, "map: no memory");
  }
  packed->bytes[packed->count++] = (unsigned char)byte;
}

static void add_number(packed_t *packed, uint64_t number)
{
  for (; number > 0x7f; number >>= 7)
    add_byte(packed, (unsigned)(number & 0x7f) | 0x80);
  add_byte(packed, (unsigned)number);
}

static size_t length_of(uint64_t number)
{
  size_t length = 1;
  for (; number > 0x7f; number >>= 7)
    length++;
  return length;
}

/* ---- states ---- */

/* Where the run of equal states ends that begins there. */
static uint32_t run_end(const map_t *map, const map_place_t *place, uint32_t from)
{
  map_state_t state = map_state(map, place, from);
  while (from < place->fresh && map_state(map, place, from) == state)
    from++;
  return from;
}

static size_t runs_length(const map_t *map, const map_place_t *place, size_t most)
{
  size_t length = 0;
  for (uint32_t i = 0, end; i < place->fresh && length < most; i = end) {
    end = run_end(map, place, i);
    length += length_of((uint64_t)(end - i) << 2);
  }
  return length;
}

static void add_runs(packed_t *packed, const map_t *map, const map_place_t *place)
{
  for (uint32_t i = 0, end; i < place->fresh; i = end) {
    end = run_end(map, place, i);
    add_number(packed, (uint64_t)(end - i) << 2 | map_state(map, place, i));
  }
}

static void add_pairs(packed_t *packed, const map_t *map, const map_place_t *place)
{
  for (uint32_t i = 0; i < place->fresh; i += 4) {
    unsigned byte = 0;
    for (uint32_t k = i; k < i + 4 && k < place->fresh; k++)
      byte |= (unsigned)map_state(map, place, k) << (k - i) * 2;
    add_byte(packed, byte);
  }
}

static void add_states(packed_t *packed, const map_t *map, const map_place_t *place)
{
  size_t pairs = (place->fresh + 3u) / 4, runs = runs_length(map, place, pairs + 1);
  size_t length = 1 + (runs <= pairs ? runs : pairs);
  bool is_one =
    !place->fresh || place->free == place->fresh || place->cached == place->fresh || !(place->free || place->cached);
  if (is_one || length > packed->states_left) {
    add_number(packed, 0);
    return;
  }
  packed->states_left -= length;
  add_number(packed, length);
  add_number(packed, runs > pairs);
  (runs > pairs ? add_pairs : add_runs)(packed, map, place);
}

/* ---- blocks of which more is known ---- */

static uint32_t number_of(uint32_t *at, uint32_t *of, size_t *count, uint32_t which)
{
  if (at[which] == MAP_NONE) {
    at[which] = (uint32_t)*count;
    of[(*count)++] = which;
  }
  return at[which];
}

/* The site's number and 1; 0: it is not known. */
static uint64_t site_of(packed_t *packed, const callers_t *callers, uint32_t site)
{
  if (site >= callers->stack_count || !callers->stacks[callers->same[site]].count)
    return 0;
  const call_stack_t *stack = &callers->stacks[callers->same[site]];
  for (uint32_t k = 0; k < stack->count; k++)
    number_of(packed->name_at, packed->names, &packed->name_count, stack->names[k]);
  return number_of(packed->site_at, packed->sites, &packed->site_count, callers->same[site]) + 1u;
}

static uint64_t index_of(const map_t *map, const map_place_t *place, const map_block_t *block)
{
  return place->kind == PLACE_SLAB ? (block->address - place->start) / map->rows[place->row].block_size : 0;
}

static void add_known(packed_t *packed, const map_t *map, const map_arena_t *arena, const map_place_t *place,
                      const callers_t *callers)
{
  size_t from, to, begin = packed->count;
  uint64_t before = 0;
  map_blocks_of(map, arena, place, &from, &to);
  for (size_t i = from; i < to; i++) {
    const map_block_t *block = &map->blocks[i];
    uint64_t index = index_of(map, place, block);
    add_number(packed, index - before);
    add_number(packed, block->size);
    add_number(packed, block->age_ns == MAP_NO_AGE ? 0 : block->age_ns / 1000000 + 1);
    add_number(packed, site_of(packed, callers, block->site));
    before = index;
  }
  size_t length = packed->count - begin, head = length_of(to - from) + length_of(length);
  if ((place->kind != PLACE_SLAB && place->kind != PLACE_LARGE) || length > packed->known_left) {
    packed->count = begin;
    add_number(packed, 0);
    add_number(packed, 0);
    return;
  }
  packed->known_left -= length;
  for (size_t i = 0; i < head; i++)
    add_byte(packed, 0);
  memmove(packed->bytes + begin + head, packed->bytes + begin, length);
  packed->count = begin;
  add_number(packed, to - from);
  add_number(packed, length);
  packed->count += length;
}

/* ---- places ---- */

static void add_place(packed_t *packed, const map_t *map, const map_arena_t *arena, const map_place_t *place, uint32_t end,
                      const callers_t *callers)
{
  add_number(packed, place->unit - end);
  add_number(packed, place->units);
  add_number(packed, place->kind | (place->changing ? CHANGING : 0u));
  add_number(packed, place->row == MAP_NONE ? 0 : place->row + UINT64_C(1));
  if (arena->kind == ARENA_MAPPINGS)
    add_number(packed, place->start / 4096);
  if (map_has_blocks(place)) {
    add_number(packed, place->capacity);
    add_number(packed, place->fresh);
    add_number(packed, place->free);
    add_number(packed, place->cached);
    add_states(packed, map, place);
  } else if (place->kind == PLACE_LARGE) {
    add_number(packed, place->size);
  }
  add_known(packed, map, arena, place, callers);
}

static uint32_t *take_numbers(size_t count, int byte)
{
  uint32_t *numbers = malloc((count + 1) * sizeof *numbers);
  if (!numbers)
    command_fail(COMMAND_FAILED, "map: no memory");
  memset(numbers, byte, (count + 1) * sizeof *numbers);
  return numbers;
}

packed_t pack(const map_t *map, const callers_t *callers)
{
  packed_t packed = {.states_left = STATES_MOST, .known_left = KNOWN_MOST};
  packed.sites = take_numbers(callers->stack_count, 0);
  packed.site_at = take_numbers(callers->stack_count, 0xff);
  packed.names = take_numbers(callers->name_count, 0);
  packed.name_at = take_numbers(callers->name_count, 0xff);
  for (size_t i = 0; i < map->arena_count; i++) {
    const map_arena_t *arena = &map->arenas[i];
    for (size_t k = 0; k < arena->place_count; k++) {
      const map_place_t *place = &map->places[arena->first_place + k];
      add_place(&packed, map, arena, place, k ? place[-1].unit + place[-1].units : 0, callers);
    }
  }
  return packed;
}

void packed_finish(packed_t *packed)
{
  free(packed->bytes);
  free(packed->sites);
  free(packed->site_at);
  free(packed->names);
  free(packed->name_at);
}
