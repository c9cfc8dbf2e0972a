/* SPDX-License-Identifier: MIT
 *
 * The plain path is heap_take_plain(): a magazine, a bin, a large block, or granules. heap_take_hard() of exhausted.c runs
 * after it has failed. A freed block is looked up once (heap_locate_block()), and returned to where it came from. */
#include "heap/blocks.h"
#include "base/text.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
#include "os/tool.h"
#include <errno.h>
#include <string.h>

enum {
  THRIFT_LEAST = 64 /* bytes: while memory is short, larger blocks first get only two classes to a doubling */
};

enum { ROUNDED_AWAY = 2 * UNIT }; /* keeps sizes far enough below PTRDIFF_MAX that rounding cannot overflow */

/* Without `may_refill`, only what the thread has cached serves. The slow path is counted after the thread has left its
 * magazines: counting may tick and take threads_lock, for which a busy thread must not wait. */
static inline __attribute__((always_inline)) void *take_cached(heap_t *heap, bin_t *bin, bool may_refill)
{
  thread_t *thread = thread_current();
  magazines_t *magazines = heap_enter(heap, thread);
  if (!magazines)
    return NULL;
  void *block = MAGAZINE_POP(&magazines->cache->of[bin->size_class]);
  bool slow = !block && (may_refill || magazines->of[bin->size_class].full);
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
    r->past = BLOCK_USED;
    block = bin_has_magazines(bin) ? take_cached(heap, bin, false) : NULL;
    if (!block)
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
    void *block =
      space_is_short && !heap->region.kind && r->alignment <= BLOCK_ALIGNMENT ? take_coarse(heap, size_class, r) : NULL;
    if (block || !(bin = heap_bin(heap, size_class)))
      return block;
  }
  r->usable = bin->block_size;
  r->past = BLOCK_USED;
  void *block = bin_has_magazines(bin) ? take_cached(heap, bin, true) : NULL;
  if (!block && !bin_take(bin, &block, 1, &r->past))
    return NULL;
  return block;
}

static void *take_of_class(heap_t *heap, request_t *r, size_t size)
{
  if (unlikely(heap_is_headed(heap)) && size > PTRDIFF_MAX - ROUNDED_AWAY)
    return NULL;
  unsigned c = heap_class_for(heap, size, r->alignment);
  r->heap = heap;
  return c ? take_block(heap, c, r) : large_take(heap, size, r->alignment, &r->past, &r->usable);
}

/* A block outside the granules is as long as one of granules, which heap_good_size() promises. */
NOINLINE static void *take_of_granules(heap_t *heap, request_t *r)
{
  r->heap = heap;
  r->past = BLOCK_USED;
  size_t size = heap_granular_size(heap, size_with_head(heap, r));
  void *block = granular_take(heap, size, r->alignment, &r->usable);
  r->in_granules = block != NULL;
  return block || !granular_may_leave(heap) ? block : take_of_class(heap, r, max_size(size, GRANULES_LEAST * GRANULE));
}

static inline __attribute__((always_inline)) void *take_inline(heap_t *heap, request_t *r)
{
  return unlikely(heap_has_granules(heap)) ? take_of_granules(heap, r) : take_of_class(heap, r, size_with_head(heap, r));
}

void *heap_take_plain(heap_t *heap, request_t *r) { return take_inline(heap, r); }

static bool is_sane(const request_t *r) { return r->size <= PTRDIFF_MAX - ROUNDED_AWAY && r->alignment <= PTRDIFF_MAX / 2; }

static void clear(void *block, const request_t *r)
{
  if (r->past == BLOCK_FRESH && r->usable > SIZE_MAX_CLASS)
    large_clear_fresh(r->heap, block, r->usable);
  else
    memset(block, 0, r->usable);
}

