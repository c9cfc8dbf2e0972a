/* SPDX-License-Identifier: MIT
 *
 * The cursor passes through the area from its beginning to its end, again and again. It leaves one page between two places.
 * Closed pages merge into one mapping with their neighbours: freed blocks cost only addresses. */
#include "debug/guard_area.h"
#include "size_class.h"
#include "space/huge_range.h"

enum {
  SHARE_OF_LIMIT = 8,   /* largest part of a limit on address space that the area takes */
  LEAST_PAGES = 64,     /* smallest area */
  LEAD_OF = 16,         /* largest part of an area */
  LEAD_PAGES = 1 << 10, /* that no block uses, at its beginning: an access far in front of the first block faults there */
  NEAR_PAGES = 1 << 12, /* largest distance at which a fault is attributed to a place */
  LEFT_AT_ONCE = 8
};

static uint32_t index_of(const guard_area_t *yard, const guard_area_place_t *place)
{
  return (uint32_t)(place - yard->places) + 1;
}
static guard_area_place_t *place_of_index(const guard_area_t *yard, uint32_t index)
{
  return index ? &yard->places[index - 1] : NULL;
}

static char *start_of_page(const guard_area_t *yard, size_t page) { return yard->start + page * os_page_size(); }

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

char *guard_area_pages(const guard_area_t *yard, const guard_area_place_t *place) { return start_of_page(yard, place->page); }
size_t guard_area_pages_bytes(const guard_area_place_t *place) { return place->pages * os_page_size(); }

/* ---- its beginning ---- */

static size_t lead_of(const guard_area_t *yard) { return min_size(LEAD_PAGES, yard->pages / LEAD_OF); }

static size_t table_size(const guard_area_t *yard) { return round_up(yard->pages * sizeof *yard->place_of, os_page_size()); }

static size_t places_size(const guard_area_t *yard)
{
  return round_up(((size_t)yard->live_most + yard->freed_most) * sizeof *yard->places, os_page_size());
}

guard_area_notes_t guard_area_notes(const guard_area_t *yard)
{
  if (!__atomic_load_n(&yard->start, __ATOMIC_ACQUIRE))
    return (guard_area_notes_t){0};
  return (guard_area_notes_t){yard->places, yard->place_of, places_size(yard), table_size(yard)};
}

static bool map_all(guard_area_t *yard, char **start)
{
  size_t page = os_page_size(), bytes = yard->bytes_most;
  *start = os_reserve_share(&bytes, SHARE_OF_LIMIT, LEAST_PAGES * page);
  if (!*start)
    return false;
  os_exclude_from_dumps(*start, bytes, true);
  yard->pages = bytes / page;
  yard->cursor = lead_of(yard);
  yard->place_of = os_map(table_size(yard), page);
  yard->places = yard->place_of ? os_map(places_size(yard), page) : NULL;
  if (yard->places)
    return true;
  if (yard->place_of)
    os_unmap(yard->place_of, table_size(yard));
  os_unmap(*start, bytes);
  return false;
}

/* The mappings are made under the lock, because that happens once in the life of a process. */
bool guard_area_begin(guard_area_t *yard)
{
  if (__atomic_load_n(&yard->start, __ATOMIC_ACQUIRE))
    return true;
  char *start = NULL;
  lock_acquire(&huge_lock);
  bool begun = yard->start || map_all(yard, &start);
  if (begun && start)
    __atomic_store_n(&yard->start, start, __ATOMIC_RELEASE);
  lock_release(&huge_lock);
  return begun;
}

/* ---- freed blocks ---- */

static void set_pages(guard_area_t *yard, const guard_area_place_t *place, uint32_t index)
{
  for (size_t page = place->page; page < (size_t)place->page + place->pages; page++)
    __atomic_store_n(&yard->place_of[page], index, __ATOMIC_RELEASE);
}

static void leave_freed(guard_area_t *yard, guard_area_place_t *place)
{
  guard_area_place_t *next = place_of_index(yard, place->next), *previous = place_of_index(yard, place->previous);
  *(next ? &next->previous : &yard->newest) = place->previous;
  *(previous ? &previous->next : &yard->oldest) = place->next;
  yard->freed--;
}

