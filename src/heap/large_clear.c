/* SPDX-License-Identifier: MIT
 * A large block is cleared by a purge where that costs fewer page faults than writing to it. */
#include "heap/large.h"
#include <string.h>

#define PURGED_LEAST ((size_t)1 << 20) /* a shorter block is written to: a purge is a system call */

/* A caller's memory is not the system's to take. What was touched or locked beforehand must not be a page fault again. */
static bool may_purge(const heap_t *heap, const char *start)
{
  bool in_region = heap->region.space.fixed && (size_t)(start - heap->region.start) < heap->region.size;
  return !in_region || heap->region.space.purgeable;
}

/* The system takes the whole pages, which read as zero at the next touch; so pages that were never touched do not become memory
 * for this. The rest is written to, and all of it if the system refuses. No gate is needed: the block stays its caller's. */
void large_wipe(const heap_t *heap, char *start, size_t size)
{
  char *from = (char *)round_up((uintptr_t)start, os_page_size()),
       *to = (char *)round_down((uintptr_t)start + size, os_page_size());
  if (!HAS_SYSTEM || from >= to || !may_purge(heap, start) || !os_purge(from, (size_t)(to - from))) {
    memset(start, 0, size);
    return;
  }
  memset(start, 0, (size_t)(from - start));
  memset(to, 0, (size_t)(start + size - to));
}

/* If at most half of the run was dirty, writing to all of it would fault in the clean half. */
void large_clear_fresh(const heap_t *heap, char *block, size_t size)
{
  const arena_t *arena = size >= PURGED_LEAST ? space_arena_at(window_slot_of(block)) : NULL;
  const run_t *run = arena ? run_of(arena, block) : NULL;
  if (run && run->start == block && run->fresh <= run->units / 2)
    large_wipe(heap, block, size);
  else
    memset(block, 0, size);
}
