/* SPDX-License-Identifier: MIT
 *
 * A run or a mapping, its charge, its place in the heap's list and the figures share no lock. Every change to them is made
 * inside GATE_LARGE, so that a fork finds them consistent. */
#include "heap/large.h"
#include "base/list.h"
#include "bin/bin.h"
#include "heap/debug_hooks.h"
#include "misuse.h"
#include "os/lock.h"
#include <string.h>

enum { TICK_GIVES = 16 }; /* every TICK_GIVES-th large free ticks the heap's region */

size_t spare_size_at_once = SPARE_SIZE_MOST;

static void add_figure(size_t *to, ptrdiff_t by) { __atomic_fetch_add(to, (size_t)by, __ATOMIC_RELAXED); }

void large_count(heap_t *heap, ptrdiff_t blocks, ptrdiff_t bytes, ptrdiff_t held)
{
  add_figure(&heap->large_blocks, blocks);
  add_figure(&heap->large_bytes, bytes);
  add_figure(&heap->large_held, held);
}

static void set_size(run_t *run, size_t size) { __atomic_store_n(&run->size, size, __ATOMIC_RELAXED); }

/* The caller gets whole pages, but never more than the run has: pages may be larger than a unit. */
static size_t usable_of(const run_t *run, size_t size)
{
  return min_size(round_up(size + !size, os_page_size()), run_bytes(run));
}

/* ---- runs ---- */

/* The heap's lock protects only the list. The run is the caller's until it is handed out. */
static void link_run(heap_t *heap, run_t *run)
{
  HEAP_LOCKED(heap);
  LIST_PUSH(heap->large, run, next, previous);
}

static void unlink_run(heap_t *heap, run_t *run)
{
  HEAP_LOCKED(heap);
  LIST_REMOVE(heap->large, run, next, previous);
}

/* The kind is set last, so that a question which finds the run by its address finds it complete. */
static run_t *take_run(heap_t *heap, size_t size, size_t alignment)
{
  INSIDE_GATE(GATE_LARGE);
  run_t *run = space_take_charged(heap->space, &heap->budget, size, alignment);
  if (!run)
    return NULL;
  set_size(run, usable_of(run, size));
  run->entry = NULL;
  link_run(heap, run);
  large_count(heap, 1, (ptrdiff_t)run->size, (ptrdiff_t)run_bytes(run));
  run_become(run, RUN_LARGE, heap);
  return run;
}

/* A region is ticked with its bins, so one becomes due. If there are none, every TICK_GIVES-th free ticks the region. */
static void tick_region(heap_t *heap)
{
  space_t *space = &heap->region.space;
  if (space->purgeable && __atomic_add_fetch(&heap->region.gives, 1, __ATOMIC_RELAXED) % TICK_GIVES == 0)
    space_tick_region(space, os_now_ms());
  if (space_wants_ticks(space))
    FOR_EACH_BIN(bin, heap) {
      bin_become_due(bin);
      return;
    }
}

static void give_run(heap_t *heap, run_t *run, bool is_live)
{
  INSIDE_GATE(GATE_LARGE);
  large_count(heap, is_live ? -1 : 0, is_live ? -(ptrdiff_t)run->size : 0, -(ptrdiff_t)run_bytes(run));
  observe_end(run->entry, run->start);
  unlink_run(heap, run);
  space_give_charged(heap->space, &heap->budget, run);
}

void large_give_run(heap_t *heap, run_t *run)
{
  give_run(heap, run, true);
  if (heap->region.kind)
    tick_region(heap);
}

/* Growth is charged before units are taken, shrinking discharged after they are given: the held bytes never exceed the limit.
 * If there is no room behind the run, nothing has changed. */
bool large_resize_run(heap_t *heap, run_t *run, size_t size)
{
  INSIDE_GATE(GATE_LARGE);
  space_t *space = arena_of(heap->space, run->start)->space;
  size_t units = units_for(size + !size), had = run->units;
  if (units < had) {
    space_shorten(space, run, units);
    budget_discharge(&heap->budget, space_price(space, had - units));
  } else if (units > had) {
    size_t price = space_price(space, units - had);
    if (!budget_charge(&heap->budget, price))
      return false;
    if (!space_lengthen(space, run, units)) {
      budget_discharge(&heap->budget, price);
      return false;
    }
    budget_note_peak(&heap->budget);
  }
  size = usable_of(run, size);
  large_count(heap, 0, (ptrdiff_t)(size - run->size), (ptrdiff_t)(units << UNIT_LOG2) - (ptrdiff_t)(had << UNIT_LOG2));
  set_size(run, size);
  return true;
}

