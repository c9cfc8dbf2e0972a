/* SPDX-License-Identifier: MIT
 *
 * One lock protects a hash table, because sampled blocks are few. Only live blocks are counted down without the lock. The next
 * profile reuses lines that no block leads to. */
#include "debug/profile_lines.h"
#include "base/fill.h"
#include "debug/sampling.h"
#include "os/tool.h"
#include "space/metadata.h"
#include <errno.h>
#include <string.h>

enum {
  CHAINS_OF_LINES_LOG2 = 12,
  LENGTHS_LOG2 = 3 /* block lengths to a doubling: readers of a profile use their mean */
};

typedef struct line {
  struct line *next;
  const heap_t *heap; /* NULL: of destroyed heaps */
  uint16_t length;
  bool is_old; /* of a profile that has ended */
  profile_line_t of;
} line_t;

struct profile_entry {
  line_t *line;
  size_t size;
  uint64_t weight; /* bytes that it represents */
};

lock_t profile_lock;
static line_t *line_chains[1 << CHAINS_OF_LINES_LOG2], *unused_lines;
static size_t line_count;
static uint64_t bytes_of_sample = PROFILE_SAMPLE_BYTES;
static uint64_t live_weight; /* of all entries */

uint64_t profile_sample_bytes(void) { return __atomic_load_n(&bytes_of_sample, __ATOMIC_RELAXED); }

uint64_t profile_live_bytes(void) { return __atomic_load_n(&live_weight, __ATOMIC_RELAXED); }

static uint16_t length_of(size_t size)
{
  unsigned log2 = log2_floor(size | 1);
  size_t step = log2 > LENGTHS_LOG2 ? size >> (log2 - LENGTHS_LOG2) : size;
  return (uint16_t)((log2 << (LENGTHS_LOG2 + 1)) + step);
}

static line_t **line_chain(site_t site, const heap_t *heap, uint16_t length)
{
  uint64_t sum = ((uint64_t)site << 16 ^ length ^ (uint64_t)(uintptr_t)heap << 24) * 0x9e3779b97f4a7c15u;
  return &line_chains[sum >> (WORD_BITS - CHAINS_OF_LINES_LOG2)];
}

static line_t *new_line(void)
{
  line_t *line = unused_lines;
  if (!line)
    return metadata_take(sizeof *line, METADATA_ALIGNMENT);
  unused_lines = line->next;
  return line;
}

static line_t *find_line(line_t *line, site_t site, const heap_t *heap, uint16_t length)
{
  while (line && (line->of.site != site || line->length != length || line->heap != heap))
    line = line->next;
  return line;
}

/* Under the lock. NULL: no memory. */
static line_t *line_for(site_t site, const heap_t *heap, uint16_t length)
{
  line_t **chain = line_chain(site, heap, length), *line = find_line(*chain, site, heap, length);
  if (line || !(line = new_line()))
    return line;
  shared_clear(line, sizeof *line);
  line->next = *chain;
  line->heap = heap;
  line->length = length;
  line->of.site = site;
  *chain = line;
  __atomic_store_n(&line_count, line_count + 1, __ATOMIC_RELAXED);
  return line;
}

static void count_live(line_t *line, uint64_t bytes)
{
  __atomic_fetch_add(&line->of.live_blocks, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&line->of.live_bytes, bytes, __ATOMIC_RELAXED);
}

/* The block count is last: a line without live blocks may be reused at once. */
static void count_dead(line_t *line, uint64_t bytes)
{
  __atomic_fetch_sub(&line->of.live_bytes, bytes, __ATOMIC_RELAXED);
  __atomic_fetch_sub(&line->of.live_blocks, 1, __ATOMIC_RELEASE);
}

static void count_allocated(line_t *line, uint64_t blocks, uint64_t bytes)
{
  line->of.blocks += blocks;
  line->of.bytes += bytes;
}

/* Merges a line of a destroyed heap into that of all destroyed heaps, or makes it that line. */
static void leave_to_the_gone(line_t *line)
{
  line_t **chain = line_chain(line->of.site, NULL, line->length), *to = find_line(*chain, line->of.site, NULL, line->length);
  if (to && !__atomic_load_n(&line->of.live_blocks, __ATOMIC_ACQUIRE)) {
    count_allocated(to, line->of.blocks, line->of.bytes);
    line->next = unused_lines;
    unused_lines = line;
    __atomic_store_n(&line_count, line_count - 1, __ATOMIC_RELAXED);
    return;
  }
  line->heap = NULL;
  line->next = *chain;
  *chain = line;
}

/* A heap that has no lines yet reuses the record of a destroyed one, whose lines end here. So destroying a heap is free. */
static void end_lines_of(const heap_t *heap)
{
  for (size_t i = 0; i < (size_t)1 << CHAINS_OF_LINES_LOG2; i++)
    for (line_t **at = &line_chains[i], *line; (line = *at) != NULL;) {
      if (line->heap != heap) {
        at = &line->next;
        continue;
      }
      *at = line->next;
      leave_to_the_gone(line);
    }
}

