/* SPDX-License-Identifier: MIT
 *
 * One page of what differs: the sums, a flame graph in which what has grown is red and what has shrunk is blue, and the places
 * by their growth. A function is as wide as what has changed below it, so that a small leak of a large program is seen; or, if
 * one likes, as the larger of what it had before and after. */
#include "command.h"
#include "diff.h"
#include "flame.h"
#include "page/page.h"
#include "page/texts.h"
#include <inttypes.h>
#include <stdlib.h>

/* ---- sums ---- */

typedef void write_number_fn(uint64_t number, FILE *to);

static void write_change(uint64_t before, uint64_t after, write_number_fn *write, FILE *to)
{
  bool is_more = after > before, is_less = after < before;
  fprintf(to, "<td data-label=\"change\" class=\"n%s\">", is_more ? " grown" : is_less ? " shrunk" : "");
  fputs(is_more ? "+" : is_less ? "&minus;" : "", to);
  write(is_less ? before - after : after - before, to);
  fputs("</td>", to);
}

static void write_before_and_after(uint64_t before, uint64_t after, write_number_fn *write, const char *of, FILE *to)
{
  fprintf(to, "<td data-label=\"%sbefore\" class=\"n\">", of);
  write(before, to);
  fputs("</td><td data-label=\"after\" class=\"n\">", to);
  write(after, to);
  fputs("</td>", to);
  write_change(before, after, write, to);
}

static void write_sum(const diff_t *diff, const kind_t *kind, FILE *to)
{
  const total_t *before = &diff->shows[0].all, *after = &diff->shows[1].all;
  fputs("<tr class=\"line\"><th class=\"s\">", to);
  page_word(kind->name, to);
  fputs("</th>", to);
  write_before_and_after(before->bytes[kind->sum], after->bytes[kind->sum], page_bytes, "", to);
  write_before_and_after(before->blocks[kind->sum], after->blocks[kind->sum], page_count, "blocks ", to);
  fputs("</tr>\n", to);
}

static void write_sums(const diff_t *diff, FILE *to)
{
  page_begin_cards(6, to);
  fputs("<tr><th class=\"s\"></th><th>before</th><th>after</th><th>change</th>"
        "<th>blocks before</th><th>after</th><th>change</th></tr></thead><tbody>\n",
        to);
  for (size_t i = 0; i < diff->kind_count; i++)
    write_sum(diff, &diff->shows[0].kinds[i], to);
  page_end_table(to);
}

static void write_file(const diff_t *diff, int i, FILE *to)
{
  const show_t *show = &diff->shows[i];
  fprintf(to, "<p><b>%s</b> ", i ? "After:" : "Before:");
  page_text(diff->names[i], to);
  fputs(". ", to);
  if (show->is_profile)
    show_print_samples(show, to);
  else
    page_text(show->title, to);
  fputs("</p>\n", to);
}

/* ---- stacks ---- */

static void write_numbers(const total_t *before, const total_t *after, sum_t sum, FILE *to)
{
  static const total_t none;
  before = before ? before : &none;
  after = after ? after : &none;
  fprintf(to, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", before->bytes[sum], after->bytes[sum], before->blocks[sum],
          after->blocks[sum]);
}

static void write_place(const diff_t *diff, const stack_place_t *place, FILE *to)
{
  fputs("[[", to);
  for (size_t i = 0; i < diff->kind_count; i++) {
    fputs(i ? "," : "", to);
    write_numbers(place->before, place->after, diff->shows[0].kinds[i].sum, to);
  }
  fputs("],[", to);
  flame_write_stack(diff_stack(place), place->show == &diff->shows[0] ? 0 : diff->shows[0].callers.name_count, to);
  fputs("]],\n", to);
}

static void write_data(const diff_t *diff, FILE *to, size_t most)
{
  const callers_t *before = &diff->shows[0].callers, *after = &diff->shows[1].callers;
  fprintf(to, "<script>\nconst most=%zu,kinds=[", most);
  for (size_t i = 0; i < diff->kind_count; i++)
    fprintf(to, "%s[\"%s\",1]", i ? "," : "", diff->shows[0].kinds[i].name);
  fputs("];\nconst names=[", to);
  flame_write_names(before, 0, to);
  flame_write_names(after, before->name_count, to);
  fputs("];\nconst sites=[", to);
  for (size_t i = 0; i < diff->count; i++)
    write_place(diff, &diff->places[i], to);
  fprintf(to, "];\n%s", page_diff_js);
}

/* ---- what it means ---- */

static const char legend[] =
  "<div class=\"tools\"><span class=\"note\">Boxes are as wide as</span> <div class=\"group\" id=\"widths\" role=\"group\" "
  "aria-label=\"what boxes are as wide as\"></div></div>\n"
  "<p class=\"legend\"><span><i class=\"key grows\"></i>grown</span><span><i class=\"key shrinks\"></i>shrunk</span>"
  "<span><i class=\"key same\"></i>the same, or as much grown as shrunk</span></p>\n";

static const page_word_t words_of_recordings[] = {
  {"live at the peak", "What was allocated and not freed yet, at the moment at which most bytes were."},
  {"live at the end", "What was live when the recording ended. It is in use or lost: <code>tidepool run --leaks</code> tells "
                      "the two apart."},
};

static const page_word_t words_of_profiles[] = {
  {"in use", "What was allocated and not freed when the profile was written."},
};

static const page_word_t words_of_both[] = {
  {"allocated", "All that was allocated, whether it was freed or not."},
  {"before", "What the first recording or profile has."},
  {"after", "What the second one has."},
  {"blocks", "What single calls have allocated. A block counts with the bytes that were asked for."},
  {"place", "A stack of functions, the innermost of which allocates."},
  {"flame graph",
   "Each box is a function, and the boxes below it are the functions that it called. A box has what the function "
   "and all below it have allocated. Its color is strong if nearly all of that changed in one direction."},
};

#define WRITE_WORDS(words, to) page_write_words(words, sizeof words / sizeof *words, to)

static void write_words(const diff_t *diff, FILE *to)
{
  page_begin_words(to);
  if (diff->shows[0].is_profile)
    WRITE_WORDS(words_of_profiles, to);
  else
    WRITE_WORDS(words_of_recordings, to);
  WRITE_WORDS(words_of_both, to);
  page_end_words(to);
}

static void write_places(FILE *to)
{
  fputs("<h2>Places by their growth</h2>\n", to);
  page_begin_cards(4.8, to);
  fputs("<tr><th>change</th>", to);
  page_head_word("blocks", to);
  page_head_word("before", to);
  page_head_word("after", to);
  fputs("<th class=\"s\">", to);
  page_word("place", to);
  fputs(", innermost function first</th></tr></thead><tbody id=\"places\">", to);
  page_end_table(to);
  fputs("<p class=\"note\" id=\"left\"></p>\n", to);
}

void diff_write_page(const diff_t *diff, FILE *to, size_t most)
{
  char *title = COMMAND_JOIN(diff->names[1], ", compared with ", diff->names[0]);
  page_begin(title, NULL, to);
  free(title);
  write_file(diff, 0, to);
  write_file(diff, 1, to);
  fputs("<p><a href=\"#words\">What the words mean</a></p>\n", to);
  write_sums(diff, to);
  fputs("<h2>What has <span class=\"grown\">grown</span> and what has <span class=\"shrunk\">shrunk</span></h2>\n", to);
  flame_write_place(legend, to);
  write_places(to);
  write_words(diff, to);
  write_data(diff, to, most);
  flame_end(page_widths_js, to);
  page_end(to);
}
