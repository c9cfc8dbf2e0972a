/* SPDX-License-Identifier: MIT
 *
 * The names of tidepool's own interface, of heaps and of object pools, as a program finds them that is linked with the shared
 * library: this one comes first. Each does what the library's does, and tells the recorder. What a heap or an object pool ends
 * at once is one event. */
#include "event.h"
#include "os/os.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <unistd.h>

#define NAMES(X) \
  X(pool_alloc, "alloc") \
  X(pool_zalloc, "zalloc") \
  X(pool_calloc, "calloc") \
  X(pool_realloc, "realloc") \
  X(pool_aligned_alloc, "aligned_alloc") \
  X(pool_free, "free") \
  X(pool_free_sized, "free_sized") \
  X(pool_alloc_batch, "alloc_batch") \
  X(pool_free_batch, "free_batch") \
  X(pool_resize_in_place, "resize_in_place") \
  X(pool_heap_of, "heap_of") \
  X(pool_heap_default, "heap_default") \
  X(pool_heap_name, "heap_name") \
  X(pool_heap_create_sized, "heap_create") \
  X(pool_heap_destroy, "heap_destroy") \
  X(pool_heap_reset, "heap_reset") \
  X(pool_heap_alloc, "heap_alloc") \
  X(pool_heap_zalloc, "heap_zalloc") \
  X(pool_heap_calloc, "heap_calloc") \
  X(pool_heap_realloc, "heap_realloc") \
  X(pool_heap_aligned_alloc, "heap_aligned_alloc") \
  X(pool_heap_free, "heap_free") \
  X(object_pool_create_sized, "object_pool_create") \
  X(object_pool_destroy, "object_pool_destroy") \
  X(object_pool_get, "object_pool_get") \
  X(object_pool_put, "object_pool_put") \
  X(object_pool_get_batch, "object_pool_get_batch") \
  X(object_pool_put_batch, "object_pool_put_batch") \
  X(object_pool_put_all, "object_pool_put_all")

#define NEXT_POINTER(function, name) __typeof__(function) *function##_;
static struct {
  NAMES(NEXT_POINTER)
} next;

/* ---- finding them ---- */

static const char *name_of_heap(const void *heap) { return next.pool_heap_name_((const pool_heap_t *)heap); }

static void find_in(void *library)
{
#define FIND(function, name) \
  if (!next.function##_) \
    next.function##_ = (__typeof__(next.function##_))dlsym(library, "tidepool_" name);
  NAMES(FIND)
  heap_name_of = next.pool_heap_name_ ? name_of_heap : NULL;
}

void pools_find(void) { find_in(RTLD_NEXT); }

/* A plug-in has loaded the library for itself alone, and its names lead here. */
static void find_late(const char *name)
{
  static const char *const libraries[] = {"libtidepool.so.0", "libtidepool-malloc.so.0"};
  find_in(RTLD_NEXT);
  for (size_t i = 0; !next.pool_alloc_ && i < sizeof libraries / sizeof *libraries; i++) {
    void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library)
      find_in(library);
  }
  if (next.pool_alloc_ && next.object_pool_put_all_)
    return;
  static const char words[] = "tidepool: record: no library that is loaded has tidepool_";
  if (write(STDERR_FILENO, words, sizeof words - 1) < 0 || write(STDERR_FILENO, name, strlen(name)) < 0 ||
      write(STDERR_FILENO, "\n", 1) < 0)
    abort();
  abort();
}

#define NEXT(function) (unlikely(!next.function##_) ? find_late(#function) : (void)0, next.function##_)

/* ---- events ---- */

#define INLINE static inline __attribute__((always_inline))

static const void *default_heap(void)
{
  static const void *heap;
  const void *known = __atomic_load_n(&heap, __ATOMIC_RELAXED);
  if (unlikely(!known)) {
    known = NEXT(pool_heap_default)();
    __atomic_store_n(&heap, known, __ATOMIC_RELAXED);
  }
  return known;
}

