/* SPDX-License-Identifier: MIT
 *
 * Nothing here believes a counter: what the manager keeps a count of is walked and counted anew.
 *
 * S2, that a block is in exactly one place, is checked by ticking: beside each slab stands a bitmap of this file's own, every
 * magazine and depot is walked, and each entry met is ticked off in the bitmap of its slab. A second tick, a tick for a block
 * that is free in its slab, and one at or beyond the fresh mark are blocks in two places. Blocks without a tick, bit or place beyond the
 * mark are with callers, out of sight. Runs are ticked in the same way by the lists they must be in. */
#include "check.h"
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

/* ---- ticks: for each arena of one space, a bit for each run and a bitmap for the blocks of each slab ---- */

typedef struct ticks {
  space_t *space;
  uint64_t *blocks[ARENA_LIMIT];   /* LONG_BITMAP_WORDS for each unit; the bits of the runs stand behind them */
} ticks_t;

static ticks_t ticks;

static uint32_t arena_count(const space_t *space) { return space->fixed ? 1 : space->arena_count; }
static arena_t *arena_at(const space_t *space, uint32_t i) { return space->fixed ? space->fixed : space->arenas[i]; }

static size_t ticks_bytes(const arena_t *arena)
{
  size_t words = (size_t)arena->used_end * LONG_BITMAP_WORDS + arena->used_end / WORD_BITS + 1;
  return round_up(words * sizeof(uint64_t), os_page_size());
}

static void ticks_open(space_t *space)
{
  ticks.space = space;
  for (uint32_t i = 0; i < arena_count(space); i++) {
    size_t bytes = ticks_bytes(arena_at(space, i));
    ticks.blocks[i] = os_reserve(bytes, os_page_size());
    expect(ticks.blocks[i] && os_commit(ticks.blocks[i], bytes), "memory", "there is none to check in", space);
  }
}

static void ticks_close(void)
{
  for (uint32_t i = 0; i < arena_count(ticks.space); i++)
    os_release(ticks.blocks[i], ticks_bytes(arena_at(ticks.space, i)));
}

/* The arena of the space that `address` is in a taken unit of, or NULL. */
static arena_t *arena_around(const space_t *space, const void *address, uint32_t *number)
{
  for (uint32_t i = 0; i < arena_count(space); i++) {
    arena_t *arena = arena_at(space, i);
    size_t unit = (size_t)((const char *)address - arena->base) >> arena->unit_log2;
    if ((const char *)address >= arena->base && unit >= arena->first_unit && unit < arena->used_end) {
      *number = i;
      return bit_test(arena->free, unit) ? NULL : arena;
    }
  }
  return NULL;
}

static uint64_t *block_ticks(uint32_t arena, size_t unit) { return ticks.blocks[arena] + unit * LONG_BITMAP_WORDS; }
static uint64_t *run_ticks(uint32_t arena) { return block_ticks(arena, arena_at(ticks.space, arena)->used_end); }

static void tick_run(const run_t *run, const char *name, const char *twice)
{
  uint32_t number = 0;
  arena_t *arena = arena_around(ticks.space, run->start, &number);
  expect(arena && run >= arena->runs && run < arena->runs + arena->used_end && run_of(arena, run->start) == run, name,
         "a list leads to what is no run of its space", run);
  size_t unit = (size_t)(run - arena->runs);
  expect(!bit_test(run_ticks(number), unit), name, twice, run->start);
  bit_set(run_ticks(number), unit);
}

static void tick_block(const pool_t *pool, const void *block, const char *name)
{
  uint32_t number = 0;
  arena_t *arena = arena_around(ticks.space, block, &number);
  expect(arena != NULL, name, "an entry lies outside the space of its pool", block);
  run_t *slab = run_of(arena, block);
  expect(slab->kind == RUN_SLAB && slab->owner == pool, name, "an entry is no block of its pool", block);
  size_t offset = (size_t)((const char *)block - slab->start), index = offset / pool->block_size;
  expect(offset % pool->block_size == 0 && index < slab->capacity, name, "an entry points inside a block", block);
  expect(index < slab->fresh, "S2", "an entry is a block beyond the fresh mark", block);
  expect(!bit_test(slab->bitmap, index), "S2", "an entry is a block that is free in its slab", block);
  uint64_t *seen = block_ticks(number, (size_t)(slab - arena->runs));
  expect(!bit_test(seen, index), "S2", "a block is in two magazines, or twice in one", block);
  bit_set(seen, index);
}

