/* SPDX-License-Identifier: MIT
 *
 * Handles what the fast paths cannot: an empty or full magazine, by far the most frequent case, a large block, a block of
 * another heap, a thread without a record, and a process without a manager. */
#include "api/fast_path.h"
#include "heap/blocks.h"
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include "heap/large.h"
#include "heap/life.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
#include "os/tool.h"

/* The common slow path: the thread has a record and the bin exists. Returns NULL if something is missing. */
static inline void *refill(thread_t *thread, size_t size_class)
{
  bin_t *bin = published_bin(&default_heap, (unsigned)size_class);
  void *block = NULL;
  if (likely(bin && bin->cached)) {
    block = magazines_refill(&thread->default_magazines, bin);
    heap_after_slow_path(thread);
  }
  return block;
}

/* Pop and push for a thread that counts for a profile: the fast paths do not find its magazines. Others have no count_left. */
static ALWAYS_INLINE void *pop_counted(thread_t *thread, size_t size)
{
  uint64_t left = thread->count_left;
  if (unlikely(size >= left || size > SIZE_CACHED))
    return NULL;
  void *block = MAGAZINE_POP(&thread->default_magazines.cache->of[size_class_cached(size)]);
  if (likely(block))
    thread->count_left = left - size;
  return block;
}

static ALWAYS_INLINE bool push_counted(thread_t *thread, size_t size_class, void *block)
{
  if (unlikely(!thread->count_left))
    return false;
  loaded_t *loaded = &thread->default_magazines.cache->of[size_class];
  return likely(loaded->top != block) && MAGAZINE_PUSH(loaded, block);
}

/* Pop and push for a default heap within reach. */
static void *pop_default_within_reach(thread_t *thread, size_t size)
{
  if (unlikely(size > SIZE_CACHED || !thread_has_within_reach(thread, &default_heap)))
    return NULL;
  return pop_within_reach(thread, &default_heap, size_class_cached(size));
}

static bool push_default_within_reach(thread_t *thread, size_t size_class, void *block)
{
  return likely(thread_has_within_reach(thread, &default_heap)) && push_within_reach(thread, &default_heap, size_class, block);
}

/* The magazine is empty, the profile wants the block, or it has ended. NULL: heap_allocate() counts the request. */
static void *refill_counted(thread_t *thread, size_t size)
{
  void *block = NULL;
  if (!observer->let_go(thread) && size - 1 < SIZE_CACHED && thread->count_left > size)
    block = refill(thread, size_class_cached(size));
  if (block)
    thread->count_left -= size;
  return block;
}

NOINLINE static void *alloc_by_heap(thread_t *thread, size_t size, const void *caller)
{
  void *block = thread->counts && !(default_heap.flags & HEAP_WITHIN_REACH) ? refill_counted(thread, size) : NULL;
  return block ? block : heap_allocate(&default_heap, size, 1, false, ORIGIN_AT(fatal_alloc_call, caller));
}

/* The first attempt serves most blocks of a thread that counts. heap_allocate() brings up what is missing. */
NOINLINE static void *alloc_unready(thread_t *thread, size_t size, const void *caller)
{
  void *block = manager_is_up() && default_heap.flags & HEAP_WITHIN_REACH ? pop_default_within_reach(thread, size)
                                                                          : pop_counted(thread, size);
  if (likely(block))
    return block;
  return alloc_by_heap(thread, size, caller);
}

NOINLINE BY_REGISTER static void *alloc_ready(thread_t *thread, size_t size)
{
  size_t size_class = size_class_cached(size);
  turn_t turn =
    unlikely(__atomic_load_n(&slow_paths_are_observed, __ATOMIC_RELAXED)) ? observer->turn(thread, size_class) : TURN_USUAL;
  if (unlikely(turn == TURN_SAMPLE))
    return heap_serve(
      &default_heap,
      &(request_t){.size = size, .alignment = 1, .by = ORIGIN(fatal_alloc_call), .drawn = true, .counted = true});
  void *block = likely(turn == TURN_USUAL) ? refill(thread, size_class) : NULL;
  return likely(block) ? block : heap_allocate(&default_heap, size, 1, false, ORIGIN(fatal_alloc_call));
}

/* alloc_ready() and alloc_unready() are separate, so that the short path saves no registers for the long one. */
static ALWAYS_INLINE void *alloc_slow_for(size_t size, const void *caller)
{
  thread_t *thread = thread_self;
  if (likely(size - 1 < SIZE_CACHED && thread_is_ready(thread)))
    return alloc_ready(thread, size);
  return alloc_unready(thread, size, caller);
}

