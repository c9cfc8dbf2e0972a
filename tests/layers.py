# SPDX-License-Identifier: MIT
"""Checks that every include in src/ points downwards, as the table in src/README.md has it.

usage: layers.py SRC
       layers.py --self-test"""

import pathlib
import re
import sys
import tempfile

HEAP_AND_BELOW = {"heap", "heap_life", "magazine", "thread", "pool", "slab", "space", "arena", "run", "class_map", "huge", "guard",
                  "gate", "size_class", "budget", "metadata", "option", "os", "base"}
# The files that heap.h declares beside heap.c.
PART_OF_HEAP = HEAP_AND_BELOW - {"heap_life"}
EVERYTHING = object()

# A unit is a folder that holds a leaf toolbox (base, os) or the name of a .c/.h pair; each may include itself.
MAY_INCLUDE = {
    "base": set(),
    "os": {"base"},
    "size_class": {"base"},
    "option": {"os", "base"},
    "budget": {"os", "base"},
    "gate": {"os", "base"},
    "class_map": {"os", "base"},
    "metadata": {"class_map", "os", "base"},
    "run": {"class_map", "base"},
    "arena": {"run", "class_map", "os", "base"},
    "space": {"arena", "class_map", "budget", "option", "os", "base"},
    "purge": {"space", "gate", "option", "os", "base"},
    "huge": {"gate", "metadata", "option", "os", "base"},
    "slab": {"space", "base"},
    "guard": {"size_class", "os", "base"},
    "pool": {"slab", "size_class", "budget", "metadata", "os", "base"},
    "magazine": {"pool", "thread", "metadata", "class_map", "os", "base"},
    "thread": {"pool", "magazine", "metadata", "class_map", "os", "base"},
    "heap": HEAP_AND_BELOW,
    "startup": PART_OF_HEAP,
    "tick": PART_OF_HEAP,
    "large": PART_OF_HEAP,
    "locate": PART_OF_HEAP,
    "allocate": PART_OF_HEAP,
    "heap_life": HEAP_AND_BELOW,
    "walk": HEAP_AND_BELOW,
    "front/pool_front": HEAP_AND_BELOW | {"check"},
    "front/heap_front": HEAP_AND_BELOW | {"check", "front/pool_front"},
    "front/object_pool": HEAP_AND_BELOW | {"check"},
    # The fast path's header, for one jump less.
    "front/malloc": {"os", "base", "front/pool_front"},
    "front/malloc_info": {"os", "base", "front/pool_front"},
    "front/new_delete": {"os", "base", "front/pool_front"},
    "check": EVERYTHING,
    "stats": EVERYTHING,
}
MAY_INCLUDE_PUBLIC_HEADERS = {"heap", "heap_life", "stats", "check"}
# The platform is a file: what names an operating system is in os.
PLATFORM_HEADER = re.compile(r"(sys|linux|asm|mach|bits)/|unistd\.h$|windows\.h$")
PLATFORM_MACRO = re.compile(r"^\s*#\s*(?:el)?if.*\b(__linux__|__unix__|__APPLE__|__FreeBSD__|_WIN32)\b")
# Headers that print or allocate.
HEAVY_HEADER = re.compile(r"(stdio|stdlib|malloc)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def unit_of(path):
    """The unit of a path relative to src: "base" for base/bits.h, "arena" for arena.h, "front/malloc" for a front."""
    parts = pathlib.PurePosixPath(path).parts
    if len(parts) == 1:
        return pathlib.PurePosixPath(path).stem.removesuffix("_table")
    return parts[0] if parts[0] in ("base", "os") else "/".join(parts[:-1] + (pathlib.PurePosixPath(path).stem,))


def is_below(unit, other):
    allowed = MAY_INCLUDE[unit]
    return unit == other or allowed is EVERYTHING or other in allowed


def problem_of_own(source, unit, name):
    if not (source / name).is_file():
        return f'"{name}" is not a file of src; paths are relative to src'
    if not is_below(unit, unit_of(name)):
        return f"{unit} may not include {unit_of(name)}"
    return None


def problem_of_system(unit, name):
    if name == "tidepool.h" or name.startswith("tidepool/"):
        public = unit in MAY_INCLUDE_PUBLIC_HEADERS or unit.startswith("front/")
        return None if public else f"{unit} may not include the public <{name}>"
    if unit != "os" and PLATFORM_HEADER.match(name):
        return f"<{name}> belongs to os"
    if unit == "base" and HEAVY_HEADER.match(name):
        return f"base may not include <{name}>"
    return None


def problems_of_line(source, unit, line):
    macro = PLATFORM_MACRO.match(line)
    if macro and unit != "os":
        yield f"{macro[1]} belongs to os"
    include = INCLUDE.match(line)
    if include:
        own = include[1] == '"'
        problem = problem_of_own(source, unit, include[2]) if own else problem_of_system(unit, include[2])
        if problem:
            yield problem


def problems(source):
    """Every violation under the folder `source`, as file:line: what."""
    for file in sorted(path for path in source.rglob("*") if path.suffix in (".c", ".h", ".inc")):
        name = file.relative_to(source).as_posix()
        unit = unit_of(name)
        if unit not in MAY_INCLUDE:
            yield f"{name}: the unit {unit} has no row in the table of layers"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for problem in problems_of_line(source, unit, line):
                yield f"{name}:{number}: {problem}"


GOOD_TREE = {
    "base/bits.h": "#include <stdint.h>\n",
    "os/os.h": '#include "base/bits.h"\n',
    "os/linux.c": '#include "os/os.h"\n#include <sys/mman.h>\n#ifdef __linux__\n#endif\n',
    "class_map.h": '#include "base/bits.h"\n',
    "run.h": '#include "class_map.h"\n',
    "arena.h": '#include "run.h"\n#include "os/os.h"\n',
    "arena.c": '#include "arena.h"\n#include <string.h>\n',
    "space.h": '#include "arena.h"\n',
    "purge.c": '#include "space.h"\n',
    "slab.h": '#include "space.h"\n',
    "pool.h": '#include "slab.h"\n',
    "heap.h": '#include "pool.h"\n#include <tidepool/heap.h>\n',
    "heap_life.h": '#include "heap.h"\n',
    "walk.c": '#include "heap_life.h"\n',
    "check.h": '#include "heap.h"\n',
    "front/pool_front.c": '#include "heap.h"\n#include "check.h"\n#include <tidepool.h>\n',
}
# One more file each, and the words of the complaint.
BAD_FILES = [
    ("base/more.c", '#include "os/os.h"\n', "base may not include os"),
    ("base/print.c", "#include <stdio.h>\n", "base may not include <stdio.h>"),
    ("arena_extra.c", '#include "arena.h"\n', "has no row"),
    ("class_map.c", '#include "arena.h"\n', "class_map may not include arena"),
    ("slab.c", '  #  include "pool.h"\n', "slab may not include pool"),
    ("arena.c", '#include "space.h"\n', "arena may not include space"),
    ("locate.c", '#include "heap_life.h"\n', "locate may not include heap_life"),
    ("heap.c", '#include "check.h"\n', "heap may not include check"),
    ("pool.c", "#include <tidepool/pool.h>\n", "may not include the public"),
    ("thread.c", "#include <sys/mman.h>\n", "belongs to os"),
    ("magazine.c", "#if defined(__linux__)\n#endif\n", "__linux__ belongs to os"),
    ("front/malloc.c", '#include "heap.h"\n', "front/malloc may not include heap"),
    ("stats.c", '#include "nowhere.h"\n', "is not a file of src"),
]


def problems_of_tree(files):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder)
        for name, text in files.items():
            (source / name).parent.mkdir(exist_ok=True)
            (source / name).write_text(text)
        return list(problems(source))


def self_test():
    found = problems_of_tree(GOOD_TREE)
    if found:
        sys.exit(f"a tree without a violation: {found}")
    for name, text, words in BAD_FILES:
        found = problems_of_tree({**GOOD_TREE, name: text})
        if len(found) != 1 or words not in found[0]:
            sys.exit(f"{name} with {text!r}: expected {words!r}, found {found}")


def main():
    if sys.argv[1] == "--self-test":
        self_test()
        return
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
