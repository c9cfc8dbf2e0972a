/* SPDX-License-Identifier: MIT
 *
 * Guarded blocks end at an inaccessible page and have another in front; freed ones are inaccessible themselves. An access
 * outside ends the program at its instruction, with a line that names the block. All blocks of a guarded heap are guarded, as
 * far as mappings suffice, and otherwise checked. Other heaps have samples, if the option asks for them.
 *
 *     | no access | canary | head to tail of the block | canary, less than its alignment | no access |
 *                 ^ its pages */
#ifndef GUARD_PAGES_H
#define GUARD_PAGES_H

#include "heap/large.h"
#include "misuse.h"

extern const block_source_t guard_pages_source, sampled_source;

/* Guards the blocks of a new heap. Not for heaps with a region: a budget may allow nothing beside it. */
void guard_pages_begin(heap_t *heap);

/* Opens what stacks need, at the first call that allocates guarded blocks. No lock is held. */
void guard_pages_load_if_wanted(void);

/* Describes the live or freed block at an address. Returns false if no guarded block is or was there. */
typedef struct guard_pages_look {
  char *block;
  size_t size;
  const heap_t *heap; /* NULL: it was destroyed */
  bool freed;
  frames_told_t allocated_by, freed_by;
} guard_pages_look_t;
bool guard_pages_look(const void *address, guard_pages_look_t *look);

/* Ends the program if the address is in such a block, which is not live. */
void guard_pages_explain_dead(const void *block, const char *call, const char *if_freed, const heap_t *given_to);

typedef void guard_pages_visit_fn(uintptr_t start, size_t size, void *context);
void guard_pages_visit_notes(guard_pages_visit_fn *visit, void *context);

/* ---- samples ---- */

/* Returns whether a request that fetches `blocks` (1 or more) blocks becomes a sample: if one is drawn. Needs guard_sample. */
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

/* Returns how many blocks of a class a thread fetches when it has none. */
static inline uint32_t sample_blocks(const heap_t *heap, unsigned size_class)
{
  const bin_t *bin = size_class ? published_bin(heap, size_class) : NULL;
  return bin && bin_has_magazines(bin) ? __atomic_load_n(&bin->magazine_capacity, __ATOMIC_RELAXED) : 1;
}

/* The child of a fork draws anew: otherwise all children of a process would have the same samples. */
static inline void sample_forget(void)
{
  if (thread_self->sample_left)
    thread_self->sample_left = 0;
}

/* Returns NULL if there are enough samples, or no memory for one. */
void *sample_take(heap_t *heap, request_t *r);

#endif
