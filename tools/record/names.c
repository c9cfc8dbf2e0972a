/* SPDX-License-Identifier: MIT
 *
 * The names of malloc, each of which does what the next library's does and tells the recorder. Until the loader has found
 * those, which may allocate, a few blocks come from here, and stay. */
#include "beside.h"
#include "event.h"
#include "os/os.h"
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void *(*reallocarray)(void *, size_t, size_t);
  void (*free)(void *);
  void *(*aligned_alloc)(size_t, size_t);
  void *(*memalign)(size_t, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*valloc)(size_t);
  void *(*pvalloc)(size_t);
  size_t (*usable)(void *);
  int (*dlclose)(void *);
  pid_t (*fork_alone)(void);
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

/* Another thread can not be there yet, but for one that a constructor made. The loader has its lock while it looks: later a
 * thread may wait for one that has it, so all names are looked for at once. */
bool names_find(void)
{
  static __thread bool finds __attribute__((tls_model("initial-exec")));
  if (finds)
    return false;
  finds = true;
  next.calloc = (void *(*)(size_t, size_t))find("calloc");
  next.realloc = (void *(*)(void *, size_t))find("realloc");
  next.reallocarray = (void *(*)(void *, size_t, size_t))find("reallocarray");
  next.free = (void (*)(void *))find("free");
  next.aligned_alloc = (void *(*)(size_t, size_t))find("aligned_alloc");
  next.memalign = (void *(*)(size_t, size_t))find("memalign");
  next.posix_memalign = (int (*)(void **, size_t, size_t))find("posix_memalign");
  next.valloc = (void *(*)(size_t))find("valloc");
  next.pvalloc = (void *(*)(size_t))find("pvalloc");
  next.usable = (size_t(*)(void *))find("malloc_usable_size");
  next.dlclose = (int (*)(void *))find("dlclose");
  next.fork_alone = (pid_t(*)(void))find("_Fork");
  operators_find();
  pools_find();
  __atomic_store_n(&next.malloc, (void *(*)(size_t))find("malloc"), __ATOMIC_RELEASE);
  recorder_begin();
  finds = false;
  return next.malloc != NULL;
}

static inline bool is_ready(void) { return likely(__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) != NULL) || names_find(); }

/* ---- the names ---- */

/* No function here calls another by its exported name, which may be the program's own. */
#define INLINE static inline __attribute__((always_inline))

INLINE void *note(recording_op_t op, void *block, size_t size, size_t alignment, const void *caller)
{
  RECORD(record_block(0, op, block, size, alignment, caller));
  self.failures += !block;
  self.allocated = block;
  if (block && block == self.freed)
    self.freed = NULL;
  return block;
}

INLINE void *allocate(size_t size, const void *caller)
{
  return is_ready() ? note(RECORDING_ALLOC, next.malloc(size), size, 1, caller) : take_early(size);
}

INLINE void *allocate_zeroed(size_t count, size_t size, const void *caller)
{
  size_t bytes;
  bool overflows = __builtin_mul_overflow(count, size, &bytes);
  if (!is_ready())
    return overflows ? NULL : take_early(bytes); /* its memory is used once, and reads as zero */
  return note(RECORDING_ZEROED, next.calloc(count, size), overflows ? SIZE_MAX : bytes, 1, caller);
}

/* What an operator delete has recorded already comes by here once more. */
INLINE void release(void *block)
{
  if (!block || is_early(block) || !is_ready())
    return;
  if (block != self.freed)
    RECORD_FREE(record_free(block));
  if (block == self.allocated)
    self.allocated = NULL;
  next.free(block);
}

static void *move_early(void *block, size_t size, const void *caller)
{
  void *to = allocate(size, caller);
  if (to)
    memcpy(to, block, *early_size(block) < size ? *early_size(block) : size);
  return to;
}

INLINE void *note_moved(uint64_t began, void *block, void *to, size_t size, const void *caller)
{
  if (!block || !to)
    return note(RECORDING_ALLOC, to, size, 1, caller);
  RECORD(record_realloc(0, began, block, to, size, caller));
  self.allocated = to;
  return to;
}

/* Another thread may get the block as soon as it is free, so that is recorded before. Some libraries allocate another then, and
 * some free by free(). */
INLINE void *reallocate_to_nothing(void *block, const void *caller)
{
  const void *outer = self.freed;
  RECORD_FREE(record_free(block));
  self.freed = block;
  void *to = next.realloc(block, 0);
  self.freed = outer;
  self.allocated = NULL;
  return to ? note(RECORDING_ALLOC, to, 0, 1, caller) : NULL;
}

