/* SPDX-License-Identifier: MIT
 * Answers what an address is: whose block, if any, and whether it is with its caller. */
#ifndef LOCATE_H
#define LOCATE_H

#include "heap/debug_hooks.h"
#include "heap/heap.h"

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

#endif
