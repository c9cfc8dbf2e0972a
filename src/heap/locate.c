/* SPDX-License-Identifier: MIT
 *
 * A question goes down through the layers: is the address in a guest, a run, a mapping, a reserve? Each layer calls back under
 * its own lock (ask_run(), ask_huge()), so that the record it found cannot change meanwhile. */
#include "heap/locate.h"
#include "base/list.h"
#include "heap/debug_hooks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "misuse.h"
#include "os/lock.h"

/* ---- guests: heaps in a caller's memory, which may be a block of any other heap, even of another guest ---- */

lock_t guests_lock;
static range_t *guests;
static size_t guest_count; /* 0 saves the lock: a caller has a block of a guest only after the guest was entered */

static heap_t *heap_of_guest(range_t *range) { return CONTAINER_OF(range, heap_t, region.guest); }

static heap_t *guest_around(uintptr_t address)
{
  range_t *range = range_at_or_below(guests, address);
  heap_t *heap = range ? heap_of_guest(range) : NULL;
  while (heap && address - heap->region.guest.start >= heap->region.guest.size)
    heap = heap->region.around;
  return heap;
}

void guests_enter(heap_t *heap)
{
  heap_region_t *region = &heap->region;
  region->guest = (range_t){.start = (uintptr_t)region->start, .size = region->size};
  LOCKED(&guests_lock);
  region->around = guest_around(region->guest.start);
  range_insert(&guests, &region->guest);
  __atomic_fetch_add(&guest_count, 1, __ATOMIC_RELAXED);
}

/* Guests inside its memory are now inside the heap that the memory belongs to. */
void guests_leave(heap_t *heap)
{
  heap_region_t *region = &heap->region;
  uintptr_t end = region->guest.start + region->guest.size;
  LOCKED(&guests_lock);
  range_remove(&guests, &region->guest);
  for (range_t *at = range_at_or_above(guests, region->guest.start); at && at->start < end;
       at = range_at_or_above(guests, at->start + 1))
    if (heap_of_guest(at)->region.around == heap)
      heap_of_guest(at)->region.around = region->around;
  __atomic_fetch_sub(&guest_count, 1, __ATOMIC_RELAXED);
}

/* Returns the guest around an address. *outer is the guest itself. But if its memory begins at just this address, *outer is the
 * heap around the guest: the address may then be a block there. */
static heap_t *find_guest(const void *address, heap_t **outer)
{
  *outer = NULL;
  if (likely(!__atomic_load_n(&guest_count, __ATOMIC_RELAXED)))
    return NULL;
  LOCKED(&guests_lock);
  heap_t *heap = guest_around((uintptr_t)address);
  *outer = heap && heap->region.guest.start == (uintptr_t)address ? heap->region.around : heap;
  return heap;
}

/* ---- runs and mappings ---- */

typedef struct question {
  const void *address;
  located_t at;
  const char *verifies; /* the call that wants the head verified; NULL: none */
  bool alone;
  bool is_returned; /* only the heap and the memory are wanted: the caller owns the returned block */
  heap_t *region;   /* the address is in units of its region, or in none of its runs */
} question_t;

/* The result is preliminary: the block may still be in a magazine. */
static void ask_slab(question_t *q)
{
  located_t *at = &q->at;
  char *block = (char *)(uintptr_t)q->address;
  at->live = q->is_returned || bin_ask(at->bin, at->run, q->address, &block);
  at->start = block;
  at->size = at->bin->block_size;
  at->heap = at->bin->heap;
}

/* Reads the head of a block. Another thread may be about to free that memory, so it is read under the lock that keeps it. */
static void look_at_head(question_t *q, const heap_t *heap, const char *start, size_t size)
{
  if (likely(!heap_is_headed(heap)) || q->is_returned)
    return;
  q->at.head = heads->look(start, size);
  if (q->verifies)
    heads->verify(heap, (char *)(uintptr_t)start, size, q->verifies, q->alone);
}

/* The end of a slab may be too short for a block, and then there is no head. */
static void look_in_slab(question_t *q, const bin_t *bin, const run_t *slab)
{
  size_t index = bin_block_index(bin, slab, q->address);
  if (index < slab->capacity)
    look_at_head(q, bin->heap, slab->start + index * bin->block_size, bin->block_size);
}

