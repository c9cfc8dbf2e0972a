/* SPDX-License-Identifier: MIT
 *
 * Blocks of the C library's malloc, or of its replacement by a tool (os/tool.h). The tool gives each block red zones, a
 * quarantine, the stacks of its allocation and free, and a place in the leak search. The heap keeps only a record. */
#ifndef TOOL_SOURCE_H
#define TOOL_SOURCE_H

#include "heap/apart.h"
#include "os/tool.h"

/* All heaps outside a caller's memory take their blocks from malloc. Settled before the first of them is used. */
extern INTERNAL bool blocks_are_malloced;
void tool_look(void); /* at the start, because it may take the loader's locks */
void tool_settle(void);

/* Takes the heap's blocks from malloc from the first on. tool_begin_if() returns false if it does not. */
COLD void tool_begin(heap_t *heap);
static inline bool tool_begin_if(heap_t *heap)
{
  if (unlikely(blocks_are_malloced))
    tool_begin(heap);
  return blocks_are_malloced;
}

/* Tell a tool that blocks begin and end in a caller's memory. Such a heap is checked: it has red zones and a quarantine. Called
 * before and after its granules begin, before and after all blocks end, and when the memory is the caller's again. */
void tool_begin_guest(heap_t *heap);
void tool_close_guest(const heap_t *heap);
void tool_open_guest(const heap_t *heap);
void tool_reset_guest(const heap_t *heap);
void tool_end(const heap_t *heap); /* also for heaps whose blocks are from malloc */

/* Lets the tool report an address that is no live block of the heap, or of any (NULL), before the manager does. */
COLD void tool_report(const heap_t *heap, const void *block);

#endif
