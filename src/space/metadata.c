/* SPDX-License-Identifier: MIT
 *
 * Free memory is a set of pieces. A piece is found by address when a neighbour is freed, and by size when a record is taken.
 * Its links are at its own start, so it needs no record elsewhere. Behind all pieces is mapped memory that was never used.
 *
 * A bitmap has the pages that were purged. It is a record itself, which the first purge takes. A purged page is inside one
 * piece, behind its links. System calls are made under the lock, and are short: for at most PURGE_MOST bytes. */
#include "space/metadata.h"
#include "base/fill.h"
#include "base/list.h"
#include "base/low_water.h"
#include "base/trees.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/class_map.h"
#include <string.h>

enum {
  CHUNK = 64 << 10,                           /* bytes mapped at a time; only used pages are ever touched */
  STEPS_LOG2 = 2,                             /* four sizes of records, and shelves, in each doubling */
  SHELVES = (ADDRESS_BITS - 6) << STEPS_LOG2, /* up to the largest size; 2^6 is METADATA_ALIGNMENT */
  LISTS = ((13 - 6) << STEPS_LOG2) + 1,       /* up to LISTED_MOST */
  LISTED_MOST = 8 << 10,                      /* bytes of a list */
  LOOKS_MOST = 16,                            /* pieces that may be aligned by chance */
  PIECES_MOST = 64,                           /* pieces without dirty pages that are skipped while the lock is held */
  PURGE_MOST = 1 << 20,                       /* bytes in one call */
  PURGE_LEAST = 64 << 10,                     /* fewer free bytes wait for a trim: they are not worth the calls */
  KIND_BYTES = 64 << 10                       /* bytes of one kind that are taken together, at most */
};

_Static_assert(LISTED_MOST == 1 << 13, "a list for each shelf of short records");

typedef struct piece {
  range_t range;               /* at the piece's own start */
  struct piece *newer, *older; /* on its shelf */
  size_t purged;               /* bytes of its pages that hold no memory */
} piece_t;
_Static_assert(sizeof(piece_t) <= METADATA_ALIGNMENT, "the shortest piece has room for its links");

typedef struct metadata_pass {
  uintptr_t at; /* pages below are done */
  size_t left;  /* bytes that it may still purge */
} metadata_pass_t;

lock_t metadata_lock;
static char *next, *end; /* mapped and never used */
static char *limit;      /* the end of the addresses that it may grow into */
static uintptr_t window; /* the metadata's part of the window */
static size_t window_size;
static size_t taken, mapped, touched;
static uint64_t purged_total;

static range_t *by_address;
TOUCHED_AT_START static piece_t *shelves[SHELVES];
TOUCHED_AT_START static word_t filled[(SHELVES + WORD_BITS - 1) / WORD_BITS]; /* a bit for each shelf that has a piece */

static word_t *purged_pages; /* a bit for each page of the window's metadata */
static size_t purged_bits;   /* number of bits in purged_pages */
static size_t dirty;         /* bytes of free pages that could be purged */
static low_water_t low_dirty;
static metadata_pass_t pass;
static bool refused; /* the system has refused a purge since the last tick */

static void add_to(size_t *figure, size_t by) { __atomic_store_n(figure, *figure + by, __ATOMIC_RELAXED); }

/* ---- free pieces ---- */

/* Returns the shelf of pieces of this size. If the size is the least of its shelf, every piece there is long enough. */
static unsigned shelf_of(size_t size)
{
  unsigned doubling = log2_floor(size);
  size_t step = (size >> (doubling - STEPS_LOG2)) & ((1 << STEPS_LOG2) - 1);
  return (doubling - log2_floor(METADATA_ALIGNMENT)) << STEPS_LOG2 | (unsigned)step;
}

/* Rounds up to the least size of a shelf, so that a freed record fits others of about its size. */
static size_t rounded(size_t size)
{
  size = max_size(size, 1);
  return round_up(size, max_size(METADATA_ALIGNMENT, (size_t)1 << log2_floor(size) >> STEPS_LOG2));
}

static uintptr_t piece_end(const piece_t *piece) { return piece->range.start + piece->range.size; }
static uintptr_t first_page(const piece_t *piece) { return round_up(piece->range.start + 1, os_page_size()); }
static size_t page_index(uintptr_t address) { return (address - window) / os_page_size(); }

