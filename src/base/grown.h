/* SPDX-License-Identifier: MIT
 * Structs of the public interface grow at their end. Callers pass the size that they were compiled with. */
#ifndef GROWN_H
#define GROWN_H

#include "base/bits.h"
#include <string.h>

/* Copies options of `size` bytes. Fields that the caller does not know become 0, their default. Returns false if the caller
 * sets a field that this library does not know, because it would rely on it. */
static inline bool grown_take(void *own, size_t own_size, const void *given, size_t size)
{
  const char *bytes = given;
  for (size_t i = own_size; i < size; i++)
    if (bytes[i])
      return false;
  memset(own, 0, own_size);
  memcpy(own, given, min_size(size, own_size));
  return true;
}

static inline void grown_give(void *to, size_t size, const void *own, size_t own_size)
{
  memset(to, 0, size);
  memcpy(to, own, min_size(size, own_size));
}

#endif
