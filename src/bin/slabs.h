/* SPDX-License-Identifier: MIT
 * The slabs of one bin, in lists by how many of their blocks are free. Blocks come from the fullest slabs, so that the emptiest
 * become unused and can be closed. Called under the lock of the bin. */
#ifndef SLABS_H
#define SLABS_H

#include "bin/types.h"

/* Return the minimum and the preferred length of a class's slabs, in bytes. */
size_t slabs_least_bytes(size_t block_size);
size_t slabs_bytes_for(size_t block_size, bool tight);

/* Sets the capacity of a magazine and of a thread's stock, from the blocks of the class and the number of threads. */
void slabs_size_magazines(bin_t *bin);

/* Call it when blocks have changed shards: the depots may hold `by` more magazines. */
void slabs_note_change(bin_t *bin, size_t by);

/* Takes up to `want` blocks for a thread of the shard: free ones of the fullest slabs, or fresh ones if none is free. The
 * lowest is stored last. *past, if not NULL, describes their contents. */
size_t slabs_take(bin_t *bin, void **blocks, size_t want, unsigned shard, block_past_t *past);

/* Returns whether an open slab has a block to take. */
bool slabs_have_free(const bin_t *bin);

/* Returns whether a slab may become unused if so many blocks come back. Reads few slabs. */
bool slabs_may_end_one(const bin_t *bin, size_t blocks);

/* Takes blocks back. If one was not handed out, it releases the lock and ends the program. */
void slabs_put(bin_t *bin, void *const *blocks, size_t count, unsigned shard);

/* Closes slabs without outstanding blocks of which at least `least_touched` bytes were touched since they were opened. */
void slabs_close_unused(bin_t *bin, size_t least_touched);

/* Purges free parts of slabs until `*blocks` idle ones have settled, which it counts down, or `calls` system calls were made. A
 * visit that purges nothing counts as a call. Returns the bytes. */
size_t slabs_purge(bin_t *bin, size_t *blocks, size_t calls);

/* Purges the blocks that were not needed for the purge delay. Returns how many calls are left. */
enum { PURGE_CALLS = 8 };     /* system calls in one step of step_budget.h, and while the lock of a bin is held */
enum { BIN_STEPS_MOST = 32 }; /* steps of one caller for bins at once: a system call takes some microseconds */
size_t slabs_purge_unneeded(bin_t *bin, size_t calls, uint64_t now_ms);

/* Free all blocks at once. slabs_reset() keeps the slabs as if just opened; slabs_close_all() gives them back. */
void slabs_reset(bin_t *bin);
void slabs_close_all(bin_t *bin);

#endif
