/* SPDX-License-Identifier: MIT
 *
 * The names of malloc, each of which does what the next library's does and tells the recorder. Until the loader has found
 * those, which may allocate, a few blocks come from here, and stay. */
#include "event.h"
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
  void *(*aligned_alloc)(size_t, size_t);
  void *(*memalign)(size_t, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*valloc)(size_t);
  void *(*pvalloc)(size_t);
  size_t (*usable)(void *);
} next;

/* ---- blocks of the beginning ---- */

enum { EARLY_BYTES = 64 << 10, EARLY_HEAD = 16 };

static char early[EARLY_BYTES] __attribute__((aligned(16)));
static size_t early_used;

static bool is_early(const void *block) { return (uintptr_t)block - (uintptr_t)early < EARLY_BYTES; }
static size_t *early_size(void *block) { return (size_t *)(void *)((char *)block - EARLY_HEAD); }

static void *take_early(size_t size)
{
  size_t bytes = EARLY_HEAD + (size + 15) / 16 * 16;
  size_t at = size < EARLY_BYTES ? __atomic_fetch_add(&early_used, bytes, __ATOMIC_RELAXED) : EARLY_BYTES;
  if (at + bytes > EARLY_BYTES) {
    errno = ENOMEM;
    return NULL;
  }
  void *block = early + at + EARLY_HEAD;
  *early_size(block) = size;
  return block;
}

static void *find(const char *name) { return dlsym(RTLD_NEXT, name); }

/* False: it is just being done. Another thread can not be there yet, but for one that a constructor made. */
static bool find_next(void)
{
  static __thread bool finds __attribute__((tls_model("initial-exec")));
  if (finds)
    return false;
  finds = true;
  next.calloc = (void *(*)(size_t, size_t))find("calloc");
  next.realloc = (void *(*)(void *, size_t))find("realloc");
  next.free = (void (*)(void *))find("free");
  next.aligned_alloc = (void *(*)(size_t, size_t))find("aligned_alloc");
  next.memalign = (void *(*)(size_t, size_t))find("memalign");
  next.posix_memalign = (int (*)(void **, size_t, size_t))find("posix_memalign");
  next.valloc = (void *(*)(size_t))find("valloc");
  next.pvalloc = (void *(*)(size_t))find("pvalloc");
  next.usable = (size_t(*)(void *))find("malloc_usable_size");
  __atomic_store_n(&next.malloc, (void *(*)(size_t))find("malloc"), __ATOMIC_RELEASE);
  recorder_begin();
  finds = false;
  return next.malloc != NULL;
}

static inline bool is_ready(void) { return likely(__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) != NULL) || find_next(); }

/* ---- the names ---- */

EXPORT void *malloc(size_t size)
{
  if (!is_ready())
    return take_early(size);
  EVENT;
  void *block = next.malloc(size);
  if (event.is_recorded)
    KEEP_ERRNO(record_block(RECORDING_ALLOC, block, size, 1, CALLER));
  return block;
}

EXPORT void *calloc(size_t count, size_t size)
{
  size_t bytes;
  bool overflows = __builtin_mul_overflow(count, size, &bytes);
  if (!is_ready())
    return overflows ? NULL : take_early(bytes); /* its memory is used once, and reads as zero */
  EVENT;
  void *block = next.calloc(count, size);
  if (event.is_recorded)
    KEEP_ERRNO(record_block(RECORDING_ZEROED, block, overflows ? SIZE_MAX : bytes, 1, CALLER));
  return block;
}

EXPORT void free(void *block)
{
  if (is_early(block) || !is_ready())
    return;
  EVENT;
  if (event.is_recorded && block)
    KEEP_ERRNO(record_free(block));
  next.free(block);
}

static void *move_early(void *block, size_t size)
{
  void *to = malloc(size);
  if (to)
    memcpy(to, block, *early_size(block) < size ? *early_size(block) : size);
  return to;
}

static void *reallocate(void *block, size_t size, const void *caller)
{
  if (is_early(block))
    return move_early(block, size);
  if (!is_ready())
    return take_early(size);
  EVENT;
  uint64_t began = event.is_recorded ? recorder_now() : 0;
  void *to = next.realloc(block, size);
  if (!event.is_recorded)
    return to;
  int kept = errno;
  if (block && to)
    record_realloc(began, block, to, size, caller);
  else if (block && !size)
    record_free(block);
  else
    record_block(RECORDING_ALLOC, to, size, 1, caller);
  errno = kept;
  return to;
}

EXPORT void *realloc(void *block, size_t size) { return reallocate(block, size, CALLER); }

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return reallocate(block, bytes, CALLER);
}

static bool is_power_of_two(size_t n) { return n && !(n & (n - 1)); }

#define ALIGNED(name, parameters, call, size, alignment) \
  EXPORT void *name parameters \
  { \
    if (!is_ready()) \
      return NULL; \
    EVENT; \
    void *block = next.call; \
    if (event.is_recorded && is_power_of_two(alignment)) \
      KEEP_ERRNO(record_block(RECORDING_ALIGNED, block, size, alignment, CALLER)); \
    return block; \
  }
ALIGNED(aligned_alloc, (size_t alignment, size_t size), aligned_alloc(alignment, size), size, alignment)
ALIGNED(memalign, (size_t alignment, size_t size), memalign(alignment, size), size, alignment)
ALIGNED(valloc, (size_t size), valloc(size), size, 4096)
ALIGNED(pvalloc, (size_t size), pvalloc(size), size, 4096)

EXPORT int posix_memalign(void **to, size_t alignment, size_t size)
{
  if (!is_ready())
    return ENOMEM;
  EVENT;
  int error = next.posix_memalign(to, alignment, size);
  if (event.is_recorded && error != EINVAL)
    KEEP_ERRNO(record_block(RECORDING_ALIGNED, error ? NULL : *to, size, alignment, CALLER));
  return error;
}

EXPORT size_t malloc_usable_size(void *block)
{
  if (is_early(block))
    return *early_size(block);
  return is_ready() && block ? next.usable(block) : 0;
}

/* C23 */
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
EXPORT void free_sized(void *block, size_t size)
{
  (void)size;
  free(block);
}
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
  (void)alignment, (void)size;
  free(block);
}
