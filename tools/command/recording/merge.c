/* SPDX-License-Identifier: MIT */
#include "merge.h"
#include <stdlib.h>
#include <string.h>

enum {
  WAITS_MOST = 8,
  SLACK_NS = 1000000,  /* two processors' clocks are not further apart */
  DEPTH_MOST = 8,      /* of realloc() whose new block is another's old one */
  LOOKS_MOST = 1 << 28 /* a damaged file has many frees of what is not there: a second, and no more */
};

/* ---- the heap ---- */

static bool is_before(turn_t one, turn_t other)
{
  if (one.ns != other.ns)
    return one.ns < other.ns;
  return one.waits != other.waits ? one.waits < other.waits : one.branch < other.branch;
}

static void sink(merge_t *merge, size_t at)
{
  turn_t *turns = merge->turns, turn = turns[at];
  for (size_t below; (below = 2 * at + 1) < merge->count; at = below) {
    below += below + 1 < merge->count && is_before(turns[below + 1], turns[below]);
    if (is_before(turn, turns[below]))
      break;
    turns[at] = turns[below];
  }
  turns[at] = turn;
}

static branch_t *top(const merge_t *merge) { return &merge->branches[merge->turns[0].branch]; }

static void put_off(merge_t *merge, uint64_t ns, uint32_t waits)
{
  merge->turns[0].ns = ns > merge->turns[0].ns ? ns : merge->turns[0].ns;
  merge->turns[0].waits = waits;
  sink(merge, 0);
}

/* The top one's event is done. */
static void advance(merge_t *merge)
{
  branch_t *branch = top(merge);
  stream_advance(&branch->stream, &merge->file);
  branch->phase = PHASE_FRESH;
  branch->waits = 0;
  if (branch->stream.next.op == RECORDING_END)
    merge->turns[0] = merge->turns[--merge->count];
  else
    merge->turns[0] = (turn_t){branch->stream.next.ns, 0, merge->turns[0].branch};
  if (merge->count)
    sink(merge, 0);
}

void merge_begin(merge_t *merge)
{
  merge->count = 0;
  for (size_t i = 0; i < merge->branch_count; i++) {
    stream_t *stream = &merge->branches[i].stream;
    stream_advance(stream, &merge->file);
    if (stream->next.op != RECORDING_END)
      merge->turns[merge->count++] = (turn_t){stream->next.ns, 0, (uint32_t)i};
  }
  for (size_t i = merge->count / 2; i > 0; i--)
    sink(merge, i - 1);
}

/* ---- what has to come first ---- */

static bool is_allocation(recording_op_t op) { return op >= RECORDING_ALLOC && op <= RECORDING_ALIGNED; }

static bool allocates(const branch_t *branch, uint64_t address)
{
  const raw_event_t *next = &branch->stream.next;
  bool is_open = branch->phase != PHASE_DONE && (is_allocation(next->op) || next->op == RECORDING_REALLOC);
  return is_open && next->address == address;
}

static bool frees(const branch_t *branch, uint64_t address)
{
  const raw_event_t *next = &branch->stream.next;
  if (next->op == RECORDING_REALLOC)
    return branch->phase == PHASE_FRESH && next->old == address;
  return next->op == RECORDING_FREE && next->address == address;
}

/* Whether the top one waits for another that is to allocate or to free the address first, by a clock that is a little behind.
 */
static bool waits(merge_t *merge, uint64_t address, bool (*does)(const branch_t *, uint64_t))
{
  branch_t *branch = top(merge);
  uint64_t now = merge->turns[0].ns;
  if (branch->waits == WAITS_MOST || merge->looks >= LOOKS_MOST)
    return false;
  merge->looks += merge->count;
  for (size_t i = 1; i < merge->count; i++) {
    const branch_t *other = &merge->branches[merge->turns[i].branch];
    if (merge->turns[i].ns - now > SLACK_NS || !does(other, address))
      continue;
    put_off(merge, merge->turns[i].ns, ++branch->waits);
    return true;
  }
  return false;
}

/* ---- events ---- */

/* Fills in what an event of a block has out of the file. */
static void describe(event_t *event, const branch_t *branch, recording_op_t op)
{
  const raw_event_t *next = &branch->stream.next;
  event->op = op;
  event->thread = branch->stream.thread;
  event->site = next->site;
  event->heap = next->heap;
  event->address = next->address;
  event->size = next->size;
  event->alignment_log2 = next->alignment_log2;
}

static void put_free(merge_t *merge, event_t *event, place_t *place, const branch_t *branch)
{
  event->op = RECORDING_FREE;
  event->thread = branch->stream.thread;
  event->address = place->address;
  event->slot = place->slot;
  event->heap = merge->slots.slots[place->slot].heap;
  event->old_size = slots_remove(&merge->slots, place);
}

