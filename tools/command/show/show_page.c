/* SPDX-License-Identifier: MIT
 *
 * One page that needs nothing else: the timeline and the tables are there as they are, and a script makes the flame graph of
 * the stacks, which stand behind it as data. */
#include "flame.h"
#include "heaps.h"
#include "page/axis.h"
#include "page/page.h"
#include "page/texts.h"
#include "show.h"
#include <inttypes.h>
#include <math.h>

/* ---- words ---- */

static const page_word_t words_of_recording[] = {
  {"calls",
   "Calls of malloc, free and the like, and of heaps and object pools. A block that is allocated and freed takes two."},
  {"block", "What one call has allocated. It counts with the bytes that were asked for. A realloc() frees one block and "
            "allocates another."},
  {"live", "Allocated, and not freed yet."},
  {"live at the peak", "What was live at the moment at which most bytes were."},
  {"live at the end", "What was live when the recording ended. It is in use or lost: <code>tidepool run --leaks</code> tells "
                      "the two apart."},
  {"allocated", "All that was ever allocated, whether it was freed or not."},
  {"allocations", "How many blocks were allocated, whatever their sizes are."},
};

static const page_word_t words_of_profile[] = {
  {"block", "What one call has allocated. It counts with the bytes that were asked for."},
  {"in use", "Allocated, and not freed when the profile was written."},
  {"allocated", "All that was allocated while the profile was under way, whether it was freed or not."},
  {"sample", "A block that the profile knows. Each byte has the same chance to have its block in the sample, so large sums are "
             "known well, and small ones hardly."},
};

static const page_word_t words_of_heaps[] = {
  {"heap",
   "A part of the program&#39;s memory with a name, which ends or is reset as a whole. Heaps of one name are shown as one."},
  {"object pool", "A store of objects of one type, which the program gets and puts."},
};

static const page_word_t words_of_flame[] = {
  {"flame graph", "Each box is a function, and the boxes below it are the functions that it called. A box is as wide as the "
                  "memory that the function and all below it have allocated."},
};

#define WRITE_WORDS(words, to) page_write_words(words, sizeof words / sizeof *words, to)

static void write_words(const show_t *show, FILE *to)
{
  page_begin_words(to);
  if (show->is_profile)
    WRITE_WORDS(words_of_profile, to);
  else
    WRITE_WORDS(words_of_recording, to);
  if (show->heaps)
    WRITE_WORDS(words_of_heaps, to);
  WRITE_WORDS(words_of_flame, to);
  page_end_words(to);
}

/* ---- over time ---- */

/* The picture is stretched to the width of the page, and what is written beside it is not. Above the peak there is some room.
 */
enum { WIDTH = 1000, HEIGHT = 200, AREAS_MOST = 8 };
static const double headroom = 1.08;

static double part_of_time(const show_t *show, double ns) { return ns / ((double)show->trace.facts.last_ns + 1); }

static double part_of_most(const show_t *show, double bytes)
{
  return bytes / (((double)show->all.bytes[SUM_PEAK] + 1) * headroom);
}

static double x_of(const show_t *show, uint64_t ns) { return part_of_time(show, (double)ns) * WIDTH; }

static double y_of(const show_t *show, uint64_t bytes) { return (1 - part_of_most(show, (double)bytes)) * HEIGHT; }

/* What all have, or the sums of all heaps up to one. */
static void write_area(const show_t *show, const uint64_t *bytes, size_t color, FILE *to)
{
  fputs("<path ", to);
  if (bytes)
    fprintf(to, "class='area heap%zu'", color);
  else
    fputs("class='all'", to);
  fprintf(to, " d='M0 %d", HEIGHT);
  for (size_t i = 0; i < show->point_count; i++)
    fprintf(to, "L%.1f %.1f", x_of(show, show->points[i].ns), y_of(show, bytes ? bytes[i] : show->points[i].bytes));
  fprintf(to, "L%d %dZ'/>", WIDTH, HEIGHT);
}

static uint32_t count_areas(const show_t *show, uint32_t order[HEAP_NAMES_MOST])
{
  uint32_t count = heaps_order(show, order);
  return count < AREAS_MOST ? count : AREAS_MOST;
}

