/* SPDX-License-Identifier: MIT */
#include "heap/least.h"
#include "heap/invalid.h"
#include "heap/valid.h"

/* A small budget is cut into units whose records are paid from it, so a larger one needs more for them. Returns the least that
 * has room for its own records. */
size_t heap_least_budget(const pool_heap_options_t *o, size_t table)
{
  pool_heap_options_t larger = *o;
  if (!region_is_wanted(o))
    return region_no_plan(o).heap_record + table;
  if (region_plan(o).granules)
    return region_least(o);
  for (;;) {
    region_plan_t plan = region_plan(&larger);
    size_t records = region_plan_bytes(&plan, false) + table, unit = plan.units ? 0 : (size_t)1 << plan.unit_log2;
    if (!region_is_wanted(&larger) || max_size(records, unit) <= larger.budget)
      return larger.budget;
    larger.budget = max_size(records, unit);
  }
}

/* Memory that is not there yet is taken to be anywhere. */
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

/* 0: no size will do, because the other options are invalid. */
size_t heap_least_memory(const pool_heap_options_t *options)
{
  pool_heap_options_t o = *options;
  if (o.memory || o.memory_size)
    return least_of_memory(&o);
  o.budget = max_size(o.reserve, 1);
  if (!heap_options_are_valid(&o))
    return 0;
  size_t table = o.size_classes ? heap_class_table_bytes(o.size_class_count) : 0;
  if (!region_is_wanted(&o)) /* a guarded heap's blocks have pages of their own */
    return heap_least_budget(&o, table);
  o.budget = heap_least_budget(&o, table) + table;
  while (o.budget < PTRDIFF_MAX && !region_plan(&o).units)
    o.budget += KIB;
  return o.budget;
}
