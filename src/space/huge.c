/* SPDX-License-Identifier: MIT
 * System calls may be slow, so they are made without huge_lock. A block that is being taken, given or resized is in no tree
 * meanwhile, and the gate holds off forks. */
#include "space/huge.h"
#include "base/list.h"
#include "option.h"
#include "os/lock.h"
#include "os/os.h"
#include "space/budget.h"
#include "space/metadata.h"
#include <string.h>

enum {
  REFUSALS_MOST = 16,
  LOOKS_MOST = 256,      /* ranges of the list that are tried for one block */
  RANGES_MOST = 32 << 10 /* half of the mappings that Linux allows a process */
};

lock_t huge_lock;
range_t *huge_ranges;

size_t huge_bytes(size_t size) { return round_up(size + !size, os_page_size()); }

/* ---- records: those of ended ranges wait for the next ones, so that huge_give() never needs memory ---- */

static metadata_kind_t records = {.size = sizeof(huge_t), .alignment = METADATA_ALIGNMENT, .link = offsetof(huge_t, older)};
static metadata_kind_t standalone_records = {
  .size = sizeof(huge_standalone_t), .alignment = METADATA_ALIGNMENT, .link = offsetof(huge_t, older)};

static void record_give(huge_t *huge) { metadata_give_kind(huge->is_standalone ? &standalone_records : &records, huge); }

/* Cuts the range behind `size` bytes and returns the rest, as clean as the whole and in no tree. Returns NULL, and does
 * nothing, without memory for a record. */
static huge_t *cut_range(huge_t *huge, size_t size)
{
  huge_t *rest = metadata_take_kind(&records);
  if (!rest)
    return NULL;
  *rest = (huge_t){.range = {.start = huge->range.start + size, .size = huge->range.size - size}, .clean = huge->clean};
  huge->range.size = size;
  return rest;
}

/* ---- the lists of owners ---- */

static void list_enter(huge_t *huge, huge_t **list)
{
  huge->list = list;
  if (list)
    LIST_PUSH(*list, huge, older, newer);
}

static void list_leave(huge_t *huge)
{
  if (huge->list)
    LIST_REMOVE(*huge->list, huge, older, newer);
}

/* ---- the tree: live blocks, and left ranges ---- */

static size_t range_count; /* in the tree, except standalone blocks */
static size_t mapped_bytes, standalone_bytes;

size_t huge_mapped_bytes(void) { return __atomic_load_n(&mapped_bytes, __ATOMIC_RELAXED); }
size_t huge_standalone_bytes(void) { return __atomic_load_n(&standalone_bytes, __ATOMIC_RELAXED); }

/* Called under huge_lock; readers take no lock. */
static void count_bytes(size_t *figure, size_t by) { __atomic_store_n(figure, *figure + by, __ATOMIC_RELAXED); }

static void enter_tree(huge_t *huge)
{
  range_insert(&huge_ranges, &huge->range);
  range_count++;
  count_bytes(&mapped_bytes, huge_size(huge));
}

static void leave_tree(huge_t *huge)
{
  range_remove(&huge_ranges, &huge->range);
  range_count--;
  count_bytes(&mapped_bytes, -huge_size(huge));
}

/* Linux merges adjacent mappings, and unmapping one between two others makes two. At the limit of mappings, arenas and stacks
 * of threads cannot be mapped. Each mapping has at least one range, so the number of ranges is bounded. */
static bool may_unmap(const huge_t *huge)
{
  uintptr_t start = huge->range.start, end = start + huge->range.size;
  LOCKED(&huge_lock);
  return range_count <= RANGES_MOST || !range_touches(range_at_or_below(huge_ranges, start - 1), start) ||
         !range_touches(range_at_or_above(huge_ranges, end), end);
}

/* ---- ranges that the system refused to unmap: they serve the next blocks; trims and ticks retry them ---- */

static huge_t *left; /* the head of their list; they are in the tree, and have no owner */
static size_t left_bytes;
static uint64_t purged_bytes;

size_t huge_left_bytes(void) { return __atomic_load_n(&left_bytes, __ATOMIC_RELAXED); }
uint64_t huge_purged_bytes(void) { return __atomic_load_n(&purged_bytes, __ATOMIC_RELAXED); }

static void count_huge_purged(size_t bytes) { __atomic_fetch_add(&purged_bytes, bytes, __ATOMIC_RELAXED); }

/* Clean ranges hold only addresses. */
static void count_huge_left(const huge_t *huge, bool enters)
{
  size_t bytes = huge->clean ? 0 : huge_size(huge);
  __atomic_store_n(&left_bytes, enters ? left_bytes + bytes : left_bytes - bytes, __ATOMIC_RELAXED);
}

static void left_leave(huge_t *huge)
{
  count_huge_left(huge, false);
  list_leave(huge);
  leave_tree(huge);
}

/* Returns the left range that ends or begins at `border`, if it is equally clean. */
static huge_t *left_beside(range_t *range, uintptr_t border, bool clean)
{
  huge_t *huge = range_touches(range, border) ? huge_of(range) : NULL;
  return huge && !huge->owner && huge->clean == clean ? huge : NULL;
}

