#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmark programs and writes raw figures, a table and a report.

Every case of every allocator runs in a process of its own, so that memory is measured from nothing. All allocators do the
same number of iterations of a case. Inside each repetition a case is run allocator by allocator, a different one first
each time, so that what else happens on the machine falls on all of them alike.
"""
import argparse
import datetime
import json
import math
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True   # the source tree stays as it is

import report
import results

SKIPPED = 77
CALIBRATION_SECONDS = 0.02
STUCK_SECONDS = 600
LEAST_RUN_SECONDS = 0.02
PROCESS_SECONDS = 0.02     # what starting and ending a process costs, about
USUAL_REPETITIONS = 9      # the least with which the interval of a ratio leaves out an outlier on each side
SOAK_SHARE, SOAK_SECONDS_MOST = 0.1, 30   # of the time, for the long life of object pools
MOST_REPETITIONS = 25
TIME_OVER, TIME_OUT = 1.1, 2   # times what was asked for: when a repetition is cut, and when all is given up that is not enough
FAILURES_ALLOWED = 2       # of one case with one allocator, before it is left out
# What tells an allocator, the loader or google-benchmark to do something else than it does by itself.
SETTINGS = re.compile(r"(TIDEPOOL|(JE_?)?MALLOC|MIMALLOC|TCMALLOC|BENCHMARK)_\w+|(HEAP|MALLOC)(PROFILE|CHECK|STATS)\w*|"
                      r"GLIBC_TUNABLES|LD_(PRELOAD|AUDIT)", re.IGNORECASE)
PACKAGES = {"malloc": "libc6", "jemalloc": "libjemalloc2", "mimalloc": "libmimalloc2.0", "tcmalloc": "libtcmalloc-minimal4"}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Failure(Exception):
    """One line that says what went wrong."""


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


class Program:
    """The benchmark program of one allocator."""

    def __init__(self, path):
        self.path = path
        self.allocator = os.path.basename(path).removeprefix("bench-")
        self.cases, self.compiler = [], ""

    def call(self, *arguments):
        try:
            done = subprocess.run([self.path, *arguments], capture_output=True, text=True, timeout=STUCK_SECONDS, check=False)
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


def settle_environment(keep):
    """Takes settings out of the environment of all programs that run from here, and says so; or has them, where they are wanted."""
    found = {name: value for name, value in sorted(os.environ.items()) if SETTINGS.fullmatch(name)}
    if keep:
        return found
    for name, value in found.items():
        del os.environ[name]
        print(f"bench: {name}={value} is taken out of the environment (--keep-environment leaves it there)", file=sys.stderr)
    return {}


def available(paths):
    """The programs that can run here, and a line for each that cannot."""
    programs, absent = [], []
    for path in paths:
        program = Program(path)
        try:
            program.describe()
            programs.append(program)
        except Failure as failure:
            print(failure, file=sys.stderr)
            absent.append(str(failure))
    return programs, absent


def chosen_cases(programs, only):
    cases = {}
    for program in programs:
        for case in program.cases:
            if case["name"].split("/")[0] == only if only else case["brief"]:
                cases.setdefault(case["name"], case)
    return list(cases.values())


class Progress:
    """One line that is written over on a terminal; elsewhere one line for each repetition."""

    def __init__(self, seconds):
        self.start, self.seconds, self.live = time.monotonic(), seconds, sys.stderr.isatty()

    def elapsed(self):
        return time.monotonic() - self.start

    def step(self, stage, case, allocator):
        if self.live:
            left = max(0, self.seconds - self.elapsed())
            share = min(99, 100 * self.elapsed() / self.seconds)
            line = f"{share:3.0f} %  {left // 60:.0f}:{left % 60:02.0f} left  {stage}  {case}  {allocator}"
            sys.stderr.write(f"\r\033[K{line[:shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def stage(self, stage):
        if not self.live:
            print(f"{self.elapsed():4.0f} s  {stage}", file=sys.stderr, flush=True)

    def say(self, line):
        print(f"\r\033[K{line}" if self.live else line, file=sys.stderr, flush=True)

    def finish(self):
        if self.live:
            sys.stderr.write("\r\033[K")


class Session:
    def __init__(self, programs, cases, seconds):
        self.cases, self.seconds = cases, seconds
        self.pairs = [(case["name"], [p for p in programs if any(c["name"] == case["name"] for c in p.cases)]) for case in cases]
        self.progress = Progress(seconds)
        self.iterations, self.failed, self.runs, self.failures = {}, {}, [], []
        self.repetitions, self.dropped = 0, ""

    def attempt(self, stage, case, program, *arguments):
        """The result of one process, or None; a case that fails again and again is left out."""
        key = case, program.allocator
        if self.failed.get(key, 0) >= FAILURES_ALLOWED:
            return None
        self.progress.step(stage, case, program.allocator)
        try:
            return program.run(case, *arguments)
        except Failure as failure:
            self.failed[key] = self.failed.get(key, 0) + 1
            self.failures.append({"case": case, "allocator": program.allocator, "what": str(failure)})
            self.progress.say(f"{case}: {failure}")
            return None

    def offered(self):
        """The cases that each allocator has, of those chosen."""
        return {p.allocator: [case for case, programs in self.pairs if p in programs] for p in dict.fromkeys(sum((ps for _, ps in self.pairs), []))}

    def runs_each(self):
        return sum(len(programs) for _, programs in self.pairs)

    def run_seconds(self):
        return min(1.0, max(LEAST_RUN_SECONDS, self.seconds / USUAL_REPETITIONS / self.runs_each() - PROCESS_SECONDS))

    def least_seconds(self):
        """What the calibration and as many repetitions as an interval needs take, if all runs are as short as can be."""
        calibration = 2 * CALIBRATION_SECONDS + PROCESS_SECONDS   # google-benchmark has to find out how many iterations these are
        return self.runs_each() * (calibration + results.LEAST_REPETITIONS * (LEAST_RUN_SECONDS + PROCESS_SECONDS))

    def calibrate(self):
        """So many iterations that the allocator in the middle takes the time of a run, and none more than twice that."""
        self.progress.stage("calibration")
        for case, programs in self.pairs:
            times = []
            for program in programs:
                self.end_if_hopeless()
                result = self.attempt("calibration", case, program, f"--benchmark_min_time={CALIBRATION_SECONDS}")
                if result:
                    times.append(result["real_time"] * thread_share(result))
            if times:
                self.iterations[case] = max(1, round(self.run_seconds() * 1e9 / max(statistics.median(times), max(times) / 2)))

    def repeat(self):
        """One repetition of all cases. What it measured counts if it came to its end: time that is up is up for the last cases alone."""
        repetition, runs = self.repetitions, []
        stage = f"repetition {repetition + 1}"
        self.progress.stage(stage)
        for case, programs in self.pairs:
            if case not in self.iterations:
                continue
            first = repetition % len(programs)
            for program in programs[first:] + programs[:first]:
                self.end_if_hopeless()
                if self.is_enough() and self.progress.elapsed() > TIME_OVER * self.seconds:
                    self.dropped = f"repetition {repetition + 1}, which time cut"
                    return
                result = self.attempt(stage, case, program, f"--iterations={self.iterations[case]}")
                if result:
                    runs.append(entry(case, program.allocator, repetition, result))
        self.runs += runs
        self.repetitions += 1

    def soak(self, path, seconds):
        """The series of the soak program, a list of numbers for each name; None if it failed, which is told."""
        self.progress.stage("soak")
        self.progress.step("soak", "object pools", results.HERO)
        try:
            return run_soak(path, seconds)
        except Failure as failure:
            self.failures.append({"case": "soak", "allocator": results.HERO, "what": str(failure)})
            self.progress.say(str(failure))
            return None
        finally:
            self.progress.finish()

    def is_enough(self):
        return self.repetitions >= results.LEAST_REPETITIONS

    def end_if_hopeless(self):
        """On a machine slower than least_seconds() thinks, or that does something else."""
        if not self.is_enough() and self.progress.elapsed() > TIME_OUT * self.seconds:
            self.progress.finish()
            raise Failure(f"too short a time: {self.repetitions} of at least {results.LEAST_REPETITIONS} repetitions in "
                          f"{self.progress.elapsed() / 60:.1f} minutes; give more --minutes")

    def run(self):
        """As many repetitions as the time allows, and at least what intervals need; those that are complete count when a user
        interrupts."""
        try:
            self.calibrate()
            took = 0
            while self.repetitions < MOST_REPETITIONS and not (
                    self.dropped or self.is_enough() and self.progress.elapsed() + took > TIME_OVER * self.seconds):
                before = self.progress.elapsed()
                self.repeat()
                took = self.progress.elapsed() - before
        except KeyboardInterrupt:
            if not self.is_enough():
                self.progress.finish()
                raise Failure(f"interrupted after {self.repetitions} of at least {results.LEAST_REPETITIONS} repetitions: nothing to report") from None
            self.dropped = f"repetition {self.repetitions + 1}, which was interrupted"
            self.progress.say("interrupted: reporting what is complete")
        self.progress.finish()


def run_soak(path, seconds):
    try:
        done = subprocess.run([path, f"{seconds:.1f}"], capture_output=True, text=True, timeout=seconds + STUCK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"soak: {error}") from None
    if done.returncode != 0:
        raise Failure(last_line(done.stderr) or f"soak: exit status {done.returncode}")
    names, *rows = [line.split(",") for line in done.stdout.splitlines()]
    return {name: [float(row[i]) for row in rows] for i, name in enumerate(names)}


def thread_share(result):
    """google-benchmark gives the time for one iteration of all threads together; a thread takes this many times longer."""
    return result.get("threads", 1)


def entry(case, allocator, repetition, result):
    return {"case": case, "allocator": allocator, "repetition": repetition, "ns": 1e9 / result["items_per_second"],
            "peak": result["peak_growth"], "end": result["end_growth"], "live": result["live"], "google": result}


def read(path, pattern=r"(.*)"):
    """The first match in a file, or nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
            return match.group(1).strip() if match else ""
    except OSError:
        return ""


