/* SPDX-License-Identifier: MIT
 *
 * Nothing here believes a counter: what the manager keeps a count of is walked and counted anew.
 *
 * S2, that a block is in exactly one place, is checked by a census: beside each slab stands a bitmap of this file's own, every
 * magazine and depot is walked, and each entry met is counted off in the bitmap of its slab. A second census, a census for a block
 * that is free in its slab, and one at or beyond the fresh mark are blocks in two places. Blocks without a census, a bit or a
 * place beyond the mark are with callers, out of sight. Runs are counted in the same way by the lists they must be in. */
#include "check/check.h"
#include "base/text.h"

/* ---- how a violation is told ---- */

typedef struct line {
  text_t text;
  char   buffer[256];
} line_t;

static text_t *line_begin(line_t *line, const char *name, const char *what)
{
  line->text = (text_t){line->buffer, sizeof line->buffer - 1, 0};
  text_string(&line->text, "tidepool: check: ");
  text_string(&line->text, name);
  text_string(&line->text, " violated: ");
  text_string(&line->text, what);
  return &line->text;
}

static _Noreturn void line_end(line_t *line)
{
  size_t length = min_size(line->text.length, line->text.size);
  line->buffer[length++] = '\n';
  os_write_error(line->buffer, length);
  os_abort();
}

COLD static _Noreturn void violated_at(const char *name, const char *what, const void *where)
{
  line_t line;
  text_t *text = line_begin(&line, name, what);
  text_string(text, ": ");
  text_pointer(text, where);
  line_end(&line);
}

COLD static _Noreturn void violated_count(const char *name, const char *what, size_t kept, size_t counted)
{
  line_t line;
  text_t *text = line_begin(&line, name, what);
  text_string(text, ": ");
  text_number(text, kept);
  text_string(text, ", counted: ");
  text_number(text, counted);
  line_end(&line);
}

static void expect(bool holds, const char *name, const char *what, const void *where)
{
  if (unlikely(!holds))
    violated_at(name, what, where);
}

static void expect_count(size_t kept, size_t counted, const char *name, const char *what)
{
  if (unlikely(kept != counted))
    violated_count(name, what, kept, counted);
}

/* ---- censuses: for each arena a bit for each run and a bitmap for the blocks of each slab ---- */

typedef struct census {
  arena_t  *arena;
  uint64_t *blocks;   /* a bit for each that there could be */
  uint64_t *runs;
} census_t;

static census_t *censuses;
static size_t census_count, censuses_bytes;

static void *take_memory(size_t bytes)
{
  void *memory = os_map(bytes, os_page_size());
  expect(memory != NULL, "memory", "there is none to check in", memory);
  return memory;
}

static size_t pages_for(size_t words) { return round_up(words * sizeof(uint64_t) + 1, os_page_size()); }
static size_t block_words(const arena_t *arena) { return (size_t)arena->used_end * long_bitmap_words(arena->unit_log2); }
static size_t census_bytes(const arena_t *arena) { return pages_for(block_words(arena) + arena->used_end / WORD_BITS + 1); }

static census_t *census_of(const arena_t *arena)
{
  for (size_t i = 0; i < census_count; i++)
    if (censuses[i].arena == arena)
      return &censuses[i];
  return NULL;
}

static void add_tick(arena_t *arena)
{
  if (!arena || census_of(arena))
    return;
  uint64_t *words = take_memory(census_bytes(arena));
  censuses[census_count++] = (census_t){arena, words, words + block_words(arena)};
}

/* Those of all heaps, and of one space that may be no heap's. */
static void ticks_open(const space_t *another)
{
  size_t most = window_slots_open() + 1;
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    most++;
  censuses_bytes = pages_for(most * sizeof *censuses / sizeof(uint64_t));
  censuses = take_memory(censuses_bytes);
  for (size_t slot = 0; slot < window_slots_open(); slot++)
    add_tick(space_arena_at(slot));
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    add_tick(heap->own_space.fixed);
  add_tick(another->fixed);
}

static void ticks_close(void)
{
  while (census_count--)
    os_unmap(censuses[census_count].blocks, census_bytes(censuses[census_count].arena));
  os_unmap(censuses, censuses_bytes);
  census_count = 0;
}