static void absorb(huge_t *huge, huge_t *other)
{
  if (!other)
    return;
  left_leave(other);
  huge->range.start = min_size(huge->range.start, other->range.start);
  huge->range.size += other->range.size;
  record_give(other);
}

static void left_enter(huge_t *huge)
{
  uintptr_t start = huge->range.start, end = start + huge->range.size;
  huge->owner = NULL;
  absorb(huge, left_beside(range_at_or_below(huge_ranges, start - 1), start, huge->clean));
  absorb(huge, left_beside(range_at_or_above(huge_ranges, end), end, huge->clean));
  enter_tree(huge);
  list_enter(huge, &left);
  count_huge_left(huge, true);
}

/* Called inside the gate, without the lock, while the range is in no list. The memory of a long range is purged in steps first,
 * so that other threads can map between them. Unmapping a range without pages is then fast. */
static bool unmap_range(huge_t *huge)
{
  bool was_clean = huge->clean;
  if (!was_clean && huge_size(huge) > OS_PURGE_STEP)
    huge->clean = os_purge_in_steps(huge_start(huge), huge_size(huge));
  bool gone = may_unmap(huge) && refusals_unmap(huge_start(huge), huge_size(huge));
  huge->clean = huge->clean || gone || os_purge(huge_start(huge), huge_size(huge));
  if (huge->clean && !was_clean)
    count_huge_purged(huge_size(huge));
  return gone;
}

static huge_t *next_left(void)
{
  LOCKED(&huge_lock);
  huge_t *huge = left;
  if (huge)
    left_leave(huge);
  return huge;
}

static void end_unmapped(huge_t *huge, bool gone)
{
  LOCKED(&huge_lock);
  if (gone)
    record_give(huge);
  else
    left_enter(huge);
}

/* Called inside the gate. Gives up after REFUSALS_MOST refusals. Returns whether any range was unmapped. */
static bool unmap_left(void)
{
  huge_t *refused[REFUSALS_MOST], *huge;
  size_t count = 0;
  bool any = false;
  while (count < REFUSALS_MOST && (huge = next_left()) != NULL) {
    if (unmap_range(huge)) {
      any = true;
      end_unmapped(huge, true);
    } else {
      refused[count++] = huge;
    }
  }
  while (count)
    end_unmapped(refused[--count], false);
  return any;
}

size_t huge_unmap_left(void)
{
  uint64_t before = huge_purged_bytes();
  INSIDE_GATE(GATE_SYSTEM);
  unmap_left();
  return (size_t)(huge_purged_bytes() - before);
}

/* ---- giving ---- */

