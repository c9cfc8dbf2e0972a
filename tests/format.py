# SPDX-License-Identifier: MIT
"""Checks that files are as .clang-format and .editorconfig say: the C and C++ sources as clang-format 14 writes them, the width
of lines, no blank at the end of a line, a newline at the end of a file; and that no source is longer than 450 lines.

usage: format.py ROOT [--write]    --write formats the sources"""

import pathlib
import re
import shutil
import subprocess
import sys

VERSION = "14."         # another one writes the same style in another way
FOLDERS = ("src", "include", "tests", "bench", "examples", "bindings", "tools", "docs", "debian")
SOURCES = {".c", ".h", ".cc", ".cpp", ".hpp"}
WIDTHS = {suffix: 128 for suffix in SOURCES | {".py", ".rs"}}
TEXTS = SOURCES | {".inc", ".py", ".rs", ".toml", ".md", ".build", ".sh", ".map", ".golden", ".txt"}
LINES_MOST = 450        # of a source; a header of the interface may be longer
NOT_AVAILABLE = 77


def files_of(root):
    for folder in FOLDERS:
        yield from sorted(path for path in (root / folder).rglob("*") if path.is_file() and not path.is_symlink())
    yield from sorted(path for path in root.iterdir() if path.suffix in TEXTS)


def formatter():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], check=True, capture_output=True, text=True).stdout
            if re.search(r"version " + re.escape(VERSION), version):
                return name
    return None


def problems_of_text(path, text):
    width = WIDTHS.get(path.suffix)
    for number, line in enumerate(text.split("\n"), 1):
        if width and len(line) > width:
            yield f"{path}:{number}: {len(line)} columns, more than {width}"
        if line != line.rstrip():
            yield f"{path}:{number}: a blank at the end of the line"
    if path.suffix in SOURCES | {".py", ".rs"} and "include" not in path.parts and text.count("\n") > LINES_MOST:
        yield f"{path}: {text.count(chr(10))} lines, more than {LINES_MOST}"
    if text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"


def problems_of_sources(name, root, sources):
    """With one process for all: there are hundreds."""
    done = subprocess.run([name, "--dry-run", "-Werror", *sources], check=False, capture_output=True, text=True, cwd=root)
    wrong = sorted(set(re.findall(r"^(.*?):\d+:\d+: error: code should be clang-formatted", done.stderr, re.M)))
    for source in wrong:
        yield f"{source}: clang-format writes it otherwise; tests/format.py ROOT --write does"
    if done.returncode and not wrong:
        yield done.stderr.strip()


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    files = [path for path in files_of(root) if path.suffix in TEXTS and "corpus" not in path.parts]
    sources = [path for path in files if path.suffix in SOURCES]
    name = formatter()
    if sys.argv[2:] and name:
        subprocess.run([name, "-i", *sources], check=True, cwd=root)
    found = [problem for path in files for problem in problems_of_text(path, path.read_text())]
    found += problems_of_sources(name, root, sources) if name else []
    print("\n".join(found))
    if not found and not name:
        print("there is no clang-format 14: the sources were not compared with what it writes")
        sys.exit(NOT_AVAILABLE)
    sys.exit(1 if found else 0)


main()
