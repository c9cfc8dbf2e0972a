/* SPDX-License-Identifier: MIT */
#include "bins.h"
#include "os_fake.h"
#include "region.h"

bin_t bin;
budget_t budget;

void class_new(unsigned c)
{
  region_t *region = region_new(REGION_BYTES);
  os_fake_heal();
  due_leave(&bin); /* the one of the test before */
  budget = (budget_t){0};
  bin_init(&bin, &(bin_make_t){.size_class = c,
                               .block_size = size_class_size(c),
                               .space = &region->space,
                               .budget = &budget,
                               .plane = BIN_PLANE_NONE,
                               .cached = true,
                               .purges = true});
}

void **fill(void **floor, void *const *blocks, size_t count)
{
  *floor = NULL;
  for (size_t i = 0; i < count; i++)
    *++floor = blocks[i];
  return floor;
}

void take_all(void **blocks, size_t count)
{
  for (size_t got = 0, more; got < count; got += more) {
    more = bin_take(&bin, blocks + got, count - got, NULL);
    assert_int_not_equal(more, 0);
  }
}