/* Called under the lock of the run's space. A slab's block is looked at later, under its bin's lock. A single-threaded bin has
 * no lock, so its block is looked at here, where the slab cannot be given back. */
static void ask_run(const run_t *run, void *context)
{
  question_t *q = context;
  run_kind_t kind = run_kind(run);
  located_t *at = &q->at;
  if (kind == RUN_SLAB) {
    *at = (located_t){.bin = run_owner(run), .run = (run_t *)(uintptr_t)run};
    look_in_slab(q, at->bin, run);
    if (at->bin->lock.solo)
      ask_slab(q);
  } else if (kind == RUN_LARGE || kind == RUN_SPARE)
    *at = (located_t){.heap = run_owner(run),
                      .run = (run_t *)(uintptr_t)run,
                      .start = run->start,
                      .size = __atomic_load_n(&run->size, __ATOMIC_RELAXED)};
  else if (kind == RUN_REGION)
    q->region = run_owner(run);
  if (!at->bin && at->start)
    at->live = kind == RUN_LARGE && (size_t)((const char *)q->address - at->start) < at->size;
  if (!at->bin && at->live)
    look_at_head(q, at->heap, at->start, at->size);
}

/* The record of a standalone block replaces the head. The rest of the range is with no caller. */
static void ask_standalone(question_t *q, const huge_t *huge)
{
  char *block = huge_block(huge);
  size_t size = huge_usable(huge);
  q->at = (located_t){.heap = huge->owner, .huge = (huge_t *)(uintptr_t)huge, .start = block, .size = size};
  q->at.live = (size_t)((const char *)q->address - block) < max_size(size, 1);
  q->at.head.kind = standalone_of(huge)->kind;
  if (heap_is_headed(q->at.heap) || standalone_of(huge)->source->moves)
    q->at.head = (head_look_t){.state = HEAD_LIVE,
                               .kind = standalone_of(huge)->kind,
                               .block = block,
                               .size = size,
                               .allocated = standalone_of(huge)->site};
  if (q->verifies && standalone_of(huge)->source->verify)
    standalone_of(huge)->source->verify(standalone_of(huge), q->verifies);
}

/* A mapping that is a region is no block: its heap knows the blocks in it. */
static void ask_huge(huge_t *huge, void *context)
{
  question_t *q = context;
  if (huge->is_region) {
    q->region = huge->owner;
    return;
  }
  if (huge->is_standalone) {
    ask_standalone(q, huge);
    return;
  }
  q->at = (located_t){.heap = huge->owner, .huge = huge, .start = huge_start(huge), .size = huge_size(huge), .live = true};
  look_at_head(q, q->at.heap, q->at.start, q->at.size);
}

static heap_t *heap_of_space(const space_t *space) { return CONTAINER_OF(space, heap_t, region.space); }

static heap_t *reserve_around(const void *address)
{
  const arena_t *arena = space_arena_around(address);
  bool inside = arena && arena->space != &space_of_process && unit_of(arena, address) < arena->unit_count;
  return inside ? heap_of_space(arena->space) : NULL;
}

static void ask_granules(question_t *q, heap_t *heap)
{
  located_t *at = &q->at;
  if (!granular_holds(heap, q->address))
    return;
  bool solo = heap->lock.solo; /* its owner does not wait for the lock, which is not written to beside it */
  if (!solo)
    closure_acquire(LOCKS_OF_HEAPS, &heap->lock);
  at->start = granular_around(heap, q->address, &at->size);
  if (at->start) {
    at->heap = heap;
    at->live = true;
    look_at_head(q, heap, at->start, at->size);
  }
  if (!solo)
    lock_release(&heap->lock);
}

/* The runs are asked, then the mappings, then the slots of reserves, unless a guest is given. If the answer is a region, its
 * own arena is asked too, because its blocks are runs there. */
static inline void look(question_t *q, heap_t *guest)
{
  q->region = guest;
  if (!q->region && !space_ask(space_arena_around(q->address), q->address, ask_run, q) && !huge_ask(q->address, ask_huge, q))
    q->region = reserve_around(q->address);
  heap_t *region = q->region;
  if (region && heap_has_granules(region))
    ask_granules(q, region);
  else if (region)
    space_ask(heap_own_arena(region), q->address, ask_run, q);
  if (q->at.bin && !q->at.bin->lock.solo)
    ask_slab(q);
  if (!q->at.heap)
    q->at.heap = region;
}

