# SPDX-License-Identifier: MIT
"""A second set of real programs, and their data. tidepool was not tuned for any of them.

The programs were chosen before they were measured: two languages for statistics and numerics, a JavaScript engine, a video
encoder, a C++ build, a database, a web server and a tool that copies files. Each does its usual work for about a second. Its
data does not fit into the caches of a core, and is the same each time.
"""
import functools
import os
import pwd
import random
import re
import shutil
import socket
import subprocess

import real_programs
from real_programs import PATH, RealProgram, make_text, plain, wait_until, words_of, write

MARIADBD, NGINX = "/usr/sbin/mariadbd", "/usr/sbin/nginx"


def fresh(folder, name):
    """Removes what an earlier run has left of a directory, and returns its path."""
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def prepare(*arguments):
    """Runs a program that makes data. No allocator is preloaded."""
    subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={"PATH": PATH, "LC_ALL": "C.UTF-8"}, timeout=real_programs.STUCK_SECONDS)


# ---- scripts ----

SCRIPTS = {
    "work.R": r"""
set.seed(1)
words <- unlist(strsplit(readLines(commandArgs(TRUE)[1]), " ", fixed = TRUE))
counts <- sort(table(words), decreasing = TRUE)
lengths <- tapply(nchar(words), substr(words, 1, 2), mean)
frame <- data.frame(group = sample(letters, 80000, TRUE), x = rnorm(80000), y = runif(80000))
frame$z <- 2 * frame$x - frame$y + rnorm(80000, sd = 0.1)
model <- lm(z ~ x + y + group, frame)
means <- aggregate(cbind(x, z) ~ group, frame, mean)
pasted <- vapply(split(frame$x, frame$group), function(x) paste(format(x[1:2000]), collapse = ","), "")
merged <- merge(frame[1:30000, ], means, by = "group")
cat(length(counts), counts[[1]], length(lengths), round(coef(model)[2:3], 3), nrow(merged), sum(nchar(pasted)), "\n")
""",
    "work.m": r"""
words = ostrsplit(fileread(argv(){end})(1:900000), " \n", true);
[unique_words, ~, index] = unique(words);
counts = accumarray(index(:), 1);
changed = regexprep(unique_words, '^(\w)(\w+)$', '$2$1');
table = containers.Map(changed, num2cell(1:numel(changed)));
[is_word, at] = ismember(words(1:3:end), unique_words);
records = struct("name", unique_words(1:4000), "count", num2cell(counts(1:4000)'));
joined = "";
for i = 1:numel(records)
  joined = [joined sprintf("%s:%d,", records(i).name, records(i).count)];
end
a = reshape(mod((1:250000) * 7919, 1009), 500, 500) / 1009 + 500 * eye(500);
b = a \ ones(500, 1);
for i = 1:40
  a = abs(ifft2(fft2(a) .* (1 + i / 1000)));
end
printf("%d %d %d %d %.6f %.4f\n", numel(unique_words), max(counts), table.Count + sum(at), numel(joined), sum(b), mean(a(:)));
""",
    "work.js": r"""
const fs = require("fs"), zlib = require("zlib"), { execFileSync } = require("child_process");
const lines = fs.readFileSync(process.argv[2], "utf8").split("\n");
if (process.argv[3]) {   // the child: compresses ten lines at a time
  let sum = 0;
  for (let i = 0; i < lines.length; i += 10)
    sum += zlib.deflateSync(Buffer.from(lines.slice(i, i + 10).reverse().join("\n"))).length;
  process.stdout.write(String(sum));
} else {
  const counts = new Map(), rows = [];
  for (const line of lines) {
    const words = line.split(" ");
    for (const word of words) counts.set(word, (counts.get(word) || 0) + 1);
    rows.push({ first: words[0], length: line.length, words });
  }
  const text = JSON.stringify(rows), again = JSON.parse(text);
  const buffers = lines.map(line => Buffer.from(line)), all = Buffer.concat(buffers);
  const compressed = zlib.gzipSync(all, { level: 3 });
  const upper = again.flatMap(row => row.words.map(word => word.toUpperCase() + row.length));
  upper.sort();
  const child = execFileSync(process.execPath, [__filename, process.argv[2], "child"]);
  console.log(counts.size, again.length, upper[0], text.length, all.length, zlib.gunzipSync(compressed).length, String(child));
}
""",
}


def make_scripts(folder):
    for name, text in SCRIPTS.items():
        write(os.path.join(folder, name), text)


