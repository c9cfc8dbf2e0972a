/* SPDX-License-Identifier: MIT
 *
 * A census has a bit for every block that an arena could ever have, so even a wrong entry has a bit of its own. The bitmaps
 * come from the system, a page at least for each arena. */
#include "check/census.h"
#include "heap/heap.h"

static census_t *censuses;
static size_t census_count, censuses_bytes;

/* The memory is the system's, so that the check changes nothing of what it checks. */
static void *map_memory(size_t bytes)
{
  void *memory = os_map(bytes, os_page_size());
  expect(memory != NULL, "memory", "there is none to check in", memory);
  return memory;
}

static size_t pages_for(size_t words) { return round_up(words * sizeof(word_t) + 1, os_page_size()); }
static size_t block_words(const arena_t *arena) { return (size_t)arena->used_end * LONG_BITMAP_WORDS; }
static size_t census_bytes(const arena_t *arena) { return pages_for(block_words(arena) + arena->used_end / WORD_BITS + 1); }

/* There are few arenas, so they are searched one by one. */
static census_t *census_of(const arena_t *arena)
{
  for (size_t i = 0; i < census_count; i++)
    if (censuses[i].arena == arena)
      return &censuses[i];
  return NULL;
}

/* An arena can be met twice: in a slot, and as the region of a heap. */
static void add_arena(arena_t *arena)
{
  if (!arena || census_of(arena))
    return;
  word_t *words = map_memory(census_bytes(arena));
  censuses[census_count++] = (census_t){arena, words, words + block_words(arena)};
}

/* The arenas in slots are counted beforehand, and with them one for each heap, so that the list of censuses is mapped once. */
void census_begin(const space_t *another)
{
  size_t most = window_slots_open() + 1;
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    most++;
  censuses_bytes = pages_for(most * sizeof *censuses / sizeof(word_t));
  censuses = map_memory(censuses_bytes);
  for (size_t slot = 0; slot < window_slots_open(); slot++)
    add_arena(space_arena_at(slot));
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    add_arena(heap_own_arena(heap));
  add_arena(another->own_arena);
}

void census_end(void)
{
  while (census_count--)
    os_unmap(censuses[census_count].blocks, census_bytes(censuses[census_count].arena));
  os_unmap(censuses, censuses_bytes);
  census_count = 0;
}

/* Returns the census of the arena in which `address` is, if it is in a taken unit there; NULL: it is not. The address is one
 * that a bin or a heap of the space has, but it need not be right. */
static census_t *census_around(const space_t *space, const void *address)
{
  census_t *census = census_of(arena_of(space, address));
  if (!census)
    return NULL;
  size_t unit = (size_t)((const char *)address - census->arena->base) >> UNIT_LOG2;
  return unit < census->arena->used_end && !bit_test(census->arena->room.map, unit) ? census : NULL;
}

/* A run that a list leads to must be a run of the space, and no other list may have led to it. */
void census_run(const space_t *space, const run_t *run, const char *name, const char *twice)
{
  census_t *census = census_around(space, run->start);
  expect(census && run_of(census->arena, run->start) == run, name, "a list leads to what is no run of its space", run);
  size_t unit = (size_t)(run - census->arena->runs);
  expect(!bit_test(census->runs, unit), name, twice, run->start);
  bit_set(census->runs, unit);
}

/* Everything is asked in an order in which no wrong entry can lead astray: is it in the space, in a slab of the bin, the start
 * of a block, and in no other place? */
void census_block(const bin_t *bin, const void *block, const char *name)
{
  census_t *census = census_around(bin->space, block);
  expect(census != NULL, name, "an entry lies outside the space of its bin", block);
  run_t *slab = run_of(census->arena, block);
  expect(slab->kind == RUN_SLAB && slab->owner == bin, name, "an entry is no block of its bin", block);
  size_t offset = (size_t)((const char *)block - slab->start), index = offset / bin->block_size;
  expect(offset % bin->block_size == 0 && index < slab->capacity, name, "an entry points inside a block", block);
  expect(index < slab->fresh, "S2", "an entry is a block beyond the fresh mark", block);
  expect(!bit_test(slab->bitmap, index), "S2", "an entry is a block that is free in its slab", block);
  word_t *seen = census->blocks + (size_t)(slab - census->arena->runs) * LONG_BITMAP_WORDS;
  expect(!bit_test(seen, index), "S2", "a block is in two magazines, or twice in one", block);
  bit_set(seen, index);
}

/* Counts off the entries from `top` down to the NULL that ends them, which is at word 1 or above. */
size_t census_entries(const bin_t *bin, void *const *top, const char *name)
{
  size_t n = 0;
  for (; (uintptr_t)top & (MAGAZINE_BYTES - 1); top--, n++) {
    if (!*top)
      return n;
    census_block(bin, *top, name);
  }
  violated_at(name, "the entries of a magazine run into its word 0", top);
}

void census_each(void (*visit)(const census_t *census, const void *context), const void *context)
{
  for (size_t i = 0; i < census_count; i++)
    visit(&censuses[i], context);
}
