/* SPDX-License-Identifier: MIT */
#include "heap.h"
#include "guard.h"
#include "metadata.h"
#include "os/fatal.h"
#include <errno.h>
#include <string.h>

enum {
  MOVE_PAGES_LEAST = 1 << 20           /* from here a large block moves by its page table, not byte by byte */
};

heap_t heap_front = {.name = "default"};
lock_t heaps_lock;
static lock_t ready_lock;
static bool ready;                     /* stored with release once everything below is set, read with acquire */

static pool_t front_pools[CLASS_COUNT];

heap_t *heaps_first(void) { return &heap_front; }

/* ---- start, fork, exit ---- */

static void flush_thread(thread_t *thread);

/* Locks in the order in which they nest. */
static void for_each_lock(void (*act)(lock_t *))
{
  act(&ready_lock);
  act(&threads_lock);
  act(&heaps_lock);
  for (heap_t *heap = heaps_first(); heap; heap = heap->next) {
    act(&heap->lock);
    for (unsigned c = 1; c < CLASS_COUNT; c++)
      if (heap->pools[c])
        act(&heap->pools[c]->lock);
  }
  act(&huge_lock);
  act(&space_of_process.lock);
  act(&metadata_lock);
}

/* A process with one thread forks without the locks: the fork may come from a signal handler that interrupted a call which
 * holds one, and that call goes on in the child and opens it. */
static bool fork_locked;

static void fork_prepare(void)
{
  fork_locked = !os_single_threaded();
  if (fork_locked)
    for_each_lock(lock_acquire);
}

static void fork_parent(void)
{
  if (fork_locked)
    for_each_lock(lock_release);
}

static void fork_child(void)
{
  if (!fork_locked)
    return;
  for_each_lock(lock_reset);
  threads_forget_others();
}

COLD static bool bring_up(void)
{
  lock_acquire(&ready_lock);
  bool up = ready;
  if (!up) {
    option_read();
    up = space_init();
    heap_front.space = &space_of_process;
    heap_front.checked = options.checked;
    heap_front.plane = options.checked ? POOL_PLANE_NONE : POOL_PLANE_FRONT;
    thread_flush = flush_thread;
    __atomic_store_n(&ready, up, __ATOMIC_RELEASE);
  }
  lock_release(&ready_lock);
  return up;
}

bool heap_front_ready(void) { return likely(__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) || bring_up(); }

/* Not at bring-up: that may be inside the dynamic loader, before the C library can register anything. */
__attribute__((constructor)) static void start(void)
{
  heap_front_ready();
  os_on_fork(fork_prepare, fork_parent, fork_child);
}

/* ---- pools and threads ---- */

COLD static pool_t *make_pool(heap_t *heap, unsigned size_class)
{
  lock_acquire(&heap->lock);
  pool_t *pool = heap->pools[size_class];
  if (!pool && heap_front_ready()) {
    pool = heap == &heap_front ? &front_pools[size_class] : metadata_take(sizeof *pool, 64);
    if (pool) {
      pool_init(pool, size_class, heap, heap->space, &heap->budget, heap->plane);
      __atomic_store_n(&heap->pools[size_class], pool, __ATOMIC_RELEASE);
    }
  }
  lock_release(&heap->lock);
  return pool;
}

pool_t *heap_pool(heap_t *heap, unsigned size_class)
{
  pool_t *pool = __atomic_load_n(&heap->pools[size_class], __ATOMIC_ACQUIRE);
  return likely(pool) ? pool : make_pool(heap, size_class);
}

static void flush_magazines(magazines_t *magazines, heap_t *heap, bool only_idle)
{
  for (unsigned c = 1; c <= CLASS_CACHED; c++)
    if (heap->pools[c] && (magazines_idle(magazines, c) || !only_idle))
      magazines_flush(magazines, heap->pools[c]);
}

static void flush_thread(thread_t *thread) { flush_magazines(&thread->front, &heap_front, false); }

COLD void heap_look_at_clock(thread_t *thread)
{
  if (options.purge_delay_ms == PURGE_NEVER)
    return;
  uint64_t now = os_now_ms();
  if (now - thread->looked_ms >= options.purge_delay_ms) {
    thread->looked_ms = now;
    flush_magazines(&thread->front, &heap_front, true);
  }
  if (space_tick(&space_of_process, now))
    for (unsigned c = 1; c < CLASS_COUNT; c++)
      if (heap_front.pools[c])
        pool_tick(heap_front.pools[c]);
}

size_t heap_trim(heap_t *heap, size_t keep)
{
  if (!heap_front_ready())
    return 0;
  thread_t *thread = thread_current();
  if (thread)
    flush_magazines(&thread->front, heap, false);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (heap->pools[c])
      pool_drain(heap->pools[c]);
  return space_purge(heap->space, keep);
}