static bool put_alloc(merge_t *merge, event_t *event, const branch_t *branch, recording_op_t op)
{
  const raw_event_t *next = &branch->stream.next;
  uint32_t slot = slots_add(&merge->slots, next->address, next->size, next->heap);
  merge->file.no_memory |= slot == SLOT_NONE;
  describe(event, branch, op);
  event->slot = slot;
  return slot != SLOT_NONE;
}

static void put_realloc(merge_t *merge, event_t *event, branch_t *branch)
{
  const raw_event_t *next = &branch->stream.next;
  place_t *place = slots_find(&merge->slots, next->old);
  describe(event, branch, RECORDING_REALLOC);
  event->slot = place->slot;
  slotted_t *slot = &merge->slots.slots[place->slot];
  merge->file.no_memory |= !slots_rehome(&merge->slots, place->slot, next->heap);
  event->old_size = slot->size;
  slot->size = next->size;
  place->mover = 0;
  if (next->address != next->old)
    slots_move(&merge->slots, place, next->address);
  branch->phase = PHASE_DONE;
}

/* Ends a realloc() before its time: its old address, or what it leads to, is needed. Where the new one is a block's still, that
 * ends first: by its own realloc(), or by a free that was missed. */
static void finish(merge_t *merge, event_t *event, branch_t *branch, unsigned depth)
{
  const raw_event_t *next = &branch->stream.next;
  place_t *there = next->address != next->old ? slots_find(&merge->slots, next->address) : NULL;
  if (!there)
    put_realloc(merge, event, branch);
  else if (there->mover && depth < DEPTH_MOST)
    finish(merge, event, &merge->branches[there->mover - 1], depth + 1);
  else {
    if (there->mover)
      merge->branches[there->mover - 1].phase = PHASE_PLAIN;
    merge->missed++;
    put_free(merge, event, there, branch);
  }
}

/* An object pool may take an object from its user and give it to the next. */
static bool is_evicted(const merge_t *merge, const place_t *there)
{
  uint32_t heap = top(merge)->stream.next.heap;
  return heap && heap == merge->slots.slots[there->slot].heap;
}

/* True: the address is free for the top one's block. False: first comes what was put into *event, or, if that is nothing,
 * another. */
static bool make_room(merge_t *merge, event_t *event, uint64_t address)
{
  place_t *there = slots_find(&merge->slots, address);
  if (!there)
    return true;
  if (there->mover)
    finish(merge, event, &merge->branches[there->mover - 1], 0);
  else if (!waits(merge, address, frees)) {
    merge->missed += !is_evicted(merge, there);
    put_free(merge, event, there, top(merge));
  }
  return false;
}

static void step_alloc(merge_t *merge, event_t *event, recording_op_t op)
{
  if (make_room(merge, event, top(merge)->stream.next.address) && put_alloc(merge, event, top(merge), op))
    advance(merge);
}

static void step_free(merge_t *merge, event_t *event)
{
  uint64_t address = top(merge)->stream.next.address;
  place_t *place = slots_find(&merge->slots, address);
  if ((!place || place->mover) && waits(merge, address, allocates))
    return;
  if (place && !place->mover)
    put_free(merge, event, place, top(merge));
  else
    merge->unknown++;
  advance(merge);
}

static void begin_realloc(merge_t *merge)
{
  branch_t *branch = top(merge);
  const raw_event_t *next = &branch->stream.next;
  place_t *place = slots_find(&merge->slots, next->old);
  bool is_known = place && !place->mover;
  if (!is_known && waits(merge, next->old, allocates))
    return;
  merge->unknown += !is_known;
  if (is_known)
    place->mover = merge->turns[0].branch + 1;
  branch->phase = is_known ? PHASE_BEGUN : PHASE_PLAIN;
  put_off(merge, next->ns + next->took_ns, 0);
}

static void end_realloc(merge_t *merge, event_t *event)
{
  branch_t *branch = top(merge);
  const raw_event_t *next = &branch->stream.next;
  if (next->address != next->old && !make_room(merge, event, next->address))
    return;
  put_realloc(merge, event, branch);
  advance(merge);
}

static void step_realloc(merge_t *merge, event_t *event)
{
  switch (top(merge)->phase) {
  case PHASE_FRESH:
    begin_realloc(merge);
    break;
  case PHASE_BEGUN:
    end_realloc(merge, event);
    break;
  case PHASE_PLAIN:
    step_alloc(merge, event, RECORDING_ALLOC);
    break;
  case PHASE_DONE:
    advance(merge);
    break;
  }
}

/* ---- others ---- */

