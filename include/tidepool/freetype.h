/* SPDX-License-Identifier: MIT
 *
 * tidepool/freetype.h: a FreeType library on a heap of its own.
 *
 *     pool_heap_options_t options = {.name = "glyphs", .budget = 2 << 20, .flags = POOL_HEAP_SINGLE_THREAD};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     FT_Library library;
 *     pool_freetype_init(heap, &library);          (instead of FT_Init_FreeType)
 *     ... FT_New_Memory_Face() ...                 (FT_Err_Out_Of_Memory: the heap is exhausted)
 *     pool_heap_destroy(heap);                     (instead of FT_Done_Face and FT_Done_FreeType)
 *
 * Each library may have a heap of its own. A library and its faces are for one thread at a time, so the heap may be
 * single-threaded. Destroying the heap closes no files: call FT_Done_Face() first for a face of FT_New_Face(). To keep the
 * heap, end the library with FT_Done_Library(), not with FT_Done_FreeType(); a record of some 48 bytes then remains. */
#ifndef TIDEPOOL_FREETYPE_H
#define TIDEPOOL_FREETYPE_H

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_MODULE_H
#include <tidepool/heap.h>

typedef struct pool_freetype {
  struct FT_MemoryRec_ memory;
  bool refused;
} pool_freetype_t;

static inline void *pool_freetype_note(FT_Memory memory, void *block)
{
  if (!block)
    ((pool_freetype_t *)memory)->refused = true;
  return block;
}

static inline void *pool_freetype_alloc(FT_Memory memory, long size)
{
  return pool_freetype_note(memory, pool_heap_alloc((pool_heap_t *)memory->user, (size_t)size));
}

static inline void *pool_freetype_realloc(FT_Memory memory, long had, long size, void *block)
{
  (void)had;
  return pool_freetype_note(memory, pool_heap_realloc((pool_heap_t *)memory->user, block, (size_t)size));
}

static inline void pool_freetype_free(FT_Memory memory, void *block) { pool_heap_free((pool_heap_t *)memory->user, block); }

/* Does what FT_Init_FreeType() does, on `heap`. It returns FT_Err_Out_Of_Memory if there is no memory for all default modules.
 * FreeType itself continues without them, and later calls crash or know no format. */
static inline FT_Error pool_freetype_init(pool_heap_t *heap, FT_Library *library)
{
  pool_freetype_t *record = (pool_freetype_t *)pool_heap_zalloc(heap, sizeof *record);
  if (!record)
    return FT_Err_Out_Of_Memory;
  record->memory.user = heap;
  record->memory.alloc = pool_freetype_alloc;
  record->memory.free = pool_freetype_free;
  record->memory.realloc = pool_freetype_realloc;
  FT_Error error = FT_New_Library(&record->memory, library);
  if (!error) {
    FT_Add_Default_Modules(*library);
    FT_Set_Default_Properties(*library);
    if (record->refused) {
      FT_Done_Library(*library);
      error = FT_Err_Out_Of_Memory;
    }
  }
  if (error)
    pool_heap_free(heap, record);
  return error;
}

#endif
