/* SPDX-License-Identifier: MIT
 *
 * tidepool/sqlite.h: all of SQLite's memory on one heap. SQLite has one allocator for the whole process:
 *
 *     pool_heap_options_t options = {.name = "sqlite", .budget = 64 << 20};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     pool_sqlite_install(heap);                   (before the first call of SQLite, or after sqlite3_shutdown)
 *     ...                                          (SQLITE_NOMEM: the heap is exhausted)
 *     sqlite3_shutdown();
 *     pool_heap_destroy(heap);
 *
 * sqlite3_memory_used() is then the heap's live_bytes. SQLite gets the usable size of each block, so it uses the slack. The
 * heap must not be single-threaded unless SQLite is, and must outlive sqlite3_shutdown(). */
#ifndef TIDEPOOL_SQLITE_H
#define TIDEPOOL_SQLITE_H

#include <sqlite3.h>
#include <tidepool/heap.h>

static pool_heap_t *pool_sqlite_heap;

static inline void *pool_sqlite_alloc(int size) { return pool_heap_alloc(pool_sqlite_heap, (size_t)size); }

static inline void *pool_sqlite_realloc(void *block, int size)
{
  return pool_heap_realloc(pool_sqlite_heap, block, (size_t)size);
}

static inline void pool_sqlite_free(void *block) { pool_heap_free(pool_sqlite_heap, block); }

static inline int pool_sqlite_size(void *block) { return (int)pool_usable_size(block); }

static inline int pool_sqlite_round_up(int size) { return (int)pool_heap_good_size(pool_sqlite_heap, (size_t)size); }

static inline int pool_sqlite_init(void *heap)
{
  pool_sqlite_heap = (pool_heap_t *)heap;
  return heap ? SQLITE_OK : SQLITE_NOMEM;
}

static inline void pool_sqlite_shutdown(void *heap) { (void)heap; }

/* Returns the methods that pool_sqlite_install() installs. */
static inline sqlite3_mem_methods pool_sqlite_methods(pool_heap_t *heap)
{
  sqlite3_mem_methods methods = {pool_sqlite_alloc,    pool_sqlite_free, pool_sqlite_realloc,  pool_sqlite_size,
                                 pool_sqlite_round_up, pool_sqlite_init, pool_sqlite_shutdown, heap};
  return methods;
}

/* Makes SQLite allocate from `heap`. Returns SQLITE_OK, or SQLITE_MISUSE if SQLite is in use already. */
static inline int pool_sqlite_install(pool_heap_t *heap)
{
  sqlite3_mem_methods methods = pool_sqlite_methods(heap);
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

#endif
