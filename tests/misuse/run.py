# SPDX-License-Identifier: MIT
"""Runs a program with a bug: it must end by abort() after one line on standard error that begins with
`tidepool: CALL(0x...): ` and goes on with WHAT; both are regular expressions.

usage: run.py CALL WHAT PROGRAM [ARGUMENT]..."""

import re
import resource
import signal
import subprocess
import sys

STUCK_SECONDS = 600


def without_core_file():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def complaint(result, call, what):
    """What is wrong with how the program ended, or None."""
    if result.returncode != -signal.SIGABRT:
        return f"ended with {result.returncode}, not by SIGABRT"
    line = re.compile(rf"tidepool: {call}\(0x[0-9a-f]+\): {what}\n")
    if not line.fullmatch(result.stderr):
        return f"standard error does not match {line.pattern!r}"
    return None


def main():
    call, what, *command = sys.argv[1:]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", timeout=STUCK_SECONDS,
                            preexec_fn=without_core_file)
    problem = complaint(result, call, what)
    if problem:
        sys.exit(f"{problem}\nstandard error: {result.stderr!r}")
    print(result.stderr, end="")


main()
