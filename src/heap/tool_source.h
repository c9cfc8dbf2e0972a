/* SPDX-License-Identifier: MIT
 *
 * Blocks of the C library's malloc, or of what a tool has put in its place (os/tool.h). They have what the tool gives each
 * block: red zones around it, a time in which its memory is not used again, the stacks of its allocation and its free, and a
 * place in the search for leaks. The heap keeps nothing of them but a record. */
#ifndef TOOL_SOURCE_H
#define TOOL_SOURCE_H

#include "heap/apart.h"
#include "os/tool.h"

/* All heaps that are not in the memory of a caller are such. Settled before the first of them is used. */
extern INTERNAL bool blocks_are_malloced;
void tool_look(void); /* at the start, because it may take the loader's locks */
void tool_settle(void);

/* The heap's blocks are malloced from the first on. False: they are not to be. */
COLD void tool_begin(heap_t *heap);
static inline bool tool_begin_if(heap_t *heap)
{
  if (unlikely(blocks_are_malloced))
    tool_begin(heap);
  return blocks_are_malloced;
}

/* What a tool is told of a heap in the memory of a caller: blocks begin and end there. It is checked then, for red zones and
 * a time in which freed memory is not used again. Before its granules begin; once they have; before all blocks end, and after
 * that; and when the memory is the caller's again. */
void tool_begin_guest(heap_t *heap);
void tool_close_guest(const heap_t *heap);
void tool_open_guest(const heap_t *heap);
void tool_reset_guest(const heap_t *heap);
void tool_end(const heap_t *heap); /* of a heap whose blocks are malloced, too */

/* The tool says what it knows of an address that is no live block of the heap, or of none (NULL), before the manager does. */
COLD void tool_report(const heap_t *heap, const void *block);

#endif