/* Adds a head if the heap has heads, and zeroes the block if requested unless it is known to be zero. */
static inline __attribute__((always_inline)) void *hand_out(void *block, request_t *r)
{
  if (unlikely(heap_is_headed(r->heap)))
    block = heads->open(block, r);
  if (r->zero && r->past != BLOCK_ZEROED)
    clear(block, r);
  return block;
}

/* Fails a request that the heap cannot serve. A program that needs the memory may ask to end here (abort_on_exhausted), while
 * the stack still shows the request. The very first request may fail before the options were read. */
void *heap_exhausted(heap_t *heap, const char *call, size_t size)
{
  __atomic_fetch_add(&heap->exhausted_count, 1, __ATOMIC_RELAXED);
  PROBE3(tidepool, heap_exhausted, heap, heap->name, size);
  if (manager_ready() && settings.abort_on_exhausted)
    fatal_exhausted(call, heap, size);
  errno = ENOMEM;
  return NULL;
}

COLD static void *serve_hard(heap_t *heap, request_t *r)
{
  int saved = errno; /* the callback may set errno before the request succeeds */
  void *block = heap_take_hard(heap, r);
  if (!block)
    return heap_exhausted(heap, r->by.call, r->size);
  errno = saved;
  return block;
}

/* `is_plain` is a constant. */
static inline __attribute__((always_inline)) void *serve(heap_t *heap, request_t *r, bool is_plain)
{
  if (process_is_ending())
    return dying_allocate(r->size, r->alignment);
  if (!is_sane(r))
    return heap_exhausted(heap, r->by.call, r->size);
  void *block = is_plain ? take_inline(heap, r) : heap_take(heap, r);
  if (unlikely(!block) && (!(block = serve_hard(heap, r)) || r->grown))
    return block;
  return hand_out(block, r);
}

/* Also serves the very first request, before it is known how the heap serves requests. */
NOINLINE void *heap_serve(heap_t *heap, request_t *r)
{
  KEEPS_FRAME();
  bool can_serve = process_is_ending() || manager_ready();
  return can_serve ? serve(heap, r, false) : heap_exhausted(heap, r->by.call, r->size);
}

NOINLINE void *heap_allocate(heap_t *heap, size_t size, size_t alignment, bool zero, origin_t by)
{
  request_t r = {.size = size, .alignment = alignment, .by = by, .zero = zero};
  return heap_may_have_standalone(heap) ? heap_serve(heap, &r) : serve(heap, &r, true);
}

/* ---- requests that may settle for less ---- */

/* A caller that can settle for less first asks for much, so a failure here is not exhaustion: no errno, no counter. */
void *heap_probe(const attempt_t *from, size_t size, size_t alignment)
{
  KEEPS_FRAME();
  request_t r = {.size = size, .alignment = alignment, .by = from->by, .together = from->together};
  if (process_is_ending())
    return dying_allocate(size, alignment);
  if (!is_sane(&r) || !manager_ready())
    return NULL;
  int saved = errno;
  void *block = heap_take_at(from, &r);
  if (block)
    heap_count_overflowed(from);
  errno = saved;
  return block ? hand_out(block, &r) : NULL;
}

void *heap_serve_if_easy(heap_t *heap, request_t *r)
{
  KEEPS_FRAME();
  void *block = heap_take(heap, r);
  return block ? hand_out(block, r) : NULL;
}

/* ---- free ---- */

/* A misuse ends the program only after the thread has left its magazines, because a SIGABRT handler may allocate. The slow path
 * is counted after that too, as in take_cached(). */
static void give_cached(heap_t *heap, bin_t *bin, void *block, const char *call)
{
  thread_t *thread = thread_current_to_free();
  magazines_t *magazines = heap_enter(heap, thread);
  if (!magazines) {
    bin_put(bin, &block, 1);
    return;
  }
  loaded_t *loaded = &magazines->cache->of[bin->size_class];
  /* `top` is the block that was freed last, so freeing it twice in a row is found at once. */
  bool twice = loaded->top == block, slow = !twice && !MAGAZINE_PUSH(loaded, block);
  if (slow)
    magazines_overflow(magazines, bin, block);
  heap_leave(heap, thread);
  if (twice)
    fatal_misuse_of_block(call, block, FREED_TWICE, heap, bin->block_size, heap);
  if (slow)
    heap_after_slow_path(thread);
}

