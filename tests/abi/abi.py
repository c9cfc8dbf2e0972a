# SPDX-License-Identifier: MIT
"""Compares the interface of libtidepool.so with a baseline, by libabigail: a program that was linked with an older library must
run with this one. What stands in no public header is left out, so that records may change.

usage: abi.py compare BASELINE LIBRARY HEADERS    LIBRARY has debug information; HEADERS is the folder of the public headers
       abi.py renew BASELINE LIBRARY HEADERS      writes the baseline anew
       abi.py self-test CC..."""

import pathlib
import re
import subprocess
import sys
import tempfile

PUBLIC_ALONE = ["--drop-private-types", "--exported-interfaces-only"]
# What would tell of the machine, the folder or the compiler.
NEITHER_HERE_NOR_NOW = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-architecture", "--no-elf-needed",
                        "--no-parameter-names", "--no-write-default-sizes", "--type-id-style", "hash"]
UNIT = re.compile(r"(<abi-instr [^>]*?)\bpath='[^']*/([^/']+)' language='[^']*'")
RENEW = """
A program that was linked with an older library may not run with this one. If that is meant, or if all that changed is that
something was added, renew the baseline with `ninja abi-baseline` in the build directory and commit it with the change. What
breaks programs needs another tidepool_soversion, too."""


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def renew(baseline, library, headers):
    status, text, complaint = run("abidw", *PUBLIC_ALONE, *NEITHER_HERE_NOR_NOW, "--headers-dir", headers, library)
    if status != 0:
        sys.exit(f"abidw ended with {status}: {complaint}")
    pathlib.Path(baseline).write_text(UNIT.sub(r"\1path='\2'", text))


def difference(baseline, library, headers):
    """What abidiff says of a library that differs, or None. It does not end with 0 for a change of the interface.
    It reads two files: of the library itself it could tell what is public, but not of the baseline, which has no locations, and
    would pass over a member that moved."""
    with tempfile.TemporaryDirectory() as folder:
        now = pathlib.Path(folder, "now.abi")
        renew(now, library, headers)
        status, text, complaint = run("abidiff", "--no-default-suppression", baseline, now)
    return None if status == 0 else text + complaint


HEADER = """struct options { int first; long second; };
typedef struct record record_t;
int take(record_t *record, int count);
int give(const struct options *options);
"""
LIBRARY = """#include "record.h"
#include <public.h>
int take(record_t *record, int count) { return record->count += count; }
int give(const struct options *options) { return options->first; }
"""
RECORD = "struct record { int count; };\n"
# What is replaced in all three, by what, and a word of the report; None: the interface is the same.
CHANGES = [
    ("+= count", "-= count", None),
    ("struct record { int", "struct record { long more; int", None),
    ("int give(", "static int __attribute__((unused)) gave(", "give"),
    ("record, int count", "record, long count", "take"),
    ("const struct options *options", "const struct options *options, int more", "give"),
    ("int give(", "void *give(", "give"),
    ("options->first; }", "options->first; }\nint added(void) { return 0; }", "added"),
    ("int first; long second;", "long second; int first;", "options"),
    ("long second;", "long second; int third;", "options"),
    ("int first;", "unsigned first;", "options"),
]


def build(folder, compiler, before="", after=""):
    headers = folder / "headers"
    headers.mkdir(parents=True)
    for file, text in (headers / "public.h", HEADER), (folder / "record.h", RECORD), (folder / "library.c", LIBRARY):
        file.write_text(text.replace(before, after) if before else text)
    library = folder / "library.so"
    status, _, complaint = run(*compiler, "-g", "-O0", "-w", "-shared", "-fPIC", "-I", headers, "-o", library,
                               folder / "library.c")
    if status != 0:
        sys.exit(f"{before!r}, {after!r}: {complaint}")
    return library, headers


def self_test(compiler):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        baseline = folder / "baseline.abi"
        renew(baseline, *build(folder / "old", compiler))
        if name in baseline.read_text():
            sys.exit("the baseline has a path of this machine")
        if difference(baseline, *build(folder / "same", compiler)):
            sys.exit("the same library differs")
        for number, (before, after, expected) in enumerate(CHANGES):
            found = difference(baseline, *build(folder / str(number), compiler, before, after))
            if (found is None) != (expected is None) or expected and expected not in found:
                sys.exit(f"{before!r} became {after!r}: expected {expected!r}, found {found!r}")


def main():
    if sys.argv[1] == "self-test":
        self_test(sys.argv[2:])
    elif sys.argv[1] == "renew":
        renew(*sys.argv[2:])
    else:
        found = difference(*sys.argv[2:])
        if found:
            sys.exit(found + RENEW)


main()