/* ---- blocks of a size class ---- */

unsigned heap_class_for(size_t size, size_t alignment)
{
  if (size > SIZE_MAX_CLASS || alignment > UNIT)
    return 0;
  if (alignment <= BLOCK_ALIGNMENT)
    return size_class_of(size);
  /* Slabs begin at a unit, so a block size that is a multiple of the alignment has every block aligned. */
  size = round_up(size + !size, alignment);
  unsigned c = size <= SIZE_MAX_CLASS ? size_class_of(size) : 0;
  while (c && size_class_size[c] & (alignment - 1))
    c = c == CLASS_LAST ? 0 : c + 1;
  return c;
}

size_t heap_good_size(size_t size)
{
  if (size <= SIZE_MAX_CLASS)
    return size_class_size[size_class_of(size)];
  size_t page = os_page_size();
  return size <= PTRDIFF_MAX - page ? round_up(size, page) : size;
}

static void *take_cached(heap_t *heap, pool_t *pool)
{
  thread_t *thread = heap->checked ? NULL : thread_current();
  if (!thread)
    return NULL;
  magazines_t *magazines = &thread->front;
  void *block = MAGAZINE_POP(&magazines->cache->of[pool->size_class]);
  if (!block) {
    heap_trip(thread);
    block = magazines_refill(magazines, pool);
  }
  return block;
}

static void *take_block(heap_t *heap, unsigned size_class, block_past_t *past)
{
  pool_t *pool = heap_pool(heap, size_class);
  if (!pool)
    return NULL;
  *past = BLOCK_USED;
  void *block = size_class <= CLASS_CACHED ? take_cached(heap, pool) : NULL;
  if (!block && !pool_take(pool, &block, 1, past))
    return NULL;
  return block;
}

/* ---- large blocks ---- */

static void large_count(heap_t *heap, ptrdiff_t blocks, ptrdiff_t bytes)
{
  heap->large_blocks += (size_t)blocks;
  heap->large_bytes += (size_t)bytes;
}

static void large_link(heap_t *heap, run_t *run)
{
  lock_acquire(&heap->lock);
  run->previous = NULL;
  run->next = heap->large;
  if (run->next)
    run->next->previous = run;
  heap->large = run;
  large_count(heap, 1, (ptrdiff_t)run->size);
  lock_release(&heap->lock);
}

static void large_unlink(heap_t *heap, run_t *run)
{
  lock_acquire(&heap->lock);
  *(run->previous ? &run->previous->next : &heap->large) = run->next;
  if (run->next)
    run->next->previous = run->previous;
  large_count(heap, -1, -(ptrdiff_t)run->size);
  lock_release(&heap->lock);
}

static size_t units_for(size_t size) { return (size + UNIT - 1) >> UNIT_LOG2; }

static run_t *large_run(heap_t *heap, size_t size, size_t alignment)
{
  size_t units = units_for(size);
  if (!budget_charge(&heap->budget, units << UNIT_LOG2))
    return NULL;
  run_t *run = space_take(heap->space, units, units_for(alignment));
  if (!run) {
    budget_discharge(&heap->budget, units << UNIT_LOG2);
    return NULL;
  }
  run->kind = RUN_LARGE;
  run->owner = heap;
  run->size = round_up(size, os_page_size());
  large_link(heap, run);
  return run;
}

static void large_free(heap_t *heap, run_t *run, bool dirty)
{
  size_t bytes = (size_t)run->units << UNIT_LOG2;
  large_unlink(heap, run);
  space_give(heap->space, run, dirty);
  budget_discharge(&heap->budget, bytes);
}

static void huge_count(heap_t *heap, ptrdiff_t blocks, ptrdiff_t bytes)
{
  lock_acquire(&heap->lock);
  large_count(heap, blocks, bytes);
  lock_release(&heap->lock);
}

static void *take_huge(heap_t *heap, size_t size, size_t alignment)
{
  size_t bytes = huge_bytes(size);
  if (!budget_charge(&heap->budget, bytes))
    return NULL;
  huge_t *huge = huge_take(size, alignment, heap);
  if (!huge) {
    budget_discharge(&heap->budget, bytes);
    return NULL;
  }
  huge_count(heap, 1, (ptrdiff_t)huge->size);
  return huge->start;
}

static void huge_free(heap_t *heap, huge_t *huge)
{
  size_t bytes = huge->size;
  huge_count(heap, -1, -(ptrdiff_t)bytes);
  huge_give(huge);
  budget_discharge(&heap->budget, bytes);
}