/* ---- A: arenas ---- */

static void check_sets(const arena_t *arena)
{
  uint32_t end = arena->unit_count;
  for (uint32_t w = 0; w < (end + WORD_BITS - 1) / WORD_BITS; w++) {
    expect(!(arena->start[w] & arena->free[w]), "A1", "a run starts at a free unit", &arena->start[w]);
    expect(!(arena->dirty[w] & ~arena->free[w]), "A1", "a unit in use is dirty", &arena->dirty[w]);
  }
  expect(bits_next_set(arena->dirty, arena->committed, end) == end, "A1", "a unit beyond committed is dirty", arena);
  expect(arena->first_unit <= arena->committed && arena->used_end <= arena->committed && arena->committed <= end,
         "arena.committed", "units beyond it were in use", arena);
  expect(bits_next_set(arena->free, 0, arena->hint) == arena->hint, "arena.hint", "a unit below it is free", arena);
  expect(bits_next_clear(arena->free, arena->used_end, end) == end, "arena.used_end", "a unit beyond it is in use", arena);
  expect(bits_next_set(arena->dirty, arena->used_end, end) == end, "arena.used_end", "a unit beyond it is dirty", arena);
  expect(bits_next_set(arena->free, 0, arena->first_unit) == arena->first_unit, "arena.first_unit", "a unit of the arena's own is free", arena);
}

/* The run at `unit` or the next one above; NULL: no more. */
static run_t *run_from(const arena_t *arena, size_t unit)
{
  size_t at = bits_next_set(arena->start, unit, arena->used_end);
  return at < arena->used_end ? &arena->runs[at] : NULL;
}

static size_t unit_behind(const arena_t *arena, const run_t *run) { return (size_t)(run - arena->runs) + run->units; }

/* Between the runs everything is free, in them nothing is. */
static void check_runs(const arena_t *arena)
{
  size_t unit = arena->first_unit;
  for (run_t *run; (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run)) {
    size_t at = (size_t)(run - arena->runs), end = unit_behind(arena, run);
    expect(bits_next_clear(arena->free, unit, at) == at, "A2", "a unit in use belongs to no run", run->start);
    expect(run->units && end <= arena->used_end, "A2", "a run has no units, or too many", run->start);
    expect(bits_next_set(arena->free, at, end) == end, "A2", "a run reaches into free units", run->start);
    expect(bits_next_set(arena->start, at + 1, end) == end, "A2", "a run starts inside another", run->start);
    expect(run->start == arena->base + (at << arena->unit_log2), "A2", "a run is not where its descriptor is", run->start);
  }
  expect(bits_next_clear(arena->free, unit, arena->unit_count) == arena->unit_count, "A2", "a unit behind the last run is in use", arena);
}

static void check_units(const space_t *space)
{
  size_t used = 0, dirty = 0;
  for (uint32_t i = 0; i < arena_count(space); i++) {
    const arena_t *arena = arena_at(space, i);
    size_t first = arena->first_unit, end = arena->unit_count;
    used += end - first - bits_count(arena->free, first, end);
    dirty += bits_count(arena->dirty, first, end);
  }
  expect_count(space->used_units, used, "A3", "units in use");
  expect_count(space->dirty_units, dirty, "A3", "dirty units");
  expect(space->fixed || space->peak_units >= used + dirty, "A3", "the peak of units is below what is held", space);
}

/* ---- S1 and M1: slabs, what the class map says of them and of everything else ---- */

