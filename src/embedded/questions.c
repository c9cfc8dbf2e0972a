/* SPDX-License-Identifier: MIT
 * Answers to questions about any block of any heap. */
#include "embedded/front.h"
#include "heap/invalid.h"
#include "misuse.h"
#include <tidepool/pool.h>
#include <tidepool/version.h>

const char *pool_version(void) { return TIDEPOOL_VERSION; }

bool pool_resize_in_place(void *block, size_t size)
{
  if (!block)
    return false;
  found_t at = find_block(NULL, block, "pool_resize_in_place", FREED_BEFORE);
  return !heap_is_headed(at.heap) && resize_found(&at, size);
}

size_t pool_usable_size(const void *block)
{
  return block ? find_block(NULL, block, "pool_usable_size", FREED_BEFORE).size : 0;
}

/* Only the requested bytes of a block with a head are the caller's. */
static found_t live_around(const void *address)
{
  found_t at = find_around(address);
  if (!block_is_live(&at) || (size_t)((const char *)address - at.block) >= max_size(at.size, 1))
    at.block = NULL;
  return at;
}

bool pool_in_use(const void *address) { return live_around(address).block; }

void *pool_block_start(const void *address, size_t *size)
{
  found_t at = live_around(address);
  if (size && at.block)
    *size = at.size;
  return at.block;
}

pool_heap_t *pool_heap_of(const void *address) { return find_around(address).heap; }

const char *pool_error(void) { return invalid_text(); }
