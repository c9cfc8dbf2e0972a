/* SPDX-License-Identifier: MIT */
#include "huge.h"
#include "metadata.h"

lock_t huge_lock;
static huge_t *live, *unused;
static uintptr_t window_next = (uintptr_t)8 * GIB;   /* where the next one is tried in a windowed process */

size_t huge_bytes(size_t size) { return round_up(size, os_page_size()); }

static void *reserve_in_window(size_t size, size_t alignment)
{
  uintptr_t end = (uintptr_t)1 << WINDOW_ADDRESS_LOG2;
  for (int tries = 0; tries < 256; tries++) {
    uintptr_t at = round_up(window_next, alignment);
    if (at + size > end) {
      window_next = 8 * GIB;
      continue;
    }
    window_next = round_up(at + size, UNIT);
    void *p = os_reserve_at((void *)at, size);
    if (p)
      return p;
  }
  return NULL;
}

static void *reserve(size_t size, size_t alignment)
{
  alignment = max_size(alignment, UNIT);
  return class_map_windowed ? reserve_in_window(size, alignment) : os_reserve(size, alignment);
}

static huge_t *record_take(void)
{
  huge_t *huge = unused;
  if (!huge)
    return metadata_take(sizeof *huge, sizeof(void *));
  unused = huge->next;
  return huge;
}

static void record_give(huge_t *huge)
{
  huge->next = unused;
  unused = huge;
}

huge_t *huge_take(size_t size, size_t alignment, void *owner)
{
  size = huge_bytes(size);
  lock_acquire(&huge_lock);
  huge_t *huge = record_take();
  char *start = huge ? reserve(size, alignment) : NULL;
  if (start && !os_commit(start, size)) {
    os_release(start, size);
    start = NULL;
  }
  if (start) {
    *huge = (huge_t){live, start, size, owner};
    live = huge;
  } else if (huge) {
    record_give(huge);
    huge = NULL;
  }
  lock_release(&huge_lock);
  if (huge && space_of_process.huge_pages != HUGE_PAGES_NEVER)
    os_wish_huge_pages(start, size, true);
  return huge;
}

/* Where the system has no room for one more mapping, the memory goes back at least. */
static void release(void *start, size_t size)
{
  if (!os_release(start, size))
    os_purge(start, size);
}

void huge_give(huge_t *huge)
{
  lock_acquire(&huge_lock);
  huge_t **at = &live;
  while (*at != huge)
    at = &(*at)->next;
  *at = huge->next;
  char *start = huge->start;
  size_t size = huge->size;
  record_give(huge);
  lock_release(&huge_lock);
  release(start, size);
}

static bool grow_in_place(huge_t *huge, size_t size)
{
  char *end = huge->start + huge->size;
  size_t more = size - huge->size;
  if (class_map_windowed || !os_reserve_at(end, more))
    return false;
  if (os_commit(end, more))
    return true;
  os_release(end, more);
  return false;
}

static bool move(huge_t *huge, size_t size)
{
  char *to = reserve(size, UNIT);
  if (!to)
    return false;
  if (!os_commit(to, size) || !os_move_pages(huge->start, to, huge->size)) {
    os_release(to, size);
    return false;
  }
  release(huge->start, huge->size);
  huge->start = to;
  return true;
}

bool huge_resize(huge_t *huge, size_t size, bool may_move)
{
  size = huge_bytes(size);
  lock_acquire(&huge_lock);
  bool done = true;
  if (size < huge->size)
    release(huge->start + size, huge->size - size);
  else if (size > huge->size)
    done = grow_in_place(huge, size) || (may_move && move(huge, size));
  if (done)
    huge->size = size;
  lock_release(&huge_lock);
  return done;
}

huge_t *huge_find(const void *address)
{
  lock_acquire(&huge_lock);
  huge_t *huge = live;
  while (huge && (size_t)((const char *)address - huge->start) >= huge->size)
    huge = huge->next;
  lock_release(&huge_lock);
  return huge;
}

huge_t *huge_next(const void *owner, const huge_t *previous)
{
  lock_acquire(&huge_lock);
  huge_t *huge = previous ? previous->next : live;
  while (huge && huge->owner != owner)
    huge = huge->next;
  lock_release(&huge_lock);
  return huge;
}
