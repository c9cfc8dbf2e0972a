/* SPDX-License-Identifier: MIT
 * Blocks are taken through the bitmap word by word, from the lowest, so blocks that are handed out together are adjacent. */
#include "base/fill.h"
#include "bin/bin.h"
#include <string.h>

void slab_init(run_t *slab, arena_t *arena, void *owner, unsigned size_class, size_t block_size)
{
  size_t capacity = run_bytes(slab) / block_size;
  slab->size_class = (uint8_t)size_class;
  slab->capacity = (uint32_t)capacity;
  slab->free_count = slab->fresh = slab->settled = 0;
  slab->purged = 0;
  if (capacity <= SHORT_BITMAP_WORDS * WORD_BITS) {
    slab->bitmap = slab->short_bitmap;
    memset(slab->short_bitmap, 0, sizeof slab->short_bitmap); /* a constant size needs no call */
  } else {
    slab->bitmap = arena_long_bitmap(arena, (size_t)(slab - arena->runs));
    if (!arena_is_in_window(arena))
      shared_clear(slab->bitmap, round_up(capacity, WORD_BITS) / 8);
  }
  run_become(slab, RUN_SLAB, owner);
}

/* Only words below the fresh mark can have bits (S1), so the rest is not cleared. */
void slab_empty(run_t *slab)
{
  size_t bytes = slab->free_count ? bits_words(slab->fresh) * sizeof(word_t) : 0;
  slab->free_count = slab->fresh = slab->settled = 0;
  __atomic_thread_fence(__ATOMIC_RELEASE); /* for ask_beside_owner() */
  shared_clear(slab->bitmap, bytes);
  slab->purged = 0;
  slab->zeroed = false;
}

/* ---- parts ---- */

size_t slab_part_bytes(const run_t *slab)
{
  size_t least = ((size_t)slab->units << UNIT_LOG2) / WORD_BITS;
  return max_size((size_t)1 << log2_floor(2 * least - 1), os_page_size());
}

/* The last part may end beyond the last block. */
static word_t free_parts(const run_t *slab, size_t block_size, uint64_t inverse)
{
  size_t part = slab_part_bytes(slab), blocks = slab->fresh, end = blocks * block_size;
  if (blocks == slab->capacity)
    end = round_up(end, part);
  word_t parts = 0;
  for (size_t i = 0, at = 0; at + part <= end; i++, at += part) {
    size_t first = at * inverse >> INVERSE_SHIFT, behind = min_size(((at + part - 1) * inverse >> INVERSE_SHIFT) + 1, blocks);
    if (bits_next_clear(slab->bitmap, first, behind) == behind)
      parts |= bit_of(i);
  }
  return parts;
}

word_t slab_idle_parts(const run_t *slab, size_t block_size, uint64_t inverse)
{
  return free_parts(slab, block_size, inverse) & ~slab->purged;
}

/* Stops at the first refusal. The highest parts are purged first, because the lowest blocks are taken first. */
size_t slab_purge(run_t *slab, space_t *space, word_t parts)
{
  size_t part = slab_part_bytes(slab), bytes = 0;
  while (parts) {
    unsigned to = highest_bit(parts) + 1, from = to;
    word_t group = 0;
    for (; from && parts >> (from - 1) & 1; parts &= ~bit_of(from))
      group |= bit_of(--from);
    if (!space_purge_inside(space, slab->start + from * part, slab->start + to * part))
      break;
    slab->purged |= group;
    bytes += (to - from) * part;
  }
  return bytes;
}

/* ---- blocks ---- */

/* Stores the lowest block last, because a magazine pops from its end. */
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
  return got;
}

void slab_note_taken(run_t *slab, size_t block_size, uint64_t inverse)
{
  slab->purged &= free_parts(slab, block_size, inverse);
}

size_t slab_put_stretch(run_t *slab, size_t block_size, uint64_t inverse, void *const *blocks, size_t count)
{
  size_t step = (size_t)((char *)blocks[1] - (char *)blocks[0]), n = 1, from;
  while (n < count && (size_t)((char *)blocks[n] - (char *)blocks[n - 1]) == step)
    n++;
  const char *lowest = blocks[step > SIZE_MAX / 2 ? count - 1 : 0];
  if (n < count || slab_ask(slab, block_size, inverse, (size_t)(lowest - slab->start), &from) != SLAB_LIVE_OR_CACHED)
    return 0;
  size_t end = from + count;
  if (end > slab->fresh || bits_next_set(slab->bitmap, from, end) != end)
    return 0;
  bits_set(slab->bitmap, from, end);
  return count;
}

