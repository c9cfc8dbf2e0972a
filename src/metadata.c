/* SPDX-License-Identifier: MIT */
#include "metadata.h"
#include "os/os.h"

enum { CHUNK = 1 << 20, CHUNK_SHORT = 64 << 10 };   /* address space; only what is used is ever touched */

lock_t metadata_lock;
static char *next, *end;
static size_t taken;

static bool refill(size_t size)
{
  static const size_t sizes[] = {CHUNK, CHUNK_SHORT};
  for (size_t i = 0; i < 2; i++) {
    size_t bytes = round_up(max_size(sizes[i], size), os_page_size());
    char *chunk = os_reserve(bytes, os_page_size());
    if (chunk && os_commit(chunk, bytes)) {
      next = chunk;
      end = chunk + bytes;
      return true;
    }
    if (chunk)
      os_release(chunk, bytes);
  }
  return false;
}

void *metadata_take(size_t size, size_t alignment)
{
  lock_acquire(&metadata_lock);
  char *p = (char *)round_up((uintptr_t)next, alignment);
  if (!next || p > end || size > (size_t)(end - p))
    p = refill(size) ? (char *)round_up((uintptr_t)next, alignment) : NULL;
  if (p) {
    __atomic_store_n(&taken, taken + size, __ATOMIC_RELAXED);
    next = p + size;
  }
  lock_release(&metadata_lock);
  return p;
}

size_t metadata_bytes(void) { return __atomic_load_n(&taken, __ATOMIC_RELAXED); }
