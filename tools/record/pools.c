/* SPDX-License-Identifier: MIT
 *
 * The names of tidepool's own interface, of heaps and of object pools, as a program finds them that is linked with the shared
 * library: this one comes first. Each does what the library's does, and tells the recorder. What a heap or an object pool ends
 * at once is one event. */
#include "os/os.h"
#include "pool_names.h"
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define NEXT(function) (names_of(CALLER)->function##_)

/* ---- events ---- */

INLINE const void *default_heap(const void *caller)
{
  names_t *names = names_of(caller);
  const void *known = __atomic_load_n(&names->default_heap, __ATOMIC_RELAXED);
  if (unlikely(!known)) {
    known = names->pool_heap_default_();
    __atomic_store_n(&names->default_heap, known, __ATOMIC_RELAXED);
  }
  return known;
}

/* Where a heap has another that serves in its place, the block may be of that. */
INLINE const void *server_of(const void *heap, const void *block, const void *caller)
{
  bool asks = block && *recorder_is_on && heap_overflow(heap);
  return asks ? names_of(caller)->pool_heap_of_(block) : heap;
}

/* What was wrong about a request is no lack of memory. A block that was recorded just now is one of malloc(), from which the
 * library takes them beside some tools. */
INLINE void *note(const void *heap, recording_op_t op, void *block, size_t size, size_t alignment, const void *caller)
{
  heap = server_of(heap, block, caller);
  if (block ? block != self.allocated : errno == ENOMEM)
    RECORD_IN(heap, record_block(heap_number(heap, RECORDING_KIND_HEAP), op, block, size, alignment, caller));
  return block;
}

/* Of which heap a block is has to be known where one heap alone is recorded. */
INLINE void note_free(const void *block, const void *caller)
{
  if (block && *recorder_is_on)
    RECORD_AS(recorder_only ? names_of(caller)->pool_heap_of_(block) : NULL, false, record_free(block));
}

INLINE uint64_t begin_move(void *block, size_t size, const void *caller)
{
  self.allocated = NULL;
  if (block && !size)
    note_free(block, caller);
  return *recorder_is_on ? clock_now() : 0;
}

/* The library may free by free(), which is this event once more. */
#define FREE(block, call) \
  do { \
    const void *outer = self.freed; \
    self.freed = block; \
    call; \
    self.freed = outer; \
  } while (0)

/* The block is of the heap that it is in now, which may be another than before. */
INLINE void *note_move(const void *heap, uint64_t began, void *old, void *block, size_t size, const void *caller)
{
  if (!old || (!block && size))
    return note(heap, RECORDING_ALLOC, block, size, 1, caller);
  if (!block || block == self.allocated || !*recorder_is_on)
    return block;
  heap = names_of(caller)->pool_heap_of_(block);
  RECORD_IN(heap, record_realloc(heap_number(heap, RECORDING_KIND_HEAP), began, old, block, size, caller));
  return block;
}

static size_t product(size_t count, size_t size)
{
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

/* The function, and nothing was recorded by it yet. */
#define AFRESH(function) (self.allocated = NULL, NEXT(function))

/* ---- the default heap ---- */

void *pool_alloc(size_t size) { return note(default_heap(CALLER), RECORDING_ALLOC, AFRESH(pool_alloc)(size), size, 1, CALLER); }
void *pool_zalloc(size_t size)
{
  return note(default_heap(CALLER), RECORDING_ZEROED, AFRESH(pool_zalloc)(size), size, 1, CALLER);
}

void *pool_calloc(size_t count, size_t size)
{
  return note(default_heap(CALLER), RECORDING_ZEROED, AFRESH(pool_calloc)(count, size), product(count, size), 1, CALLER);
}

void *pool_aligned_alloc(size_t alignment, size_t size)
{
  return note(default_heap(CALLER), RECORDING_ALIGNED, AFRESH(pool_aligned_alloc)(alignment, size), size, alignment, CALLER);
}

void *pool_realloc(void *block, size_t size)
{
  uint64_t began = begin_move(block, size, CALLER);
  return note_move(default_heap(CALLER), began, block, NEXT(pool_realloc)(block, size), size, CALLER);
}

bool pool_resize_in_place(void *block, size_t size)
{
  uint64_t began = *recorder_is_on ? clock_now() : 0;
  self.allocated = NULL;
  bool is_done = NEXT(pool_resize_in_place)(block, size);
  if (is_done && block)
    note_move(NULL, began, block, block, size, CALLER);
  return is_done;
}

void pool_free(void *block)
{
  note_free(block, CALLER);
  FREE(block, NEXT(pool_free)(block));
}

void pool_free_sized(void *block, size_t size)
{
  note_free(block, CALLER);
  FREE(block, NEXT(pool_free_sized)(block, size));
}

size_t pool_alloc_batch(size_t size, void **blocks, size_t count)
{
  size_t got = AFRESH(pool_alloc_batch)(size, blocks, count);
  for (size_t i = 0; i < got; i++)
    note(default_heap(CALLER), RECORDING_ALLOC, blocks[i], size, 1, CALLER);
  if (got < count)
    note(default_heap(CALLER), RECORDING_ALLOC, NULL, size, 1, CALLER);
  return got;
}

void pool_free_batch(void **blocks, size_t count)
{
  for (size_t i = 0; blocks && i < count; i++)
    note_free(blocks[i], CALLER);
  NEXT(pool_free_batch)(blocks, count);
}

/* ---- heaps ---- */

/* What is recorded alone is no more: another may be made at its address. */
static void end_only(const void *heap)
{
  static const char nothing;
  if (recorder_only && recorder_only == heap)
    recorder_only = &nothing;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

pool_heap_t *pool_heap_create_sized(const pool_heap_options_t *options, size_t size)
{
  pool_heap_t *heap = NEXT(pool_heap_create_sized)(options, size);
  if (heap) {
    pool_heap_options_t known = {.name = NULL};
    memcpy(&known, options ? options : &known, options ? least(size, sizeof known) : 0);
    heap_describe(heap, known.parent, known.overflow, known.budget, NEXT(pool_heap_name)(heap));
    RECORD_IN(heap, heap_number(heap, RECORDING_KIND_HEAP));
  }
  return heap;
}

/* The blocks of the heap end, and with them an object pool that is recorded alone. */
static void end_only_pool_of(const pool_heap_t *heap)
{
  const void *pool = recorder_only;
  if (!pool || recorder_only_kind != RECORDING_KIND_OBJECT_POOL || heap_parent(pool) != heap)
    return;
  RECORD_IN(pool, record_drop(heap_number(pool, RECORDING_KIND_OBJECT_POOL)));
  end_only(pool);
  heap_forget(pool);
}

/* The default heap refuses it. */
INLINE void note_end_of_blocks(const pool_heap_t *heap, const void *caller)
{
  if (heap && *recorder_is_on && heap != default_heap(caller)) {
    RECORD_IN(heap, record_drop(heap_number(heap, RECORDING_KIND_HEAP)));
    end_only_pool_of(heap);
  }
}

void pool_heap_destroy(pool_heap_t *heap)
{
  note_end_of_blocks(heap, CALLER);
  end_only(heap);
  if (heap && heap != default_heap(CALLER))
    heap_forget(heap);
  NEXT(pool_heap_destroy)(heap);
}

void pool_heap_reset(pool_heap_t *heap)
{
  note_end_of_blocks(heap, CALLER);
  NEXT(pool_heap_reset)(heap);
}

void *pool_heap_alloc(pool_heap_t *heap, size_t size)
{
  return note(heap, RECORDING_ALLOC, AFRESH(pool_heap_alloc)(heap, size), size, 1, CALLER);
}

void *pool_heap_zalloc(pool_heap_t *heap, size_t size)
{
  return note(heap, RECORDING_ZEROED, AFRESH(pool_heap_zalloc)(heap, size), size, 1, CALLER);
}

void *pool_heap_calloc(pool_heap_t *heap, size_t count, size_t size)
{
  return note(heap, RECORDING_ZEROED, AFRESH(pool_heap_calloc)(heap, count, size), product(count, size), 1, CALLER);
}

void *pool_heap_aligned_alloc(pool_heap_t *heap, size_t alignment, size_t size)
{
  return note(heap, RECORDING_ALIGNED, AFRESH(pool_heap_aligned_alloc)(heap, alignment, size), size, alignment, CALLER);
}

void *pool_heap_realloc(pool_heap_t *heap, void *block, size_t size)
{
  uint64_t began = begin_move(block, size, CALLER);
  return note_move(heap, began, block, NEXT(pool_heap_realloc)(heap, block, size), size, CALLER);
}

void pool_heap_free(pool_heap_t *heap, void *block)
{
  if (block && heap)
    RECORD_AS(recorder_only ? server_of(heap, block, CALLER) : heap, false, record_free(block));
  FREE(block, NEXT(pool_heap_free)(heap, block));
}

/* ---- object pools ---- */

/* An object that another pool served in the place of this one is that pool's. */
INLINE const object_pool_t *server_of_object(const object_pool_t *pool, const void *object, const void *caller)
{
  const object_pool_t *of = pool;
  while (object && *recorder_is_on && of && heap_overflow(of) && !names_of(caller)->object_pool_in_use_(of, object))
    of = heap_overflow(of);
  return of ? of : pool;
}

INLINE void note_object(const object_pool_t *pool, const void *object, const void *caller)
{
  pool = server_of_object(pool, object, caller);
  RECORD_IN(pool,
            record_block(heap_number(pool, RECORDING_KIND_OBJECT_POOL), RECORDING_ALLOC, object, heap_size(pool), 1, caller));
}

object_pool_t *object_pool_create_sized(const object_pool_options_t *options, size_t size)
{
  object_pool_t *pool = NEXT(object_pool_create_sized)(options, size);
  if (pool) {
    object_pool_options_t known = {.name = NULL};
    memcpy(&known, options, least(size, sizeof known));
    heap_describe(pool, known.heap ? (const void *)known.heap : default_heap(CALLER),
                  known.when_full == OBJECT_POOL_OVERFLOW ? known.overflow : NULL, known.object_size, known.name);
    RECORD_IN(pool, heap_number(pool, RECORDING_KIND_OBJECT_POOL));
  }
  return pool;
}

void object_pool_destroy(object_pool_t *pool)
{
  if (pool)
    RECORD_IN(pool, record_drop(heap_number(pool, RECORDING_KIND_OBJECT_POOL)));
  end_only(pool);
  if (pool)
    heap_forget(pool);
  const void *outer = self.ending;
  self.ending = pool;
  NEXT(object_pool_destroy)(pool);
  self.ending = outer;
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

/* Hooks of a pool that is being destroyed put nothing. */
INLINE void note_put(const object_pool_t *pool, const void *object, const void *caller)
{
  if (pool && pool != self.ending)
    RECORD_AS(recorder_only ? server_of_object(pool, object, caller) : pool, false, record_free(object));
}

void object_pool_put(object_pool_t *pool, void *object)
{
  note_put(pool, object, CALLER);
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
    note_put(pool, objects[i], CALLER);
  NEXT(object_pool_put_batch)(pool, objects, count);
}
