/* SPDX-License-Identifier: MIT
 *
 * The map as text: a table for each heap, and a line for each arena. */
#include "map_print.h"
#include "command.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STRIP = 64, ARENAS_MOST = 40, HEAPS_MOST = 30, KEEPERS_MOST = 10, FRAMES_MOST = 4 };

static const char *bytes_of(uint64_t bytes, char room[COMMAND_BYTES]) { return command_bytes(room, (double)bytes); }

/* ---- sums ---- */

static uint64_t packed(const map_row_t *row)
{
  uint64_t blocks = 0;
  for (map_state_t state = 0; state < MAP_STATES; state++)
    blocks += row->blocks[state];
  if (row->kind != MAP_CLASS || !row->places || !blocks)
    return row->live_bytes;
  uint64_t capacity = blocks / row->places ? blocks / row->places : 1;
  uint64_t slabs = (row->blocks[MAP_LIVE] + capacity - 1) / capacity;
  return slabs < row->places ? slabs * (row->held_bytes / row->places) : row->held_bytes;
}

map_sums_t map_sums(const map_t *map, uint32_t heap)
{
  map_sums_t sums = {.places = 0};
  size_t from = heap == MAP_ALL_HEAPS ? 0 : map->heaps[heap].first_row;
  size_t to = heap == MAP_ALL_HEAPS ? map->row_count : from + map->heaps[heap].row_count;
  for (size_t i = from; i < to; i++) {
    const map_row_t *row = &map->rows[i];
    sums.places += row->places;
    for (map_state_t state = 0; state < MAP_STATES; state++)
      sums.blocks[state] += row->blocks[state];
    sums.live_bytes += row->live_bytes;
    sums.held_bytes += row->held_bytes;
    sums.packed_bytes += packed(row);
    sums.half_bytes += row->half_bytes;
    sums.quarter_bytes += row->quarter_bytes;
  }
  return sums;
}

static double share(uint64_t part, uint64_t of) { return of ? 100.0 * (double)part / (double)of : 0; }

const char *map_row_label(const map_row_t *row, char room[MAP_LABEL])
{
  static const char *const names[MAP_ROW_KINDS] = {"", "large", "mapped", "granules"};
  snprintf(room, MAP_LABEL, "%s", names[row->kind]);
  if (row->kind == MAP_CLASS)
    snprintf(room, MAP_LABEL, "%" PRIu32, row->block_size);
  return room;
}

/* Free, of no heap, and its memory is held. */
static uint64_t idle_bytes(const map_t *map)
{
  uint64_t bytes = 0;
  for (size_t i = 0; i < map->arena_count; i++)
    for (size_t k = 0; k < map->arenas[i].place_count; k++) {
      const map_place_t *place = &map->places[map->arenas[i].first_place + k];
      bytes += place->kind == PLACE_IDLE || place->kind == PLACE_KEPT ? map_bytes(&map->arenas[i], place) : 0;
    }
  return bytes;
}

void map_print_summary(const map_t *map, FILE *to)
{
  char room[6][COMMAND_BYTES];
  map_sums_t sums = map_sums(map, MAP_ALL_HEAPS);
  fprintf(
    to,
    "%zu heap%s hold%s %s for blocks, of which %s are live, %.0f %%: packed together these would take slabs of %s. %s are in "
    "slabs less than half full, %s less than a quarter. %s are free and of no heap.",
    map->heap_count, map->heap_count == 1 ? "" : "s", map->heap_count == 1 ? "s" : "", bytes_of(sums.held_bytes, room[0]),
    bytes_of(sums.live_bytes, room[5]), share(sums.live_bytes, sums.held_bytes), bytes_of(sums.packed_bytes, room[1]),
    bytes_of(sums.half_bytes, room[2]), bytes_of(sums.quarter_bytes, room[3]), bytes_of(idle_bytes(map), room[4]));
}

/* Of a program whose memory never comes down the moment to look at is another. */
void map_print_hint(const map_source_t *source, FILE *to)
{
  char room[2][COMMAND_BYTES];
  if (source->is_peak && source->end_bytes)
    fprintf(to, "At the end %s were asked for and live, and %s now: --at end shows what they keep.",
            bytes_of(source->end_bytes, room[0]), bytes_of(source->at_bytes, room[1]));
}

/* ---- heaps ---- */

static void print_figures(uint64_t places, const uint64_t blocks[MAP_STATES], uint64_t live_bytes, uint64_t held_bytes,
                          FILE *to)
{
  char room[COMMAND_BYTES];
  fprintf(to, "%8" PRIu64 " %11" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %10s %4.0f %%", places, blocks[MAP_LIVE],
          blocks[MAP_CACHED], blocks[MAP_FREE], blocks[MAP_FRESH], bytes_of(held_bytes, room), share(live_bytes, held_bytes));
}

