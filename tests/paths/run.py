# SPDX-License-Identifier: MIT
"""Copies the project to a folder whose path has a space, a colon and letters that are not ASCII, configures it there in a
folder of such a name, builds what some tests of each way to preload need, and runs these.

usage: run.py SOURCE LIBRARY

LIBRARY is the malloc library, whose file's name has the version.

Exit status 77: there is no meson to be called."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
STUCK_SECONDS = 1200
NOT_COPIED = shutil.ignore_patterns(".*", "build*", "bench-results", "subprojects", "corpus", "__pycache__")
TARGETS = ["tests/malloc/family", "tests/misuse/malloc_bugs", "tests/unit/test_size_class"]
# By the environment of the test, through env, into a program of others; and one that calls a tool of the source.
TESTS = ["family", "misuse of malloc", "sort", "size_class"]


def call(*command, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", timeout=STUCK_SECONDS, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def main():
    if not shutil.which("meson"):
        print("skipped: meson is not installed")
        return SKIPPED
    # Not what the test itself is run with: the inner one has its own.
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "TIDEPOOL_OPTIONS", "MALLOC_PERTURB_", "MESON_TEST_ITERATION"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        source, build = pathlib.Path(folder, "a päth: source"), pathlib.Path(folder, "a path: büild")
        shutil.copytree(sys.argv[1], source, ignore=NOT_COPIED)
        options = ["-Doptimization=1", "-Dtests=true"]
        call("meson", "setup", str(build), str(source), *options, folder=folder)
        call("ninja", "src/" + os.path.basename(sys.argv[2]), *TARGETS, folder=build)
        print(call("meson", "test", "--no-rebuild", "--print-errorlogs", "--timeout-multiplier", "10", *TESTS, folder=build))
    return 0


sys.exit(main())
