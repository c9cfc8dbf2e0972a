/* SPDX-License-Identifier: MIT
 *
 * A call of the system may take long, so it is made with huge_lock open. A block that is being taken, given or resized is in no
 * tree then, and the gate keeps a fork away. */
#include "space/huge.h"
#include "option.h"
#include "os/os.h"
#include "space/gate.h"
#include <string.h>

size_t huge_bytes(size_t size) { return round_up(size + !size, os_page_size()); }

static void enter_live(huge_t *huge)
{
  range_insert(&huge_ranges, &huge->range);
  huge_live.count++;
  huge_live.bytes += huge_size(huge);
}

static void leave_live(huge_t *huge)
{
  range_remove(&huge_ranges, &huge->range);
  huge_live.count--;
  huge_live.bytes -= huge_size(huge);
}

/* ---- the lists of owners ---- */

/* `link` leads to the pointer that leads here, so that a block can leave without its owner's head. A region is in no list. */
static void list_enter(huge_t *huge, huge_t **list)
{
  huge->older = list ? *list : NULL;
  huge->link = list;
  if (huge->older)
    huge->older->link = &huge->older;
  if (list)
    *list = huge;
}

static void list_leave(huge_t *huge)
{
  if (huge->link)
    *huge->link = huge->older;
  if (huge->older)
    huge->older->link = huge->link;
}

/* ---- giving ---- */

/* The lock is open while the system is asked. The gate keeps a fork away, because the range is in no list then. */
void huge_give(huge_t *huge)
{
  size_t purged;
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  leave_live(huge);
  list_leave(huge);
  huge->clean = huge->is_region = false;
  bool kept = kept_give(huge);
  lock_release(&huge_lock);
  if (!kept)
    kept_unmap(huge, &purged);
  gate_leave(gate);
}

/* ---- taking ---- */

/* The system may move the pages, so the range gets its new address only if that succeeds. */
static bool grow_kept(huge_t *huge, size_t size)
{
  void *start = os_remap(huge_start(huge), huge_size(huge), size, true);
  if (!start)
    return false;
  huge->range = (range_t){.start = (uintptr_t)start, .size = size};
  return true;
}

/* A range that is too short grows by moving its pages. If the system refuses that, it is kept as before. */
static huge_t *take_kept(size_t size, size_t alignment)
{
  lock_acquire(&huge_lock);
  huge_t *huge = kept_take(size, alignment);
  lock_release(&huge_lock);
  if (!huge || huge_size(huge) == size || (alignment <= os_page_size() && grow_kept(huge, size)))
    return huge;
  lock_acquire(&huge_lock);
  kept_enter(huge);
  lock_release(&huge_lock);
  return NULL;
}

bool huge_is_hopeless(size_t size) { return size > os_memory_most; }

/* Unmaps everything that is kept, so that a mapping can be tried again. False: nothing is kept, or even all of it would not be
 * enough. */
static bool make_room(size_t size)
{
  lock_acquire(&huge_lock);
  bool any = kept_any();
  lock_release(&huge_lock);
  if (!any || huge_is_hopeless(size))
    return false;
  kept_trim_beyond(0, SIZE_MAX);
  return true;
}

static bool map_new(huge_t *huge, size_t size, size_t alignment)
{
  void *start = os_map(size, alignment);
  huge->range = (range_t){.start = (uintptr_t)start, .size = size};
  return start != NULL;
}

/* The record is taken first: a mapping without one could be neither found nor given back. */
static huge_t *map_block(size_t size, size_t alignment)
{
  lock_acquire(&huge_lock);
  huge_t *huge = huge_record_take();
  lock_release(&huge_lock);
  if (!huge)
    return NULL;
  if (map_new(huge, size, alignment) || (make_room(size) && map_new(huge, size, alignment)))
    return huge;
  lock_acquire(&huge_lock);
  huge_record_give(huge);
  lock_release(&huge_lock);
  return NULL;
}

/* A new mapping reads as zero, and so does a kept range that holds no memory. A region stays hidden until its owner has made it
 * one. */
