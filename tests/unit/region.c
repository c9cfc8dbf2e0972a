/* SPDX-License-Identifier: MIT */
#include "region.h"
#include "heap/life.h"
#include "os_fake.h"
#include "unit.h"

region_t *region_new(size_t bytes)
{
  static _Alignas(64) char memory[REGION_BYTES];
  static region_t region;
  os_fake_heal();
  must(manager_ready());
  memset(memory, 0x5a, bytes); /* nothing may count on zeroes */
  must(bytes <= sizeof memory);
  must(space_init_guest(&region.space, &region.arena, memory, bytes));
  return &region;
}
