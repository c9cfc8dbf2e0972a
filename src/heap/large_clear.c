/* SPDX-License-Identifier: MIT
 * A large block is cleared by purging it if that costs fewer page faults than writing zeros. */
#include "heap/large.h"
#include <string.h>

#define PURGED_LEAST ((size_t)1 << 20) /* bytes; clearing a shorter block by a system call does not pay */

/* The caller's memory must not be purged. Memory that was prefaulted or locked must not fault again. */
static bool may_purge(const heap_t *heap, const char *start)
{
  bool in_region = (size_t)(start - heap->region.start) < heap->region.size;
  return !in_region || (!heap_is_guest(heap) && !(heap->flags & HEAP_REAL_TIME));
}

/* Purges the whole pages, which read as zero at the next touch: pages that were never touched stay untouched. The rest is
 * written, or everything if the system refuses. No gate is needed, because the caller owns the block. */
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

/* If at most half of the run was dirty, writing all of it would fault in the clean half. */
void large_clear_fresh(const heap_t *heap, char *block, size_t size)
{
  const arena_t *arena = size >= PURGED_LEAST ? space_arena_at(window_slot_of(block)) : NULL;
  const run_t *run = arena ? run_of(arena, block) : NULL;
  if (run && run->start == block && run->fresh <= run->units / 2)
    large_wipe(heap, block, size);
  else
    memset(block, 0, size);
}