huge_t *huge_take(size_t size, size_t alignment, void *owner, huge_t **list, bool *zeroed)
{
  size = huge_bytes(size);
  alignment = max_size(alignment, os_page_size());
  lock_t *gate = gate_enter(GATE_SYSTEM);
  huge_t *huge = take_kept(size, alignment);
  *zeroed = !huge || huge->clean;
  if (!huge)
    huge = map_block(size, alignment);
  if (huge) {
    huge->owner = owner;
    huge->entry = NULL;
    huge->is_region = huge->hidden = !list;
    lock_acquire(&huge_lock);
    enter_live(huge);
    list_enter(huge, list);
    lock_release(&huge_lock);
  }
  gate_leave(gate);
  if (huge && settings.huge_pages == HUGE_PAGES_ALWAYS)
    os_wish_huge_pages(huge_start(huge), size, true);
  return huge;
}

/* ---- changing the size ---- */

/* With a purge delay that never ends nothing goes back to the system, so what a block leaves is kept. */
static bool keep_always(huge_t *rest)
{
  if (!rest || !kept_is_all())
    return false;
  lock_acquire(&huge_lock);
  kept_enter(rest);
  lock_release(&huge_lock);
  return true;
}

/* The end is cut off before the lock is open, so that nobody sees it as part of the block. It holds data, so it is dirty. */
static bool keep_end(huge_t *huge, size_t size)
{
  huge->clean = false;
  lock_acquire(&huge_lock);
  huge_t *rest = kept_is_all() ? huge_cut(huge, size) : NULL;
  lock_release(&huge_lock);
  return keep_always(rest);
}

/* A block that was put together from kept ranges may be several mappings, which the system does not move at once. The copy is a
 * single one, so the next move is cheap again. */
static bool move_by_copy(huge_t *huge, size_t size)
{
  huge_t moved = {0};
  size_t purged;
  lock_acquire(&huge_lock);
  huge_t *old = huge_record_take();
  lock_release(&huge_lock);
  if (!old)
    return false;
  bool done = map_new(&moved, size, os_page_size());
  if (done) {
    memcpy(huge_start(&moved), huge_start(huge), huge_size(huge));
    if (huge->is_wiped)
      memset(huge_start(huge), 0, huge_size(huge));
    *old = (huge_t){.range = huge->range};
    huge->range = moved.range;
    if (!keep_always(old))
      kept_unmap(old, &purged);
  } else {
    lock_acquire(&huge_lock);
    huge_record_give(old);
    lock_release(&huge_lock);
  }
  return done;
}

/* Only a block that grows is worth a copy: one that becomes smaller can stay. */
static bool move(huge_t *huge, size_t size, bool may_move)
{
  void *start = os_remap(huge_start(huge), huge_size(huge), size, may_move);
  if (!start)
    return may_move && size > huge_size(huge) && move_by_copy(huge, size);
  huge->range = (range_t){.start = (uintptr_t)start, .size = size};
  return true;
}

/* Unmaps the kept range behind the block, if all of the growth is in it, so that the block can have its addresses. */
static bool make_way(huge_t *huge, size_t more)
{
  size_t purged;
  lock_acquire(&huge_lock);
  huge_t *behind = kept_take_behind(huge, more);
  lock_release(&huge_lock);
  return behind && kept_unmap(behind, &purged);
}

/* What is kept may be all that is in the way of a larger block: behind it, or anywhere if it may move. So there is a second try
 * without it. */
static bool resize(huge_t *huge, size_t size, bool may_move)
{
  size_t had = huge_size(huge);
  if (move(huge, size, may_move))
    return true;
  if (size < had || !(may_move ? make_room(size - had) : make_way(huge, size - had)))
    return false;
  return move(huge, size, may_move);
}

/* The block is out of the tree meanwhile, because another thread may be given the addresses that it leaves. A block never fails
 * to become smaller: if the system cannot unmap its end, the block keeps the addresses, and the end gives back its memory. */
