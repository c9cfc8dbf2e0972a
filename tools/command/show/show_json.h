/* SPDX-License-Identifier: MIT
 *
 * The figures of a recording or a profile for scripts. */
#ifndef SHOW_JSON_H
#define SHOW_JSON_H

#include "show.h"

void show_write_json(const show_t *show, FILE *to);

/* "peak_bytes":1,"peak_blocks":1, and so on for so many kinds of sums; NULL: zeros. */
void show_write_json_sums(const show_t *show, size_t kinds, const total_t *total, FILE *to);
/* ["inner","outer"]; NULL: it is not known. */
void show_write_json_stack(const show_t *show, const call_stack_t *stack, FILE *to);

#endif