static void check_slab(const run_t *slab)
{
  const pool_t *pool = slab->owner;
  expect(slab->units == pool->slab_units && slab->size_class == pool->size_class, "S1", "a slab is not like its pool's", slab->start);
  expect_count(slab->capacity, ((size_t)slab->units << UNIT_LOG2) / pool->block_size, "S1", "capacity of a slab");
  expect_count(slab->quarter, slab->capacity / 4, "S1", "a quarter of a slab");
  expect_count(slab->free_count, bits_count(slab->bitmap, 0, slab->capacity), "S1", "free blocks of a slab");
  expect(slab->free_count <= slab->fresh && slab->fresh <= slab->capacity, "S1", "more free than fresh blocks, or more than there are", slab->start);
  size_t words_end = round_up(slab->capacity, WORD_BITS);
  expect(bits_next_set(slab->bitmap, slab->fresh, words_end) == words_end, "S1", "a bit is set beyond the fresh mark", slab->start);
}

static void check_map(const char *from, const char *to, unsigned front, unsigned heap)
{
  for (const char *at = from; at < to; at += UNIT) {
    expect(class_map_front(at) == front, "M1", "the front plane has a wrong class", at);
    expect(class_map_heap(at) == heap, "M1", "the heap plane has a wrong class", at);
  }
}

static void check_map_of_run(const run_t *run, const char *end)
{
  const pool_t *pool = run->kind == RUN_SLAB ? run->owner : NULL;
  unsigned plane = pool ? pool->plane : POOL_PLANE_NONE;
  check_map(run->start, end, plane == POOL_PLANE_FRONT ? run->size_class : 0, plane == POOL_PLANE_HEAP ? run->size_class : 0);
}

static void check_arena_contents(const arena_t *arena)
{
  const char *mapped = arena->base;
  size_t unit = arena->first_unit;
  for (run_t *run; (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run)) {
    const char *end = run->start + run_bytes(arena, run);
    expect(run->kind == RUN_SLAB || run->kind == RUN_LARGE, "A2", "a run is of no kind", run->start);
    expect(run->owner != NULL, "A2", "a run has no owner", run->start);
    if (run->kind == RUN_SLAB)
      check_slab(run);
    check_map(mapped, run->start, 0, 0);
    check_map_of_run(run, end);
    mapped = end;
  }
  check_map(mapped, arena->base + ((size_t)arena->unit_count << arena->unit_log2), 0, 0);
}

bool check_space(space_t *space)
{
  for (uint32_t i = 0; i < arena_count(space); i++) {
    const arena_t *arena = arena_at(space, i);
    expect(arena->space == space, "A3", "an arena is in another space", arena);
    check_sets(arena);
    check_runs(arena);
    check_arena_contents(arena);
  }
  check_units(space);
  return true;
}

/* ---- P: pools ---- */

/* Every agreement of slab->free_count with a list; written anew, not pool.c's own. */
static unsigned list_for(const run_t *slab)
{
  if (slab->free_count == 0)
    return SLAB_FULL;
  for (unsigned list = SLAB_PARTIAL_1; list < SLAB_PARTIAL_4; list++)
    if (slab->free_count <= list * slab->quarter)
      return list;
  return SLAB_PARTIAL_4;
}

static void check_listed_slab(const pool_t *pool, const run_t *slab, unsigned list)
{
  tick_run(slab, "P2", "a slab is in two lists, or twice in one");
  expect(slab->kind == RUN_SLAB && slab->owner == pool, "P2", "a list has a slab of another pool", slab);
  expect(slab->list == list && list_for(slab) == list, "P2", "a slab is in a list its free count does not say", slab->start);
  expect(slab->fresh == slab->capacity || slab == pool->current, "P2", "a slab that is not the current one has fresh blocks", slab->start);
}

static void check_slab_lists(pool_t *pool)
{
  size_t slabs = 0, partial = 0, capacity = 0, out = 0;
  bool current = false;
  for (unsigned list = 0; list < SLAB_LISTS; list++) {
    const run_t *previous = NULL;
    for (run_t *slab = pool->slabs[list]; slab; previous = slab, slab = slab->next) {
      check_listed_slab(pool, slab, list);
      expect(slab->previous == previous, "P2", "a list does not lead back", slab->start);
      slabs++;
      partial += list != SLAB_FULL;
      capacity += slab->capacity;
      out += slab->fresh - slab->free_count;
      current |= slab == pool->current;
    }
  }
  expect(current || !pool->current, "P2", "the current slab is in no list", pool->current);
  expect_count(pool->slab_count, slabs, "P2", "slabs of a pool");
  expect_count(pool->partial_count, partial, "P2", "partial slabs of a pool");
  expect_count(pool->capacity, capacity, "P2", "capacity of a pool");
  expect_count(pool->out, out, "P1", "blocks out of the slabs");
}

