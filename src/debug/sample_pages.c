/* SPDX-License-Identifier: MIT
 * One bitmap has the free pages, another the pages that have memory. Pages that were never taken are opened in steps. */
#include "debug/sample_pages.h"
#include "base/trees.h"
#include "debug/system.h"

enum {
#if UINTPTR_MAX > UINT32_MAX
  BYTES_LOG2 = 32, /* a million pages of 4 KiB */
#else
  BYTES_LOG2 = 26,
#endif
  OPENED = 1 << 20,    /* bytes in a step */
  SHARE_OF_LIMIT = 32, /* largest part of a limit on address space */
  KEPT_LEAST = 1 << 20 /* bytes of free pages that are kept, or as many as are taken */
};

lock_t sample_pages_lock;
static char *stretch; /* NULL: none yet */
static size_t count;  /* of its pages */
static size_t opened; /* of its pages; the first is never used */
static size_t taken, kept;
static word_t *dirty;
static span_tree_t unused;

/* read without the lock */
static void count_kept_pages(size_t by) { __atomic_store_n(&kept, kept + by, __ATOMIC_RELAXED); }

char *sample_pages_stretch(size_t *bytes)
{
  lock_acquire(&sample_pages_lock);
  *bytes = stretch ? count * os_page_size() : 0;
  lock_release(&sample_pages_lock);
  return stretch;
}

static size_t bytes_of(size_t pages) { return pages * os_page_size(); }
static char *page_at(size_t page) { return stretch + bytes_of(page); }

/* Two bitmaps, and the tree over the first. */
static size_t maps_bytes(size_t pages)
{
  return 2 * (pages / WORD_BITS) * sizeof(word_t) + span_tree_words(pages) * sizeof(uint64_t);
}

static bool begin_pages(void)
{
  size_t bytes = (size_t)1 << BYTES_LOG2;
  char *start = os_reserve_share(&bytes, SHARE_OF_LIMIT, 2 * OPENED); /* the first step begins at the second page */
  size_t pages = start ? min_size(bytes / os_page_size(), SPAN_BITS_MOST) : 0;
  word_t *maps = pages / WORD_BITS ? os_map(round_up(maps_bytes(pages), os_page_size()), os_page_size()) : NULL;
  if (!maps) {
    if (start)
      os_unmap(start, bytes);
    return false;
  }
  stretch = start;
  os_wish_huge_pages(stretch, bytes, false);
  count = pages;
  opened = 1; /* `stretch` points to the first page: a leak search would find a block there */
  dirty = maps + pages / WORD_BITS;
  span_tree_of_zeroes(&unused, maps, (uint64_t *)(void *)(dirty + pages / WORD_BITS), pages);
  return true;
}

/* Opens `pages` more consecutive pages. Free ones at the end of the open part are not used for that. */
static bool open_more(size_t pages)
{
  if (!stretch && !begin_pages())
    return false;
  size_t end = opened + round_up(pages, max_size(OPENED / os_page_size(), 1));
  if (end > count || !os_open(page_at(opened), bytes_of(end - opened)))
    return false;
  span_set(&unused, opened, end);
  opened = end;
  return true;
}

static size_t make_clean(size_t from, size_t to)
{
  size_t n = 0;
  for (size_t i = from; i < to; i++)
    if (bit_test(dirty, i)) {
      bit_clear(dirty, i);
      n++;
    }
  return n;
}

static void *take_pages(size_t pages, bool *zeroed)
{
  size_t at = stretch ? span_find(&unused, pages) : SPAN_NONE;
  if (at == SPAN_NONE) {
    if (!open_more(pages))
      return NULL;
    at = span_find(&unused, pages);
  }
  span_clear(&unused, at, at + pages);
  size_t had = make_clean(at, at + pages);
  *zeroed = !had;
  count_kept_pages(-had);
  taken += pages;
  return page_at(at);
}

void *sample_pages_take(size_t bytes, bool *zeroed)
{
  lock_acquire(&sample_pages_lock);
  void *start = take_pages(bytes / os_page_size(), zeroed);
  lock_release(&sample_pages_lock);
  return start;
}

/* Purges all free pages that have memory, one row at a time. Rows that the system refuses keep it. */
static size_t trim_pages(void)
{
  size_t n = 0;
  for (size_t from = 0, to; kept && from < opened; from = to) {
    for (to = from; to < opened && bit_test(dirty, to);)
      to++;
    if (to > from && os_purge(page_at(from), bytes_of(to - from)))
      n += make_clean(from, to);
    to += to == from;
  }
  count_kept_pages(-n);
  return n;
}

void sample_pages_give(void *start, size_t bytes)
{
  size_t pages = bytes / os_page_size(), at = (size_t)((char *)start - stretch) / os_page_size();
  lock_acquire(&sample_pages_lock);
  span_set(&unused, at, at + pages);
  for (size_t i = at; i < at + pages; i++)
    bit_set(dirty, i);
  taken -= pages;
  count_kept_pages(pages);
  if (bytes_of(kept) > max_size(KEPT_LEAST, bytes_of(taken)))
    trim_pages();
  lock_release(&sample_pages_lock);
}

size_t sample_pages_trim(void)
{
  lock_acquire(&sample_pages_lock);
  size_t n = kept ? trim_pages() : 0;
  lock_release(&sample_pages_lock);
  return bytes_of(n);
}

size_t sample_pages_kept(void) { return bytes_of(__atomic_load_n(&kept, __ATOMIC_RELAXED)); }
