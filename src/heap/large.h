/* SPDX-License-Identifier: MIT
 * Blocks that are too large for a size class: runs and mappings. */
#ifndef LARGE_H
#define LARGE_H

#include "heap/heap.h"

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

#endif
