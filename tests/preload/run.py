# SPDX-License-Identifier: MIT
"""Runs real programs with and without the library preloaded; both must print the same and end the same way.

usage: run.py LIBRARY CASE       (run.py --list quick, slow or long names the cases of that length)

Exit status 77: the program is not installed, or does not work here without the library either."""

import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True   # the source tree stays as it is
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from preloading import NotPreloaded, check_preloading, preloadable

SKIPPED = 77
STUCK_SECONDS = 1200   # how long anything takes is up to the machine
CASES = {}
# Of the caller's environment; the rest are defaults of a user for one program or another, or a repository that git is at work in.
INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "TIDEPOOL_OPTIONS")


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def case(*programs, length="quick", name=None):
    """Registers a function of a Sandbox as a case that needs these programs; its result is what must be the same.

    A slow case takes more than some seconds, a long one minutes."""
    def register(function):
        CASES[name or function.__name__.replace("_", "-")] = (programs, length, function)
        return function
    return register


class Sandbox:
    """A folder of its own and the environment of one run."""

    def __init__(self, folder, library):
        self.folder = pathlib.Path(folder)
        self.environment = {"HOME": folder, "LC_ALL": "C", "TZ": "UTC", "MALLOC_ARENA_MAX": "2"}
        self.environment |= {name: os.environ[name] for name in INHERITED if name in os.environ}
        if library:
            self.environment["LD_PRELOAD"] = library

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def start(self, *command, **options):
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                stderr=subprocess.STDOUT, **options)

    def run(self, *command, text=None):
        """Standard output of a command that must succeed."""
        result = subprocess.run(command, cwd=self.folder, env=self.environment, input=text or "", text=True,
                                capture_output=True, errors="replace", timeout=STUCK_SECONDS)
        if result.returncode != 0:
            raise Failure(f"{' '.join(map(str, command))[:200]} ended with {result.returncode}:\n"
                          f"{result.stdout[-1500:]}{result.stderr[-1500:]}")
        return result.stdout

    def digest(self, name):
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()


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
    sandbox.write("many.c", c_source(400))
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
  for (auto &entry : index) sorted[entry.second.size() * 10000 + std::stoul(entry.first)] = std::make_unique<std::string>(entry.first);
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
        sandbox.write(f"{part}.c", c_source(250, main=part))
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


@case("g++", length="slow")
def gxx_templates(sandbox):
    sandbox.write("templates.cpp", TEMPLATES)
    sandbox.run("g++", "-O2", "-std=c++17", "-c", "templates.cpp", "-o", "templates.o")
    sandbox.run("g++", "templates.o", "-o", "templates")
    return sandbox.digest("templates.o") + sandbox.run("./templates")


def rust_source(kinds):
    """A crate with many types, generic functions and derived traits."""
    parts = ["use std::collections::{BTreeMap, HashMap};\nuse std::fmt::Debug;\n"]
    for i in range(kinds):
        parts.append(f"#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]\n"
                     f"pub struct Kind{i} {{ name: String, sizes: Vec<u{8 << i % 4}>, inner: Option<Box<Kind{max(i - 1, 0)}>> }}\n"
                     f"pub fn make{i}(n: usize) -> Kind{i} {{\n"
                     f"    Kind{i} {{ name: format!(\"{{}}-{i}\", n), sizes: (0..n as u{8 << i % 4}).collect(), inner: None }}\n}}\n")
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


@case("sqlite3")
def sqlite3(sandbox):
    return sandbox.run("sqlite3", "data.db", text="""
PRAGMA cache_size = 500;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, size INTEGER, note BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
  INSERT INTO item SELECT i, 'name' || (i * 7919 % 100003), i % 977, zeroblob(i % 200) FROM n;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_size ON item(size, name);
SELECT size, count(*), min(name), max(name) FROM item GROUP BY size ORDER BY 2 DESC, 1 LIMIT 20;
SELECT a.id, b.id FROM item a JOIN item b ON a.name = 'name' || b.id WHERE a.size = 5 ORDER BY 1, 2 LIMIT 50;
SELECT group_concat(name, ',') FROM (SELECT name FROM item WHERE id < 3000 ORDER BY name DESC);
UPDATE item SET note = name || name WHERE id % 3 = 0;
DELETE FROM item WHERE id % 5 = 0;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), sum(length(note)), sum(size) FROM item;
""")