/* The censuses of the arena that `address`, in memory of a bin or heap of the space, is in a taken unit of; NULL: it is not. */
static census_t *census_around(const space_t *space, const void *address)
{
  census_t *census = census_of(arena_of(space, address));
  if (!census)
    return NULL;
  size_t unit = (size_t)((const char *)address - census->arena->base) >> census->arena->unit_log2;
  return unit < census->arena->used_end && !bit_test(census->arena->room.map, unit) ? census : NULL;
}

static void census_run(const space_t *space, const run_t *run, const char *name, const char *twice)
{
  census_t *census = census_around(space, run->start);
  expect(census && run_of(census->arena, run->start) == run, name, "a list leads to what is no run of its space", run);
  size_t unit = (size_t)(run - census->arena->runs);
  expect(!bit_test(census->runs, unit), name, twice, run->start);
  bit_set(census->runs, unit);
}

static void census_block(const bin_t *bin, const void *block, const char *name)
{
  census_t *census = census_around(bin->space, block);
  expect(census != NULL, name, "an entry lies outside the space of its bin", block);
  run_t *slab = run_of(census->arena, block);
  expect(slab->kind == RUN_SLAB && slab->owner == bin, name, "an entry is no block of its bin", block);
  size_t offset = (size_t)((const char *)block - slab->start), index = offset / bin->block_size;
  expect(offset % bin->block_size == 0 && index < slab->capacity, name, "an entry points inside a block", block);
  expect(index < slab->fresh, "S2", "an entry is a block beyond the fresh mark", block);
  expect(!bit_test(slab->bitmap, index), "S2", "an entry is a block that is free in its slab", block);
  uint64_t *seen = census->blocks + (size_t)(slab - census->arena->runs) * long_bitmap_words(census->arena->unit_log2);
  expect(!bit_test(seen, index), "S2", "a block is in two magazines, or twice in one", block);
  bit_set(seen, index);
}

/* ---- A and B: arenas ---- */

/* Written anew, not span_tree.c's own: the three lengths by looking at every bit of [from, to). */
static uint64_t node_for(const uint64_t *map, size_t from, size_t to)
{
  size_t low = 0, run = 0, longest = 0;
  for (size_t i = from; i < to; i++) {
    run = bit_test(map, i) ? run + 1 : 0;
    low += run == i + 1 - from;
    longest = max_size(longest, run);
  }
  return low | (uint64_t)run << SPAN_LENGTH_BITS | (uint64_t)longest << (2 * SPAN_LENGTH_BITS);
}

/* The words' nodes by their bits, and one way up the tree by all the bits below, another one each time. An arena whose first unit is
 * somebody else's has no words. */
static void check_tree(const arena_t *arena)
{
  static size_t turn;
  const span_tree_t *tree = &arena->room;
  size_t words = (arena->unit_count + WORD_BITS - 1) / WORD_BITS, bits = WORD_BITS;
  for (size_t w = 0; w < words; w++)
    expect(tree->node[tree->leaves + w] == node_for(tree->map, w * WORD_BITS, (w + 1) * WORD_BITS), "F1", "a word's node is wrong", &tree->map[w]);
  for (size_t i = words ? tree->leaves + turn++ % words : 0; i; i /= 2, bits *= 2) {
    size_t first = i, level = 1;
    while (first > 1) {
      first /= 2;
      level *= 2;
    }
    size_t from = (i - level) * bits, end = words * WORD_BITS, missing = from + bits > end;
    uint64_t node = tree->node[i], counted = from >= end ? 0 : node_for(tree->map, from, min_size(from + bits, end));
    if (missing)   /* what lies beyond the map is clear, so nothing reaches the high end */
      counted &= ~(((uint64_t)1 << (2 * SPAN_LENGTH_BITS)) - ((uint64_t)1 << SPAN_LENGTH_BITS));
    expect(node == counted, "F1", "a node is wrong", &tree->node[i]);
  }
}

