/* SPDX-License-Identifier: MIT */
#include "space/metadata.h"
#include "space/class_map.h"
#include "os/os.h"
#include <string.h>

enum {
  CHUNK = 64 << 10,         /* what is mapped at a time: only what is used is ever touched */
  STEPS = 4,                /* sizes to a doubling */
  SIZE_LISTS = 40 * STEPS,
  PURGE_LEAST = 64 << 10    /* a record that was given back keeps its memory below this size */
};

lock_t metadata_lock;
static char *next, *end;      /* what is mapped and free */
static char *limit;           /* how far it can grow where it is */
static size_t taken;
static size_t touched;        /* by records, also by those that were given back and hold their memory */

typedef struct given {
  struct given *next;
  bool          clean;        /* beyond this struct it reads as zero */
} given_t;
static given_t *lists[SIZE_LISTS];

/* A multiple of 64, and beyond 256 a quarter of a power of two. */
static size_t rounded(size_t size)
{
  size = max_size(size, 1);
  return round_up(size, max_size(METADATA_ALIGNMENT, ((size_t)1 << log2_floor(size)) / STEPS));
}

static given_t **list_of(size_t rounded_size)
{
  unsigned doubling = log2_floor(rounded_size);
  size_t step = (rounded_size >> (doubling - 2)) & (STEPS - 1);
  size_t list = (doubling - log2_floor(METADATA_ALIGNMENT)) * STEPS + step;
  return list < SIZE_LISTS ? &lists[list] : NULL;
}

static void count_touched(size_t by) { __atomic_store_n(&touched, touched + by, __ATOMIC_RELAXED); }

/* The whole pages behind the list's own words, of a record that was given back: [*from, *to). */
static size_t inner_pages(char *record, size_t size, char **from, char **to)
{
  size_t page = os_page_size();
  *from = (char *)round_up((uintptr_t)record + sizeof(given_t), page);
  *to = (char *)round_down((uintptr_t)record + size, page);
  return size < PURGE_LEAST || *from >= *to ? 0 : (size_t)(*to - *from);
}

static void *take_given(size_t size)
{
  char *from, *to;
  given_t **list = list_of(size), *given = list ? *list : NULL;
  if (!given)
    return NULL;
  *list = given->next;
  if (given->clean)
    count_touched(inner_pages((char *)given, size, &from, &to));
  return memset(given, 0, given->clean ? sizeof *given : size);
}

/* Where something else is in the way: a place of its own, whose ends are guarded. */
static bool map_elsewhere(size_t bytes)
{
  size_t page = os_page_size();
  char *chunk = os_map(bytes + 2 * page, page);
  if (!chunk)
    return false;
  os_guard(chunk, page);
  os_guard(chunk + page + bytes, page);
  next = chunk + page;
  end = limit = next + bytes;
  return true;
}

/* Room for `size` bytes at `end`, or anew. */
static bool grow(size_t size)
{
  if (!limit) {
    size_t most;
    next = end = window_metadata(&most);
    limit = end ? end + most : NULL;
  }
  size_t least = round_up(size, os_page_size()), whole = round_up(size, max_size(CHUNK, os_page_size()));
  for (size_t bytes = whole; end && bytes <= (size_t)(limit - end); bytes = least) {
    if (os_map_at(end, bytes) == OS_MAPPED) {
      end += bytes;
      return true;
    }
    if (bytes == least)
      break;
  }
  return map_elsewhere(whole) || map_elsewhere(least);
}

static void *take_new(size_t size, size_t alignment)
{
  for (int attempt = 0; attempt < 2; attempt++) {
    char *record = (char *)round_up((uintptr_t)next, alignment);
    if (next && record <= end && size <= (size_t)(end - record)) {
      count_touched((size_t)(record + size - next));
      next = record + size;
      return record;
    }
    if (attempt || !grow(size + alignment))
      break;
  }
  return NULL;
}

/* A record of a page or more begins at a page, so that what is given back serves whoever asks for whole pages. */
static size_t least_alignment(size_t size) { return size < os_page_size() ? METADATA_ALIGNMENT : os_page_size(); }

void *metadata_take(size_t size, size_t alignment)
{
  size = rounded(size);
  lock_acquire(&metadata_lock);
  void *record = alignment <= least_alignment(size) ? take_given(size) : NULL;
  if (!record)
    record = take_new(size, max_size(alignment, least_alignment(size)));
  if (record)
    __atomic_store_n(&taken, taken + size, __ATOMIC_RELAXED);
  lock_release(&metadata_lock);
  return record;
}

/* Returns how much of it the system took; the rest is zeroed then. */
static size_t purge(char *record, size_t size)
{
  char *from, *to;
  size_t bytes = inner_pages(record, size, &from, &to);
  if (!bytes || !os_purge(from, bytes))
    return 0;
  memset(record, 0, (size_t)(from - record));
  memset(to, 0, (size_t)(record + size - to));
  return bytes;
}

void metadata_give(void *record, size_t size)
{
  if (!record)
    return;
  size = rounded(size);
  size_t purged = purge(record, size);
  lock_acquire(&metadata_lock);
  count_touched(-purged);
  given_t **list = list_of(size), *given = record;
  if (list) {
    *given = (given_t){*list, purged != 0};
    *list = given;
    __atomic_store_n(&taken, taken - size, __ATOMIC_RELAXED);
  }
  lock_release(&metadata_lock);
}

size_t metadata_touched(void) { return __atomic_load_n(&touched, __ATOMIC_RELAXED); }
size_t metadata_bytes(void) { return __atomic_load_n(&taken, __ATOMIC_RELAXED); }