/* Ticks the entries from `top` down to the NULL that ends them, which is at word 1 or above. */
static size_t tick_entries(const pool_t *pool, void *const *top, const char *name)
{
  size_t n = 0;
  for (; (uintptr_t)top & (MAGAZINE_BYTES - 1); top--, n++) {
    if (!*top)
      return n;
    tick_block(pool, *top, name);
  }
  violated_at(name, "the entries of a magazine run into its word 0", top);
}

/* Word 0 of a magazine in a depot: the address of the one below, plus the number of the word of the top entry. */
static void check_depot(const pool_t *pool)
{
  size_t count = 0;
  for (void **magazine = pool->depot; magazine; count++) {
    uintptr_t word = (uintptr_t)magazine[0];
    expect(count < pool->depot_count, "P3", "more magazines in the depot than counted, or a cycle", magazine);
    expect(tick_entries(pool, magazine + (word & (MAGAZINE_BYTES - 1)), "P3") > 0, "P3", "an empty magazine in the depot", magazine);
    magazine = (void **)(word & ~(uintptr_t)(MAGAZINE_BYTES - 1));
  }
  expect_count(pool->depot_count, count, "P3", "magazines in the depot");
  expect(pool->depot_low <= pool->depot_count, "P3", "fewer magazines in the depot than ever", pool);
}

static void check_pool_lists(pool_t *pool)
{
  expect(pool->size_class && pool->size_class < CLASS_COUNT && pool->block_size == size_class_size[pool->size_class], "H1",
         "a pool has not the block size of its class", pool);
  expect(pool->magazine_most >= 2 && pool->magazine_most <= MAGAZINE_MOST, "P3", "a size no magazine can have", pool);
  check_slab_lists(pool);
  check_depot(pool);
}

bool check_pool(pool_t *pool)
{
  check_space(pool->space);
  ticks_open(pool->space);
  check_pool_lists(pool);
  ticks_close();
  return true;
}

/* ---- C and T: the magazines of threads ---- */

static void check_spare(const pool_t *pool, void **spare)
{
  if (!spare)
    return;
  bool full = magazine_is_full_at(spare + 1);
  size_t entries = tick_entries(pool, spare, "C1");
  expect(full || !entries, "C2", "a spare is neither full nor empty", spare);
}

static void check_loaded(const pool_t *pool, const loaded_t *loaded)
{
  void **slot = loaded->slot;
  if (slot == MAGAZINE_NOWHERE) {
    expect(!loaded->top, "C1", "an entry without a magazine", loaded->top);
    return;
  }
  if (!loaded->top) {
    expect(!slot[1], "C1", "an empty magazine has no NULL at its floor", slot);
    return;
  }
  tick_block(pool, loaded->top, "C1");
  tick_entries(pool, slot, "C1");
}

static void check_magazines(const heap_t *heap, const magazines_t *magazines)
{
  for (unsigned c = 0; c <= CLASS_CACHED; c++) {
    const loaded_t *loaded = &magazines->cache->of[c];
    if (heap->pools[c] && c) {
      check_loaded(heap->pools[c], loaded);
      check_spare(heap->pools[c], magazines->spare[c]);
    } else {
      expect(!loaded->top && loaded->slot == MAGAZINE_NOWHERE && !magazines->spare[c], "C1", "a magazine of a class without a pool", loaded);
    }
  }
}

static void check_magazines_of_heap(const heap_t *heap)
{
  for (thread_t *thread = threads_first(); thread; thread = thread->next) {
    if (heap == &heap_front)
      check_magazines(heap, &thread->front);
    for (heap_cache_t *cache = thread->heaps; cache; cache = cache->next)
      if (cache->heap == heap)
        check_magazines(heap, &cache->magazines);
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
  }
  expect(self, "T1", "the calling thread is not in the list", thread_self);
  expect_count(pool_threads, max_size(threads, 1), "T1", "threads");
  for (unsigned i = 0; i < MAGAZINE_WORDS; i++)
    expect(!magazine_nowhere[i], "C1", "something is in the magazine that is empty and full", magazine_nowhere[i]);
}

