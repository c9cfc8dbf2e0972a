/* SPDX-License-Identifier: MIT
 * The plain path is take(): a magazine, a bin, or a large block. serve_hard() runs after it has failed (exhausted.c). */
#include "heap/apart.h"
#include "heap/blocks.h"
#include "heap/dying.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/observer.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
#include "os/probe.h"
#include "os/tool.h"
#include <errno.h>
#include <string.h>

enum {
  THRIFT_LEAST = 64 /* bytes: while memory is short, larger blocks first get only two classes to a doubling */
};

enum { ROUNDED_AWAY = 2 * UNIT }; /* keeps sizes far enough below PTRDIFF_MAX that rounding cannot overflow */

/* The slow path is counted after the thread has left its magazines: counting may tick and take threads_lock, for which a busy
 * thread must not wait. */
static void *take_cached(heap_t *heap, bin_t *bin)
{
  thread_t *thread = thread_current();
  magazines_t *magazines = heap_enter(heap, thread);
  if (!magazines)
    return NULL;
  void *block = MAGAZINE_POP(&magazines->cache->of[bin->size_class]);
  bool slow = !block;
  if (slow)
    block = magazines_refill(magazines, bin);
  heap_leave(heap, thread);
  if (slow)
    heap_after_slow_path(thread);
  return block;
}

/* Classes whose blocks are not aligned enough are skipped. */
void *heap_borrow(heap_t *heap, unsigned from, size_t most, request_t *r)
{
  void *block = NULL;
  size_t alignment = max_size(r->alignment, BLOCK_ALIGNMENT);
  for (bin_t *bin = heap_bin_from(heap, from); bin && !block && bin->block_size <= most;
       bin = heap_bin_from(heap, bin->size_class + 1u)) {
    if (bin->block_size & (alignment - 1))
      continue;
    r->usable = bin->block_size;
    bin_take_free(bin, &block, &r->past);
  }
  return block;
}

static void *take_block(heap_t *heap, unsigned size_class, request_t *r);

/* Returns the class that also serves its smaller neighbours while memory is short: two classes to a doubling. */
static unsigned coarse_class(const heap_t *heap, unsigned c)
{
  size_t size = heap_block_size(heap, c), step = size > THRIFT_LEAST ? ((size_t)1 << log2_floor(size - 1)) / 2 : 1;
  return heap_class_for(heap, round_up(size, step), 1);
}

/* Few slabs serve many classes while memory is short: a class gets its own only after 32 KiB of its blocks were requested. It
 * takes blocks that are at most half as large again until then. Python in 30 MB got 84 % of the blocks that it gets from glibc
 * malloc when classes only borrowed free blocks, and gets 91 % now. Still larger classes for the first few gave 90 %. */
static void *take_coarse(heap_t *heap, unsigned c, request_t *r)
{
  static uint32_t asked[CLASS_COUNT];
  unsigned coarse = coarse_class(heap, c);
  if (coarse <= c || __atomic_add_fetch(&asked[c], 1, __ATOMIC_RELAXED) * (size_t)heap_block_size(heap, c) > UNIT / 2)
    return NULL;
  void *block = heap_borrow(heap, c + 1, heap_block_size(heap, coarse), r);
  return block ? block : take_block(heap, coarse, r);
}

/* The first request of a class finds no bin: this is where memory can be saved. Threads without a record and classes without
 * magazines take a single block from the bin. */
static void *take_block(heap_t *heap, unsigned size_class, request_t *r)
{
  bin_t *bin = published_bin(heap, size_class);
  if (unlikely(!bin)) {
    void *block = HAS_SYSTEM && space_is_short && !heap->region.kind && r->alignment <= BLOCK_ALIGNMENT
                    ? take_coarse(heap, size_class, r)
                    : NULL;
    if (block || !(bin = heap_bin(heap, size_class)))
      return block;
  }
  r->usable = bin->block_size;
  r->past = BLOCK_USED;
  void *block = bin_has_magazines(bin) ? take_cached(heap, bin) : NULL;
  if (!block && !bin_take(bin, &block, 1, &r->past))
    return NULL;
  return block;
}

static void *take_of_class(heap_t *heap, request_t *r)
{
  size_t size = size_with_head(heap, r);
  unsigned c = heap_class_for(heap, size, r->alignment);
  r->heap = heap;
  return c ? take_block(heap, c, r) : large_take(heap, size, r->alignment, &r->past, &r->usable);
}

