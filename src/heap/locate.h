/* SPDX-License-Identifier: MIT
 *
 * What an address is: whose block, if any, and whether it is with its caller. */
#ifndef LOCATE_H
#define LOCATE_H

#include "heap/heads.h"
#include "heap/heap.h"

/* What a block is, of whatever heap. `heap` NULL: it is none of the manager's. */
typedef struct located {
  heap_t *heap;
  bin_t *bin; /* of a slab's block */
  run_t *run; /* of a slab's block, or a large one */
  huge_t *huge;
  char *start;      /* the block, free or not, with its head in a checked heap; NULL: none */
  size_t size;      /* its usable bytes, or those that hold it and its head */
  bool live;        /* with the caller; false for a block free in its slab */
  head_look_t head; /* what that says in a checked heap */
} located_t;

/* The block as its caller knows it, and what may be used of it. */
static inline char *located_block(const located_t *at) { return at->head.state ? at->head.block : at->start; }
static inline size_t located_size(const located_t *at) { return at->head.state ? at->head.size : at->size; }

/* It shares its memory with no other, and is its source's. */
static inline bool located_is_apart(const located_t *at) { return HAS_SYSTEM && at->huge && at->huge->is_apart; }

/* It was cut from granules: it is neither of a slab nor a run nor a mapping. */
static inline bool located_in_granules(const located_t *at) { return !HAS_SYSTEM || (!at->run && !at->huge && at->heap); }

/* Says what is at any address at all; of a checked heap's block without its guard. */
located_t heap_locate(const void *address);

/* Sets a bit for each block of the slab [start, end) that is in a magazine which a fork has lost. */
void heap_mark_lost(const bin_t *bin, const char *start, const char *end, word_t *lost);

/* Returns the live block that starts at `block`, or ends the program: `if_freed` is what is said of one that was freed. With a
 * heap it must be a block of it, or of one that it overflows to. */
located_t heap_locate_block(const heap_t *heap, const void *block, const char *call, const char *if_freed);

/* Says whether a block of the class that the map has for `block` starts there, is of this heap and is not free in its slab. The
 * lock of its space is not taken. False says nothing: heap_locate_block() knows. */
bool heap_has_cached_block(heap_t *heap, size_t size_class, const void *block);

/* The same of what holds a checked heap's block that came back. */
located_t heap_locate_returned(const char *start);

/* Has the head, or the source, of the live block around an address verified, while the block stays where it is. */
void heap_verify_around(const char *address, bool alone, const char *call);

/* Memory of a caller in which a heap lives. */
void guests_enter(heap_t *heap);
void guests_leave(heap_t *heap);
extern lock_t guests_lock;

#endif
