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

heap_t heap_front = {.mark = HEAP_LIVE_MARK, .class_most = SIZE_CACHED, .name = "default"};
lock_t heaps_lock;
const heap_dependents_t *heap_dependents;
static lock_t ready_lock, records_lock;
static bool ready;                     /* stored with release once everything below is set, read with acquire */

static struct { _Alignas(64) pool_record_t record; } front_pools[CLASS_COUNT];

heap_t *heaps_first(void) { return &heap_front; }

/* ---- start, fork, exit ---- */

static void flush_thread(thread_t *thread);

static void for_each_pool_lock(const heap_t *heap, void (*act)(lock_t *))
{
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (heap->pools[c])
      act(&heap->pools[c]->lock);
}

/* A heap that one thread uses has no locks: only that thread can fork between two of its calls, and for a child of another
 * thread it is lost. */
static heap_t *shared_from(heap_t *heap)
{
  while (heap && heap->lock.solo)
    heap = heap->next;
  return heap;
}

/* In the order in which they nest. */
static void acquire_all(void)
{
  lock_acquire(&ready_lock);
  lock_acquire(&heaps_lock);
  if (heap_dependents)
    heap_dependents->fork_prepare();
  lock_acquire(&threads_lock);
  for (heap_t *heap = heaps_first(); heap; heap = shared_from(heap->next)) {
    lock_acquire(&heap->lock);
    for_each_pool_lock(heap, lock_acquire);
  }
  for (heap_t *heap = shared_from(heaps_first()->next); heap; heap = shared_from(heap->next))
    lock_acquire(&heap->own_space.lock);
  lock_acquire(&huge_lock);
  lock_acquire(&records_lock);
  lock_acquire(&pool_magazines_lock);
  lock_acquire(&space_of_process.lock);
  lock_acquire(&metadata_lock);
}

/* The other way round: a heap or a pool that is made once a list is open was never locked here. */
static void open_all(void (*open)(lock_t *))
{
  open(&metadata_lock);
  open(&space_of_process.lock);
  open(&pool_magazines_lock);
  open(&records_lock);
  open(&huge_lock);
  for (heap_t *heap = shared_from(heaps_first()->next); heap; heap = shared_from(heap->next))
    open(&heap->own_space.lock);
  for (heap_t *heap = heaps_first(); heap; heap = shared_from(heap->next)) {
    for_each_pool_lock(heap, open);
    open(&heap->lock);
  }
  open(&threads_lock);
  open(&heaps_lock);
  open(&ready_lock);
}

/* A process with one thread forks without the locks: the fork may come from a signal handler that interrupted a call which
 * holds one, and that call goes on in the child and opens it. */
static bool fork_locked;

static void fork_prepare(void)
{
  fork_locked = !os_single_threaded();
  if (fork_locked)
    acquire_all();
}

static void fork_parent(void)
{
  if (!fork_locked)
    return;
  if (heap_dependents)
    heap_dependents->fork_parent();
  open_all(lock_release);
}

static void fork_child(void)
{
  if (!fork_locked)
    return;
  if (heap_dependents)
    heap_dependents->fork_child();
  open_all(lock_reset);
  threads_forget_others();
}

/* A process with one thread forks without the locks, so the handlers can wait for the second thread. */
static void watch_forks(void) { os_on_fork(fork_prepare, fork_parent, fork_child); }

COLD static bool bring_up(void)
{
  lock_acquire(&ready_lock);
  bool up = ready;
  if (!up) {
    option_read();
    up = space_init();
    heap_front.space = &space_of_process;
    heap_front.checked = settings.checked;
    heap_front.cached = !settings.checked;
    heap_front.plane = settings.checked ? POOL_PLANE_NONE : POOL_PLANE_FRONT;
    thread_flush = flush_thread;
    thread_second = watch_forks;
    __atomic_store_n(&ready, up, __ATOMIC_RELEASE);
  }
  lock_release(&ready_lock);
  return up;
}

bool heap_front_ready(void) { return likely(__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) || bring_up(); }

/* The map alone, so that any pointer can be asked about; options stay open until the first use. */
__attribute__((constructor)) static void start(void)
{
  lock_acquire(&ready_lock);
  class_map_init();
  lock_release(&ready_lock);
}

