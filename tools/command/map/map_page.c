/* SPDX-License-Identifier: MIT
 *
 * One page that needs nothing else: the tables and how full slabs are stand there as they are, and a script draws the map of
 * what stands behind it as bytes. */
#include "command.h"
#include "map_packed.h"
#include "map_print.h"
#include "page/page.h"
#include "page/texts.h"
#include <inttypes.h>
#include <stdlib.h>

/* ---- text ---- */

static const char *name_of(const map_heap_t *heap) { return *heap->name ? heap->name : "without a name"; }

/* ---- how full slabs are ---- */

enum { TENTHS = 10 };

static void count_tenths(const map_t *map, uint64_t tenths[TENTHS])
{
  for (size_t i = 0; i < map->arena_count; i++)
    for (size_t k = 0; k < map->arenas[i].place_count; k++) {
      const map_arena_t *arena = &map->arenas[i];
      const map_place_t *place = &map->places[arena->first_place + k];
      if (map_has_blocks(place)) {
        size_t tenth = (size_t)(map_fullness(map, arena, place) * TENTHS);
        tenths[tenth < TENTHS ? tenth : TENTHS - 1] += map_bytes(arena, place);
      }
    }
}

static void write_tenths(const map_t *map, FILE *to)
{
  uint64_t tenths[TENTHS] = {0}, most = 1;
  count_tenths(map, tenths);
  for (size_t i = 0; i < TENTHS; i++)
    most = tenths[i] > most ? tenths[i] : most;
  fputs("<h2>How full the slabs are</h2>\n<p class='note'>Bytes in slabs, by which part of them is live.</p>\n"
        "<div class='tenths'>\n",
        to);
  for (int i = 0; i < TENTHS; i++) {
    fputs("<div><span>", to);
    if (tenths[i])
      page_bytes(tenths[i], to);
    fprintf(to, "</span><i style='--part:%.3f'></i><b>%d to %d %%</b></div>\n", (double)tenths[i] / (double)most, i * 10,
            i * 10 + 10);
  }
  fputs("</div>\n", to);
}

/* ---- tables ---- */

static double share(uint64_t part, uint64_t of) { return of ? 100.0 * (double)part / (double)of : 0; }

static void write_count(uint64_t count, FILE *to)
{
  fputs("<td>", to);
  page_count(count, to);
  fputs("</td>", to);
}

static void write_cells(const map_sums_t *sums, FILE *to)
{
  write_count(sums->places, to);
  for (map_state_t state = 0; state < MAP_STATES; state++)
    write_count(sums->blocks[state], to);
  fputs("<td class='n'>", to);
  page_bytes(sums->held_bytes, to);
  fprintf(to, "</td><td class='n'>%.0f %%</td>", share(sums->live_bytes, sums->held_bytes));
  uint64_t less_full[] = {sums->half_bytes, sums->quarter_bytes};
  for (size_t i = 0; i < 2; i++) {
    fprintf(to, "<td class='n few' style='--share:%.2f'>", share(less_full[i], sums->held_bytes) / 150);
    if (less_full[i])
      page_bytes(less_full[i], to);
    fputs("</td>", to);
  }
  fputs("</tr>\n", to);
}

static void write_row(const map_t *map, const map_row_t *row, FILE *to)
{
  char label[MAP_LABEL];
  map_sums_t sums = {.places = row->places,
                     .live_bytes = row->live_bytes,
                     .held_bytes = row->held_bytes,
                     .half_bytes = row->half_bytes,
                     .quarter_bytes = row->quarter_bytes};
  for (map_state_t state = 0; state < MAP_STATES; state++)
    sums.blocks[state] = row->blocks[state];
  fprintf(to, "<tr data-heap='%" PRIu32 "' data-row='%zu'><td>%s</td>", row->heap, (size_t)(row - map->rows),
          map_row_label(row, label));
  write_cells(&sums, to);
}

