/* SPDX-License-Identifier: MIT */
#include "class_map.h"
#include "os/os.h"

static uint8_t stub[64];   /* class_map_of(NULL) before initialisation */
uint8_t *class_map = stub;
bool class_map_windowed;

static bool reserve_whole(void)
{
  uint8_t *planes = os_reserve_zeroes((size_t)MAP_PLANE * 2);
  if (!planes)
    return false;
  class_map = planes + MAP_PLANE;
  return true;
}

/* Two small pieces of address space at the distance of two planes. */
static bool reserve_window(void)
{
  size_t size = (size_t)1 << WINDOW_LOG2;
  for (uintptr_t at = (uintptr_t)1 << WINDOW_ADDRESS_LOG2; at < (uintptr_t)1 << (ADDRESS_LOG2 - 1); at += 4 * GIB) {
    uint8_t *front = os_reserve_at((void *)at, size);
    uint8_t *heap = front ? os_reserve_at(front - MAP_PLANE, size) : NULL;
    if (heap && os_commit(front, size) && os_commit(heap, size)) {
      class_map = front;
      return class_map_windowed = true;
    }
    if (front)
      os_release(front, size);
    if (heap)
      os_release(heap, size);
  }
  return false;
}

/* A process that may have little address space gets the window at once, though the map itself might still fit. */
bool class_map_init(void)
{
  return class_map != stub || (os_address_space_limit() > 64 * GIB && reserve_whole()) || reserve_window();
}

bool class_map_open(const void *start, size_t size)
{
  if (class_map_windowed)
    return true;
  uintptr_t page = os_page_size();
  uint8_t *first = class_map + ((uintptr_t)start >> UNIT_LOG2);
  uint8_t *last = class_map + (((uintptr_t)start + size - 1) >> UNIT_LOG2);
  first -= (uintptr_t)first & (page - 1);
  size_t bytes = round_up((size_t)(last + 1 - first), page);
  return os_commit(first, bytes) && os_commit(first - MAP_PLANE, bytes);
}

static bool covered(const void *address)
{
  return (uintptr_t)address >> (class_map_windowed ? WINDOW_ADDRESS_LOG2 : ADDRESS_LOG2) == 0;
}

unsigned class_map_front(const void *address)
{
  return class_map != stub && covered(address) ? class_map_of(address) : 0;
}

unsigned class_map_heap(const void *address)
{
  return class_map != stub && covered(address) ? class_map_of_heap_block(address) : 0;
}

/* Relaxed: who frees a block has its pointer, and with it, through the pool's lock or the program's own hand-over, the byte. */
void class_map_set(const void *start, size_t units, bool front, unsigned size_class)
{
  uint8_t *byte = class_map + ((uintptr_t)start >> UNIT_LOG2) - (front ? 0 : MAP_PLANE);
  for (size_t i = 0; i < units; i++)
    __atomic_store_n(&byte[i], (uint8_t)size_class, __ATOMIC_RELAXED);
}