profile_entry_t *profile_enter(heap_t *heap, size_t size, const void *caller)
{
  profile_entry_t *entry = metadata_take(sizeof *entry, METADATA_ALIGNMENT);
  if (!entry)
    return NULL;
  site_t site = site_of_stack_of(caller, PROFILE_FRAMES);
  lock_acquire(&profile_lock);
  if (!heap->has_lines)
    end_lines_of(heap);
  line_t *line = line_for(site, heap, length_of(size));
  *entry = (profile_entry_t){line, size, sampling_weight(size, bytes_of_sample)};
  if (line) {
    __atomic_fetch_add(&live_weight, entry->weight, __ATOMIC_RELAXED);
    __atomic_store_n(&heap->has_lines, true, __ATOMIC_RELAXED);
    count_allocated(line, 1, size);
    count_live(line, size);
  }
  lock_release(&profile_lock);
  if (!line)
    metadata_give(entry, sizeof *entry);
  return line ? entry : NULL;
}

static void end_entry(profile_entry_t *entry)
{
  __atomic_fetch_sub(&live_weight, entry->weight, __ATOMIC_RELAXED);
  count_dead(entry->line, entry->size);
  metadata_give(entry, sizeof *entry);
}

void profile_leave(profile_entry_t *entry, const void *block)
{
  if (!entry)
    return;
  PROBE1(otel_memory, free, block);
  end_entry(entry);
}

/* If the line belongs to another profile by now, its allocations are no longer this block's. */
void profile_cancel(profile_entry_t *entry)
{
  lock_acquire(&profile_lock);
  if (!entry->line->is_old)
    count_allocated(entry->line, -(uint64_t)1, -(uint64_t)entry->size);
  lock_release(&profile_lock);
  end_entry(entry);
}

/* Old lines are checked again at each new profile, until no block leads to them. */
void profile_forget_lines(uint64_t sample_bytes)
{
  static line_t *old;
  lock_acquire(&profile_lock);
  __atomic_store_n(&bytes_of_sample, sample_bytes, __ATOMIC_RELAXED);
  line_t *ended = old;
  old = NULL;
  for (size_t i = 0; i < (size_t)1 << CHAINS_OF_LINES_LOG2; i++)
    for (line_t *line; (line = line_chains[i]) != NULL;) {
      line_chains[i] = line->next;
      line->is_old = true;
      line->next = ended;
      ended = line;
    }
  for (line_t *line; (line = ended) != NULL;) {
    ended = line->next;
    line_t **to = __atomic_load_n(&line->of.live_blocks, __ATOMIC_ACQUIRE) ? &old : &unused_lines;
    line->next = *to;
    *to = line;
  }
  __atomic_store_n(&line_count, 0, __ATOMIC_RELAXED);
  lock_release(&profile_lock);
}

/* ---- readers ---- */

static size_t copy_bytes(size_t lines) { return round_up(lines * sizeof(profile_copied_t) + 1, os_page_size()); }

/* A block that is freed meanwhile is in both figures, or in none. */
static profile_line_t line_now(const line_t *line)
{
  uint64_t blocks = __atomic_load_n(&line->of.live_blocks, __ATOMIC_ACQUIRE),
           bytes = __atomic_load_n(&line->of.live_bytes, __ATOMIC_RELAXED);
  bool live = blocks && bytes;
  return (profile_line_t){line->of.site, live ? blocks : 0, live ? bytes : 0, line->of.blocks, line->of.bytes};
}

/* A destroyed heap keeps its name until another heap reuses the record, which has no lines at first. */
static void copy_line(profile_copied_t *to, const line_t *line)
{
  to->of = line_now(line);
  bool is_own = line->heap && __atomic_load_n(&line->heap->has_lines, __ATOMIC_RELAXED);
  memcpy(to->heap, is_own ? line->heap->name : "", is_own ? HEAP_NAME_SIZE - 1 : 1);
  to->heap[HEAP_NAME_SIZE - 1] = '\0';
}

/* Lines may have been added since they were counted. */
static bool copy_if_room(const heap_t *heap, profile_copy_t *copy)
{
  bool room = copy_bytes(line_count) <= copy->mapped;
  if (heap && !__atomic_load_n(&heap->has_lines, __ATOMIC_RELAXED))
    return true;
  for (size_t i = 0; room && i < (size_t)1 << CHAINS_OF_LINES_LOG2; i++)
    for (const line_t *line = line_chains[i]; line; line = line->next)
      if (!heap || line->heap == heap)
        copy_line(&copy->lines[copy->count++], line);
  return room;
}

int profile_copy_lines(const heap_t *heap, bool waits, profile_copy_t *copy)
{
  for (bool done = false; !done;) {
    *copy = (profile_copy_t){.mapped = copy_bytes(__atomic_load_n(&line_count, __ATOMIC_RELAXED) * 2)};
    copy->lines = os_map(copy->mapped, os_page_size());
    if (!copy->lines)
      return ENOMEM;
    if (waits)
      lock_acquire(&profile_lock);
    else if (!lock_attempt(&profile_lock)) {
      profile_end_copy(copy);
      return EBUSY;
    }
    done = copy_if_room(heap, copy);
    lock_release(&profile_lock);
    if (!done)
      profile_end_copy(copy);
  }
  return 0;
}

void profile_end_copy(profile_copy_t *copy)
{
  if (copy->lines)
    os_unmap(copy->lines, copy->mapped);
  copy->lines = NULL;
}
