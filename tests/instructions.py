# SPDX-License-Identifier: MIT
"""Counts the instructions of one allocation with its free for each pattern of a program, and compares with a golden file.

Each pattern runs twice under callgrind, with different counts: the difference holds no start-up. Counts are repeatable
where times are not, as long as nothing in the program looks at the clock. Tidepool does, to give idle memory back, and a run
under callgrind is so slow that this would happen more or less often on each machine; so it is told to wait for weeks.

usage: instructions.py MICRO LIBRARY GOLDEN          fails where a figure is above the golden one
       instructions.py --print MICRO LIBRARY...      prints the table, a column for each library
LIBRARY is preloaded; none: the program is linked with it."""

import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True   # the source tree stays as it is

import preloading

SKIPPED = 77
FEW, MANY = 100_000, 300_000
FEW_LONG, MANY_LONG = 40_000, 120_000   # of a pattern of hundreds of instructions, where it is these that take the time
LONG = 150
SECONDS = 1200
NO_CLOCK = "purge_delay_ms=4000000000"


def use_few_processors():
    """Where there are many, tidepool deals depots to them, and not to threads; valgrind runs all threads on one."""
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, random.sample(usable, min(2, len(usable))))


def instructions(micro, library, pattern, count):
    # Not what a user or a folder has as defaults for valgrind, nor other options of the library.
    command = ["valgrind", "--command-line-only=yes", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               micro, pattern, str(count)]
    result = subprocess.run(command, env={**os.environ, "LD_PRELOAD": library, "TIDEPOOL_OPTIONS": NO_CLOCK},
                            preexec_fn=use_few_processors, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    collected = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not collected:
        sys.exit(f"{pattern}: {' '.join(command)} failed:\n{result.stderr[-1500:]}")
    return int(collected[1])


def figure(micro, library, pattern, about):
    """A pattern is one of the program's, or two: the first less the second, `calloc64-memset64`."""
    pattern, _, less = pattern.partition("-")
    if less:
        return figure(micro, library, pattern, about) - figure(micro, library, less, about)
    counts = (FEW_LONG, MANY_LONG) if about > LONG else (FEW, MANY)
    few, many = (instructions(micro, library, pattern, count) for count in counts)
    return (many - few) / (counts[1] - counts[0])


def figures(micro, library, patterns):
    """The figure of each pattern, of which it is known what it is about; as many runs at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(patterns, pool.map(lambda pattern: figure(micro, library, pattern, patterns[pattern]), patterns)))


def path_of(library):
    if library == "none":
        return ""
    if not os.path.isfile(library):
        sys.exit(f"{library}: no such file")   # the loader would go on without it
    return preloading.preloadable(library)


def read_golden(path):
    lines = (line.split() for line in pathlib.Path(path).read_text().splitlines())
    return {fields[0]: float(fields[1]) for fields in lines if fields and not fields[0].startswith("#")}


def print_table(micro, libraries):
    os.environ["ANY_MALLOC"] = "1"
    golden = read_golden(pathlib.Path(__file__).with_name("instructions.golden"))
    whole = {pattern.partition("-")[0]: f"{most:8.1f}" if "-" not in pattern else 8 * " " for pattern, most in golden.items()}
    about = {pattern.partition("-")[0]: most for pattern, most in golden.items()}
    columns = [figures(micro, path_of(library), about) for library in libraries]
    for pattern, most in whole.items():
        print(f"{pattern:18}{most}" + "".join(f"{column[pattern]:10.1f}" for column in columns))


def check(micro, library, golden_file):
    golden = read_golden(golden_file)
    found = figures(micro, path_of(library), golden)
    for pattern, most in golden.items():
        verdict = "" if found[pattern] <= most else "   above"
        print(f"{pattern:18}{found[pattern]:8.1f} of {most:g}{verdict}")
    return any(found[pattern] > most for pattern, most in golden.items())


def main():
    if sys.argv[1:] in ([], ["--help"]):
        print(__doc__)
        return 0 if sys.argv[1:] else 2
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed")
        return SKIPPED
    if sys.argv[1] == "--print":
        print_table(sys.argv[2], sys.argv[3:])
        return 0
    return check(*sys.argv[1:])


sys.exit(main())
