# SPDX-License-Identifier: MIT
"""Checks that every include in src/ points downwards in the one list of layers below, that the table of src/README.md has the
folders in that order, that no two files have a function of the same name, static or not, and that giving back has no more verbs
than the glossary of docs/DESIGN.md defines.

usage: layers.py SRC
       layers.py --self-test"""

import pathlib
import re
import sys
import tempfile

# Bottom up: a folder of src ("" is src itself) and its units, which are pairs of .c and .h or one of the two. A unit may
# include itself and what stands before it.
LAYERS = [
    ("base", ["machine", "fill", "bits", "low_water", "text", "list", "trees", "granules", "granule_rows", "granules_ask",
              "granules_cut"]),
    ("os", ["embedded/atomics", "embedded/errno", "embedded/string", "os", "tool", "parts", "lock", "window", "unix",
            "unix_tool", "posix", "windows", "windows_process", "linux_lines", "linux", "linux_threads", "embedded"]),
    ("", ["misuse", "option", "size_class"]),
    ("space", ["class_map", "budget", "refusals", "metadata", "arena", "huge_pages", "units", "space", "slots", "purge", "move",
               "huge"]),
    ("bin", ["depot", "bin", "due", "slab", "slabs", "ask"]),
    ("thread", ["magazines", "readers", "thread", "caches"]),
    ("heap", ["heap", "debug_hooks", "invalid", "life", "granular", "guest", "large", "block_source", "locate", "figures",
              "tick", "helper_threads", "manager", "blocks", "attempt", "exhausted", "reallocate", "walk", "region", "options",
              "create"]),
    ("object_pool", ["types", "array", "operations", "cache", "hooks", "registry", "capacity", "find", "get_put", "create"]),
    ("api", ["fast_path", "new_names", "pool", "heap", "malloc", "new_delete", "loader", "stats"]),
    ("debug", ["system", "places", "linux_reader", "linux_tables", "linux_find_object", "linux_modules",
               "linux_expression", "linux_seen", "linux_registers", "linux_walk", "linux_stack", "linux_faults",
               "linux_memory", "linux_output", "linux_places", "messages", "sites", "sampling", "head_layout", "head",
               "quarantine", "headed", "guard_area", "guard_pages", "sample_pages", "profile_lines", "profile_text",
               "profile", "export_page", "export_root", "export", "report", "leak_search", "leaks", "observe"]),
    ("embedded", ["misuse", "front", "blocks", "heaps"]),
]
UNITS = [f"{folder}/{unit}".lstrip("/") for folder, units in LAYERS for unit in units]

# What may be included of what stands below, where that is less than everything. The C library's names see the manager through
# the fast path alone, for one jump less. Interfaces and object pools ask heaps, and do not reach for what heaps are made of;
# but for the fast paths, which are there to reach, and for gates and records, which are for all.
LOW = {"base", "os", "misuse", "option", "size_class"}
NARROW = {
    **{f"api/{unit}": {"base", "os", "misuse", "api/fast_path", "api/new_names"} for unit in ("malloc", "new_delete")},
    "api/loader": {"base", "os", "option", "heap"},
    **{f"api/{unit}": LOW | {"heap", "object_pool", "api/fast_path"} for unit in ("pool", "stats")},
    **{f"object_pool/{unit}": LOW | {"heap", "object_pool", "space/metadata"}
       for unit in dict(LAYERS)["object_pool"]},
    **{f"embedded/{unit}": {"base", "os", "misuse", "heap", "object_pool", "debug/head", "debug/sites", "embedded"}
       for unit in dict(LAYERS)["embedded"]},
}
# Where a lower layer calls a higher one: a pointer that the higher one sets.
CALLS_UP = {
    "misuse.h": {"fatal_before_abort", "fatal_heap_name", "fatal_say_frames"},   # set by heap/manager and debug/observe
    "heap/heap.h": {"heap_dependents"},             # set by object_pool/registry
    "debug/export.h": {"export_figures"},           # set by debug/observe, to a function of api/stats
}
# These may include the public headers, and so may all of object_pool, api and debug.
PUBLIC = {"os/embedded", "heap/heap", "heap/locate", "heap/figures", "heap/region", "heap/life", "heap/guest", "heap/create"}
PUBLIC_FOLDERS = ("object_pool/", "api/", "debug/", "embedded/")
PUBLIC_EVERYWHERE = {"tidepool/version.h"}   # numbers, and no type