static void *take_large(heap_t *heap, size_t size, size_t alignment, block_past_t *past)
{
  size = max_size(size, 1);
  *past = BLOCK_ZEROED;
  if (units_for(size) > space_longest_run() || units_for(alignment) > space_longest_run())
    return take_huge(heap, size, alignment);
  run_t *run = large_run(heap, size, alignment);
  if (!run)
    return NULL;
  if (!run->zeroed)
    *past = BLOCK_USED;
  return run->start;
}

/* ---- allocation ---- */

static void *take(heap_t *heap, size_t size, size_t alignment, block_past_t *past, size_t *usable)
{
  unsigned c = heap_class_for(size, alignment);
  *usable = c ? size_class_size[c] : round_up(size, os_page_size());
  return c ? take_block(heap, c, past) : take_large(heap, size, alignment, past);
}

void *heap_exhausted(heap_t *heap)
{
  __atomic_fetch_add(&heap->exhausted_count, 1, __ATOMIC_RELAXED);
  if (options.abort_on_exhausted)
    fatal("memory exhausted");
  errno = ENOMEM;
  return NULL;
}

/* Free memory of the heap itself is tried before a request fails. */
static void *take_hard(heap_t *heap, size_t size, size_t alignment, block_past_t *past, size_t *usable)
{
  void *block = take(heap, size, alignment, past, usable);
  if (unlikely(!block)) {
    heap_trim(heap, 0);
    block = take(heap, size, alignment, past, usable);
  }
  return block;
}

static void *allocate_checked(heap_t *heap, size_t size, size_t alignment, bool zero)
{
  block_past_t past;
  size_t usable;
  void *block = take_hard(heap, size + GUARD_BYTES, alignment, &past, &usable);
  if (!block)
    return heap_exhausted(heap);
  guard_open(block, usable, size, past == BLOCK_USED && usable <= SIZE_MAX_CLASS, "pool_alloc");
  if (zero)
    memset(block, 0, size);
  return block;
}

void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero)
{
  block_past_t past;
  size_t usable;
  if (size > PTRDIFF_MAX - 2 * UNIT || alignment > PTRDIFF_MAX / 2 || !heap_front_ready())
    return heap_exhausted(heap);
  if (heap->checked)
    return allocate_checked(heap, size, alignment, zero);
  void *block = take_hard(heap, size, alignment, &past, &usable);
  if (!block)
    return heap_exhausted(heap);
  if (zero && past != BLOCK_ZEROED)
    memset(block, 0, usable);
  return block;
}

/* ---- what an address is ---- */

static located_t locate_in_slab(run_t *slab, const void *address)
{
  pool_t *pool = slab->owner;
  char *start = pool_ask(pool, slab, address);
  size_t index = (size_t)((const char *)address - slab->start) * pool->inverse >> INVERSE_SHIFT;
  return (located_t){.heap = pool->heap, .pool = pool, .run = slab, .start = start ? start : slab->start + index * pool->block_size,
                     .size = pool->block_size, .live = start != NULL};
}

/* In a slab, "live" is not yet sure: the block may be in a magazine. */
static located_t locate_out(const void *address)
{
  run_t *run = space_find(address);
  if (run && run->kind == RUN_SLAB)
    return locate_in_slab(run, address);
  if (run && run->kind == RUN_LARGE)
    return (located_t){.heap = run->owner, .run = run, .start = run->start, .size = run->size,
                       .live = (size_t)((const char *)address - run->start) < run->size};
  huge_t *huge = run ? NULL : huge_find(address);
  if (huge)
    return (located_t){.heap = huge->owner, .huge = huge, .start = huge->start, .size = huge->size, .live = true};
  return (located_t){0};
}

static bool is_cached(const pool_t *pool, const void *block)
{
  bool found = false;
  unsigned c = pool->size_class;
  if (c <= CLASS_CACHED) {
    lock_acquire(&threads_lock);
    for (thread_t *thread = threads_first(); thread && !found; thread = thread->next)
      found = magazines_hold(&thread->front, c, block);
    lock_release(&threads_lock);
  }
  return found;
}

located_t heap_locate(const void *address)
{
  located_t at = locate_out(address);
  if (at.live && at.pool)
    at.live = !pool_depot_holds(at.pool, at.start) && !is_cached(at.pool, at.start);
  if (at.live && at.heap->checked) {
    at.size = guard_size(at.start, at.size);
    at.live = (size_t)((const char *)address - at.start) < max_size(at.size, 1);
  }
  return at;
}

/* The block that starts at `block`, or the end of the program. */
static located_t locate_block(const void *block, const char *call)
{
  located_t at = heap_front_ready() ? locate_out(block) : (located_t){0};
  if (!at.heap || at.start != block)
    fatal_misuse(call, block, NOT_A_BLOCK);
  if (!at.live)
    fatal_misuse(call, block, at.pool ? FREED_TWICE : NOT_A_BLOCK);
  return at;
}

