/* SPDX-License-Identifier: MIT */
#ifndef TOUCH_H
#define TOUCH_H

#include <stddef.h>
#include <stdint.h>

/* As a program writes to what it asked for: the first byte of each page of [from, to) of the block. */
static inline void touch(char *block, uint64_t from, uint64_t to, size_t page)
{
  uint64_t offset = from ? from + (page - ((uintptr_t)block + from) % page) % page : 0;
  for (; offset < to; offset += page - ((uintptr_t)block + offset) % page)
    *(volatile char *)(block + offset) = 1;
}

#endif
