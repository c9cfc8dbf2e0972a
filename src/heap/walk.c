/* SPDX-License-Identifier: MIT
 *
 * Walks over the live blocks of a heap. The visitor may free the block that it is given, and with it the slab or the run, and
 * allocate elsewhere. So nothing is assumed from one block to the next. */
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "os/lock.h"
#include <string.h>

typedef struct walk {
  heap_t *heap;
  walk_mode_t mode;
  heap_visit_fn *visit;
  void *context;
  /* The current run of the walk, as it was when its space was locked. */
  const run_t *run;
  run_kind_t kind;
  bin_t *bin;
  char *start, *end;
  size_t size;
} walk_t;

static bool tell(const walk_t *walk, walked_t walked)
{
  walked.block.site = walked.site && observer ? observer->address_of(walked.site) : NULL;
  return walk->visit(&walked, walk->context);
}

/* The visitor gets the requested bytes. Blocks with an invalid head are skipped: freeing them reports that. */
static bool visit_block(const walk_t *walk, char *start, size_t size, bool has_pages)
{
  walked_t walked = {.block = {.start = start, .size = size}, .has_pages = has_pages};
  if (walk->mode == WALK_MEMORY || !heap_is_headed(walk->heap))
    return tell(walk, walked);
  head_look_t head = heads->look(start, size);
  walked = (walked_t){{head.block, head.size, NULL}, head.allocated, head.number, has_pages};
  return head.state != HEAD_LIVE || tell(walk, walked);
}

/* ---- slabs ---- */

/* Flushes the calling thread's magazines of the slab's class, which would look live: the visitor may have freed blocks. */
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

/* Blocks that a fork has lost look live too. They are searched once for each slab, unless the visitor forks. */
enum { SLAB_WORDS_MOST = (1 << (UNIT_LOG2 - ALIGNMENT_LOG2)) / WORD_BITS };
typedef struct lost {
  const thread_t *newest;
  word_t blocks[SLAB_WORDS_MOST];
} lost_t;

/* The newest lost thread tells whether a fork has lost more since the last look. */
static void look_for_lost(const walk_t *walk, lost_t *lost)
{
  if (likely(lost->newest == threads_first_lost()))
    return;
  lost->newest = threads_first_lost();
  memset(lost->blocks, 0, sizeof lost->blocks);
  heap_mark_lost(walk->bin, walk->start, walk->end, lost->blocks);
}

/* Visits the blocks that are live now, a word at a time. The slab may go away meanwhile and is looked up for each word. */
static bool walk_slab(const walk_t *walk)
{
  word_t live;
  lost_t lost = {0};
  for (size_t w = 0;; w++) {
    flush_own(walk);
    if (!bin_live_word(walk->bin, walk->run, walk->start, w, &live))
      return true;
    for (; live; live &= live - 1) {
      size_t i = w * WORD_BITS + lowest_bit(live);
      char *block = walk->start + i * walk->bin->block_size;
      look_for_lost(walk, &lost);
      if (!bit_test(lost.blocks, i) && !visit_block(walk, block, walk->bin->block_size, false))
        return false;
    }
  }
}

/* ---- runs ---- */

/* Called under the lock of the space. Copies all that the walk needs of the run, which may go away afterwards. */
static bool is_of_heap(const run_t *run, void *context)
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
  walk->end = run->start + run_bytes(run);
  walk->size = run->size;
  return true;
}

/* The walk continues by address behind the visited run: no pointer into a list would be safe. */
static bool walk_space(walk_t *walk, space_t *space)
{
  for (const char *from = NULL; space_next_run(space, from, is_of_heap, walk); from = walk->end)
    if (!(walk->kind == RUN_SLAB ? walk_slab(walk) : visit_block(walk, walk->start, walk->size, true)))
      return false;
  return true;
}

static bool walk_huge(const walk_t *walk)
{
  huge_t *huge;
  if (!walk->heap->huge)
    return true; /* mappings of other heaps need no look */
  for (const char *from = NULL; (huge = huge_next(walk->heap, from)) != NULL;) {
    char *start = huge_start(huge);
    bool has_record = huge->is_standalone && walk->mode != WALK_MEMORY;
    if (!(has_record ? tell(walk, (walked_t){{huge_block(huge), huge_usable(huge), NULL}, standalone_of(huge)->site, 0, false})
                     : visit_block(walk, start, huge_size(huge), !huge->is_standalone)))
      return false;
    from = start + 1;
  }
  return true;
}

static bool walk_granules(const walk_t *walk)
{
  size_t size = 0;
  for (char *block = NULL; (block = granular_next(walk->heap, block, &size)) != NULL; block += size)
    if (!visit_block(walk, block, size, false))
      return false;
  return true;
}

/* ---- the whole heap ---- */

/* Cached blocks would look live. No thread is in a call with the heap during a walk, so all magazines can be flushed. If the
 * process ends because a magazine holds a block twice, flushing would find that again in the SIGABRT handler. */
static void flush_all_threads(heap_t *heap)
{
  if (process_is_ending())
    return;
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

bool heap_walk(heap_t *heap, walk_mode_t mode, heap_visit_fn *visit, void *context)
{
  walk_t walk = {.heap = heap, .mode = mode, .visit = visit, .context = context};
  if (mode == WALK_ALONE)
    flush_all_threads(heap);
  if (heap_has_granules(heap) && !walk_granules(&walk))
    return false;
  if (heap_own_arena(heap) && !walk_space(&walk, &heap->region.space))
    return false;
  /* A heap with a region may have gone on in the process's space; a guest cannot. */
  return heap_is_guest(heap) || (walk_space(&walk, &space_of_process) && walk_huge(&walk));
}
