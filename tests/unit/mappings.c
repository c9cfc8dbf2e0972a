/* SPDX-License-Identifier: MIT */
#include "mappings.h"
#include "option.h"
#include "os_fake.h"

int owner, other_owner;
huge_t *owned, *others; /* their lists */

size_t bytes_of(const void *of)
{
  size_t bytes = 0;
  const char *from = NULL;
  for (huge_t *huge; (huge = huge_next(of, from)) != NULL; from = huge_start(huge) + huge_size(huge)) {
    must(huge->owner == of && huge_start(huge) >= from && huge_size(huge) && huge_size(huge) % PAGE == 0);
    bytes += huge_size(huge);
  }
  size_t listed = of ? 0 : bytes;
  for (huge_t *huge = of == &owner ? owned : of ? others : NULL; huge; huge = huge->older) {
    must(huge->owner == of && (huge->newer ? huge->newer->older : *huge->list) == huge);
    listed += huge_size(huge);
  }
  must(listed == bytes);
  return bytes;
}

size_t ranges_left(void)
{
  size_t count = 0;
  for (huge_t *huge = huge_next(NULL, NULL); huge; huge = huge_next(NULL, huge_start(huge) + huge_size(huge)))
    count++;
  return count;
}

size_t others_bytes;

void note_others(void) { others_bytes = os_fake.mapped_bytes - bytes_of(&owner) - bytes_of(NULL); }

bool all_is_known(void) { return os_fake.mapped_bytes == others_bytes + bytes_of(&owner) + bytes_of(NULL); }

void have_records(void)
{
  huge_t *blocks[BLOCKS * 4];
  bool zeroed;
  for (size_t i = 0; i < BLOCKS * 4; i++)
    must((blocks[i] = huge_take(PAGE, 1, &owner, &owned, &zeroed)) != NULL);
  for (size_t i = 0; i < BLOCKS * 4; i++)
    huge_give(blocks[i]);
  must(huge_left_bytes() == 0 && ranges_left() == 0);
  note_others();
}

huge_t *take(size_t size)
{
  bool zeroed;
  huge_t *huge = huge_take(size, 1, &owner, &owned, &zeroed);
  must(huge && huge_size(huge) == huge_bytes(size));
  must(!zeroed || all_zero(huge_start(huge), huge_size(huge)));
  return huge;
}

void have_left(size_t bytes)
{
  huge_t *huge = take(bytes);
  memset(huge_start(huge), 7, bytes);
  os_forbid(true);
  huge_give(huge);
  os_forbid(false);
  must(huge_left_bytes() == bytes && ranges_left() == 1);
}

uint64_t calls_for_memory(void)
{
  return os_fake.count[OS_MAP] + os_fake.count[OS_UNMAP] + os_fake.count[OS_REMAP] + os_fake.count[OS_PURGE];
}