INLINE void *reallocate(void *block, size_t size, const void *caller)
{
  if (is_early(block))
    return move_early(block, size, caller);
  if (!is_ready())
    return take_early(size);
  if (block && !size)
    return reallocate_to_nothing(block, caller);
  uint64_t began = *recorder_is_on ? clock_now() : 0;
  void *to = next.realloc(block, size);
  return note_moved(began, block, to, size, caller);
}

/* memalign() takes the next power of two. */
static size_t power_of(size_t alignment)
{
  size_t power = 1;
  while (power < alignment && power <= SIZE_MAX / 2)
    power *= 2;
  return power;
}

INLINE void *note_aligned(void *block, size_t size, size_t alignment, const void *caller)
{
  return block || errno != EINVAL ? note(RECORDING_ALIGNED, block, size, power_of(alignment), caller) : NULL;
}

#define ALIGNED(call, size, alignment) (is_ready() ? note_aligned(next.call, size, alignment, CALLER) : NULL)

EXPORT void *malloc(size_t size) { return allocate(size, CALLER); }
EXPORT void *calloc(size_t count, size_t size) { return allocate_zeroed(count, size, CALLER); }
EXPORT void *realloc(void *block, size_t size) { return reallocate(block, size, CALLER); }
EXPORT void free(void *block) { release(block); }
EXPORT void *aligned_alloc(size_t alignment, size_t size) { return ALIGNED(aligned_alloc(alignment, size), size, alignment); }
EXPORT void *memalign(size_t alignment, size_t size) { return ALIGNED(memalign(alignment, size), size, alignment); }
EXPORT void *valloc(size_t size) { return ALIGNED(valloc(size), size, os_page_size()); }
EXPORT void *pvalloc(size_t size) { return ALIGNED(pvalloc(size), size, os_page_size()); }

/* The next one may call realloc() by its name, which is the program's own, or ours: then it was recorded there. */
EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  if (!is_ready() || is_early(block) || !next.reallocarray || !bytes)
    return reallocate(block, bytes, CALLER);
  uint64_t began = *recorder_is_on ? clock_now() : 0;
  self.allocated = &self; /* no block */
  void *to = next.reallocarray(block, count, size);
  if (self.allocated != &self)
    return to;
  return note_moved(began, block, to, bytes, CALLER);
}

EXPORT int posix_memalign(void **to, size_t alignment, size_t size)
{
  if (!is_ready())
    return ENOMEM;
  int error = next.posix_memalign(to, alignment, size);
  if (error != EINVAL)
    note(RECORDING_ALIGNED, error ? NULL : *to, size, power_of(alignment), CALLER);
  return error;
}

/* What the library has as well, for programs that call the C library's own. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
EXPORT void *__libc_malloc(size_t size) { return allocate(size, CALLER); }
EXPORT void *__libc_calloc(size_t count, size_t size) { return allocate_zeroed(count, size, CALLER); }
EXPORT void *__libc_realloc(void *block, size_t size) { return reallocate(block, size, CALLER); }
EXPORT void __libc_free(void *block) { release(block); }
EXPORT void *__libc_memalign(size_t alignment, size_t size) { return ALIGNED(memalign(alignment, size), size, alignment); }
EXPORT void *__libc_valloc(size_t size) { return ALIGNED(valloc(size), size, os_page_size()); }
EXPORT void *__libc_pvalloc(size_t size) { return ALIGNED(pvalloc(size), size, os_page_size()); }

int next_dlclose(void *handle) { return next.dlclose ? next.dlclose(handle) : -1; }

/* Another library may be loaded in place of this one, with other functions at the same addresses. */
EXPORT int dlclose(void *handle)
{
  if (!is_ready() || !next.dlclose)
    return -1;
  bool looks = *recorder_is_on || __atomic_load_n(&beside_is_used, __ATOMIC_ACQUIRE);
  uint64_t unloaded = looks ? sites_unloaded() : 0;
  int error = next.dlclose(handle);
  if (looks && sites_unloaded() != unloaded) {
    sites_forget_modules();
    beside_forget();
  }
  return error;
}

/* It calls no handler of pthread_atfork(), and fork() does not come by here. */
pid_t _Fork(void);
EXPORT pid_t _Fork(void)
{
  if (!is_ready() || !next.fork_alone) {
    errno = ENOSYS;
    return -1;
  }
  pid_t child = next.fork_alone();
  if (child == 0)
    recorder_go_on_in_child();
  return child;
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
  release(block);
}
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
  (void)alignment, (void)size;
  release(block);
}