static void check_sets(const arena_t *arena)
{
  size_t end = arena->unit_count;
  for (size_t w = 0; w < (end + WORD_BITS - 1) / WORD_BITS; w++) {
    expect(!(arena->start[w] & arena->room.map[w]), "A1", "a run starts at a free unit", &arena->start[w]);
    expect(!(arena->dirty[w] & ~arena->room.map[w]), "A1", "a unit in use is dirty", &arena->dirty[w]);
  }
  expect(bits_next_set(arena->dirty, arena->committed, end) == end, "A1", "a unit beyond committed is dirty", arena);
  expect(bits_next_clear(arena->room.map, arena->committed, end) == end, "A1", "a unit beyond committed is in use", arena);
  expect(bits_next_clear(arena->room.map, arena->used_end, end) == end, "arena.used_end", "a unit beyond it is in use", arena);
  expect(!arena->slots || bits_next_set(arena->dirty, arena->used_end, end) == end, "arena.used_end", "a unit beyond it is dirty", arena);
  expect_count(arena->dirty_count, bits_count(arena->dirty, 0, end), "A4", "dirty units of an arena");
  expect(bits_next_set(arena->dirty, arena->dirty_end, end) == end, "A4", "a unit beyond dirty_end is dirty", arena);
  check_tree(arena);
}

static size_t arena_count(const space_t *space) { return space->fixed ? 1 : window_slots_open(); }

/* NULL: the slot is not the space's. */
static arena_t *arena_at(const space_t *space, size_t i)
{
  arena_t *arena = space->fixed ? space->fixed : space_arena_at(i);
  return arena && arena->space == space ? arena : NULL;
}

/* The run at `unit` or the next one above; NULL: no more. Written anew, not arena.c's own. */
static run_t *run_from(const arena_t *arena, size_t unit)
{
  while (unit < arena->used_end && !bit_test(arena->start, unit))
    unit++;
  return unit < arena->used_end ? &arena->runs[unit] : NULL;
}

static size_t unit_behind(const arena_t *arena, const run_t *run) { return (size_t)(run - arena->runs) + run->units; }

/* Between the runs everything is free, in them nothing is. */
static void check_runs(const arena_t *arena)
{
  size_t unit = 0;
  for (run_t *run; (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run)) {
    size_t at = (size_t)(run - arena->runs), end = unit_behind(arena, run);
    expect(bits_next_clear(arena->room.map, unit, at) == at, "A2", "a unit in use belongs to no run", run->start);
    expect(run->units && end <= arena->used_end, "A2", "a run has no units, or too many", run->start);
    expect(bits_next_set(arena->room.map, at, end) == end, "A2", "a run reaches into free units", run->start);
    expect(bits_next_set(arena->start, at + 1, end) == end, "A2", "a run starts inside another", run->start);
    expect(run->start == arena->base + (at << arena->unit_log2), "A2", "a run is not where its descriptor is", run->start);
  }
  expect(bits_next_clear(arena->room.map, unit, arena->unit_count) == arena->unit_count, "A2",
         "a unit behind the last run is in use", arena);
}

static void check_units(const space_t *space)
{
  size_t used = 0, dirty = 0;
  for (size_t i = 0; i < arena_count(space); i++) {
    const arena_t *arena = arena_at(space, i);
    size_t end = arena ? arena->unit_count : 0;
    used += end - (arena ? bits_count(arena->room.map, 0, end) : 0);
    dirty += arena ? bits_count(arena->dirty, 0, end) : 0;
    expect(!arena || space->fixed || space_longest_in(i) == span_longest(&arena->room), "A3", "the longest free stretch is another", arena);
  }
  expect_count(space->used_units, used, "A3", "units in use");
  expect_count(space->dirty_units, dirty, "A3", "dirty units");
}

/* ---- S1 and M1: slabs, what the class map says of them and of everything else ---- */

static void check_slab(const arena_t *arena, const run_t *slab)
{
  const bin_t *bin = slab->owner;
  expect(run_bytes(arena, slab) >= bin->block_size && slab->size_class == bin->size_class, "S1",
         "a slab is not like its bin's", slab->start);
  size_t most = arena->long_bitmaps ? SIZE_MAX : SHORT_BITMAP_WORDS * WORD_BITS;
  expect_count(slab->capacity, min_size(run_bytes(arena, slab) / bin->block_size, most), "S1", "capacity of a slab");
  expect_count(slab->quarter, slab->capacity / 4, "S1", "a quarter of a slab");
  expect_count(slab->free_count, bits_count(slab->bitmap, 0, slab->capacity), "S1", "free blocks of a slab");
  expect(!(slab->purged & ~slab->bitmap[0]) && (!slab->purged || slab->capacity <= WORD_BITS), "S3", "a purged block is not free", slab->start);
  expect(slab->free_count <= slab->fresh && slab->fresh <= slab->capacity, "S1",
         "more free than fresh blocks, or more than there are", slab->start);
  size_t words_end = round_up(slab->capacity, WORD_BITS);
  expect(bits_next_set(slab->bitmap, slab->fresh, words_end) == words_end, "S1", "a bit is set beyond the fresh mark", slab->start);
}