/* What was wrong about a request is no lack of memory. */
INLINE void *note(const void *heap, recording_op_t op, void *block, size_t size, size_t alignment, const void *caller)
{
  if (block || errno == ENOMEM)
    RECORD_IN(heap, record_block(heap_number(heap, RECORDING_KIND_HEAP), op, block, size, alignment, caller));
  return block;
}

/* Of which heap a block is has to be known where one heap alone is recorded. */
INLINE void note_free(const void *block)
{
  if (block)
    RECORD_IN(recorder_only ? NEXT(pool_heap_of)(block) : NULL, record_free(block));
}

INLINE uint64_t begin_move(void *block, size_t size)
{
  if (block && !size)
    note_free(block);
  return *recorder_is_on ? recorder_now() : 0;
}

INLINE void *note_move(const void *heap, uint64_t began, void *old, void *block, size_t size, const void *caller)
{
  if (!old || (!block && size))
    return note(heap, RECORDING_ALLOC, block, size, 1, caller);
  if (block)
    RECORD_IN(heap, record_realloc(heap_number(heap, RECORDING_KIND_HEAP), began, old, block, size, caller));
  return block;
}

static size_t product(size_t count, size_t size)
{
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

/* ---- the default heap ---- */

void *pool_alloc(size_t size) { return note(default_heap(), RECORDING_ALLOC, NEXT(pool_alloc)(size), size, 1, CALLER); }
void *pool_zalloc(size_t size) { return note(default_heap(), RECORDING_ZEROED, NEXT(pool_zalloc)(size), size, 1, CALLER); }

void *pool_calloc(size_t count, size_t size)
{
  return note(default_heap(), RECORDING_ZEROED, NEXT(pool_calloc)(count, size), product(count, size), 1, CALLER);
}

void *pool_aligned_alloc(size_t alignment, size_t size)
{
  return note(default_heap(), RECORDING_ALIGNED, NEXT(pool_aligned_alloc)(alignment, size), size, alignment, CALLER);
}

/* The block stays in its heap, which has to be known where one heap alone is recorded. */
void *pool_realloc(void *block, size_t size)
{
  const void *heap = block && recorder_only ? NEXT(pool_heap_of)(block) : default_heap();
  uint64_t began = begin_move(block, size);
  return note_move(heap, began, block, NEXT(pool_realloc)(block, size), size, CALLER);
}

bool pool_resize_in_place(void *block, size_t size)
{
  uint64_t began = *recorder_is_on ? recorder_now() : 0;
  bool is_done = NEXT(pool_resize_in_place)(block, size);
  if (is_done && block)
    note_move(recorder_only ? NEXT(pool_heap_of)(block) : default_heap(), began, block, block, size, CALLER);
  return is_done;
}

void pool_free(void *block)
{
  note_free(block);
  NEXT(pool_free)(block);
}

void pool_free_sized(void *block, size_t size)
{
  note_free(block);
  NEXT(pool_free_sized)(block, size);
}

size_t pool_alloc_batch(size_t size, void **blocks, size_t count)
{
  size_t got = NEXT(pool_alloc_batch)(size, blocks, count);
  for (size_t i = 0; i < got; i++)
    note(default_heap(), RECORDING_ALLOC, blocks[i], size, 1, CALLER);
  if (got < count)
    note(default_heap(), RECORDING_ALLOC, NULL, size, 1, CALLER);
  return got;
}

void pool_free_batch(void **blocks, size_t count)
{
  for (size_t i = 0; blocks && i < count; i++)
    note_free(blocks[i]);
  NEXT(pool_free_batch)(blocks, count);
}

/* ---- heaps ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

pool_heap_t *pool_heap_create_sized(const pool_heap_options_t *options, size_t size)
{
  pool_heap_t *heap = NEXT(pool_heap_create_sized)(options, size);
  if (heap) {
    pool_heap_options_t known = {.name = NULL};
    memcpy(&known, options ? options : &known, options ? least(size, sizeof known) : 0);
    heap_describe(heap, known.parent, known.budget, NEXT(pool_heap_name)(heap));
    RECORD_IN(heap, heap_number(heap, RECORDING_KIND_HEAP));
  }
  return heap;
}

void pool_heap_destroy(pool_heap_t *heap)
{
  if (heap)
    RECORD_IN(heap, record_drop(heap_number(heap, RECORDING_KIND_HEAP)));
  NEXT(pool_heap_destroy)(heap);
}

void pool_heap_reset(pool_heap_t *heap)
{
  if (heap)
    RECORD_IN(heap, record_drop(heap_number(heap, RECORDING_KIND_HEAP)));
  NEXT(pool_heap_reset)(heap);
}

void *pool_heap_alloc(pool_heap_t *heap, size_t size)
{
  return note(heap, RECORDING_ALLOC, NEXT(pool_heap_alloc)(heap, size), size, 1, CALLER);
}

void *pool_heap_zalloc(pool_heap_t *heap, size_t size)
{
  return note(heap, RECORDING_ZEROED, NEXT(pool_heap_zalloc)(heap, size), size, 1, CALLER);
}

void *pool_heap_calloc(pool_heap_t *heap, size_t count, size_t size)
{
  return note(heap, RECORDING_ZEROED, NEXT(pool_heap_calloc)(heap, count, size), product(count, size), 1, CALLER);
}

void *pool_heap_aligned_alloc(pool_heap_t *heap, size_t alignment, size_t size)
{
  return note(heap, RECORDING_ALIGNED, NEXT(pool_heap_aligned_alloc)(heap, alignment, size), size, alignment, CALLER);
}

void *pool_heap_realloc(pool_heap_t *heap, void *block, size_t size)
{
  uint64_t began = begin_move(block, size);
  return note_move(heap, began, block, NEXT(pool_heap_realloc)(heap, block, size), size, CALLER);
}

void pool_heap_free(pool_heap_t *heap, void *block)
{
  if (block)
    RECORD_IN(heap, record_free(block));
  NEXT(pool_heap_free)(heap, block);
}

/* ---- object pools ---- */

INLINE void note_object(const object_pool_t *pool, const void *object, const void *caller)
{
  RECORD_IN(pool,
            record_block(heap_number(pool, RECORDING_KIND_OBJECT_POOL), RECORDING_ALLOC, object, heap_size(pool), 1, caller));
}

object_pool_t *object_pool_create_sized(const object_pool_options_t *options, size_t size)
{
  object_pool_t *pool = NEXT(object_pool_create_sized)(options, size);
  if (pool) {
    object_pool_options_t known = {.name = NULL};
    memcpy(&known, options, least(size, sizeof known));
    heap_describe(pool, known.heap ? (const void *)known.heap : default_heap(), known.object_size, known.name);
    RECORD_IN(pool, heap_number(pool, RECORDING_KIND_OBJECT_POOL));
  }
  return pool;
}

void object_pool_destroy(object_pool_t *pool)
{
  if (pool)
    RECORD_IN(pool, record_drop(heap_number(pool, RECORDING_KIND_OBJECT_POOL)));
  NEXT(object_pool_destroy)(pool);
}

void object_pool_put_all(object_pool_t *pool)
{
  if (pool)
    RECORD_IN(pool, record_drop(heap_number(pool, RECORDING_KIND_OBJECT_POOL)));
  NEXT(object_pool_put_all)(pool);
}

void *object_pool_get(object_pool_t *pool)
{
  void *object = NEXT(object_pool_get)(pool);
  if (object || errno == ENOMEM)
    note_object(pool, object, CALLER);
  return object;
}

void object_pool_put(object_pool_t *pool, void *object)
{
  RECORD_IN(pool, record_free(object));
  NEXT(object_pool_put)(pool, object);
}

size_t object_pool_get_batch(object_pool_t *pool, void **objects, size_t count)
{
  size_t got = NEXT(object_pool_get_batch)(pool, objects, count);
  for (size_t i = 0; i < got; i++)
    note_object(pool, objects[i], CALLER);
  if (got < count && errno == ENOMEM)
    note_object(pool, NULL, CALLER);
  return got;
}

void object_pool_put_batch(object_pool_t *pool, void **objects, size_t count)
{
  for (size_t i = 0; objects && i < count; i++)
    RECORD_IN(pool, record_free(objects[i]));
  NEXT(object_pool_put_batch)(pool, objects, count);
}
