/* SPDX-License-Identifier: MIT
 *
 * A flame graph in a page. The stacks stand in it as data, and a script draws them: the outermost function is at the top, and
 * what a click is on takes the whole width.
 *
 * Data are `kinds`, each a name and whether it counts bytes; `names`; and `sites`, each its sums and its functions by their
 * numbers, outermost first. Before flame_end() the page's own script defines, by the sums of a site, `weight(sums)`, how wide
 * it is, which may be 0; `note(node, sums)`, what else a function sums up; `color(node)`, as hue, saturation and lightness;
 * `say(node, whole)`, the text of the pointer; and `chosen()`, what else a choice of a kind draws. */
#ifndef FLAME_H
#define FLAME_H

#include "callers.h"
#include <stdio.h>

/* Where it is drawn, with what chooses a kind, and a search. The text has the word "flame graph". `legend` is HTML that says
 * what its colors mean. */
void flame_write_place(const char *legend, FILE *page);

/* `first` is the number of the first name that these callers have. */
void flame_write_names(const callers_t *callers, size_t first, FILE *page);
void flame_write_stack(const call_stack_t *stack, size_t first, FILE *page);

/* `more` is a script that finds the choice of kinds made. */
void flame_end(const char *more, FILE *page);

#endif