/* The kind is set last, as in take_run(). */
run_t *large_move_run(heap_t *heap, run_t *run, size_t size)
{
  size_t units = units_for(size);
  if (arena_of(heap->space, run->start)->space != &space_of_process || !space_may_move(run, units))
    return NULL;
  INSIDE_GATE(GATE_LARGE);
  void *entry = run->entry;
  size_t had = run->size, more = (units - run->units) << UNIT_LOG2;
  if (!budget_charge(&heap->budget, more))
    return NULL;
  unlink_run(heap, run);
  run_t *moved = space_move(run, units, heap->flags & POOL_HEAP_ZERO_ON_FREE);
  link_run(heap, moved ? moved : run);
  if (!moved) {
    budget_discharge(&heap->budget, more);
    return NULL;
  }
  budget_note_peak(&heap->budget);
  set_size(moved, usable_of(moved, size));
  moved->entry = entry;
  large_count(heap, 0, (ptrdiff_t)(moved->size - had), (ptrdiff_t)more);
  run_become(moved, RUN_LARGE, heap);
  return moved;
}

/* ---- mappings ---- */

/* A heap in the caller's memory has no other memory, so none of its blocks is a mapping. */
bool large_is_huge(const heap_t *heap, size_t size, size_t alignment)
{
  size_t longest = space_longest_run() << UNIT_LOG2;
  return !heap_is_guest(heap) && (size > longest || (alignment > UNIT && alignment > min_size(longest, RUN_ALIGNMENT_MOST)));
}

/* The budget is charged before the system call, so that no mapping is made only to be refused. */
static void *take_huge(heap_t *heap, size_t size, size_t alignment, block_past_t *past)
{
  INSIDE_GATE(GATE_LARGE);
  bool zeroed;
  size_t bytes = huge_bytes(size);
  if (!budget_charge(&heap->budget, bytes))
    return NULL;
  huge_t *huge = huge_take(size, alignment, heap, &heap->huge, &zeroed);
  if (!huge) {
    budget_discharge(&heap->budget, bytes);
    return NULL;
  }
  budget_note_peak(&heap->budget);
  large_count(heap, 1, (ptrdiff_t)bytes, (ptrdiff_t)bytes);
  *past = zeroed ? BLOCK_ZEROED : BLOCK_FRESH;
  os_name(huge_start(huge), bytes, heap->name);
  return huge_start(huge);
}

void large_give_huge(heap_t *heap, huge_t *huge)
{
  size_t bytes = huge_size(huge);
  INSIDE_GATE(GATE_LARGE);
  large_count(heap, -1, -(ptrdiff_t)bytes, -(ptrdiff_t)bytes);
  observe_end(huge->entry, huge_block(huge));
  huge_give(huge);
  budget_discharge(&heap->budget, bytes);
}

/* Growth is charged beforehand. Afterwards the real size counts: memory that the system did not take back is still held. */
bool large_resize_huge(heap_t *heap, huge_t *huge, size_t size, bool may_move)
{
  INSIDE_GATE(GATE_LARGE);
  size_t had = huge_size(huge), bytes = huge_bytes(size);
  if (bytes > had && !budget_charge(&heap->budget, bytes - had))
    return false;
  bool done = huge_resize(huge, size, may_move);
  size_t has = huge_size(huge);
  if (max_size(had, bytes) > has)
    budget_discharge(&heap->budget, max_size(had, bytes) - has);
  budget_note_peak(&heap->budget);
  large_count(heap, 0, (ptrdiff_t)(has - had), (ptrdiff_t)(has - had));
  return done;
}

/* ---- large blocks ---- */

/* The thread's spares come first: no other thread could use them. A heap with a region then tries it, however large the block;
 * a mapping serves a request that the region has no room for. A thread that uses only large blocks gets its record here. */
void *large_take(heap_t *heap, size_t size, size_t alignment, block_past_t *past, size_t *usable)
{
  size += !size;
  *usable = round_up(size, os_page_size());
  *past = BLOCK_USED;
  thread_t *thread = heap_is_default(heap) && alignment <= UNIT ? thread_current() : NULL;
  void *spare = thread && size <= SPARE_SIZE_MOST ? large_take_spare(thread, size) : NULL;
  if (spare)
    return spare;
  bool huge = large_is_huge(heap, size, alignment);
  if (huge && !heap->region.kind)
    return take_huge(heap, size, alignment, past);
  run_t *run = take_run(heap, size, alignment);
  if (!run)
    return huge ? take_huge(heap, size, alignment, past) : NULL;
  *past = run->zeroed ? BLOCK_ZEROED : BLOCK_FRESH;
  *usable = run->size;
  return run->start;
}

