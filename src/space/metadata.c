/* SPDX-License-Identifier: MIT
 *
 * Free memory is in four places, which are asked in this order: lists of records below a page that were given back; pieces of
 * pages (pieces.c); rows of whole pages, by length and by address; and what was mapped and never used, behind `next`.
 *
 * A row is dirty, or clean: the system has the memory of all its pages but the first, which holds the row's own record. */
#include "space/metadata.h"
#include "base/shared.h"
#include "os/os.h"
#include "space/class_map.h"
#include "space/pieces.h"
#include "space/rows.h"

enum {
  CHUNK = 64 << 10,        /* what is mapped at a time: only what is used is ever touched */
  STEPS = 4,               /* sizes to a doubling */
  SIZE_LISTS = 16 * STEPS, /* of records below a page */
  LISTED_MOST = 8 << 10,   /* bytes of a list: what is given beyond becomes one with its neighbours */
  CUT_TOGETHER = 4,        /* pages that become pieces */
  CLEANED_MOST = 16,       /* so many are made clean by one caller that finds no room */
  PURGE_LEAST = 64 << 10,  /* pages that were given back keep their memory where they are fewer in a row */
  KIND_BYTES = 64 << 10    /* of one kind that are taken together, at most */
};

lock_t metadata_lock;
static char *next, *end; /* what is mapped and free */
static char *limit;      /* how far it can grow where it is */
static size_t taken, mapped;

static void count_records(size_t by) { __atomic_store_n(&taken, taken + by, __ATOMIC_RELAXED); }
static void count_mapped(size_t by) { __atomic_store_n(&mapped, mapped + by, __ATOMIC_RELAXED); }

/* Rounds up to a multiple of 64, and beyond 256 to a quarter of a power of two. Few sizes mean that a record given back serves
 * another one. */
static size_t rounded(size_t size)
{
  size = max_size(size, 1);
  return round_up(size, max_size(METADATA_ALIGNMENT, ((size_t)1 << log2_floor(size)) / STEPS));
}

/* ---- records below a page that were given back: some of each size on a list, the rest by address ---- */

typedef struct listed {
  struct listed *next;
  size_t bytes; /* on the list from here on */
} listed_t;
static listed_t *lists[SIZE_LISTS];

static listed_t **list_of(size_t rounded_size)
{
  unsigned doubling = log2_floor(rounded_size);
  size_t step = (rounded_size >> (doubling - 2)) & (STEPS - 1);
  return &lists[(doubling - log2_floor(METADATA_ALIGNMENT)) * STEPS + step];
}

static void *take_listed(size_t size)
{
  listed_t **list = list_of(size), *listed = *list;
  if (listed)
    *list = listed->next;
  return listed;
}

/* Puts a record on the list of its size, where taking it again is cheapest. False: the list is full. Then the record joins its
 * neighbours instead, so that pages become whole again. */
static bool list_given(void *record, size_t size)
{
  listed_t **list = list_of(size), *listed = record;
  size_t bytes = *list ? (*list)->bytes + size : size;
  if (unlikely(bytes > LISTED_MOST))
    return false;
  *listed = (listed_t){*list, bytes};
  *list = listed;
  return true;
}

/* Gives back less than a page. The pages that this makes whole become a row. */
static void give_piece(uintptr_t start, size_t size)
{
  uintptr_t pages;
  size_t whole = size ? pieces_give(start, size, &pages) : 0;
  if (whole)
    rows_give(pages, whole, false, PURGE_LEAST);
}

/* ---- new ones ---- */

/* Serves where the metadata cannot grow in the window. The new chunk lies anywhere, so its ends are guarded. What was left of
 * the chunk before was never touched, and is not used any more. */
static bool map_elsewhere(size_t bytes)
{
  size_t page = os_page_size();
  char *chunk = os_map(bytes + 2 * page, page);
  if (!chunk)
    return false;
  os_guard(chunk, page);
  os_guard(chunk + page + bytes, page);
  count_mapped(bytes + 2 * page);
  next = chunk + page;
  end = limit = next + bytes;
  return true;
}

/* Makes room for `size` bytes, at `end` if possible. A whole chunk is tried before the pages that are needed, in the window
 * before anywhere else. */
static bool grow_metadata(size_t size)
{
  if (!limit) {
    size_t most;
    next = end = window_metadata(&most);
    limit = end ? end + most : NULL;
  }
  size_t least = round_up(size, os_page_size()), whole = round_up(size, max_size(CHUNK, os_page_size()));
  for (size_t bytes = whole; end && bytes <= (size_t)(limit - end); bytes = least) {
    if (os_map_at(end, bytes) == OS_MAPPED) {
      count_mapped(bytes);
      end += bytes;
      return true;
    }
    if (bytes == least)
      break;
  }
  return map_elsewhere(whole) || map_elsewhere(least);
}

/* The second attempt comes after the growth. The new memory may lie elsewhere, so the alignment is reckoned anew. The gap in
 * front of an aligned record serves smaller records. */
static void *take_fresh(size_t size, size_t alignment)
{
  for (int attempt = 0; attempt < 2; attempt++) {
    char *record = (char *)round_up((uintptr_t)next, alignment);
    if (next && record <= end && size <= (size_t)(end - record)) {
      rows_count_touched((size_t)(record + size - next));
      give_piece((uintptr_t)next, (size_t)(record - next));
      next = record + size;
      return record;
    }
    if (attempt || !grow_metadata(size + alignment))
      break;
  }
  return NULL;
}

