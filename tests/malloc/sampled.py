# SPDX-License-Identifier: MIT
"""Runs a short program with a planted bug under guard_sample, many times: the bug must be found as often as the manual says,
within bounds that one in a million such tests does not keep. Without a bug nothing may be found.

usage: sampled.py PROGRAM LIBRARY RUNS"""

import math
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys

sys.dont_write_bytecode = True   # the source tree stays as it is

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import preloading

ONE_IN = 8
WITH_BUG = 4   # blocks of the program, each fetched by itself
CHANCE_OF_FAILURE = 1e-6
EVERYTHING = 20   # runs with each block drawn


def bounds(runs, chance):
    """The fewest and the most finds, beyond each of which lies half of the chance of a failure."""
    logs = [math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1) + k * math.log(chance) +
            (runs - k) * math.log1p(-chance) for k in range(runs + 1)]
    tail, fewest = 0, 0
    while tail + math.exp(logs[fewest]) < CHANCE_OF_FAILURE / 2:
        tail += math.exp(logs[fewest])
        fewest += 1
    tail, most = 0, runs
    while tail + math.exp(logs[most]) < CHANCE_OF_FAILURE / 2:
        tail += math.exp(logs[most])
        most -= 1
    return fewest, most


def without_core_file():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def is_found(program, library, bug, one_in):
    environment = {**os.environ, "LD_PRELOAD": library, "TIDEPOOL_OPTIONS": f"guard_sample={one_in}"}
    done = subprocess.run([program, bug], env=environment, stderr=subprocess.PIPE, text=True, timeout=600, check=False,
                          preexec_fn=without_core_file)
    said = re.search(r" of a block of 40000 bytes( by .+?)?, allocated by ", done.stderr)
    found = done.returncode == -signal.SIGSEGV and said is not None
    if not found and (done.returncode != 0 or done.stderr):
        sys.exit(f"{bug}: status {done.returncode}: {done.stderr}")
    return found


def main():
    program, library, runs = sys.argv[1], preloading.preloadable(sys.argv[2]), int(sys.argv[3])
    chance = 1 - (1 - 1 / ONE_IN) ** WITH_BUG
    fewest, most = bounds(runs // 2, chance)
    failed = any(is_found(program, library, "none", one_in) for one_in in (1, ONE_IN) for _ in range(EVERYTHING))
    for bug in ("overrun", "use-after-free"):
        failed |= not all(is_found(program, library, bug, 1) for _ in range(EVERYTHING))
        failed |= any(is_found(program, library, bug, 0) for _ in range(EVERYTHING))
        found = sum(is_found(program, library, bug, ONE_IN) for _ in range(runs // 2))
        print(f"{bug}: found in {found} of {runs // 2} runs, {fewest} to {most} are to be expected")
        failed |= not fewest <= found <= most
    sys.exit(failed)


if __name__ == "__main__":
    main()
