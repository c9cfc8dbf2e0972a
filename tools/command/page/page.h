/* SPDX-License-Identifier: MIT
 *
 * Pages for a browser, which need no other file. What others wrote gets into one by these functions alone: as a text, as which
 * it begins no element and ends no value of one, or in a script as a string, which it does not end, nor the script. */
#ifndef PAGE_H
#define PAGE_H

#include <stdint.h>
#include <stdio.h>

/* What cannot be written ends the program; `command` is the name of the subcommand. */
FILE *page_create(const char *command, const char *path);
void page_close(FILE *page, const char *command, const char *path);

/* The head, and the title as a heading. `style`: what the page adds to the style of all pages, or NULL. */
void page_begin(const char *title, const char *style, FILE *page);
void page_end(FILE *page);

void page_text(const char *text, FILE *page);
void page_bytes(uint64_t bytes, FILE *page);
void page_count(uint64_t count, FILE *page); /* with a comma between thousands */

/* A table moves by itself if it is wider than the window. As cards, each of its rows is one on a narrow screen: figures of at
 * least that width, below their data-labels. */
void page_begin_table(const char *id, FILE *page);
void page_begin_cards(double least_rem, FILE *page);
void page_end_table(FILE *page);

/* ---- words ---- */

/* A word of the page, and what it means there. */
typedef struct page_word {
  const char *word, *meaning;
} page_word_t;

/* The word as a link to its meaning, which stands at the foot of the page: lists of words between page_begin_words() and
 * page_end_words(). */
void page_word(const char *word, FILE *page);
void page_head_word(const char *word, FILE *page); /* the same, as the head of a column */
void page_begin_words(FILE *page);
void page_write_words(const page_word_t *words, size_t count, FILE *page);
void page_end_words(FILE *page);

/* ---- the figures at the head of a page: tiles between page_begin_tiles() and page_end_tiles() ---- */

void page_begin_tiles(FILE *page);
void page_tile(const char *word, uint64_t figure, void (*write)(uint64_t figure, FILE *page), uint64_t count, const char *of,
               FILE *page);
void page_end_tiles(FILE *page);

#endif
