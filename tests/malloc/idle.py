# SPDX-License-Identifier: MIT
"""Compares what an idle program and idle threads hold with what they hold with the C library's malloc.

usage: idle.py PROGRAM LIBRARY"""

import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True   # the source tree stays as it is

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import preloading

SKIPPED = 77
PAGE = 4096
TURNS = 3   # the least counts: what the loader touches depends on where the system maps it

# KiB above the C library's, with a margin: 68 and -6 are reached. A thread had 76 more when its magazines began full.
IDLE_MOST = 84
THREAD_MOST = 16


def held(program, library, *arguments):
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    runs = (subprocess.run([program, *arguments], env=environment, stdout=subprocess.PIPE, check=True, timeout=60)
            for _ in range(TURNS))
    return min(int(run.stdout) for run in runs)


def main():
    program, library = sys.argv[1], preloading.preloadable(sys.argv[2])
    if os.environ.get("EMULATED"):
        print("skipped: the emulator's own memory counts")
        sys.exit(SKIPPED)
    if os.sysconf("SC_PAGESIZE") != PAGE:
        print("skipped: the bounds are for pages of 4 KiB")
        sys.exit(SKIPPED)
    failed = False
    for name, arguments, most in (("a program", [], IDLE_MOST), ("a thread", ["threads"], THREAD_MOST)):
        own, others = held(program, library, *arguments), held(program, None, *arguments)
        print(f"{name}: {own} KiB, with the C library's malloc {others}")
        failed |= own > others + most
    sys.exit(failed)


main()