/* ---- pools and threads ---- */

static uint32_t block_size_of(const heap_t *heap, unsigned c) { return heap->class_count ? heap->class_sizes[c] : size_class_size[c]; }

/* ---- records of heaps without a region: pools, tables of classes ---- */

enum { RECORD_SIZE = 512 };
_Static_assert(sizeof(pool_record_t) <= RECORD_SIZE && CLASS_COUNT * sizeof(uint32_t) <= RECORD_SIZE, "both fit");

typedef struct record { struct record *next; } record_t;
static record_t *unused_records;

static void *record_take(void)
{
  lock_acquire(&records_lock);
  record_t *record = unused_records;
  if (record)
    unused_records = record->next;
  lock_release(&records_lock);
  return record ? memset(record, 0, RECORD_SIZE) : metadata_take(RECORD_SIZE, 64);
}

void heap_give_record(const heap_t *heap, void *record)
{
  if (heap->region || !record)
    return;
  record_t *unused = record;
  lock_acquire(&records_lock);
  unused->next = unused_records;
  unused_records = unused;
  lock_release(&records_lock);
}

static pool_t *take_pool_record(heap_t *heap, unsigned c, depot_t **depots)
{
  bool is_cached = heap->cached && c <= CLASS_CACHED && block_size_of(heap, c) <= SIZE_CACHED;
  pool_record_t *record = heap == &heap_front ? &front_pools[c].record : heap_take_record(heap, is_cached ? sizeof *record : sizeof record->pool);
  *depots = record && is_cached ? record->depots : NULL;
  return record ? &record->pool : NULL;
}

COLD static pool_t *make_pool(heap_t *heap, unsigned c)
{
  lock_acquire(&heap->lock);
  pool_t *pool = heap->pools[c];
  if (!pool && heap_front_ready()) {
    depot_t *depots;
    pool = take_pool_record(heap, c, &depots);
    if (pool) {
      pool_init(pool, &(pool_make_t){.size_class = c, .block_size = block_size_of(heap, c), .heap = heap, .space = heap->space,
                                     .budget = &heap->budget, .plane = heap->plane, .depots = depots,
                                     .purges = !heap->region && !heap->checked && settings.purge_delay_ms != PURGE_NEVER, .single_thread = heap->lock.solo});
      __atomic_store_n(&heap->pools[c], pool, __ATOMIC_RELEASE);
    }
  }
  lock_release(&heap->lock);
  return pool;
}

/* A region's records begin behind those of its arena and go on in runs of it; the others' come from the process's metadata and
 * are used again after the heap has ended. */
void *heap_take_record(heap_t *heap, size_t size)
{
  size = round_up(size, sizeof(void *));
  if (!heap->region)
    return size <= RECORD_SIZE ? record_take() : NULL;
  if (size > (size_t)(heap->records_end - heap->records)) {
    run_t *run = space_take_charged(heap->space, &heap->budget, size, 1);
    if (!run)
      return NULL;
    run_become(run, RUN_REGION, NULL);
    heap->records = run->start;
    heap->records_end = run->start + run_bytes(arena_of(heap->space, run->start), run);
    if (arena_of(heap->space, run->start) != heap->own_space.fixed) {
      run->next = heap->records_beyond;
      heap->records_beyond = run;
    }
  }
  void *record = heap->records;
  heap->records += size;
  return memset(record, 0, size);
}

pool_t *heap_pool(heap_t *heap, unsigned size_class)
{
  pool_t *pool = published_pool(heap, size_class);
  return likely(pool) ? pool : make_pool(heap, size_class);
}

void heap_each_cached_pool(magazines_t *magazines, heap_t *heap, void (*act)(magazines_t *, pool_t *))
{
  for (unsigned c = 1; c <= CLASS_CACHED; c++) {
    pool_t *pool = published_pool(heap, c);
    if (pool && pool->cached)
      act(magazines, pool);
  }
}

static void flush_thread(thread_t *thread)
{
  heap_each_cached_pool(&thread->front, &heap_front, magazines_flush);
  for (heap_cache_t *cache = thread->heaps; cache; cache = cache->next)
    heap_each_cached_pool(&cache->magazines, cache->heap, magazines_flush);
}

