/* SPDX-License-Identifier: MIT
 *
 * Blocks with heads. In a heap that is checked, or that records sites, the memory that serves a request holds more than the
 * block:
 *
 *     | head | canary | requested bytes | canary |
 *     ^ start         ^ the block, as its caller knows it
 *
 * What a head looks like and what is checked is known to debug/heads.c alone. The debug library and firmware contain it.
 * libtidepool does not: `heads` is NULL there, and no heap has heads. */
#ifndef HEADS_H
#define HEADS_H

#include "base/bits.h"
#include "heap/kinds.h"

enum {
  HEAD_FRONT = 64,                      /* in front of the block, at least: the alignment of a cache line is kept */
  HEAD_BEHIND = 32,                     /* and behind it */
  HEAD_BYTES = HEAD_FRONT + HEAD_BEHIND /* more than the caller asked for, with an alignment of up to HEAD_FRONT */
};

/* Returns the size of what holds a block for a request; one that is too large for any stays so. It begins at a multiple of the
 * alignment, and so does the block then. */
static inline size_t headed_size(size_t size, size_t alignment)
{
  size_t more = max_size(HEAD_FRONT, alignment) + HEAD_BEHIND;
  return size < SIZE_MAX - more ? size + more : SIZE_MAX;
}

/* The number of a place in the program that allocates or frees (debug/sites.h); 0: it is not known. */
typedef uint32_t site_t;

/* What a head says. */
typedef enum head_state {
  HEAD_NONE, /* there is no head that can be believed */
  HEAD_LIVE,
  HEAD_FREED
} head_state_t;

typedef struct head_look {
  head_state_t state;
  block_kind_t kind;
  char *block; /* as its caller knew it; NULL: not known, with HEAD_NONE or in memory of granules that was freed */
  size_t size; /* what was asked for */
  site_t allocated, freed;
  uintptr_t number; /* tells one use of the memory from another, if there is a head */
} head_look_t;

/* How many freed blocks a checked heap keeps back for a while, and their bytes. Bins count theirs. */
typedef struct withheld_figures {
  size_t blocks, bytes;
} withheld_figures_t;

struct pool_heap;
struct located;
struct request;

typedef struct heads {
  /* Turns the memory that was taken for a request into the caller's block. */
  void *(*open)(void *start, struct request *r, const void *caller);

  /* A caller frees a block, or makes it shorter without moving it. */
  void (*give)(const struct located *at, const char *call, const void *caller);
  void (*shorten)(const struct located *at, size_t size, const char *call);

  /* Reads the head of memory of `usable` bytes. It may be called while another thread writes the head. */
  head_look_t (*look)(const char *start, size_t usable);

  /* Ends the program if the live block in this memory was written to outside. `alone`: no other thread uses the heap, so that
   * memory without a head has lost it. */
  void (*verify)(const struct pool_heap *heap, char *start, size_t usable, const char *call, bool alone);

  /* Ends the program: the head of the block was overwritten. */
  void (*damaged)(const struct located *at, const char *block, const char *call);

  /* The next message names these sites. */
  void (*say_sites)(site_t allocated, site_t freed);

  /* Freed blocks that a checked heap keeps back: how many, or all are released. The heap is not locked. */
  withheld_figures_t (*withheld)(struct pool_heap *heap);
  void (*release_withheld)(struct pool_heap *heap, const char *call);

  /* Ends the program if one of those was written to; returns their bytes. */
  size_t (*verify_withheld)(struct pool_heap *heap, const char *call);

  /* Verifies all blocks of a checked heap, live ones and those that are kept back; the second when all its blocks end. */
  void (*verify_all)(struct pool_heap *heap, bool alone, const char *call);
  void (*end_all)(struct pool_heap *heap, bool alone, const char *call);
} heads_t;

extern const heads_t *const heads;

#endif