# The platform is a file: what names an operating system is in os.
# The debug library's part of it is beside what needs it.
PLATFORM_UNITS = ("os/", "debug/linux_")
PLATFORM_HEADER = re.compile(r"(sys|linux|asm|mach|bits)/|unistd\.h$|windows\.h$")
# Of these Linux alone has all: a port would not compile with them.
LINUX_HEADER = re.compile(r"(linux|asm)/|sys/(auxv|eventfd|prctl|random|syscall|sysinfo|uio)\.h$")
# Files of which a build has some; it has all others.
WITH_ADDRESSES = {"linux", "posix", "windows"}   # which firmware has none of
ALL_SYSTEMS = {"embedded", *WITH_ADDRESSES}
SYSTEMS = {"os/embedded": {"embedded"}, "os/linux": {"linux"}, "os/posix": {"posix"}, "os/unix": {"linux", "posix"},
           "os/windows": {"windows"}, "os/window": WITH_ADDRESSES, "embedded/": {"embedded"}, **dict.fromkeys(
               # What firmware's front stands for.
               ["api/", "misuse", "debug/sites", "heap/heap", "heap/manager", "heap/blocks", "heap/reallocate", "heap/locate"],
               WITH_ADDRESSES)}
LINUX_UNITS = ("os/linux", "debug/linux_")
PLATFORM_MACRO = re.compile(r"^\s*#\s*(?:el)?if.*\b(__linux__|__unix__|__APPLE__|__FreeBSD__|_WIN32)\b")
# Headers that print or allocate.
HEAVY_HEADER = re.compile(r"(stdio|stdlib|malloc)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# Extern pointers to functions, or to tables of them.
POINTER = re.compile(r"^extern\b[^;(]*(?:\(\*(\w+)\)\(|\bconst \w+_t \*(\w+);)")
# Text that can look like a function, and attributes, which may stand between a function's type and its name.
NO_CODE = re.compile(r"""
  /\*.*?\*/ | //[^\n]* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+' | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*
  | __attribute__\(\((?:[^()]|\([^()]*\))*\)\)""", re.M | re.S | re.X)
INNERMOST = re.compile(r"\{[^{}]*\}")
BODY = "\0"
FUNCTION = re.compile(r"\s*((?:\w+[\s*]+)+)\*?(\w+)\(([^\0;=]*)\)\s*([\0;])")
# A row of the table of folders in src/README.md. The row of the files of src itself names no folder.
FOLDER_ROW = re.compile(r"^\| (?:\[`(\w+)/`\]\(\w+\)|this folder) \|", re.M)

# Give, put, flush, drain, purge, trim, forget and drop say how something goes back, and the glossary what each promises. These
# would say it once more. A lock is released.
OTHER_VERBS = {"abandon", "discard", "dispose", "evacuate", "reclaim", "relinquish", "restore", "retire", "return", "surrender",
               "vacate"}


def unit_of(path):
    return str(pathlib.PurePosixPath(path).with_suffix("")).removesuffix("_table")


def may_include(unit, other):
    if UNITS.index(other) > UNITS.index(unit):
        return False
    narrow = NARROW.get(unit)
    return unit == other or not narrow or other in narrow or other.split("/")[0] in narrow


def problem_of_own(source, unit, name):
    if not (source / name).is_file():
        return f'"{name}" is not a file of src; paths are relative to src'
    other = unit_of(name)
    if other not in UNITS:
        return None   # told for the file itself
    is_of_linux = other.startswith(LINUX_UNITS) and not unit.startswith(LINUX_UNITS)
    return f"{unit} may not include {other}" if is_of_linux or not may_include(unit, other) else None


def problem_of_system(unit, name):
    if name in PUBLIC_EVERYWHERE:
        return None
    if name == "tidepool.h" or name.startswith("tidepool/"):
        public = unit in PUBLIC or unit.startswith(PUBLIC_FOLDERS)
        return None if public else f"{unit} may not include the public <{name}>"
    if not unit.startswith(PLATFORM_UNITS) and PLATFORM_HEADER.match(name):
        return f"<{name}> belongs to os"
    if not unit.startswith(LINUX_UNITS) and LINUX_HEADER.match(name):
        return f"<{name}> belongs to os/linux"
    if unit.startswith("base/") and HEAVY_HEADER.match(name):
        return f"base may not include <{name}>"
    return None


def problems_of_line(source, unit, name, line):
    macro = PLATFORM_MACRO.match(line)
    if macro and not unit.startswith(PLATFORM_UNITS):
        yield f"{macro[1]} belongs to os"
    pointer = POINTER.match(line)
    called = pointer and (pointer[1] or pointer[2])
    if called and called not in CALLS_UP.get(name, set()):
        yield f"{called} calls upwards and is not in the list"
    include = INCLUDE.match(line)
    if include:
        own = include[1] == '"'
        problem = problem_of_own(source, unit, include[2]) if own else problem_of_system(unit, include[2])
        if problem:
            yield problem


def functions_of(text):
    """The functions that a file defines, and the static ones that it declares."""
    text, bodies = NO_CODE.sub("", text), 1
    while bodies:
        text, bodies = INNERMOST.subn(BODY, text)
    for piece in re.findall(rf"[^{BODY};]*[{BODY};]", text):
        function = FUNCTION.fullmatch(piece)
        if function and (function[4] == BODY or "static" in function[1].split()):
            yield function[2]


def systems_of(name):
    """The systems whose builds have the file."""
    return next((systems for start, systems in SYSTEMS.items() if name.startswith(start)), ALL_SYSTEMS)


def problems_of_names(files):
    """One name, one function. Systems have the same functions, since a build has one of them."""
    defined = {}
    for name, text in files:
        for function in sorted(set(functions_of(text))):
            for first in defined.setdefault(function, []):
                if systems_of(name) & systems_of(first):
                    yield f"{name}: {function}() is a function of {first} too"
            defined[function].append(name)


def problems_of_verbs(files):
    for name, text in files:
        functions = set(functions_of(text))
        for function in sorted(functions):
            other = OTHER_VERBS & set(function.split("_"))
            # A lock is released, by what acquires it.
            if "release" in function.split("_") and function.replace("release", "acquire") not in functions:
                other = {"release"}
            if other:
                yield f"{name}: {function}(): giving back has eight verbs, and {other.pop()} is none of them"


def problems(source):
    """Every violation under the folder `source`, as file:line: what."""
    for file in sorted(path for path in source.rglob("*") if path.suffix in (".c", ".h", ".inc")):
        name = file.relative_to(source).as_posix()
        unit = unit_of(name)
        if unit not in UNITS:
            yield f"{name}: the unit {unit} is not in the list of layers"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for problem in problems_of_line(source, unit, name, line):
                yield f"{name}:{number}: {problem}"
    files = [(file.relative_to(source).as_posix(), file.read_text()) for file in sorted(source.rglob("*.[ch]"))]
    yield from problems_of_names(files)
    yield from problems_of_verbs(files)


def folders_of_readme():
    """The folders top down, and last the two that stand beside the others."""
    *core, debug, embedded = [folder for folder, _ in LAYERS]
    return [*reversed(core), debug, embedded]


def problems_of_readme(source):
    shown = FOLDER_ROW.findall((source / "README.md").read_text())
    if shown != folders_of_readme():
        yield f"README.md: the table has the folders {shown}, and not {folders_of_readme()}"


GOOD_TREE = {
    "base/bits.h": "#include <stdint.h>\n",
    "os/os.h": '#include "base/bits.h"\n',
    "os/linux_lines.h": "#include <sys/syscall.h>\n",
    "os/linux.c": '#include "os/linux_lines.h"\n#include "os/os.h"\n#include <sys/mman.h>\n#ifdef __linux__\n#endif\n'
                  "bool os_map(void)\n{\n  return true;\n}\n",
    "option.c": "#include <tidepool/version.h>\n",
    "misuse.h": "extern void (*fatal_before_abort)(void);\n",
    "size_class_table.inc": "1, 2\n",
    "size_class.c": '#include "size_class_table.inc"\n',
    "space/class_map.h": '#include "base/bits.h"\nextern window_t class_window;\n',
    "space/arena.h": '#include "space/class_map.h"\n',
    "space/arena.c": '#include "space/arena.h"\n#include "os/os.h"\n#include <string.h>\n',
    "space/space.h": '#include "space/arena.h"\n',
    "bin/bin.h": '#include "space/space.h"\n',
    "heap/create.h": '#include "heap/heap.h"\n#include <tidepool/heap.h>\n',
    "heap/heap.h": '#include "bin/bin.h"\nextern const heap_dependents_t *heap_dependents;\n',
    "api/fast_path.h": '#include "heap/heap.h"\n#include <tidepool.h>\n',
    "api/malloc.c": '#include "api/fast_path.h"\n#include "misuse.h"\n',
    "debug/head.h": '#include "heap/heap.h"\n',
    "debug/observe.c": '#include "heap/heap.h"\n#include "api/fast_path.h"\n',
    "debug/linux_memory.c": "#include <sys/uio.h>\n",
    "heap/tick.c": "static bool is_there(void)\n{\n  if (1) {\n    return false;\n  }\n}\nvoid tick(void) {}\n",
    "heap/large.c": "/* is_there() */\nvoid tick(void);\nstatic int (*is_there)(void);\nint w = '\"', used = is_there();\n",
    "os/posix.c": "#include <sys/mman.h>\nbool os_map(void)\n{\n  return true;\n}\nvoid os_purge(void) {}\n",
    "os/embedded.c": "bool os_map(void)\n{\n  return true;\n}\n",
    "README.md": "# src\n" + "".join(f"| [`{folder}/`]({folder}) | x |\n" if folder else "| this folder | x |\n"
                                     for folder in folders_of_readme()),
}
# One more file each, and the words of the complaint.
BAD_FILES = [
    ("base/text.c", '#include "os/os.h"\n', "base/text may not include os/os"),
    ("base/trees.c", "#include <stdio.h>\n", "base may not include <stdio.h>"),
    ("space/extra.c", '#include "space/arena.h"\n', "not in the list"),
    ("class_map.c", "", "not in the list"),
    ("space/class_map.c", '#include "space/arena.h"\n', "space/class_map may not include space/arena"),
    ("bin/depot.c", '  #  include "bin/bin.h"\n', "bin/depot may not include bin/bin"),
    ("bin/bin.c", '#include "heap/heap.h"\n', "bin/bin may not include heap/heap"),
    ("heap/heap.c", '#include "debug/head.h"\n', "heap/heap may not include debug/head"),
    ("debug/leaks.c", "#include <sys/uio.h>\n", "belongs to os"),
    ("bin/bin.c", "#include <tidepool/pool.h>\n", "may not include the public"),
    ("thread/thread.c", "#include <sys/mman.h>\n", "belongs to os"),
    ("thread/magazines.c", "#if defined(__linux__)\n#endif\n", "__linux__ belongs to os"),
    ("thread/magazines.h", "extern void (*magazine_full)(void);\n", "magazine_full calls upwards"),
    ("debug/head.h", "extern const hooks_t *guard_hooks;   /* set above */\n", "guard_hooks calls upwards"),
    ("api/malloc.c", '#include "heap/heap.h"\n', "api/malloc may not include heap/heap"),
    ("api/stats.c", '#include "space/space.h"\n', "api/stats may not include space/space"),
    ("object_pool/find.c", '#include "bin/bin.h"\n', "object_pool/find may not include bin/bin"),
    ("api/stats.c", '#include "nowhere.h"\n', "is not a file of src"),
    ("README.md", "# src\n| [`base/`](base) | x |\n", "the table has the folders ['base']"),
    ("README.md", GOOD_TREE["README.md"].replace("os", "base"), "the table has the folders"),
    ("README.md", GOOD_TREE["README.md"].replace("| this folder | x |\n", ""), "the table has the folders"),
    ("heap/walk.c", "static void retire_all(int *of)\n{\n  *of = 0;\n}\n", "retire_all(): giving back has eight verbs"),
    ("heap/walk.c", "void region_release(void)\n{\n}\n", "region_release(): giving back has eight verbs"),
    ("heap/walk.c", "static bool is_there(void) { return true; }\n", "is_there() is a function of heap/tick.c too"),
    ("heap/walk.c", "static int tick(int (*of)(void), int b) { return b; }\n", "tick() is a function of heap/tick.c too"),
    ("heap/walk.c", "bool *is_there(void)\n{\n  return 0;\n}\n", "is_there() is a function of heap/tick.c too"),
    ("heap/walk.c", "static inline __attribute__((alloc_size(1))) bool is_there(void);\n",
     "is_there() is a function of heap/tick.c too"),
    ("os/linux_threads.c", "bool os_map(void) {}\n", "os_map() is a function of os/linux.c too"),
    ("os/unix.c", "void os_purge(void) {}\n", "os_purge() is a function of os/posix.c too"),
    ("heap/tick.c", '#include "os/linux_lines.h"\n', "heap/tick may not include os/linux_lines"),
    ("os/posix.c", "#include <sys/syscall.h>\n", "<sys/syscall.h> belongs to os/linux"),
    ("heap/walk.c", "char b = '\"';\nstatic const int c[] = {1};\nvoid tick(void) {}\n",
     "tick() is a function of heap/tick.c too"),
]


def all_problems(source):
    return [*problems(source), *problems_of_readme(source)]


def problems_of_tree(files):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder)
        for name, text in files.items():
            (source / name).parent.mkdir(exist_ok=True)
            (source / name).write_text(text)
        return all_problems(source)


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
    else:
        found = all_problems(pathlib.Path(sys.argv[1]))
        print("\n".join(found))
        sys.exit(1 if found else 0)


main()