size_t heap_usable_size(const void *block, const char *call)
{
  located_t at = locate_block(block, call);
  return at.heap->checked ? guard_size(block, at.size) : at.size;
}

/* ---- free ---- */

static void give(located_t at, bool dirty)
{
  void *block = at.start;
  if (at.huge) {
    huge_free(at.heap, at.huge);
    return;
  }
  if (!at.pool) {
    large_free(at.heap, at.run, dirty);
    return;
  }
  thread_t *thread = at.pool->size_class <= CLASS_CACHED && !at.heap->checked ? thread_current() : NULL;
  if (!thread) {
    pool_put(at.pool, &block, 1);
  } else if (!MAGAZINE_PUSH(&thread->front.cache->of[at.pool->size_class], block)) {
    heap_trip(thread);
    magazines_overflow(&thread->front, at.pool, block);
  }
}

void heap_free(void *block, const char *call)
{
  located_t at = locate_block(block, call);
  if (at.heap->checked)
    guard_close(block, at.size, call);
  give(at, true);
}

/* ---- changing the size ---- */

static void large_resized(heap_t *heap, run_t *run, size_t size)
{
  size = round_up(size, os_page_size());
  lock_acquire(&heap->lock);
  large_count(heap, 0, (ptrdiff_t)(size - run->size));
  lock_release(&heap->lock);
  run->size = size;
}

static bool large_resize(heap_t *heap, run_t *run, size_t size)
{
  size_t units = units_for(size), had = run->units;
  if (units < had) {
    space_shorten(heap->space, run, units);
    budget_discharge(&heap->budget, (had - units) << UNIT_LOG2);
  } else if (units > had) {
    size_t more = (units - had) << UNIT_LOG2;
    if (units > space_longest_run() || !budget_charge(&heap->budget, more))
      return false;
    if (!space_lengthen(heap->space, run, units)) {
      budget_discharge(&heap->budget, more);
      return false;
    }
  }
  large_resized(heap, run, size);
  return true;
}

static bool huge_resized(heap_t *heap, huge_t *huge, size_t size, bool may_move)
{
  size_t had = huge->size, bytes = huge_bytes(size);
  if (bytes > had && !budget_charge(&heap->budget, bytes - had))
    return false;
  bool done = huge_resize(huge, size, may_move);
  if (bytes > had && !done)
    budget_discharge(&heap->budget, bytes - had);
  if (bytes < had)
    budget_discharge(&heap->budget, had - bytes);
  if (done)
    huge_count(heap, 0, (ptrdiff_t)(bytes - had));
  return done;
}

/* Stays where it is, if it can. A huge block that shrinks below what is huge moves into an arena. */
static bool resize(located_t at, size_t size, bool may_move)
{
  if (at.heap->checked || size > PTRDIFF_MAX - 2 * UNIT)
    return false;
  if (at.huge)
    return units_for(size) > space_longest_run() && huge_resized(at.heap, at.huge, size, may_move);
  if (!at.pool)
    return size > SIZE_MAX_CLASS && large_resize(at.heap, at.run, size);
  return size <= at.size && (size > at.size / 2 || size_class_of(size) == at.pool->size_class);
}

bool heap_resize_in_place(void *block, size_t size, const char *call)
{
  located_t at = locate_block(block, call);
  return resize(at, size, false) || (at.pool && !at.heap->checked && size <= at.size);
}

/* The pages of a large block can change place without being read. */
static void *move_pages(located_t at, size_t size)
{
  if (at.pool || at.huge || at.size < MOVE_PAGES_LEAST || units_for(size) > space_longest_run())
    return NULL;
  run_t *to = large_run(at.heap, size, 1);
  if (!to)
    return NULL;
  if (!os_move_pages(at.run->start, to->start, at.size)) {
    large_free(at.heap, to, true);
    return NULL;
  }
  void *moved = to->start;
  large_free(at.heap, at.run, false);
  return moved;
}

static void *copy(located_t at, size_t size, size_t had)
{
  void *to = heap_allocate(at.heap, size, 1, false);
  if (!to)
    return NULL;
  memcpy(to, at.start, min_size(had, size));
  return to;
}

void *heap_reallocate(void *block, size_t size, const char *call)
{
  located_t at = locate_block(block, call);
  if (at.heap->checked) {
    void *to = copy(at, size, guard_size(block, at.size));
    if (to)
      heap_free(block, call);
    return to;
  }
  if (resize(at, size, true))
    return at.huge ? at.huge->start : block;
  void *to = size > at.size ? move_pages(at, size) : NULL;
  if (to)
    return to;
  to = copy(at, size, at.size);
  if (to)
    give(at, true);
  return to;
}
