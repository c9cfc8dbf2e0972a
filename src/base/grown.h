/* SPDX-License-Identifier: MIT
 *
 * A struct of the public interface grows at its end, and its size as the caller was compiled with says how far the caller knows
 * it. */
#ifndef GROWN_H
#define GROWN_H

#include "base/bits.h"
#include <string.h>

/* Copies options of `size` bytes. Fields that the caller does not know are 0, which means the default. False: the caller sets a
 * field that is not known here, and would count on it. */
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

/* Copies an answer into `size` bytes. */
static inline void grown_give(void *to, size_t size, const void *own, size_t own_size)
{
  memset(to, 0, size);
  memcpy(to, own, min_size(size, own_size));
}

#endif
