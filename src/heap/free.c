/* SPDX-License-Identifier: MIT
 * A block is looked up once (heap_locate_block()), and returned to a mapping, a run, or a bin with or without magazines. */
#include "base/text.h"
#include "heap/apart.h"
#include "heap/blocks.h"
#include "heap/dying.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/tick.h"
#include "misuse.h"
#include "os/tool.h"
#include "space/gate.h"
#include <string.h>

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
  if (!located_is_apart(at))
    large_give_huge(at->heap, at->huge);
  else if (unlikely(!apart_give(at->heap, apart_of(at->huge)->source, at->start, call)))
    fatal_misuse_of_block(call, at->start, FREED_TWICE, at->heap, at->size, NULL);
}

void heap_give_uncached(const located_t *at, const char *call)
{
  KEEPS_FRAME();
  void *start = at->start;
  if (located_in_granules(at))
    give_granules(at->heap, start, call);
  else if (HAS_SYSTEM && at->huge)
    give_mapping(at, call);
  else if (!at->bin)
    large_give_run(at->heap, at->run);
  else
    bin_put(at->bin, &start, 1);
}

/* Large blocks may be wiped by purging. Blocks of a slab share pages, and the pages of a block apart are not the manager's. */
void heap_wipe(const located_t *at, char *from, size_t size)
{
  if (located_in_granules(at) || at->bin || located_is_apart(at))
    memset(from, 0, size);
  else
    large_wipe(at->heap, from, size);
}

/* Heads record the requested size. Blocks apart do too, unless they stand in for any block of their class. */
static bool requested_size_is_known(const located_t *at)
{
  return at->head.state || (located_is_apart(at) && !apart_is_as_its_class(at->huge));
}

/* A caller that passes another size or alignment means another block, unless the requested size is not known. */
void heap_verify_sized(const void *block, size_t size, size_t alignment, const char *call)
{
  if (!HAS_SYSTEM || process_is_ending())
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
static inline __attribute__((always_inline)) void give_back(const located_t *at, const char *call, const void *caller)
{
  heap_t *heap = at->heap;
  if (heap_is_headed(heap)) {
    heads->give(at, call, caller);
    return;
  }
  if (heap->zero_on_free)
    heap_wipe(at, at->start, at->size);
  if (at->bin && bin_has_magazines(at->bin))
    give_cached(heap, at->bin, at->start, call);
  else
    heap_give_uncached(at, call);
}

void heap_give_back(const located_t *at, const char *call, const void *caller) { give_back(at, call, caller); }

static inline __attribute__((always_inline)) void give_found(heap_t *heap, void *block, const char *call, const void *caller)
{
  located_t at = heap_locate_block(heap, block, call, FREED_TWICE);
  give_back(&at, call, caller);
}

/* A separate function keeps its stack frame out of the path on which granules take the block. */
NOINLINE static void free_found(heap_t *heap, void *block, const char *call, const void *caller)
{
  KEEPS_FRAME();
  give_found(heap, block, call, caller);
}

void heap_free_for(heap_t *heap, void *block, const char *call, const void *caller)
{
  if (!process_is_ending())
    free_found(heap, block, call, caller);
}

#ifndef heap_free
/* A thread that ends the process leaks what it frees, because its locks may be in any state. A block that begins in the
 * granules of the given heap needs no further look: no other block begins where a live one does. */
void heap_free(heap_t *heap, void *block, const char *call)
{
  if (process_is_ending())
    return;
  if (!heap || !heap->plain_granules || !granular_give(heap, block))
    free_found(heap, block, call, __builtin_return_address(0));
}
#endif