static void forget_place(guard_area_t *yard, guard_area_place_t *place)
{
  set_state(place, GUARD_AREA_UNUSED);
  set_pages(yard, place, 0);
  place->next = yard->unused;
  yard->unused = index_of(yard, place);
}

static void enter_freed(guard_area_t *yard, guard_area_place_t *place)
{
  uint32_t index = index_of(yard, place);
  guard_area_place_t *newest = place_of_index(yard, yard->newest);
  place->next = 0;
  place->previous = yard->newest;
  *(newest ? &newest->next : &yard->oldest) = index;
  yard->newest = index;
  if (++yard->freed <= yard->freed_most)
    return;
  guard_area_place_t *oldest = place_of_index(yard, yard->oldest);
  leave_freed(yard, oldest);
  forget_place(yard, oldest);
}

/* ---- allocation ---- */

/* Returns the page behind the last live place in or around [from, from + pages); 0: there is none. */
static size_t live_end(const guard_area_t *yard, size_t from, size_t pages)
{
  for (size_t page = from + pages; page-- > from;) {
    const guard_area_place_t *place = place_of_index(yard, yard->place_of[page]);
    if (place && place->state != GUARD_AREA_FREED)
      return (size_t)place->page + place->pages;
  }
  return 0;
}

/* Forgets the freed blocks there. The range includes the pages on both sides, which must stay unused. */
static void clear_away(guard_area_t *yard, size_t from, size_t pages)
{
  for (size_t page = from; page < from + pages; page++) {
    guard_area_place_t *place = place_of_index(yard, yard->place_of[page]);
    if (place) {
      leave_freed(yard, place);
      forget_place(yard, place);
    }
  }
}

static size_t aligned_page(const guard_area_t *yard, size_t page, size_t alignment)
{
  uintptr_t start = (uintptr_t)start_of_page(yard, page);
  return page + (round_up(start, max_size(alignment, os_page_size())) - start) / os_page_size();
}

/* Finds `pages` pages between unused ones, from the cursor on; 0: none. Each step skips a live place, or wraps, once. */
static size_t find_pages(guard_area_t *yard, size_t pages, size_t alignment)
{
  bool again = false;
  for (size_t at = yard->cursor;;) {
    at = aligned_page(yard, at, alignment);
    if (pages + 2 > yard->pages || at > yard->pages - pages - 1) {
      if (again)
        return 0;
      again = true;
      at = lead_of(yard);
      continue;
    }
    size_t end = live_end(yard, at - 1, pages + 2);
    if (!end)
      return at;
    at = end + 1;
  }
}

static guard_area_place_t *unused_place(guard_area_t *yard)
{
  guard_area_place_t *place = place_of_index(yard, yard->unused);
  if (place)
    yard->unused = place->next;
  else if (yard->used < yard->live_most + yard->freed_most)
    place = &yard->places[yard->used++];
  return place;
}

/* The block ends where its pages do, or as little before that as its alignment allows. */
static char *block_in(char *start, size_t bytes, size_t size, size_t alignment)
{
  return size ? (char *)round_down((uintptr_t)start + bytes - size, max_size(alignment, BLOCK_ALIGNMENT)) : start;
}

static guard_area_place_t *take_place(guard_area_t *yard, size_t size, size_t alignment)
{
  size_t pages = guard_area_bytes(size, alignment) / os_page_size(), at = 0;
  if (yard->live < yard->live_most && pages < yard->pages && pages < UINT32_MAX)
    at = find_pages(yard, pages, alignment);
  if (!at)
    return NULL;
  clear_away(yard, at - 1, pages + 2);
  guard_area_place_t *place = unused_place(yard);
  if (!place)
    return NULL;
  *place = (guard_area_place_t){.page = (uint32_t)at, .pages = (uint32_t)pages, .size = size};
  place->block = block_in(start_of_page(yard, at), pages * os_page_size(), size, alignment);
  set_state(place, GUARD_AREA_LIVE);
  set_pages(yard, place, index_of(yard, place));
  yard->cursor = at + pages + 1;
  yard->live++;
  return place;
}

/* ---- access ---- */