/* Guests come first, because their memory may be a block of another heap. One address is special: no block of a guest begins
 * where its memory begins, but the block that the guest lives in may, and is freed by that address. */
static void locate(question_t *q)
{
  heap_t *outer, *guest = find_guest(q->address, &outer);
  look(q, outer);
  if (unlikely(guest != outer && located_block(&q->at) != q->address)) {
    q->at = (located_t){0};
    look(q, guest);
  }
}

/* ---- questions ---- */

/* Under threads_lock. */
static bool is_cached_in(const thread_t *thread, const bin_t *bin, const void *block)
{
  bool found = false;
  for (; thread && !found; thread = thread->next) {
    const magazines_t *magazines = heap_magazines_in(thread, bin->heap);
    found = magazines && magazines_hold(magazines, bin->size_class, block);
  }
  return found;
}

static bool is_cached(const bin_t *bin, const void *block)
{
  if (!bin_has_magazines(bin))
    return false;
  LOCKED(&threads_lock);
  return is_cached_in(threads_first(), bin, block) || is_cached_in(threads_first_lost(), bin, block);
}

typedef struct mark {
  const bin_t *bin;
  const char *start, *end;
  word_t *lost;
} mark_t;

static void mark_lost(const void *block, void *mark)
{
  const mark_t *m = mark;
  size_t offset = (size_t)((const char *)block - m->start);
  if (offset < (size_t)(m->end - m->start))
    bit_set(m->lost, offset * m->bin->inverse >> INVERSE_SHIFT);
}

/* Only the child of a fork has lost threads. */
void heap_mark_lost(const bin_t *bin, const char *start, const char *end, word_t *lost)
{
  mark_t mark = {bin, start, end, lost};
  if (!bin_has_magazines(bin) || !threads_first_lost())
    return;
  LOCKED(&threads_lock);
  for (const thread_t *thread = threads_first_lost(); thread; thread = thread->next) {
    const magazines_t *magazines = heap_magazines_in(thread, bin->heap);
    if (magazines)
      magazines_each(magazines, bin->size_class, mark_lost, &mark);
  }
}

/* Returns whether a block that is out of its slab is in no magazine either. Blocks may move between slabs and threads
 * meanwhile, so the depots are searched twice. A block that is between two places at each look is still missed. */
static bool is_with_a_caller(const located_t *at)
{
  char *block;
  return !bin_depot_holds(at->bin, at->start) && !is_cached(at->bin, at->start) && !bin_depot_holds(at->bin, at->start) &&
         bin_ask(at->bin, at->run, at->start, &block);
}

/* Only the requested bytes behind a live head are the caller's. */
static void be_without_head(located_t *at, const void *address)
{
  at->live = at->head.state == HEAD_LIVE && (size_t)((const char *)address - at->head.block) < max_size(at->head.size, 1);
  at->start = at->head.block;
  at->size = at->head.size;
}

/* heaps_lock keeps the records of all heaps in place. A block that is out of its slab is live only if no depot and no magazine
 * has it. That search is expensive, so it is last. */
located_t heap_locate(const void *address)
{
  if (!manager_is_up())
    return (located_t){0};
  LOCKED(&heaps_lock);
  question_t q = {.address = address};
  locate(&q);
  located_t at = q.at;
  if (at.live && at.bin)
    at.live = is_with_a_caller(&at);
  if (at.live && (heap_is_headed(at.heap) || located_has_head(&at)))
    be_without_head(&at, address);
  return at;
}

/* ---- blocks that a caller claims to have ---- */

/* A block of a heap's overflow was given out by that heap, so it may be freed to it. */
static bool overflows_to(const heap_t *heap, const heap_t *other)
{
  while (heap && heap != other)
    heap = heap_overflow(heap);
  return heap != NULL;
}

/* Returns whether a run that was given back began at the address, or at its head. */
static bool had_run_at(const heap_t *heap, const char *block)
{
  const char *guarded = (uintptr_t)block > HEAD_FRONT ? block - HEAD_FRONT : block;
  if (heap && heap_own_arena(heap))
    return space_had_run(heap_own_arena(heap), heap_is_headed(heap) ? guarded : block);
  return space_had_run(space_arena_around(block), block) || space_had_run(space_arena_around(guarded), guarded);
}

