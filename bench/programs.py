# SPDX-License-Identifier: MIT
"""The benchmark programs, one for each allocator: which can run here, what cases they have, what one of them measures."""
import json
import os
import re
import signal
import subprocess
import sys

import results

STUCK_SECONDS = 600
# What tells an allocator, the loader or google-benchmark to do something else than it does by itself.
SETTINGS = re.compile(r"(TIDEPOOL|(JE_?)?MALLOC|MIMALLOC|TCMALLOC|BENCHMARK)_\w+|(HEAP|MALLOC)(PROFILE|CHECK|STATS)\w*|"
                      r"GLIBC_TUNABLES|LD_(PRELOAD|AUDIT)", re.IGNORECASE)


class Failure(Exception):
    """One line that says what went wrong."""


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def run_group(arguments, timeout, during=None, output=subprocess.DEVNULL, **options):
    """Runs a program in a session of its own, `during` beside it, and returns its exit status and what it complained of. If
    anything is wrong, it ends with all that it has started: what hangs would keep its pipe open for ever."""
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True,
                          start_new_session=True, **options) as process:
        try:
            if during:
                during(process)
            _, said = process.communicate(timeout=timeout)
            return process.returncode, said
        except (subprocess.SubprocessError, OSError) as error:
            raise Failure(str(error)) from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)


class Program:
    """The benchmark program of one allocator; or bench-given, with the name and the library that it is given."""

    def __init__(self, path, allocator=None, library=None):
        self.path, self.library = path, library
        self.allocator = allocator or os.path.basename(path).removeprefix("bench-")
        self.given = {"BENCH_GIVEN_NAME": allocator, "BENCH_GIVEN_LIBRARY": library} if library else {}
        self.cases, self.compiler = [], ""

    def call(self, *arguments):
        try:
            done = subprocess.run([self.path, *arguments], capture_output=True, text=True, timeout=STUCK_SECONDS, check=False,
                                  env={**os.environ, **self.given})
        except subprocess.TimeoutExpired:
            raise Failure(f"bench-{self.allocator}: no end after {STUCK_SECONDS} s") from None
        except OSError as error:
            raise Failure(f"bench-{self.allocator}: {error.strerror}") from None
        if done.returncode < 0:
            raise Failure(f"bench-{self.allocator}: ended by signal {-done.returncode}: {last_line(done.stderr)}")
        if done.returncode != 0:
            raise Failure(last_line(done.stderr) or f"bench-{self.allocator}: exit status {done.returncode}")
        return done.stdout

    def describe(self):
        """Asks it for its cases, and what compiled it."""
        self.compiler = self.call("--compiler").strip()
        for line in self.call("--list").splitlines():
            name, extent, what = line.split("\t")
            self.cases.append({"name": name, "what": what, "brief": extent == "brief"})

    def measure(self, *arguments):
        """google-benchmark's entry for each case run."""
        text = self.call("--benchmark_format=json", *arguments)
        try:
            return json.loads(text)["benchmarks"]
        except (ValueError, KeyError):
            raise Failure(f"bench-{self.allocator}: no JSON in its output") from None

    def run(self, case, *arguments):
        measured = self.measure(f"--case={case}", *arguments)
        if len(measured) != 1 or not measured[0].get("items_per_second"):
            raise Failure(f"bench-{self.allocator}: no result for {case}")
        fault = results.fault_of(measured[0], ["items_per_second", "real_time", "peak_growth", "end_growth", "live"])
        if fault:
            raise Failure(f"bench-{self.allocator}: {case}: {fault}")
        return measured[0]


def settle_environment(keep=None):
    """Takes settings out of the environment of all programs that run from here, and says so; or has them, where they are
    wanted. None: nobody can ask for them."""
    hint = " (--keep-environment leaves it there)" if keep is not None else ""
    found = {name: value for name, value in sorted(os.environ.items()) if SETTINGS.fullmatch(name)}
    if keep:
        return found
    for name, value in found.items():
        del os.environ[name]
        print(f"bench: {name}={value} is taken out of the environment{hint}", file=sys.stderr)
    return {}


def available(programs):
    """Those that can run here, and a line for each that cannot."""
    able, absent = [], []
    for program in programs:
        try:
            program.describe()
            able.append(program)
        except Failure as failure:
            print(failure, file=sys.stderr)
            absent.append(str(failure))
    return able, absent


def chosen_cases(programs, only):
    cases = {}
    for program in programs:
        for case in program.cases:
            if case["name"].split("/")[0] == only if only else case["brief"]:
                cases.setdefault(case["name"], case)
    return list(cases.values())