/* Inaccessible pages are excluded from dumps: a core dump would be as long as the area. */
static bool open_place(const guard_area_t *yard, const guard_area_place_t *place)
{
  bool done = os_open(guard_area_pages(yard, place), guard_area_pages_bytes(place));
  if (done)
    os_exclude_from_dumps(guard_area_pages(yard, place), guard_area_pages_bytes(place), false);
  return done;
}

static bool close_place(const guard_area_t *yard, const guard_area_place_t *place)
{
  bool done = os_close(guard_area_pages(yard, place), guard_area_pages_bytes(place));
  if (done)
    os_exclude_from_dumps(guard_area_pages(yard, place), guard_area_pages_bytes(place), true);
  return done;
}

static bool has_left(const guard_area_t *yard) { return __atomic_load_n(&yard->unclosed, __ATOMIC_RELAXED); }
static void set_left(guard_area_t *yard, uint32_t first) { __atomic_store_n(&yard->unclosed, first, __ATOMIC_RELAXED); }

/* The addresses are reused only after they are closed: neither accessible memory nor its addresses may serve another block. */
static bool give_place(guard_area_t *yard, guard_area_place_t *place)
{
  bool closed = !has_access(place) || close_place(yard, place);
  lock_acquire(&huge_lock);
  if (closed) {
    yard->live--;
    set_state(place, GUARD_AREA_FREED);
    enter_freed(yard, place);
  } else {
    place->next = yard->unclosed;
    set_left(yard, index_of(yard, place));
  }
  lock_release(&huge_lock);
  return closed;
}

/* Retries a few places per call. */
static void close_left(guard_area_t *yard)
{
  bool closed = true;
  for (unsigned i = 0; closed && i < LEFT_AT_ONCE; i++) {
    lock_acquire(&huge_lock);
    guard_area_place_t *place = place_of_index(yard, yard->unclosed);
    if (place)
      set_left(yard, place->next);
    lock_release(&huge_lock);
    closed = place && give_place(yard, place);
  }
}

guard_area_place_t *guard_area_take(guard_area_t *yard, size_t size, size_t alignment)
{
  if (unlikely(has_left(yard)))
    close_left(yard);
  lock_acquire(&huge_lock);
  guard_area_place_t *place = take_place(yard, size, alignment);
  lock_release(&huge_lock);
  if (!place || !has_access(place) || open_place(yard, place))
    return place;
  lock_acquire(&huge_lock);
  yard->live--;
  forget_place(yard, place);
  lock_release(&huge_lock);
  return NULL;
}

void guard_area_give(guard_area_t *yard, guard_area_place_t *place)
{
  set_state(place, GUARD_AREA_LEAVING);
  if (give_place(yard, place) && unlikely(has_left(yard)))
    close_left(yard);
}

/* ---- questions ---- */

bool guard_area_holds(const guard_area_t *yard, const void *address)
{
  const char *start = __atomic_load_n(&yard->start, __ATOMIC_ACQUIRE);
  return start && (size_t)((const char *)address - start) < yard->pages * os_page_size();
}

static guard_area_place_t *place_at_page(const guard_area_t *yard, size_t page)
{
  uint32_t index = page < yard->pages ? __atomic_load_n(&yard->place_of[page], __ATOMIC_ACQUIRE) : 0;
  guard_area_place_t *place = place_of_index(yard, index);
  return place && state_of(place) != GUARD_AREA_UNUSED ? place : NULL;
}

/* Chooses the lower of two places that are equally near: most accesses go past an end. */
guard_area_place_t *guard_area_place_at(const guard_area_t *yard, const void *address, bool nearest)
{
  if (!guard_area_holds(yard, address))
    return NULL;
  size_t page = (size_t)((const char *)address - yard->start) / os_page_size();
  guard_area_place_t *place = place_at_page(yard, page);
  for (size_t away = 1; nearest && !place && away <= NEAR_PAGES; away++) {
    guard_area_place_t *below = away <= page ? place_at_page(yard, page - away) : NULL,
                       *above = place_at_page(yard, page + away);
    bool from_above = above && (!below || start_of_page(yard, page + away) - (const char *)address <
                                            (const char *)address - start_of_page(yard, page - away + 1) + 1);
    place = from_above ? above : below;
  }
  return place;
}
