/* SPDX-License-Identifier: MIT
 *
 * What has neither slabs nor units: a region as granules, of which each page is a place, and blocks that are mappings of their
 * own. */
#include "base/granules.h"
#include "command.h"
#include "debug/export_root.h"
#include "map.h"
#include "map_read.h"
#include <stdlib.h>

/* ---- granules ---- */

typedef struct granular {
  granules_t g;
  word_t *bits;                /* with one word more, which is 0 */
  uint32_t kept[KEPT_LONGEST]; /* where the block of each length begins that is kept; MAP_NONE: none is */
  uint64_t base;
} granular_t;

static bool is_granules(const granules_t *g)
{
  return g->map && g->count && g->count <= GRANULES_MOST && g->taken_end <= g->count && g->used;
}

/* A length has its number in the words in front of the map. */
static void read_kept(granular_t *granular, memory_t *memory)
{
  const granules_t *g = &granular->g;
  uint32_t words[KEPT_LONGEST + 1] = {0};
  if (granules_can_keep(g) && !memory_read(memory, number_of(g->map) - (1 + KEPT_WORDS) * sizeof *g->map, words, sizeof words))
    words[KEPT_LENGTHS] = 0;
  for (uint32_t length = 1; length <= KEPT_LONGEST; length++) {
    bool is_kept = words[KEPT_LENGTHS] >> (length - 1) & 1 && words[length] && words[length] - 1 + length <= g->count;
    granular->kept[length - 1] = is_kept ? words[length] - 1 : MAP_NONE;
  }
}

static bool read_granules(granular_t *granular, memory_t *memory, uint64_t region)
{
  const granules_t *g = &granular->g;
  granular->base = memory_word(memory, region + offsetof(heap_region_t, base));
  if (!memory_read(memory, region + offsetof(heap_region_t, granules), &granular->g, sizeof *g) || !is_granules(g))
    return false;
  size_t words = g->count / WORD_BITS + 1;
  granular->bits = calloc(words + 1, sizeof *granular->bits);
  if (!granular->bits)
    command_fail(COMMAND_FAILED, "map: no memory");
  read_kept(granular, memory);
  return memory_read(memory, number_of(g->map), granular->bits, words * sizeof *granular->bits);
}

/* A free granule and the one behind it have a 0. */
static bool is_free(const granular_t *granular, size_t i)
{
  return !bit_test(granular->bits, i) && !bit_test(granular->bits, i + 1);
}

static void add_page(map_t *map, const granular_t *granular, uint32_t row, uint32_t page)
{
  const granules_t *g = &granular->g;
  uint32_t from = page * GRANULE_PAGE, count = g->count - from < GRANULE_PAGE ? g->count - from : GRANULE_PAGE;
  map_place_t place = {.start = granular->base + (uint64_t)from * GRANULE, .unit = page, .units = 1, .row = row};
  place.kind = PLACE_GRANULES;
  place.capacity = count;
  place.fresh = g->taken_end - from < count ? g->taken_end - from : count;
  place.words = map_add_words(map, 2 * bits_words(count));
  for (uint32_t i = 0; i < place.fresh; i++)
    if (is_free(granular, from + i)) {
      bit_set(map->words + place.words, i);
      place.free++;
    }
  map_add_place(map, place);
}

static void mark_kept(map_t *map, const map_arena_t *arena, uint32_t from, uint32_t length)
{
  for (uint32_t i = from; i < from + length; i++) {
    if (i / GRANULE_PAGE >= arena->place_count)
      return;
    map_place_t *place = &map->places[arena->first_place + i / GRANULE_PAGE];
    word_t *cached = map->words + place->words + bits_words(place->capacity);
    uint32_t at = i % GRANULE_PAGE;
    if (map_state(map, place, at) == MAP_LIVE) {
      bit_set(cached, at);
      place->cached++;
    }
  }
}

static void sum_pages(map_t *map, const map_arena_t *arena, map_row_t *row)
{
  for (size_t i = 0; i < arena->place_count; i++) {
    const map_place_t *place = &map->places[arena->first_place + i];
    uint64_t bytes = (uint64_t)place->capacity * GRANULE, live = map_live(place);
    row->live_bytes += live * GRANULE;
    if (!live && !place->cached)
      continue;
    row->places += live != 0;
    row->held_bytes += live ? bytes : 0;
    row->half_bytes += live && live * 2 < place->capacity ? bytes : 0;
    row->quarter_bytes += live && live * 4 < place->capacity ? bytes : 0;
  }
}

/* A block begins where a 0 stands in front of a 1. */
static uint64_t count_blocks(const granular_t *granular)
{
  uint64_t blocks = 0;
  for (size_t i = 0; i < granular->g.count; i++)
    blocks += !bit_test(granular->bits, i) && bit_test(granular->bits, i + 1);
  return blocks;
}