def python_with_tests():
    """An installed Python that has its own tests: not every package of it does."""
    for name in (sys.executable, "python3", "python3.11", "python3.12", "python3.13"):
        program = shutil.which(name)
        if not program:
            continue
        found = subprocess.run([program, "-c", "import sys, test.test_json; print(sys.executable)"],
                               capture_output=True, text=True, timeout=STUCK_SECONDS)
        if found.returncode == 0:
            return found.stdout.strip()
    raise Skip("no Python with its own tests is installed (libpython3.11-testsuite)")


@case("python3")
def python(sandbox):
    sandbox.environment["PYTHONMALLOC"] = "malloc"
    sandbox.environment["PYTHONHASHSEED"] = "1"
    return sandbox.run(sys.executable, "-c", """
import collections, hashlib, json, threading
def churn(seed, results):
    data = collections.defaultdict(list)
    for i in range(60000):
        data[str(i * 7919 % (1000 + seed))].append({'i': i, 't': 'x' * (i % 50)})
    results[seed] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
results = {}
threads = [threading.Thread(target=churn, args=(seed, results)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for seed in sorted(results): print(results[seed])
big = [bytearray(n * 1000) for n in range(300)]
while big: big = [b[: len(b) // 2] for b in big if len(b) > 1000]
print(sum(i * i for i in range(100000)))
""")


# These demand that something takes less, or no more than ten times, as long as they say.
PYTHON_TIMINGS = ["test_search_anchor_at_beginning", "test_regression_gh94675", "test_timeout"]
PYTHON_TESTS = {
    "quick": "test_json test_dict test_list test_re",
    "slow": """test_tuple test_unicode test_bytes test_itertools test_deque test_collections test_heapq test_sort test_string
test_struct test_array test_memoryview test_copy test_gc test_thread test_threading_local test_ctypes test_sqlite3 test_xml_etree
test_zlib test_bz2 test_lzma test_decimal test_descr test_exceptions test_generators test_set test_long test_codecs test_functools
test_marshal test_ordered_dict test_coroutines test_buffer test_io test_fork1""",
    "long": """test_float test_csv test_datetime test_difflib test_enum test_inspect test_pickle test_pickletools test_plistlib
test_range test_textwrap test_tokenize test_typing test_weakref test_tarfile test_zipfile test_configparser test_argparse
test_ast test_compile test_dataclasses test_capi test_email test_unicodedata test_hashlib test_minidom test_pyexpat
test_xml_etree_c test_mmap test_random test_fractions test_traceback test_types test_iter test_import test_doctest test_unittest
test_optparse test_shlex test_sax test_contextlib test_math test_builtin test_class test_grammar test_patma test_syntax test_fstring
test_format test_bisect test_binascii test_base64 test_gzip test_codeccallbacks test_multibytecodec test_codecencodings_jp
test_charmapcodec test_pprint test_dis test_peepholer test_sys_settrace test_tracemalloc test_queue test_fileio test_bufio""",
}


def register_python_test(module, length):
    @case(length=length, name=f"python-{module}")
    def python_test(sandbox):
        program = python_with_tests()
        sandbox.environment["PYTHONMALLOC"] = "malloc"
        if subprocess.run([program, "-c", f"import test.{module}"], capture_output=True).returncode != 0:
            raise Skip(f"{module} is not there")
        ignored = [word for name in PYTHON_TIMINGS for word in ("--ignore", name)]
        output = sandbox.run(program, "-m", "test", "--timeout", str(STUCK_SECONDS), *ignored, module)
        return "\n".join(re.findall(r"^(?:Result: \w+|Tests result: \w+|\d+ tests? OK\.)$", output, re.MULTILINE))


for length, modules in PYTHON_TESTS.items():
    for module in modules.split():
        register_python_test(module, length)


