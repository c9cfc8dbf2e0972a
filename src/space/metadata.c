/* SPDX-License-Identifier: MIT
 *
 * Free memory is in four places, which are asked in this order: lists of records below a page that were given back; pieces of
 * pages (pieces.c); rows of whole pages, by length and by address; and what was mapped and never used, behind `next`.
 *
 * A row is dirty, or clean: the system has the memory of all its pages but the first, which holds the row's own record. */
#include "space/metadata.h"
#include "base/range_tree.h"
#include "os/os.h"
#include "space/class_map.h"
#include "space/pieces.h"
#include <string.h>

enum {
  CHUNK = 64 << 10,         /* what is mapped at a time: only what is used is ever touched */
  STEPS = 4,                /* sizes to a doubling */
  SIZE_LISTS = 16 * STEPS,  /* of records below a page */
  LISTED_MOST = 8 << 10,    /* bytes of a list: what is given beyond becomes one with its neighbours */
  SHELVES = 48,
  LOOKS_MOST = 16,
  CUT_TOGETHER = 4,         /* pages that become pieces */
  CLEANED_MOST = 16,        /* so many are made clean by one caller that finds no room */
  PURGE_LEAST = 64 << 10,   /* pages that were given back keep their memory where they are fewer in a row */
  KIND_BYTES = 64 << 10     /* of one kind that are taken together, at most */
};

lock_t metadata_lock;
static char *next, *end;      /* what is mapped and free */
static char *limit;           /* how far it can grow where it is */
static size_t taken;
static uint64_t given;        /* to the system */
static size_t touched;        /* by records, also by those that were given back and hold their memory */

static void count_records(size_t by) { __atomic_store_n(&taken, taken + by, __ATOMIC_RELAXED); }
static void count_touched(size_t by) { __atomic_store_n(&touched, touched + by, __ATOMIC_RELAXED); }

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
  size_t        bytes;   /* on the list from here on */
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

/* ---- whole pages that were given back: by address, so that neighbours become one, and on shelves by length ---- */

typedef struct pages {
  range_t       range;            /* stands at its own start */
  struct pages *newer, *older;    /* on its shelf */
  struct pages *before, *behind;  /* among those that are not clean, the newest first */
  bool          clean;            /* beyond the first page it reads as zero and holds no memory */
} pages_t;
static range_t *by_address;
static pages_t *shelves[SHELVES];
static pages_t *first_dirty, *last_dirty;
static size_t dirty_rows;

static pages_t *pages_of(range_t *range) { return (pages_t *)range; }

static unsigned page_shelf_of(size_t size) { return (unsigned)min_size(log2_floor(size), SHELVES - 1); }

static void shelve_pages(pages_t *pages)
{
  pages_t **shelf = &shelves[page_shelf_of(pages->range.size)];
  pages->newer = NULL;
  pages->older = *shelf;
  if (*shelf)
    (*shelf)->newer = pages;
  *shelf = pages;
}

static void unshelve_pages(pages_t *pages)
{
  if (pages->newer)
    pages->newer->older = pages->older;
  else
    shelves[page_shelf_of(pages->range.size)] = pages->older;
  if (pages->older)
    pages->older->newer = pages->newer;
}

/* The newest row comes first, so that the oldest, which is the least likely to be needed soon, is at the end and is purged
 * first. */
static void dirty_enter(pages_t *pages)
{
  pages->before = NULL;
  pages->behind = first_dirty;
  *(first_dirty ? &first_dirty->before : &last_dirty) = pages;
  first_dirty = pages;
  __atomic_store_n(&dirty_rows, dirty_rows + 1, __ATOMIC_RELAXED);
}

static void dirty_leave(pages_t *pages)
{
  *(pages->before ? &pages->before->behind : &first_dirty) = pages->behind;
  *(pages->behind ? &pages->behind->before : &last_dirty) = pages->before;
  __atomic_store_n(&dirty_rows, dirty_rows - 1, __ATOMIC_RELAXED);
}

static void pages_leave(pages_t *pages)
{
  unshelve_pages(pages);
  range_remove(&by_address, &pages->range);
  if (!pages->clean)
    dirty_leave(pages);
}

static void pages_enter(uintptr_t start, size_t size, bool clean)
{
  pages_t *pages = (pages_t *)start;
  *pages = (pages_t){.range = {.start = start, .size = size}, .clean = clean};
  range_insert(&by_address, &pages->range);
  shelve_pages(pages);
  if (!clean)
    dirty_enter(pages);
}

/* Says whether the system took the memory of all pages but the first, which holds the record of the row. If it took only a
 * part, the row still counts as dirty. Needs no lock: nobody else knows of the row yet. */
static bool purge(uintptr_t start, size_t size)
{
  size_t page = os_page_size();
  return size == page || os_purge((char *)start + page, size - page);
}

static void count_given(size_t bytes)
{
  count_touched(-bytes);
  __atomic_store_n(&given, given + bytes, __ATOMIC_RELAXED);
}

static void count_purged(size_t size) { count_given(size - os_page_size()); }

/* Takes the row that ends or begins at `border` out, if it is as clean. Returns its size; 0: it stays, or there is none. */
static size_t absorb_pages(range_t *range, uintptr_t border, bool clean)
{
  bool touches = range && (range->start == border || range->start + range->size == border);
  if (!touches || pages_of(range)->clean != clean)
    return 0;
  pages_leave(pages_of(range));
  return range->size;
}

/* The first page of a clean row holds the row's record. When the row is joined to one before it, that page is no longer the
 * first, and has to be clean too. */
