/* SPDX-License-Identifier: MIT
 *
 * Blocks that are too large for a size class: a run of their own, or a mapping. */
#ifndef LARGE_H
#define LARGE_H

#include "heap/heap.h"

/* NULL: no memory. *past is what is known of what they hold, *usable their size. */
void *large_take(heap_t *heap, size_t size, size_t alignment, block_past_t *past, size_t *usable);
void large_give_run(heap_t *heap, run_t *run);
void large_give_huge(heap_t *heap, huge_t *huge);

/* False: nothing changed, as for each block apart. A huge block moves only if `may_move`. */
bool large_resize_run(heap_t *heap, run_t *run, size_t size);

/* Moves a run that cannot grow in place. NULL: nothing changed. */
run_t *large_move_run(heap_t *heap, run_t *run, size_t size);

bool large_resize_huge(heap_t *heap, huge_t *huge, size_t size, bool may_move);

/* Adds to the figures of a heap: blocks, their usable bytes, and what they take. */
void large_count(heap_t *heap, ptrdiff_t blocks, ptrdiff_t bytes, ptrdiff_t held);

/* Says whether a block of this size and alignment is a mapping of its own. */
bool large_is_huge(const heap_t *heap, size_t size, size_t alignment);

/* A live block that is a run or a mapping leads to an entry of a profile until it ends, and from now on to this one, or to
 * none. False: it is neither. */
bool large_note_entry(void *block, void *entry);

/* Keeps a block of the default heap that the thread frees as a spare, and takes one again, without a lock. False: it is not
 * kept. NULL: there is no spare of that length. */
bool large_give_spare(void *block, const char *call, thread_t *thread);
void *large_take_spare(thread_t *thread, size_t size); /* size > 0, and at most SPARE_SIZE_MOST */

/* The largest request that looks for a spare before it takes the long way, which looks for one too. */
enum { SPARE_SIZE_MOST = SPARE_UNITS_MOST * UNIT };
extern INTERNAL size_t spare_size_at_once;
void large_flush_spares(thread_t *thread);
void large_fold_figures(thread_t *thread);
void large_tick_spares(thread_t *thread);

/* In the child of a fork: gives back the spares of a thread that is not in this process. */
void large_give_lost_spares(thread_t *thread);

/* Zeroes a large block, or the end of one. */
void large_wipe(const heap_t *heap, char *start, size_t size);

/* Clears a large block that was just taken, and may hold old data. */
void large_clear_fresh(const heap_t *heap, char *block, size_t size);

void large_free_all(heap_t *heap);

#endif
