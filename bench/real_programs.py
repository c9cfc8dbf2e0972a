# SPDX-License-Identifier: MIT
"""Real programs, unchanged, as Debian has them, and the data that they work on, which is made here and is the same each time;
but for the keys that redis is sent, which its own tool draws.

They were chosen before anybody looked at a figure, and none was left out since: two compilers, six interpreters and tools of
scripts, two databases, two parsers, a tool for versions, and two for pictures and documents. Each does what it is used for, for
about a second, with data that does not fit into the caches.
"""
import json
import os
import random
import shutil
import subprocess
import time
from typing import Callable, NamedTuple

PATH = "/usr/bin:/bin"   # Debian's, whatever else is installed
STUCK_SECONDS = 120


def processor_time(figures, _output):
    return figures["user"] + figures["system"]


class RealProgram(NamedTuple):
    name: str
    binary: str
    package: str
    what: str
    command: Callable   # of the directory of the data: the arguments, and what else the environment has
    client: Callable = None   # of a server: sends it what it has to do, and ends it; all may take some times longer
    needs: tuple = ()   # other programs that it or its client runs, each with its package
    times: int = 1   # a run starts the program so often, and its figures are means
    time: Callable = processor_time   # returns the seconds that are compared, from the figures and the program's output


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def words_of(number, count, length=8):
    source = random.Random(number)
    return ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, length))) for _ in range(count)]


# ---- data ----

def make_text(folder):
    words, source = words_of(1, 60000), random.Random(2)
    lines = (" ".join(source.choices(words, k=12)) for _ in range(35000))
    write(os.path.join(folder, "text"), "\n".join(lines) + "\n")


def make_json(folder):
    source, words = random.Random(3), words_of(4, 5000)
    rows = [{"id": i, "name": source.choice(words), "tags": source.choices(words, k=5),
             "at": {"x": source.random(), "y": i % 97}} for i in range(60000)]
    write(os.path.join(folder, "rows.json"), json.dumps(rows))


def make_xml(folder):
    source, words = random.Random(5), words_of(6, 5000)
    rows = (f'<row id="{i}" name="{source.choice(words)}"><at x="{source.random():.6f}"/><tag>{source.choice(words)}</tag>'
            f"<note>{' '.join(source.choices(words, k=6))}</note></row>" for i in range(120000))
    write(os.path.join(folder, "rows.xml"), "<rows>\n" + "\n".join(rows) + "\n</rows>\n")


def make_cpp(folder):
    parts = ["#include <algorithm>", "#include <functional>", "#include <map>", "#include <regex>", "#include <set>",
             "#include <string>", "#include <unordered_map>", "#include <vector>"]
    for i in range(8):
        parts.append(f"""struct key{i} {{
  int a[{i + 1}]; std::string name;
  bool operator<(const key{i} &other) const {{ return name < other.name; }}
}};
std::size_t work{i}(const std::vector<key{i}> &keys) {{
  std::map<key{i}, std::vector<std::string>> of; std::set<key{i}> seen(keys.begin(), keys.end());
  for (auto &k : keys) of[k].push_back(k.name + "{i}");
  std::vector<std::function<int(const key{i} &)>> calls;
  for (int n = 0; n < {i + 3}; n++) calls.push_back([n](const key{i} &k) {{ return k.a[0] + n; }});
  std::size_t sum = seen.size();
  for (auto &[k, names] : of) for (auto &call : calls) sum += names.size() + call(k);
  return sum;
}}""")
    write(os.path.join(folder, "large.cpp"), "\n".join(parts) + "\n")


