/* SPDX-License-Identifier: MIT
 * What a heap gives up for a request that it could not serve. */
#include "heap/blocks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/tick.h"
#include "os/tool.h"
#include "space/budget.h"

enum {
  BORROW_FACTOR = 4 /* an exhausted class borrows blocks of up to this many times its size */
};

/* Tries again after something was given back. The freed memory may lie just behind a block that grows. It may also be enough to
 * move the block's pages, where a second block beside it would still not fit. */
static void *take_again(heap_t *heap, request_t *r)
{
  if (r->from && heap_resize(r->from, r->size, true, r->by)) {
    r->grown = true;
    return r->from->huge ? huge_start(r->from->huge) : r->from->start;
  }
  return heap_take(heap, r);
}

/* Returns how many bytes the request still needs. A mapping that grows has some of them already. */
static size_t bytes_lacking(const request_t *r)
{
  size_t has = r->from && r->from->huge ? r->from->size : 0;
  return r->size > has ? r->size - has : 0;
}

/* Returns how much budget the request needs at least: whole units, unless it is for a mapping or a standalone block. */
static size_t least_charge(const heap_t *heap, const request_t *r)
{
  size_t lacking = bytes_lacking(r);
  return (heap_may_have_standalone(heap) || large_is_huge(heap, r->size, r->alignment)) ? lacking : round_up(lacking, UNIT);
}

/* Returns free units and the default heap's caches to the system. That helps only if the system refused. If the default heap
 * is an ancestor whose budget refused, its caches still help: they count against it. */
static void trim_process(heap_t *heap, const request_t *r)
{
  if (heap_is_guest(heap) || (heap_has_granules(heap) && !granular_may_leave(heap)))
    return;
  const budget_t *full = budget_that_refuses(&heap->budget, least_charge(heap, r));
  if (full && full != &default_heap.budget)
    return;
  if (!heap_is_default(heap))
    heap_drain(&default_heap, r->by.call, false);
  if (full)
    return;
  huge_unmap_left();
  space_purge(&space_of_process, 0);
}

/* Returns a number that changes whenever memory comes back that could serve a request, except for free blocks of its class. */
static uint64_t memory_changes(const heap_t *heap)
{
  return heap->space ? space_changes(heap->space) + space_changes(&space_of_process) + huge_purged_bytes() : 0;
}

/* Returns whether another try may succeed now. Heaps without slabs or with a quarantine have other sources, so they always try
 * again. A process at its limit asks very often, and each failing try is a system call. */
static bool may_succeed_now(heap_t *heap, const request_t *r, uint64_t before)
{
  if (!heap->space || heap_is_headed(heap) || heap_has_granules(heap) || heap_may_have_standalone(heap) ||
      memory_changes(heap) != before)
    return true;
  unsigned c = heap_class_for(heap, r->size, r->alignment);
  bin_t *bin = c ? published_bin(heap, c) : NULL;
  return bin && bin_has_free(bin);
}

/* Returns whether no mapping of that size is possible, whatever is given back for it. */
static bool is_hopeless(const heap_t *heap, const request_t *r)
{
  return !heap->region.kind && huge_is_hopeless(bytes_lacking(r));
}

/* Granules have given up what they keep at the first try. Draining may still help if the heap has slabs in the process's space,
 * now or from a time when its budget was higher, or keeps back freed blocks because it is checked. */
static bool may_drain(const heap_t *heap)
{
  return !heap_has_granules(heap) || heap_is_checked(heap) || heap->bins_end || granular_may_leave(heap);
}

/* Tries existing memory: the heap's caches and idle memory, the process's, and last a larger block, partly wasted. */
static void *take_own(heap_t *heap, request_t *r)
{
  /* Draining for a hopeless request would cost every thread its magazines for nothing. */
  if (is_hopeless(heap, r) || !may_drain(heap))
    return NULL;
  uint64_t changes = memory_changes(heap);
  heap_drain(heap, r->by.call, false);
  void *block = may_succeed_now(heap, r, changes) ? take_again(heap, r) : NULL;
  if (!block) {
    changes = memory_changes(heap);
    trim_process(heap, r);
    block = may_succeed_now(heap, r, changes) ? take_again(heap, r) : NULL;
  }
  if (block)
    return block;
  unsigned c = heap->space ? heap_class_for(heap, size_with_head(heap, r), r->alignment) : 0;
  block = c ? heap_borrow(heap, c + 1, heap_block_size(heap, c) * BORROW_FACTOR, r) : NULL;
  if (block || !refusals_have_answered())
    return block;
  refusals_forget(); /* the program may have unmapped memory of its own */
  return take_again(heap, r);
}

void *heap_take_at(const attempt_t *from, request_t *r)
{
  KEEPS_FRAME();
  void *block = take_again(from->heap, r);
  return block ? block : take_own(from->heap, r);
}

/* This is a loop, not a recursion, because a chain of overflows may be long and the stack short. */
COLD void *heap_take_hard(heap_t *heap, request_t *r)
{
  attempt_t from = heap_first_attempt(heap, r->by);
  void *block = take_own(heap, r);
  while (!block && heap_next_attempt(&from, r->size, true))
    block = heap_take_at(&from, r);
  if (block && !r->grown)
    heap_count_overflowed(&from);
  return block;
}
