/* SPDX-License-Identifier: MIT */
#include "class_map.h"
#include "os/os.h"

window_t class_window;

/* Of the window, in this order; the map lies where the first slot would be without it. */
static char *window_base;
static size_t slots_most;

enum { MAP_SLOTS = 1, METADATA_SLOTS = 15 };
_Static_assert(2 * (size_t)MAP_PLANE <= MAP_SLOTS * SLOT && OS_WINDOW_ALIGNMENT % SLOT == 0, "room for both planes");

static size_t map_bytes(size_t slots) { return round_up(slots << (SLOT_LOG2 - UNIT_LOG2), os_page_size()); }

/* Both planes for the slots [from, to). */
static bool map_planes(char *base, size_t from, size_t to)
{
  char *heap = base + map_bytes(from), *front = heap + MAP_PLANE;
  size_t bytes = map_bytes(to) - map_bytes(from);
  if (!bytes)
    return true;
  if (os_map_at(front, bytes) != OS_MAPPED)
    return false;
  if (os_map_at(heap, bytes) == OS_MAPPED)
    return true;
  os_unmap(front, bytes);
  return false;
}

/* A stretch where the first piece of the map can be had. */
bool window_init(void)
{
  size_t size;
  char *base;
  if (window_base)
    return true;
  for (unsigned attempt = 0; (base = os_window(attempt, &size)) != NULL; attempt++) {
    size_t slots = size >> SLOT_LOG2;
    if (slots <= MAP_SLOTS + METADATA_SLOTS || !map_planes(base, 0, 1))
      continue;
    slots_most = min_size(slots - MAP_SLOTS - METADATA_SLOTS, SLOTS_MOST);
    class_window.map = (uint8_t *)base + MAP_PLANE;
    class_window.start = (uintptr_t)base + (MAP_SLOTS + METADATA_SLOTS) * SLOT;
    window_base = base;
    return true;
  }
  return false;
}

size_t window_slots_most(void) { return slots_most; }

char *window_metadata(size_t *size)
{
  *size = METADATA_SLOTS * SLOT;
  return window_base ? window_base + MAP_SLOTS * SLOT : NULL;
}

/* The first piece of the map has been there since window_init(). Released, so that whoever reads the extent reads the map. */
bool window_open(size_t end)
{
  size_t open = window_slots_open();
  if (end <= open)
    return true;
  if (end > slots_most || !map_planes(window_base, max_size(open, 1), end))
    return false;
  __atomic_store_n(&class_window.extent, end << (SLOT_LOG2 - ALIGNMENT_LOG2), __ATOMIC_RELEASE);
  return true;
}

/* Relaxed: who frees a block has its pointer, and with it, through the pool's lock or the program's own hand-over, the byte. */
void class_map_set(const void *start, size_t units, bool front, unsigned size_class)
{
  uint8_t *byte = class_window.map + ((uintptr_t)start - class_window.start) / UNIT - (front ? 0 : MAP_PLANE);
  for (size_t i = 0; i < units; i++)
    __atomic_store_n(&byte[i], (uint8_t)size_class, __ATOMIC_RELAXED);
}
