# SPDX-License-Identifier: MIT
"""Builds libtidepool for Windows, static and shared, and runs tests and examples with it in wine: docs/platforms.md.

usage: windows.py SOURCE-ROOT [TEST...]

wine has a configuration of its own for the run, and no display. Exit status 77: something that is needed is not installed."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from builds import ENVIRONMENT, counts_of, need, run

TOOLS = "x86_64-w64-mingw32-"
CROSS_FILE = f"""[binaries]
c = '{TOOLS}gcc'
cpp = '{TOOLS}g++'
ar = '{TOOLS}ar'
strip = '{TOOLS}strip'
exe_wrapper = 'wine'

[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
"""
NEEDED = ("meson", "ninja", "wine", "wineserver", f"{TOOLS}gcc", f"{TOOLS}g++", f"{TOOLS}nm")
PASSED_CASE, SKIPPED_CASE = re.compile(r"^\[ +OK \] \w+", re.M), re.compile(r"^\[ +SKIPPED \] ([a-z_]\w*)", re.M)
# Single cases, which the small cmocka skips.
CHILD = "the child is no copy of its parent: what the test did before is not there"
DEBUG = "looks for what the debug library finds"
FENCE = "no fence between threads: none reaches what others have cached"
FORK = "forks"
LEFT_OUT = {
    "check/each_is_found": DEBUG,
    "errors/before_the_manager_test": DEBUG,
    "errors/every_way": DEBUG,
    "errors/forks": CHILD,
    "errors/thread_that_ends": "expects the order in which POSIX destroys a thread's values",
    "exhaustion/the_last_request_is_said": CHILD,
    "exhaustion/grows_into_what_is_cached": FENCE,
    "tests/environment": FORK,
    "options/least_budgets": DEBUG,
    "races/single_thread_heap_beside_others": FORK,
    "small/the_least_memory_is_known": DEBUG,
    "small/freed_blocks_are_free": CHILD,
    "small_holes/late_writes_are_seen": DEBUG,
    "object_pool cache_races/fork_at_any_moment": FORK,
    "object_pool caches/put_all_changes_no_cached_one": FORK,
    "object_pool caches/found_when_it_is_put_twice": FORK,
    "heap_ticks/a_locked_page_stays_test": DEBUG,
    "locate/of_a_checked_heap_test": DEBUG,
    "bin/misuse": CHILD,
    "heap_budgets/trims_inside_slabs": DEBUG,
    "heap_options/misuse": CHILD,
    "tests/walked_and_reset_test": DEBUG,
    "huge/given_back_in_steps_test": "commits more memory than machines have",
    "space_move/sparse_where_refused_test": "asks which pages are in memory",
    "object_pool addresses/bad_puts": CHILD,
    "object_pool addresses/bad_puts_of_well_known_addresses": CHILD,
    "object_pool addresses/bad_puts_with_threads": CHILD,
    "object_pool destroy/destroyed_with_something_hot": CHILD,
    "object_pool destroy/destroyed_while_walked": CHILD,
    "object_pool destroy/destroyed_with_hooks": CHILD,
    "object_pool destroy/destroyed_in_each_heap": CHILD,
    "object_pool destroy/gone_with_each_heap": CHILD,
    "object_pool destroy/gone_with_a_heap": CHILD,
    "object_pool destroy/overflow_destroyed_first": CHILD,
    "object_pool destroy/overflow_gone_with_its_heap": CHILD,
    "object_pool destroy/destroyed_twice": CHILD,
    "object_pool eviction/chooser_names_a_foreign_one": CHILD,
    "object_pool exhaustion/probing_is_quiet": CHILD,
    "object_pool checked/writes_after_put_are_found": CHILD,
    "object_pool ending/hooks_destroy_a_pool_that_ends": CHILD,
    "size classes/table_is_generated": "starts a script",
}
# Programs of the same folders that tests/windows/meson.build does not have.
PROGRAMS_LEFT_OUT = {
    "unit": {
        "abort, fork_locks, forks, many_depots, startup": FORK,
        "guard_area, head, head_steps, places, sample_pages, sampling, stacks*": DEBUG,
        "heap_failure, os_failure": "children count in memory that they share",
        "heap_steps": "a signal handler follows each instruction",
        "mapped": "forbids huge pages",
        "option": "has another library than the rest",
        "thread_reach": FENCE,
        "linux*, posix, unix, window": "of other systems",
    },
    "heap": {
        "background, forks": FORK,
        "faults, guarded, profile*, quarantine*, sites": DEBUG,
        "flags, real_time": "sets limits of the process",
        "system_calls, wiped": "needs a filter of system calls, or the maps of the process",
    },
    "object_pool": {
        "cache_windows": "a signal handler stops a thread",
        "forks": FORK,
    },
    "examples": {"connections": "has socket pairs"},
}


def names_of(library, kind, folder):
    """What a library shows."""
    if kind == "dll":
        lines = run(f"{TOOLS}objdump", "-p", library, folder=folder).partition("[Ordinal/Name Pointer] Table")[2].splitlines()
        return {line.split()[-1] for line in lines if line.strip().startswith("[")}
    lines = run(f"{TOOLS}nm", "--defined-only", "--extern-only", library, folder=folder).splitlines()
    return {line.split()[-1] for line in lines if len(line.split()) == 3}


def check_names(build):
    """Both libraries have the names of the interface, and no other."""
    static = names_of(build / "src/libtidepool.a", "a", build)
    shared = names_of(build / "src/libtidepool-0.dll", "dll", build)
    others = {name for name in static | shared if not name.startswith("tidepool_")}
    if not static or static != shared or others:
        sys.exit(f"the libraries differ in {sorted(static ^ shared)}, and have names of their own: {sorted(others)}")
    return len(static)


def quietly(environment, *command):
    """Starts what stays: wine's services, which keep the output open that they are given."""
    pathlib.Path(environment["WINEPREFIX"]).mkdir(exist_ok=True)
    subprocess.run(command, env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=300, check=False)


def cases_of(log):
    """Those that the small cmocka has run or skipped."""
    text = log.read_text(encoding="utf-8", errors="replace")
    skipped = {name for name in SKIPPED_CASE.findall(text)}
    others = skipped - {name.partition("/")[2] for name in LEFT_OUT}
    return f"{len(PASSED_CASE.findall(text))} cases passed, {len(skipped)} skipped, of these not in the table: {sorted(others)}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    need(*NEEDED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wine = {"WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=", "DISPLAY": "",
                "HOME": name, "CMOCKA_LEFT_OUT": ";".join(LEFT_OUT)}
        (folder / "windows.ini").write_text(CROSS_FILE, encoding="utf-8")
        try:
            run("meson", "setup", "build", pathlib.Path(sys.argv[1]).resolve(), "--cross-file", "windows.ini", "-Dtests=true",
                "-Dexamples=true", "-Dwerror=true", folder=folder, **wine)
            run("ninja", "-C", "build", folder=folder)
            print(f"{check_names(folder / 'build')} names in both libraries", flush=True)
            quietly(wine, "wineserver", "--persistent")   # one that ends between two programs may refuse the second
            quietly(wine, "wineboot", "--init")
            version = run("wine", "--version", folder=folder, **wine).strip()
            said = run("meson", "test", "-C", "build", "--print-errorlogs", "--num-processes", os.cpu_count(), *sys.argv[2:],
                       folder=folder, **wine)
        finally:
            quietly(wine, "wineserver", "--kill")
        for left_out, why in LEFT_OUT.items():
            print(f"left out: {left_out}: {why}")
        for suite, programs in PROGRAMS_LEFT_OUT.items():
            for names, why in programs.items():
                print(f"left out of {suite}: {names}: {why}")
        print(f"{version}: {counts_of(said)}; {cases_of(folder / 'build/meson-logs/testlog.txt')}")


main()
