/* SPDX-License-Identifier: MIT
 * Which options contradict each other, and how little memory or budget is enough. */
#include "heap/debug_hooks.h"
#include "heap/invalid.h"
#include "heap/life.h"

/* ---- validity ----
 *
 * Contradicting options are refused, not interpreted: a caller's memory with a reserve, a reserve beyond the budget, memory to
 * be locked for a heap that has none of its own. */

enum {
  FLAGS_KNOWN = POOL_HEAP_SINGLE_THREAD | POOL_HEAP_PREFAULT | POOL_HEAP_LOCK_MEMORY | POOL_HEAP_ZERO_ON_FREE |
                POOL_HEAP_CHECKED | POOL_HEAP_DENSE | POOL_HEAP_SITES | POOL_HEAP_GUARDED
};

/* Class sizes ascend strictly, because own_class_of() searches them by bisection. They keep blocks aligned. */
static bool classes_are_valid(const size_t *sizes, size_t count)
{
  if (!sizes)
    return count == 0 || invalid(INVALID_CLASSES_ARE_NULL, count);
  if (count == 0 || count > CLASS_LAST)
    return invalid(INVALID_CLASS_COUNT, count, CLASS_LAST);
  for (size_t i = 0; i < count; i++) {
    if (sizes[i] == 0 || sizes[i] % BLOCK_ALIGNMENT || sizes[i] > SIZE_MAX_CLASS)
      return invalid(INVALID_CLASS_SIZE, i, sizes[i], SIZE_MAX_CLASS);
    if (i && sizes[i] <= sizes[i - 1])
      return invalid(INVALID_CLASS_ORDER, i, sizes[i], sizes[i - 1]);
  }
  return true;
}

/* Only a region of the system's memory has a purge delay of its own. Idle memory elsewhere is the process's and follows the
 * process's option. A caller's memory is never purged. */
static bool purge_delay_is_valid(const pool_heap_options_t *o)
{
  if (o->memory)
    return !o->purge_delay_ms || o->purge_delay_ms == POOL_PURGE_NEVER ||
           invalid(INVALID_PURGE_DELAY_OF_MEMORY, o->purge_delay_ms);
  return !o->purge_delay_ms || region_is_wanted(o) || invalid(INVALID_PURGE_DELAY, o->purge_delay_ms, SMALL_REGION);
}

/* Nothing is reserved in a caller's memory, and the caller prefaults it. */
static bool memory_is_valid(const pool_heap_options_t *o)
{
  if (!o->memory)
    return !o->memory_size || invalid(INVALID_MEMORY_IS_NULL, o->memory_size);
  if (!o->memory_size)
    return invalid(INVALID_MEMORY_SIZE_IS_0);
  if (o->reserve)
    return invalid(INVALID_MEMORY_WITH_RESERVE, o->reserve);
  return !(o->flags & POOL_HEAP_PREFAULT) || invalid(INVALID_MEMORY_WITH_PREFAULT, o->flags);
}

/* Blocks with pages of their own cannot be in memory that was taken before. */
static bool reserve_is_valid(const pool_heap_options_t *o)
{
  if (o->flags & POOL_HEAP_GUARDED && (o->memory || o->reserve))
    return invalid(INVALID_GUARDED, o->flags);
  if (o->budget && o->reserve > o->budget)
    return invalid(INVALID_RESERVE_OF_BUDGET, o->reserve, o->budget);
  if (!o->reserve && !o->memory && o->flags & POOL_HEAP_PREFAULT)
    return invalid(INVALID_PREFAULT, o->flags);
  if (!o->reserve && !o->memory && o->flags & POOL_HEAP_LOCK_MEMORY)
    return invalid(INVALID_LOCK_MEMORY, o->flags);
  return o->reserve <= PTRDIFF_MAX || invalid(INVALID_RESERVE, o->reserve);
}

/* A dense heap needs granules: options that exclude them are refused. */
static bool dense_is_valid(const pool_heap_options_t *o)
{
  size_t size = o->memory ? o->memory_size : o->budget;
  bool possible = size && size <= SMALL_REGION && !o->reserve && !o->size_classes && !(o->flags & POOL_HEAP_GUARDED);
  return !(o->flags & POOL_HEAP_DENSE) || possible || invalid(INVALID_DENSE, o->flags, SMALL_REGION);
}

static const char *name_of_flag(unsigned flags)
{
  return flags & POOL_HEAP_GUARDED ? "POOL_HEAP_GUARDED" : flags & POOL_HEAP_CHECKED ? "POOL_HEAP_CHECKED" : "POOL_HEAP_SITES";
}

bool heap_options_are_valid(const pool_heap_options_t *o)
{
  unsigned unknown = o->flags & ~(unsigned)FLAGS_KNOWN;
  if (unknown)
    return invalid(INVALID_FLAGS, o->flags, unknown);
  if (!heads && o->flags & (POOL_HEAP_CHECKED | POOL_HEAP_SITES | POOL_HEAP_GUARDED))
    return invalid(INVALID_NEEDS_DEBUG, (uintptr_t)name_of_flag(o->flags));
  return memory_is_valid(o) && reserve_is_valid(o) && dense_is_valid(o) && purge_delay_is_valid(o) &&
         classes_are_valid(o->size_classes, o->size_class_count);
}

/* A guarded heap's blocks have pages of their own. */
size_t heap_least_budget(const pool_heap_options_t *o)
{
  size_t table = o->size_classes ? heap_class_table_bytes(o->size_class_count) : 0;
  return region_is_wanted(o) ? region_least(o) : region_no_plan(o).heap_record + table;
}

/* Memory that does not exist yet is assumed to begin at any address. */
static size_t least_of_memory(const pool_heap_options_t *o)
{
  static char anywhere;
  pool_heap_options_t whole = *o;
  whole.memory = o->memory ? o->memory : &anywhere;
  whole.memory_size = max_size(o->memory_size, 1);
  if (!heap_options_are_valid(&whole))
    return 0;
  size_t least = region_least(o), records = region_least_records(o, least);
  if (o->budget && o->budget < records)
    return invalid(INVALID_BUDGET, o->budget, records), 0;
  return (uintptr_t)o->memory + least >= (uintptr_t)o->memory || invalid(INVALID_MEMORY_WRAPS, least) ? least : 0;
}

/* Returns 0 if no size is enough, because other options are invalid. */
size_t heap_least_memory(const pool_heap_options_t *options)
{
  pool_heap_options_t o = *options;
  if (o.memory || o.memory_size)
    return least_of_memory(&o);
  o.budget = max_size(o.reserve, 1);
  return heap_options_are_valid(&o) ? heap_least_budget(&o) : 0;
}
