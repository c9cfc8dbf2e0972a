/* SPDX-License-Identifier: MIT */
#include "arenas.h"
#include "levels.h"
#include "space/class_map.h"

struct space *const some_space = (struct space *)4096; /* nobody looks into it */

void *memory_for(size_t bytes)
{
  void *memory = os_map(round_up(bytes + 1, os_page_size()), os_page_size());
  must(memory);
  return memory;
}

void bring_up(size_t slots)
{
  window_up();
  must(window_open(slots));
}

arena_t *create(size_t slot, size_t units)
{
  arena_t *arena;
  must(arena_create(some_space, slot, units, &arena) == TAKEN);
  return arena;
}
