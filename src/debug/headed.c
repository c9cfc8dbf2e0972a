/* SPDX-License-Identifier: MIT
 * Implements heap/debug_hooks.h: heaps whose blocks have heads. */
#include "debug/head.h"
#include "debug/quarantine.h"
#include "heap/blocks.h"
#include "heap/granular.h"
#include "heap/large.h"
#include "heap/locate.h"
#include "misuse.h"
#include "option.h"
#include "os/lock.h"
#include "os/tool.h"

/* ---- allocation ---- */

/* A standalone block has no head; its record has the kind and the site. */
static void *open_block(void *block, request_t *r)
{
  if (unlikely(settings.sites > 1))
    os_load_stacks(); /* the program's start may have been too early */
  site_t site = site_of(origin_caller(r->by));
  if (r->standalone) {
    huge_standalone_note(block, (uint8_t)kind_allocated_by(r->by.call), site);
    return block;
  }
  headed_t at = {
    block, r->usable, r->heap, r->by.call, r->in_granules, !heap_is_checked(r->heap), site, heap_is_marked(r->heap)};
  bool used = r->past == BLOCK_USED;
  r->usable = r->size;
  r->past = BLOCK_USED;
  return head_open(at, r->size, r->alignment, used);
}

/* ---- free ---- */

/* Each family of calls, such as malloc() and free(), may free only its own blocks. Any may free blocks of other calls. */
static void verify_kind(const located_t *at, const char *call)
{
  static const char *const allocated_by[] = {"", OF_MALLOC, OF_NEW, OF_NEW_ARRAY};
  block_kind_t kind = at->head.kind, frees = kind_freed_by(call);
  if (unlikely(kind && frees && kind != frees))
    fatal_misuse_of_block(call, located_block(at), allocated_by[kind], at->heap, located_size(at), NULL);
}

/* The block is in no list between closing its head and entering the quarantine or the bin, so a fork waits for this gate.
 * Another thread may have freed the block since it was looked up. */
static void give_closed(const located_t *at, const char *call, site_t site)
{
  KEEPS_FRAME();
  heap_t *heap = at->heap;
  if (unlikely(!head_close(headed_at(at, call, site)))) {
    sites_say(at->head.allocated, at->head.freed);
    fatal_misuse_of_block(call, at->head.block, FREED_TWICE, heap, at->head.size, NULL);
  }
  if (heap_is_checked(heap)) {
    quarantine_keep(at, call);
    return;
  }
  if (heap->flags & POOL_HEAP_ZERO_ON_FREE)
    heap_wipe(at, at->start + HEAD_FRONT, at->size - HEAD_FRONT);
  if (heap_is_marked(heap))
    os_tool_leave_order(heap);
  heap_give_uncached(at, call);
}

static void give_headed(const located_t *at, origin_t by)
{
  if (heap_is_checked(at->heap))
    verify_kind(at, by.call);
  if (located_is_standalone(at)) {
    if (at->heap->flags & POOL_HEAP_ZERO_ON_FREE)
      heap_wipe(at, at->start, at->size);
    heap_give_uncached(at, by.call);
    return;
  }
  site_t site = site_of(origin_caller(by)); /* outside the gate: it may wait for the loader */
  INSIDE_GATE(GATE_HEADED);
  give_closed(at, by.call, site);
}

static void shorten_block(const located_t *at, size_t size, const char *call) { head_shorten(headed_at(at, call, 0), size); }

static void say_damaged(const located_t *at, const char *block, const char *call)
{
  head_damaged(headed_at(at, call, 0), block);
}

/* ---- all blocks of a heap ---- */

static void verify_block(const heap_t *heap, char *start, size_t usable, const char *call, bool alone)
{
  head_verify_live((headed_t){.start = start, .usable = usable, .heap = heap, .call = call, .marked = heap_is_marked(heap)},
                   alone);
}

typedef struct verification {
  bool alone;
  const char *call;
} verification_t;

static bool verify_visited(const walked_t *walked, void *context)
{
  const verification_t *verification = context;
  heap_verify_around(walked->block.start, verification->alone, verification->call);
  return true;
}

/* Nothing is flushed: no thread caches blocks of such a heap. */
static void verify_all(heap_t *heap, bool alone, const char *call)
{
  quarantine_verify(heap, call);
  heap_walk(heap, WALK_MEMORY, verify_visited, &(verification_t){alone, call});
}

/* Last chance to find writes outside blocks or to freed ones. A lost thread may have been in the middle of one. */
static void end_all(heap_t *heap, bool alone, const char *call)
{
  verify_all(heap, alone, call);
  quarantine_forget(heap);
}

/* ---- guests of which a tool is told ----
 *
 * The tool watches heads, red zones and the quarantine: only live blocks are open. Regions of units have records among their
 * blocks and stay open outside of blocks. */

/* Tools track blocks inside another block only after being told about the outer one. */
static void begin_guest(heap_t *heap)
{
  located_t at = os_tool.sees_all ? heap_locate(heap->region.start) : (located_t){0};
  bool inside = at.live && heap_is_marked(at.heap);
  if (inside)
    os_tool_leave_block(at.heap, located_block(&at));
  heap->flags |=
    HEAP_MARKED | POOL_HEAP_SITES | (os_tool.sees_bytes ? POOL_HEAP_CHECKED : 0) | (inside ? HEAP_MARKED_INSIDE : 0);
  os_tool_open(heap->region.start, heap->region.size);
  os_tool_begin_blocks(heap, inside);
  os_tool_leave_order(heap);
}

static void close_granules(const heap_t *heap)
{
  if (heap_has_granules(heap))
    os_tool_close(heap->region.base, (size_t)heap->region.granules.count << GRANULE_LOG2);
}

static void mark_guest(heap_t *heap, guest_step_t step)
{
  if (step == GUEST_BEGINS && (os_tool.sees_bytes || os_tool.sees_orders))
    begin_guest(heap);
  if (!heap_is_marked(heap) || step == GUEST_BEGINS)
    return;
  if (step == GUEST_WAS_RESET)
    os_tool_leave_order(heap);
  if (step == GUEST_WAS_RESET || step == GUEST_ENDS)
    os_tool_end_blocks(heap, heap->flags & HEAP_MARKED_INSIDE);
  if (step == GUEST_WAS_RESET)
    os_tool_begin_blocks(heap, heap->flags & HEAP_MARKED_INSIDE);
  if (step == GUEST_ENDS)
    os_tool_forget(heap->region.start, heap->region.size);
  if (step == GUEST_HAS_BEGUN || step == GUEST_WAS_RESET)
    close_granules(heap);
  else
    os_tool_open(heap->region.start, heap->region.size);
}

static const heads_t own_heads = {.open = open_block,
                                  .give = give_headed,
                                  .shorten = shorten_block,
                                  .look = head_look,
                                  .verify = verify_block,
                                  .damaged = say_damaged,
                                  .say_sites = sites_say,
                                  .withheld = quarantine_figures,
                                  .release_withheld = quarantine_empty,
                                  .verify_withheld = quarantine_verify,
                                  .verify_all = verify_all,
                                  .end_all = end_all,
                                  .mark_guest = mark_guest};
const heads_t *const heads = &own_heads;
