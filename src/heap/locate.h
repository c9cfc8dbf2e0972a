/* SPDX-License-Identifier: MIT
 * Questions: what is at an address, which blocks are live, and the figures of a heap. */
#ifndef HEAP_LOCATE_H
#define HEAP_LOCATE_H

#include "bin/bin.h"
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include <tidepool/heap.h>
#include <tidepool/stats.h>

/* ---- addresses ----
 *
 * Answers what an address is: whose block, if any, and whether it is with its caller. */

/* A block of any heap. `heap` NULL: the address is not the manager's. */
typedef struct located {
  heap_t *heap;
  bin_t *bin; /* of a slab's block */
  run_t *run; /* of a slab's block, or a large one */
  huge_t *huge;
  char *start;      /* the block, free or not, with its head if it has one; NULL: none */
  size_t size;      /* its usable bytes, or those that hold it and its head */
  bool live;        /* with the caller; false for a block free in its slab */
  head_look_t head; /* of a heap with heads */
} located_t;

static inline bool located_has_head(const located_t *at) { return at->head.state != HEAD_NONE; }

/* The block as its caller knows it, and its usable bytes. */
static inline char *located_block(const located_t *at) { return located_has_head(at) ? at->head.block : at->start; }
static inline size_t located_size(const located_t *at) { return located_has_head(at) ? at->head.size : at->size; }

static inline bool located_is_standalone(const located_t *at) { return at->huge && at->huge->is_standalone; }

/* A block cut from granules has neither slab nor run nor mapping. */
static inline bool located_in_granules(const located_t *at) { return !at->run && !at->huge && at->heap; }

/* Answers for any address at all. A block with a head is described without it. */
located_t heap_locate(const void *address);

/* Sets a bit for each block of the slab [start, end) that is in a magazine of a lost thread. */
void heap_mark_lost(const bin_t *bin, const char *start, const char *end, word_t *lost);

/* Returns the live block that starts at `block`, or ends the program; `if_freed` is the message for a freed one. The block must
 * be of `heap`, unless that is NULL, or of one that it overflows to. */
located_t heap_locate_block(const heap_t *heap, const void *block, const char *call, const char *if_freed);

/* Returns whether a block of `size_class`, the class map's answer for `block`, starts there, belongs to this heap and is not
 * free in its slab. Takes no lock of the space. False proves nothing: heap_locate_block() knows. */
bool heap_has_cached_block(heap_t *heap, size_t size_class, const void *block);

/* heap_locate() for the memory of a checked heap's block that was freed. */
located_t heap_locate_returned(const char *start);

/* Verifies the head, or calls the source's verify, of the live block around an address while the block cannot move. */
void heap_verify_around(const char *address, bool alone, const char *call);

/* Register a caller's memory in which a heap lives. */
void guests_enter(heap_t *heap);
void guests_leave(heap_t *heap);
extern lock_t guests_lock;

/* ---- walks ----
 *
 * Walks over every live block of a heap. */

typedef enum walk_mode {
  WALK_ALONE,  /* flushes all caches first: no other thread may be in a call with the heap */
  WALK_BESIDE, /* flushes nothing: no thread may cache blocks of the heap, but others may be using it */
  WALK_MEMORY  /* WALK_BESIDE that passes the memory of each block, with its head, even if the head is invalid */
} walk_mode_t;

typedef struct walked {
  pool_block_t block;
  site_t site;      /* 0: not known */
  uintptr_t number; /* distinguishes uses of the block's memory; 0: not known */
  bool has_pages;   /* the block is a run or a mapping of the manager */
} walked_t;
typedef bool heap_visit_fn(const walked_t *walked, void *context);

/* Calls `visit` with each live block until it returns false. Returns false if it did. */
bool heap_walk(heap_t *heap, walk_mode_t mode, heap_visit_fn *visit, void *context);

/* ---- figures ----
 *
 * Adds up the figures of the lower layers for a heap. They are approximate while other threads are at work. */

/* pool_heap_stats(). Changes nothing. The caller holds heaps_lock for the default heap. `beside`: for a question about all
 * heaps, under heaps_lock. The figures are then approximate if the owner of a single-threaded heap is at work, and the largest
 * request of a small heap is the longest free piece between its blocks, kept ones included. */
void heap_figures(heap_t *heap, bool beside, pool_stats_t *stats);

/* pool_heap_largest(): gives kept and quarantined blocks back first. */
size_t heap_largest(heap_t *heap);

bin_figures_t heap_bin_figures(bin_t *bin);

/* Figures of large blocks and of granules. Spares are held but not live; quarantined blocks are cached. */
typedef struct large_figures {
  size_t live_blocks, live_bytes, held_bytes, cached_bytes;
} large_figures_t;
large_figures_t heap_large_figures(heap_t *heap);

/* Returns what the process holds for no heap. The default heap's figures include it. */
size_t heap_of_nobody_bytes(void);

#endif
