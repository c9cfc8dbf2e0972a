/* SPDX-License-Identifier: MIT
 * The process-wide interface of pool.h, and that of profile.h, which only the debug library can serve. */
#include "api/fast_path.h"
#include "heap/blocks.h"
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include "heap/invalid.h"
#include "heap/life.h"
#include "heap/locate.h"
#include "heap/tick.h"
#include "misuse.h"
#include "option.h"
#include <errno.h>
#include <tidepool/pool.h>
#include <tidepool/profile.h>
#include <tidepool/version.h>

void *pool_alloc(size_t size) { return default_alloc(size); }
void *pool_zalloc(size_t size) { return default_zalloc(size); }

void *pool_calloc(size_t count, size_t size) { return default_calloc(count, size); }
void *pool_realloc(void *block, size_t size) { return default_realloc(block, size, "pool_realloc"); }

/* An alignment that is no power of two is a wrong argument, not a lack of memory. */
void *pool_aligned_alloc(size_t alignment, size_t size)
{
  if (likely(is_power_of_two(alignment)))
    return default_aligned_alloc(alignment, size, "pool_aligned_alloc");
  return invalid(INVALID_ALIGNMENT, alignment);
}

void pool_free(void *block) { default_free(block, fatal_free_call); }

/* A block that realloc() left in place has another class than its size. The size is verified if the requested one is known. */
void pool_free_sized(void *block, size_t size) { default_free_aligned_sized(block, size, 1, "pool_free_sized"); }

/* Blocks are returned even if there are fewer than requested. The failing call has set errno. A heap without magazines has no
 * fast path, and messages name the call. */
size_t pool_alloc_batch(size_t size, void **blocks, size_t count)
{
  size_t got = 0;
  bool cached = default_heap.flags & HEAP_CACHED;
  while (got < count &&
         (blocks[got] =
            likely(cached) ? default_alloc(size) : heap_allocate(&default_heap, size, 1, false, ORIGIN("pool_alloc_batch"))))
    got++;
  return got;
}

void pool_free_batch(void **blocks, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (likely(class_map_of(blocks[i])))
      default_free(blocks[i], "pool_free_batch");
    else
      default_free_for(blocks[i], ORIGIN("pool_free_batch"));
}

size_t pool_good_size(size_t size) { return heap_good_size(&default_heap, size); }
size_t pool_trim(size_t keep) { return heap_trim(&default_heap, keep); }

static bool done_or(int error)
{
  if (error)
    errno = error;
  return !error;
}

/* The options are read first: they set how long memory is kept. */
bool pool_background_start(void) { return done_or(manager_ready() ? background_start() : ENOMEM); }
void pool_background_stop(void) { background_stop(); }

static void refuse_option(const char *key, const char *value)
{
  const char *values, *known = key ? option_known(key, &values) : NULL, *nearest = key && !known ? option_nearest(key) : NULL;
  if (!key)
    invalid(INVALID_KEY_IS_NULL, (uintptr_t) "pool_option_set");
  else if (!value)
    invalid(INVALID_VALUE_IS_NULL, (uintptr_t) "pool_option_set");
  else if (nearest)
    invalid(INVALID_KEY, (uintptr_t)nearest);
  else if (!known)
    invalid(INVALID_KEY_IS_UNKNOWN);
  else if (option_are_settled())
    invalid(INVALID_TOO_LATE, (uintptr_t)known);
  else
    invalid(INVALID_VALUE, (uintptr_t)known, (uintptr_t)values);
}

bool pool_option_set(const char *key, const char *value)
{
  if (key && value && !observer && option_needs_debug(key, value))
    return invalid(INVALID_NEEDS_DEBUG, (uintptr_t)option_known(key, &(const char *){NULL}));
  bool set = option_set(key, value);
  if (!set)
    refuse_option(key, value);
  else if (observer)
    observer->note_options();
  return set;
}

/* ---- questions about any block of any heap ---- */

const char *pool_version(void) { return TIDEPOOL_VERSION; }

/* NULL is no misuse, but cannot be resized. */
bool pool_resize_in_place(void *block, size_t size)
{
  return block && heap_resize_in_place(block, size, "pool_resize_in_place");
}

size_t pool_usable_size(const void *block) { return default_usable_size(block, "pool_usable_size"); }

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

/* ---- profiles ---- */

static bool no_debug_library(const char *call) { return invalid(INVALID_NEEDS_DEBUG, (uintptr_t)call); }

bool pool_profile_start(uint64_t sample_bytes)
{
  uint64_t most = (uint64_t)1 << SAMPLE_BYTES_LOG2_MOST;
  if (!observer)
    return no_debug_library("pool_profile_start()");
  if (sample_bytes > most)
    return invalid(INVALID_SAMPLE_BYTES, (uintptr_t)(sample_bytes < UINTPTR_MAX ? sample_bytes : UINTPTR_MAX), (uintptr_t)most);
  return done_or(manager_ready() ? observer->profile_start(sample_bytes) : ENOMEM);
}

void pool_profile_stop(void)
{
  if (observer)
    observer->profile_stop();
}

bool pool_profile_write(pool_heap_t *heap, int fd)
{
  if (heap && !heap_is_live(heap))
    fatal_misuse("pool_profile_write", heap, NOT_A_HEAP_TEXT);
  return observer ? done_or(observer->profile_write(heap, fd)) : no_debug_library("pool_profile_write()");
}