SCRIPTS = {
    "work.py": """
import collections, json, sys
text = open(sys.argv[1]).read()
counts = collections.Counter(text.split())
rows = json.load(open(sys.argv[2]))
by_name = collections.defaultdict(list)
for row in rows:
    by_name[row["name"]].append({**row, "all": " ".join(row["tags"])})
lines = sorted(" ".join(reversed(line.split())) for line in text.splitlines())
print(len(counts), len(by_name), len(json.dumps(by_name)), len(lines))
""",
    "work.pl": r"""
my (%count, %pairs, @lines);
open my $in, '<', $ARGV[0] or die;
while (<$in>) {
  chomp;
  my @words = split / /;
  $count{$_}++ for @words;
  $pairs{"$words[$_] $words[$_+1]"}++ for 0 .. $#words - 1;
  s/\b(\w)(\w+)/\u$1$2/g;
  push @lines, join ',', reverse @words;
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print scalar(@sorted), ' ', scalar(keys %pairs), ' ', scalar(@lines), "\n";
""",
    "work.lua": """
local function tree(depth)
  if depth == 0 then return {} end
  return {tree(depth - 1), tree(depth - 1)}
end
local function count(node) return node[1] and 1 + count(node[1]) + count(node[2]) or 1 end
local long, sum = tree(17), 0
for _ = 1, 24 do sum = sum + count(tree(13)) end
local counts = {}
for line in io.lines(arg[1]) do
  for word in line:gmatch("%a+") do counts[word] = (counts[word] or 0) + 1 end
end
print(count(long), sum)
""",
    "work.rb": """
counts, pairs = Hash.new(0), Hash.new { |hash, key| hash[key] = [] }
File.foreach(ARGV[0]).with_index do |line, number|
  words = line.split
  words.each { |word| counts[word] += 1 }
  pairs[words.first] << [number, words.last.upcase]
end
puts counts.size, pairs.values.map(&:size).max, counts.sort_by { |word, count| [-count, word] }.first.inspect
""",
    "work.awk": """
{ for (i = 1; i <= NF; i++) { count[$i]++; if (i > 1) pair[$(i-1) " " $i]++ } line[NR] = toupper($0) }
END { n = 0; for (word in count) n += count[word]; print n, length(pair), length(line) }
""",
    "work.sql": """
CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT, tag TEXT, x REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
  INSERT INTO rows SELECT i, hex(i * 7919 % 100003), printf('%08d', i * 31 % 5000), i * 0.5 FROM n;
CREATE INDEX by_name ON rows(name);
CREATE INDEX by_tag ON rows(tag, x);
SELECT count(*), max(length(all_names)) FROM (SELECT tag, group_concat(name) AS all_names FROM rows GROUP BY tag);
SELECT count(*) FROM rows a JOIN rows b ON a.name = b.name AND a.id < b.id;
SELECT name FROM rows ORDER BY x * 17 % 1001, name LIMIT 3;
UPDATE rows SET tag = tag || name WHERE id % 3 = 0;
""",
}


def make_scripts(folder):
    for name, text in SCRIPTS.items():
        write(os.path.join(folder, name), text)


def make_document(folder):
    source, words = random.Random(7), words_of(8, 5000)
    pages = ["%!PS"]
    for _ in range(25):
        pages.append("/Times-Roman findfont 11 scalefont setfont")
        pages += [f"50 {780 - 12 * line} moveto ({' '.join(source.choices(words, k=12))}) show" for line in range(60)]
        pages += [f"{source.random():.3f} setgray {source.randint(50, 500)} {source.randint(50, 700)} {source.randint(5, 60)} "
                  f"0 360 arc stroke" for _ in range(200)]
        pages.append("showpage")
    write(os.path.join(folder, "document.ps"), "\n".join(pages) + "\n")


def make_repository(folder):
    """A history of a thousand commits of fifty files, written by git fast-import."""
    source, words = random.Random(9), words_of(10, 3000)
    files = [[" ".join(source.choices(words, k=8)) for _ in range(120)] for _ in range(50)]
    stream = []
    for number in range(1000):
        stream.append(f"commit refs/heads/main\ncommitter A <a@b> {1600000000 + 60 * number} +0000\ndata 6\nchange\n")
        for _ in range(3 if number else len(files)):
            which = source.randrange(len(files)) if number else len(stream) - 1
            files[which][source.randrange(120)] = " ".join(source.choices(words, k=8))
            text = "\n".join(files[which]) + "\n"
            stream.append(f"M 644 inline file{which}\ndata {len(text)}\n{text}")
    repository = os.path.join(folder, "repository.git")
    environment = {"PATH": PATH, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True, env=environment)
    subprocess.run(["git", "-C", repository, "fast-import", "--quiet"], check=True, env=environment, text=True,
                   input="".join(stream))


DATA = (make_text, make_json, make_xml, make_cpp, make_scripts, make_document, make_repository)


# ---- programs ----