/* Returns the bytes of whole pages behind the piece's links that hold memory. Pages outside the window are never purged. */
static size_t dirty_bytes(const piece_t *piece)
{
  uintptr_t from = first_page(piece), to = round_down(piece_end(piece), os_page_size());
  return from < to && from - window < window_size ? to - from - piece->purged : 0;
}

static void shelve(piece_t *piece)
{
  unsigned shelf = shelf_of(piece->range.size);
  LIST_PUSH(shelves[shelf], piece, older, newer);
  bit_set(filled, shelf);
  add_to(&dirty, dirty_bytes(piece));
}

/* The caller has not changed the size or the purged bytes yet. */
static void unshelve(piece_t *piece)
{
  unsigned shelf = shelf_of(piece->range.size);
  LIST_REMOVE(shelves[shelf], piece, older, newer);
  if (!shelves[shelf])
    bit_clear(filled, shelf);
  add_to(&dirty, -dirty_bytes(piece));
}

/* A piece that follows another only lengthens it, without a change of the tree. The size is 0 if a record fits exactly. */
static void give_piece(uintptr_t start, size_t size)
{
  if (!size)
    return;
  piece_t *piece = (piece_t *)range_at_or_below(by_address, start), *behind = (piece_t *)range_at_or_above(by_address, start);
  size_t purged = 0;
  if (behind && behind->range.start == start + size) {
    unshelve(behind);
    range_remove(&by_address, &behind->range);
    size += behind->range.size;
    purged = behind->purged;
  }
  if (piece && piece_end(piece) == start) {
    unshelve(piece);
  } else {
    piece = (piece_t *)start;
    *piece = (piece_t){.range.start = start};
    range_insert(&by_address, &piece->range);
  }
  piece->range.size += size;
  piece->purged += purged;
  shelve(piece);
}

/* Zeroes free memory that is about to be used. Purged pages already read as zero. Returns their bytes. */
static size_t clear_free(uintptr_t from, uintptr_t to)
{
  size_t page = os_page_size(), purged = 0;
  for (uintptr_t at = from, behind; at < to; at = behind) {
    behind = min_size(round_down(at, page) + page, to);
    if (page_index(at) < purged_bits && bit_test(purged_pages, page_index(at))) {
      bit_clear(purged_pages, page_index(at));
      purged += page;
    } else {
      shared_clear((void *)at, behind - at);
    }
  }
  return purged;
}

static uintptr_t place_in(const piece_t *piece, size_t size, size_t alignment)
{
  return round_down(piece_end(piece) - size, alignment);
}

/* Cuts a record off the end of a piece, which keeps its place in the tree. The gap behind the record becomes a small piece. */
static void *cut_record(piece_t *piece, size_t size, size_t alignment)
{
  uintptr_t record = place_in(piece, size, alignment), behind = piece_end(piece);
  unshelve(piece);
  piece->range.size = record - piece->range.start;
  if (!piece->range.size)
    range_remove(&by_address, &piece->range);
  size_t kept = piece->purged, purged = clear_free(record, behind);
  if (piece->range.size) {
    piece->purged = kept - purged;
    shelve(piece);
  }
  add_to(&touched, purged);
  give_piece(record + size, behind - record - size);
  low_water_note(&low_dirty, dirty / os_page_size());
  return (void *)record;
}

/* A piece of this size may be aligned by chance. Longer ones always have room, so only the first shelf is searched. */
static void *take_piece(size_t size, size_t alignment)
{
  size_t looks = LOOKS_MOST;
  for (piece_t *piece = shelves[shelf_of(size)]; piece && looks--; piece = piece->older)
    if (place_in(piece, size, alignment) >= piece->range.start)
      return cut_record(piece, size, alignment);
  size_t shelf = bits_next_set(filled, shelf_of(rounded(size + alignment - METADATA_ALIGNMENT)), SHELVES);
  return shelf < SHELVES ? cut_record(shelves[shelf], size, alignment) : NULL;
}

/* ---- new memory ---- */

/* Maps `bytes` more, at `end` if possible, or else between guard pages. The untouched rest of the last chunk is lost. */
static bool map_chunk(size_t bytes)
{
  if (bytes <= (size_t)(limit - end) && os_map_at(end, bytes) == OS_MAPPED) {
    add_to(&mapped, bytes);
    window_size += bytes;
    end += bytes;
    return true;
  }
  size_t page = os_page_size();
  char *chunk = os_map(bytes + 2 * page, page);
  if (!chunk)
    return false;
  os_guard(chunk, page);
  os_guard(chunk + page + bytes, page);
  add_to(&mapped, bytes + 2 * page);
  next = chunk + page;
  end = limit = next + bytes;
  return true;
}

