/* SPDX-License-Identifier: MIT
 * Walks over the live blocks of a heap. Nothing is believed from one block to the next: the visitor may free the one it is
 * given, and with it the slab or the run, and allocate elsewhere. */
#include "heap/walk.h"
#include "heap/dying.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/locate.h"
#include "heap/observer.h"
#include "space/gate.h"
#include <string.h>

typedef struct walk {
  heap_t *heap;
  pool_visit_fn *visit;
  heap_visit_fn *visit_site; /* or this */
  void *context;
  /* The run that the walk is at, as it was when its space was locked. */
  const run_t *run;
  run_kind_t kind;
  bin_t *bin;
  char *start, *end;
  size_t size;
  heap_visit_start_fn *visit_start; /* or this, with what holds a block */
} walk_t;

static bool tell(const walk_t *walk, char *start, size_t size, site_t site, uintptr_t number)
{
  walked_t walked = {{start, size, site && observer ? observer->address_of(site) : NULL}, site, number};
  return walk->visit_site ? walk->visit_site(&walked, walk->context) : walk->visit(&walked.block, walk->context);
}

/* The visitor is told of what the caller of a heap with heads asked for, without its guard. A block whose guard cannot be
 * believed has its turn when it is freed. */
static bool visit_block(const walk_t *walk, char *start, size_t size)
{
  if (walk->visit_start)
    return walk->visit_start(start, walk->context);
  if (!heap_is_headed(walk->heap))
    return tell(walk, start, size, 0, 0);
  head_look_t guard = heads->look(start, size);
  return guard.state != HEAD_LIVE || tell(walk, guard.block, guard.size, guard.allocated, guard.number);
}

/* ---- slabs ---- */

/* Flushes what the calling thread has cached of the slab's class, which would look live: the visitor may have freed blocks. */
static void flush_own(const walk_t *walk)
{
  if (!bin_has_magazines(walk->bin))
    return;
  thread_t *thread = thread_current_to_free();
  magazines_t *magazines = heap_enter(walk->heap, thread);
  if (!magazines)
    return;
  magazines_flush(magazines, walk->bin);
  heap_leave(walk->heap, thread);
}

/* What a fork has lost of a slab's blocks looks live too. It stays lost, so it is looked for once in each slab, unless the
 * visitor forks and goes on in the child. */
enum { SLAB_WORDS_MOST = (1 << (UNIT_LOG2 - ALIGNMENT_LOG2)) / WORD_BITS };
typedef struct lost {
  const thread_t *newest;
  word_t blocks[SLAB_WORDS_MOST];
} lost_t;

/* The newest lost thread tells whether a fork has lost more since the last look. */
static void look_for_lost(const walk_t *walk, lost_t *lost)
{
  if (!HAS_SYSTEM || likely(lost->newest == threads_first_lost()))
    return;
  lost->newest = threads_first_lost();
  memset(lost->blocks, 0, sizeof lost->blocks);
  heap_mark_lost(walk->bin, walk->start, walk->end, lost->blocks);
}

/* Takes the blocks a word at a time, as they are live at that moment. The slab may go while the visitor runs, so it is asked
 * for anew for each word. */
static bool walk_slab(const walk_t *walk)
{
  word_t live;
  lost_t lost;
  if (HAS_SYSTEM)
    memset(&lost, 0, sizeof lost);
  for (size_t w = 0;; w++) {
    flush_own(walk);
    if (!bin_live_word(walk->bin, walk->run, walk->start, w, &live))
      return true;
    for (; live; live &= live - 1) {
      size_t i = w * WORD_BITS + lowest_bit(live);
      char *block = walk->start + i * walk->bin->block_size;
      look_for_lost(walk, &lost);
      if ((!HAS_SYSTEM || !bit_test(lost.blocks, i)) && !visit_block(walk, block, walk->bin->block_size))
        return false;
    }
  }
}

/* ---- runs ---- */

/* Called under the lock of the space, and notes everything that the walk will need of the run: it may be gone when the lock is
 * open. */
