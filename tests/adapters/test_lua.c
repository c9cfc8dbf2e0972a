/* SPDX-License-Identifier: MIT
 * Lua on a heap: its own figures agree with ours, a budget ends in its memory error at any point, and the heap's end is its. */
#include "../heap/heaps.h"
#include "debug/head.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <tidepool/lua.h>

static const char work[] =
  "local t = {} for i = 1, 3000 do t[i] = { name = 'n' .. i, [i] = string.rep('ab', i % 50) } end "
  "local s = 0 for i, v in ipairs(t) do s = s + #v[i] end "
  "local c = coroutine.wrap(function() for i = 1, 10 do coroutine.yield(i) end end) for i = 1, 10 do s = s + c() end "
  "return s";

static int open_and_run(lua_State *lua)
{
  luaL_openlibs(lua);
  if (luaL_loadstring(lua, lua_touserdata(lua, 1)) != LUA_OK)
    return lua_error(lua);
  lua_call(lua, 0, 1);
  return 1;
}

static int run(lua_State *lua, const char *script)
{
  lua_settop(lua, 0);
  lua_pushcfunction(lua, open_and_run);
  lua_pushlightuserdata(lua, (void *)(uintptr_t)script);
  return lua_pcall(lua, 1, 1, 0);
}

/* A block is at most 15 bytes larger than was asked for, or an eighth; and its guard if it is checked. */
static void figures_agree(lua_State *lua, pool_heap_t *heap)
{
  size_t counted = (size_t)lua_gc(lua, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(lua, LUA_GCCOUNTB);
  pool_stats_t s = stats_of(heap);
  assert_true(s.live_bytes >= counted);
  assert_true(s.live_bytes <= counted + counted / 8 + s.live_blocks * (15 + 2 * HEAD_BYTES));
}

static void runs_and_closes(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds[] = {
    {.budget = 0}, {.budget = 64 << 20}, {.flags = POOL_HEAP_SINGLE_THREAD}, {.flags = POOL_HEAP_CHECKED}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    pool_heap_t *heap = heap_with(kinds[i]);
    lua_State *lua = lua_newstate(pool_lua_alloc, heap);
    assert_non_null(lua);
    assert_int_equal(run(lua, work), LUA_OK);
    assert_int_equal(lua_tointeger(lua, -1), 147055);
    figures_agree(lua, heap);
    lua_close(lua);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
}

static void a_budget_ends_in_a_memory_error(void **state)
{
  (void)state;
  pool_heap_t *parent = heap_with((pool_heap_options_t){0});
  size_t before = stats_of(parent).held_bytes;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.budget = 512 << 10, .parent = parent, .flags = POOL_HEAP_SINGLE_THREAD});
  lua_State *lua = lua_newstate(pool_lua_alloc, heap);
  assert_non_null(lua);
  for (unsigned i = 0; i < 3; i++) {
    assert_int_equal(run(lua, "local t = {} while true do t[#t + 1] = { string.rep('x', #t) } end"), LUA_ERRMEM);
    assert_string_equal(lua_tostring(lua, -1), "not enough memory");
    lua_settop(lua, 0);
    lua_gc(lua, LUA_GCCOLLECT);
    assert_int_equal(run(lua, "return 6 * 7"), LUA_OK); /* it goes on */
    assert_int_equal(lua_tointeger(lua, -1), 42);
  }
  pool_stats_t s = stats_of(heap);
  assert_true(s.peak_held_bytes <= s.budget && s.exhausted_count >= 3 && s.live_blocks > 0);
  pool_heap_destroy(heap); /* instead of lua_close */
  assert_int_equal(stats_of(parent).held_bytes, before);
  pool_heap_destroy(parent);
}

/* Every budget, from far too small to enough: never a crash, always the same answer or a memory error. What a state takes is
 * Lua's affair; that it allocates thousands of blocks for this work is not. */
static void any_budget(void **state)
{
  (void)state;
  unsigned errors = 0, done = 0;
  for (size_t budget = 8 << 10; done < 3; budget += budget / 8) {
    assert_true(budget < 1 << 30);
    pool_heap_t *heap = heap_with_budget(budget);
    lua_State *lua = lua_newstate(pool_lua_alloc, heap);
    int status = lua ? run(lua, work) : LUA_ERRMEM;
    assert_true(status == LUA_OK || status == LUA_ERRMEM);
    assert_true(status != LUA_OK || lua_tointeger(lua, -1) == 147055);
    errors += status != LUA_OK;
    done += status == LUA_OK;
    if (lua && budget % 2)
      lua_close(lua);
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
  assert_true(errors);
}

/* ---- every n-th allocation fails ---- */

typedef struct failing {
  pool_heap_t *heap;
  size_t calls, fail_at;
} failing_t;

static void *alloc_or_fail(void *context, void *block, size_t had, size_t size)
{
  failing_t *failing = context;
  bool grows = size && (!block || size > had);
  if (grows && ++failing->calls == failing->fail_at)
    return NULL;
  return pool_lua_alloc(failing->heap, block, had, size);
}

static void each_allocation_fails_once(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_CHECKED});
  size_t last = 0, refused = 0;
  for (size_t n = 1; !last; n += 1 + n / 40) {
    failing_t failing = {heap, 0, n};
    lua_State *lua = lua_newstate(alloc_or_fail, &failing);
    refused += !lua;
    if (lua) {
      int status = run(lua, work);
      assert_true(status == LUA_OK || status == LUA_ERRMEM);
      if (failing.calls < n)
        last = n;
      lua_close(lua);
    }
    assert_int_equal(stats_of(heap).live_blocks, 0);
  }
  assert_true(refused && last > 3000); /* the work makes as many tables */
  pool_heap_destroy(heap);
}

/* Lua relies on it. */
static void shrinking_never_fails(void **state)
{
  (void)state;
  pool_heap_t *heap = heap_with_budget(64 << 10);
  list_t list = {0};
  void *block = pool_lua_alloc(heap, NULL, LUA_TTABLE, 2000);
  assert_non_null(block);
  list_exhaust(&list, heap, 16);
  pattern_write(block, 2000, 3);
  for (size_t had = 2000, size = 1500; size; had = size, size /= 2) {
    assert_non_null(block = pool_lua_alloc(heap, block, had, size));
    assert_true(pattern_kept(block, size, 2000, 3));
  }
  assert_null(pool_lua_alloc(heap, block, 1, 0));
  assert_null(pool_lua_alloc(heap, NULL, LUA_TSTRING, 100000));
  assert_null(pool_lua_alloc(heap, NULL, 0, 0));
  pool_heap_destroy(heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(runs_and_closes),
    cmocka_unit_test(a_budget_ends_in_a_memory_error),
    cmocka_unit_test(any_budget),
    cmocka_unit_test(each_allocation_fails_once),
    cmocka_unit_test(shrinking_never_fails),
  };
  return cmocka_run_group_tests_name("lua", tests, NULL, NULL);
}