static void check_map(const char *from, const char *to, unsigned front, unsigned heap)
{
  for (const char *at = from; at < to; at += UNIT) {
    expect(class_map_of(at) == front, "M1", "the default plane has a wrong class", at);
    expect(class_map_of_heap_block(at) == heap, "M1", "the heap plane has a wrong class", at);
  }
}

static bool is_in_map(const arena_t *arena) { return arena->slots != 0; }

static void check_map_of_free(const arena_t *arena, const char *from, const char *to)
{
  if (is_in_map(arena))
    check_map(from, to, 0, 0);
}

static void check_map_of_run(const arena_t *arena, const run_t *run, const char *end)
{
  const bin_t *bin = run->kind == RUN_SLAB ? run->owner : NULL;
  unsigned plane = bin ? bin->plane : BIN_PLANE_NONE;
  if (is_in_map(arena))
    check_map(run->start, end, plane == BIN_PLANE_DEFAULT ? run->size_class : 0, plane == BIN_PLANE_HEAP ? run->size_class : 0);
}

static void check_arena_contents(const arena_t *arena)
{
  const char *mapped = is_in_map(arena) ? window_slot(arena->slot) : arena->base;
  size_t unit = 0;
  for (run_t *run; (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run)) {
    const char *end = run->start + run_bytes(arena, run);
    expect(run->kind == RUN_SLAB || run->kind == RUN_LARGE || run->kind == RUN_SPARE || run->kind == RUN_REGION, "A2", "a run is of no kind", run->start);
    expect(run->owner || run->kind == RUN_REGION, "A2", "a run has no owner", run->start);
    if (run->kind == RUN_SLAB)
      check_slab(arena, run);
    check_map_of_free(arena, mapped, run->start);
    check_map_of_run(arena, run, end);
    mapped = end;
  }
  check_map_of_free(arena, mapped, arena->base + ((size_t)arena->unit_count << arena->unit_log2));
}

bool check_space(space_t *space)
{
  for (size_t i = 0; i < arena_count(space); i++) {
    const arena_t *arena = arena_at(space, i);
    if (!arena)
      continue;
    check_sets(arena);
    check_runs(arena);
    check_arena_contents(arena);
  }
  check_units(space);
  return true;
}

/* ---- P: bins ---- */

/* Written anew, not bin.c's own. */
static unsigned list_for(const run_t *slab, bool reset)
{
  if (reset && slab->fresh == 0)
    return SLAB_RESET;
  if (slab->free_count == 0)
    return SLAB_FULL;
  for (unsigned list = SLAB_PARTIAL_1; list < SLAB_PARTIAL_4; list++)
    if (slab->free_count <= list * slab->quarter)
      return list;
  return SLAB_PARTIAL_4;
}

static void check_listed_slab(const bin_t *bin, const run_t *slab, unsigned list)
{
  census_run(bin->space, slab, "B2", "a slab is in two lists, or twice in one");
  expect(slab->kind == RUN_SLAB && slab->owner == bin, "B2", "a list has a slab of another bin", slab);
  expect(slab->list == list && list_for(slab, list == SLAB_RESET) == list, "B2",
         "a slab is in a list its free count does not say", slab->start);
  expect(slab->fresh == slab->capacity || slab == bin->current || list == SLAB_RESET, "B2",
         "a slab that is neither the current one nor reset has fresh blocks", slab->start);
  expect(slab != bin->current || list != SLAB_RESET, "B2", "the current slab is among the reset ones", slab->start);
}

static void check_slab_lists(bin_t *bin)
{
  size_t slabs = 0, partial = 0, capacity = 0, out = 0, idle = 0;
  bool current = false;
  for (unsigned list = 0; list < SLAB_LISTS; list++) {
    const run_t *previous = NULL;
    for (run_t *slab = bin->slabs[list]; slab; previous = slab, slab = slab->next) {
      check_listed_slab(bin, slab, list);
      expect(slab->previous == previous, "B2", "a list does not lead back", slab->start);
      slabs++;
      partial += list >= SLAB_PARTIAL_1 && list <= SLAB_PARTIAL_4;
      capacity += slab->capacity;
      out += slab->fresh - slab->free_count;
      idle += bin->purges ? slab_idle(slab) : 0;
      current |= slab == bin->current;
    }
  }
  expect(current || !bin->current, "B2", "the current slab is in no list", bin->current);
  expect_count(bin->slab_count, slabs, "B2", "slabs of a bin");
  expect_count(bin->partial_count, partial, "B2", "partial slabs of a bin");
  expect_count(bin->capacity, capacity, "B2", "capacity of a bin");
  expect_count(bin->outstanding, out, "B1", "blocks out of the slabs");
  expect_count(bin->idle, idle, "B3", "free blocks that hold memory");
}

