/* SPDX-License-Identifier: MIT
 *
 * A slab is a run cut into equal blocks of one size class. Free blocks are bits in a bitmap beside the run's descriptor. Blocks
 * that were never handed out are beyond the fresh mark, so memory that is not needed is never touched. Nothing is stored inside
 * a block: a slab of 64 KiB holds 64 KiB of blocks, and a program that writes past its block cannot damage the manager.
 *
 *   S1 set bits of the bitmap == free_count <= fresh <= capacity; no bit at or beyond fresh is set
 *   S2 a block is in exactly one place: the caller, one magazine, one depot, one bit, or beyond the fresh mark
 *   S3 a purged part is free; settled <= free_count, and at least 1 where a part is purged
 *
 * The memory of a slab is purged by parts: pages, or longer parts if the slab has more than 64 pages. A part is free if every
 * block that has a byte in it is free.
 *
 * The functions are called under the lock of the bin that owns the slab. S1 and S3 hold whenever that lock is free. S2 does not
 * hold during a pop or a push, when an entry is in two words of its thread; no other thread uses those. */
#ifndef SLAB_H
#define SLAB_H

#include "space/space.h"

/* i = offset * inverse >> INVERSE_SHIFT is offset / size without a division: exact while offset * size < 2^INVERSE_SHIFT, which
 * holds for a slab of up to 8 blocks of 256 KiB. */
enum { INVERSE_SHIFT = 40 };
static inline uint64_t slab_inverse(size_t block_size)
{
  return (((uint64_t)1 << INVERSE_SHIFT) + block_size - 1) / block_size;
}

void slab_init(run_t *slab, arena_t *arena, void *owner, unsigned size_class, size_t block_size);

/* Makes all blocks fresh again. They keep their contents, so they do not read as zero. */
void slab_empty(run_t *slab);

/* Takes up to `want` free blocks, the lowest first; the last in `blocks` is the lowest. */
size_t slab_take_free(run_t *slab, size_t block_size, void **blocks, size_t want);

/* Call it after free blocks were taken: parts with such a block no longer count as purged (S3). */
void slab_note_taken(run_t *slab, size_t block_size, uint64_t inverse);
size_t slab_take_fresh(run_t *slab, size_t block_size, void **blocks, size_t want);

size_t slab_part_bytes(const run_t *slab);

/* Returns the free parts that are not known to be purged. */
word_t slab_idle_parts(const run_t *slab, size_t block_size, uint64_t inverse);

static inline size_t slab_parts_length(const run_t *slab, word_t parts)
{
  return parts ? (size_t)__builtin_popcountll(parts) * slab_part_bytes(slab) : 0;
}

/* Purges free parts, neighbours in one system call and the highest first, until the system refuses. Returns the bytes. */
size_t slab_purge(run_t *slab, space_t *space, word_t parts);

/* Returns the free blocks that came back since a purge last visited the slab. */
static inline size_t slab_idle(const run_t *slab) { return slab->free_count - slab->settled; }

static inline bool slab_is_unused(const run_t *slab) { return slab->free_count == slab->fresh; }
static inline bool slab_has_fresh(const run_t *slab) { return slab->fresh != slab->capacity; }

typedef enum slab_answer { SLAB_LIVE_OR_CACHED, SLAB_FREE, SLAB_NOT_A_BLOCK } slab_answer_t;

/* Looks up the block at `offset` bytes; *index is the block around it. SLAB_NOT_A_BLOCK: no block was handed out there. */
static inline slab_answer_t slab_ask(const run_t *slab, size_t block_size, uint64_t inverse, size_t offset, size_t *index)
{
  size_t i = *index = offset * inverse >> INVERSE_SHIFT;
  if (unlikely(i * block_size != offset || i >= slab->fresh))
    return SLAB_NOT_A_BLOCK;
  return bit_test(slab->bitmap, i) ? SLAB_FREE : SLAB_LIVE_OR_CACHED;
}

#endif
