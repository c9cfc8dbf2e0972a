/* SPDX-License-Identifier: MIT
 *
 * Taking goes through the bitmap word by word, from the lowest: blocks that are handed out together lie together. */
#include "bin/slab.h"
#include "base/shared.h"
#include <string.h>

/* In a region of small units there are no long bitmaps, so a slab has no more blocks than the short bitmap has bits. */
void slab_init(run_t *slab, arena_t *arena, void *owner, unsigned size_class, size_t block_size)
{
  size_t capacity = run_bytes(arena, slab) / block_size;
  if (!arena->long_bitmaps)
    capacity = min_size(capacity, SHORT_BITMAP_WORDS * WORD_BITS);
  slab->size_class = (uint8_t)size_class;
  slab->capacity = (uint32_t)capacity;
  slab->quarter = (uint16_t)(capacity / 4);
  slab->free_count = slab->fresh = 0;
  slab->purged = 0;
  if (capacity <= SHORT_BITMAP_WORDS * WORD_BITS) {
    slab->bitmap = slab->short_bitmap;
    memset(slab->short_bitmap, 0, sizeof slab->short_bitmap); /* of a length that is known, it is no call */
  } else {
    slab->bitmap = arena_long_bitmap(arena, (size_t)(slab - arena->runs));
    shared_clear(slab->bitmap, round_up(capacity, WORD_BITS) / 8);
  }
  run_become(slab, RUN_SLAB, owner);
}

/* Only words below the fresh mark can have bits (S1), so the rest is not cleared. */
void slab_empty(run_t *slab)
{
  if (slab->free_count)
    shared_clear(slab->bitmap, (slab->fresh + WORD_BITS - 1) / WORD_BITS * sizeof(word_t));
  slab->free_count = slab->fresh = 0;
  slab->purged = 0;
  slab->zeroed = false;
}

/* The lowest block is stored last, and so is handed out first: a magazine pops from its end. A block that is taken does not
 * count as purged any more, since its user will touch it (S3). */
size_t slab_take_free(run_t *slab, size_t block_size, void **blocks, size_t want)
{
  size_t got = 0, words = (slab->fresh + WORD_BITS - 1) / WORD_BITS;
  for (size_t w = 0; w < words && got < want; w++) {
    word_t word = slab->bitmap[w];
    if (!word)
      continue;
    char *first = slab->start + w * WORD_BITS * block_size;
    for (; word && got < want; word &= word - 1)
      blocks[want - ++got] = first + lowest_bit(word) * block_size;
    slab->bitmap[w] = word;
  }
  slab->free_count -= (uint32_t)got;
  slab->purged &= slab->bitmap[0];
  return got;
}

/* Neighbours are purged in one system call. If the system refuses one group, the others stay idle too, and the next call tries
 * again. The lowest blocks are taken first, so the highest are purged first. */
size_t slab_purge(run_t *slab, space_t *space, size_t block_size, size_t most)
{
  size_t bytes = 0;
  for (word_t idle; most && (idle = slab->bitmap[0] & ~slab->purged) != 0;) {
    unsigned to = highest_bit(idle) + 1, from = to;
    word_t group = 0;
    for (; most && from && idle >> (from - 1) & 1; most--)
      group |= bit_of(--from);
    size_t purged = space_purge_inside(space, slab->start + from * block_size, slab->start + to * block_size);
    if (!purged)
      break;
    slab->purged |= group;
    bytes += purged;
  }
  return bytes;
}

/* The order is that of slab_take_free(). */
size_t slab_take_fresh(run_t *slab, size_t block_size, void **blocks, size_t want)
{
  size_t got = min_size(want, slab->capacity - slab->fresh);
  char *block = slab->start + (size_t)slab->fresh * block_size;
  slab->fresh += (uint32_t)got;
  for (size_t i = 0; i < got; i++, block += block_size)
    blocks[want - 1 - i] = block;
  return got;
}