/* Ticks the entries from `top` down to the NULL that ends them, which is at word 1 or above. */
static size_t census_entries(const bin_t *bin, void *const *top, const char *name)
{
  size_t n = 0;
  for (; (uintptr_t)top & (MAGAZINE_BYTES - 1); top--, n++) {
    if (!*top)
      return n;
    census_block(bin, *top, name);
  }
  violated_at(name, "the entries of a magazine run into its word 0", top);
}

static void check_depot(const bin_t *bin, const depot_t *depot)
{
  size_t count = 0;
  for (void **magazine = depot->newest; magazine; magazine = magazine_below(magazine), count++) {
    expect(count < depot->count, "D1", "more magazines in the depot than counted, or a cycle", magazine);
    expect(census_entries(bin, magazine_top(magazine), "D1") > 0, "D1", "an empty magazine in the depot", magazine);
  }
  expect_count(depot->count, count, "D1", "magazines in the depot");
  expect(depot->low <= count && count <= depot->high, "D1", "a depot beyond its own low or high mark", depot);
}

static void check_depots(const bin_t *bin)
{
  size_t count = 0;
  for (const depot_t *depot = bin->depots.of; depot < depots_end(&bin->depots); depot++) {
    check_depot(bin, depot);
    count += depot->count;
  }
  expect_count(bin->depots.count, count, "D1", "magazines in all depots");
}

static void check_bin_lists(bin_t *bin)
{
  expect(bin->magazine_capacity >= 2 && bin->magazine_capacity <= MAGAZINE_CAPACITY_MOST, "D1", "a size no magazine can have", bin);
  check_slab_lists(bin);
  check_depots(bin);
}

bool check_bin(bin_t *bin)
{
  check_space(bin->space);
  ticks_open(bin->space);
  check_bin_lists(bin);
  ticks_close();
  return true;
}

/* ---- C and T: the magazines of threads ---- */

static void check_stock(const bin_t *bin, const stock_t *stock)
{
  size_t count = 0;
  for (void **magazine = stock->full; magazine; magazine = magazine_below(magazine), count++) {
    expect(count < stock->count, "C2", "more magazines in a stock than counted, or a cycle", magazine);
    expect(census_entries(bin, magazine + MAGAZINE_WORDS - 1, "C1") > 0, "C2", "a magazine in a stock is not full", magazine);
  }
  expect_count(stock->count, count, "C2", "magazines in the stock");
}

static void check_loaded(const bin_t *bin, const loaded_t *loaded)
{
  void **slot = loaded->below;
  if (slot == MAGAZINE_SENTINEL) {
    expect(!loaded->top, "C1", "an entry without a magazine", loaded->top);
    return;
  }
  if (!loaded->top) {
    expect(!slot[1], "C1", "an empty magazine has no NULL at its floor", slot);
    return;
  }
  census_block(bin, loaded->top, "C1");
  census_entries(bin, slot, "C1");
}

static void check_magazines(const heap_t *heap, const magazines_t *magazines)
{
  for (unsigned c = 0; c <= CLASS_CACHED; c++) {
    const loaded_t *loaded = &magazines->cache->of[c];
    if (c && heap->bins[c] && heap->bins[c]->cached) {
      check_loaded(heap->bins[c], loaded);
      check_stock(heap->bins[c], &magazines->of[c]);
    } else {
      expect(!loaded->top && loaded->below == MAGAZINE_SENTINEL && !magazines->of[c].full, "C1",
             "a magazine of a class that has none", loaded);
    }
  }
}

static void check_magazines_of_heap(const heap_t *heap)
{
  for (thread_t *thread = threads_first(); thread; thread = thread->next) {
    if (heap == &default_heap)
      check_magazines(heap, &thread->default_magazines);
    for (const heap_cache_t *cache = NULL; (cache = thread_next_cache(thread, cache)) != NULL;)
      if (cache->heap == heap)
        check_magazines(heap, &cache->magazines);
  }
}