/* Only heaps that end or are reset come here, never the default heap, so no run is a spare. */
void large_free_all(heap_t *heap)
{
  while (heap->large)
    large_give_run(heap, heap->large);
  while (heap->huge)
    large_give_huge(heap, heap->huge);
}

/* ---- clearing ----
 *
 * A large block is cleared by purging it if that costs fewer page faults than writing zeros. */

#define PURGED_LEAST ((size_t)1 << 20) /* bytes; clearing a shorter block by a system call does not pay */

/* The caller's memory must not be purged. Memory that was prefaulted or locked must not fault again. */
static bool may_purge(const heap_t *heap, const char *start)
{
  bool in_region = (size_t)(start - heap->region.start) < heap->region.size;
  return !in_region || (!heap_is_guest(heap) && !(heap->flags & HEAP_REAL_TIME));
}

/* Purges the whole pages, which read as zero at the next touch: pages that were never touched stay untouched. The rest is
 * written, or everything if the system refuses. No gate is needed, because the caller owns the block. */
void large_wipe(const heap_t *heap, char *start, size_t size)
{
  char *from = (char *)round_up((uintptr_t)start, os_page_size()),
       *to = (char *)round_down((uintptr_t)start + size, os_page_size());
  if (from >= to || !may_purge(heap, start) || !os_purge(from, (size_t)(to - from))) {
    memset(start, 0, size);
    return;
  }
  memset(start, 0, (size_t)(from - start));
  memset(to, 0, (size_t)(start + size - to));
}

/* If at most half of the run was dirty, writing all of it would fault in the clean half. */
void large_clear_fresh(const heap_t *heap, char *block, size_t size)
{
  const arena_t *arena = size >= PURGED_LEAST ? space_arena_around(block) : NULL;
  const run_t *run = arena ? run_of(arena, block) : NULL;
  if (run && run->start == block && run->fresh <= run->units / 2)
    large_wipe(heap, block, size);
  else
    memset(block, 0, size);
}

/* ---- spares ----
 *
 * A thread keeps runs of the default heap that it frees as spares: most large blocks come in few sizes and live briefly. Taking
 * a spare again costs no lock. It stays in the heap's list, and its kind tells whether it is live. */

/* Counts in the thread's own figures: an atomic addition to the heap's would cost more than everything else. */
static void count_spare(spares_t *spares, size_t blocks, size_t bytes)
{
  __atomic_store_n(&spares->live_blocks, spares->live_blocks + blocks, __ATOMIC_RELAXED);
  __atomic_store_n(&spares->live_bytes, spares->live_bytes + bytes, __ATOMIC_RELAXED);
}

/* Adds the thread's share of the figures to the heap's, because the record may end. Under threads_lock, so that a sum over all
 * threads finds the share either here or there. */
void large_fold_figures(thread_t *thread)
{
  spares_t *spares = &thread->spares;
  large_count(&default_heap, (ptrdiff_t)spares->live_blocks, (ptrdiff_t)spares->live_bytes, 0);
  count_spare(spares, -spares->live_blocks, -spares->live_bytes);
}

