# SPDX-License-Identifier: MIT
"""Lua, whose every object is a block of its own."""

from sandbox import case


@case("lua5.4")
def lua(sandbox):
    return sandbox.run("lua5.4", "-e", r"""
local words, total = {}, 0
for i = 1, 300000 do
  local key = "k" .. (i * 7919 % 20011)
  words[key] = (words[key] or "") .. string.char(97 + i % 26)
  if i % 5 == 0 then words["k" .. (i % 20011)] = nil end
end
local keys = {}
for key in pairs(words) do keys[#keys + 1] = key end
table.sort(keys)
for _, key in ipairs(keys) do total = (total * 31 + #words[key] + #key) % 1000000007 end
print(#keys, total)
local function tree(depth) return depth > 0 and {tree(depth - 1), tree(depth - 1)} or {} end
local function count(node) return node[1] and 1 + count(node[1]) + count(node[2]) or 1 end
for depth = 4, 16, 4 do print(depth, count(tree(depth))) end
collectgarbage()
print(collectgarbage("count") > 0, string.rep("ab", 100000):gsub("a", "%0%0"):len())
""")


# Coroutines, closures, weak tables and finalizers, chunks made and compiled at run time; both kinds of collection.
@case("lua5.4", length="slow")
def lua_programs(sandbox):
    sandbox.write("programs.lua", r"""
local function chunk(n)
  local lines = {"local t = {}"}
  for i = 1, n do
    lines[#lines + 1] = ("t[%d] = function(x) local a = x + %d; return a * %d %% 9973, 'name%d' end"):format(i, i, i, i)
  end
  lines[#lines + 1] = "return t"
  return assert(load(table.concat(lines, "\n")))()
end
local function permutations(list, n)
  if n == 0 then coroutine.yield(table.concat(list, ","))
  else for i = 1, n do
    list[n], list[i] = list[i], list[n]
    permutations(list, n - 1)
    list[n], list[i] = list[i], list[n]
  end end
end
local finalized = 0
for _, mode in ipairs {"incremental", "generational"} do
  collectgarbage(mode)
  local sum = 0
  for round = 1, 6 do
    for i, f in ipairs(chunk(3000)) do local a, name = f(i + round); sum = (sum * 31 + a + #name) % 1000000007 end
  end
  for text in coroutine.wrap(function() permutations({1, 2, 3, 4, 5, 6, 7, 8}, 8) end) do
    sum = (sum * 7 + #text + text:byte(3)) % 1000000007
  end
  local weak, kept = setmetatable({}, {__mode = "v"}), {}
  for i = 1, 60000 do
    local object = setmetatable({i, tostring(i):rep(i % 20)}, {__gc = function() finalized = finalized + 1 end})
    weak[i] = object
    if i % 100 == 0 then kept[#kept + 1] = object end
  end
  collectgarbage() collectgarbage()
  local alive = 0
  for _ in pairs(weak) do alive = alive + 1 end
  local threads = {}
  for i = 1, 20000 do
    local thread = coroutine.create(function(a) local b = coroutine.yield(a) return a + b end)
    threads[i % 2000] = thread
    coroutine.resume(thread, i)
  end
  for _, thread in pairs(threads) do local _, value = coroutine.resume(thread, 1) sum = (sum + value) % 1000000007 end
  print(mode, sum, alive, #kept)
end
collectgarbage()
print(finalized, select("#", table.unpack({}, 1, 200)), ("x"):rep(1 << 24):gsub("x", "yz", 1000000):len())
""")
    return sandbox.run("lua5.4", "programs.lua")