/* Chooses between the messages "freed" and "not a block". Heads, free blocks of slabs, and spares are evidence by themselves. A
 * run that was given back has left traces in its descriptor. */
static bool was_freed(const located_t *at, const void *block)
{
  if (at->head.state == HEAD_FREED)
    return !at->head.block || at->head.block == block;
  if (at->start == block && !heap_is_headed(at->heap))
    return at->bin || (at->run && run_kind(at->run) == RUN_SPARE);
  if (at->heap && heap_has_granules(at->heap) && granular_holds(at->heap, block))
    return !at->start && (uintptr_t)block % BLOCK_ALIGNMENT == 0 && granular_was_taken(at->heap, block);
  return had_run_at(at->heap, block);
}

/* Size and heap are named only if the block is known: memory that was given back is only known to have been one. */
COLD static _Noreturn void not_live(const located_t *at, const heap_t *given_to, const void *block, const char *call,
                                    const char *if_freed)
{
  if (blocks_are_malloced)
    tool_report(at->heap, block);
  if (!at->heap && observer)
    observer->explain_dead(block, call, if_freed, given_to);
  bool freed = was_freed(at, block), known = freed && located_block(at) == block;
  if (known && heap_is_headed(at->heap))
    heads->say_sites(at->head.allocated, at->head.freed);
  fatal_misuse_of_block(call, block, freed ? if_freed : NOT_A_BLOCK, known ? at->heap : NULL, known ? located_size(at) : 0,
                        given_to);
}

COLD static _Noreturn void not_of_heap(const located_t *at, const heap_t *given_to, const char *call)
{
  if (heap_is_headed(at->heap))
    heads->say_sites(at->head.allocated, at->head.freed);
  fatal_misuse_of_block(call, located_block(at), NOT_OF_HEAP, at->heap, located_size(at), given_to);
}

/* Examines an address that is no live block, or one in a heap with heads. The head decides, because the block's memory may be
 * in use while no caller has the block. An invalid head in front of a possible block was overwritten. */
COLD static void look_closer(const located_t *at, const heap_t *given_to, const char *block, const char *call,
                             const char *if_freed)
{
  if (!at->live || (!heap_is_headed(at->heap) && at->start != block))
    not_live(at, given_to, block, call, if_freed);
  if (heap_is_headed(at->heap) && !at->head.state && (size_t)(block - at->start) >= HEAD_FRONT &&
      (uintptr_t)block % BLOCK_ALIGNMENT == 0)
    heads->damaged(at, block, call);
  if (heap_is_headed(at->heap) && (at->head.state != HEAD_LIVE || at->head.block != block))
    not_live(at, given_to, block, call, if_freed);
}

/* No lock of the heaps is taken: a caller that has a block of a heap keeps that heap alive. Being no live block is reported
 * first; only a live block can be of another heap. */
located_t heap_locate_block(const heap_t *heap, const void *block, const char *call, const char *if_freed)
{
  question_t q = {.address = block};
  if (manager_is_up())
    locate(&q);
  located_t at = q.at;
  if (unlikely(at.start != block || !at.live || heap_is_headed(at.heap)))
    look_closer(&at, heap, block, call, if_freed);
  if (unlikely(heap && !overflows_to(heap, at.heap)))
    not_of_heap(&at, heap, call);
  return at;
}

/* Guests need no look: none of their blocks starts where the block starts that the guest lives in. */
bool heap_has_cached_block(heap_t *heap, size_t size_class, const void *block)
{
  bin_t *bin = published_bin(heap, (unsigned)size_class);
  const arena_t *arena = space_arena_around(block);
  if (unlikely(!bin || !arena))
    return false;
  const run_t *run = run_of(arena, block);
  char *start;
  return likely(run_kind(run) == RUN_SLAB && run_owner(run) == bin && bin_ask(bin, run, block, &start) && start == block);
}

void heap_verify_around(const char *address, bool alone, const char *call)
{
  question_t q = {.address = address, .verifies = call, .alone = alone};
  locate(&q);
}

located_t heap_locate_returned(const char *start)
{
  question_t q = {.address = start, .is_returned = true};
  locate(&q);
  return q.at;
}