/* Makes a live run a spare. Only one thread can do that, so the second of two frees finds that the block is not live. */
static bool claim_run(run_t *run)
{
  uint8_t live = RUN_LARGE;
  if (os_single_threaded()) {
    bool is_live = run->kind == RUN_LARGE;
    run->kind = is_live ? RUN_SPARE : run->kind;
    return is_live;
  }
  return __atomic_compare_exchange_n(&run->kind, &live, RUN_SPARE, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Returns the run of the default heap that starts at this address, live or spare; NULL: none does. No lock is needed, because
 * the bits of a live block do not change. Descriptors beyond used_end may not be mapped and are not read. */
static run_t *run_at(const void *block)
{
  const arena_t *arena = space_arena_around(block);
  if (!arena || arena->space != &space_of_process || (uintptr_t)block & (UNIT - 1))
    return NULL;
  size_t unit = unit_of(arena, block);
  if (unit >= arena_used_end(arena) ||
      !(__atomic_load_n(&arena->start[unit / WORD_BITS], __ATOMIC_RELAXED) >> unit % WORD_BITS & 1))
    return NULL;
  run_t *run = &arena->runs[unit];
  run_kind_t kind = run_kind(run);
  return (kind == RUN_LARGE || kind == RUN_SPARE) && run_owner(run) == &default_heap ? run : NULL;
}

/* The caller owns the block, so nothing else changes its descriptor. */
bool large_note_entry(void *block, void *entry)
{
  const arena_t *arena = space_arena_around(block);
  run_t *run = arena ? run_of(arena, block) : NULL;
  void *before = NULL;
  bool live = run ? run_kind(run) == RUN_LARGE && run->start == block : huge_note_entry(block, entry, &before);
  if (live && run) {
    before = run->entry;
    run->entry = entry;
  }
  observe_end(before, block);
  return live;
}

static ptrdiff_t spare_bytes(unsigned i) { return (ptrdiff_t)(i + 1) << UNIT_LOG2; }

/* If the thread has enough spares, or its allowance is used up, or a profile has the block, the slow path frees it. */
bool large_give_spare(void *block, const char *call, thread_t *thread)
{
  spares_t *spares = &thread->spares;
  run_t *run = run_at(block);
  if (!run || run->units > SPARE_UNITS_MOST || run->entry)
    return false;
  unsigned i = run->units - 1;
  /* The limits come before the claim: a claimed run could not be freed as a live one. */
  if (spares->count[i] == SPARE_DEPTH || thread->allowance.left < spare_bytes(i))
    return false;
  if (!claim_run(run))
    fatal_misuse_of_block(call, block, FREED_TWICE, &default_heap, run->size, NULL);
  count_spare(spares, -(size_t)1, -run->size);
  spares->of[i][spares->count[i]++] = run;
  thread->allowance.left -= spare_bytes(i);
  return true;
}

/* The place is cleared, so that a fork which loses this thread finds each spare once (large_give_lost_spares()). */
static run_t *pop_spare(thread_t *thread, unsigned i)
{
  spares_t *spares = &thread->spares;
  run_t **place = &spares->of[i][--spares->count[i]], *run = *place;
  *place = NULL;
  spares->low[i] = (uint8_t)min_size(spares->low[i], spares->count[i]);
  thread->allowance.left += spare_bytes(i);
  return run;
}

/* The kind is stored last, with release: a question that finds the run live reads the new size. */
void *large_take_spare(thread_t *thread, size_t size)
{
  spares_t *spares = &thread->spares;
  unsigned i = (unsigned)((size - 1) >> UNIT_LOG2);
  if (!spares->count[i])
    return NULL;
  run_t *run = pop_spare(thread, i);
  size = round_up(size, os_page_size());
  set_size(run, size);
  count_spare(spares, 1, size);
  __atomic_store_n(&run->kind, RUN_LARGE, __ATOMIC_RELEASE);
  return run->start;
}

static void shrink_spares(thread_t *thread, unsigned i, unsigned by)
{
  while (by--)
    give_run(&default_heap, pop_spare(thread, i), false);
}

void large_flush_spares(thread_t *thread)
{
  spares_t *spares = &thread->spares;
  uint64_t counts[sizeof spares->count / sizeof(uint64_t)];
  memcpy(counts, spares->count, sizeof counts);
  if (!(counts[0] | counts[1])) /* most threads have none when they end */
    return;
  for (unsigned i = 0; i < SPARE_UNITS_MOST; i++)
    shrink_spares(thread, i, spares->count[i]);
}

/* Returns the spares of each length that were not needed since the last tick. */
void large_tick_spares(thread_t *thread)
{
  spares_t *spares = &thread->spares;
  for (unsigned i = 0; i < SPARE_UNITS_MOST; i++) {
    shrink_spares(thread, i, spares->low[i]);
    spares->low[i] = spares->count[i];
  }
}

/* The lost thread may have been in the middle of a call: a run whose kind is not that of a spare may be with a caller. */
void large_give_lost_spares(thread_t *thread)
{
  large_fold_figures(thread);
  for (unsigned i = 0; i < SPARE_UNITS_MOST; i++)
    for (unsigned k = 0; k < SPARE_DEPTH; k++) {
      run_t *run = thread->spares.of[i][k];
      thread->spares.of[i][k] = NULL;
      if (run && run_kind(run) == RUN_SPARE && run->units == i + 1 && run_owner(run) == &default_heap)
        give_run(&default_heap, run, false);
    }
}
