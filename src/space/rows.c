/* SPDX-License-Identifier: MIT */
#include "space/rows.h"
#include "base/range_tree.h"
#include "base/shared.h"
#include "os/os.h"

enum {
  SHELVES = 48,
  LOOKS_MOST = 16 /* at rows of one shelf, which may be too short */
};

static uint64_t purged_total;
static size_t touched;

void rows_count_touched(size_t by) { __atomic_store_n(&touched, touched + by, __ATOMIC_RELAXED); }
size_t rows_touched(void) { return __atomic_load_n(&touched, __ATOMIC_RELAXED); }
uint64_t rows_purged(void) { return __atomic_load_n(&purged_total, __ATOMIC_RELAXED); }

/* A row is found by its address, so that neighbours become one, and on a shelf of its length. */
typedef struct pages {
  range_t range;                 /* stands at its own start */
  struct pages *newer, *older;   /* on its shelf */
  struct pages *before, *behind; /* among those that are not clean, the newest first */
  bool clean;                    /* beyond the first page it reads as zero and holds no memory */
} pages_t;
static range_t *by_address;
static pages_t *shelves[SHELVES];
static pages_t *first_dirty, *last_dirty;
static size_t dirty_rows;

size_t rows_dirty(void) { return __atomic_load_n(&dirty_rows, __ATOMIC_RELAXED); }

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
bool rows_purge(uintptr_t start, size_t size)
{
  size_t page = os_page_size();
  return size == page || os_purge((char *)start + page, size - page);
}

static void count_purged_bytes(size_t bytes)
{
  rows_count_touched(-bytes);
  __atomic_store_n(&purged_total, purged_total + bytes, __ATOMIC_RELAXED);
}

static void count_purged(size_t size) { count_purged_bytes(size - os_page_size()); }

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
  count_purged_bytes(os_page_size());
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
void rows_give(uintptr_t start, size_t size, bool clean, size_t least)
{
  if (!clean) {
    join_pages(&start, &size, false);
    clean = size >= least && rows_purge(start, size);
  }
  if (clean) {
    count_purged(size);
    join_pages(&start, &size, true);
  }
  pages_enter(start, size, clean);
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
    rows_count_touched(whole ? size - os_page_size() : size);
  if (!clean || whole)
    shared_clear(record, clean ? os_page_size() : size);
  return record;
}

/* On the shelf of the size itself a row may be too short, so only some of them are looked at. Every row of a higher shelf is
 * long enough. */
void *rows_take(size_t size)
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
size_t rows_clean_oldest(size_t most)
{
  size_t touched_before = touched;
  for (size_t tries = min_size(most, dirty_rows); tries && last_dirty; tries--) { /* a refused one comes back as the newest */
    uintptr_t start = last_dirty->range.start;
    size_t size = last_dirty->range.size;
    pages_leave(last_dirty);
    rows_give(start, size, false, 0);
  }
  return touched_before - touched;
}