def output(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def describe_compilers(programs):
    """Those that built the programs, as each says itself: not what `cc` is here and now."""
    compilers = {}
    for program in programs:
        compilers.setdefault(program.compiler, []).append(program.allocator)
    if len(compilers) == 1:
        return next(iter(compilers))
    return "; ".join(f"{compiler} ({', '.join(allocators)})" for compiler, allocators in compilers.items())


def describe_machine(programs):
    system = read("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)')
    memory = int(read("/proc/meminfo", r"^MemTotal:\s+(\d+)") or 0) / 1024 / 1024
    return {
        "processor": read("/proc/cpuinfo", r"^model name\s*:\s*(.*)$") or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory": f"{memory:.1f} GiB",
        "system": f"{system}, Linux {platform.release()}",
        "compiler": describe_compilers(programs),
        "huge pages": read("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]") or "unknown",
        "load when started": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def describe_version(allocator):
    if allocator == results.HERO:
        version = read(os.path.join(ROOT, "meson.build"), r"version:\s*'([^']*)'")
        commit = output("git", "-C", ROOT, "describe", "--always", "--dirty")
        return f"{version} ({commit})" if commit else version
    return output("dpkg-query", "-W", "-f=${Package} ${Version}", PACKAGES.get(allocator, allocator))


def raw_results(session, programs, absent, command, soak, machine, environment):
    return {
        "format": 2, "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"), "command": command,
        "machine": machine, "environment": environment, "allocators": [p.allocator for p in programs],
        "versions": {p.allocator: describe_version(p.allocator) for p in programs},
        "seconds_a_run": session.run_seconds(), "cases": session.cases, "iterations": session.iterations,
        "offered": session.offered(), "absent": absent, "dropped": session.dropped, "failures": session.failures, "runs": session.runs,
        "soak": soak,
    }


def make_directory(parent):
    """A new directory named by the time, and `latest` beside it pointing there."""
    name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    directory, latest = os.path.join(parent, name), os.path.join(parent, "latest")
    os.makedirs(directory, exist_ok=True)
    if os.path.islink(latest):
        os.remove(latest)
    if not os.path.lexists(latest):
        os.symlink(name, latest)
    return directory


def smoke(programs):
    """Every case runs to its end with every allocator and says what it should."""
    for program in programs:
        measured = program.measure("--iterations=20")
        if len(measured) != len(program.cases):
            raise Failure(f"bench-{program.allocator}: {len(program.cases)} cases, {len(measured)} results")
        for result in measured:
            if not (result.get("items_per_second", 0) > 0 and "peak_growth" in result and result.get("live", 0) > 0):
                raise Failure(f"bench-{program.allocator}: {result['name']}: a figure is missing")


def arguments():
    parser = argparse.ArgumentParser(description="Runs the benchmarks, allocators in turn, and reports.")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM", help="bench-tidepool, bench-malloc, ...")
    parser.add_argument("--minutes", type=float, default=5, metavar="N", help="how long to run, about (default: 5)")
    parser.add_argument("--soak", metavar="PROGRAM", help="the soak of object pools, whose series is in the report")
    parser.add_argument("--only", metavar="SUBJECT", help="all cases of one subject instead of the selection")
    parser.add_argument("--out", default="bench-results", metavar="DIR", help="where results go (default: bench-results)")
    parser.add_argument("--command", help="the command to show in the report")
    parser.add_argument("--keep-environment", action="store_true", help="leave settings of allocators in the environment, and name them in the report")
    parser.add_argument("--smoke", action="store_true", help="only try every case once")
    return parser.parse_args()


def main():
    options = arguments()
    if not 0 < options.minutes <= 24 * 60:
        raise Failure("--minutes: more than 0 and at most a day")
    environment = settle_environment(options.keep_environment)
    programs, absent = available(options.programs)
    if not programs:
        raise Failure("no benchmark program can run")
    if options.smoke:
        return smoke(programs)
    cases = chosen_cases(programs, options.only)
    if not cases:
        subjects = dict.fromkeys(case["name"].split("/")[0] for program in programs for case in program.cases)
        raise Failure(f"--only: no subject {options.only}; there are {', '.join(subjects)}")
    soak_seconds = min(SOAK_SHARE * options.minutes * 60, SOAK_SECONDS_MOST) if options.soak else 0
    session = Session(programs, cases, options.minutes * 60 - soak_seconds)
    if session.seconds < session.least_seconds():
        least = math.ceil(session.least_seconds() / (1 - SOAK_SHARE) / 6) / 10
        raise Failure(f"--minutes {options.minutes:g}: too short for {results.LEAST_REPETITIONS} repetitions of {session.runs_each()} runs; "
                      f"give {least:g} or more")
    machine = describe_machine(programs)   # before the session: the load of its own runs is not what it started with
    session.run()
    soak = session.soak(options.soak, soak_seconds) if soak_seconds else None
    if not session.runs:
        raise Failure("nothing was measured")
    directory = make_directory(options.out)
    raw = raw_results(session, programs, absent, options.command or shlex.join(["bench/run.py", *sys.argv[1:]]), soak, machine, environment)
    with open(os.path.join(directory, "raw.json"), "w", encoding="utf-8") as file:
        json.dump(raw, file, indent=1)
    report.write(results.Results(raw), directory)
    return None


if __name__ == "__main__":
    try:
        main()
    except (Failure, results.Unusable, OSError) as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: interrupted")
