/* SPDX-License-Identifier: MIT
 *
 * One page that needs nothing else: the timeline and the tables are there as they are, and a script makes the flame graph of
 * the stacks, which stand behind it as data. */
#include "flame.h"
#include "heaps.h"
#include "page.h"
#include "show.h"
#include <inttypes.h>
#include <math.h>

/* ---- over time ---- */

enum { WIDTH = 1000, HEIGHT = 220, LEFT = 70, BOTTOM = 24, AREAS_MOST = 8 };

static double x_of(const show_t *show, uint64_t ns)
{
  return LEFT + (double)ns / ((double)show->trace.facts.last_ns + 1) * (WIDTH - LEFT);
}

static double y_of(const show_t *show, uint64_t bytes)
{
  return HEIGHT - BOTTOM - (double)bytes / ((double)show->all.bytes[SUM_PEAK] + 1) * (HEIGHT - BOTTOM - 10);
}

static void write_lines(const show_t *show, FILE *to)
{
  for (int i = 0; i <= 4; i++) {
    uint64_t bytes = show->all.bytes[SUM_PEAK] / 4 * (uint64_t)i;
    double y = y_of(show, bytes);
    fprintf(to, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='var(--line)'/>", LEFT, WIDTH, y, y);
    fprintf(to, "<text x='%d' y='%.1f' text-anchor='end' font-size='12'>", LEFT - 6, y + 4);
    page_bytes(bytes, to);
    fputs("</text>", to);
    double seconds = (double)show->trace.facts.last_ns / 4e9 * i;
    fprintf(to, "<text x='%.1f' y='%d' text-anchor='%s' font-size='12'>%.3g s</text>", LEFT + (WIDTH - LEFT) / 4.0 * i,
            HEIGHT - 6, i == 4 ? "end" : "middle", seconds);
  }
}

/* What all have, or the sums of all heaps up to one. */
static void write_area(const show_t *show, const uint64_t *bytes, size_t color, FILE *to)
{
  fputs("<path ", to);
  if (bytes)
    fprintf(to, "class='area heap%zu'", color);
  else
    fputs("fill='var(--bar)' stroke='var(--edge)'", to);
  fprintf(to, " d='M%d %d", LEFT, HEIGHT - BOTTOM);
  for (size_t i = 0; i < show->point_count; i++)
    fprintf(to, "L%.1f %.1f", x_of(show, show->points[i].ns), y_of(show, bytes ? bytes[i] : show->points[i].bytes));
  fprintf(to, "L%d %dZ'/>", WIDTH, HEIGHT - BOTTOM);
}

/* One on the other, the largest at the bottom; what is left above them is of all the rest. The sums stand in front of those
 * that they have less of, so the highest comes first. */
static void write_heap_areas(const show_t *show, FILE *to)
{
  uint64_t sums[AREAS_MOST][POINTS + 1] = {{0}};
  uint32_t order[HEAP_NAMES_MOST], count = heaps_order(show, order);
  count = count < AREAS_MOST ? count : AREAS_MOST;
  for (uint32_t i = 0; i < count; i++)
    for (size_t point = 0; point < show->point_count; point++)
      sums[i][point] = (i ? sums[i - 1][point] : 0) + show->heaps[order[i]].points[point];
  for (uint32_t i = count; i > 0; i--)
    write_area(show, sums[i - 1], i - 1, to);
}

static void write_timeline(const show_t *show, FILE *to)
{
  fprintf(to, "<h2>Live bytes over time</h2>\n<svg viewBox='0 0 %d %d' role='img' aria-label='live bytes over time'>", WIDTH,
          HEIGHT);
  write_lines(show, to);
  write_area(show, NULL, 0, to);
  if (show->heaps)
    write_heap_areas(show, to);
  fprintf(to, "<line x1='%.1f' x2='%.1f' y1='10' y2='%d' stroke='var(--mark)' stroke-dasharray='3'/>",
          x_of(show, show->peak_ns), x_of(show, show->peak_ns), HEIGHT - BOTTOM);
  fputs("</svg>\n", to);
}

/* ---- heaps ---- */

/* The first ones have the colors of their areas. */
static void write_heaps(const show_t *show, FILE *to)
{
  uint32_t order[HEAP_NAMES_MOST], count = heaps_order(show, order);
  fputs("<h2>Heaps and object pools</h2>\n<table><tr><th class='s'>name</th>", to);
  for (size_t i = 0; i < show->kind_count; i++)
    fprintf(to, "<th>%s</th><th>blocks</th>", show->kinds[i].name);
  fputs("</tr>\n", to);
  for (uint32_t i = 0; i < count; i++) {
    const heap_name_t *name = &show->trace.heaps.names[order[i]];
    fputs("<tr><td class='s'>", to);
    if (!show->is_profile && i < AREAS_MOST)
      fprintf(to, "<i class='key heap%" PRIu32 "'></i> ", i);
    page_text(name->name ? name->name : "?", to);
    fputs(name->kind == RECORDING_KIND_OBJECT_POOL ? " (object pool)</td>" : "</td>", to);
    for (size_t k = 0; k < show->kind_count; k++) {
      fputs("<td class='n'>", to);
      page_bytes(show->heaps[order[i]].of.bytes[show->kinds[k].sum], to);
      fputs("</td><td>", to);
      page_count(show->heaps[order[i]].of.blocks[show->kinds[k].sum], to);
      fputs("</td>", to);
    }
    fputs("</tr>\n", to);
  }
  fputs("</table>\n", to);
}

/* ---- lives ---- */

static const char *const life_names[LIFE_COLUMNS] = {"1 us",   "10 us", "100 us", "1 ms",   "10 ms",
                                                     "100 ms", "1 s",   "10 s",   "longer", "not freed"};

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

static void write_lives(const show_t *show, FILE *to)
{
  double most = most_of_lives(show);
  fputs("<h2>Blocks, by their size and by how long they lived</h2>\n<table><tr><th>up to</th>", to);
  for (size_t column = 0; column < LIFE_COLUMNS; column++)
    fprintf(to, "<th>%s</th>", life_names[column]);
  fputs("</tr>\n", to);
  for (size_t row = 0; row < SIZE_ROWS; row++) {
    uint64_t sum = 0;
    for (size_t column = 0; column < LIFE_COLUMNS; column++)
      sum += show->lives[row][column];
    if (!sum)
      continue;
    fputs("<tr><th>", to);
    if (row + 1 < SIZE_ROWS)
      page_bytes((uint64_t)16 << row, to);
    else
      fputs("more", to);
    fputs("</th>", to);
    for (size_t column = 0; column < LIFE_COLUMNS; column++) {
      double share = sqrt((double)show->lives[row][column] * (double)(UINT64_C(16) << row) / most);
      fprintf(to, "<td class='share' style='--share:%.2f'>", share);
      if (show->lives[row][column])
        fprintf(to, "%" PRIu64, show->lives[row][column]);
      fputs("</td>", to);
    }
    fputs("</tr>\n", to);
  }
  fputs("</table>\n", to);
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
  fputs(show->is_profile ? "];\n" : ",[\"calls\",0]];\n", to);
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

static const char script[] =
  "const weight=sums=>sums[kind],note=()=>{},chosen=()=>{};\n"
  "const say=(node,whole)=>`${node.name}\\n${size(node.sum)}, ${(100*node.sum/whole).toFixed(1)} %`;\n"
  "function color({name}){let h=0;for(const c of name)h=(h*31+c.charCodeAt(0))|0;\n"
  " return `hsl(${190+(h>>>0)%40} ${35+(h>>>6)%25}% ${72+(h>>>12)%14}%)`}\n";

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
  fprintf(to, "];\n%s", script);
}

static void write_totals(const show_t *show, FILE *to)
{
  fputs("<table>", to);
  for (size_t i = 0; i < show->kind_count; i++) {
    fprintf(to, "<tr><th>%s</th><td>", show->kinds[i].name);
    page_bytes(show->all.bytes[show->kinds[i].sum], to);
    fputs("</td><td>", to);
    page_count(show->all.blocks[show->kinds[i].sum], to);
    fputs(" blocks</td></tr>", to);
  }
  fputs("</table>\n", to);
}

static void write_summary(const show_t *show, FILE *to)
{
  fputs("<p>", to);
  if (show->is_profile)
    show_print_samples(show, to);
  else
    fprintf(to, "%zu calls in %.3f s, the most live after %.3f s.", show->trace.count, (double)show->trace.facts.last_ns / 1e9,
            (double)show->peak_ns / 1e9);
  fputs("</p>\n", to);
}

/* A profile knows neither of times nor of lives. */
void show_write_page(const show_t *show, FILE *to)
{
  page_begin(show->title, to);
  write_summary(show, to);
  write_totals(show, to);
  if (!show->is_profile)
    write_timeline(show, to);
  if (show->heaps)
    write_heaps(show, to);
  fputs("<h2>Where it was allocated</h2>\n", to);
  flame_write_place(to);
  if (!show->is_profile)
    write_lives(show, to);
  write_data(show, to);
  flame_end("", to);
  page_end(to);
}