static void print_less_full(uint64_t half, uint64_t quarter, FILE *to)
{
  char room[2][COMMAND_BYTES];
  fprintf(to, " %10s %10s\n", half ? bytes_of(half, room[0]) : "", quarter ? bytes_of(quarter, room[1]) : "");
}

static void print_row_as(const char *label, const map_row_t *row, FILE *to)
{
  fprintf(to, "%8s ", label);
  print_figures(row->places, row->blocks, row->live_bytes, row->held_bytes, to);
  print_less_full(row->half_bytes, row->quarter_bytes, to);
}

static void print_row(const map_row_t *row, FILE *to)
{
  char label[MAP_LABEL];
  print_row_as(map_row_label(row, label), row, to);
}

static void add_row(map_row_t *sum, const map_row_t *row)
{
  sum->places += row->places;
  for (size_t i = 0; i < MAP_STATES; i++)
    sum->blocks[i] += row->blocks[i];
  sum->held_bytes += row->held_bytes;
  sum->half_bytes += row->half_bytes;
  sum->quarter_bytes += row->quarter_bytes;
}

/* Classes without a live block are one row. */
static void print_heap(const map_t *map, uint32_t number, FILE *to)
{
  const map_heap_t *heap = &map->heaps[number];
  map_sums_t sums = map_sums(map, number);
  char room[2][COMMAND_BYTES];
  fputs("\nheap ", to);
  command_print(*heap->name ? heap->name : "without a name", to);
  if (heap->budget)
    fprintf(to, ", %s held of a budget of %s", bytes_of(heap->held, room[0]), bytes_of(heap->budget, room[1]));
  fputs("\n    size    slabs        live    cached      free     fresh       held   live     < 1/2      < 1/4\n", to);
  map_row_t empty = {.places = 0};
  for (uint32_t i = 0; i < heap->row_count; i++) {
    const map_row_t *row = &map->rows[heap->first_row + i];
    if (map_row_is_used(row) && row->live_bytes)
      print_row(row, to);
    else if (map_row_is_used(row))
      add_row(&empty, row);
  }
  if (empty.places)
    print_row_as("empty", &empty, to);
  fputs("     all ", to);
  print_figures(sums.places, sums.blocks, sums.live_bytes, sums.held_bytes, to);
  print_less_full(sums.half_bytes, sums.quarter_bytes, to);
}

/* Those that hold most come first. */
typedef struct rank {
  uint64_t held;
  uint32_t heap;
} rank_t;

static int by_held(const void *one, const void *other)
{
  const rank_t *a = one, *b = other;
  return a->held < b->held ? 1 : a->held > b->held ? -1 : a->heap < b->heap ? -1 : 1;
}

static void print_heaps(const map_t *map, FILE *to)
{
  rank_t *ranks = calloc(map->heap_count, sizeof *ranks);
  if (!ranks)
    command_fail(COMMAND_FAILED, "map: no memory");
  for (uint32_t i = 0; i < map->heap_count; i++)
    ranks[i] = (rank_t){map_sums(map, i).held_bytes, i};
  qsort(ranks, map->heap_count, sizeof *ranks, by_held);
  for (size_t i = 0; i < map->heap_count && i < HEAPS_MOST; i++)
    print_heap(map, ranks[i].heap, to);
  if (map->heap_count > HEAPS_MOST)
    fprintf(to, "\nand %zu heaps more, which are in the page that -o writes\n", map->heap_count - HEAPS_MOST);
  free(ranks);
}

/* ---- arenas ---- */

void map_print_arena(const map_t *map, const map_arena_t *arena, FILE *to)
{
  char room[2][COMMAND_BYTES];
  if (arena->kind == ARENA_MAPPINGS) {
    fprintf(to, "mappings: %zu, of %s", arena->place_count, bytes_of((uint64_t)arena->unit_count << arena->unit_log2, room[0]));
    return;
  }
  fprintf(to, "0x%" PRIx64 ": ", arena->base);
  if (arena->heap != MAP_NONE) {
    fputs("region of heap ", to);
    command_print(map->heaps[arena->heap].name, to);
    fputs(", ", to);
  }
  fprintf(to, "%s of %s in units of %s", bytes_of((uint64_t)arena->used_end << arena->unit_log2, room[0]),
          bytes_of((uint64_t)arena->unit_count << arena->unit_log2, room[1]),
          bytes_of(UINT64_C(1) << arena->unit_log2, (char[COMMAND_BYTES]){0}));
}