magazines_t *heap_magazines(heap_t *heap, thread_t *thread)
{
  if (!thread || !heap->cached)
    return NULL;
  return heap == &heap_front ? &thread->front : thread_magazines(thread, heap, heap->placed);
}

static void tick_heaps(uint64_t now_ms)
{
  lock_acquire(&heaps_lock);
  for (heap_t *heap = heaps_first(); heap; heap = shared_from(heap->next)) {
    for (unsigned c = 1; c < CLASS_COUNT; c++) {
      pool_t *pool = published_pool(heap, c);
      if (pool)
        pool_tick(pool);
    }
    if (heap->own_space.purgeable)
      space_tick(&heap->own_space, now_ms);
  }
  lock_release(&heaps_lock);
}

/* Under the lock: a heap that is being destroyed meanwhile takes its caches first, or finds them ticked. */
static void tick_thread(thread_t *thread)
{
  heap_each_cached_pool(&thread->front, &heap_front, magazines_tick);
  lock_acquire(&threads_lock);
  for (heap_cache_t *cache = thread->heaps; cache; cache = cache->next)
    heap_each_cached_pool(&cache->magazines, cache->heap, magazines_tick);
  lock_release(&threads_lock);
}

COLD void heap_look_at_clock(thread_t *thread)
{
  thread_notice_second(thread);
  if (settings.purge_delay_ms == PURGE_NEVER)
    return;
  uint64_t now = os_now_ms();
  if (now - thread->looked_ms >= settings.purge_delay_ms / TICKS_PER_DELAY) {
    thread->looked_ms = now;
    tick_thread(thread);
  }
  if (space_tick(&space_of_process, now))
    tick_heaps(now);
}

static void drain(heap_t *heap)
{
  magazines_t *magazines = heap_magazines(heap, thread_current());
  if (magazines)
    heap_each_cached_pool(magazines, heap, magazines_flush);
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    pool_t *pool = published_pool(heap, c);
    if (pool)
      pool_drain(pool);
  }
}

static size_t purge_slabs(heap_t *heap)
{
  size_t bytes = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    pool_t *pool = published_pool(heap, c);
    if (pool)
      bytes += pool_purge(pool);
  }
  return bytes;
}

/* A heap without a region answers for what its own slabs left in the process's space, not for what was there before. */
size_t heap_trim(heap_t *heap, size_t keep)
{
  if (!heap_front_ready())
    return 0;
  size_t before = heap == &heap_front || heap->region ? 0 : space_dirty_bytes(heap->space);
  drain(heap);
  size_t purged = space_purge(heap->space, before + keep);
  if (!keep)
    purged += purge_slabs(heap);
  if (!heap->region)
    __atomic_fetch_add(&heap->purged_bytes, purged, __ATOMIC_RELAXED);
  return purged;
}

/* ---- blocks of a size class ---- */

/* The first class of the heap's own table that is large enough. */
static unsigned own_class_of(const heap_t *heap, size_t size)
{
  unsigned low = 1, high = heap->class_count + 1u;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (heap->class_sizes[middle] < size)
      low = middle + 1;
    else
      high = middle;
  }
  return low <= heap->class_count ? low : 0;
}

static unsigned class_of(const heap_t *heap, size_t size)
{
  if (size > heap->class_most)
    return 0;
  return heap->class_count ? own_class_of(heap, size) : size_class_of(size);
}

unsigned heap_class_for(const heap_t *heap, size_t size, size_t alignment)
{
  if (size > heap->class_most || alignment > heap->space->alignment)
    return 0;
  if (alignment <= BLOCK_ALIGNMENT)
    return class_of(heap, size);
  /* A slab's first address is a multiple of it, so a block size that is one too has every block aligned. */
  unsigned last = heap->class_count ? heap->class_count : CLASS_LAST;
  unsigned c = class_of(heap, round_up(size + !size, alignment));
  while (c && block_size_of(heap, c) & (alignment - 1))
    c = c == last ? 0 : c + 1;
  return c;
}

size_t heap_good_size(const heap_t *heap, size_t size)
{
  unsigned c = class_of(heap, size);
  if (c)
    return block_size_of(heap, c);
  size_t page = os_page_size();
  return size <= PTRDIFF_MAX - page ? round_up(size, page) : size;
}

