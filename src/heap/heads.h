/* SPDX-License-Identifier: MIT
 *
 * The memory that serves a request of a checked heap, or of one that records sites, holds more than the block:
 *
 *     | head | canary | requested bytes | canary |
 *     ^ start         ^ the block, as its caller knows it
 *
 * Only debug/head.c knows the layout of a head and verifies it. The debug library and firmware contain it. libtidepool does
 * not: `heads` is NULL there, and no heap has heads. */
#ifndef HEADS_H
#define HEADS_H

#include "base/bits.h"

enum {
  HEAD_FRONT = 64,                      /* bytes in front of the block, at least: they keep the alignment of a cache line */
  HEAD_BEHIND = 32,                     /* bytes behind the block */
  HEAD_BYTES = HEAD_FRONT + HEAD_BEHIND /* added to a request with an alignment of up to HEAD_FRONT */
};

/* Returns the bytes that hold a block for a request. A size too large for any heap stays too large. Memory that begins at a
 * multiple of the alignment has an aligned block. */
static inline size_t headed_size(size_t size, size_t alignment)
{
  size_t more = max_size(HEAD_FRONT, alignment) + HEAD_BEHIND;
  return size < SIZE_MAX - more ? size + more : SIZE_MAX;
}

/* The number of a place in the program that allocates or frees (debug/sites.h). 0: not known. */
typedef uint32_t site_t;

/* The kind of call that allocated a block decides which calls may free it. */
typedef enum block_kind { KIND_ANY, KIND_MALLOC, KIND_NEW, KIND_NEW_ARRAY } block_kind_t;
enum { KIND_BITS = 2 };

typedef enum head_state {
  HEAD_NONE, /* no credible head was found */
  HEAD_LIVE,
  HEAD_FREED
} head_state_t;

typedef struct head_look {
  head_state_t state;
  block_kind_t kind;
  char *block; /* as its caller knew it; NULL: not known, with HEAD_NONE or in granules that were freed */
  size_t size; /* requested bytes */
  site_t allocated, freed;
  uintptr_t number; /* distinguishes uses of the memory, if there is a head */
} head_look_t;

/* Blocks and bytes that a checked heap withholds from reuse for a while after they were freed. Bins count theirs, too. */
typedef struct withheld_figures {
  size_t blocks, bytes;
} withheld_figures_t;

/* A heap begins, has begun, is reset, has been reset, and ends in a caller's memory, of which a tool is told (os/tool.h). */
typedef enum guest_step { GUEST_BEGINS, GUEST_HAS_BEGUN, GUEST_IS_RESET, GUEST_WAS_RESET, GUEST_ENDS } guest_step_t;

struct pool_heap;
struct located;
struct origin;
struct request;

typedef struct heads {
  /* Turns the memory taken for a request into the caller's block. */
  void *(*open)(void *start, struct request *r);

  /* Frees a block, or shortens it in place. */
  void (*give)(const struct located *at, struct origin by);
  void (*shorten)(const struct located *at, size_t size, const char *call);

  /* Reads the head in `usable` bytes of memory. Another thread may be writing the head. */
  head_look_t (*look)(const char *start, size_t usable);

  /* Ends the program if memory outside the live block was overwritten. `alone`: only then a missing head counts as lost. */
  void (*verify)(const struct pool_heap *heap, char *start, size_t usable, const char *call, bool alone);

  /* Ends the program because the head of the block was overwritten. */
  void (*damaged)(const struct located *at, const char *block, const char *call);

  /* The next message names these sites. */
  void (*say_sites)(site_t allocated, site_t freed);

  /* Counts, or releases all, withheld blocks of a checked heap. The heap is not locked. */
  withheld_figures_t (*withheld)(struct pool_heap *heap);
  void (*release_withheld)(struct pool_heap *heap, const char *call);

  /* Ends the program if a withheld block was overwritten. Returns their bytes. */
  size_t (*verify_withheld)(struct pool_heap *heap, const char *call);

  /* Verifies all blocks of a checked heap, live and withheld ones. end_all() is called when all blocks of the heap end. */
  void (*verify_all)(struct pool_heap *heap, bool alone, const char *call);
  void (*end_all)(struct pool_heap *heap, bool alone, const char *call);

  /* Tells a tool that blocks begin and end in the caller's memory. Such a heap is checked. */
  void (*mark_guest)(struct pool_heap *heap, guest_step_t step);
} heads_t;

extern const heads_t *const heads;

#endif