NOINLINE static void *take_of_granules(heap_t *heap, request_t *r)
{
  r->heap = heap;
  r->past = BLOCK_USED;
  void *block = granular_take(heap, size_with_head(heap, r), r->alignment, &r->usable);
  r->in_granules = block != NULL;
  return block || !HAS_SYSTEM || !granular_may_leave(heap) ? block : take_of_class(heap, r);
}

NOINLINE static void *take_apart(heap_t *heap, request_t *r)
{
  KEEPS_FRAME();
  void *block = NULL;
  r->heap = heap;
  r->usable = r->size;
  if (heap->guarded_unasked && heap_is_bounded(heap))
    return NULL;
  if (heap->apart_source)
    block = apart_take(heap, heap->apart_source, r->size, r->alignment, r->call, &r->past);
  else if (observer)
    block = observer->take(heap, r);
  r->apart = block != NULL;
  return block;
}

static void *take_together(heap_t *heap, request_t *r)
{
  if (unlikely(heap_is_headed(heap)) && size_with_head(heap, r) > PTRDIFF_MAX - ROUNDED_AWAY)
    return NULL;
  return unlikely(heap_has_granules(heap)) ? take_of_granules(heap, r) : take_of_class(heap, r);
}

/* A request that cannot be served apart, and is no sample, is served as in any other heap. */
NOINLINE static void *take_apart_or_together(heap_t *heap, request_t *r)
{
  KEEPS_FRAME();
  void *block = take_apart(heap, r);
  const apart_source_t *source = heap->apart_source;
  if (block || (source && source->serves && source->serves(r->size, r->alignment)))
    return block;
  block = take_together(heap, r);
  if (block && r->in_profile && !r->in_granules && !heap_class_for(heap, size_with_head(heap, r), r->alignment))
    observer->note_large(heap, block, r->size, r->caller);
  return block;
}

static inline void *take(heap_t *heap, request_t *r)
{
  return heap_may_be_apart(heap) && !r->together ? take_apart_or_together(heap, r) : take_together(heap, r);
}

void *heap_take(heap_t *heap, request_t *r) { return take(heap, r); }

/* Only runs and mappings can change their size and stay in a profile. `at` describes the block before the change. */
void heap_note_resized(const located_t *at, size_t size, const void *caller)
{
  if (!heap_may_be_apart(at->heap) || !observer || at->bin || located_in_granules(at) || located_is_apart(at))
    return;
  if ((at->huge ? huge_usable(at->huge) : at->run->size) != at->size)
    observer->note_resized(at->heap, at->huge ? huge_start(at->huge) : at->start, size, caller);
}

static bool move_located(located_t *at, size_t size)
{
  run_t *moved = large_move_run(at->heap, at->run, size);
  if (moved) {
    at->run = moved;
    at->start = moved->start;
  }
  return moved != NULL;
}

static inline bool lengthen(located_t *at, size_t size, bool may_move)
{
  if (HAS_SYSTEM && at->huge)
    return large_resize_huge(at->heap, at->huge, size, may_move);
  if (located_in_granules(at))
    return granular_resize(at->heap, at->start, size);
  return !at->bin && (large_resize_run(at->heap, at->run, size) || (may_move && move_located(at, size)));
}

bool heap_lengthen(located_t *at, size_t size, bool may_move, const void *caller)
{
  KEEPS_FRAME();
  bool done = lengthen(at, size, may_move);
  if (done)
    heap_note_resized(at, size, caller);
  return done;
}

static bool is_sane(const request_t *r) { return r->size <= PTRDIFF_MAX - ROUNDED_AWAY && r->alignment <= PTRDIFF_MAX / 2; }

static void clear(void *block, const request_t *r)
{
  if (HAS_SYSTEM && r->past == BLOCK_FRESH && r->usable > SIZE_MAX_CLASS)
    large_clear_fresh(r->heap, block, r->usable);
  else
    memset(block, 0, r->usable);
}

/* Adds a head if the heap has heads, and zeroes the block if requested unless it is known to be zero. */
static inline __attribute__((always_inline)) void *hand_out(void *block, request_t *r, bool zero, const void *caller)
{
  if (unlikely(heap_is_headed(r->heap)))
    block = heads->open(block, r, caller);
  if (zero && r->past != BLOCK_ZEROED)
    clear(block, r);
  return block;
}

/* Fails a request that the heap cannot serve. A program that needs the memory may ask to end here (abort_on_exhausted), while
 * the stack still shows the request. The very first request may fail before the options were read. */
void *heap_exhausted(heap_t *heap, const char *call, size_t size)
{
  __atomic_fetch_add(&heap->exhausted_count, 1, __ATOMIC_RELAXED);
  PROBE3(tidepool, heap_exhausted, heap, heap->name, size);
  if (HAS_SYSTEM && manager_ready() && settings.abort_on_exhausted)
    fatal_exhausted(call, heap, size);
  errno = ENOMEM;
  return NULL;
}