static void *take_cached(heap_t *heap, pool_t *pool)
{
  thread_t *thread = thread_current();
  magazines_t *magazines = heap_magazines(heap, thread);
  if (!magazines)
    return NULL;
  void *block = MAGAZINE_POP(&magazines->cache->of[pool->size_class]);
  if (!block) {
    block = magazines_refill(magazines, pool);
    heap_trip(thread);
  }
  return block;
}

static void *take_block(heap_t *heap, unsigned size_class, block_past_t *past)
{
  pool_t *pool = heap_pool(heap, size_class);
  if (!pool)
    return NULL;
  *past = BLOCK_USED;
  void *block = pool->cached ? take_cached(heap, pool) : NULL;
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

static run_t *large_run(heap_t *heap, size_t size, size_t alignment)
{
  run_t *run = space_take_charged(heap->space, &heap->budget, size, alignment);
  if (!run)
    return NULL;
  run->size = min_size(round_up(size, os_page_size()), run_bytes(arena_of(heap->space, run->start), run));
  run_become(run, RUN_LARGE, heap);
  large_link(heap, run);
  return run;
}

void heap_free_run(heap_t *heap, run_t *run, bool dirty)
{
  large_unlink(heap, run);
  space_give_charged(heap->space, &heap->budget, run, dirty);
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
  budget_note_peak(&heap->budget);
  huge_count(heap, 1, (ptrdiff_t)huge->size);
  return huge->start;
}

void heap_free_huge(heap_t *heap, huge_t *huge)
{
  size_t bytes = huge->size;
  huge_count(heap, -1, -(ptrdiff_t)bytes);
  huge_give(huge);
  budget_discharge(&heap->budget, bytes);
}

static bool is_huge(size_t size, size_t alignment)
{
  size_t longest = space_longest_run() << UNIT_LOG2;
  return size > longest || alignment > longest;
}

static void *take_large(heap_t *heap, size_t size, size_t alignment, block_past_t *past, size_t *usable)
{
  size = max_size(size, 1);
  *usable = round_up(size, os_page_size());
  *past = BLOCK_ZEROED;
  if (is_huge(size, alignment))
    return heap->bounded ? NULL : take_huge(heap, size, alignment);
  run_t *run = large_run(heap, size, alignment);
  if (!run)
    return NULL;
  if (!run->zeroed)
    *past = BLOCK_USED;
  *usable = run->size;
  return run->start;
}

/* ---- allocation ---- */

typedef struct request {
  size_t size, alignment;
  size_t usable;        /* answer: bytes of the block */
  block_past_t past;    /* answer: what they hold */
  heap_t *heap;         /* answer: whose block it is */
} request_t;

static void *take(heap_t *heap, request_t *r)
{
  size_t size = r->size + (heap->checked ? GUARD_BYTES : 0);
  unsigned c = heap_class_for(heap, size, r->alignment);
  r->heap = heap;
  if (c) {
    r->usable = block_size_of(heap, c);
    return take_block(heap, c, &r->past);
  }
  void *block = take_large(heap, size, r->alignment, &r->past, &r->usable);
  if (r->past == BLOCK_USED)
    r->past = BLOCK_FRESH;   /* what it holds is not its own */
  return block;
}

void *heap_exhausted(heap_t *heap)
{
  __atomic_fetch_add(&heap->exhausted_count, 1, __ATOMIC_RELAXED);
  if (settings.abort_on_exhausted)
    fatal("memory exhausted");
  errno = ENOMEM;
  return NULL;
}

enum { ATTEMPTS = 64 };   /* of on_exhausted for one request */

/* The order when a heap is exhausted: what it has cached and idle itself, its callback as long as that helps, the heap it
 * overflows to. */
COLD static void *take_hard(heap_t *heap, request_t *r)
{
  drain(heap);
  void *block = take(heap, r);
  for (unsigned attempt = 0; !block && heap->on_exhausted && attempt < ATTEMPTS; attempt++) {
    if (!heap->on_exhausted(heap, r->size, attempt, heap->context))
      break;
    __atomic_fetch_add(&heap->retried_count, 1, __ATOMIC_RELAXED);
    block = take(heap, r);
    if (!block) {
      drain(heap);
      block = take(heap, r);
    }
  }
  if (block || !heap->overflow)
    return block;
  block = take(heap->overflow, r);
  if (!block)
    block = take_hard(heap->overflow, r);
  if (block)
    __atomic_fetch_add(&heap->overflowed_count, 1, __ATOMIC_RELAXED);
  return block;
}

void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero)
{
  if (size > PTRDIFF_MAX - 2 * UNIT || alignment > PTRDIFF_MAX / 2 || !heap_front_ready())
    return heap_exhausted(heap);
  request_t r = {.size = size, .alignment = alignment};
  void *block = take(heap, &r);
  if (unlikely(!block)) {
    int saved = errno;   /* the callback may have failed at something on its way to success */
    block = take_hard(heap, &r);
    if (!block)
      return heap_exhausted(heap);
    errno = saved;
  }
  if (r.heap->checked) {
    guard_open(block, r.usable, size, r.past == BLOCK_USED, fatal_alloc_call);
    r.usable = size;
  }
  if (zero && (r.past != BLOCK_ZEROED || r.heap->checked))
    memset(block, 0, r.usable);
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

static located_t locate_in_run(run_t *run, const void *address)
{
  run_kind_t kind = run_kind(run);
  if (kind == RUN_SLAB)
    return locate_in_slab(run, address);
  if (kind == RUN_LARGE)
    return (located_t){.heap = run->owner, .run = run, .start = run->start, .size = run->size,
                       .live = (size_t)((const char *)address - run->start) < run->size};
  return (located_t){0};
}

uint32_t heap_guests;

/* The heap whose region, in the caller's memory, holds the address. */
static heap_t *heap_of_region(const void *address)
{
  if (!__atomic_load_n(&heap_guests, __ATOMIC_RELAXED))
    return NULL;
  lock_acquire(&heaps_lock);
  heap_t *heap = heaps_first()->next;
  while (heap && (size_t)((const char *)address - heap->region) >= heap->region_size)
    heap = heap->next;
  lock_release(&heaps_lock);
  return heap;
}

/* In a slab, "live" is not yet sure: the block may be in a magazine. */
static located_t locate_out(const void *address)
{
  heap_t *around = heap_of_region(address);   /* first: that memory may be a block of another heap */
  run_t *run = around ? NULL : space_find(address);
  if (run && run_kind(run) == RUN_REGION)
    around = run->owner;
  if (around) {
    run = arena_find(&around->own_arena, address);
    located_t at = run ? locate_in_run(run, address) : (located_t){0};
    at.heap = around;
    return at;
  }
  if (run)
    return locate_in_run(run, address);
  huge_t *huge = huge_find(address);
  if (huge)
    return (located_t){.heap = huge->owner, .huge = huge, .start = huge->start, .size = huge->size, .live = true};
  return (located_t){0};
}

static bool is_cached(const pool_t *pool, const void *block)
{
  bool found = false;
  unsigned c = pool->size_class;
  if (!pool->cached)
    return false;
  lock_acquire(&threads_lock);
  for (thread_t *thread = threads_first(); thread && !found; thread = thread->next) {
    const magazines_t *magazines = pool->heap == &heap_front ? &thread->front : thread_magazines_if_any(thread, pool->heap);
    found = magazines && magazines_hold(magazines, c, block);
  }
  lock_release(&threads_lock);
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
  if (!at.heap || !at.start || at.start != block) {
    bool was = at.heap && at.heap->region ? arena_had_run(&at.heap->own_arena, block) : space_had_run(block);
    fatal_misuse(call, block, was ? FREED_TWICE : NOT_A_BLOCK);
  }
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
    heap_free_huge(at.heap, at.huge);
    return;
  }
  if (!at.pool) {
    heap_free_run(at.heap, at.run, dirty);
    return;
  }
  thread_t *thread = at.pool->cached ? thread_current() : NULL;
  magazines_t *magazines = heap_magazines(at.heap, thread);
  if (!magazines) {
    pool_put(at.pool, &block, 1);
  } else if (!MAGAZINE_PUSH(&magazines->cache->of[at.pool->size_class], block)) {
    magazines_overflow(magazines, at.pool, block);
    heap_trip(thread);
  }
}

