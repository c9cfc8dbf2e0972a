/* SPDX-License-Identifier: MIT
 *
 * Blocks of all sizes, in the heaps that all use: taken, resized, freed, and handed over. */
#include "races.h"

_Atomic(char *) seen[SEEN];
_Atomic(char *) board[BOARD];
_Atomic(pile_t *) piles[PILES];

static size_t some_size(uint64_t *dice)
{
  size_t n = below(dice, 1000);
  if (n < 600)
    return below(dice, 700);
  if (n < 800)
    return below(dice, 40 << 10);
  if (n < 950)
    return below(dice, 400 << 10);
  return below(dice, n < 990 ? 3 << 20 : 9 << 20);
}

static void put(racer_t *racer, kept_t *kept, pool_heap_t *heap, void *block, size_t size)
{
  must((uintptr_t)block % 16 == 0 && pool_usable_size(block) >= size);
  *kept = (kept_t){block, size, roll(&racer->dice), heap};
  racer->bytes += size;
  fill(kept);
  if (one_in(&racer->dice, 4))
    atomic_store_explicit(&seen[below(&racer->dice, SEEN)], kept->block, memory_order_relaxed);
}

void drop(racer_t *racer, kept_t *kept)
{
  if (!kept->block)
    return;
  verify(kept, kept->size);
  errno = 77;
  if (one_in(&racer->dice, 2))
    pool_heap_free(kept->heap, kept->block);
  else
    pool_free(kept->block);
  must(errno == 77);
  racer->bytes -= kept->size;
  kept->block = NULL;
}

void step_allocate(racer_t *racer, kept_t *kept)
{
  size_t size = some_size(&racer->dice), how = below(&racer->dice, 8);
  pool_heap_t *heap = some_heap(racer);
  bool is_default = heap == pool_heap_default();
  drop(racer, kept);
  unsigned at_first = atomic_load(&starving);
  char *block;
  errno = 77;
  if (how == 0)
    block = pool_heap_zalloc(heap, size);
  else if (how == 1)
    block = pool_heap_aligned_alloc(heap, (size_t)1 << below(&racer->dice, 17), size);
  else
    block = is_default ? pool_alloc(size) : pool_heap_alloc(heap, size);
  must(block ? errno == 77 : errno == ENOMEM);
  must(block || is_limited(heap) || excused(racer, at_first));
  if (!block) {
    racer->refused++;
    return;
  }
  for (size_t i = 0; how == 0 && i < size; i += step_at(i, size))
    must(block[i] == 0);
  put(racer, kept, heap, block, size);
}

void step_reallocate(racer_t *racer, kept_t *kept)
{
  if (!kept->block)
    return;
  size_t size = 1 + some_size(&racer->dice), had = kept->size;
  unsigned at_first = atomic_load(&starving);
  verify(kept, had);
  char *block = one_in(&racer->dice, 2) ? pool_realloc(kept->block, size) : pool_heap_realloc(kept->heap, kept->block, size);
  if (!block) {
    must(is_limited(kept->heap) || excused(racer, at_first));
    verify(kept, had);
    return;
  }
  kept->block = block;
  verify(kept, size < had ? size : had);
  racer->bytes -= had;
  put(racer, kept, kept->heap, block, size);
}

void step_resize(racer_t *racer, kept_t *kept)
{
  if (!kept->block)
    return;
  size_t size = 1 + below(&racer->dice, kept->size * 2 + 1), had = kept->size;
  if (!pool_resize_in_place(kept->block, size))
    return;
  verify(kept, size < had ? size : had);
  racer->bytes -= had;
  put(racer, kept, kept->heap, kept->block, size);
}

void step_free(racer_t *racer, kept_t *kept) { drop(racer, kept); }

/* A block of mine for one of somebody else's, or for none. */
void step_hand_over(racer_t *racer, kept_t *kept)
{
  if (kept->block && kept->size < sizeof(label_t))
    return;
  if (kept->block)
    racer->bytes -= kept->size;
  char *block = atomic_exchange(&board[below(&racer->dice, BOARD)], kept->block);
  *kept = (kept_t){0};
  if (!block)
    return;
  label_t label;
  memcpy(&label, block, sizeof label);
  *kept = (kept_t){block, label.size, label.key, pool_heap_of(block)};
  racer->bytes += kept->size;
  verify(kept, kept->size);
}

/* ---- by the hundred ---- */

void free_pile(pile_t *pile)
{
  for (pile_t *next; pile; pile = next) {
    next = pile->next;
    must(pile->count == (next ? next->count : 0) + 1);
    pool_free(pile);
  }
}

/* A pile of mine for one of somebody else's, which is freed. So whole magazines travel, and the depots fill. */
void step_pile(racer_t *racer, kept_t *kept)
{
  unsigned at_first = atomic_load(&starving);
  pile_t *pile = NULL;
  (void)kept;
  for (size_t left = below(&racer->dice, PILE_MOST); left--;) {
    pile_t *top = pool_alloc(PILE_BYTES);
    must(top || excused(racer, at_first));
    if (!top)
      break;
    *top = (pile_t){pile, (pile ? pile->count : 0) + 1};
    pile = top;
  }
  free_pile(atomic_exchange(&piles[below(&racer->dice, PILES)], pile));
}