# ---- a build of C++ ----

def make_project(folder):
    """A library of four sources, and a program that the build runs."""
    project = os.path.join(folder, "project")
    os.makedirs(project)
    sources = [f"part{i}.cpp" for i in range(4)]
    write(os.path.join(project, "CMakeLists.txt"), f"""cmake_minimum_required(VERSION 3.13)
project(parts CXX)
set(CMAKE_CXX_STANDARD 17)
add_library(parts STATIC {' '.join(sources)})
add_executable(sums main.cpp)
target_link_libraries(sums parts)
add_custom_command(OUTPUT sums.txt COMMAND sums > sums.txt DEPENDS sums)
add_custom_target(result ALL DEPENDS sums.txt)
""")
    write(os.path.join(project, "parts.h"), "#include <string>\n#include <vector>\n"
          + "".join(f"long part{i}(const std::vector<std::string> &words);\n" for i in range(len(sources))))
    for i, name in enumerate(sources):
        write(os.path.join(project, name), f"""#include "parts.h"
#include <algorithm>
#include <map>
struct entry{i} {{ std::string word; int at[{i + 1}]; }};
long part{i}(const std::vector<std::string> &words)
{{
  std::map<std::string, std::vector<entry{i}>> by_word;
  for (auto &word : words) by_word[word].push_back(entry{i}{{word + "{i}", {{{i}}}}});
  long sum = 0;
  for (auto &[word, entries] : by_word) {{
    std::sort(entries.begin(), entries.end(), [](auto &a, auto &b) {{ return a.word < b.word; }});
    sum += entries.size() * word.size() + entries[0].at[0];
  }}
  return sum;
}}
""")
    write(os.path.join(project, "main.cpp"), """#include "parts.h"
#include <cstdio>
int main()
{
  std::vector<std::string> words{"one", "two", "three", "two"};
  std::printf("%ld\\n", """ + " + ".join(f"part{i}(words)" for i in range(len(sources))) + ");\n}\n")


def build_command(folder):
    build = fresh(folder, "build")
    configure = f"cmake -S {folder}/project -B {build} -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=g++"
    return ["sh", "-ec", f"{configure}; cmake --build {build} -j 2"], {}


# ---- a clip ----

def ffmpeg_command(folder):
    """The first run makes the clip, also with ffmpeg."""
    clip = os.path.join(folder, "clip.mkv")
    if not os.path.exists(clip):
        prepare("ffmpeg", "-y", "-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=25:duration=8", "-f", "lavfi", "-i",
                "sine=frequency=440:duration=8", "-c:v", "mpeg2video", "-q:v", "4", "-c:a", "mp2", "-bitexact", clip)
    return ["ffmpeg", "-nostdin", "-v", "error", "-y", "-threads", "2", "-i", clip, "-vf", "scale=640:360", "-c:v", "libx264",
            "-preset", "veryfast", "-threads", "2", "-c:a", "aac", "-bitexact", os.path.join(folder, "encoded.mkv")], {}


# ---- copies ----

def write_dated(path, content, day):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    os.utime(path, (1600000000 + 86400 * day,) * 2)