static bool clean_first_page(uintptr_t start)
{
  if (!os_purge((char *)start, os_page_size()))
    return false;
  count_given(os_page_size());
  return true;
}

/* Joins a row with the neighbours that are as clean as it is. If the system refuses to take the page where two clean rows meet,
 * that neighbour stays a row of its own. */
static void join_pages(uintptr_t *start, size_t *size, bool clean)
{
  uintptr_t border = *start + *size;
  size_t behind = absorb_pages(range_at_or_above(by_address, border), border, clean);
  if (behind && clean && !clean_first_page(border)) {
    pages_enter(border, behind, true);
    behind = 0;
  }
  size_t before = absorb_pages(range_at_or_below(by_address, *start - 1), *start, clean);
  if (before && clean && !clean_first_page(*start)) {
    pages_enter(*start - before, before, true);
    before = 0;
  }
  *start -= before;
  *size += before + behind;
}

/* A dirty row first joins its dirty neighbours. If the row then has at least `least` bytes, the system is asked to take them;
 * what it has taken joins the clean neighbours too. Fewer bytes are not worth a call. */
static void pages_give(uintptr_t start, size_t size, bool clean, size_t least)
{
  if (!clean) {
    join_pages(&start, &size, false);
    clean = size >= least && purge(start, size);
  }
  if (clean) {
    count_purged(size);
    join_pages(&start, &size, true);
  }
  pages_enter(start, size, clean);
}

/* Gives back less than a page. The pages that this makes whole become a row. */
static void give_piece(uintptr_t start, size_t size)
{
  uintptr_t pages;
  size_t whole = size ? pieces_give(start, size, &pages) : 0;
  if (whole)
    pages_give(pages, whole, false, PURGE_LEAST);
}

/* Cuts `size` bytes off the end of a row that is long enough, so that the row's record can stay at its start. A record is
 * zeroed: dirty pages are written to, and of clean ones only the first page of the row. */
static void *take_end(pages_t *pages, size_t size)
{
  bool clean = pages->clean, whole = pages->range.size == size;
  char *record = (char *)pages->range.start + pages->range.size - size;
  if (whole) {
    pages_leave(pages);
  } else {
    unshelve_pages(pages);
    pages->range.size -= size;
    shelve_pages(pages);
  }
  if (clean)
    count_touched(whole ? size - os_page_size() : size);
  if (!clean || whole)
    memset(record, 0, clean ? os_page_size() : size);
  return record;
}

/* On the shelf of the size itself a row may be too short, so only some of them are looked at. Every row of a higher shelf is
 * long enough. */
static void *take_pages(size_t size)
{
  unsigned shelf = page_shelf_of(size), looks = LOOKS_MOST;
  for (pages_t *pages = shelves[shelf]; pages && looks--; pages = pages->older)
    if (pages->range.size >= size)
      return take_end(pages, size);
  while (++shelf < SHELVES)
    if (shelves[shelf])
      return take_end(shelves[shelf], size);
  return NULL;
}

/* Makes up to `most` of the oldest dirty rows clean, so that they join their clean neighbours. Returns how many bytes the
 * system took. */
static size_t clean_oldest(size_t most)
{
  size_t touched_before = touched;
  for (size_t tries = min_size(most, dirty_rows); tries && last_dirty; tries--) {   /* a refused one comes back as the newest */
    uintptr_t start = last_dirty->range.start;
    size_t size = last_dirty->range.size;
    pages_leave(last_dirty);
    pages_give(start, size, false, 0);
  }
  return touched_before - touched;
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
      count_touched((size_t)(record + size - next));
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
  record = take_pages(bytes);
  if (!record) {
    bytes = page;
    record = take_pages(bytes);
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
  return record ? memset(record, 0, size) : take_fresh(size, alignment);
}

/* Before fresh memory is taken, some dirty rows are purged: a clean and a dirty row do not join, and together they may be long
 * enough. */
static void *take_large(size_t size, size_t alignment)
{
  void *record = alignment <= os_page_size() ? take_pages(size) : NULL;
  /* Only some rows are purged for one caller, because each costs a call of the system under the lock. */
  if (!record && alignment <= os_page_size() && first_dirty) {
    clean_oldest(CLEANED_MOST);
    record = take_pages(size);
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
  void *record = size < os_page_size() ? take_small(size, max_size(alignment, METADATA_ALIGNMENT)) : take_large(round_up(size, os_page_size()), alignment);
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
  bool many = whole >= PURGE_LEAST, clean = many && purge(start, whole);
  lock_acquire(&metadata_lock);
  pages_give(start, whole, clean, many ? SIZE_MAX : PURGE_LEAST);
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
    size_t least = round_up(kind->size, os_page_size()), bytes = round_up(max_size(kind->size, min_size(2 * kind->bytes, KIND_BYTES)), os_page_size());
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
  size_t bytes = 0, left = __atomic_load_n(&dirty_rows, __ATOMIC_RELAXED);
  while (left) {
    size_t some = min_size(left, CLEANED_MOST);
    lock_acquire(&metadata_lock);
    bytes += clean_oldest(some);
    lock_release(&metadata_lock);
    left -= some;
  }
  return bytes;
}

uint64_t metadata_given_bytes(void) { return __atomic_load_n(&given, __ATOMIC_RELAXED); }
size_t metadata_touched(void) { return __atomic_load_n(&touched, __ATOMIC_RELAXED); }
size_t metadata_bytes(void) { return __atomic_load_n(&taken, __ATOMIC_RELAXED); }