size_t slab_take_fresh(run_t *slab, size_t block_size, void **blocks, size_t want)
{
  size_t got = min_size(want, slab->capacity - slab->fresh);
  char *block = slab->start + (size_t)slab->fresh * block_size;
  slab->fresh += (uint32_t)got;
  for (size_t i = 0; i < got; i++, block += block_size)
    blocks[want - 1 - i] = block;
  return got;
}

/* ---- sizes ----
 *
 * The lengths of slabs, and the sizes of magazines and stocks of a class. */

enum {
  MAGAZINE_SHARE = 16,            /* a magazine holds 1/16 of a class's blocks, divided among the threads */
  MAGAZINE_LEAST_BYTES = 8 << 10, /* a magazine holds at least this much */
  MAGAZINE_MOST_BYTES = 64 << 10, /* a magazine holds at most this much */

  STOCK_BYTES = 192 << 10,
  STOCK_LEAST = 1,
  STOCK_CAPACITY = 250, /* a thread counts its magazines of a class in a byte */
  STOCK_MOST = 32,      /* magazines in a stock, unless the class is large */
  STOCK_SHARE = 64,     /* a stock holds 1/64 of the blocks of a large class */

  SLAB_BLOCKS_LEAST = 8,
  SLAB_WASTE = 32 /* at most 1/32 of a slab is wasted, if possible */
};

uint32_t bin_threads = 1;

/* A small program keeps little in its magazines, and a busy class of a large one seldom visits its bin: random slots of up to 8
 * KiB spent a third of their instructions there with magazines of 16 KiB. Readers take no lock, so the stores are atomic.
 *
 * Example: a program with one thread opens its first slab of 1 KiB blocks, with 64 blocks. A sixteenth is 4, and 8 KiB are 8
 * blocks: the capacity is 8, and the stock has 24 magazines. A sixteenth of 1,024 blocks is 64: the capacity is the maximum,
 * 62, and the stock has 3 magazines. */
void slabs_size_magazines(bin_t *bin)
{
  size_t size = bin->block_size, threads = __atomic_load_n(&bin_threads, __ATOMIC_RELAXED);
  size_t share = bin->capacity / (MAGAZINE_SHARE * threads);
  size_t k = max_size(share, MAGAZINE_LEAST_BYTES / size);
  k = min_size(k, min_size(MAGAZINE_MOST_BYTES / size, MAGAZINE_CAPACITY_MOST));
  k = max_size(k, MAGAZINE_LEAST);
  size_t stock = max_size(min_size(STOCK_BYTES / (k * size), STOCK_MOST), bin->capacity / (STOCK_SHARE * k));
  __atomic_store_n(&bin->magazine_capacity, (uint8_t)k, __ATOMIC_RELAXED);
  if (k > bin->magazine_most)
    __atomic_store_n(&bin->magazine_most, (uint8_t)k, __ATOMIC_RELAXED);
  __atomic_store_n(&bin->stock_most, (uint8_t)min_size(max_size(stock, STOCK_LEAST), STOCK_CAPACITY), __ATOMIC_RELAXED);
}

size_t slabs_least_bytes(size_t block_size) { return SLAB_BLOCKS_LEAST * block_size; }

/* The end of a slab that is too short for a block counts against a budget (`tight`). So the slab grows until at most 1/32 of it
 * is wasted. If no length up to about three times the minimum does that, it gets the one with the lowest share of waste. */
size_t slabs_bytes_for(size_t block_size, bool tight)
{
  size_t units = units_for(slabs_least_bytes(block_size)), best = units << UNIT_LOG2;
  for (size_t u = units; tight && u <= 3 * units + 2 && best % block_size > best / SLAB_WASTE; u++) {
    size_t bytes = u << UNIT_LOG2;
    best = bytes % block_size * best < best % block_size * bytes ? bytes : best;
  }
  return best;
}
