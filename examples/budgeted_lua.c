/* SPDX-License-Identifier: MIT
 * A script that may use so much memory and no more. When it wants more it gets an error it can be told of, the program
 * goes on, and everything the script had is gone at once.
 *
 *     cc budgeted_lua.c $(pkg-config --cflags --libs tidepool lua5.4) -o budgeted_lua */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <tidepool/lua.h>
#include <tidepool/stats.h>

static const char harmless[] = "local t = {} for i = 1, 1000 do t[i] = 'line ' .. i end print('harmless: ' .. #t .. ' lines')";
static const char greedy[] = "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end";

/* Opening the libraries allocates too: all of it under lua_pcall, or a memory error would end the program. */
static int open_and_run(lua_State *lua)
{
  luaL_openlibs(lua);
  if (luaL_loadstring(lua, lua_touserdata(lua, 1)) != LUA_OK)
    return lua_error(lua);
  lua_call(lua, 0, 0);
  return 0;
}

static bool run(const char *name, const char *script, size_t budget)
{
  pool_heap_options_t options = {.name = name, .budget = budget, .flags = POOL_HEAP_SINGLE_THREAD};
  pool_heap_t *heap = pool_heap_create(&options);
  lua_State *lua = heap ? lua_newstate(pool_lua_alloc, heap) : NULL;
  if (!lua) {
    fprintf(stderr, "%s: %zu bytes are not enough for a Lua state\n", name, budget);
    pool_heap_destroy(heap);
    return false;
  }
  lua_pushcfunction(lua, open_and_run);
  lua_pushlightuserdata(lua, (void *)(uintptr_t)script);
  int status = lua_pcall(lua, 1, 0, 0);
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%s: %s, %zu KiB held at most, of %zu\n", name, status == LUA_OK ? "done" : lua_tostring(lua, -1),
         stats.peak_held_bytes >> 10, budget >> 10);
  pool_heap_destroy(heap); /* the state with it */
  return status == LUA_OK;
}

int main(void)
{
  bool good = run("harmless", harmless, 1 << 20);
  bool caught = !run("greedy", greedy, 1 << 20);
  return good && caught ? 0 : 1;
}
