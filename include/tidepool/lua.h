/* SPDX-License-Identifier: MIT
 *
 * tidepool/lua.h: a Lua state on a heap of its own.
 *
 *     pool_heap_options_t options = {.name = "script", .budget = 1 << 20, .flags = POOL_HEAP_SINGLE_THREAD};
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     lua_State *lua = lua_newstate(pool_lua_alloc, heap);     (NULL: the budget is too small for a state)
 *     ... lua_pcall() ...                                      (LUA_ERRMEM: the budget is exhausted)
 *     pool_heap_destroy(heap);                                 (instead of lua_close)
 *
 * If the heap is exhausted, Lua first collects garbage and then raises a memory error. Destroying the heap ends the state in
 * microseconds, whatever it holds. It runs no __gc and __close metamethods, so it closes no files; lua_close() does. No header
 * of Lua is needed. The adapter works with 5.1 to 5.4. */
#ifndef TIDEPOOL_LUA_H
#define TIDEPOOL_LUA_H

#include <tidepool/heap.h>

/* A lua_Alloc, whose first argument is the heap. Lua requires that shrinking a block never fails. */
static inline void *pool_lua_alloc(void *heap, void *block, size_t had, size_t size)
{
  void *moved = NULL;
  if (size)
    moved = pool_heap_realloc((pool_heap_t *)heap, block, size);
  else
    pool_heap_free((pool_heap_t *)heap, block);
  return !moved && block && size && size <= had ? block : moved;
}

#endif
