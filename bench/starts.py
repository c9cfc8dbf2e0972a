# SPDX-License-Identifier: MIT
"""Programs that end almost at once: what an allocator costs that every process of a shell script pays for."""
import os
import subprocess

from real_programs import PATH, RealProgram, make_repository, plain, write

RUNS = 100
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def make_lines(folder):
    write(os.path.join(folder, "ten_lines"), "".join(f"line {n * 7 % 10}\n" for n in range(10)))


def make_worktree(folder):
    source, copy = (os.path.join(folder, name) for name in ("repository.git", "worktree"))
    subprocess.run(["git", "clone", "-q", "-b", "main", source, copy], check=True, env={"PATH": PATH, **GIT})


DATA = (make_lines, make_repository, make_worktree)

REAL_PROGRAMS = [
    RealProgram("true", "true", "coreutils", "does nothing", plain("true"), times=RUNS),
    RealProgram("sort", "sort", "coreutils", "sorts ten lines", plain("sort", "DATA/ten_lines"), times=RUNS),
    RealProgram("dash", "dash", "dash", "a shell that does nothing", plain("dash", "-c", ":"), times=RUNS),
    RealProgram("loop", "dash", "dash", "a shell that starts 1,000 processes",
                plain("dash", "-c", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i + 1)); done")),
    RealProgram("rev-parse", "git", "git", "git names a commit",
                plain("git", "-C", "DATA/repository.git", "rev-parse", "main", **GIT), times=RUNS),
    RealProgram("status", "git", "git", "git compares fifty files with a commit",
                plain("git", "-C", "DATA/worktree", "status", **GIT), times=RUNS),
    RealProgram("python3", "python3", "python3", "an interpreter that does nothing", plain("python3", "-S", "-c", "pass"),
                times=RUNS // 10),
]
