# SPDX-License-Identifier: MIT
"""Counts the instructions of one allocation with its free for each pattern of a program, and compares with a golden file.

Each pattern runs twice under callgrind, with different counts: the difference holds no start-up. Valgrind starts once for
all short patterns, since its start takes longer than they do. Counts are repeatable where times are not, as long as nothing in
the program looks at the clock. Tidepool does, to give idle memory back, and a run under callgrind is so slow that this would
happen more or less often on each machine; so it is told to wait for weeks.

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
LONG = 150   # instructions: such a pattern has a process of its own, as large blocks also depend on what was allocated before
# Few and many, by the instructions of the pattern: it is these that take the time.
COUNTS = (1000, (1_000, 3_000)), (LONG, (10_000, 30_000)), (0, (100_000, 300_000))
SECONDS = 1200
NO_CLOCK = "purge_delay_ms=4000000000"


def use_few_processors():
    """Where there are many, tidepool deals depots to them, and not to threads; valgrind runs all threads on one."""
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, random.sample(usable, min(2, len(usable))))


def instructions(micro, library, runs):
    """Those of each run, a pattern with a count. The program runs several in children, and says which is which. One alone it
    runs itself, and says nothing."""
    # Not what a user or a folder has as defaults for valgrind, nor other options of the library.
    command = ["valgrind", "--command-line-only=yes", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               "--zero-before=run_pattern", micro, *(word for pattern, count in runs for word in (pattern, str(count)))]
    result = subprocess.run(command, env={**os.environ, "LD_PRELOAD": library, "TIDEPOOL_OPTIONS": NO_CLOCK},
                            preexec_fn=use_few_processors, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    collected = {process: int(count) for process, count in re.findall(r"^==(\d+)== Collected : (\d+)", result.stderr, re.M)}
    said = re.findall(r"^(\d+) (\S+) (\d+)$", result.stdout, re.M)
    found = {(pattern, int(count)): collected.get(process, 0) for process, pattern, count in said}
    if len(runs) == 1:
        found = dict(zip(runs, collected.values()))
    if result.returncode != 0 or set(found) != set(runs) or not all(found.values()):
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr[-1500:]}")
    return found


def counts_of(most):
    return next(counts for least, counts in COUNTS if most >= least)


def figures(micro, library, patterns):
    """The figure of each pattern, of which it is known what it is about. A pattern is one of the program's, or two: the first
    less the second, `calloc64-memset64`."""
    short, alone = {}, {}
    for pattern, most in patterns.items():
        for part in pattern.split("-"):
            (short if most <= LONG else alone).update(dict.fromkeys((part, count) for count in counts_of(most)))
    groups = [[run] for run in alone if run not in short] + [list(short)]
    found = {}
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for one in pool.map(lambda runs: instructions(micro, library, runs), filter(None, groups)):
            found.update(one)

    def figure(part, few, many):
        return (found[part, many] - found[part, few]) / (many - few)
    return {pattern: figure(first, *counts) - sum(figure(part, *counts) for part in less)
            for pattern, most in patterns.items() for (first, *less), counts in [(pattern.split("-"), counts_of(most))]}


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
