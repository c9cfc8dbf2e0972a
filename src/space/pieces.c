/* SPDX-License-Identifier: MIT
 *
 * A piece is found by its address, when its neighbours are given, and by its size, when one is taken. Its node in the tree and
 * its links on the shelf stand in the piece itself, so free memory needs no record elsewhere. */
#include "space/pieces.h"
#include "base/range_tree.h"
#include "os/os.h"

enum {
  STEPS_LOG2 = 2, /* four shelves to a doubling */
  SHELVES = 64    /* up to two pages of 1 MiB */
};

typedef struct piece {
  range_t range;               /* stands at its own start */
  struct piece *newer, *older; /* on its shelf */
} piece_t;
_Static_assert(sizeof(piece_t) <= PIECE_ALIGNMENT, "a piece has room for what is known of it");

static range_t *by_address;
static piece_t *shelves[SHELVES];
static uint64_t filled; /* a bit for each shelf that has a piece */

/* Returns the shelf that a piece of this size is on. If the size is the least of its shelf, every piece there is long enough
 * for it. */
static unsigned piece_shelf_of(size_t size)
{
  unsigned doubling = log2_floor(size);
  size_t step = (size >> (doubling - STEPS_LOG2)) & ((1 << STEPS_LOG2) - 1);
  return (unsigned)min_size((doubling - log2_floor(PIECE_ALIGNMENT)) << STEPS_LOG2 | step, SHELVES - 1);
}

/* A size of 0 is what remains where a record fits exactly. */
void pieces_enter(uintptr_t start, size_t size)
{
  if (!size)
    return;
  piece_t *piece = (piece_t *)start, **shelf = &shelves[piece_shelf_of(size)];
  *piece = (piece_t){.range = {.start = start, .size = size}, .older = *shelf};
  if (*shelf)
    (*shelf)->newer = piece;
  *shelf = piece;
  filled |= (uint64_t)1 << piece_shelf_of(size);
  range_insert(&by_address, &piece->range);
}

/* The size still says on which shelf the piece is. */
static void leave(piece_t *piece)
{
  unsigned shelf = piece_shelf_of(piece->range.size);
  *(piece->newer ? &piece->newer->older : &shelves[shelf]) = piece->older;
  if (piece->older)
    piece->older->newer = piece->newer;
  if (!shelves[shelf])
    filled &= ~((uint64_t)1 << shelf);
  range_remove(&by_address, &piece->range);
}

/* The neighbour at a border leaves. Returns its size; 0: there is none. */
static size_t absorb_piece(range_t *range, uintptr_t border)
{
  if (!range || (range->start != border && range->start + range->size != border))
    return 0;
  leave((piece_t *)range);
  return range->size;
}

/* Neighbours join before pages are looked for: a page is whole only together with them. What remains at the two ends is less
 * than a page each. */
size_t pieces_give(uintptr_t start, size_t size, uintptr_t *pages)
{
  size_t behind = absorb_piece(range_at_or_above(by_address, start + size), start + size);
  size_t before = absorb_piece(range_at_or_below(by_address, start - 1), start);
  uintptr_t end = start + size + behind;
  start -= before;
  uintptr_t first = round_up(start, os_page_size()), last = round_down(end, os_page_size());
  if (first >= last) {
    pieces_enter(start, end - start);
    return 0;
  }
  pieces_enter(start, first - start);
  pieces_enter(last, end - last);
  *pages = first;
  return last - first;
}

/* Takes from the first shelf that has a piece. All of its pieces are long enough, so nothing is searched. */
void *pieces_take(size_t size)
{
  uint64_t fits = filled >> piece_shelf_of(size) << piece_shelf_of(size);
  if (!fits)
    return NULL;
  piece_t *piece = shelves[lowest_of_64(fits)];
  uintptr_t start = piece->range.start;
  size_t rest = piece->range.size - size;
  leave(piece);
  pieces_enter(start + size, rest);
  return (void *)start;
}