static void give_back(located_t at, const char *call)
{
  if (at.heap->checked)
    guard_close(at.start, at.size, call);
  else if (at.heap->zero_on_free)
    memset(at.start, 0, at.size);
  give(at, true);
}

static bool overflows_to(const heap_t *heap, const heap_t *other)
{
  while (heap && heap != other)
    heap = heap->overflow;
  return heap != NULL;
}

static located_t locate_block_of(const heap_t *heap, const void *block, const char *call)
{
  located_t at = locate_block(block, call);
  if (heap && !overflows_to(heap, at.heap))
    fatal_misuse(call, block, NOT_OF_HEAP);
  return at;
}

void heap_free(heap_t *heap, void *block, const char *call) { give_back(locate_block_of(heap, block, call), call); }

/* ---- changing the size ---- */

static void large_resized(heap_t *heap, run_t *run, size_t size)
{
  size = min_size(round_up(size, os_page_size()), run_bytes(arena_of(heap->space, run->start), run));
  lock_acquire(&heap->lock);
  large_count(heap, 0, (ptrdiff_t)(size - run->size));
  lock_release(&heap->lock);
  run->size = size;
}

static bool large_resize(heap_t *heap, run_t *run, size_t size)
{
  space_t *space = arena_of(heap->space, run->start)->space;
  size_t units = space_units(space, size), had = run->units;
  if (units < had) {
    space_shorten(space, run, units);
    budget_discharge(&heap->budget, space_price(space, had - units));
  } else if (units > had) {
    size_t price = space_price(space, units - had);
    if (is_huge(size, 1) || !budget_charge(&heap->budget, price))
      return false;
    if (!space_lengthen(space, run, units)) {
      budget_discharge(&heap->budget, price);
      return false;
    }
  }
  budget_note_peak(&heap->budget);
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
  budget_note_peak(&heap->budget);
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
    return ((size <= at.size && size > at.size / 2) || is_huge(size, 1)) && huge_resized(at.heap, at.huge, size, may_move);
  if (!at.pool)
    return (size > at.size / 2 || !class_of(at.heap, size)) && large_resize(at.heap, at.run, size);
  return size <= at.size && (size > at.size / 2 || class_of(at.heap, size) == at.pool->size_class);
}

