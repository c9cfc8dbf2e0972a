/* SPDX-License-Identifier: MIT
 *
 * The cursor passes through the area from its beginning to its end, again and again. It leaves one page between two places.
 * Closed pages merge into one mapping with their neighbours: freed blocks cost only addresses. */
#include "debug/guard_area.h"
#include "size_class.h"
#include "space/huge.h"

enum {
  SHARE_OF_LIMIT = 8,   /* largest part of a limit on address space that the area takes */
  LEAST_PAGES = 64,     /* smallest area */
  LEAD_OF = 16,         /* largest part of an area */
  LEAD_PAGES = 1 << 10, /* that no block uses, at its beginning: an access far in front of the first block faults there */
  NEAR_PAGES = 1 << 12, /* largest distance at which a fault is attributed to a place */
  LEFT_AT_ONCE = 8
};

static uint32_t index_of(const guard_area_t *area, const guard_area_place_t *place)
{
  return (uint32_t)(place - area->places) + 1;
}
static guard_area_place_t *place_of_index(const guard_area_t *area, uint32_t index)
{
  return index ? &area->places[index - 1] : NULL;
}

static char *start_of_page(const guard_area_t *area, size_t page) { return area->start + page * os_page_size(); }

static bool has_access(const guard_area_place_t *place) { return place->size != 0; }

static uint32_t state_of(const guard_area_place_t *place) { return __atomic_load_n(&place->state, __ATOMIC_ACQUIRE); }
static void set_state(guard_area_place_t *place, guard_area_state_t state)
{
  __atomic_store_n(&place->state, state, __ATOMIC_RELEASE);
}

size_t guard_area_bytes(size_t size, size_t alignment)
{
  (void)alignment;
  return round_up(size + !size, os_page_size());
}

char *guard_area_pages(const guard_area_t *area, const guard_area_place_t *place) { return start_of_page(area, place->page); }
size_t guard_area_pages_bytes(const guard_area_place_t *place) { return place->pages * os_page_size(); }

/* ---- its beginning ---- */

static size_t lead_of(const guard_area_t *area) { return min_size(LEAD_PAGES, area->pages / LEAD_OF); }

static size_t table_size(const guard_area_t *area) { return round_up(area->pages * sizeof *area->place_of, os_page_size()); }

static size_t places_size(const guard_area_t *area)
{
  return round_up(((size_t)area->live_most + area->freed_most) * sizeof *area->places, os_page_size());
}

guard_area_notes_t guard_area_notes(const guard_area_t *area)
{
  if (!__atomic_load_n(&area->start, __ATOMIC_ACQUIRE))
    return (guard_area_notes_t){0};
  return (guard_area_notes_t){area->places, area->place_of, places_size(area), table_size(area)};
}

static bool map_all(guard_area_t *area, char **start)
{
  size_t page = os_page_size(), bytes = area->bytes_most;
  *start = os_reserve_share(&bytes, SHARE_OF_LIMIT, LEAST_PAGES * page);
  if (!*start)
    return false;
  os_exclude_from_dumps(*start, bytes, true);
  area->pages = bytes / page;
  area->cursor = lead_of(area);
  area->place_of = os_map(table_size(area), page);
  area->places = area->place_of ? os_map(places_size(area), page) : NULL;
  if (area->places)
    return true;
  if (area->place_of)
    os_unmap(area->place_of, table_size(area));
  os_unmap(*start, bytes);
  return false;
}

/* The mappings are made under the lock, because that happens once in the life of a process. */
bool guard_area_begin(guard_area_t *area)
{
  if (__atomic_load_n(&area->start, __ATOMIC_ACQUIRE))
    return true;
  char *start = NULL;
  lock_acquire(&huge_lock);
  bool begun = area->start || map_all(area, &start);
  if (begun && start)
    __atomic_store_n(&area->start, start, __ATOMIC_RELEASE);
  lock_release(&huge_lock);
  return begun;
}

/* ---- freed blocks ---- */

static void set_pages(guard_area_t *area, const guard_area_place_t *place, uint32_t index)
{
  for (size_t page = place->page; page < (size_t)place->page + place->pages; page++)
    __atomic_store_n(&area->place_of[page], index, __ATOMIC_RELEASE);
}

