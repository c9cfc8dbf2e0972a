/* SPDX-License-Identifier: MIT
 *
 * The slabs of one bin, in lists by how many of their blocks are free. Blocks come from the fullest, so that the emptiest
 * become unused and go. Under the lock of the bin. */
#ifndef SLABS_H
#define SLABS_H

#include "bin/types.h"

/* How long the shortest slab of a class is, in bytes, and how long one is that is wanted. */
size_t slabs_least_bytes(size_t block_size, unsigned unit_log2);
size_t slabs_bytes_for(size_t block_size, unsigned unit_log2, bool tight);

/* Settles how many blocks a magazine of the class holds, and how many full ones a thread may keep: by the blocks of the class,
 * and the threads that there are. */
void slabs_size_magazines(bin_t *bin);

/* Called when blocks have gone from shard to shard: the depots may hold `by` more magazines. */
void slabs_note_change(bin_t *bin, size_t by);

/* Takes up to `want` blocks for a thread of the shard: free ones of the fullest slabs, fresh ones only where there are none.
 * The lowest is stored last. *past (NULL: not wanted) is what is known of what they hold. */
size_t slabs_take(bin_t *bin, void **blocks, size_t want, unsigned shard, block_past_t *past);

/* Whether a slab that is there already has a block that can be taken. */
bool slabs_have_free(const bin_t *bin);

/* Takes blocks back. Opens the lock and ends the program where one was not handed out. */
void slabs_put(bin_t *bin, void *const *blocks, size_t count, unsigned shard);

/* Closes slabs without an outstanding block of which at least so many bytes were touched since they were opened. */
void slabs_close_unused(bin_t *bin, size_t least_touched);

/* Purges free parts of slabs until `*blocks` idle ones were looked at, which are counted down, or until so many calls of the
 * system. A look at a slab where nothing is purged counts as one. Returns the bytes. */
size_t slabs_purge(bin_t *bin, size_t *blocks, size_t calls);

/* Does the same with the blocks that were not needed for the purge delay. Returns how many calls are left. */
enum { PURGE_CALLS = 8 };     /* in one step of step_budget.h, and while the lock of a bin is held */
enum { BIN_STEPS_MOST = 32 }; /* steps that one caller makes for bins at once: a call of the system takes some microseconds */
size_t slabs_purge_unneeded(bin_t *bin, size_t calls, uint64_t now_ms);

/* All blocks end at once. slabs_reset() keeps the slabs as if they were just opened; slabs_close_all() gives them back. */
void slabs_reset(bin_t *bin);
void slabs_close_all(bin_t *bin);

#endif
