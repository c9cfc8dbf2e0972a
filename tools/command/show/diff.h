/* SPDX-License-Identifier: MIT
 *
 * The places of two recordings, or of two profiles, side by side. A place is a stack of functions: addresses are others in each
 * process, and after each build. */
#ifndef DIFF_H
#define DIFF_H

#include "show.h"

/* One place of one file, or of both once they are joined. */
typedef struct stack_place {
  const show_t *show;
  uint32_t site;
  const total_t *before, *after; /* NULL: it is not there */
} stack_place_t;

typedef struct diff {
  char *names[2];  /* of the files, and if they are one, with the moments */
  show_t shows[2]; /* before and after */
  stack_place_t *places;
  size_t count;
  size_t kind_count; /* that both have, the first ones of either */
} diff_t;

/* Files that cannot be compared end the program. They may be two parts of one. */
void diff_read(diff_t *diff, const char *const paths[2], const part_t parts[2]);
void diff_free(diff_t *diff);

const call_stack_t *diff_stack(const stack_place_t *place); /* NULL: it is not known */
int64_t diff_change(const stack_place_t *place, sum_t sum); /* in bytes */

void diff_write_json(const diff_t *diff, FILE *to);

/* `most` places are in its table. */
void diff_write_page(const diff_t *diff, FILE *to, size_t most);

#endif