static bool is_heap(const heap_t *wanted)
{
  heap_t *heap = heaps_first();
  while (heap && heap != wanted)
    heap = heap->next;
  return heap != NULL;
}

static bool has_cache(const thread_t *thread, const heap_t *heap, const cache_t *cache)
{
  const magazines_t *magazines = thread_magazines_if_any(thread, heap);
  return magazines && magazines->cache == cache;
}

static const heap_cache_t *cache_at(const cache_t *cache)
{
  return (const heap_cache_t *)((const char *)cache - offsetof(heap_cache_t, cache));
}

static void check_caches(const thread_t *thread)
{
  size_t caches = 0, due = 0;
  for (const heap_cache_t *cache = NULL; (cache = thread_next_cache(thread, cache)) != NULL; caches++) {
    expect(is_heap(cache->heap), "thread.chains", "a cache of a heap that is gone", cache->heap);
    expect(thread_magazines_if_any(thread, cache->heap) == &cache->magazines, "thread.chains", "two caches of one heap, or one in a wrong chain", cache->heap);
    expect(!cache->reach_link || *cache->reach_link == cache, "heap.reach", "the list does not lead back", cache);
    expect(cache->reach_link || !cache->heap->reached || !magazines_any(&cache->magazines), "heap.reach",
           "what nobody will reach for", cache->heap);
    expect(cache->due || !magazines_any(&cache->magazines), "thread.due_first", "a cache that no census will look at", cache->heap);
  }
  expect_count(thread->cache_count, caches, "thread.chains", "caches of heaps");
  for (const heap_cache_t *cache = thread->due_first; cache; cache = cache->due_next, due++) {
    expect(cache->due && (cache->due_next ? cache->due_next->due_previous : thread->due_last) == cache, "thread.due_first", "the list does not lead back", cache);
    expect(thread_magazines_if_any(thread, cache->heap) == &cache->magazines, "thread.due_first", "a cache that the thread has not", cache);
  }
  expect_count(thread->due_count, due, "thread.due_first", "caches that are due");
  for (size_t i = 0; i < CACHE_SLOTS; i++) {
    uintptr_t at = (uintptr_t)thread->heap_at[i];
    heap_t *heap = (heap_t *)(at & ~(uintptr_t)1);
    if (heap && thread->heap_at[i] != NOT_A_HEAP) {
      expect(cache_slot_of(heap) == i && has_cache(thread, heap, thread->cache_at[i]), "thread.heap_at", "a place without its cache", heap);
      expect(heap->reached == (at & 1), "thread.heap_at", "a place that others may or may not reach into", heap);
      expect(!heap->reached || cache_at(thread->cache_at[i])->reach_link, "heap.reach", "a place that nobody will reach into", heap);
    }
  }
}

static void check_threads(void)
{
  size_t threads = 0;
  bool self = !thread_is_usable(thread_self);
  const thread_t *previous = NULL;
  for (thread_t *thread = threads_first(); thread; previous = thread, thread = thread->next, threads++) {
    expect(thread->previous == previous, "T1", "the list of threads does not lead back", thread);
    expect(thread_is_usable(thread), "T1", "a thread that has ended is in the list", thread);
    self |= thread == thread_self;
    check_caches(thread);
  }
  expect(self, "T1", "the calling thread is not in the list", thread_self);
  expect_count(bin_threads, max_size(threads, 1), "T1", "threads");
  for (unsigned i = 0; i < MAGAZINE_WORDS; i++)
    expect(!magazine_sentinel[i], "C1", "something is in the magazine that is empty and full", magazine_sentinel[i]);
}

/* ---- H: heaps ---- */

static bool is_prepaid(const space_t *space, const run_t *run) { return arena_of(space, run->start)->space->prepaid; }

static size_t check_bins(const heap_t *heap)
{
  size_t charged = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    bin_t *bin = heap->bins[c];
    if (!bin)
      continue;
    expect(c < heap->bins_end, "H1", "a bin is beyond the end of the heap's bins", bin);
    expect(bin->size_class == c && bin->heap == heap && bin->space == heap->space && bin->budget == &heap->budget, "H1",
           "a bin is not where its class says", bin);
    expect_count(bin->block_size, heap->class_count ? heap->class_sizes[c] : size_class_size(c), "H1", "block size of a bin");
    check_bin_lists(bin);
    for (unsigned list = 0; list < SLAB_LISTS; list++)
      for (run_t *slab = bin->slabs[list]; slab; slab = slab->next)
        charged += is_prepaid(bin->space, slab) ? 0 : run_bytes(arena_of(bin->space, slab->start), slab);
  }
  return charged;
}

