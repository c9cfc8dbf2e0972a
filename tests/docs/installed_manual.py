# SPDX-License-Identifier: MIT
"""Installs the manual into a folder of its own and reads it there, as a user does: every public function has a page, the page
is the one that tells of it, and apropos finds both.

usage: installed_manual.py SOURCE BUILD PREFIX MANUAL-FOLDER MANDOC

MANUAL-FOLDER is where the build installs manual pages, below PREFIX or absolute. Exit status 77: there is no meson."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is
import pages

SKIPPED = 77
# What makes the index of a manual, in a system's folder or not, and what looks into it: mandoc's, and man-db's.
INDEXES = ((["makewhatis"], ["mapropos", "apropos"]), (["mandb", "--create", "--quiet"], ["apropos"]))
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def output_of(*command, folder, environment=None):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env={**os.environ, "LC_ALL": "C", **(environment or {})}, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def public_functions(source):
    for header in sorted((source / "include/tidepool").glob("*.h")):
        if header.name in pages.NOT_FOR_USERS:
            continue
        yield from pages.public_functions(header.read_text())


def plain(text):
    """Bold and underlined letters are struck twice."""
    return re.sub(r".\x08", "", text)


def unread_pages(manual, names, read):
    """Pages that are not there, or do not have the function in what is printed of them. The page that many links lead to is
    printed once."""
    printed = functools.cache(lambda page: plain(read(page)))
    for name in names:
        page = manual / "man3" / f"{name}.3"
        if not page.exists():
            yield f"{name} has no manual page"
        elif not re.search(rf"\b{name}\(", printed(page.resolve())):
            yield f"{page.name} does not tell of {name}"


def found_by(apropos, manual, word):
    """The names of all pages that apropos tells of."""
    said = subprocess.run([apropos, "-M", manual, word], capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    return {name for line in said.splitlines() for name in re.findall(r"[\w-]+", line.partition(" - ")[0])}


def indexes_of(manual):
    """Each index that can be made here, with what looks into it. One apropos does not know the other's."""
    for maker, searchers in INDEXES:
        program = shutil.which(maker[0], path=PLACES)
        searcher = next(filter(None, map(shutil.which, searchers)), None)
        is_other = searcher and searchers[0] not in searcher and shutil.which("mandb")
        if program and searcher and not is_other:
            output_of(program, *maker[1:], manual, folder=manual)
            yield searcher


def not_found(manual, source, names):
    """Of each index: the pages by the name of the project, and the functions by theirs. The page of the malloc library may have
    been left out with it."""
    titles = {pathlib.PurePath(name).stem for name in pages.pages_of(source)
              if name.endswith(".3") or (manual / "man1" / name).exists()}
    for apropos in indexes_of(manual):
        missing = sorted(titles - found_by(apropos, manual, "tidepool"))
        yield from (f"{apropos} tidepool does not find {title}" for title in missing)
        yield from (f"{apropos} {name} finds nothing" for name in names if name not in found_by(apropos, manual, name))


def main():
    source, build, folder, mandoc = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(*sys.argv[3:5]), sys.argv[5]
    if not shutil.which("meson"):
        print("skipped: meson is not installed")
        return SKIPPED
    names = list(public_functions(source))
    if not names:
        sys.exit("no function found in the headers")
    with tempfile.TemporaryDirectory() as root:
        output_of("meson", "install", "-C", build, "--no-rebuild", "--tags", "man", "--destdir", root, folder=source)
        manual = pathlib.Path(root).resolve() / folder.relative_to("/")
        readers = [lambda page: output_of(mandoc, "-T", "ascii", page.relative_to(manual), folder=manual)]
        # Some systems have a man that only says where manuals can be had.
        man = shutil.which("man")
        if man and subprocess.run([man, "-M", manual, "-w", "3", "tidepool"], capture_output=True, check=False).returncode == 0:
            readers.append(lambda page: output_of(man, "-M", manual, "3", page.stem, folder=manual,
                                                  environment={"MANPAGER": "cat", "PAGER": "cat"}))
        problems = [problem for read in readers for problem in unread_pages(manual, names, read)]
        problems += not_found(manual, source, names)
        output_of(mandoc, "-T", "lint", "-W", "error", *sorted(manual.glob("man?/*")), folder=manual)
    print("\n".join(problems) or f"{len(names)} functions, {len(readers)} ways to read of each")
    return 1 if problems else 0


sys.exit(main())
