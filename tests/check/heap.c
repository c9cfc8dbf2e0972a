/* SPDX-License-Identifier: MIT
 * H: heaps, their large blocks and their budgets. */
#include "heap/heap.h"
#include "base/fill.h"
#include "check/check.h"
#include "check/parts.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"

static bool is_prepaid(const space_t *space, const run_t *run) { return arena_of(space, run->start)->space->prepaid; }

/* H1, and all that the bins' lists say. Returns the bytes of slabs that the budget was charged for. */
static size_t check_bins(const heap_t *heap)
{
  size_t charged = 0;
  for (unsigned c = 1; c < (heap->space ? CLASS_COUNT : 1); c++) {
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
        charged += is_prepaid(bin->space, slab) ? 0 : run_bytes(slab);
  }
  return charged;
}

typedef struct large {
  size_t blocks, usable, held, charged, spares;
} large_t;

/* H3, of the runs: each that the list leads to. That none is missing is what check_all_counted() says. */
static void add_large_runs(const heap_t *heap, large_t *sum)
{
  const run_t *previous = NULL;
  for (run_t *run = heap->large; run; previous = run, run = run->next) {
    census_run(heap->space, run, "H3", "a large run is in two lists, or twice in one");
    expect((run->kind == RUN_LARGE || run->kind == RUN_SPARE) && run->owner == heap, "H3",
           "the list has a run that is not the heap's", run);
    expect(run->previous == previous, "H3", "the list of large runs does not lead back", run->start);
    size_t held = run_bytes(run);
    expect(run->size && run->size <= held, "H3", "a large block is larger than its run", run->start);
    sum->charged += is_prepaid(heap->space, run) ? 0 : held;
    sum->held += held;
    sum->spares += run->kind == RUN_SPARE;
    sum->blocks += run->kind == RUN_LARGE;
    sum->usable += run->kind == RUN_LARGE ? run->size : 0;
  }
}

/* Returns how many spares all threads have. They are runs of the default heap. */
static size_t count_spares(void)
{
  size_t spares = 0;
  for (thread_t *thread = threads_first(); thread; thread = thread->next) {
    for (unsigned i = 0; i < SPARE_UNITS_MOST; i++)
      for (unsigned k = 0; k < SPARE_DEPTH; k++) {
        const run_t *run = thread->spares.of[i][k];
        expect(!run == (k >= thread->spares.count[i]), "H3", "more or fewer spares than counted", thread);
        expect(!run || (run->kind == RUN_SPARE && run->units == i + 1), "H3", "a spare that is none", run);
        spares += run != NULL;
      }
  }
  return spares;
}

/* The tree and the list of the heap must have the same blocks. None lies in the window, where free() would ask the class map
 * about it. */
static void add_huge_blocks(const heap_t *heap, large_t *sum)
{
  const char *from = NULL;
  size_t blocks = 0, listed = 0;
  for (huge_t *huge; (huge = huge_next(heap, from)) != NULL; from = huge_start(huge) + 1) {
    const char *start = huge_start(huge), *last = start + huge_size(huge) - 1;
    expect(window_slot_of(start) >= window_slots_open() && window_slot_of(last) >= window_slots_open(), "H3",
           "a huge block lies in the window", start);
    expect(start > from || !from, "H3", "huge blocks are not in order", start);
    sum->blocks++;
    sum->usable += huge_usable(huge);
    sum->charged += huge_size(huge);
    sum->held += huge_size(huge);
    blocks++;
  }
  for (const huge_t *huge = heap->huge; huge; huge = huge->older, listed++)
    expect((huge->newer ? huge->newer->older : *huge->list) == huge && huge->owner == heap, "H3",
           "a huge block is not in the list of its heap", huge_start(huge));
  expect_count(listed, blocks, "H3", "huge blocks in the list of their heap");
}

/* Mappings that were left have no owner, and clean ones hold no memory, so they do not count. */
void check_left(void)
{
  size_t bytes = 0;
  const char *from = NULL;
  for (huge_t *huge; (huge = huge_next(NULL, from)) != NULL; from = huge_start(huge) + 1)
    bytes += huge->clean ? 0 : huge_size(huge);
  expect_count(huge_left_bytes(), bytes, "H3", "bytes of mappings that were left");
}