COLD static void *serve_hard(heap_t *heap, request_t *r)
{
  int saved = errno; /* the callback may set errno before the request succeeds */
  void *block = heap_take_hard(heap, r);
  if (!block)
    return heap_exhausted(heap, r->call, r->size);
  errno = saved;
  return block;
}

static inline __attribute__((always_inline)) void *serve(heap_t *heap, request_t *r)
{
  if (!is_sane(r) || !manager_ready())
    return heap_exhausted(heap, r->call, r->size);
  void *block = take(heap, r);
  return likely(block) ? block : serve_hard(heap, r);
}

/* Serves heaps whose blocks, or samples of them, are apart. Also serves the very first request, before that is known. */
NOINLINE static void *allocate_apart(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call,
                                     const void *caller)
{
  KEEPS_FRAME();
  request_t r = {.size = size, .alignment = alignment, .call = call, .caller = caller};
  if (process_is_ending())
    return dying_allocate(size, alignment);
  void *block = serve(heap, &r);
  return block ? hand_out(block, &r, zero, caller) : NULL;
}

static inline __attribute__((always_inline)) bool is_together(const heap_t *heap)
{
  return !HAS_SYSTEM || (likely(!heap_may_be_apart(heap)) && manager_is_up());
}

/* serve() for all other heaps, without the steps that they do not need. */
static inline __attribute__((always_inline)) void *serve_together(heap_t *heap, request_t *r)
{
  if (!is_sane(r))
    return heap_exhausted(heap, r->call, r->size);
  void *block = take_together(heap, r);
  return likely(block) ? block : serve_hard(heap, r);
}

/* Two functions exist because the one without `caller` is reached by tail calls: its return address is that of the program's
 * call, so it pays no instruction for passing one. */
void *heap_allocate_for(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call, const void *caller)
{
  if (!is_together(heap))
    return allocate_apart(heap, size, alignment, zero, call, caller);
  request_t r = {.size = size, .alignment = alignment, .call = call};
  if (process_is_ending())
    return dying_allocate(size, alignment);
  void *block = serve_together(heap, &r);
  return block ? hand_out(block, &r, zero, caller) : NULL;
}

#ifndef heap_allocate
void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, const char *call)
{
  if (!is_together(heap))
    return allocate_apart(heap, size, alignment, zero, call, __builtin_return_address(0));
  request_t r = {.size = size, .alignment = alignment, .call = call};
  if (process_is_ending())
    return dying_allocate(size, alignment);
  void *block = serve_together(heap, &r);
  return block ? hand_out(block, &r, zero, __builtin_return_address(0)) : NULL;
}
#endif

void *heap_allocate_sample(heap_t *heap, size_t size, const char *call, const void *caller)
{
  request_t r = {.size = size, .alignment = 1, .call = call, .caller = caller, .drawn = true, .counted = true};
  void *block = serve(heap, &r);
  return block ? hand_out(block, &r, false, caller) : NULL;
}

/* ---- requests that may settle for less ---- */

/* A caller that can settle for less first asks for much, so a failure here is not exhaustion: no errno, no counter. */
void *heap_probe(const attempt_t *from, size_t size, size_t alignment)
{
  KEEPS_FRAME();
  request_t r = {.size = size, .alignment = alignment, .call = from->call, .caller = from->caller, .together = from->together};
  if (process_is_ending())
    return dying_allocate(size, alignment);
  if (!is_sane(&r) || !manager_ready())
    return NULL;
  int saved = errno;
  void *block = heap_take_at(from, &r);
  if (block)
    heap_count_overflowed(from);
  errno = saved;
  return block ? hand_out(block, &r, false, from->caller) : NULL;
}

void *heap_allocate_if_easy(heap_t *heap, size_t size, const char *call, const void *caller)
{
  KEEPS_FRAME();
  request_t r = {.size = size, .alignment = 1, .call = call, .caller = caller};
  void *block = take(heap, &r);
  return block ? hand_out(block, &r, false, caller) : NULL;
}

void *heap_allocate_from(heap_t *heap, size_t size, located_t *from, bool *grown, const char *call, const void *caller)
{
  request_t r = {.size = size, .alignment = 1, .from = from, .call = call, .caller = caller};
  void *block = serve(heap, &r);
  *grown = r.grown;
  return block && !r.grown ? hand_out(block, &r, false, NULL) : block; /* the heap has no heads, so no caller is noted */
}
