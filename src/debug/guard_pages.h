/* SPDX-License-Identifier: MIT
 *
 * Walled blocks: each ends at an inaccessible page, and has one in front of it; once it is freed it is inaccessible itself. An
 * access outside ends the program at the instruction that makes it, with a line that says which block it was meant for. All
 * blocks of a guarded heap are walled, as far as there are mappings for them; the others are those of a checked heap. Of other
 * heaps one of many is, where samples are wanted.
 *
 *     | no access | canary | head to tail of the block | canary, less than its alignment | no access |
 *                 ^ its pages */
#ifndef GUARD_PAGES_H
#define GUARD_PAGES_H

#include "heap/apart.h"
#include "misuse.h"

extern const apart_source_t guard_pages_source, sampled_source;

/* The heap's blocks are walled from the first on, if it is guarded, and samples of them if such are wanted. Not for a heap with
 * a region: that is its memory, and what it has beside it a budget may not have. */
void guard_pages_begin_if(heap_t *heap, bool is_guarded);

/* Opens what stacks of blocks need, at the first call that finds blocks walled. With no lock held. */
void guard_pages_load_if_wanted(void);

/* What is known of a block at an address, which may have been freed. False: the address is of no block that is, or was, walled.
 */
typedef struct guard_pages_look {
  char *block;
  size_t size;
  const heap_t *heap; /* NULL: it is gone */
  bool freed;
  frames_told_t allocated_by, freed_by;
} guard_pages_look_t;
bool guard_pages_look(const void *address, guard_pages_look_t *look);

/* Ends the program if the address is of such a block: it is not live. */
void guard_pages_explain_dead(const void *block, const char *call, const char *if_freed, const heap_t *given_to);

/* Calls `visit` with the memory in which all this is noted. */
typedef void guard_pages_visit_fn(uintptr_t start, size_t size, void *context);
void guard_pages_visit_notes(guard_pages_visit_fn *visit, void *context);

/* ---- samples ---- */

/* Says whether the request that fetches `blocks` blocks for its thread, at least 1, is to get a walled one: if any of them is
 * drawn. Only where samples are wanted. */
COLD bool sample_is_among(thread_t *thread, uint32_t blocks);
COLD bool sample_is_drawn(uint32_t blocks);
static inline bool sample_is_due(uint32_t blocks)
{
  thread_t *thread = thread_self;
  if (unlikely(!thread_is_usable(thread)))
    return sample_is_drawn(blocks);
  if (unlikely(thread->sample_left <= blocks))
    return sample_is_among(thread, blocks);
  thread->sample_left -= blocks;
  return false;
}

/* A thread fetches so many blocks of a class when it has none. */
static inline uint32_t sample_blocks(const heap_t *heap, unsigned size_class)
{
  const bin_t *bin = size_class ? published_bin(heap, size_class) : NULL;
  return bin && bin_has_magazines(bin) ? __atomic_load_n(&bin->magazine_capacity, __ATOMIC_RELAXED) : 1;
}

/* The child of a fork draws anew, or all children of a process would have the same samples. */
static inline void sample_forget(void)
{
  if (thread_self->sample_left)
    thread_self->sample_left = 0;
}

/* NULL: there are enough, or there is no memory for one. */
void *sample_take(heap_t *heap, size_t size, size_t alignment, const char *call, block_past_t *past);

#endif
