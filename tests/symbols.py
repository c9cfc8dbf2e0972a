# SPDX-License-Identifier: MIT
"""Checks what the libraries show to the world: the names that the headers declare and no others.

usage: symbols.py LIBRARY FILE [HEADER...]

LIBRARY is tidepool, whose headers follow, or malloc, and tells of a shared library. With -archive behind it FILE is a static
library, and with -package the list that Debian's package has of a shared one. It may be record-package, whose library
follows."""

import os
import pathlib
import re
import subprocess
import sys

FAMILY = """malloc calloc realloc free aligned_alloc posix_memalign memalign valloc pvalloc malloc_usable_size malloc_trim
mallinfo mallinfo2 mallopt malloc_stats free_sized free_aligned_sized""".split()
ALIASES = ["__libc_" + name for name in "malloc calloc realloc free memalign valloc pvalloc".split()]
# What shared libraries and programs call by name, and glibc has for itself: a static program does so.
SHARED_ONLY = ["__register_atfork", "dlopen", "dlmopen"]
# Names have the type of a size in them: m on 64-bit machines, j on those of 32 bits.
NEW = [f"_Zn{array}m{form}" for array in "wa"
       for form in ("", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t")]
DELETE = [f"_Zd{array}Pv{form}" for array in "la"
          for form in ("", "m", "RKSt9nothrow_t", "St11align_val_t", "mSt11align_val_t", "St11align_val_tRKSt9nothrow_t")]
SIZE = re.compile(r"^(_Zn[wa]|_Zd[la]Pv)m")
# The forms in terms of which the others are defined: a program's own, where it has replaced one, is the one that they mean.
REPLACED = [f"_Zn{array}m{form}" for array in "wa" for form in ("", "St11align_val_t")]
REPLACED += [f"_Zd{array}Pv{form}" for array in "la" for form in ("", "St11align_val_t")]
DECLARATION = re.compile(r"\bPOOL_API\b[^;]*?\bPOOL_NAME\((\w+)\)")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

# What a manager may not lean on: the allocator it may stand in for, and printing, which allocates.
FORBIDDEN_IMPORTS = set(FAMILY) | {"strdup", "reallocarray", "fopen", "printf", "fprintf", "puts", "fputs", "perror"}
# Nor on a cancellation point: a thread that is to be cancelled would end there, holding locks, or in exit().
FORBIDDEN_IMPORTS |= set("""open open64 openat openat64 creat creat64 close read write pread pread64 pwrite pwrite64 readv
writev fsync fdatasync msync poll ppoll select pselect nanosleep clock_nanosleep usleep sleep pause wait waitpid wait4
getrandom sem_wait pthread_join pthread_cond_wait pthread_cond_timedwait pthread_testcancel system""".split())
# What the loader keeps spare for libraries that are opened late is 1664 bytes in glibc, for all of them. The malloc library is
# there from the start: it has a pair of pointers for each cached size class.
MOST_THREAD_LOCAL_BYTES = {"tidepool": 512, "malloc": 1344}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def dynamic_symbols(library, which):
    lines = output_of("nm", "-D", which, library).splitlines()
    return {line.split()[-1] for line in lines}


def declared(headers):
    names = set()
    for header in headers:
        text = COMMENT.sub("", pathlib.Path(header).read_text())
        text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
        names.update("tidepool_" + name for name in DECLARATION.findall(text))
    return names


def archive_symbols(library):
    lines = output_of("nm", "--defined-only", "--extern-only", library).splitlines()
    return {line.split()[-1] for line in lines if len(line.split()) == 3}


def package_symbols(path):
    return set(re.findall(r"^ (?:\(arch-bits=64\))?(\w+)@", pathlib.Path(path).read_text(), re.M))


def of_machine(names, library):
    """The names as they are in a shared library for a machine of 64 or 32 bits: the fifth byte of the file says which."""
    is_short = pathlib.Path(library).read_bytes()[:5] == b"\x7fELF\x01"
    return {SIZE.sub(r"\1j", name) if is_short else name for name in names}


def wrong_exports(exported, expected):
    for name in sorted(exported - expected):
        yield f"exports {name}, which it should not"
    for name in sorted(expected - exported):
        yield f"does not export {name}"


def calls_of_own_exports(library, expected):
    """A relocation against an exported name means that a program's own function of that name would be called."""
    for line in output_of("readelf", "-rW", library).splitlines():
        fields = line.split()
        name = fields[4].split("@")[0] if len(fields) > 4 else ""
        if name in expected and re.search("JUMP_SLO|GLOB_DAT|R_X86_64_64|ABS64", fields[2]):
            yield f"reaches {name} through a table that others can override"


def wrong_imports(library):
    imported = {name.split("@")[0] for name in dynamic_symbols(library, "--undefined-only")}
    for name in sorted(imported & FORBIDDEN_IMPORTS):
        yield f"imports {name}"


def wrong_thread_local_size(library, most):
    for line in output_of("readelf", "-lW", library).splitlines():
        fields = line.split()
        if fields and fields[0] == "TLS" and int(fields[5], 16) > most:
            yield f"has {int(fields[5], 16)} bytes of thread-local data, more than {most}"


def wrong_soname(library, name):
    if f"[{name}]" not in output_of("readelf", "-dW", library):
        yield f"is not called {name}"


def wrong_in_shared(kind, library, expected):
    soname = "libtidepool.so.0" if kind == "tidepool" else "libtidepool-malloc.so.0"
    yield from wrong_exports(dynamic_symbols(library, "--defined-only"), expected)
    yield from calls_of_own_exports(library, expected - of_machine(REPLACED + SHARED_ONLY, library))
    yield from wrong_imports(library)
    yield from wrong_thread_local_size(library, MOST_THREAD_LOCAL_BYTES[kind])
    yield from wrong_soname(library, soname)


def main():
    kind, library, *headers = sys.argv[1:]
    name, _, form = kind.partition("-")
    expected = {"tidepool": declared, "malloc": lambda _: set(FAMILY + ALIASES),
                "record": lambda files: dynamic_symbols(files[0], "--defined-only")}[name](headers)
    if not expected:
        sys.exit("no declaration found in the headers")
    # In static programs C++ has its operators from its runtime.
    if name == "malloc" and form != "archive":
        expected.update(of_machine(NEW + DELETE + SHARED_ONLY, library))
    if form:
        exported = {"archive": archive_symbols, "package": package_symbols}[form](library)
        found = [*wrong_exports(exported, expected)]
    else:
        found = [*wrong_in_shared(name, library, expected)]
    for problem in found:
        print(f"{library} {problem}")
    sys.exit(1 if found else 0)


main()