@case("perl")
def perl(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict;
my (%words, @lists);
for my $i (1 .. 150000) {
  my $key = "k" . ($i * 7919 % 20011);
  $words{$key} .= chr(97 + $i % 26);
  push @{$lists[$i % 500]}, $key if $i % 3 == 0;
  delete $words{"k" . ($i % 20011)} if $i % 7 == 0;
}
my $text = join ",", map { "$_=$words{$_}" } sort keys %words;
my $count = () = $text =~ /([a-z])\1/g;
my $sum = unpack("%32C*", $text);
print length($text), " $count $sum\n";
print scalar(@$_), " " for @lists[0 .. 20];
my $tree; for my $i (1 .. 20000) { $tree = { left => $tree, value => "v$i" }; $tree = undef if $i % 1000 == 0 }
print sprintf("%s\n", reverse sort { $a <=> $b } map { $_ * 31 % 1009 } 1 .. 5000);
""")


# Perl's own manuals in three forms: many objects, large strings, the most expressions of any program at hand.
@case("perl", length="slow")
def perl_pod(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict; use Config; use File::Find; use Pod::Man; use Pod::Text; use Pod::Checker; use Pod::Simple::XMLOutStream;
my @files; find(sub { push @files, $File::Find::name if /\.(pm|pod)$/ && -s > 20000 }, $Config{privlibexp});
@files = (sort @files)[0 .. 79];
for my $file (grep { defined } @files) {
  my %made;
  for my $form (qw(Pod::Man Pod::Text Pod::Simple::XMLOutStream)) {
    my $parser = $form->new;
    $parser->output_string(\$made{$form});
    $parser->parse_file($file);
  }
  print join(" ", $file =~ m{([^/]+)$}, map { length($made{$_}) . ":" . unpack("%32W*", $made{$_}) } sort keys %made), "\n";
}
""")


# A thread of Perl is a copy of the whole interpreter, freed by another thread than the one that made it.
@case("perl", length="slow")
def perl_threads(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict; use threads; use threads::shared; use Thread::Queue; use JSON::PP; use Storable qw(freeze thaw);
my %table = map { ("key$_" => [map { {n => $_, text => "x" x ($_ % 40)} } 1 .. 20]) } 1 .. 400;
my $queue = Thread::Queue->new;
sub work {
  my ($seed) = @_;
  my $sum = 0;
  for my $round (1 .. 4) {
    my $copy = thaw(freeze(\%table));
    delete $copy->{"key" . ($_ * $seed % 400)} for 1 .. 100;
    my $text = JSON::PP->new->canonical->encode($copy);
    $sum = ($sum * 31 + unpack("%32C*", $text)) % 1000003;
    $queue->enqueue("$seed:$round:" . length $text);
  }
  return $sum;
}
for my $turn (1 .. 3) {
  my @threads = map { threads->create(\&work, $_ + $turn) } 1 .. 4;
  print join(" ", map { $_->join } @threads), "\n";
}
$queue->end;
my @all; while (defined(my $item = $queue->dequeue)) { push @all, $item }
print scalar(@all), " ", join(",", sort @all), "\n";
""")


@case("perl", length="slow")
def perl_numbers(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict; use Math::BigInt lib => "Calc"; use Encode; use Unicode::Normalize; use Compress::Zlib; use Digest::SHA qw(sha256_hex);
my ($a, $b) = (Math::BigInt->new(1), Math::BigInt->new(1));
for (1 .. 6000) { ($a, $b) = ($b, $a + $b) }
print sha256_hex("$a"), "\n";
my $text = join "", map { chr(0x100 + $_ * 37 % 0x5000) } 1 .. 60000;
my $bytes = encode("UTF-8", NFD($text));
print length($bytes), " ", sha256_hex(encode("UTF-16LE", NFC(decode("UTF-8", $bytes)))), "\n";
my $packed = Compress::Zlib::memGzip($bytes x 8);
print length(Compress::Zlib::memGunzip($packed)), "\n";
my %seen; $seen{$1}++ while $text =~ /(\w{1,3})(?=\w)/g;
print scalar(keys %seen), " ", join(",", map { ord } (sort keys %seen)[0 .. 20]), "\n";
my $nest = "(" x 2000 . ")" x 2000; my $deep; $deep = qr/\((?:(??{ $deep })|[^()])*\)/;
my $balanced = qr/(\((?:[^()]++|(?1))*\))/; print length(($nest =~ $balanced)[0]), "\n";
""")


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