/* Takes a record out of the pieces of pages, or cuts pages into pieces. For records of more than a quarter of a page several
 * pages are cut together: a single one would serve few of them and waste its end. */
static void *take_piece(size_t size)
{
  void *record = pieces_take(size);
  if (record)
    return record;
  size_t page = os_page_size(), bytes = size > page / CUT_TOGETHER ? page * CUT_TOGETHER : page;
  record = rows_take(bytes);
  if (!record) {
    bytes = page;
    record = rows_take(bytes);
  }
  if (record)
    pieces_enter((uintptr_t)record + size, bytes - size);
  return record;
}

/* Listed records and pieces have the least alignment only. Fresh memory serves stricter ones, and reads as zero already. */
static void *take_small(size_t size, size_t alignment)
{
  void *record = alignment <= METADATA_ALIGNMENT ? take_listed(size) : NULL;
  if (!record && alignment <= METADATA_ALIGNMENT)
    record = take_piece(size);
  return record ? shared_clear(record, size) : take_fresh(size, alignment);
}

/* Before fresh memory is taken, some dirty rows are purged: a clean and a dirty row do not join, and together they may be long
 * enough. */
static void *take_large(size_t size, size_t alignment)
{
  void *record = alignment <= os_page_size() ? rows_take(size) : NULL;
  /* Only some rows are purged for one caller, because each costs a call of the system under the lock. */
  if (!record && alignment <= os_page_size() && rows_dirty()) {
    rows_clean_oldest(CLEANED_MOST);
    record = rows_take(size);
  }
  return record ? record : take_fresh(size, max_size(alignment, os_page_size()));
}

/* A record of a page or more consists of whole pages, which can serve any later request for as many. A size that could overflow
 * when it is rounded is refused. */
void *metadata_take(size_t size, size_t alignment)
{
  if (size > PTRDIFF_MAX / 2)
    return NULL;
  size = rounded(size);
  lock_acquire(&metadata_lock);
  void *record = size < os_page_size() ? take_small(size, max_size(alignment, METADATA_ALIGNMENT))
                                       : take_large(round_up(size, os_page_size()), alignment);
  if (record)
    count_records(size);
  lock_release(&metadata_lock);
  return record;
}

/* Many pages go back to the system before the lock is taken: the call takes long, and nobody should wait for it. If the system
 * refuses, it is not asked a second time (SIZE_MAX). */
NOINLINE static void give_large(void *record, size_t size)
{
  uintptr_t start = (uintptr_t)record;
  size_t whole = round_up(size, os_page_size());
  bool many = whole >= PURGE_LEAST, clean = many && rows_purge(start, whole);
  lock_acquire(&metadata_lock);
  rows_give(start, whole, clean, many ? SIZE_MAX : PURGE_LEAST);
  count_records(-size);
  lock_release(&metadata_lock);
}

/* Small records are kept for others of their size; large ones are whole pages, which any record can have. */
void metadata_give(void *record, size_t size)
{
  if (!record)
    return;
  size = rounded(size);
  if (size >= os_page_size()) {
    give_large(record, size);
    return;
  }
  lock_acquire(&metadata_lock);
  if (!list_given(record, size))
    give_piece((uintptr_t)record, size);
  count_records(-size);
  lock_release(&metadata_lock);
}

/* Twice as many records are taken each time: a process with one heap wastes little, one with thousands is here seldom. If there
 * is no memory for so many, fewer will do. */
void *metadata_take_kind(metadata_kind_t *kind)
{
  char *record = (char *)round_up((uintptr_t)kind->next, kind->alignment);
  if (!record || record > kind->end || (size_t)(kind->end - record) < kind->size) {
    size_t least = round_up(kind->size, os_page_size()),
           bytes = round_up(max_size(kind->size, min_size(2 * kind->bytes, KIND_BYTES)), os_page_size());
    while (!(record = metadata_take(bytes, os_page_size())) && bytes > least)
      bytes = max_size(round_up(bytes / 2, os_page_size()), least);
    if (!record)
      return NULL;
    kind->bytes = bytes;
    kind->end = record + bytes;
  }
  kind->next = record + kind->size;
  return record;
}

/* Each record on a list may be the last that keeps its page from becoming whole. */
static void empty_lists(void)
{
  for (unsigned i = 0; i < SIZE_LISTS; i++)
    for (listed_t *listed; (listed = lists[i]) != NULL;) {
      size_t size = listed->bytes - (listed->next ? listed->next->bytes : 0);
      lists[i] = listed->next;
      give_piece((uintptr_t)listed, size);
    }
}

/* Purges some rows at a time and opens the lock in between, so that others can take records meanwhile. Rows that become dirty
 * meanwhile are left to the next trim, or this one might not end. */
size_t metadata_trim(void)
{
  lock_acquire(&metadata_lock);
  empty_lists();
  lock_release(&metadata_lock);
  size_t bytes = 0, left = rows_dirty();
  while (left) {
    size_t some = min_size(left, CLEANED_MOST);
    lock_acquire(&metadata_lock);
    bytes += rows_clean_oldest(some);
    lock_release(&metadata_lock);
    left -= some;
  }
  return bytes;
}

uint64_t metadata_purged_bytes(void) { return rows_purged(); }
size_t metadata_touched(void) { return rows_touched(); }
size_t metadata_mapped(void) { return __atomic_load_n(&mapped, __ATOMIC_RELAXED); }
size_t metadata_bytes(void) { return __atomic_load_n(&taken, __ATOMIC_RELAXED); }