/* If there is no memory for a whole chunk, tries only the pages that are needed. */
static bool grow_metadata(size_t size)
{
  size_t most;
  if (!limit && (next = end = window_metadata(&most)) != NULL) {
    window = (uintptr_t)end;
    limit = end + most;
  }
  return map_chunk(round_up(size, max_size(CHUNK, os_page_size()))) || map_chunk(round_up(size, os_page_size()));
}

/* Never-used memory reads as zero. The second attempt, after growing, aligns again, because the new memory may be elsewhere.
 * The gap in front of an aligned record serves smaller records. */
static void *take_fresh(size_t size, size_t alignment)
{
  for (int attempt = 0; attempt < 2; attempt++) {
    char *record = (char *)round_up((uintptr_t)next, alignment);
    if (next && record <= end && size <= (size_t)(end - record)) {
      add_to(&touched, (size_t)(record + size - next));
      give_piece((uintptr_t)next, (size_t)(record - next));
      next = record + size;
      return record;
    }
    if (attempt || !grow_metadata(size + alignment))
      break;
  }
  return NULL;
}

/* ---- records ---- */

/* Some short records of each size wait on a list, from which taking is cheapest. */
typedef struct listed {
  struct listed *next;
  size_t bytes; /* on the list from here on */
} listed_t;
TOUCHED_AT_START static listed_t *lists[LISTS];

static void *take_listed(size_t size)
{
  if (size > LISTED_MOST || !lists[shelf_of(size)])
    return NULL;
  listed_t **list = &lists[shelf_of(size)], *listed = *list;
  *list = listed->next;
  return shared_clear(listed, size);
}

static bool list_record(listed_t *record, size_t size)
{
  if (size > LISTED_MOST)
    return false;
  listed_t **list = &lists[shelf_of(size)];
  size_t bytes = *list ? (*list)->bytes + size : size;
  if (bytes > LISTED_MOST)
    return false;
  *record = (listed_t){*list, bytes};
  *list = record;
  return true;
}

/* Each listed record may be the last that keeps its page from becoming free. */
static void empty_lists(void)
{
  LOCKED(&metadata_lock);
  for (unsigned i = 0; i < LISTS; i++)
    for (listed_t *listed; (listed = lists[i]) != NULL;) {
      size_t size = listed->bytes - (listed->next ? listed->next->bytes : 0);
      lists[i] = listed->next;
      give_piece((uintptr_t)listed, size);
    }
}

/* Before the first piece is free, the shelves are not read: a page that is read before it is written costs two faults. */
static void *take_or_grow(size_t size, size_t alignment)
{
  void *record = alignment == METADATA_ALIGNMENT ? take_listed(size) : NULL;
  if (!record && by_address)
    record = take_piece(size, alignment);
  return record ? record : take_fresh(size, alignment);
}

/* Refuses sizes that could overflow when rounded. */
void *metadata_take(size_t size, size_t alignment)
{
  if (size > PTRDIFF_MAX / 2)
    return NULL;
  size = rounded(size);
  LOCKED(&metadata_lock);
  void *record = take_or_grow(size, max_size(alignment, METADATA_ALIGNMENT));
  if (record)
    add_to(&taken, size);
  return record;
}

void metadata_give(void *record, size_t size)
{
  if (!record)
    return;
  size = rounded(size);
  lock_acquire(&metadata_lock);
  if (size >= os_page_size() || !list_record(record, size))
    give_piece((uintptr_t)record, size);
  add_to(&taken, -size);
  lock_release(&metadata_lock);
  if (metadata_has_left())
    sleeper_note();
}

/* Doubles the number of records each time, so one heap wastes little and thousands seldom come here. Takes fewer if need be. */
static void *take_together(metadata_kind_t *kind)
{
  char *record = (char *)round_up((uintptr_t)kind->next, kind->alignment);
  if (!record || record > kind->end || (size_t)(kind->end - record) < kind->size) {
    size_t least = round_up(kind->size, os_page_size()),
           bytes = round_up(max_size(kind->size, min_size(2 * kind->bytes, KIND_BYTES)), os_page_size());
    while (!(record = metadata_take(bytes, kind->alignment)) && bytes > least)
      bytes = max_size(round_up(bytes / 2, os_page_size()), least);
    if (!record)
      return NULL;
    kind->bytes = bytes;
    kind->end = record + bytes;
  }
  kind->next = record + kind->size;
  return record;
}