@case("git")
def git(sandbox):
    for role in ("AUTHOR", "COMMITTER"):
        sandbox.environment |= {"GIT_CONFIG_NOSYSTEM": "1", f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org",
                                f"GIT_{role}_DATE": "2024-01-02T03:04:05Z"}
    sandbox.run("git", "init", "-q", "-b", "main", ".")
    content = random.Random(7)
    for commit in range(25):
        for number in range(30):
            lines = (f"{content.randrange(1000)} line {k}\n" for k in range(content.randrange(200)))
            sandbox.write(f"file{number}", "".join(lines))
        sandbox.run("git", "add", ".")
        sandbox.run("git", "commit", "-q", "-m", f"commit {commit}")
    sandbox.run("git", "gc", "-q", "--aggressive", "--prune=now")
    sandbox.run("git", "clone", "-q", "--no-local", ".", "copy")
    return (sandbox.run("git", "log", "--stat", "-p") + sandbox.run("git", "fsck", "--full", "--strict")
            + sandbox.run("git", "-C", "copy", "blame", "file3") + sandbox.run("git", "grep", "-n", "77 line"))


@case("xz")
def xz(sandbox):
    content = random.Random(3)
    block = bytes(content.randrange(256) for _ in range(5000))
    (sandbox.folder / "data").write_bytes(b"".join(block[content.randrange(4000):] + b"%d" % i for i in range(6000)))
    before = sandbox.digest("data")
    sandbox.run("xz", "-T2", "-3", "--block-size=2MiB", "data")
    packed = sandbox.digest("data.xz")
    sandbox.run("xz", "-T2", "-d", "data.xz")
    if sandbox.digest("data") != before:
        raise Failure("the data is not what was packed")
    return packed


@case("sort")
def sort(sandbox):
    content = random.Random(5)
    sandbox.write("lines", "".join(f"{content.random()} {i}\n" for i in range(300000)))
    sandbox.run("sort", "--parallel=4", "-S", "8M", "-T", ".", "-o", "sorted", "lines")
    return sandbox.digest("sorted")


@case("tar", "gzip", "find", "awk", "bash")
def shell(sandbox):
    sandbox.write("work.sh", r"""
set -e
for i in $(seq 300); do mkdir -p d/$((i % 20)); seq $i > d/$((i % 20))/$i; done
tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - d | gzip -n > d.tar.gz
mkdir out; tar -C out -xzf d.tar.gz; diff -r d out/d
find out -type f | LC_ALL=C sort | xargs cat | awk '{ n[$1 % 97] += $1 } END { for (k = 0; k < 97; k++) print k, n[k] }'
x=; for i in $(seq 2000); do x="$x$i"; done; echo ${#x}
""")
    return sandbox.run("bash", "work.sh") + sandbox.digest("d.tar.gz")


def redis_command(sandbox, *arguments):
    return sandbox.run("redis-cli", "-s", "socket", *arguments).strip()


def wait_until(condition, what):
    end = time.monotonic() + STUCK_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"waited {STUCK_SECONDS} s for {what}")
        time.sleep(0.05)


def redis_work(sandbox):
    fill = "for i = 1, 100000 do redis.call('SET', 'k' .. i, string.rep('x', i % 500)) end"
    redis_command(sandbox, "EVAL", fill, "0")
    # The benchmark's figures are timings; it only has to succeed, also while a child saves.
    redis_command(sandbox, "BGSAVE")
    sandbox.run("redis-benchmark", "-s", "socket", "-n", "20000", "-q", "-t", "set,get,lpush,rpop,sadd,hset,zadd,mset")
    wait_until(lambda: "rdb_bgsave_in_progress:0" in redis_command(sandbox, "INFO", "persistence"), "the snapshot")
    redis_command(sandbox, "EVAL", "for i = 1, 100000, 2 do redis.call('DEL', 'k' .. i) end", "0")
    redis_command(sandbox, "MEMORY", "PURGE")
    redis_command(sandbox, "BGREWRITEAOF")
    wait_until(lambda: "aof_rewrite_in_progress:0" in redis_command(sandbox, "INFO", "persistence"), "the rewrite")
    status = re.search(r"rdb_last_bgsave_status:\w+", redis_command(sandbox, "INFO", "persistence"))
    return f"{redis_command(sandbox, 'DBSIZE')} {status[0]} {redis_command(sandbox, 'GET', 'k77778')}"


