/* SPDX-License-Identifier: MIT
 *
 * Blocks of a stressor, which say what is in them. Whoever includes this has defined must(). */
#ifndef TESTS_KEPT_H
#define TESTS_KEPT_H

#include "dice.h"
#include <string.h>
#include <tidepool/heap.h>

typedef struct kept {
  char *block;
  size_t size; /* asked for */
  uint64_t key;
  pool_heap_t *heap; /* that was asked; NULL: the default one, or not known */
} kept_t;

/* At the head of blocks that are large enough, so that they can be handed over without a word. */
typedef struct label {
  uint64_t key, size;
} label_t;

/* Every byte at both ends is filled, and between them a few of each page. */
enum { DENSE = 256, STRIDE = 4096 - 64 };

static inline size_t step_at(size_t i, size_t size)
{
  return i < DENSE || i + DENSE >= size ? 1 : STRIDE < size - DENSE - i ? STRIDE : size - DENSE - i;
}

static inline size_t head_of(size_t size) { return size >= sizeof(label_t) ? sizeof(label_t) : 0; }

static inline void fill(const kept_t *kept)
{
  label_t label = {kept->key, kept->size};
  memcpy(kept->block, &label, head_of(kept->size));
  for (size_t i = head_of(kept->size); i < kept->size; i += step_at(i, kept->size))
    kept->block[i] = (char)byte_of(kept->key, i);
}

/* The first `size` bytes are still those that were filled in. */
static inline void verify(const kept_t *kept, size_t size)
{
  label_t label = {kept->key, kept->size};
  size_t head = head_of(kept->size);
  must(memcmp(kept->block, &label, head < size ? head : size) == 0);
  for (size_t i = head; i < size; i += step_at(i, kept->size))
    must((unsigned char)kept->block[i] == byte_of(kept->key, i));
}

/* ---- walks ---- */

static inline bool count_block(const pool_block_t *block, void *context)
{
  size_t *count = context;
  ++*count;
  return block->start != NULL;
}

#endif