static void step_site(merge_t *merge, event_t *event)
{
  const raw_event_t *next = &top(merge)->stream.next;
  describe(event, top(merge), RECORDING_SITE);
  stream_frames(next, merge->frames);
  event->frames = merge->frames;
  event->frame_count = next->count;
  advance(merge);
}

static void name_event(merge_t *merge, event_t *event)
{
  const raw_event_t *next = &top(merge)->stream.next;
  memcpy(merge->name, next->bytes, next->count);
  merge->name[next->count] = '\0';
  event->name = merge->name;
}

static void step_module(merge_t *merge, event_t *event)
{
  const raw_event_t *next = &top(merge)->stream.next;
  describe(event, top(merge), RECORDING_MODULE);
  event->added = next->added;
  name_event(merge, event);
  advance(merge);
}

static bool has_heap(merge_t *merge, uint32_t heap)
{
  if (heap < merge->heap_count)
    return true;
  uint32_t count = heap < 32 ? 64 : heap * 2;
  heap_tree_t *heaps = realloc(merge->heaps, count * sizeof *heaps);
  merge->file.no_memory |= !heaps;
  if (!heaps)
    return false;
  memset(heaps + merge->heap_count, 0, (count - merge->heap_count) * sizeof *heaps);
  merge->heaps = heaps;
  merge->heap_count = count;
  return true;
}

static void leave_parent(heap_tree_t *heaps, uint32_t heap)
{
  heap_tree_t *pool = &heaps[heap];
  if (!pool->parent)
    return;
  *(pool->previous_pool ? &heaps[pool->previous_pool].next_pool : &heaps[pool->parent].first_pool) = pool->next_pool;
  if (pool->next_pool)
    heaps[pool->next_pool].previous_pool = pool->previous_pool;
  pool->parent = pool->next_pool = pool->previous_pool = 0;
}

/* Nothing is known of what malloc() is the parent of. */
static void enter_parent(heap_tree_t *heaps, uint32_t heap, uint32_t parent)
{
  heap_tree_t *pool = &heaps[heap];
  if (!heap || !parent)
    return;
  pool->parent = parent;
  pool->next_pool = heaps[parent].first_pool;
  if (pool->next_pool)
    heaps[pool->next_pool].previous_pool = heap;
  heaps[parent].first_pool = heap;
}

static void step_description(merge_t *merge, event_t *event)
{
  const raw_event_t *next = &top(merge)->stream.next;
  uint32_t heap = next->heap, parent = next->parent;
  if (!has_heap(merge, heap > parent ? heap : parent))
    return;
  leave_parent(merge->heaps, heap);
  if (next->kind == RECORDING_KIND_OBJECT_POOL && parent != heap)
    enter_parent(merge->heaps, heap, parent);
  describe(event, top(merge), RECORDING_HEAP);
  event->parent = parent;
  event->kind = next->kind;
  name_event(merge, event);
  advance(merge);
}

/* A block of the heap or of an object pool in it, and of those the ones that have none go from the list. */
static place_t *find_dropped(merge_t *merge, uint32_t heap)
{
  place_t *place = slots_of_heap(&merge->slots, heap);
  if (place || heap >= merge->heap_count)
    return place;
  const heap_tree_t *tree = &merge->heaps[heap];
  while (tree->first_pool && !(place = slots_of_heap(&merge->slots, tree->first_pool)))
    leave_parent(merge->heaps, tree->first_pool);
  return place;
}

static void step_drop(merge_t *merge, event_t *event)
{
  place_t *place = find_dropped(merge, top(merge)->stream.next.heap);
  if (!place) {
    advance(merge);
    return;
  }
  if (place->mover)
    merge->branches[place->mover - 1].phase = PHASE_PLAIN;
  put_free(merge, event, place, top(merge));
}

static void step(merge_t *merge, event_t *event)
{
  recording_op_t op = top(merge)->stream.next.op;
  event->ns = merge->turns[0].ns;
  if (is_allocation(op))
    step_alloc(merge, event, op);
  else if (op == RECORDING_FREE)
    step_free(merge, event);
  else if (op == RECORDING_REALLOC)
    step_realloc(merge, event);
  else if (op == RECORDING_SITE)
    step_site(merge, event);
  else if (op == RECORDING_MODULE)
    step_module(merge, event);
  else if (op == RECORDING_HEAP)
    step_description(merge, event);
  else if (op == RECORDING_DROP)
    step_drop(merge, event);
  else {
    describe(event, top(merge), RECORDING_FAILED);
    advance(merge);
  }
}

bool merge_next(merge_t *merge, event_t *event)
{
  *event = (event_t){.op = RECORDING_END};
  while (merge->count && event->op == RECORDING_END && !merge->file.no_memory)
    step(merge, event);
  return event->op != RECORDING_END;
}