@case("redis-check-rdb", "redis-cli", "redis-benchmark")
def redis(sandbox):
    # Debian's redis-tools ships the server under the name of this check; it looks at what it is called.
    server = sandbox.start("redis-server", "--port", "0", "--unixsocket", "socket", "--save", "", "--dir", ".",
                           executable=shutil.which("redis-check-rdb"), stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (sandbox.folder / "socket").exists() or server.poll() is not None, "the server")
        result = redis_work(sandbox)
    except BaseException:
        server.kill()
        server.wait()
        raise
    server.send_signal(signal.SIGTERM)
    return f"{result} exit status {server.wait(timeout=STUCK_SECONDS)}"


# Stressors look at what they wrote (--verify); what they need that is not there, or too small, ends a run without the library too.
# Operations are counted, so a slow machine does the same. Not brk: it faults for ever where malloc has not moved the break before.
STRESSORS = {
    "malloc": (("--malloc-bytes", "128m"), 15000, 60000),
    "malloc-threads": (("--malloc-bytes", "16m", "--malloc-pthreads", "3", "--malloc-touch"), 4000, 40000),
    "malloc-zero": (("--malloc-bytes", "32m", "--malloc-max", "4096", "--malloc-zerofree"), 20000, 100000),
    "fork": (("--fork-max", "4"), 1000, 15000),
    "vfork": ((), 1000, 15000),
    "clone": (("--clone-max", "16"), 100, 1000),
    "forkheavy": (("--forkheavy-allocs", "500", "--forkheavy-procs", "32"), 40, 500),
    "pthread": (("--pthread-max", "64"), 4000, 60000),
    "memfd": (("--memfd-bytes", "16m", "--memfd-fds", "16"), 20, 200),
    "mremap": (("--mremap-bytes", "4m"), 20, 200),
    "mlock": ((), 2000, 30000),
    "tsearch": (("--tsearch-size", "16384"), 20, 300),
    "hsearch": (("--hsearch-size", "8192"), 20, 300),
    "skiplist": (("--skiplist-size", "8192"), 20, 300),
    "dynlib": ((), 200, 3000),
    "zlib": ((), 20, 300),
}


def register_stressor(name, options, operations, length):
    stressor = name.split("-")[0]

    @case("stress-ng", length=length, name=f"stress-ng-{name}" + (", long" if length == "long" else ""))
    def stress(sandbox):
        sandbox.run("stress-ng", f"--{stressor}", "2", *options, f"--{stressor}-ops", str(operations), "--verify", "--oomable",
                    "--temp-path", sandbox.folder)
        return "survived"


for name, (options, few, many) in STRESSORS.items():
    register_stressor(name, options, few, "quick" if name == "malloc" else "slow")
    register_stressor(name, options, many, "long")


@case("openssl")
def openssl(sandbox):
    sandbox.run("openssl", "genrsa", "-out", "key", "2048")
    sandbox.write("text", "some text\n" * 20000)
    sandbox.run("openssl", "dgst", "-sha256", "-sign", "key", "-out", "signature", "text")
    sandbox.run("openssl", "rsa", "-in", "key", "-pubout", "-out", "public")
    return sandbox.run("openssl", "dgst", "-sha256", "-verify", "public", "-signature", "signature", "text")


def result_of(function, library):
    with tempfile.TemporaryDirectory() as folder:
        return function(Sandbox(folder, library))


def difference(expected, result):
    for number, (one, other) in enumerate(zip(expected.splitlines(), result.splitlines()), 1):
        if one != other:
            return f"line {number}: {one[:200]!r} without the library, {other[:200]!r} with it"
    return f"{len(expected)} characters without the library, {len(result)} with it"


def run_case(library, name):
    programs, _, function = CASES[name]
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Skip(f"{', '.join(missing)} is not installed")
    check_preloading(library, programs)
    try:
        expected = result_of(function, None)
    except Failure as failure:
        raise Skip(f"does not work here without the library either: {failure}") from None
    result = result_of(function, library)
    if result != expected:
        raise Failure(difference(expected, result))


def main():
    if sys.argv[1] == "--list":
        print("\n".join(name for name, (_, length, _) in CASES.items() if length == sys.argv[2]))
        return 0
    library, name = sys.argv[1:]
    if name not in CASES:
        sys.exit(f"no such case: {name}")
    try:
        run_case(preloadable(library), name)
    except Skip as skip:
        print(f"skipped: {skip}")
        return SKIPPED
    except (Failure, NotPreloaded, subprocess.TimeoutExpired) as failure:
        print(f"{name}: {failure}")
        return 1
    return 0


sys.exit(main())
