/* SPDX-License-Identifier: MIT */
#include "page/page.h"
#include "command.h"
#include "page/texts.h"
#include "utf8.h"
#include <ctype.h>
#include <errno.h>
#include <string.h>

FILE *page_create(const char *command, const char *path)
{
  FILE *page = fopen(path, "we");
  if (!page)
    command_fail(COMMAND_FAILED, "%s: %s: %s", command, path, strerror(errno));
  return page;
}

void page_close(FILE *page, const char *command, const char *path)
{
  bool failed = ferror(page);
  if (fclose(page) != 0 || failed)
    command_fail(COMMAND_FAILED, "%s: %s: %s", command, path, strerror(errno ? errno : EIO));
}

void page_begin(const char *title, const char *style, FILE *page)
{
  fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>tidepool: ",
        page);
  page_text(title, page);
  fprintf(page, "</title>\n<style>%s%s</style></head><body>\n<h1>", page_style_css, style ? style : "");
  page_text(title, page);
  fputs("</h1>\n", page);
}

void page_end(FILE *page) { fputs("</body></html>\n", page); }

void page_text(const char *text, FILE *page)
{
  const unsigned char *at = (const unsigned char *)text;
  while (*at) {
    size_t length = utf8_length(at);
    if (!length)
      fputs("&#65533;", page);
    else if (strchr("<>&'\"", *at))
      fprintf(page, "&#%d;", *at);
    else if (utf8_is_control(at))
      fputc(' ', page);
    else
      fwrite(at, 1, length, page);
    at += length ? length : 1;
  }
}

void page_count(uint64_t count, FILE *page)
{
  char digits[32];
  int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
  for (int i = 0; i < length; i++) {
    fputs(i && (length - i) % 3 == 0 ? "," : "", page);
    fputc(digits[i], page);
  }
}

void page_bytes(uint64_t bytes, FILE *page)
{
  char room[COMMAND_BYTES];
  fputs(command_bytes(room, (double)bytes), page);
}

/* ---- tables ---- */

void page_begin_table(const char *id, FILE *page)
{
  fprintf(page, "<div class=\"scroll\" tabindex=\"0\"><table id=\"%s\"><thead>", id);
}

void page_begin_cards(double least_rem, FILE *page)
{
  fprintf(page, "<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\" style=\"--least:%grem\"><thead>", least_rem);
}

void page_end_table(FILE *page) { fputs("</tbody></table></div>\n", page); }

/* ---- words ---- */

/* The name by which links find a word. */
static void write_place_of(const char *word, FILE *page)
{
  for (fputs("word-", page); *word; word++)
    fputc(isalnum((unsigned char)*word) ? *word : '-', page);
}

void page_word(const char *word, FILE *page)
{
  fputs("<a class=\"word\" href=\"#", page);
  write_place_of(word, page);
  fprintf(page, "\">%s</a>", word);
}

void page_head_word(const char *word, FILE *page)
{
  fputs("<th>", page);
  page_word(word, page);
  fputs("</th>", page);
}

void page_begin_words(FILE *page) { fputs("<h2 id=\"words\">What the words mean</h2>\n<dl class=\"words\">\n", page); }

void page_write_words(const page_word_t *words, size_t count, FILE *page)
{
  for (size_t i = 0; i < count; i++) {
    fputs("<dt id=\"", page);
    write_place_of(words[i].word, page);
    fprintf(page, "\">%s</dt><dd>%s</dd>\n", words[i].word, words[i].meaning);
  }
}

void page_end_words(FILE *page) { fputs("</dl>\n", page); }

/* ---- figures ---- */

void page_begin_tiles(FILE *page) { fputs("<dl class=\"tiles\">\n", page); }

void page_tile(const char *word, uint64_t figure, void (*write)(uint64_t figure, FILE *page), uint64_t count, const char *of,
               FILE *page)
{
  fputs("<div><dt>", page);
  page_word(word, page);
  fputs("</dt><dd><strong>", page);
  write(figure, page);
  fputs("</strong>", page);
  page_count(count, page);
  fprintf(page, " %s</dd></div>\n", of);
}

void page_end_tiles(FILE *page) { fputs("</dl>\n", page); }