bool huge_resize(huge_t *huge, size_t size, bool may_move)
{
  size = huge_bytes(size);
  size_t had = huge_size(huge);
  if (size == had)
    return true;
  bool purged = false;
  lock_t *gate = gate_enter(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  leave_live(huge);
  lock_release(&huge_lock);
  /* Only one of three things happens to the end of a block that becomes smaller: it is kept, or unmapped, or gives back its
   * memory. */
  bool kept = size < had && keep_end(huge, size);
  if (size < had && !kept && had - size > OS_PURGE_STEP)
    purged = os_purge_in_steps(huge_start(huge) + size, had - size);
  bool done = kept || resize(huge, size, may_move);
  lock_acquire(&huge_lock);
  enter_live(huge);
  lock_release(&huge_lock);
  gate_leave(gate);
  if (size < had && !kept && (done || purged || os_purge(huge_start(huge) + size, had - size)))
    kept_count_purged(had - size);
  return done || size < had;
}

/* ---- blocks apart ---- */

huge_apart_t *huge_apart_record(void)
{
  lock_acquire(&huge_lock);
  huge_apart_t *apart = huge_apart_record_take();
  lock_release(&huge_lock);
  return apart;
}

/* They do not count as live here: that bounds what is kept for the next mapping, which none of them will take. */
void huge_apart_enter(huge_t *huge, void *owner, huge_t **list)
{
  huge->owner = owner;
  lock_acquire(&huge_lock);
  range_insert(&huge_ranges, &huge->range);
  list_enter(huge, list);
  lock_release(&huge_lock);
}

void huge_apart_end(huge_t *huge)
{
  lock_acquire(&huge_lock);
  huge_record_give(huge);
  lock_release(&huge_lock);
}

/* ---- questions ---- */

void huge_hide(huge_t *huge, bool hide)
{
  lock_acquire(&huge_lock);
  huge->hidden = hide;
  lock_release(&huge_lock);
}

/* The tree has kept ranges too, so the caller looks at the owner. */
static huge_t *find_live(const void *address)
{
  range_t *range = range_at_or_below(huge_ranges, (uintptr_t)address);
  return range && (uintptr_t)address - range->start < range->size ? huge_of(range) : NULL;
}

void huge_apart_note_site(const void *block, uint32_t site)
{
  lock_acquire(&huge_lock);
  huge_t *huge = find_live(block);
  if (huge && huge->is_apart && huge_block(huge) == block)
    apart_of(huge)->site = site;
  lock_release(&huge_lock);
}

bool huge_note_entry(const void *block, void *entry, void **before)
{
  lock_acquire(&huge_lock);
  huge_t *huge = find_live(block);
  bool live = huge && huge->owner && huge_block(huge) == block;
  if (live) {
    *before = huge->entry;
    huge->entry = entry;
  }
  lock_release(&huge_lock);
  return live;
}

huge_t *huge_apart_leave(const void *block)
{
  lock_acquire(&huge_lock);
  huge_t *huge = find_live(block);
  if (huge && (!huge->owner || !huge->is_apart || huge_block(huge) != block))
    huge = NULL;
  if (huge) {
    range_remove(&huge_ranges, &huge->range);
    list_leave(huge);
  }
  lock_release(&huge_lock);
  return huge;
}

/* A range that is kept has no owner, and a hidden one is a region that is not ready: neither is a live block. */
bool huge_ask(const void *address, huge_ask_fn *ask, void *context)
{
  lock_acquire(&huge_lock);
  huge_t *huge = find_live(address);
  bool live = huge && huge->owner && !huge->hidden;
  if (live)
    ask(huge, context);
  lock_release(&huge_lock);
  return live;
}

/* Blocks of all heaps are in one tree, so those of others are passed over. */
huge_t *huge_next(const void *owner, const void *from)
{
  lock_acquire(&huge_lock);
  range_t *range = range_at_or_above(huge_ranges, (uintptr_t)from);
  while (range && (huge_of(range)->owner != owner || huge_of(range)->is_region))
    range = range_at_or_above(huge_ranges, range->start + 1);
  lock_release(&huge_lock);
  return range ? huge_of(range) : NULL;
}