/* ---- H: heaps ---- */

static size_t check_pools(const heap_t *heap)
{
  size_t bytes = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    pool_t *pool = heap->pools[c];
    if (!pool)
      continue;
    expect(pool->size_class == c && pool->heap == heap && pool->space == heap->space && pool->budget == &heap->budget, "H1",
           "a pool is not where its class says", pool);
    check_pool_lists(pool);
    bytes += (size_t)pool->slab_count * pool->slab_units << UNIT_LOG2;
  }
  return bytes;
}

typedef struct large { size_t blocks, usable, held; } large_t;

static void add_large_runs(const heap_t *heap, large_t *sum)
{
  const run_t *previous = NULL;
  for (run_t *run = heap->large; run; previous = run, run = run->next) {
    tick_run(run, "H3", "a large run is in two lists, or twice in one");
    expect(run->kind == RUN_LARGE && run->owner == heap, "H3", "the list has a run that is not the heap's", run);
    expect(run->previous == previous, "H3", "the list of large runs does not lead back", run->start);
    size_t held = (size_t)run->units << UNIT_LOG2;
    expect(run->size && run->size <= held, "H3", "a large block is larger than its run", run->start);
    sum->blocks++;
    sum->usable += run->size;
    sum->held += held;
  }
}

static void add_huge_blocks(const heap_t *heap, large_t *sum)
{
  for (huge_t *huge = huge_next(heap, NULL); huge; huge = huge_next(heap, huge)) {
    expect(!space_find(huge->start) && !space_find(huge->start + huge->size - 1), "H3", "a huge block lies in a run", huge->start);
    expect(class_map_front(huge->start) == 0 && class_map_heap(huge->start) == 0, "M1", "a huge block has a class", huge->start);
    sum->blocks++;
    sum->usable += huge->size;
    sum->held += huge->size;
  }
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

static void check_heap_lists(const heap_t *heap)
{
  size_t slabs = check_pools(heap);
  large_t large = {0};
  add_large_runs(heap, &large);
  add_huge_blocks(heap, &large);
  expect_count(heap->large_blocks, large.blocks, "H3", "large blocks");
  expect_count(heap->large_bytes, large.usable, "H3", "bytes of large blocks");
  const budget_t *budget = &heap->budget;
  expect_count(budget->held, slabs + large.held + held_by_children(heap), "H2", "bytes held");
  expect(!budget->limit || budget->held <= budget->limit, "H2", "more is held than the budget allows", heap);
  expect(budget->held <= budget->peak, "H2", "more is held than the most that ever was", heap);
  check_magazines_of_heap(heap);
}

static const heap_t *heap_of_run(const run_t *run)
{
  return run->kind == RUN_SLAB ? ((const pool_t *)run->owner)->heap : run->owner;
}

/* Every run of a heap (NULL: of any) was ticked by a list. */
static void check_all_ticked(const heap_t *heap)
{
  for (uint32_t i = 0; i < arena_count(ticks.space); i++) {
    const arena_t *arena = arena_at(ticks.space, i);
    size_t unit = arena->first_unit;
    for (run_t *run; (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run))
      if (!heap || heap_of_run(run) == heap)
        expect(bit_test(run_ticks(i), (size_t)(run - arena->runs)), run->kind == RUN_SLAB ? "P2" : "H3", "a run is in no list", run->start);
  }
}

static void check_heaps_of(space_t *space, const heap_t *only)
{
  check_space(space);
  ticks_open(space);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (heap->space == space && (!only || heap == only))
      check_heap_lists(heap);
  check_all_ticked(only);
  ticks_close();
}

bool check_heap(heap_t *heap)
{
  check_threads();
  if (heap->space)
    check_heaps_of(heap->space, heap);
  return true;
}

bool check_everything(void)
{
  check_threads();
  check_heaps_of(&space_of_process, NULL);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next)
    if (heap->space && heap->space->fixed)
      check_heaps_of(heap->space, NULL);
  return true;
}