def wait_until(ready, process, slower=1):
    """Returns when a server is ready, has ended, or is stuck. Its client finds out which."""
    deadline = time.monotonic() + STUCK_SECONDS * slower
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def load_redis(folder, process, slower=1):
    """Changes of strings and lists; the server is ended by its own command."""
    socket = os.path.join(folder, "redis.socket")
    wait_until(lambda: os.path.exists(socket), process, slower)
    load = ["redis-benchmark", "-s", socket, "-q", "-P", "16", "-r", "100000", "-n", "150000"]
    try:
        for job in (["-d", "100", "-t", "set,incr"], ["-d", "700", "-t", "set,lpush"]):
            subprocess.run(load + job, check=True, stdout=subprocess.DEVNULL, env={"PATH": PATH},
                           timeout=STUCK_SECONDS * slower)
    finally:
        subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env={"PATH": PATH}, timeout=STUCK_SECONDS)


def redis_command(folder):
    """redis-tools has the program of the server too, which does what its name says."""
    server = os.path.join(folder, "redis-server")
    if not os.path.exists(server):
        os.symlink("/usr/bin/redis-check-rdb", server)
    socket = os.path.join(folder, "redis.socket")
    if os.path.exists(socket):
        os.remove(socket)
    return [server, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", folder], {}


def plain(*arguments, **environment):
    """A command in which DATA stands for the directory."""
    def command(folder):
        return [argument.replace("DATA", folder) for argument in arguments], environment
    return command


REAL_PROGRAMS = [
    RealProgram("g++", "g++", "g++", "compiles eight classes with containers of the standard library",
                plain("g++", "-O1", "-std=c++17", "-S", "-o", "/dev/null", "DATA/large.cpp")),
    RealProgram("clang++", "clang++", "clang", "the same",
                plain("clang++", "-O1", "-std=c++17", "-S", "-o", "/dev/null", "DATA/large.cpp")),
    RealProgram("python", "python3", "python3", "counts words, reads and writes JSON; its objects are malloc's (PYTHONMALLOC)",
                plain("python3", "DATA/work.py", "DATA/text", "DATA/rows.json", PYTHONMALLOC="malloc", PYTHONHASHSEED="1")),
    RealProgram("perl", "perl", "perl", "counts words and pairs of them, and sorts",
                plain("perl", "DATA/work.pl", "DATA/text", PERL_HASH_SEED="1")),
    RealProgram("lua", "lua5.4", "lua5.4", "binary trees, and counts words", plain("lua5.4", "DATA/work.lua", "DATA/text")),
    RealProgram("ruby", "ruby", "ruby", "counts words", plain("ruby", "--disable-gems", "DATA/work.rb", "DATA/text")),
    RealProgram("gawk", "gawk", "gawk", "counts words and pairs of them", plain("gawk", "-f", "DATA/work.awk", "DATA/text")),
    RealProgram("sqlite", "sqlite3", "sqlite3", "fills, indexes, joins and changes a table in memory",
                plain("sqlite3", "-batch", ":memory:", ".read DATA/work.sql")),
    RealProgram("redis", "redis-check-rdb", "redis-tools", "a server, 600,000 changes through a socket",
                redis_command, load_redis),
    RealProgram("jq", "jq", "jq", "groups JSON",
                plain("jq", "-c", "group_by(.name) | map({(.[0].name): length}) | add | length", "DATA/rows.json")),
    RealProgram("xmllint", "xmllint", "libxml2-utils", "reads XML into a tree and asks it",
                plain("xmllint", "--xpath", "count(//row[tag = note])", "DATA/rows.xml")),
    RealProgram("git", "git", "git", "prints the changes of a thousand commits",
                plain("git", "-C", "DATA/repository.git", "--no-pager", "log", "-p", "--stat", "-M", "main",
                      GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")),
    RealProgram("imagemagick", "convert", "imagemagick", "draws, scales and blurs a picture",
                plain("convert", "-seed", "1", "-size", "1400x1000", "plasma:tomato-steelblue", "-resize", "60%",
                      "-blur", "0x3", "-colors", "64", "png:/dev/null")),
    RealProgram("ghostscript", "gs", "ghostscript", "renders 25 pages",
                plain("gs", "-q", "-dBATCH", "-dNOPAUSE", "-sDEVICE=png16m", "-r72", "-o", "/dev/null", "DATA/document.ps")),
]


def missing(program):
    """What of a program is not installed: binaries with their packages."""
    parts = ((program.binary, program.package), *program.needs)
    return [(binary, package) for binary, package in parts if shutil.which(binary, path=PATH) is None]
