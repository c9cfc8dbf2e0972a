/* SPDX-License-Identifier: MIT */
#include "records.h"
#include "os_fake.h"
#include "space/class_map.h"

void bring_up(void)
{
  os_fake_heal();
  must(window_init());
}
