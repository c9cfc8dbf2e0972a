# SPDX-License-Identifier: MIT
"""Compilers: as many small objects as programs have."""

from sandbox import case, some_of


def c_source(functions, main="main"):
    """A C file with many functions, switches and structures, and one that calls them all."""
    parts = ["#include <stdio.h>\n#include <string.h>\n#include <math.h>\n"]
    for i in range(functions):
        cases = "".join(f"    case {k}: sum += x * {k + i}; break;\n" for k in range(12))
        parts.append(f"struct s{i} {{ int a[{i % 9 + 1}]; double b; char name[{i % 31 + 1}]; }};\n"
                     f"static long f{i}(long x, struct s{i} *s) {{\n  long sum = (long)(s->b * {i});\n"
                     f"  for (int k = 0; k < {i % 50}; k++) sum += s->a[k % {i % 9 + 1}] ^ x;\n"
                     f"  switch (x % 12) {{\n{cases}  }}\n  return sum;\n}}\n")
    calls = "".join(f"  {{ struct s{i} s; memset(&s, 1, sizeof s); s.b = {i}; total += f{i}({i * 13}, &s); }}\n"
                    for i in range(functions))
    body = f'  long total = 0;\n{calls}  printf("%ld\\n", total);\n  return 0;\n'
    return "".join(parts) + f"int {main}(void);\nint {main}(void) {{\n{body}}}\n"


@case("gcc")
def gcc(sandbox):
    sandbox.write("many.c", c_source(some_of(400)))
    sandbox.run("gcc", "-O2", "-c", "many.c", "-o", "many.o")
    sandbox.run("gcc", "many.o", "-o", "many", "-lm")
    return sandbox.digest("many.o") + sandbox.run("./many")


@case("g++")
def gxx(sandbox):
    sandbox.write("words.cpp", r"""
#include <algorithm>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
static long count(int seed) {
  std::unordered_map<std::string, std::vector<int>> index;
  for (int i = 0; i < 50000; i++) index[std::to_string((i * 7919L + seed) % 5003)].push_back(i);
  std::map<std::size_t, std::unique_ptr<std::string>> sorted;
  for (auto &entry : index)
    sorted[entry.second.size() * 10000 + std::stoul(entry.first)] = std::make_unique<std::string>(entry.first);
  long sum = 0;
  for (auto &entry : sorted) sum = sum * 31 + static_cast<long>(entry.second->size() + entry.first);
  return sum;
}
int main() {
  std::vector<std::future<long>> results;
  for (int i = 0; i < 8; i++) results.push_back(std::async(std::launch::async, count, i));
  for (auto &result : results) std::cout << result.get() << '\n';
  std::regex word("([a-z]+)([0-9]*)");
  std::string text;
  for (int i = 0; i < 2000; i++) text += "word" + std::to_string(i) + ' ';
  std::cout << std::distance(std::sregex_iterator(text.begin(), text.end(), word), std::sregex_iterator()) << '\n';
}
""")
    sandbox.run("g++", "-O1", "-std=c++17", "-pthread", "words.cpp", "-o", "words")
    return sandbox.run("./words")


@case("gcc", length="slow")
def gcc_lto(sandbox):
    """A compiler that holds the whole program at once, in several processes."""
    parts = [f"part{number}" for number in range(4)]
    for part in parts:
        sandbox.write(f"{part}.c", c_source(some_of(250), main=part))
    sandbox.write("main.c", "".join(f"int {part}(void);\n" for part in parts)
                  + f"int main(void) {{ return {' | '.join(f'{part}()' for part in parts)}; }}\n")
    sandbox.run("gcc", "-O2", "-flto=2", "main.c", *(f"{part}.c" for part in parts), "-o", "whole", "-lm")
    return sandbox.run("./whole")


# Every header of the standard library, and templates of templates: as many small objects as a compiler has.
TEMPLATES = r"""
#include <bits/stdc++.h>
template <int N> struct level {
  std::map<std::string, std::vector<std::tuple<int, std::string, std::array<int, N>>>> table;
  std::variant<int, std::string, std::array<long, N>> value;
  long fill(long seed) {
    for (int i = 0; i < N + 3; i++)
      table[std::to_string(seed * i % 7)].emplace_back(i, std::string(N, 'x'), std::array<int, N>{});
    value = std::to_string(seed);
    long sum = std::visit([](auto &held) { return static_cast<long>(sizeof held); }, value) ? 1 : 0;
    for (auto &[key, entries] : table) {
      std::sort(entries.begin(), entries.end());
      sum += std::accumulate(entries.begin(), entries.end(), static_cast<long>(key.size()),
                             [](long total, auto &entry) { return total + std::get<0>(entry); });
    }
    return sum;
  }
};
template <int... N> static long all(std::integer_sequence<int, N...>) {
  return (0 + ... + std::make_unique<level<N + 1>>()->fill(N));
}
int main() {
  std::cout << all(std::make_integer_sequence<int, 6>()) << '\n';
  std::cout << std::regex_replace("one two three", std::regex("(\\w+) (\\w+)"), "$2 $1") << '\n';
}
"""


@case("g++", length="long")
def gxx_templates(sandbox):
    sandbox.write("templates.cpp", TEMPLATES)
    sandbox.run("g++", "-O2", "-std=c++17", "-c", "templates.cpp", "-o", "templates.o")
    sandbox.run("g++", "templates.o", "-o", "templates")
    return sandbox.digest("templates.o") + sandbox.run("./templates")


def rust_source(kinds):
    """A crate with many types, generic functions and derived traits."""
    parts = ["use std::collections::{BTreeMap, HashMap};\nuse std::fmt::Debug;\n"]
    for i in range(kinds):
        size, inner = f"u{8 << i % 4}", f"Kind{max(i - 1, 0)}"
        parts.append(f"#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]\n"
                     f"pub struct Kind{i} {{ name: String, sizes: Vec<{size}>, inner: Option<Box<{inner}>> }}\n"
                     f"pub fn make{i}(n: usize) -> Kind{i} {{\n"
                     f"    Kind{i} {{ name: format!(\"{{}}-{i}\", n), sizes: (0..n as {size}).collect(), inner: None }}\n}}\n")
    parts.append("fn told<T: Debug + Clone + Ord + std::hash::Hash>(items: Vec<T>) -> usize {\n"
                 "    let tree: BTreeMap<T, usize> = items.iter().cloned().zip(0..).collect();\n"
                 "    let table: HashMap<T, usize> = tree.clone().into_iter().collect();\n"
                 "    tree.iter().map(|(k, v)| format!(\"{:?}\", k).len() * v + table[k]).sum()\n}\n")
    calls = "".join(f"    println!(\"{{}}\", told((0..100).map(make{i}).collect()));\n" for i in range(kinds))
    return "".join(parts) + f"fn main() {{\n{calls}}}\n"


# A compiler that brings its own malloc shows nothing; Debian's takes what it is given.
@case("/usr/bin/rustc", length="long")
def rustc(sandbox):
    sandbox.write("kinds.rs", rust_source(16))
    sandbox.run("/usr/bin/rustc", "-O", "-C", "codegen-units=4", "kinds.rs", "-o", "kinds")
    return sandbox.run("./kinds")
