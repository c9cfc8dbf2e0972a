/* SPDX-License-Identifier: MIT */
#include "levels.h"
#include "option.h"
#include "os_fake.h"
#include "space/class_map.h"
#include "space/space.h"
#include "unit.h"
#include <tidepool/pool.h>

void window_up(void)
{
  os_fake_heal();
  must(window_init());
}

void space_up(void)
{
  os_fake_heal();
  must(space_init());
  space_of_process.purge_delay_ms = PURGE_NEVER;
  space_of_process.huge_pages = HUGE_PAGES_NEVER;
}

void manager_up(void)
{
  os_fake_heal();
  pool_free(pool_alloc(1));
}