def make_trees(folder):
    """A tree of six thousand files and three large ones, and the tree of the day before. A third of the files differ."""
    source = random.Random(21)
    text = " ".join(source.choices(words_of(22, 5000), k=1200000)).encode()
    for number in range(6003):
        length = source.randint(200, 6000) if number < 6000 else 5000000
        start = source.randrange(len(text) - length)
        content = text[start:start + length]
        day, name = 0, f"folder{number % 150}/file{number}"
        write_dated(os.path.join(folder, "tree.old", name), content, day)
        if number % 3 == 0 or number >= 6000:
            content, day = content[:length // 3] + b"changed" + content[length // 3:], 1
        write_dated(os.path.join(folder, "tree", name), content, day)


def rsync_command(folder):
    copy = fresh(folder, "tree.copy")
    return ["rsync", "-az", "--no-whole-file", f"--link-dest={folder}/tree.old", f"{folder}/tree/", copy], {}


# ---- MariaDB ----

MARIADB_SETTINGS = """[server]
datadir={place}/data
socket={place}/socket
pid-file={place}/pid
log-error={place}/log
tmpdir={place}
user=root
skip-networking
skip-grant-tables
innodb-buffer-pool-size=64M
innodb-log-file-size=16M
innodb-flush-log-at-trx-commit=0
innodb-use-native-aio=0
max-connections=20
table-open-cache=400
innodb-buffer-pool-dump-at-shutdown=0
"""
MARIADB_TABLES = """
CREATE DATABASE work;
USE work;
CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(40), place VARCHAR(20), x DOUBLE, note TEXT,
  KEY by_place (place, x), KEY by_name (name));
INSERT INTO people SELECT seq, HEX(seq * 7919 MOD 100003), CONCAT('place', seq MOD 500), seq * 31 MOD 5000 / 7,
  REPEAT(HEX(seq), 10) FROM seq_1_to_40000;
"""
MARIADB_REPORTS = """
SELECT place, COUNT(*), AVG(x), LENGTH(GROUP_CONCAT(name ORDER BY x, id SEPARATOR ',')) FROM people GROUP BY place;
SELECT COUNT(*) FROM people a JOIN people b ON a.name = b.name AND a.id < b.id;
SELECT COUNT(*), SUM(n) FROM (SELECT SUBSTR(note, 1, 6) AS start, COUNT(*) AS n FROM people GROUP BY start) AS starts;
UPDATE people SET name = CONCAT(name, '-', place) WHERE id MOD 4 = 0;
SELECT SUM(CRC32(CONCAT(id, name, x))) FROM people;
"""


def make_statements(folder):
    """One large insertion, thousands of small statements, and reports over the table."""
    source, words = random.Random(23), words_of(24, 3000)
    small = []
    for number in range(3000):
        at, word = source.randrange(1, 40000), source.choice(words)
        small += [f"INSERT INTO people VALUES ({50000 + number}, '{word}', 'place{at % 500}', {at}, '{word * 5}');",
                  f"SELECT id, name, note FROM people WHERE place = 'place{at % 500}' AND x < 100 ORDER BY name LIMIT 5;",
                  f"UPDATE people SET note = CONCAT('{word}', note), x = x + 1 WHERE id IN ({at}, {at + 1}, {at + 2});"]
    write(os.path.join(folder, "work.sql"), MARIADB_TABLES + "\n".join(small) + MARIADB_REPORTS)


def mariadb_command(folder):
    """Each run starts with a copy of the same empty database. The database is made once."""
    place, empty = os.path.join(folder, "mariadb"), os.path.join(folder, "mariadb.empty")
    settings = f"--defaults-file={place}/my.cnf"
    if not os.path.exists(empty):
        os.makedirs(place)
        write(os.path.join(place, "my.cnf"), MARIADB_SETTINGS.format(place=place))
        prepare("mariadb-install-db", settings, "--skip-test-db", "--auth-root-authentication-method=normal")
        shutil.copytree(os.path.join(place, "data"), empty)
    shutil.copytree(empty, fresh(place, "data"))
    return [MARIADBD, settings], {}


def load_mariadb(folder, process, slower=1):
    """One client sends all statements. Another ends the server."""
    path, limit = os.path.join(folder, "mariadb", "socket"), real_programs.STUCK_SECONDS * slower
    client = ["mariadb", "--no-defaults", "--batch", "-S", path]
    wait_until(functools.partial(accepts, socket.AF_UNIX, path), process, slower)
    try:
        with open(os.path.join(folder, "work.sql"), encoding="utf-8") as statements, \
                open(os.path.join(folder, "mariadb.out"), "w", encoding="utf-8") as out:
            subprocess.run(client, check=True, stdin=statements, stdout=out, env={"PATH": PATH}, timeout=limit)
    finally:
        subprocess.run([*client, "-e", "SHUTDOWN"], check=False, stderr=subprocess.DEVNULL, env={"PATH": PATH}, timeout=limit)


# ---- nginx ----

NGINX_SETTINGS = """
{user}
daemon off;
worker_processes 2;
pid {place}/pid;
error_log {place}/log error;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {place}/temporary;
  proxy_temp_path {place}/temporary;
  fastcgi_temp_path {place}/temporary;
  uwsgi_temp_path {place}/temporary;
  scgi_temp_path {place}/temporary;
  default_type text/html;
  keepalive_requests 1000000;
  gzip on;
  gzip_comp_level 1;
  gzip_http_version 1.0;   # of ab
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://unix:{place}/behind; }}
    location /part {{ root {folder}/site; }}
  }}
  server {{
    listen unix:{place}/behind;
    root {folder}/site;
    ssi on;
  }}
}}
"""
NGINX_PAGES = 10


def make_site(folder):
    """Pages of forty parts of 16 KiB each."""
    site, source, words = os.path.join(folder, "site"), random.Random(25), words_of(26, 5000)
    os.makedirs(site)
    for page in range(NGINX_PAGES):
        parts = [f"part{page}-{number}.html" for number in range(40)]
        for part in parts:
            write(os.path.join(site, part), " ".join(source.choices(words, k=4000))[:16384])
        includes = "".join(f'<!--# include virtual="/{part}" -->\n' for part in parts)
        write(os.path.join(site, f"page{page}.html"), f"<html>\n{includes}</html>\n")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def nginx_command(folder):
    """The workers serve two sites: one assembles pages from parts, and the other fetches them from it and compresses them."""
    place = fresh(folder, "nginx")
    os.makedirs(place)
    port = str(free_port())
    write(os.path.join(place, "port"), port)
    settings = NGINX_SETTINGS.format(place=place, folder=folder, port=port, user="user root;" if os.geteuid() == 0 else "")
    return [NGINX, "-e", f"{place}/log", "-c", write(os.path.join(place, "settings"), settings)], {}


def get_pages(port, path, count, limit):
    """Requests a page `count` times over eight connections. All answers must be complete."""
    done = subprocess.run(["ab", "-q", "-k", "-c", "8", "-n", str(count), "-H", "Accept-Encoding: gzip",
                           f"http://127.0.0.1:{port}/{path}"], check=True, capture_output=True, text=True, env={"PATH": PATH},
                          timeout=limit)
    if not re.search(rf"Complete requests: +{count}\nFailed requests: +0\n(?!Non-2xx)", done.stdout):
        raise subprocess.SubprocessError(f"ab: failed requests of {path}")


def load_nginx(folder, process, slower=1):
    place, limit = os.path.join(folder, "nginx"), real_programs.STUCK_SECONDS * slower
    with open(os.path.join(place, "port"), encoding="utf-8") as file:
        port = int(file.read())
    wait_until(functools.partial(accepts, socket.AF_INET, ("127.0.0.1", port)), process, slower)
    try:
        for page in range(NGINX_PAGES):
            get_pages(port, f"page{page}.html", 15, limit)
            get_pages(port, f"part{page}-0.html", 200, limit)
    finally:
        subprocess.run([NGINX, "-e", f"{place}/log", "-c", f"{place}/settings", "-s", "quit"], check=False,
                       stderr=subprocess.DEVNULL, env={"PATH": PATH}, timeout=limit)


def accepts(family, address):
    """Says whether a server listens there."""
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        return connection.connect_ex(address) == 0


# ---- programs ----

DATA = (make_text, make_scripts, make_project, make_trees, make_statements, make_site)

REAL_PROGRAMS = [
    RealProgram("R", "R", "r-base-core", "counts words, fits a linear model, groups and merges tables",
                plain("R", "--vanilla", "--no-echo", "-f", "DATA/work.R", "--args", "DATA/text")),
    RealProgram("octave", "octave-cli", "octave", "counts words, joins strings, solves equations, transforms matrices",
                plain("octave-cli", "--norc", "--no-history", "--quiet", "DATA/work.m", "DATA/text", OMP_NUM_THREADS="1",
                      OPENBLAS_NUM_THREADS="1")),
    RealProgram("node", "node", "nodejs", "counts words, writes and reads JSON, compresses buffers, also in a child",
                plain("node", "--hash-seed=1", "--random-seed=1", "DATA/work.js", "DATA/text")),
    RealProgram("ffmpeg", "ffmpeg", "ffmpeg", "decodes eight seconds of video, scales them and encodes H.264", ffmpeg_command),
    RealProgram("ninja", "cmake", "cmake", "cmake configures a project of five sources, ninja and g++ build it",
                build_command, needs=(("ninja", "ninja-build"), ("g++", "g++"))),
    RealProgram("mariadb", MARIADBD, "mariadb-server-core", "a server, 9,000 small statements and some reports",
                mariadb_command, load_mariadb, needs=(("mariadb", "mariadb-client-core"),)),
    RealProgram("nginx", NGINX, "nginx", "a server, two workers assemble, compress and send pages",
                nginx_command, load_nginx, needs=(("ab", "apache2-utils"),)),
    RealProgram("rsync", "rsync", "rsync", "copies a tree of 6,000 files, and sends only the differences from an older tree",
                rsync_command),
]