/* One on the other, the largest at the bottom; what is left above them is of all the rest. The sums stand in front of those
 * that they have less of, so the highest comes first. */
static void write_heap_areas(const show_t *show, FILE *to)
{
  uint64_t sums[AREAS_MOST][POINTS + 1] = {{0}};
  uint32_t order[HEAP_NAMES_MOST], count = count_areas(show, order);
  for (uint32_t i = 0; i < count; i++)
    for (size_t point = 0; point < show->point_count; point++)
      sums[i][point] = (i ? sums[i - 1][point] : 0) + show->heaps[order[i]].points[point];
  for (uint32_t i = count; i > 0; i--)
    write_area(show, sums[i - 1], i - 1, to);
}

static void write_bytes_axis(const show_t *show, const axis_t *axis, FILE *to)
{
  char room[AXIS_LABEL];
  fputs("<div class='y'>", to);
  for (size_t i = 0; i < axis->count; i++)
    fprintf(to, "<span style='bottom:%.2f%%'>%s</span>", 100 * part_of_most(show, (double)i * axis->step),
            axis_label(axis, i, room));
  fputs("</div>", to);
}

static void write_time_axis(const show_t *show, FILE *to)
{
  char room[AXIS_LABEL];
  axis_t axis = axis_of_seconds((double)show->trace.facts.last_ns / 1e9);
  fputs("<div class='x'>", to);
  for (size_t i = 0; i < axis.count; i++)
    fprintf(to, "<span style='left:%.2f%%'>%s</span>", 100 * part_of_time(show, (double)i * axis.step * 1e9),
            axis_label(&axis, i, room));
  fputs("</div>", to);
}

static void write_peak(const show_t *show, FILE *to)
{
  page_bytes(show->all.bytes[SUM_PEAK], to);
  fprintf(to, " after %.3f s", (double)show->peak_ns / 1e9);
}

static void write_drawing(const show_t *show, const axis_t *axis, FILE *to)
{
  fprintf(to, "<div class='drawn'><svg viewBox='0 0 %d %d' preserveAspectRatio='none' aria-hidden='true'>", WIDTH, HEIGHT);
  for (size_t i = 0; i < axis->count; i++) {
    double y = y_of(show, (uint64_t)((double)i * axis->step));
    fprintf(to, "<line class='grid' x1='0' x2='%d' y1='%.2f' y2='%.2f'/>", WIDTH, y, y);
  }
  write_area(show, NULL, 0, to);
  if (show->heaps)
    write_heap_areas(show, to);
  double percent = 100 * part_of_time(show, (double)show->peak_ns);
  fprintf(to, "</svg><div class='peak%s' style='left:%.2f%%'><span>peak</span></div></div>", percent < 50 ? " early" : "",
          percent);
}

static void write_name(const heap_name_t *name, FILE *to)
{
  page_text(name->name ? name->name : "?", to);
  fputs(name->kind == RECORDING_KIND_OBJECT_POOL ? " (object pool)" : "", to);
}

static void write_legend(const show_t *show, FILE *to)
{
  uint32_t order[HEAP_NAMES_MOST], all = show->heaps ? heaps_order(show, order) : 0;
  uint32_t count = show->heaps ? count_areas(show, order) : 0;
  fputs("<p class='legend'>", to);
  for (uint32_t i = 0; i < count; i++) {
    fprintf(to, "<span><i class='key heap%" PRIu32 "'></i>", i);
    write_name(&show->trace.heaps.names[order[i]], to);
    fputs("</span>", to);
  }
  if (!count || count < all)
    fprintf(to, "<span><i class='key area all'></i>%s</span>", count ? "all others" : "live bytes");
  fputs("<span><i class='key peak'></i><span>the peak: ", to);
  write_peak(show, to);
  fputs("</span></span></p>\n", to);
}

static void write_timeline(const show_t *show, FILE *to)
{
  axis_t axis = axis_of_bytes((double)show->all.bytes[SUM_PEAK]);
  fputs("<h2>Live bytes over time</h2>\n", to);
  write_legend(show, to);
  fputs("<div class='plot' role='img' aria-label='live bytes over time; the peak is ", to);
  write_peak(show, to);
  fputs("'>", to);
  write_bytes_axis(show, &axis, to);
  write_drawing(show, &axis, to);
  write_time_axis(show, to);
  fputs("</div>\n", to);
}