NOINLINE void *default_alloc_slow(size_t size) { return alloc_slow_for(size, __builtin_return_address(0)); }

/* Most large blocks have few sizes and are freed soon, so the thread's spares come first: they cost no lock. */
NOINLINE void *default_alloc_large(size_t size)
{
  thread_t *thread = thread_self;
  bool looks = thread_is_ready(thread) && size <= __atomic_load_n(&spare_size_at_once, __ATOMIC_RELAXED);
  void *block = looks ? large_take_spare(thread, size) : NULL;
  return block ? block : heap_allocate(&default_heap, size, 1, false, ORIGIN(fatal_alloc_call));
}

/* Serves calls that continue and are named in messages. A manager that is not up may turn out to have no fast path. */
NOINLINE void *default_alloc_for(size_t size, origin_t by)
{
  if (manager_ready() && default_heap.flags & HEAP_CACHED)
    return default_alloc(size);
  return heap_allocate(&default_heap, size, 1, false, by);
}

/* Zeroes cached blocks here. Other blocks may be zero already, which heap_allocate() knows. A standalone block has class 0. */
static ALWAYS_INLINE void *zalloc_slow(size_t size, const char *call)
{
  if (size > SIZE_CACHED || !manager_ready() || !(default_heap.flags & HEAP_CACHED))
    return heap_allocate(&default_heap, size, 1, true, ORIGIN(call));
  void *block = alloc_slow_for(size, __builtin_return_address(0));
  size_t c = block ? class_map_of(block) : 0; /* the block may be of a larger class */
  return block ? memset(block, 0, c ? size_class_size(c) : heap_usable_size(block, call)) : NULL;
}

NOINLINE void *default_zalloc_slow(size_t size) { return zalloc_slow(size, "pool_zalloc"); }
NOINLINE void *default_calloc_slow(size_t size) { return zalloc_slow(size, fatal_calloc_call); }

/* Frees in heaps whose every call must be seen. */
NOINLINE static void free_watched(void *block, origin_t by)
{
  KEEPS_FRAME();
  thread_t *thread = thread_self;
  if (!thread_is_usable(thread))
    thread = manager_ready() ? thread_current_to_free() : NULL;
  heap_free(NULL, block, by);
  if (thread)
    heap_after_slow_path(thread);
}

/* Frees a block that has class 0 in this map: a large one, or one of another heap. */
NOINLINE BY_REGISTER static void free_of_no_class(void *block, const char *call, thread_t *thread)
{
  if (unlikely(!thread_is_usable(thread)))
    thread = manager_ready() ? thread_current_to_free() : NULL;
  if (unlikely(!(default_heap.flags & HEAP_CACHED))) {
    free_watched(block, ORIGIN(call));
    return;
  }
  if (!thread || !large_give_spare(block, call, thread))
    heap_free(NULL, block, ORIGIN(call));
  if (thread)
    heap_after_slow_path(thread); /* a program that frees only large blocks has no other slow path that looks at the clock */
}

/* Frees for callers that continue. A large block does not become a spare. */
NOINLINE void default_free_for(void *block, origin_t by)
{
  KEEPS_FRAME();
  if (class_map_of(block))
    default_free(block, by.call);
  else if (block) {
    heap_free(NULL, block, by);
    heap_after_slow_path(thread_current());
  }
}

/* The bin is read without acquire: the block came out of it, so it was published before. */
NOINLINE static void overflow(void *block, const char *call, thread_t *thread, size_t c)
{
  if (unlikely(thread->default_magazines.cache->of[c].top == block))
    fatal_misuse_of_block(call, block, FREED_TWICE, &default_heap, size_class_size(c), NULL);
  magazines_overflow(&thread->default_magazines, default_heap.bins[c], block);
  heap_after_slow_path(thread);
}

NOINLINE static void free_overflowing(void *block, const char *call, thread_t *thread, size_t c)
{
  if (thread->counts) {
    observer->let_go(thread);
    overflow(block, call, thread, c);
  } else {
    free_of_no_class(block, call, thread);
  }
}

