/* SPDX-License-Identifier: MIT
 *
 * A hash table of chains. Records are only added, in front of their chain, so a search needs no lock. They are packed in
 * chunks, in units of eight bytes. The number of a site is that of its first unit. */
#include "debug/sites.h"
#include "misuse.h"
#include "option.h"
#include "space/metadata.h"

enum {
  CHAINS_LOG2 = 13,
  CHUNK_LOG2 = SITE_CHUNK_LOG2,
  CHUNK = 1 << CHUNK_LOG2,
  CHUNKS_MOST = SITES_END / CHUNK /* 512 MiB */
};

typedef site_record_t record_t;
_Static_assert(sizeof(record_t) == SITE_UNIT, "a record begins with one unit");

lock_t sites_lock;
static site_t chains[1 << CHAINS_LOG2];
static char *chunks[CHUNKS_MOST];
static uint32_t taken = 1; /* units; 0 is no site. Written under the lock, read without: all records below it are complete */

sites_place_t sites_place(void) { return (sites_place_t){chunks, &taken}; }

static record_t *record_of(site_t site)
{
  char *chunk = __atomic_load_n(&chunks[site >> CHUNK_LOG2], __ATOMIC_ACQUIRE);
  return (record_t *)(uintptr_t)(chunk + (size_t)(site & (CHUNK - 1)) * SITE_UNIT);
}

/* The hash of a stack starts with its number of frames. */
static uint64_t sum_with(uint64_t sum, const void *frame) { return (sum ^ (uintptr_t)frame) * 0x9e3779b97f4a7c15u; }
static site_t *chain_by(uint64_t sum) { return &chains[sum >> (64 - CHAINS_LOG2)]; }

static site_t *chain_for(const os_stack_t *stack)
{
  uint64_t sum = stack->count;
  for (size_t i = 0; i < stack->count; i++)
    sum = sum_with(sum, stack->frames[i]);
  return chain_by(sum);
}

/* Tools would report memcmp() and memcpy() as a race, because a thread reads what another one has published. Compilers turn
 * these loops into such calls, unless the words are atomic. */
static bool has_frames(const record_t *record, const os_stack_t *stack)
{
  size_t i = 0;
  while (i < stack->count && __atomic_load_n(&record->frames[i], __ATOMIC_RELAXED) == stack->frames[i])
    i++;
  return i == stack->count;
}

static void set_frames(record_t *record, const os_stack_t *stack)
{
  for (size_t i = 0; i < stack->count; i++)
    __atomic_store_n(&record->frames[i], stack->frames[i], __ATOMIC_RELAXED);
}

static site_t search(site_t *chain, const os_stack_t *stack)
{
  for (site_t at = __atomic_load_n(chain, __ATOMIC_ACQUIRE); at;) {
    const record_t *record = record_of(at);
    if (record->count == stack->count && has_frames(record, stack))
      return at;
    at = record->next;
  }
  return 0;
}

/* A record is in one chunk, so the end of the chunk before it may stay empty. `taken` grows once the record is complete. */
static site_t take_room(uint32_t units)
{
  site_t site = (taken & (CHUNK - 1)) + units <= CHUNK ? taken : (site_t)round_up(taken, CHUNK);
  if (site + units >= SITES_END)
    return 0;
  char **chunk = &chunks[site >> CHUNK_LOG2];
  if (!*chunk) {
    char *memory = metadata_take((size_t)CHUNK * SITE_UNIT, METADATA_ALIGNMENT);
    if (!memory)
      return 0;
    __atomic_store_n(chunk, memory, __ATOMIC_RELEASE);
  }
  return site;
}

static site_t add(site_t *chain, const os_stack_t *stack)
{
  uint32_t units = (uint32_t)(1 + (stack->count * sizeof(void *) + SITE_UNIT - 1) / SITE_UNIT);
  site_t site = take_room(units);
  if (!site)
    return 0;
  record_t *record = record_of(site);
  record->next = *chain;
  record->count = (uint32_t)stack->count;
  set_frames(record, stack);
  __atomic_store_n(&taken, site + units, __ATOMIC_RELEASE);
  __atomic_store_n(chain, site, __ATOMIC_RELEASE);
  return site;
}

/* Most programs want stacks of one address. Others, and the first block of a site, take the slow path. */
static site_t search_for_one(const void *caller)
{
  for (site_t at = __atomic_load_n(chain_by(sum_with(1, caller)), __ATOMIC_ACQUIRE); at; at = record_of(at)->next)
    if (record_of(at)->count == 1 && record_of(at)->frames[0] == caller)
      return at;
  return 0;
}

/* Another thread may have added the site since the first search. */
NOINLINE site_t site_of_stack_of(const void *caller, unsigned frames)
{
  os_stack_t stack = {.most = min_size(frames, SITE_FRAMES_MOST)};
  os_take_stack(caller, &stack);
  site_t *chain = chain_for(&stack), site = search(chain, &stack);
  if (likely(site))
    return site;
  lock_acquire(&sites_lock);
  site = search(chain, &stack);
  if (!site)
    site = add(chain, &stack);
  lock_release(&sites_lock);
  return site;
}

site_t site_of_caller(const void *caller)
{
  site_t site = caller && likely(settings.sites <= 1) ? search_for_one(caller) : 0;
  return likely(site) || !caller ? site : site_of_stack_of(caller, (unsigned)max_size(settings.sites, 1));
}

/* The number may be from a head that was overwritten, or that another thread is writing. */
size_t site_frames(site_t site, const void *const **frames)
{
  if (!site || site >= __atomic_load_n(&taken, __ATOMIC_ACQUIRE) ||
      !__atomic_load_n(&chunks[site >> CHUNK_LOG2], __ATOMIC_RELAXED))
    return 0;
  const record_t *record = record_of(site);
  *frames = record->frames;
  return record->count <= SITE_FRAMES_MOST ? record->count : 0;
}

void sites_say(site_t allocated, site_t freed)
{
  frames_told_t of_allocation = {0}, of_free = {0};
  of_allocation.count = site_frames(allocated, &of_allocation.frames);
  of_free.count = site_frames(freed, &of_free.frames);
  fatal_say_places(&of_allocation, &of_free);
}
