/* SPDX-License-Identifier: MIT
 *
 * Blocks apart. Where all blocks of a heap are apart, every request is served by a source of its own, whatever its size: each
 * block is a record in the tree of mappings, and shares its memory with no other block. So figures, budgets, walks, questions,
 * reset and destroy know it as they know a huge block. Where the memory is from is the source's to say. A request that it does
 * not serve goes on to bins and runs like any other.
 *
 * Such a heap has no magazines: each call must come by. */
#ifndef APART_H
#define APART_H

#include "heap/heap.h"
#include "os/os.h"

typedef struct apart_source {
  /* Fills in huge.range, offset and asked of a record. The block lies in the range, also one of 0 bytes, and the range holds no
   * more than bytes() said. *zeroed: it reads as zero. False: it has no memory for it. */
  bool (*take)(huge_apart_t *apart, const heap_t *heap, size_t size, size_t alignment, bool *zeroed);

  /* What a block of this size takes of its heap's budget: at least 1. It may overflow for no size that take() serves. */
  size_t (*bytes)(size_t size, size_t alignment);

  /* The largest size that takes no more than so many bytes. */
  size_t (*largest)(size_t bytes);

  /* Takes back what take() gave. The record has left the tree: no question finds it. `call` is what a misuse that is found here
   * is put down to. */
  void (*give)(const huge_apart_t *apart, const char *call);

  /* The block is to have so many bytes from now on, fewer than it has and more than none; what it holds does not change. NULL:
   * there is nothing to do. */
  void (*shorten)(const huge_apart_t *apart, size_t size, const char *call);

  /* Ends the program if the block was written to outside; under huge_lock. NULL: nothing can be said of it. */
  void (*verify)(const huge_apart_t *apart, const char *call);

  /* Stores the stack that a record has while it is taken or given, from `from` on. Called with no lock held: it may wait for
   * the loader. NULL: it has none. */
  void (*take_stack)(const void *from, os_stack_t *stack);

  /* Its blocks stand for others of their class: they are as large, and change their size as those do. */
  bool as_class;

  /* Whether the heap refuses such a request if take() does: a bin for it would take a record of the budget, and then find no
   * slab. NULL: it never does. */
  bool (*serves)(size_t size, size_t alignment);
} apart_source_t;

/* Says whether a block apart behaves as any block of its class. */
static inline bool apart_is_as_its_class(const huge_t *huge) { return apart_of(huge)->source->as_class; }

/* From now on, and before its first block, the heap's blocks are apart. Not for a guest. */
void apart_begin(heap_t *heap, const apart_source_t *source);

/* NULL: no memory, or more than the budget has. Returns a block of a heap whose blocks are apart, or, of a source that is
 * given, one of any heap but a guest. */
void *apart_take(heap_t *heap, const apart_source_t *source, size_t size, size_t alignment, const char *call,
                 block_past_t *past);

/* False: it is no live block apart, since another thread gave it back. */
bool apart_give(heap_t *heap, const apart_source_t *source, const void *block, const char *call);

/* The caller's block becomes shorter where it is. */
void apart_shorten(heap_t *heap, huge_t *huge, size_t size, const char *call);

/* Gives back all of the heap, which nobody uses any more. */
void apart_give_all(heap_t *heap, const char *call);

#endif
