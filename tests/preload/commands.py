# SPDX-License-Identifier: MIT
"""Commands that work on files: what they read is made here, always the same."""

import random

from sandbox import Failure, case, some_of


@case("sqlite3")
def sqlite3(sandbox):
    return sandbox.run("sqlite3", "data.db", text=f"""
PRAGMA cache_size = 500;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, size INTEGER, note BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {some_of(120000)})
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


@case("openssl")
def openssl(sandbox):
    sandbox.run("openssl", "genrsa", "-out", "key", "2048")
    sandbox.write("text", "some text\n" * 20000)
    sandbox.run("openssl", "dgst", "-sha256", "-sign", "key", "-out", "signature", "text")
    sandbox.run("openssl", "rsa", "-in", "key", "-pubout", "-out", "public")
    return sandbox.run("openssl", "dgst", "-sha256", "-verify", "public", "-signature", "signature", "text")
