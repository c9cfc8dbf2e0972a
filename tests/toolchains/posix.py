# SPDX-License-Identifier: MIT
"""Builds the library with os/posix.c in place of Linux's own files, and runs the tests with it: docs/porting.md.

usage: posix.py SOURCE-ROOT [TEST...]

Without names of tests it runs the suites unit, heap, object_pool, malloc and stress, apart from what needs abilities that POSIX
does not have: these cases are listed with the reason. The files of the port may call nothing that is Linux's. Exit status 77:
something that is needed is not installed."""

import json
import pathlib
import re
import sys
import tempfile

from builds import cmocka_package, counts_of, need, run

NEEDED = ("gcc", "meson", "ninja", "pkg-config", "ar", "nm")
SUITES = {"unit", "heap", "object_pool", "malloc", "stress"}
WITHOUT = {"slow", "cpp", "exhaustive", "adapters", "long"}
# Single cases, which the small cmocka skips.
FENCE, THREADS = "no fence between threads: none reaches what others have cached", "no helper threads"
REMAP, WAITS = "pages cannot be moved: growing in place needs room for both", "waiting is sleeping, by another system call"
LEFT_OUT = {
    "check/each_is_found": FENCE,
    "exhaustion/grows_into_what_is_cached": FENCE,
    "life/fences_are_registered_before_the_first_use": FENCE,
    "forks/cached_by_others_is_not_live": FENCE,
    "object_pool caches/put_all_changes_no_cached_one": FENCE,
    "tests/test_freed_memory_is_grown_into": REMAP,
    "tests/test_freed_small_blocks_are_grown_into": REMAP,
    "system calls/lives_without_budgets": WAITS,
    "system calls/lives_with_budgets": WAITS,
    "tests/no_tool_of_the_user": "stands in for getauxval()",
}
# Programs, by the beginnings of their names.
PROGRAMS_LEFT_OUT = {
    "object_pool cache_windows": FENCE,
    "heap background": THREADS,
    "leaks": "threads cannot be counted, so every report says that registers were not searched",
    "options": "no advice about huge pages",
    "system calls": WAITS,
}
# All that the files of the port may call: POSIX, compilers, and what glibc adds where it is there (unix.c).
CALLS = set("""
    mmap munmap mprotect mlock munlock sysconf getrlimit clock_gettime nanosleep
    pthread_key_create pthread_key_delete pthread_setspecific pthread_mutex_lock pthread_mutex_unlock pthread_sigmask
    pthread_setcancelstate pthread_atfork sigismember
    write open close fcntl fstat lseek abort getpid getuid geteuid getgid getegid environ
    strlen strncmp strstr strtol memcpy posix_memalign malloc free dlsym
    __errno_location __libc_single_threaded __register_atfork gnu_get_libc_version _IO_list_lock _IO_list_unlock
    __isoc23_strtol __stack_chk_fail
""".split())
OF_TOOLS = re.compile(r"__(asan|tsan|lsan)_\w+|heaptrack_malloc|_GLOBAL_OFFSET_TABLE_")


def check_calls(build):
    run("ninja", "src/libtidepool-small-objects.a", folder=build)
    objects = [path for path in build.glob("src/libtidepool-small-objects.a.p/os_*.o")]
    defined, used = set(), set()
    for line in run("nm", *objects, folder=build).splitlines():
        words = line.split()
        if len(words) >= 2 and words[-2] in "UwW":
            used.add(words[-1].removesuffix("64"))   # as glibc has them for long files
        elif len(words) == 3:
            defined.add(words[-1])
    others = {name for name in used - defined - CALLS if not OF_TOOLS.fullmatch(name)}
    if not objects or others:
        sys.exit(f"the port calls what is not in POSIX: {sorted(others)}")


def tests_of(build):
    """The names of what is to run, and what is left out of it."""
    names = []
    for test in json.loads(run("meson", "introspect", "--tests", build, folder=build)):
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if suites & SUITES and not suites & WITHOUT and test["name"] not in names:
            names.append(test["name"])
    left_out = {name: why for name in names for start, why in PROGRAMS_LEFT_OUT.items() if name.startswith(start)}
    return [name for name in names if name not in left_out], left_out


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    need(*NEEDED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build = folder / "build"
        packages = cmocka_package(folder, "gcc")
        run("meson", "setup", build, pathlib.Path(sys.argv[1]).resolve(), "-Dos=posix", "-Dtests=true", "-Dwerror=true",
            folder=folder, PKG_CONFIG_LIBDIR=packages)
        names, programs = tests_of(build)
        said = run("meson", "test", "--print-errorlogs", "--timeout-multiplier", "10", *(sys.argv[2:] or names), folder=build,
                   CMOCKA_LEFT_OUT=";".join(LEFT_OUT))
        check_calls(build)
        for left_out, why in (LEFT_OUT | programs).items():
            print(f"left out: {left_out}: {why}")
        print(counts_of(said))


main()
