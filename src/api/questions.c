/* SPDX-License-Identifier: MIT
 * Answers to questions about any block of any heap. Firmware, which has no default heap, has these functions too. */
#include "api/fast_path.h"
#include "heap/blocks.h"
#include "heap/invalid.h"
#include "heap/locate.h"
#include <tidepool/pool.h>
#include <tidepool/version.h>

const char *pool_version(void) { return TIDEPOOL_VERSION; }

/* NULL is no misuse, but cannot be resized. */
bool pool_resize_in_place(void *block, size_t size)
{
  return block && heap_resize_in_place(block, size, "pool_resize_in_place");
}

size_t pool_usable_size(const void *block)
{
  if (HAS_SYSTEM)
    return default_usable_size(block, "pool_usable_size");
  return block ? heap_usable_size(block, "pool_usable_size") : 0;
}

bool pool_in_use(const void *address) { return heap_locate(address).live; }

void *pool_block_start(const void *address, size_t *size)
{
  located_t at = heap_locate(address);
  if (!at.live)
    return NULL;
  if (size)
    *size = at.size;
  return at.start;
}

pool_heap_t *pool_heap_of(const void *address) { return heap_locate(address).heap; }

const char *pool_error(void) { return invalid_text(); }