void *metadata_take_new(metadata_kind_t *kind)
{
  return kind->size < os_page_size() ? take_together(kind) : metadata_take(kind->size, kind->alignment);
}

/* ---- returning free pages to the system ---- */

/* Grows the bitmap so that each page of the window has a bit. */
static bool has_bits(void)
{
  size_t pages = window_size / os_page_size(), had = purged_bits / 8, bytes = rounded(pages / 4);
  if (pages <= purged_bits)
    return true;
  word_t *bits = take_or_grow(bytes, METADATA_ALIGNMENT);
  if (!bits)
    return false;
  if (had) {
    memcpy(bits, purged_pages, had);
    give_piece((uintptr_t)purged_pages, had);
  }
  purged_pages = bits;
  purged_bits = bytes * 8;
  return true;
}

static void note_purged(piece_t *piece, size_t from, size_t to)
{
  size_t bytes = (to - from) * os_page_size();
  bits_set(purged_pages, from, to);
  piece->purged += bytes;
  add_to(&dirty, -bytes);
  add_to(&touched, -bytes);
  low_water_lessen(&low_dirty, to - from);
  __atomic_store_n(&purged_total, purged_total + bytes, __ATOMIC_RELAXED);
}

/* Purges the first dirty pages of the piece that the pass has not reached. Returns false if there are none left. */
static bool purge_piece(piece_t *piece, metadata_pass_t *at)
{
  size_t page = os_page_size(), first = page_index(max_size(first_page(piece), at->at)), last = page_index(piece_end(piece));
  size_t from = dirty_bytes(piece) ? bits_next_clear(purged_pages, first, last) : last;
  at->at = piece_end(piece);
  if (from >= last)
    return false;
  size_t to = bits_next_set(purged_pages, from, min_size(last, from + min_size(PURGE_MOST, at->left) / page));
  at->at = window + to * page;
  at->left -= (to - from) * page;
  if (os_purge((void *)(window + from * page), (to - from) * page))
    note_purged(piece, from, to);
  else
    __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
  return true;
}

/* Makes at most one system call. Returns whether the pass goes on. */
static bool purge_next(metadata_pass_t *at)
{
  bool found = false, ends = !dirty || at->left < os_page_size() || !has_bits();
  for (size_t looks = PIECES_MOST; looks && !found && !ends; looks--) {
    range_t *range = range_at_or_below(by_address, at->at);
    if (!range || range->start + range->size <= at->at)
      range = range_at_or_above(by_address, at->at);
    ends = !range;
    found = range && purge_piece((piece_t *)range, at);
  }
  at->left = ends ? 0 : at->left;
  return !ends;
}

/* Releases the lock between two calls, so that other threads can take records. */
static bool purge_on(metadata_pass_t *at, size_t calls)
{
  bool goes_on = true;
  while (goes_on && calls--) {
    lock_acquire(&metadata_lock);
    goes_on = purge_next(at);
    lock_let_in(&metadata_lock);
  }
  return goes_on;
}

bool metadata_purge_step(size_t calls) { return purge_on(&pass, calls); }

size_t metadata_trim(void)
{
  uint64_t before = metadata_purged_bytes();
  empty_lists();
  purge_on(&(metadata_pass_t){.left = SIZE_MAX}, SIZE_MAX);
  return (size_t)(metadata_purged_bytes() - before);
}

bool metadata_begin_tick(size_t epochs)
{
  LOCKED(&metadata_lock);
  size_t unneeded = low_water_tick(&low_dirty, dirty / os_page_size(), epochs) * os_page_size();
  pass = (metadata_pass_t){.left = unneeded >= PURGE_LEAST ? unneeded : 0};
  __atomic_store_n(&refused, false, __ATOMIC_RELAXED);
  return unneeded >= PURGE_LEAST;
}

bool metadata_has_left(void)
{
  return __atomic_load_n(&dirty, __ATOMIC_RELAXED) >= PURGE_LEAST && !__atomic_load_n(&refused, __ATOMIC_RELAXED);
}

uint64_t metadata_purged_bytes(void) { return __atomic_load_n(&purged_total, __ATOMIC_RELAXED); }
size_t metadata_touched(void) { return __atomic_load_n(&touched, __ATOMIC_RELAXED); }
size_t metadata_mapped(void) { return __atomic_load_n(&mapped, __ATOMIC_RELAXED); }
size_t metadata_bytes(void) { return __atomic_load_n(&taken, __ATOMIC_RELAXED); }