bool heap_resize_in_place(void *block, size_t size, const char *call)
{
  located_t at = locate_block(block, call);
  return resize(at, size, false) || (at.pool && !at.heap->checked && size <= at.size);
}

/* The pages of a large block can change place without being read. */
static void *move_pages(located_t at, size_t size)
{
  if (at.pool || at.huge || at.heap->region || at.size < MOVE_PAGES_LEAST || is_huge(size, 1))
    return NULL;
  run_t *to = large_run(at.heap, size, 1);
  if (!to)
    return NULL;
  if (!os_move_pages(at.run->start, to->start, at.size)) {
    heap_free_run(at.heap, to, true);
    return NULL;
  }
  void *moved = to->start;
  heap_free_run(at.heap, at.run, false);
  return moved;
}

static void *copy(heap_t *heap, located_t at, size_t size, size_t had)
{
  void *to = heap_allocate(heap ? heap : at.heap, size, 1, false);
  if (!to)
    return NULL;
  memcpy(to, at.start, min_size(had, size));
  return to;
}

void *heap_reallocate(heap_t *heap, void *block, size_t size, const char *call)
{
  located_t at = locate_block_of(heap, block, call);
  bool wipes = at.heap->zero_on_free && !at.heap->checked && size < at.size;
  if (wipes && !at.pool)
    memset(at.start + size, 0, at.size - size);   /* a run shrinks where it is, or is copied and zeroed */
  if (resize(at, size, true)) {
    if (wipes && at.pool)
      memset(at.start + size, 0, at.size - size);
    return at.huge ? at.huge->start : block;
  }
  if (at.heap->checked && guard_size(block, at.size) == size)
    return block;
  void *to = size > at.size && !at.heap->checked && !at.heap->zero_on_free ? move_pages(at, size) : NULL;
  if (to)
    return to;
  to = copy(heap, at, size, at.heap->checked ? guard_size(block, at.size) : at.size);
  if (to)
    give_back(at, call);
  return to;
}
