/* SPDX-License-Identifier: MIT
 * One thread's magazines before a bin of its own. */
#ifndef ONE_BIN_H
#define ONE_BIN_H

#include "bin/bin.h"
#include "os_fake.h"
#include "region.h"
#include "space/metadata.h"
#include "thread/magazines.h"
#include "unit.h"

enum { LIVE = 3000 };

static bin_t bin;
static budget_t budget;
static cache_t cache;
static magazines_t magazines;

static void all_new(unsigned c)
{
  region_t *region = region_new(REGION_BYTES);
  os_fake_heal();
  budget = (budget_t){0};
  due_leave(&bin); /* the one before */
  bin_init(&bin, &(bin_make_t){.size_class = c,
                               .block_size = size_class_size(c),
                               .space = &region->space,
                               .budget = &budget,
                               .plane = BIN_PLANE_NONE,
                               .cached = true});
  magazines_init(&magazines, &cache, 1, NULL, false);
}

static void *allocate(void)
{
  void *block = MAGAZINE_POP(&cache.of[bin.size_class]);
  return block ? block : magazines_refill(&magazines, &bin);
}

static void give(void *block)
{
  if (!MAGAZINE_PUSH(&cache.of[bin.size_class], block))
    magazines_overflow(&magazines, &bin, block);
}

/* Live, in the magazines, in the depot: together what is out; and what is in the stock is full to its last word. */
static void agrees(size_t live)
{
  unsigned c = bin.size_class;
  size_t stock = 0;
  check_bin(&bin);
  assert_int_equal(magazines_count(&magazines, c) + bin_figures(&bin, 0).cached_blocks + live, bin.outstanding);
  for (void **magazine = magazines.of[c].full; magazine; magazine = magazine_below(magazine), stock++)
    assert_non_null(magazine[MAGAZINE_WORDS - 1]);
  for (void **magazine = magazines.of[c].empties; magazine; magazine = magazine_below(magazine))
    assert_null(magazine[MAGAZINE_WORDS - 1]);
  assert_int_equal(stock, magazines.of[c].count);
}

#endif