typedef struct large { size_t blocks, usable, held, charged, spares; } large_t;

static void add_large_runs(const heap_t *heap, large_t *sum)
{
  const run_t *previous = NULL;
  for (run_t *run = heap->large; run; previous = run, run = run->next) {
    census_run(heap->space, run, "H3", "a large run is in two lists, or twice in one");
    expect((run->kind == RUN_LARGE || run->kind == RUN_SPARE) && run->owner == heap, "H3", "the list has a run that is not the heap's", run);
    expect(run->previous == previous, "H3", "the list of large runs does not lead back", run->start);
    size_t held = run_bytes(arena_of(heap->space, run->start), run);
    expect(run->size && run->size <= held, "H3", "a large block is larger than its run", run->start);
    sum->charged += is_prepaid(heap->space, run) ? 0 : held;
    sum->held += held;
    sum->spares += run->kind == RUN_SPARE;
    sum->blocks += run->kind == RUN_LARGE;
    sum->usable += run->kind == RUN_LARGE ? run->size : 0;
  }
}

/* The spares of all threads are the default heap's. */
static size_t count_spares(void)
{
  size_t spares = 0;
  for (thread_t *thread = threads_first(); thread; thread = thread->next) {
    uint32_t units = 0;
    for (unsigned i = 0; i < SPARE_UNITS_MOST; i++)
      for (unsigned k = 0; k < SPARE_DEPTH; k++) {
        const run_t *run = thread->spares.of[i][k];
        expect(!run == (k >= thread->spares.count[i]), "H3", "more or fewer spares than counted", thread);
        expect(!run || (run->kind == RUN_SPARE && run->units == i + 1), "H3", "a spare that is none", run);
        units += run ? i + 1 : 0;
        spares += run != NULL;
      }
    expect_count(thread->spares.units, units, "H3", "units of a thread's spares");
  }
  return spares;
}

static void add_huge_blocks(const heap_t *heap, large_t *sum)
{
  const char *from = NULL;
  size_t blocks = 0, listed = 0;
  for (huge_t *huge; (huge = huge_next(heap, from)) != NULL; from = huge_start(huge) + 1) {
    const char *start = huge_start(huge), *last = start + huge_size(huge) - 1;
    expect(window_slot_of(start) >= window_slots_open() && window_slot_of(last) >= window_slots_open(), "H3", "a huge block lies in the window", start);
    expect(start > from || !from, "H3", "huge blocks are not in order", start);
    sum->blocks++;
    sum->usable += huge_size(huge);
    sum->charged += huge_size(huge);
    sum->held += huge_size(huge);
    blocks++;
  }
  for (const huge_t *huge = heap->huge; huge; huge = huge->older, listed++)
    expect(*huge->link == huge && huge->owner == heap, "H3", "a huge block is not in the list of its heap", huge_start(huge));
  expect_count(listed, blocks, "H3", "huge blocks in the list of their heap");
}

/* Mappings that are kept belong to nobody. */
static void check_kept(void)
{
  size_t bytes = 0;
  const char *from = NULL;
  for (huge_t *huge; (huge = huge_next(NULL, from)) != NULL; from = huge_start(huge) + 1)
    bytes += huge->clean ? 0 : huge_size(huge);
  expect_count(huge_kept_bytes(), bytes, "H3", "bytes of mappings that are kept");
}

/* What a heap's children hold counts in the heap too. */
static size_t held_by_children(const heap_t *heap)
{
  size_t bytes = 0;
  for (heap_t *child = heaps_first(); child; child = child->next)
    if (child->budget.parent == &heap->budget)
      bytes += budget_held(&child->budget);
  return bytes;
}

/* Runs that hold records of a guest. */
static size_t record_runs(const heap_t *heap)
{
  const arena_t *arena = heap->own_space.fixed;
  size_t bytes = 0, unit = 0;
  for (run_t *run; arena && (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run))
    bytes += run->kind == RUN_REGION ? run_bytes(arena, run) : 0;
  return bytes;
}

