# SPDX-License-Identifier: MIT
"""Checks that no function of src/debug is in a plain library, and that each debug library has functions of every file there.

usage: plain.py SOURCES --plain LIBRARY... --debug LIBRARY...

The functions are those that the files in SOURCES/debug define and no other file does, since two files may have static functions
of one name. Libraries are not stripped, so nm tells of local functions too."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

# A definition begins at the beginning of a line, and a body follows its parameters.
ATTRIBUTE = r"(?:__attribute__\(\([^\n]*?\)\) )?"
DEFINITION = re.compile(r"^(?!typedef|struct|enum|union|#|\s|\})" + ATTRIBUTE + r"[^;{}=()#]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def functions_of(file):
    return set(DEFINITION.findall(COMMENT.sub("", file.read_text())))


def names_in(library):
    """The compiler may have put a part of a function elsewhere: name.cold, name.part.0."""
    lines = subprocess.run(["nm", library], check=True, capture_output=True, text=True,
                           env={**os.environ, "LC_ALL": "C"}).stdout.splitlines()
    fields = [line.split() for line in lines]
    return {words[2].split(".")[0] for words in fields if len(words) == 3 and words[1] in "tTwW"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("--plain", nargs="+", required=True)
    parser.add_argument("--debug", nargs="+", required=True)
    arguments = parser.parse_args()
    folder = arguments.sources / "debug"
    of_core = set().union(*(functions_of(file) for file in arguments.sources.rglob("*.c") if file.parent != folder))
    functions = {file: functions_of(file) - of_core for file in sorted(folder.glob("*.c"))}
    wrong = [f"{file}: no function found" for file, names in functions.items() if not names]
    if not functions:
        sys.exit(f"{folder} has no sources")
    for library in arguments.debug:
        found = names_in(library)
        wrong += [f"{library} has no function of {file}" for file, names in functions.items() if not names & found]
    for library in arguments.plain:
        found = names_in(library)
        wrong += [f"{library} has {name} of {file}" for file, names in functions.items() for name in sorted(names & found)]
        if not found & {"tidepool_alloc", "malloc"}:
            wrong.append(f"{library} has no functions")
    print(*wrong, sep="\n")
    sys.exit(1 if wrong else 0)


main()