static void leave_freed(guard_area_t *area, guard_area_place_t *place)
{
  guard_area_place_t *next = place_of_index(area, place->next), *previous = place_of_index(area, place->previous);
  *(next ? &next->previous : &area->newest) = place->previous;
  *(previous ? &previous->next : &area->oldest) = place->next;
  area->freed--;
}

static void forget_place(guard_area_t *area, guard_area_place_t *place)
{
  set_state(place, GUARD_AREA_UNUSED);
  set_pages(area, place, 0);
  place->next = area->unused;
  area->unused = index_of(area, place);
}

static void enter_freed(guard_area_t *area, guard_area_place_t *place)
{
  uint32_t index = index_of(area, place);
  guard_area_place_t *newest = place_of_index(area, area->newest);
  place->next = 0;
  place->previous = area->newest;
  *(newest ? &newest->next : &area->oldest) = index;
  area->newest = index;
  if (++area->freed <= area->freed_most)
    return;
  guard_area_place_t *oldest = place_of_index(area, area->oldest);
  leave_freed(area, oldest);
  forget_place(area, oldest);
}

/* ---- allocation ---- */

/* Returns the page behind the last live place in or around [from, from + pages); 0: there is none. */
static size_t live_end(const guard_area_t *area, size_t from, size_t pages)
{
  for (size_t page = from + pages; page-- > from;) {
    const guard_area_place_t *place = place_of_index(area, area->place_of[page]);
    if (place && place->state != GUARD_AREA_FREED)
      return (size_t)place->page + place->pages;
  }
  return 0;
}

/* Forgets the freed blocks there. The range includes the pages on both sides, which must stay unused. */
static void clear_away(guard_area_t *area, size_t from, size_t pages)
{
  for (size_t page = from; page < from + pages; page++) {
    guard_area_place_t *place = place_of_index(area, area->place_of[page]);
    if (place) {
      leave_freed(area, place);
      forget_place(area, place);
    }
  }
}

static size_t aligned_page(const guard_area_t *area, size_t page, size_t alignment)
{
  uintptr_t start = (uintptr_t)start_of_page(area, page);
  return page + (round_up(start, max_size(alignment, os_page_size())) - start) / os_page_size();
}

/* Finds `pages` pages between unused ones, from the cursor on; 0: none. Each step skips a live place, or wraps, once. */
static size_t find_pages(guard_area_t *area, size_t pages, size_t alignment)
{
  bool again = false;
  for (size_t at = area->cursor;;) {
    at = aligned_page(area, at, alignment);
    if (pages + 2 > area->pages || at > area->pages - pages - 1) {
      if (again)
        return 0;
      again = true;
      at = lead_of(area);
      continue;
    }
    size_t end = live_end(area, at - 1, pages + 2);
    if (!end)
      return at;
    at = end + 1;
  }
}

static guard_area_place_t *unused_place(guard_area_t *area)
{
  guard_area_place_t *place = place_of_index(area, area->unused);
  if (place)
    area->unused = place->next;
  else if (area->used < area->live_most + area->freed_most)
    place = &area->places[area->used++];
  return place;
}

/* The block ends where its pages do, or as little before that as its alignment allows. */
static char *block_in(char *start, size_t bytes, size_t size, size_t alignment)
{
  return size ? (char *)round_down((uintptr_t)start + bytes - size, max_size(alignment, BLOCK_ALIGNMENT)) : start;
}

static guard_area_place_t *take_place(guard_area_t *area, size_t size, size_t alignment)
{
  size_t pages = guard_area_bytes(size, alignment) / os_page_size(), at = 0;
  if (area->live < area->live_most && pages < area->pages && pages < UINT32_MAX)
    at = find_pages(area, pages, alignment);
  if (!at)
    return NULL;
  clear_away(area, at - 1, pages + 2);
  guard_area_place_t *place = unused_place(area);
  if (!place)
    return NULL;
  *place = (guard_area_place_t){.page = (uint32_t)at, .pages = (uint32_t)pages, .size = size};
  place->block = block_in(start_of_page(area, at), pages * os_page_size(), size, alignment);
  set_state(place, GUARD_AREA_LIVE);
  set_pages(area, place, index_of(area, place));
  area->cursor = at + pages + 1;
  area->live++;
  return place;
}