/* Another thread may have freed the block since it was looked up. */
static void give_granules(heap_t *heap, void *block, const char *call)
{
  if (unlikely(!granular_give(heap, block)))
    heap_locate_block(heap, block, call, FREED_TWICE);
}

/* Another thread may have freed the block since it was looked up. */
static void give_mapping(const located_t *at, const char *call)
{
  KEEPS_FRAME();
  if (!located_is_standalone(at))
    large_give_huge(at->heap, at->huge);
  else if (unlikely(!standalone_give(at->heap, standalone_of(at->huge)->source, at->start, call)))
    fatal_misuse_of_block(call, at->start, FREED_TWICE, at->heap, at->size, NULL);
}

void heap_give_uncached(const located_t *at, const char *call)
{
  KEEPS_FRAME();
  void *start = at->start;
  if (located_in_granules(at))
    give_granules(at->heap, start, call);
  else if (at->huge)
    give_mapping(at, call);
  else if (!at->bin)
    large_give_run(at->heap, at->run);
  else
    bin_put(at->bin, &start, 1);
}

/* Large blocks may be wiped by purging. Blocks of a slab share pages, and the pages of a standalone block are not the
 * manager's. */
void heap_wipe(const located_t *at, char *from, size_t size)
{
  if (located_in_granules(at) || at->bin || located_is_standalone(at))
    memset(from, 0, size);
  else
    large_wipe(at->heap, from, size);
}

/* Heads record the requested size. Standalone blocks do too, unless they stand in for any block of their class. */
static bool requested_size_is_known(const located_t *at)
{
  return located_has_head(at) || (located_is_standalone(at) && !standalone_is_as_its_class(at->huge));
}

/* A caller that passes another size or alignment means another block, unless the requested size is not known. */
void heap_verify_sized(const void *block, size_t size, size_t alignment, const char *call)
{
  if (process_is_ending())
    return;
  located_t at = heap_locate_block(NULL, block, call, FREED_TWICE);
  bool by_size = size != located_size(&at);
  if (!requested_size_is_known(&at) || (!by_size && (uintptr_t)block % alignment == 0))
    return;
  char words[80];
  text_t text = {words, sizeof words, 0};
  text_string(&text, by_size ? WITH_SIZE : WITH_ALIGNMENT);
  text_number(&text, by_size ? size : alignment);
  text_finish(&text);
  fatal_misuse_of_block(call, block, words, at.heap, located_size(&at), NULL);
}

/* The wipe comes first: once the block is returned, another thread may have it. */
static inline __attribute__((always_inline)) void give_back(const located_t *at, origin_t by)
{
  heap_t *heap = at->heap;
  if (heap_is_headed(heap)) {
    heads->give(at, by);
    return;
  }
  if (heap->flags & POOL_HEAP_ZERO_ON_FREE)
    heap_wipe(at, at->start, at->size);
  if (at->bin && bin_has_magazines(at->bin))
    give_cached(heap, at->bin, at->start, by.call);
  else
    heap_give_uncached(at, by.call);
}

void heap_give_back(const located_t *at, origin_t by) { give_back(at, by); }

/* A thread that ends the process leaks what it frees, because its locks may be in any state. */
void heap_free(heap_t *heap, void *block, origin_t by)
{
  KEEPS_FRAME();
  if (process_is_ending())
    return;
  located_t at = heap_locate_block(heap, block, by.call, FREED_TWICE);
  give_back(&at, by);
}

void heap_give_overflowed(heap_t *heap, void *block, const char *call)
{
  if (heap_overflow(heap) && heap_locate_block(heap, block, call, FREED_TWICE).heap != heap)
    heap_free(NULL, block, ORIGIN(call));
}
