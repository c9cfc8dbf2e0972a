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

/* The head, and the title as a heading. */
void page_begin(const char *title, FILE *page);
void page_end(FILE *page);

void page_text(const char *text, FILE *page);
void page_bytes(uint64_t bytes, FILE *page);
void page_count(uint64_t count, FILE *page); /* with a comma between thousands */

#endif