static bool is_of_heap(const arena_t *arena, const run_t *run, void *context)
{
  walk_t *walk = context;
  walk->kind = run_kind(run);
  if (walk->kind == RUN_SLAB) {
    walk->bin = run_owner(run);
    if (walk->bin->heap != walk->heap)
      return false;
  } else if (walk->kind != RUN_LARGE || run_owner(run) != walk->heap) {
    return false;
  }
  walk->run = run;
  walk->start = run->start;
  walk->end = run->start + run_bytes(arena, run);
  walk->size = run->size;
  return true;
}

/* Goes on behind the run that was visited, by address: no pointer into a list would be safe. */
static bool walk_space(walk_t *walk, space_t *space)
{
  for (const char *from = NULL; space_next_run(space, from, is_of_heap, walk); from = walk->end)
    if (!(walk->kind == RUN_SLAB ? walk_slab(walk) : visit_block(walk, walk->start, walk->size)))
      return false;
  return true;
}

/* Goes on by address, as above. */
static bool walk_huge(const walk_t *walk)
{
  huge_t *huge;
  if (!walk->heap->huge)
    return true; /* nobody else's have to be looked at */
  for (const char *from = NULL; (huge = huge_next(walk->heap, from)) != NULL;) {
    char *start = huge_start(huge);
    bool go_on = huge->is_apart && !walk->visit_start ? tell(walk, huge_block(huge), huge_usable(huge), apart_of(huge)->site, 0)
                                                      : visit_block(walk, start, huge_size(huge));
    if (!go_on)
      return false;
    from = start + 1;
  }
  return true;
}

/* Goes on by address, as above. */
static bool walk_granules(const walk_t *walk)
{
  size_t size = 0;
  for (char *block = NULL; (block = granular_next(walk->heap, block, &size)) != NULL; block += size)
    if (!visit_block(walk, block, size))
      return false;
  return true;
}

/* ---- the whole heap ---- */

/* What is cached would look live. No thread is in a call with the heap during a walk, so their magazines can be flushed. Where
 * the process ends because one of them holds a block twice, that would be found again, in the handler of SIGABRT. */
static void flush_all_threads(heap_t *heap)
{
  if (process_is_ending())
    return;
  if (HAS_SYSTEM)
    threads_visit(heap, false, heap_flush_magazines);
  if (heap_is_default(heap)) {
    gate_close(GATE_ENDS);
    lock_acquire(&threads_lock);
    for (thread_t *thread = threads_first(); thread; thread = thread->next) {
      heap_flush_magazines(&thread->default_magazines, heap);
      large_flush_spares(thread);
    }
    lock_release(&threads_lock);
    gate_open(GATE_ENDS, lock_release);
  }
  FOR_EACH_BIN(bin, heap)
    bin_drain(bin);
}

static bool walk_all(walk_t *walk, heap_t *heap)
{
  if (heap_has_granules(heap) && !walk_granules(walk))
    return false;
  if (heap_own_arena(heap) && !walk_space(walk, &heap->region.space))
    return false;
  /* A heap with a region may have gone on in the process's space; one in a caller's memory cannot. */
  return heap_is_guest(heap) || (walk_space(walk, &space_of_process) && walk_huge(walk));
}

bool heap_walk(heap_t *heap, pool_visit_fn *visit, void *context)
{
  walk_t walk = {.heap = heap, .visit = visit, .context = context};
  flush_all_threads(heap);
  return walk_all(&walk, heap);
}

bool heap_walk_sites(heap_t *heap, bool beside, heap_visit_fn *visit, void *context)
{
  walk_t walk = {.heap = heap, .visit_site = visit, .context = context};
  if (!beside)
    flush_all_threads(heap);
  return walk_all(&walk, heap);
}

bool heap_walk_starts(heap_t *heap, heap_visit_start_fn *visit, void *context)
{
  walk_t walk = {.heap = heap, .visit_start = visit, .context = context};
  return walk_all(&walk, heap);
}
