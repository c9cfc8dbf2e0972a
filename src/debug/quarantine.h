/* SPDX-License-Identifier: MIT
 *
 * Blocks of a checked heap that came back and are kept for a while before their memory is used again: a write to one of them is
 * found, and one that is freed again is known for what it is. The oldest leaves when there are more than quarantine_most()
 * bytes of them. They are linked through their guards.
 *
 *   H4 each block in it has the pattern of returned memory behind a head that says so, and their bytes are what is counted
 *
 * The list is under the heap's lock. To the layers below these blocks are in use. */
#ifndef QUARANTINE_H
#define QUARANTINE_H

#include "heap/blocks.h"

/* Keeps a block that head_close() has closed, and lets others go for it. */
void quarantine_keep(const located_t *at, const char *call);

/* Lets all go. Nothing of the heap may be locked. */
void quarantine_empty(heap_t *heap, const char *call);

/* Ends the program if a block was written to while it was in there: `call` has found that. Returns their bytes. */
size_t quarantine_verify(heap_t *heap, const char *call);

/* How many are of no bin, and their bytes; bins count theirs. The figures are read one after the other, so they are close. */
withheld_figures_t quarantine_figures(heap_t *heap);

/* The heap's blocks end, and these with them. */
void quarantine_forget(heap_t *heap);

#endif