/* ---- heaps ---- */

/* The first ones have the colors of their areas. */
static void write_heap(const show_t *show, uint32_t heap, uint32_t place, FILE *to)
{
  fputs("<tr class='line'><td class='s'>", to);
  if (!show->is_profile && place < AREAS_MOST)
    fprintf(to, "<i class='key heap%" PRIu32 "'></i> ", place);
  write_name(&show->trace.heaps.names[heap], to);
  fputs("</td>", to);
  for (size_t k = 0; k < show->kind_count; k++) {
    fprintf(to, "<td class='n' data-label='%s'>", show->kinds[k].name);
    page_bytes(show->heaps[heap].of.bytes[show->kinds[k].sum], to);
    fputs("</td><td class='n' data-label='blocks'>", to);
    page_count(show->heaps[heap].of.blocks[show->kinds[k].sum], to);
    fputs("</td>", to);
  }
  fputs("</tr>\n", to);
}

static void write_heaps(const show_t *show, FILE *to)
{
  uint32_t order[HEAP_NAMES_MOST], count = heaps_order(show, order);
  fputs("<h2>Heaps and object pools</h2>\n", to);
  page_begin_cards(7, to);
  fputs("<tr><th class='s'>", to);
  page_word("heap", to);
  fputs(" or ", to);
  page_word("object pool", to);
  fputs("</th>", to);
  for (size_t i = 0; i < show->kind_count; i++) {
    page_head_word(show->kinds[i].name, to);
    fputs("<th>blocks</th>", to);
  }
  fputs("</tr></thead><tbody>\n", to);
  for (uint32_t i = 0; i < count; i++)
    write_heap(show, order[i], i, to);
  page_end_table(to);
}

/* ---- lives ---- */

static const char *const life_names[LIFE_COLUMNS] = {"1 &micro;s", "10 &micro;s", "100 &micro;s", "1 ms",   "10 ms",
                                                     "100 ms",     "1 s",         "10 s",         "longer", "not freed"};

/* Of all bytes, those of a row being of its size; few are to be seen, too. */
static double most_of_lives(const show_t *show)
{
  double most = 1;
  for (size_t row = 0; row < SIZE_ROWS; row++)
    for (size_t column = 0; column < LIFE_COLUMNS; column++) {
      double bytes = (double)show->lives[row][column] * (double)(UINT64_C(16) << row);
      most = bytes > most ? bytes : most;
    }
  return most;
}

static void write_lives_head(FILE *to)
{
  fprintf(to, "<tr><th></th><th colspan='%d'>", LIFE_COLUMNS);
  fputs("blocks that lived up to</th></tr><tr><th>of up to</th>", to);
  for (size_t column = 0; column < LIFE_COLUMNS; column++)
    fprintf(to, "<th>%s</th>", life_names[column]);
  fputs("</tr></thead><tbody>\n", to);
}

static void write_lives_row(const show_t *show, size_t row, double most, FILE *to)
{
  fputs("<tr><th>", to);
  if (row + 1 < SIZE_ROWS)
    fprintf(to, "%s", axis_size((uint64_t)16 << row, (char[AXIS_LABEL]){0}));
  else
    fputs("more", to);
  fputs("</th>", to);
  for (size_t column = 0; column < LIFE_COLUMNS; column++) {
    double share = sqrt((double)show->lives[row][column] * (double)(UINT64_C(16) << row) / most);
    fprintf(to, "<td class='share' style='--share:%.2f'>", share);
    if (show->lives[row][column])
      page_count(show->lives[row][column], to);
    fputs("</td>", to);
  }
  fputs("</tr>\n", to);
}

static bool has_lives(const show_t *show, size_t row)
{
  for (size_t column = 0; column < LIFE_COLUMNS; column++)
    if (show->lives[row][column])
      return true;
  return false;
}