static void check_region(const heap_t *heap)
{
  const run_t *run = heap->region_run;
  if (run) {
    census_run(&space_of_process, run, "A2", "two heaps in one region");
    expect(run->kind == RUN_REGION && run->owner == heap && heap->region == run->start, "A2", "the region of a heap is not its own", heap);
  }
  expect(!heap->region_huge || (heap->region_huge->is_region && heap->region_huge->owner == heap), "A2", "the region of a heap is not its own", heap);
}

static void check_budget(const heap_t *heap, size_t counted)
{
  const budget_t *budget = &heap->budget;
  counted += heap->head_bytes + heap->record_bytes + record_runs(heap) + held_by_children(heap);
  expect_count(budget->held, counted, "H2", "bytes held");
  expect(!budget->limit || budget->held <= budget->limit, "H2", "more is held than the budget allows", heap);
  expect_count(budget->below, held_by_children(heap), "H2", "bytes held by children");
  expect(budget->held <= budget->peak, "H2", "more is held than the most that ever was", heap);
}

static void check_heap_lists(const heap_t *heap)
{
  large_t large = {0};
  expect(heap->mark == HEAP_LIVE_MARK, "H1", "a heap that was destroyed is in the list", heap);
  size_t slabs = check_bins(heap);
  add_large_runs(heap, &large);
  add_huge_blocks(heap, &large);
  check_region(heap);
  size_t blocks = heap->large_blocks, bytes = heap->large_bytes;
  for (thread_t *thread = heap == &default_heap ? threads_first() : NULL; thread; thread = thread->next) {
    blocks += thread->spares.live_blocks;
    bytes += thread->spares.live_bytes;
  }
  expect_count(blocks, large.blocks, "H3", "large blocks");
  expect_count(bytes, large.usable, "H3", "bytes of large blocks");
  expect_count(heap->large_held, large.held, "H3", "bytes that large blocks take");
  expect_count(heap == &default_heap ? count_spares() : 0, large.spares, "H3", "spare runs");
  check_budget(heap, slabs + large.charged);
  check_magazines_of_heap(heap);
}

static const heap_t *heap_of_run(const run_t *run)
{
  return run->kind == RUN_SLAB ? ((const bin_t *)run->owner)->heap : run->owner;
}

/* The invariant that says in which list of its heap a run is. */
static const char *name_of_list(const run_t *run) { return run->kind == RUN_SLAB ? "B2" : run->kind == RUN_REGION ? "A2" : "H3"; }

/* Every run of a heap (NULL: of any) was counted by a list, but for the records of guests. */
static void check_all_counted(const heap_t *heap)
{
  for (census_t *census = censuses; census < censuses + census_count; census++) {
    size_t unit = 0;
    for (run_t *run; (run = run_from(census->arena, unit)) != NULL; unit = unit_behind(census->arena, run)) {
      const heap_t *owner = heap_of_run(run);
      expect(owner || census->arena->space->fixed, "A2", "a run of the process is nobody's", run->start);
      if (owner && (!heap || owner == heap))
        expect(bit_test(census->runs, (size_t)(run - census->arena->runs)), name_of_list(run), "a run is in no list", run->start);
    }
  }
}

static void check_spaces(void)
{
  check_space(&space_of_process);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (heap->own_space.fixed)
      check_space(&heap->own_space);
}

static void check_list_of_heaps(void)
{
  const heap_t *previous = NULL;
  for (heap_t *heap = heaps_first(); heap; previous = heap, heap = heap->next)
    expect(heap->previous == previous, "heap.next", "the list of heaps does not lead back", heap);
}

static void check_users(void)
{
  for (heap_t *heap = heaps_first(); heap; heap = heap->next) {
    size_t users = 0;
    for (heap_t *other = heaps_first(); other; other = other->next)
      users += (other->parent == heap) + (other->overflow == heap);
    expect_count(heap->users, users, "heap.users", "heaps whose parent or overflow it is");
  }
}

/* One heap, or all. */
static bool check_heaps(const heap_t *only)
{
  check_list_of_heaps();
  check_users();
  check_threads();
  check_spaces();
  check_kept();
  ticks_open(&space_of_process);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (heap->space && (!only || heap == only))
      check_heap_lists(heap);
  check_all_counted(only);
  ticks_close();
  return true;
}

bool check_heap(heap_t *heap) { return check_heaps(heap); }
bool check_everything(void) { return check_heaps(NULL); }
