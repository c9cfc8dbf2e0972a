/* SPDX-License-Identifier: MIT
 * The C library's allocation family. No function here calls an exported name: a program may define its own. */
#include "api/fast_path.h"
#include "misuse.h"
#include "os/os.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <tidepool/heap.h>
#include <tidepool/stats.h>

#define EXPORT __attribute__((visibility("default")))
#if __has_attribute(copy) /* gcc's: without it gcc warns that the alias lacks the function's attributes */
#define EXPORT_ALIAS(name) __attribute__((visibility("default"), alias(#name), copy(name)))
#else
#define EXPORT_ALIAS(name) __attribute__((visibility("default"), alias(#name)))
#endif

/* Named in the message if a misuse is found late. These replace the weak ones in misuse.c. */
const char fatal_free_call[FATAL_CALL_SIZE] = "free", fatal_alloc_call[FATAL_CALL_SIZE] = "malloc",
           fatal_calloc_call[FATAL_CALL_SIZE] = "calloc";

static void *fail(int error)
{
  errno = error;
  return NULL;
}

EXPORT void *malloc(size_t size) { return default_alloc(size); }
EXPORT void free(void *block) { default_free(block, fatal_free_call); }
EXPORT void *calloc(size_t count, size_t size) { return default_calloc(count, size); }
EXPORT void *realloc(void *block, size_t size) { return default_realloc(block, size, "realloc"); }

/* C17 requires failure for an alignment that is no power of two. */
EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
  return is_power_of_two(alignment) ? default_aligned_alloc(alignment, size, "aligned_alloc") : fail(EINVAL);
}

/* Returns the least power of two that is not below `n`; 0: there is none. glibc's memalign() rounds up in the same way. */
static size_t power_of_two_above(size_t n)
{
  size_t power = 1;
  while (power && power < n)
    power <<= 1;
  return power;
}

EXPORT void *memalign(size_t alignment, size_t size)
{
  size_t power = power_of_two_above(alignment);
  return power ? default_aligned_alloc(power, size, "memalign") : fail(EINVAL);
}

/* POSIX requires that *to is unchanged on failure. */
EXPORT int posix_memalign(void **to, size_t alignment, size_t size)
{
  if (!is_power_of_two(alignment) || alignment % sizeof(void *))
    return EINVAL;
  void *block = default_aligned_alloc_at_once(alignment, size);
  if (unlikely(!block))
    block = default_aligned_alloc_for(alignment, size, ORIGIN("posix_memalign"));
  if (!block)
    return ENOMEM;
  *to = block;
  return 0;
}

EXPORT void *valloc(size_t size) { return default_aligned_alloc(os_page_size(), size, "valloc"); }

EXPORT size_t malloc_usable_size(void *block) { return default_usable_size(block, "malloc_usable_size"); }

EXPORT void free_sized(void *block, size_t size);
void free_sized(void *block, size_t size) { default_free_aligned_sized(block, size, 1, "free_sized"); }

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size)
{
  default_free_aligned_sized(block, size, alignment + !alignment, "free_aligned_sized");
}

/* ---- glibc's additions ---- */

/* Other C libraries do not declare these, so no program calls them. */
#ifdef __GLIBC__

/* A size that wraps when rounded becomes SIZE_MAX, which no heap can serve. */
EXPORT void *pvalloc(size_t size)
{
  size_t page = os_page_size(), whole = round_up(size + !size, page);
  return default_aligned_alloc(page, whole < size ? SIZE_MAX : whole, "pvalloc");
}

EXPORT int malloc_trim(size_t keep) { return default_trim(keep) != 0; }

/* glibc's parameters are accepted and have no effect. */
EXPORT int mallopt(int parameter, int value)
{
  (void)value;
  return parameter == M_MXFAST || (parameter <= M_TRIM_THRESHOLD && parameter >= M_ARENA_MAX);
}

/* Figures in glibc's form. Fields that have no meaning here are 0. */
EXPORT struct mallinfo2 mallinfo2(void)
{
  pool_stats_t s;
  pool_heap_stats(pool_heap_default(), &s);
  return (struct mallinfo2){
    .arena = s.held_bytes,
    .uordblks = s.live_bytes,
    .fordblks = s.cached_bytes + s.idle_bytes,
    .fsmblks = s.cached_bytes,
    .keepcost = s.free_bytes,
    .usmblks = s.peak_held_bytes,
  };
}

/* The fields are int, as they have always been; large figures wrap. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EXPORT struct mallinfo mallinfo(void)
{
  struct mallinfo2 m = mallinfo2();
  return (struct mallinfo){
    .arena = (int)m.arena,
    .uordblks = (int)m.uordblks,
    .fordblks = (int)m.fordblks,
    .fsmblks = (int)m.fsmblks,
    .keepcost = (int)m.keepcost,
    .usmblks = (int)m.usmblks,
  };
}
#pragma GCC diagnostic pop

static size_t write_default_heap(char *buffer, size_t size) { return pool_heap_stats_json(pool_heap_default(), buffer, size); }

EXPORT void malloc_stats(void) { figures_print(write_default_heap, os_write_error); }

/* glibc's names for its own functions: programs that call them must get the same heap. musl's are the allocator of atexit() and
 * others, which must not use a program's malloc() under their own locks. */
EXPORT_ALIAS(malloc) void *__libc_malloc(size_t size);
EXPORT_ALIAS(free) void __libc_free(void *block);
EXPORT_ALIAS(calloc) void *__libc_calloc(size_t count, size_t size);
EXPORT_ALIAS(realloc) void *__libc_realloc(void *block, size_t size);
EXPORT_ALIAS(memalign) void *__libc_memalign(size_t alignment, size_t size);
EXPORT_ALIAS(valloc) void *__libc_valloc(size_t size);
EXPORT_ALIAS(pvalloc) void *__libc_pvalloc(size_t size);

#endif
