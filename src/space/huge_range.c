/* SPDX-License-Identifier: MIT
 * Records come from the metadata and are reused only for ranges, so there are at most as many as there were ranges at once. */
#include "space/huge_range.h"
#include "space/metadata.h"

lock_t huge_lock;
range_t *huge_ranges;
static huge_t *unused, *unused_standalone;

static huge_t *record_take(huge_t **list, size_t size)
{
  huge_t *huge = *list;
  if (!huge)
    return metadata_take(size, METADATA_ALIGNMENT);
  *list = huge->older;
  return huge;
}

/* Records of ended ranges wait on a list, so that huge_give() never needs memory. */
huge_t *huge_record_take(void)
{
  huge_t *huge = record_take(&unused, sizeof *huge);
  if (huge)
    huge->is_standalone = false;
  return huge;
}

huge_standalone_t *huge_standalone_record_take(void)
{
  huge_standalone_t *of = standalone_of(record_take(&unused_standalone, sizeof *of));
  if (of)
    *of = (huge_standalone_t){.huge.is_standalone = true};
  return of;
}

void huge_record_give(huge_t *huge)
{
  huge_t **list = huge->is_standalone ? &unused_standalone : &unused;
  huge->older = *list;
  *list = huge;
}

/* The rest is as clean as the whole. The caller enters it into a tree. */
huge_t *huge_cut(huge_t *huge, size_t size)
{
  huge_t *rest = huge_record_take();
  if (!rest)
    return NULL;
  *rest = (huge_t){.range = {.start = huge->range.start + size, .size = huge->range.size - size}, .clean = huge->clean};
  huge->range.size = size;
  return rest;
}
