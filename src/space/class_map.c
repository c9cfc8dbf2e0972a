/* SPDX-License-Identifier: MIT
 * The window is chosen at the start; its slots are opened, and mapped in the class map, one after the other. */
#include "space/class_map.h"
#include "os/os.h"

/* A start writes other variables in .data, too. With this one in .bss it would touch one page more. */
__attribute__((section(".data"))) window_t class_window;

/* The window begins with the map, followed by the metadata and the slots. */
static char *window_base;
static size_t slots_most;

enum { MAP_SLOTS = 1 };
_Static_assert(2 * (size_t)MAP_PLANE <= MAP_SLOTS * SLOT && OS_WINDOW_ALIGNMENT % SLOT == 0, "room for both planes");

static size_t map_bytes(size_t slots) { return round_up(slots << (SLOT_LOG2 - UNIT_LOG2), os_page_size()); }

/* How far each plane is mapped, in slots. The default plane is ahead if there was no memory for the other. Figures read them
 * without a lock. */
static size_t default_slots, heap_slots;

/* Each plane records how far it is mapped, so that the next attempt continues there: os_map_at() maps no address twice. */
static bool map_plane(char *plane, size_t *slots, size_t end)
{
  size_t from = map_bytes(*slots), to = map_bytes(max_size(end, *slots));
  bool mapped = to == from || os_map_at(plane + from, to - from) == OS_MAPPED;
  if (mapped)
    __atomic_store_n(slots, max_size(end, *slots), __ATOMIC_RELAXED);
  return mapped;
}

/* The default plane comes first, which unmap_planes() relies on. */
static bool map_planes(char *base, size_t end)
{
  return map_plane(base + MAP_PLANE, &default_slots, end) && map_plane(base, &heap_slots, end);
}

/* Unmaps the planes of a failed attempt: only the default plane, because the attempt succeeds once both are mapped. */
static void unmap_planes(char *base)
{
  if (default_slots)
    os_unmap(base + MAP_PLANE, map_bytes(default_slots));
  default_slots = 0;
}

/* The window is the first stretch in which the map of one slot fits. Other mappings may be in the way of some. */
bool window_init(void)
{
  size_t size;
  char *base;
  if (window_base)
    return true;
  for (unsigned attempt = 0; (base = os_window(attempt, &size)) != NULL; attempt++) {
    size_t slots = size >> SLOT_LOG2;
    if (slots <= MAP_SLOTS + METADATA_SLOTS)
      continue;
    if (!map_planes(base, 1)) {
      unmap_planes(base);
      continue;
    }
    slots_most = min_size(slots - MAP_SLOTS - METADATA_SLOTS, SLOTS_MOST);
    class_window.map = (uint8_t *)base + MAP_PLANE;
    class_window.start = (uintptr_t)base + (MAP_SLOTS + METADATA_SLOTS) * SLOT;
    window_base = base;
    return true;
  }
  return false;
}

size_t window_map_bytes(void)
{
  return map_bytes(__atomic_load_n(&default_slots, __ATOMIC_RELAXED)) +
         map_bytes(__atomic_load_n(&heap_slots, __ATOMIC_RELAXED));
}

size_t window_slots_most(void) { return slots_most; }

char *window_metadata(size_t *size)
{
  *size = METADATA_SLOTS * SLOT;
  return window_base ? window_base + MAP_SLOTS * SLOT : NULL;
}

/* The extent is stored last, with release, so a thread that reads it finds the map up to there. */
bool window_open(size_t end)
{
  size_t open = window_slots_open();
  if (end <= open)
    return true;
  if (end > slots_most || !map_planes(window_base, end))
    return false;
  __atomic_store_n(&class_window.extent, end << (SLOT_LOG2 - ALIGNMENT_LOG2), __ATOMIC_RELEASE);
  return true;
}

/* Relaxed order is enough: the hand-over of a block's pointer to the freeing thread also publishes the byte. */
void class_map_set(const void *start, size_t units, bool of_default, unsigned size_class)
{
  uint8_t *byte = class_window.map + ((uintptr_t)start - class_window.start) / UNIT - (of_default ? 0 : MAP_PLANE);
  for (size_t i = 0; i < units; i++)
    __atomic_store_n(&byte[i], (uint8_t)size_class, __ATOMIC_RELAXED);
}
