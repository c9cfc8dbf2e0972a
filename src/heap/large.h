/* SPDX-License-Identifier: MIT
 * Blocks outside of bins: runs and mappings for sizes without a class, and standalone blocks. */
#ifndef HEAP_LARGE_H
#define HEAP_LARGE_H

#include "heap/heap.h"
#include "os/os.h"
#include "os/tool.h"

/* ---- runs and mappings ---- */

/* *past tells the former contents, *usable the size. Returns NULL if there is no memory. */
void *large_take(heap_t *heap, size_t size, size_t alignment, block_past_t *past, size_t *usable);
void large_give_run(heap_t *heap, run_t *run);
void large_give_huge(heap_t *heap, huge_t *huge);

/* Returns false if nothing changed. A huge block moves only if `may_move`. */
bool large_resize_run(heap_t *heap, run_t *run, size_t size);

run_t *large_move_run(heap_t *heap, run_t *run, size_t size);

bool large_resize_huge(heap_t *heap, huge_t *huge, size_t size, bool may_move);

/* Adds to the figures of a heap: blocks, their usable bytes, and the bytes that they hold. */
void large_count(heap_t *heap, ptrdiff_t blocks, ptrdiff_t bytes, ptrdiff_t held);

bool large_is_huge(const heap_t *heap, size_t size, size_t alignment);

/* Links a live run or mapping to an entry of a profile, or to none, until it ends. False: the block is neither. */
bool large_note_entry(void *block, void *entry);

/* Keep a block of the default heap as a spare when the thread frees it, and take one again, without a lock. False: the block is
 * not kept. NULL: there is no spare of that length. */
bool large_give_spare(void *block, const char *call, thread_t *thread);
void *large_take_spare(thread_t *thread, size_t size); /* size > 0, and at most SPARE_SIZE_MOST */

/* The largest request that tries a spare before it takes the slow path, which tries one too. */
enum { SPARE_SIZE_MOST = SPARE_UNITS_MOST * UNIT };
extern INTERNAL size_t spare_size_at_once;
void large_flush_spares(thread_t *thread);
void large_fold_figures(thread_t *thread);
void large_tick_spares(thread_t *thread);

/* Gives back the spares of a thread that a fork has lost. */
void large_give_lost_spares(thread_t *thread);

void large_wipe(const heap_t *heap, char *start, size_t size);

/* Zeroes a large block that was just taken and may hold old data. */
void large_clear_fresh(const heap_t *heap, char *block, size_t size);

void large_free_all(heap_t *heap);

/* ---- standalone blocks ----
 *
 * Standalone blocks share their memory with no other block. Each is a record in the tree of mappings, so figures, budgets,
 * walks, questions, reset and destroy treat it as a huge block. A source (block_source_t) provides the memory. If all blocks of
 * a heap are standalone, its source serves requests of every size. A request that the source does not serve goes on to bins and
 * runs.
 *
 * Such a heap has no magazines: every call must reach it. */

typedef struct block_source {
  /* Fills in huge.range, offset and asked of a record. The block lies in the range, even if it has 0 bytes, and the range is no
   * longer than bytes() returned. *zeroed: the memory reads as zero. Returns false if there is no memory. */
  bool (*take)(huge_standalone_t *of, const heap_t *heap, size_t size, size_t alignment, bool *zeroed);

  /* Returns the charge to the budget for a block of this size, at least 1, without overflow for sizes that take() serves. */
  size_t (*bytes)(size_t size, size_t alignment);

  /* Returns the largest size that is charged at most `bytes`. */
  size_t (*largest)(size_t bytes);

  /* Takes back the memory of a record that has left the tree, so no question finds it. `call` is named if a misuse is found. */
  void (*give)(const huge_standalone_t *of, const char *call);

  /* Shortens the block to `size` bytes, more than 0 and fewer than it has, and keeps its contents. NULL: nothing to do. */
  void (*shorten)(const huge_standalone_t *of, size_t size, const char *call);

  /* Ends the program if memory outside the block was overwritten. Called under huge_lock. NULL: nothing can be verified. */
  void (*verify)(const huge_standalone_t *of, const char *call);

  /* Stores the stack from `from` on, which a record keeps while its block is taken or given back. Called without locks, because
   * it may wait for the loader. NULL: no stack is taken. */
  void (*take_stack)(const void *from, os_stack_t *stack);

  /* Blocks stand in for others of their class: they have the class's size and are resized like them. */
  bool as_class;

  /* realloc() moves each block, so that a use of the old address is found. Heaps with heads do that too. */
  bool moves;

  /* Returns whether the heap refuses a request that take() could not serve. A bin would take a record of the budget and then
   * find no slab. NULL: never. */
  bool (*serves)(size_t size, size_t alignment);
} block_source_t;

static inline bool standalone_is_as_its_class(const huge_t *huge) { return standalone_of(huge)->source->as_class; }

/* Makes all blocks of the heap standalone that the source can serve. Called before its first block, and not for guests. */
void standalone_begin(heap_t *heap, const block_source_t *source);

/* Takes a block of `size` bytes for a request of any heap but a guest. NULL: no memory or no budget. */
void *standalone_take(heap_t *heap, const block_source_t *source, request_t *r, size_t size);

/* Returns false if this is no live standalone block, because another thread gave it back. */
bool standalone_give(heap_t *heap, const block_source_t *source, const void *block, const char *call);

/* Shortens the block, unless it stands in for one of its class. Returns false if it would have to grow. */
bool standalone_resize(heap_t *heap, huge_t *huge, size_t size, const char *call);

void standalone_give_all(heap_t *heap, const char *call);

/* ---- the malloc of a tool ----
 *
 * Blocks of the C library's malloc, or of its replacement by a tool (os/tool.h). The tool gives each block red zones, a
 * quarantine, the stacks of its allocation and free, and a place in the leak search. The heap keeps only a record. */

/* All heaps outside a caller's memory take their blocks from malloc. Settled before the first of them is used. */
extern INTERNAL bool blocks_are_malloced;
void tool_look(void); /* at the start, because it may take the loader's locks */
void tool_decide(void);

/* Takes the heap's blocks from malloc from the first on. tool_begin_if() returns false if it does not. */
COLD void tool_begin(heap_t *heap);
static inline bool tool_begin_if(heap_t *heap)
{
  if (unlikely(blocks_are_malloced))
    tool_begin(heap);
  return blocks_are_malloced;
}

void tool_end(const heap_t *heap);

/* Lets the tool report an address that is no live block of the heap, or of any (NULL), before the manager does. */
COLD void tool_report(const heap_t *heap, const void *block);

#endif