static void write_tables(const map_t *map, FILE *to)
{
  static const char *const columns[] = {"slabs", "live", "cached", "free", "fresh", "held"};
  fputs("<h2>Heaps and size classes</h2>\n<p class='note'>Click a size to see where its slabs are.</p>\n", to);
  page_begin_table("rows", to);
  fputs("<tr><th>", to);
  page_word("heap", to);
  fputs(", ", to);
  page_word("size", to);
  fputs("</th>", to);
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    page_head_word(columns[i], to);
  fputs("<th>of it live</th><th>less than half full</th><th>less than a quarter</th></tr></thead><tbody>\n", to);
  for (uint32_t i = 0; i < map->heap_count; i++) {
    const map_heap_t *heap = &map->heaps[i];
    map_sums_t sums = map_sums(map, i);
    fprintf(to, "<tr data-heap='%" PRIu32 "' class='sum'><td>", i);
    page_text(name_of(heap), to);
    fputs("</td>", to);
    write_cells(&sums, to);
    for (uint32_t k = 0; k < heap->row_count; k++)
      if (map_row_is_used(&map->rows[heap->first_row + k]))
        write_row(map, &map->rows[heap->first_row + k], to);
  }
  page_end_table(to);
}

enum { KEEPERS_MOST = 20, FRAMES_MOST = 6 };

static void write_keepers(const map_t *map, const map_source_t *source, FILE *to)
{
  size_t count;
  map_keeper_t *keepers = map_keepers(map, source, &count);
  if (count) {
    fputs("<h2>Whose blocks keep slabs that are less than half full</h2>\n", to);
    page_begin_cards(4.8, to);
    fputs("<tr><th>held</th><th>blocks</th><th>of size</th><th class='s'>allocated by</th></tr></thead><tbody>\n", to);
  }
  for (size_t i = 0; i < count && i < KEEPERS_MOST; i++) {
    const call_stack_t *stack = &source->callers.stacks[keepers[i].stack];
    fputs("<tr class='line'><td data-label='held' class='n'>", to);
    page_bytes(keepers[i].bytes, to);
    fputs("</td><td data-label='blocks' class='n'>", to);
    page_count(keepers[i].blocks, to);
    fprintf(to, "</td><td data-label='of size' class='n'>%" PRIu32 "</td><td class='s'>", keepers[i].block_size);
    for (uint32_t k = 0; k < stack->count && k < FRAMES_MOST; k++) {
      fputs(k ? " &#60; " : "", to);
      page_text(source->callers.names[stack->names[k]], to);
    }
    fputs(stack->count > FRAMES_MOST ? " &#60; ...</td></tr>\n" : "</td></tr>\n", to);
  }
  if (count)
    page_end_table(to);
  free(keepers);
}

/* ---- what the script draws ---- */

static void write_heaps(const map_t *map, FILE *to)
{
  fputs("<script>\nconst heaps=[", to);
  for (size_t i = 0; i < map->heap_count; i++) {
    fputs(i ? "," : "", to);
    command_quote(name_of(&map->heaps[i]), to);
  }
  fputs("];\nconst rows=[", to);
  for (size_t i = 0; i < map->row_count; i++)
    fprintf(to, "%s[%" PRIu32 ",%d,%" PRIu32 "]", i ? "," : "", map->rows[i].heap, map->rows[i].kind, map->rows[i].block_size);
  fputs("];\n", to);
}

static void write_arenas(const map_t *map, FILE *to)
{
  fputs("const arenas=[", to);
  for (size_t i = 0; i < map->arena_count; i++) {
    const map_arena_t *arena = &map->arenas[i];
    char *text = NULL;
    size_t length;
    FILE *label = open_memstream(&text, &length);
    if (!label)
      command_fail(COMMAND_FAILED, "map: no memory");
    map_print_arena(map, arena, label);
    if (fclose(label) != 0)
      command_fail(COMMAND_FAILED, "map: no memory");
    fprintf(to, "%s{kind:%d,base:\"0x%" PRIx64 "\",log2:%d,used:%" PRIu32 ",count:%zu,heap:%d,label:", i ? ",\n" : "",
            arena->kind, arena->base, arena->unit_log2, arena->kind == ARENA_MAPPINGS ? 0 : arena->used_end, arena->place_count,
            arena->heap == MAP_NONE ? -1 : (int)arena->heap);
    command_quote(text, to);
    fputs(",short:", to);
    if (arena->heap == MAP_NONE)
      command_quote(arena->kind == ARENA_MAPPINGS ? "mappings" : "arena", to);
    else
      command_quote(name_of(&map->heaps[arena->heap]), to);
    fputc('}', to);
    free(text);
  }
  fputs("];\n", to);
}