void map_read_granules(map_t *map, memory_t *memory, uint32_t heap)
{
  static granular_t granular;
  uint32_t row = map_row_of(map, heap, MAP_GRANULES);
  granular.bits = NULL;
  if (!read_granules(&granular, memory, map->heaps[heap].address + offsetof(heap_t, region))) {
    map->changing++;
    free(granular.bits);
    return;
  }
  const granules_t *g = &granular.g;
  uint32_t pages = (g->count + GRANULE_PAGE - 1) / GRANULE_PAGE;
  map->heaps[heap].arena = (uint32_t)map->arena_count;
  map_add_arena(map, (map_arena_t){.base = granular.base,
                                   .kind = ARENA_GRANULES,
                                   .unit_log2 = GRANULE_LOG2 + 8,
                                   .unit_count = pages,
                                   .used_end = (g->taken_end + GRANULE_PAGE - 1) / GRANULE_PAGE,
                                   .heap = heap});
  for (uint32_t page = 0; page < (g->taken_end + GRANULE_PAGE - 1) / GRANULE_PAGE; page++)
    add_page(map, &granular, row, page);
  const map_arena_t *arena = &map->arenas[map->arena_count - 1];
  uint64_t blocks = count_blocks(&granular);
  for (uint32_t length = 1; length <= KEPT_LONGEST; length++)
    if (granular.kept[length - 1] != MAP_NONE) {
      mark_kept(map, arena, granular.kept[length - 1], length);
      map->rows[row].blocks[MAP_CACHED]++;
    }
  map->rows[row].blocks[MAP_LIVE] = blocks - min_size(blocks, map->rows[row].blocks[MAP_CACHED]);
  sum_pages(map, arena, &map->rows[row]);
  free(granular.bits);
}

/* ---- mappings ---- */

enum { DEPTH_MOST = 512, PAGE_LOG2 = 12, MAPPINGS_MOST = 1 << 20 };

/* A part of the tree: what is below it lies between these addresses. Those of two parts share none, so the walk ends whatever
 * the pointers are. */
typedef struct part {
  uint64_t node, from, to;
  bool is_entered;
} part_t;

static void add_mapping(map_t *map, const huge_t *huge, uint32_t *unit)
{
  uint64_t pages = (huge->range.size + (1 << PAGE_LOG2) - 1) >> PAGE_LOG2;
  uint32_t heap = map_table_get(&map->heap_at, number_of(huge->owner));
  map_place_t place = {.start = huge->range.start, .unit = *unit, .row = MAP_NONE, .kind = PLACE_KEPT};
  place.units = pages < UINT32_MAX - *unit ? (uint32_t)pages : UINT32_MAX - *unit;
  if (huge->is_region)
    place.kind = PLACE_REGION;
  else if (huge->owner && heap == MAP_NONE)
    place.kind = PLACE_CHANGING;
  else if (huge->owner) {
    place.kind = PLACE_LARGE;
    place.row = map_row_of(map, heap, MAP_MAPPED);
    place.size = huge->range.size;
  }
  place.changing = place.kind == PLACE_CHANGING;
  *unit += place.units;
  map_add_place(map, place);
}

/* What a standalone block has of its pages. */
static void note_standalone(map_t *map, memory_t *memory, uint64_t node)
{
  map_place_t *place = &map->places[map->place_count - 1];
  uintptr_t asked = memory_word(memory, node + offsetof(huge_standalone_t, asked));
  if (place->kind == PLACE_LARGE && asked <= place->size)
    place->size = asked;
}

static bool is_between(const huge_t *huge, const part_t *part)
{
  const range_t *range = &huge->range;
  return range->size && range->start >= part->from && range->size <= part->to && range->start <= part->to - range->size;
}

static void push(part_t *parts, size_t *depth, range_t *node, uint64_t from, uint64_t to)
{
  if (node && *depth < DEPTH_MOST)
    parts[(*depth)++] = (part_t){number_of(node), from, to, false};
}

/* In the order of their addresses. */
void map_read_mappings(map_t *map, memory_t *memory, const export_root_t *root)
{
  static part_t parts[DEPTH_MOST];
  size_t depth = 0;
  uint32_t unit = 0;
  map_add_arena(map, (map_arena_t){.kind = ARENA_MAPPINGS, .unit_log2 = PAGE_LOG2, .heap = MAP_NONE});
  push(parts, &depth, (range_t *)(uintptr_t)memory_word(memory, root->huge_ranges), 1, UINTPTR_MAX);
  while (depth && map->arenas[map->arena_count - 1].place_count < MAPPINGS_MOST) {
    part_t part = parts[depth - 1];
    huge_t huge;
    bool is_read = memory_read(memory, part.node, &huge, sizeof huge) && is_between(&huge, &part);
    depth--;
    if (!is_read) {
      map->changing++;
      continue;
    }
    if (!part.is_entered && depth + 2 < DEPTH_MOST) {
      part.is_entered = true;
      parts[depth++] = part;
      push(parts, &depth, huge.range.left, part.from, huge.range.start);
      continue;
    }
    add_mapping(map, &huge, &unit);
    if (huge.is_standalone)
      note_standalone(map, memory, part.node);
    push(parts, &depth, huge.range.right, huge.range.start + huge.range.size, part.to);
  }
  map_arena_t *arena = &map->arenas[map->arena_count - 1];
  arena->unit_count = arena->used_end = unit;
}