NOINLINE static void free_unready(void *block, const char *call, thread_t *thread, size_t c)
{
  if (default_heap.flags & HEAP_WITHIN_REACH) {
    if (unlikely(!push_default_within_reach(thread, c, block)))
      free_of_no_class(block, call, thread);
  } else if (unlikely(!push_counted(thread, c, block))) {
    free_overflowing(block, call, thread, c);
  }
}

/* A block with a class came out of its bin, which therefore exists. A block that is `top` is freed a second time. */
NOINLINE BY_REGISTER void default_free_slow(void *block, const char *call)
{
  size_t c = class_map_of(block);
  thread_t *thread = thread_self;
  if (likely(c && thread_is_ready(thread)))
    overflow(block, call, thread, c);
  else if (c)
    free_unready(block, call, thread, c);
  else if (block)
    free_of_no_class(block, call, thread);
}

NOINLINE BY_REGISTER void default_free_aligned_sized_slow(void *block, size_t size, size_t alignment, const char *call)
{
  if (block && !class_map_of(block))
    heap_verify_sized(block, size, alignment, call);
  default_free_slow(block, call);
}

/* Returns whether fetched blocks are drawn as samples, or the thread is about to begin counting. */
static bool is_counted_or_drawn(void)
{
  return unlikely(__atomic_load_n(&slow_paths_are_observed, __ATOMIC_RELAXED)) && observer->is_busy();
}

/* NULL: no block is at hand, or the heap must see the request. */
NOINLINE static void *take_at_hand(thread_t *thread, size_t size, size_t size_class)
{
  if (likely(thread_is_ready(thread)))
    return is_counted_or_drawn() ? NULL : refill(thread, size_class);
  if (default_heap.flags & HEAP_WITHIN_REACH)
    return pop_default_within_reach(thread, size);
  if (!thread->counts)
    return NULL;
  void *block = pop_counted(thread, size);
  return block ? block : refill_counted(thread, size);
}

/* Moves a block between cached classes. The map has the size to copy, so nothing is looked up and no lock is taken: most
 * growing blocks are of this kind. NULL: no block is at hand. */
static void *move_cached(void *block, size_t had_class, size_t size, const char *call)
{
  thread_t *thread = thread_self;
  size_t size_class = size_class_cached(size);
  if (size_class == had_class) /* the smallest class: half of it is another size too */
    return block;
  void *to = MAGAZINE_POP(default_loaded(size_class));
  if (!to)
    to = take_at_hand(thread, size, size_class);
  if (to) {
    memcpy(to, block, min_size(size_class_size(had_class), size));
    default_free(block, call);
  }
  return to;
}

/* If no block is at hand, heap_reallocate() may find one, or resize the block in place. */
NOINLINE BY_REGISTER static void *reallocate(void *block, size_t size, const char *call)
{
  size_t had_class = class_map_of(block);
  void *to = had_class && size <= SIZE_CACHED ? move_cached(block, had_class, size, call) : NULL;
  return to ? to : heap_reallocate(NULL, block, size, ORIGIN(call));
}

/* Hides the result from the compiler: if it were known, the tail call that leads here would become a call. */
NOINLINE BY_REGISTER static void *free_by_reallocation(void *block, const char *call)
{
  KEEPS_FRAME();
  default_free_for(block, ORIGIN(call));
  block = NULL;
  __asm__("" : "+r"(block));
  return block;
}

/* A size of 0 frees the block, as in the C library. Tail calls save no registers: some programs use realloc() as malloc(). */
NOINLINE BY_REGISTER void *default_realloc_slow(void *block, size_t size, const char *call)
{
  if (!block)
    return default_heap.flags & HEAP_CACHED ? default_alloc(size) : heap_allocate(&default_heap, size, 1, false, ORIGIN(call));
  if (size)
    return reallocate(block, size, call);
  return free_by_reallocation(block, call);
}

NOINLINE size_t default_usable_size_slow(const void *block, const char *call)
{
  return block ? heap_usable_size(block, call) : 0;
}

NOINLINE void *default_aligned_alloc_for(size_t alignment, size_t size, origin_t by)
{
  if (alignment <= BLOCK_ALIGNMENT && default_heap.flags & HEAP_CACHED)
    return default_alloc(size);
  return heap_allocate(&default_heap, size, alignment, false, by);
}

NOINLINE BY_REGISTER void *default_aligned_alloc_slow(size_t alignment, size_t size, const char *call)
{
  return default_aligned_alloc_for(alignment, size, ORIGIN(call));
}

size_t default_trim(size_t keep) { return heap_trim(&default_heap, keep); }