/* The lock is released during the system call. The gate holds off forks, because the range is in no list then. */
void huge_give(huge_t *huge)
{
  INSIDE_GATE(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  leave_tree(huge);
  list_leave(huge);
  huge->clean = huge->is_region = false;
  lock_release(&huge_lock);
  end_unmapped(huge, unmap_range(huge));
}

/* ---- taking ---- */

bool huge_is_hopeless(size_t size) { return size > os_memory_most; }

/* The block begins at the first aligned address of the range, and the rest stays on the list. Returns NULL without memory for a
 * record; the whole range then stays. */
static huge_t *carve(huge_t *huge, size_t size, size_t alignment)
{
  size_t gap = -huge->range.start & (alignment - 1);
  if (gap) {
    huge_t *block = cut_range(huge, gap);
    left_enter(huge);
    huge = block;
  }
  if (huge && huge_size(huge) > size) {
    huge_t *rest = cut_range(huge, size);
    left_enter(rest ? rest : huge);
    huge = rest ? huge : NULL;
  }
  return huge;
}

static huge_t *take_left(size_t size, size_t alignment)
{
  LOCKED(&huge_lock);
  huge_t *huge = left;
  size_t looks = LOOKS_MOST;
  while (huge && --looks && huge_size(huge) < size + (-huge->range.start & (alignment - 1)))
    huge = huge->older;
  huge = looks ? huge : NULL;
  if (huge) {
    left_leave(huge);
    huge = carve(huge, size, alignment);
  }
  return huge;
}

static bool map_new(huge_t *huge, size_t size, size_t alignment)
{
  void *start = os_map(size, alignment);
  *huge = (huge_t){.range = {.start = (uintptr_t)start, .size = size}, .clean = true};
  return start != NULL;
}

/* The record is taken first, because a mapping without one could be neither found nor returned. */
static huge_t *map_block(size_t size, size_t alignment)
{
  lock_acquire(&huge_lock);
  huge_t *huge = metadata_take_kind(&records);
  lock_release(&huge_lock);
  if (!huge)
    return NULL;
  if (map_new(huge, size, alignment) || (unmap_left() && map_new(huge, size, alignment)))
    return huge;
  lock_acquire(&huge_lock);
  record_give(huge);
  lock_release(&huge_lock);
  return NULL;
}

huge_t *huge_take(size_t size, size_t alignment, void *owner, huge_t **list, bool *zeroed)
{
  size = huge_bytes(size);
  alignment = max_size(alignment, os_page_size());
  INSIDE_GATE(GATE_SYSTEM);
  huge_t *huge = take_left(size, alignment);
  if (!huge && !(huge = map_block(size, alignment)))
    return NULL;
  *zeroed = huge->clean;
  huge->owner = owner;
  huge->entry = NULL;
  huge->is_region = huge->hidden = !list;
  if (settings.huge_pages == HUGE_PAGES_ALWAYS)
    os_wish_huge_pages(huge_start(huge), size, true);
  LOCKED(&huge_lock);
  enter_tree(huge);
  list_enter(huge, list);
  return huge;
}

/* ---- resizing ---- */

static bool remap(huge_t *huge, size_t size, bool may_move)
{
  size_t had = huge_size(huge);
  void *start = os_remap(huge_start(huge), had, size, may_move);
  if (start && size < had)
    refusals_note_unmap();
  if (start)
    huge->range = (range_t){.start = (uintptr_t)start, .size = size};
  return start != NULL;
}

/* The block is out of the tree meanwhile, because another thread may get the addresses that it leaves. Shrinking never fails:
 * if the system cannot unmap the end, the block keeps the addresses, and the end is purged. */
bool huge_resize(huge_t *huge, size_t size, bool may_move)
{
  size = huge_bytes(size);
  size_t had = huge_size(huge);
  if (size == had)
    return true;
  INSIDE_GATE(GATE_SYSTEM);
  lock_acquire(&huge_lock);
  leave_tree(huge);
  lock_release(&huge_lock);
  bool purged = size + OS_PURGE_STEP < had && os_purge_in_steps(huge_start(huge) + size, had - size);
  bool done = remap(huge, size, may_move) || (size > had && unmap_left() && remap(huge, size, may_move));
  lock_acquire(&huge_lock);
  enter_tree(huge);
  lock_release(&huge_lock);
  if (size < had && (done || purged || os_purge(huge_start(huge) + size, had - size)))
    count_huge_purged(had - size);
  return done || size < had;
}

/* ---- standalone blocks ---- */

huge_standalone_t *huge_standalone_record(void)
{
  LOCKED(&huge_lock);
  huge_standalone_t *of = metadata_take_kind(&standalone_records);
  if (of)
    *of = (huge_standalone_t){.huge.is_standalone = true};
  return of;
}

void huge_standalone_enter(huge_t *huge, void *owner, huge_t **list)
{
  huge->owner = owner;
  LOCKED(&huge_lock);
  range_insert(&huge_ranges, &huge->range);
  count_bytes(&standalone_bytes, huge_size(huge));
  list_enter(huge, list);
}

void huge_standalone_end(huge_t *huge)
{
  LOCKED(&huge_lock);
  record_give(huge);
}

/* ---- queries ---- */

void huge_hide(huge_t *huge, bool hide)
{
  LOCKED(&huge_lock);
  huge->hidden = hide;
}

/* The tree has left ranges too, so callers test the owner. */
static huge_t *find_live(const void *address)
{
  range_t *range = range_at_or_below(huge_ranges, (uintptr_t)address);
  return range && (uintptr_t)address - range->start < range->size ? huge_of(range) : NULL;
}

void huge_standalone_note(const void *block, uint8_t kind, uint32_t site)
{
  LOCKED(&huge_lock);
  huge_t *huge = find_live(block);
  if (huge && huge->is_standalone && huge_block(huge) == block) {
    standalone_of(huge)->kind = kind;
    standalone_of(huge)->site = site;
  }
}

bool huge_note_entry(const void *block, void *entry, void **before)
{
  LOCKED(&huge_lock);
  huge_t *huge = find_live(block);
  bool live = huge && huge->owner && huge_block(huge) == block;
  if (live) {
    *before = huge->entry;
    huge->entry = entry;
  }
  return live;
}

huge_t *huge_standalone_leave(const void *block)
{
  LOCKED(&huge_lock);
  huge_t *huge = find_live(block);
  if (huge && (!huge->owner || !huge->is_standalone || huge_block(huge) != block))
    huge = NULL;
  if (huge) {
    range_remove(&huge_ranges, &huge->range);
    count_bytes(&standalone_bytes, -huge_size(huge));
    list_leave(huge);
  }
  return huge;
}

/* A left range has no owner, and a hidden one is an unfinished region: neither is a live block. */
bool huge_ask(const void *address, huge_ask_fn *ask, void *context)
{
  LOCKED(&huge_lock);
  huge_t *huge = find_live(address);
  bool live = huge && huge->owner && !huge->hidden;
  if (live)
    ask(huge, context);
  return live;
}

/* The tree has the blocks of all heaps, so it skips those of others. */
huge_t *huge_next(const void *owner, const void *from)
{
  LOCKED(&huge_lock);
  range_t *range = range_at_or_above(huge_ranges, (uintptr_t)from);
  while (range && (huge_of(range)->owner != owner || huge_of(range)->is_region))
    range = range_at_or_above(huge_ranges, range->start + 1);
  return range ? huge_of(range) : NULL;
}