/* ---- access ---- */

/* Inaccessible pages are excluded from dumps: a core dump would be as long as the area. */
static bool open_place(const guard_area_t *area, const guard_area_place_t *place)
{
  bool done = os_open(guard_area_pages(area, place), guard_area_pages_bytes(place));
  if (done)
    os_exclude_from_dumps(guard_area_pages(area, place), guard_area_pages_bytes(place), false);
  return done;
}

static bool close_place(const guard_area_t *area, const guard_area_place_t *place)
{
  bool done = os_close(guard_area_pages(area, place), guard_area_pages_bytes(place));
  if (done)
    os_exclude_from_dumps(guard_area_pages(area, place), guard_area_pages_bytes(place), true);
  return done;
}

static bool has_left(const guard_area_t *area) { return __atomic_load_n(&area->unclosed, __ATOMIC_RELAXED); }
static void set_left(guard_area_t *area, uint32_t first) { __atomic_store_n(&area->unclosed, first, __ATOMIC_RELAXED); }

/* The addresses are reused only after they are closed: neither accessible memory nor its addresses may serve another block. */
static bool give_place(guard_area_t *area, guard_area_place_t *place)
{
  bool closed = !has_access(place) || close_place(area, place);
  lock_acquire(&huge_lock);
  if (closed) {
    area->live--;
    set_state(place, GUARD_AREA_FREED);
    enter_freed(area, place);
  } else {
    place->next = area->unclosed;
    set_left(area, index_of(area, place));
  }
  lock_release(&huge_lock);
  return closed;
}

/* Retries a few places per call. */
static void close_left(guard_area_t *area)
{
  bool closed = true;
  for (unsigned i = 0; closed && i < LEFT_AT_ONCE; i++) {
    lock_acquire(&huge_lock);
    guard_area_place_t *place = place_of_index(area, area->unclosed);
    if (place)
      set_left(area, place->next);
    lock_release(&huge_lock);
    closed = place && give_place(area, place);
  }
}

guard_area_place_t *guard_area_take(guard_area_t *area, size_t size, size_t alignment)
{
  if (unlikely(has_left(area)))
    close_left(area);
  lock_acquire(&huge_lock);
  guard_area_place_t *place = take_place(area, size, alignment);
  lock_release(&huge_lock);
  if (!place || !has_access(place) || open_place(area, place))
    return place;
  lock_acquire(&huge_lock);
  area->live--;
  forget_place(area, place);
  lock_release(&huge_lock);
  return NULL;
}

void guard_area_give(guard_area_t *area, guard_area_place_t *place)
{
  set_state(place, GUARD_AREA_LEAVING);
  if (give_place(area, place) && unlikely(has_left(area)))
    close_left(area);
}

/* ---- questions ---- */

bool guard_area_holds(const guard_area_t *area, const void *address)
{
  const char *start = __atomic_load_n(&area->start, __ATOMIC_ACQUIRE);
  return start && (size_t)((const char *)address - start) < area->pages * os_page_size();
}

static guard_area_place_t *place_at_page(const guard_area_t *area, size_t page)
{
  uint32_t index = page < area->pages ? __atomic_load_n(&area->place_of[page], __ATOMIC_ACQUIRE) : 0;
  guard_area_place_t *place = place_of_index(area, index);
  return place && state_of(place) != GUARD_AREA_UNUSED ? place : NULL;
}

/* Chooses the lower of two places that are equally near: most accesses go past an end. */
guard_area_place_t *guard_area_place_at(const guard_area_t *area, const void *address, bool nearest)
{
  if (!guard_area_holds(area, address))
    return NULL;
  size_t page = (size_t)((const char *)address - area->start) / os_page_size();
  guard_area_place_t *place = place_at_page(area, page);
  for (size_t away = 1; nearest && !place && away <= NEAR_PAGES; away++) {
    guard_area_place_t *below = away <= page ? place_at_page(area, page - away) : NULL,
                       *above = place_at_page(area, page + away);
    bool from_above = above && (!below || start_of_page(area, page + away) - (const char *)address <
                                            (const char *)address - start_of_page(area, page - away + 1) + 1);
    place = from_above ? above : below;
  }
  return place;
}
