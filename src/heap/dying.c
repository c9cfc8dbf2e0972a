/* SPDX-License-Identifier: MIT
 * Nothing here takes a lock of the manager or follows its lists: the thread may have been changing any of them. */
#include "heap/dying.h"
#include "size_class.h"
#include "space/space.h"
#include <errno.h>

THREAD_LOCAL bool heap_is_dying;

/* The last blocks that were allocated here, with their sizes: realloc() must know how much to copy. */
enum { DYING_BLOCKS = 256 };
static struct {
  const void *block;
  size_t size;
} dying_blocks[DYING_BLOCKS];
static unsigned dying_count;

/* Maps whole pages, because this thread may hold any lock of the manager. A size that cannot be rounded is refused. */
void *dying_allocate(size_t size, size_t alignment)
{
  size_t bytes = size <= PTRDIFF_MAX ? round_up(size + !size, os_page_size()) : 0;
  void *block = bytes ? os_map(bytes, max_size(alignment, os_page_size())) : NULL;
  if (!block)
    errno = ENOMEM;
  unsigned i = dying_count++ % DYING_BLOCKS;
  dying_blocks[i].block = block;
  dying_blocks[i].size = bytes;
  return block;
}

/* Reads the class map, or the descriptor of a run, without locks. Returns 0 if the size is not known. */
size_t dying_usable_size(const void *block)
{
  const arena_t *arena = space_arena_at(window_slot_of(block));
  size_t c = class_map_of(block);
  for (unsigned i = 0; i < DYING_BLOCKS; i++)
    if (dying_blocks[i].block == block)
      return dying_blocks[i].size;
  if (c || !arena || arena->space != &space_of_process || unit_of(arena, block) >= arena_used_end(arena))
    return size_class_size(c);
  const run_t *run = run_of(arena, block);
  return run_kind(run) == RUN_LARGE && run->start == block ? run->size : 0;
}