static void write_lives(const show_t *show, FILE *to)
{
  double most = most_of_lives(show);
  fputs("<h2>Blocks, by their size and by how long they lived</h2>\n"
        "<p class='note'>A figure counts blocks. The stronger its color, the more bytes these blocks have together.</p>\n",
        to);
  page_begin_table("lives", to);
  write_lives_head(to);
  for (size_t row = 0; row < SIZE_ROWS; row++)
    if (has_lives(show, row))
      write_lives_row(show, row, most, to);
  page_end_table(to);
}

/* ---- stacks ---- */

/* Bytes of each kind, and then blocks: of a recording calls, and of a profile what the kinds of bytes are. */
static void write_kinds(const show_t *show, FILE *to)
{
  fputs("const kinds=[", to);
  for (size_t i = 0; i < show->kind_count; i++)
    fprintf(to, "%s[\"%s\",1]", i ? "," : "", show->kinds[i].name);
  for (size_t i = 0; show->is_profile && i < show->kind_count; i++)
    fprintf(to, ",[\"blocks %s\",0]", show->kinds[i].name);
  fputs(show->is_profile ? "];\n" : ",[\"allocations\",0]];\n", to);
}

static void write_sums(const show_t *show, const total_t *total, FILE *to)
{
  for (size_t i = 0; i < show->kind_count; i++)
    fprintf(to, "%s%" PRIu64, i ? "," : "", total->bytes[show->kinds[i].sum]);
  for (size_t i = 0; show->is_profile && i < show->kind_count; i++)
    fprintf(to, ",%" PRIu64, total->blocks[show->kinds[i].sum]);
  if (!show->is_profile)
    fprintf(to, ",%" PRIu64, total->blocks[SUM_ALLOCATED]);
}

static void write_data(const show_t *show, FILE *to)
{
  fputs("<script>\n", to);
  write_kinds(show, to);
  fputs("const names=[", to);
  flame_write_names(&show->callers, 0, to);
  fputs("];\nconst sites=[", to);
  for (size_t i = 0; i < show_site_count(show); i++) {
    if (total_is_none(&show->sites[i]))
      continue;
    fputs("[[", to);
    write_sums(show, &show->sites[i], to);
    fputs("],[", to);
    flame_write_stack(i < show->callers.stack_count ? &show->callers.stacks[i] : NULL, 0, to);
    fputs("]],\n", to);
  }
  fprintf(to, "];\n%s", page_show_js);
}

/* ---- all of it ---- */

static void write_totals(const show_t *show, FILE *to)
{
  page_begin_tiles(to);
  for (size_t i = 0; i < show->kind_count; i++) {
    const kind_t *kind = &show->kinds[i];
    page_tile(kind->name, show->all.bytes[kind->sum], page_bytes, show->all.blocks[kind->sum], "blocks", to);
  }
  page_end_tiles(to);
}

/* Each call either allocates a block, or does nothing but to free one. */
static void write_calls(const show_t *show, FILE *to)
{
  uint64_t calls = show->trace.count, allocated = show->all.blocks[SUM_ALLOCATED];
  page_count(calls, to);
  fputc(' ', to);
  page_word("calls", to);
  fprintf(to, " in %.3f s: ", (double)show->trace.facts.last_ns / 1e9);
  page_count(allocated, to);
  fputs(" allocated a ", to);
  page_word("block", to);
  fputs(" and ", to);
  page_count(calls - allocated, to);
  fputs(" freed one.", to);
}

static void write_summary(const show_t *show, FILE *to)
{
  fputs("<p>", to);
  if (show->is_profile)
    show_print_samples(show, to);
  else
    write_calls(show, to);
  fputs(" <a href='#words'>What the words mean</a></p>\n", to);
}

/* A profile knows neither of times nor of lives. */
void show_write_page(const show_t *show, FILE *to)
{
  page_begin(show->title, NULL, to);
  write_summary(show, to);
  write_totals(show, to);
  if (!show->is_profile)
    write_timeline(show, to);
  if (show->heaps)
    write_heaps(show, to);
  fputs("<h2>Where it was allocated</h2>\n", to);
  flame_write_place("", to);
  if (!show->is_profile)
    write_lives(show, to);
  write_words(show, to);
  write_data(show, to);
  flame_end("", to);
  page_end(to);
}