static void write_sites(const map_source_t *source, const packed_t *packed, FILE *to)
{
  const callers_t *callers = &source->callers;
  fputs("const names=[", to);
  for (size_t i = 0; i < packed->name_count; i++) {
    fputs(i ? "," : "", to);
    command_quote(callers->names[packed->names[i]], to);
  }
  fputs("];\nconst sites=[", to);
  for (size_t i = 0; i < packed->site_count; i++) {
    const call_stack_t *stack = &callers->stacks[packed->sites[i]];
    fputs(i ? ",[" : "[", to);
    for (uint32_t k = 0; k < stack->count; k++)
      fprintf(to, "%s%" PRIu32, k ? "," : "", packed->name_at[stack->names[k]]);
    fputc(']', to);
  }
  fputs("];\n", to);
}

static void write_base64(const packed_t *packed, FILE *to)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  fputs("const blob=\"", to);
  for (size_t i = 0; i < packed->count; i += 3) {
    uint32_t left = (uint32_t)(packed->count - i), word = (uint32_t)packed->bytes[i] << 16;
    word |= left > 1 ? (uint32_t)packed->bytes[i + 1] << 8 : 0;
    word |= left > 2 ? packed->bytes[i + 2] : 0;
    for (unsigned k = 0; k < 4; k++)
      fputc(k > left ? '=' : digits[word >> (18 - 6 * k) & 63], to);
  }
  fputs("\";\n", to);
}

/* ---- the page ---- */

static void write_head(const map_t *map, const map_source_t *source, FILE *to)
{
  page_begin(source->title, page_map_css, to);
  fputs("<p>", to);
  if (source->seconds >= 0)
    fprintf(to, "After %.3f of %.3f s%s. ", source->seconds, source->last, source->is_peak ? ", when the most was live" : "");
  map_print_summary(map, to);
  fputc(' ', to);
  map_print_huge(map, to);
  fputc(' ', to);
  map_print_hint(source, to);
  if (map->changing)
    fprintf(to, " %zu parts of it changed while they were read.", map->changing);
  fputs(" <a href=\"#words\">What the words mean</a></p>\n", to);
}

static const char picture[] =
  "<div class=\"tools\"><div class=\"group\" id=\"heaps\" role=\"group\" aria-label=\"heaps\"></div>"
  "<div class=\"group\" id=\"modes\" role=\"group\" aria-label=\"colors\"></div></div>\n"
  "<p class=\"legend\" id=\"legend\"></p>\n<p class=\"note\"><span id=\"sign\"></span> "
  "<span class=\"keys\">The arrow keys go on "
  "to the next.</span></p>\n"
  "<div id=\"view\"><div><canvas id=\"map\" tabindex=\"0\" role=\"img\" "
  "aria-label=\"the arenas, unit by unit\"></canvas></div>\n"
  "<div id=\"side\" aria-live=\"polite\"><div id=\"place\"></div><div id=\"counts\"></div><canvas id=\"blocks\"></canvas>"
  "<div id=\"who\"></div></div></div>\n"
  "<noscript><p>The picture needs a script to be drawn: <code>tidepool map</code> without <code>-o</code> prints a strip "
  "for each arena.</p></noscript>\n";

static const page_word_t words[] = {
  {"heap", "A part of the program&#39;s memory with a name. <code>malloc</code> allocates from the heap <code>default</code>."},
  {"arena", "A range of addresses from which heaps take memory, cut into units."},
  {"slabs", "Pieces of memory, each cut into blocks of one size. A slab goes back when none of its blocks is in use."},
  {"size", "The size of a slab&#39;s blocks in bytes. A request is served by the next larger size."},
  {"live", "Blocks that are allocated and not freed."},
  {"cached", "Freed blocks that a thread keeps for its next requests of that size."},
  {"free", "Freed blocks, which serve the next requests of their size."},
  {"fresh", "Blocks that nobody had since the slab was made or its heap was reset. Their pages may be no memory yet."},
  {"held", "All bytes of these slabs, whether their blocks are live or not."},
};

void map_write_page(const map_t *map, const map_source_t *source, FILE *to)
{
  packed_t packed = pack(map, &source->callers);
  write_head(map, source, to);
  fputs(picture, to);
  write_tenths(map, to);
  write_keepers(map, source, to);
  write_tables(map, to);
  page_begin_words(to);
  page_write_words(words, sizeof words / sizeof *words, to);
  page_end_words(to);
  fputs("<div id=\"tip\"></div>\n", to);
  write_heaps(map, to);
  write_arenas(map, to);
  write_sites(source, &packed, to);
  write_base64(&packed, to);
  fprintf(to, "%s</script>\n", page_map_js);
  page_end(to);
  packed_finish(&packed);
}