/* Of each part of an arena: how many of its units hold memory, how much of them is live, and how many are not known. */
typedef struct strip {
  double live[STRIP], held[STRIP], changing[STRIP];
  size_t columns;
} strip_t;

static void add_to_strip(strip_t *strip, const map_t *map, const map_arena_t *arena, const map_place_t *place)
{
  double scale = (double)strip->columns / (arena->used_end ? arena->used_end : 1), full = map_fullness(map, arena, place);
  double from = place->unit * scale, to = ((double)place->unit + place->units) * scale;
  for (size_t i = (size_t)from; i < strip->columns && (double)i < to; i++) {
    double part = (to < (double)i + 1 ? to : (double)i + 1) - (from > (double)i ? from : (double)i);
    strip->held[i] += part;
    strip->live[i] += place->kind == PLACE_REGION ? part : part * full;
    strip->changing[i] += place->kind == PLACE_CHANGING ? part : 0;
  }
}

static char sign_of(const strip_t *strip, size_t i)
{
  double held = strip->held[i], live = strip->live[i];
  if (held < 1e-6)
    return ' ';
  if (strip->changing[i] > held / 2)
    return '?';
  if (live < 1e-6)
    return '.';
  return live >= held * 0.995 ? '#' : (char)('0' + (int)(live * 10 / held));
}

/* Each sign stands for as many units: how much of what is held there is live, in tenths. */
static void print_strip(const map_t *map, const map_arena_t *arena, FILE *to)
{
  strip_t strip = {.columns = arena->used_end < STRIP ? arena->used_end : STRIP};
  for (size_t k = 0; k < arena->place_count; k++)
    add_to_strip(&strip, map, arena, &map->places[arena->first_place + k]);
  fputs("  |", to);
  for (size_t i = 0; i < strip.columns; i++)
    fputc(sign_of(&strip, i), to);
  fputs("|\n", to);
}

static void print_arenas(const map_t *map, FILE *to)
{
  size_t printed = 0, left = 0;
  fputs(
    "\nArenas from their low end to the highest unit that was ever used, each sign for as many units: which part of what is\n"
    "held there is live, # all, 9 to 0 so many tenths, . nothing; a space where nothing is held, ? what is changing\n",
    to);
  for (size_t i = 0; i < map->arena_count; i++) {
    if (!map->arenas[i].place_count)
      continue;
    if (printed == ARENAS_MOST) {
      left++;
      continue;
    }
    map_print_arena(map, &map->arenas[i], to);
    fputc('\n', to);
    print_strip(map, &map->arenas[i], to);
    printed++;
  }
  if (left)
    fprintf(to, "and %zu more, which are in the page that -o writes\n", left);
}

/* ---- who keeps what ---- */

static void print_keepers(const map_t *map, const map_source_t *source, FILE *to)
{
  size_t count;
  map_keeper_t *keepers = map_keepers(map, source, &count);
  if (count)
    fputs(
      "\nWhose blocks keep slabs that are less than half full, with their share of what those hold\n      held     blocks    "
      "size  allocated by\n",
      to);
  else if (map_sums(map, MAP_ALL_HEAPS).half_bytes)
    fputs(
      "\nWho allocated the blocks in slabs that are less than half full is known of a recording, and of heaps with sites.\n",
      to);
  for (size_t i = 0; i < count && i < KEEPERS_MOST; i++) {
    char room[COMMAND_BYTES];
    const call_stack_t *stack = &source->callers.stacks[keepers[i].stack];
    fprintf(to, "%10s %10" PRIu64 " %7" PRIu32 "  ", bytes_of(keepers[i].bytes, room), keepers[i].blocks,
            keepers[i].block_size);
    for (uint32_t k = 0; k < stack->count && k < FRAMES_MOST; k++) {
      fputs(k ? " < " : "", to);
      command_print(source->callers.names[stack->names[k]], to);
    }
    fputs(stack->count > FRAMES_MOST ? " < ...\n" : stack->count ? "\n" : "(not known)\n", to);
  }
  free(keepers);
}

void map_print(const map_t *map, const map_source_t *source, FILE *to)
{
  command_print(source->title, to);
  if (source->seconds >= 0)
    fprintf(to, ", after %.3f of %.3f s%s", source->seconds, source->last, source->is_peak ? ", when the most was live" : "");
  fputc('\n', to);
  map_print_summary(map, to);
  fputc('\n', to);
  map_print_huge(map, to);
  fputc('\n', to);
  if (source->is_peak && source->end_bytes) {
    map_print_hint(source, to);
    fputc('\n', to);
  }
  if (map->changing)
    fprintf(to, "%zu parts of it changed while they were read, so these figures are close.\n", map->changing);
  print_heaps(map, to);
  print_arenas(map, to);
  print_keepers(map, source, to);
}
