/* SPDX-License-Identifier: MIT
 *
 * Freed blocks of a checked heap are withheld for a while before their memory is reused, so that writes to them and second
 * frees are found. The oldest leave when there are more than quarantine_most() bytes. They are linked through their heads.
 *
 *   H4 each block in it has the pattern of freed memory behind a head that says so, and the counted bytes are those of all
 *
 * The heap's lock protects the list. The layers below treat these blocks as in use. */
#ifndef QUARANTINE_H
#define QUARANTINE_H

#include "debug/head.h"
#include "heap/blocks.h"

/* Describes what holds a block that was looked up, for a call at a site. */
static inline headed_t headed_at(const located_t *at, const char *call, site_t site)
{
  return (headed_t){.start = at->start,
                    .usable = at->size,
                    .heap = at->heap,
                    .call = call,
                    .in_granules = located_in_granules(at),
                    .head_only = !heap_is_checked(at->heap),
                    .site = site,
                    .marked = heap_is_marked(at->heap)};
}

/* Keeps a block that head_close() has closed, and releases others if there are too many. */
void quarantine_keep(const located_t *at, const char *call);

/* Releases all blocks. No lock of the heap is held. */
void quarantine_empty(heap_t *heap, const char *call);

/* Ends the program if a withheld block was overwritten; `call` is named. Returns their bytes. */
size_t quarantine_verify(heap_t *heap, const char *call);

/* Blocks of no bin, and their bytes; bins count theirs. The figures are read one after the other, so they are approximate. */
withheld_figures_t quarantine_figures(heap_t *heap);

void quarantine_forget(heap_t *heap);

#endif