/* Returns what the heap's children hold, which counts in the heap too (H2). */
static size_t held_by_children(const heap_t *heap)
{
  size_t bytes = 0;
  for (heap_t *child = heaps_first(); child; child = child->next)
    if (child->budget.parent == &heap->budget)
      bytes += budget_held(&child->budget);
  return bytes;
}

static size_t record_runs_in(const arena_t *arena)
{
  size_t bytes = 0, unit = 0;
  for (run_t *run; arena && (run = run_from(arena, unit)) != NULL; unit = unit_behind(arena, run))
    bytes += run->kind == RUN_REGION && !run->owner && run->size ? run_bytes(run) : 0;
  return bytes;
}

/* Returns the bytes of the runs that hold records of a guest, or of the default heap. */
static size_t record_runs(const heap_t *heap)
{
  if (heap != &default_heap)
    return record_runs_in(heap_own_arena(heap));
  size_t bytes = 0;
  for (size_t slot = 0; slot < window_slots_open(); slot++) {
    const arena_t *arena = space_arena_at(slot);
    bytes += arena && arena->space == &space_of_process ? record_runs_in(arena) : 0;
  }
  expect_count(heap->record_run_bytes, bytes, "H2", "bytes of records in runs");
  return bytes;
}

/* The region is a run or a mapping that no other heap may have. */
static void check_region(const heap_t *heap)
{
  if (heap_is_guest(heap))
    return;
  const run_t *run = heap->region.run;
  if (run) {
    census_run(&space_of_process, run, "A2", "two heaps in one region");
    expect(run->kind == RUN_REGION && run->owner == heap && heap->region.start == run->start, "A2",
           "the region of a heap is not its own", heap);
  }
  expect(!heap->region.huge || (heap->region.huge->is_region && heap->region.huge->owner == heap), "A2",
         "the region of a heap is not its own", heap);
}

/* G1, and G2 of what no block has. Returns the bytes of the used pages. */
static size_t check_granular(heap_t *heap)
{
  if (!heap_has_granules(heap))
    return 0;
  const granules_t *g = &heap->region.granules;
  check_granules(g);
  size_t held = 0;
  for (size_t i = 0; i < g->count; i++) {
    bool used = bit_test(g->used, i / GRANULE_PAGE), free = !bit_test(g->map, i) && !bit_test(g->map, i + 1);
    const char *granule = heap->region.base + i * GRANULE;
    bool filled = used || heap_is_guest(heap) || heap->flags & HEAP_REAL_TIME || bit_test(heap->region.dirty, i / GRANULE_PAGE);
    held += used ? GRANULE : 0;
    expect(!heap_is_checked(heap) || !filled || !free || is_dead(granule, GRANULE), "G2", "a free granule has been written to",
           granule);
  }
  expect(budget_held(&heap->budget) >= held, "G1", "less is charged than the used pages have", heap);
  return region_is_prepaid(&heap->region) ? 0 : held;
}

/* H2. What was counted has come from lists, and the rest is added here. */
static void check_budget(const heap_t *heap, size_t counted)
{
  const budget_t *budget = &heap->budget;
  counted += heap->head_bytes + heap->record_bytes + record_runs(heap) + held_by_children(heap);
  expect_count(budget->held, counted, "H2", "bytes held");
  expect(!budget->limit || budget->held <= budget->limit, "H2", "more is held than the budget allows", heap);
  expect_count(budget->below, held_by_children(heap), "H2", "bytes held by children");
  expect(budget->held <= budget->peak, "H2", "more is held than the most that ever was", heap);
}

/* H1 to H3. What the lists say is counted first, and then compared with what the heap counts. */
void check_heap_lists(heap_t *heap)
{
  large_t large = {0};
  expect(heap->mark == HEAP_LIVE_MARK, "H1", "a heap that was destroyed is in the list", heap);
  size_t slabs = check_bins(heap);
  if (heap_is_checked(heap))
    expect_count(heap->quarantine.bytes, heads->verify_withheld(heap, "check"), "H4", "bytes in quarantine");
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
  check_budget(heap, slabs + large.charged + check_granular(heap));
  check_magazines_of_heap(heap);
}
