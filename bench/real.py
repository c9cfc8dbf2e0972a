#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs real programs with each allocator preloaded, and says what they took.

Inside each repetition a program is run allocator by allocator, each time in another order. The time is that of the processor,
of the program and of all that it starts. Public workloads have the time that they print, or the clock's.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is

import caches
import command
import more_programs
import progress
import public_workloads
import real_programs
import real_tables
import results
import starts
import turns
from machine import describe_machine, describe_version
from programs import Failure, last_line, run_group, settle_environment

# A program may be linked with another malloc, as redis is with jemalloc: the C library's is preloaded like all others.
PEERS = {results.BASELINE: "libc.so.6", "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2",
         "tcmalloc": "libtcmalloc_minimal.so.4"}
FIGURES = ("clock", "user", "system", "faults", "peak", "mean")
TIME_OVER = 1.1
SKIPPED = 77   # by which meson counts a test as skipped


class Session:
    def __init__(self, measure, libraries, programs, seconds, folder, warm=0):
        self.measure, self.libraries, self.programs, self.folder = measure, libraries, programs, folder
        self.warm = ["--warm", str(warm)] if warm else []
        self.options = {}   # of an allocator: what TIDEPOOL_OPTIONS is for it
        self.seconds, self.progress = seconds, progress.Progress(seconds)
        self.runs, self.failures, self.repetitions = [], [], 0

    def run_once(self, program, allocator):
        """The figures of one run."""
        command, environment = program.command(self.folder)
        library = self.libraries[allocator]
        if allocator in self.options:
            environment = {**environment, "TIDEPOOL_OPTIONS": self.options[allocator]}
        figures, printed = (os.path.join(self.folder, name) for name in ("figures", "printed"))
        times = ["--times", str(program.times)] if program.times > 1 else []
        with open(printed, "wb") as output:
            status, said = run_group(
                [self.measure, *self.warm, *times, figures, library, *command], real_programs.STUCK_SECONDS,
                program.client and (lambda process: program.client(self.folder, process)), output, cwd=self.folder,
                env={"PATH": real_programs.PATH, "LC_ALL": "C.UTF-8", **environment})
        if status != 0 or "cannot be preloaded" in said:
            raise Failure(last_line(said) or f"exit status {status}")
        with open(figures, encoding="utf-8") as file, open(printed, encoding="utf-8", errors="replace") as output:
            found = dict(zip(FIGURES, map(float, file.read().split())))
            return {**found, "time": program.time(found, output.read())}

    def attempt(self, program, allocator):
        self.progress.step(f"repetition {self.repetitions + 1}", program.name, allocator)
        try:
            found = self.run_once(program, allocator)
        except Failure as failure:
            self.fail(program, allocator, failure)
            return []
        return [{"program": program.name, "allocator": allocator, "repetition": self.repetitions, **found}]

    def fail(self, program, allocator, failure):
        self.failures.append({"program": program.name, "allocator": allocator, "what": f"{program.name}: {failure}"})
        self.progress.say(f"{allocator}: {program.name}: {failure}")

    def repeat(self):
        for program in self.programs:
            for allocator in turns.shuffled(self.libraries, self.repetitions, program.name):
                self.runs += self.attempt(program, allocator)
        self.repetitions += 1

    def run(self, least=results.LEAST_REPETITIONS):
        """What is run first is not counted: it finds files that nobody has read yet."""
        self.progress.stage("first runs")
        try:
            self.repeat()
            self.runs, self.repetitions, took = [], 0, 0
            while self.repetitions < least or self.progress.elapsed() + took < TIME_OVER * self.seconds:
                before = self.progress.elapsed()
                self.progress.stage(f"repetition {self.repetitions + 1}")
                self.repeat()
                took = self.progress.elapsed() - before
        except KeyboardInterrupt:
            complete = [run for run in self.runs if run["repetition"] < self.repetitions]
            if self.repetitions < least:
                raise Failure(f"interrupted after {self.repetitions} of at least {least} repetitions") from None
            self.runs = complete
        finally:
            self.progress.finish()


def usable(measure, libraries, folder):
    """Those that the loader finds, and a line for each other."""
    absent = []
    for name, library in list(libraries.items()):
        done = subprocess.run([measure, os.path.join(folder, "figures"), library, "/bin/true"], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0 or done.stderr:
            absent.append(f"{name}: {last_line(done.stderr)}")
            del libraries[name]
    return absent


def mebibytes(text):
    """What --warm may be."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text}: not a number of MiB")
    return int(text)


def named_options(text):
    """What --with may be."""
    name, equals, options = text.partition("=")
    if not re.fullmatch(r"[\w.+-]+", name) or not equals or name in command.OWN_NAMES:
        raise argparse.ArgumentTypeError(f"{text}: not NAME=OPTIONS with a name of its own")
    return name, options


def arguments():
    parser = command.parser("Runs real programs with each allocator preloaded.", 10)
    parser.add_argument("--measure", metavar="PROGRAM", help="the program that measures one run")
    parser.add_argument("--tidepool", metavar="LIBRARY", help="libtidepool-malloc.so")
    other_set = parser.add_mutually_exclusive_group()
    other_set.add_argument("--more", action="store_true", help="the second set of programs instead")
    other_set.add_argument("--starts", action="store_true", help="programs that end almost at once instead")
    other_set.add_argument("--public", metavar="DIR", help="the workloads of mimalloc-bench, which is in DIR, instead")
    parser.add_argument("--only", metavar="NAMES", help="some of the programs, with commas between them")
    parser.add_argument("--with", dest="more_tidepools", action="append", default=[], type=named_options,
                        metavar="NAME=OPTIONS", help="tidepool once more, with TIDEPOOL_OPTIONS")
    parser.add_argument("--without", metavar="NAMES", default="", help="allocators to leave out, with commas between them")
    parser.add_argument("--warm", type=mebibytes, default=0, metavar="MIB",
                        help="before each run another process touches so many MiB of huge pages")
    parser.add_argument("--smoke", action="store_true", help="only try every program once, with tidepool")
    parser.add_argument("--caches", action="store_true", help="count instructions and misses under cachegrind, not times")
    parser.add_argument("--markdown", metavar="RAW", help="print the tables of earlier results again")
    parser.add_argument("--missing-packages", action="store_true", help="print the Debian packages that are not installed")
    return parser.parse_args()


def chosen_set(options):
    """Returns the programs of the chosen set, and the functions that make their data."""
    if options.public is not None:
        return public_workloads.in_directory(options.public), ()
    chosen = more_programs if options.more else starts if options.starts else real_programs
    return chosen.REAL_PROGRAMS, chosen.DATA


def named(text, names, option, what):
    """Splits a list with commas. Each name in it must be one of `names`."""
    wanted = text.split(",") if text else []
    for name in wanted:
        if name not in names:
            raise Failure(f"{option}: no {what} {name}; there are {', '.join(names)}")
    return wanted


def chosen(programs, only):
    names = [program.name for program in programs]
    wanted = named(only, names, "--only", "program") or names
    found = [program for program in programs if program.name in wanted]
    return ([program for program in found if not real_programs.missing(program)],
            [f"{program.name}: {binary} is not installed" + (f" (Debian package {package})" if package else "")
             for program in found for binary, package in real_programs.missing(program)])


def preloadable(path, folder):
    """LD_PRELOAD is a list with blanks and colons between, so a path that has some gets another name."""
    path = os.path.abspath(path)
    if not re.search(r"[\s:]", path):
        return path
    link = os.path.join(folder, f"library{len(os.listdir(folder))}.so")
    os.symlink(path, link)
    return link


def prepared(options, folder):
    """A session of what can run here, its libraries that were given, and a line for each that cannot run."""
    given = command.given_libraries(options)
    libraries = {results.HERO: preloadable(options.tidepool, folder), **PEERS,
                 **{name: preloadable(path, folder) for name, path in given.items()}}
    for name, _ in options.more_tidepools:
        if name in libraries:
            raise Failure(f"--with: {name} is given twice")
        libraries[name] = libraries[results.HERO]
    for name in named(options.without, [name for name in libraries if name != results.HERO], "--without", "allocator"):
        libraries.pop(name, None)
    of_set, data = chosen_set(options)
    programs, missing = chosen(of_set, options.only)
    measure = os.path.abspath(options.measure)
    absent = usable(measure, libraries, folder) + missing
    for line in absent:
        print(f"bench: {line}", file=sys.stderr)
    if options.smoke and not programs:
        sys.exit(SKIPPED)
    if results.HERO not in libraries or not programs:
        raise Failure("nothing can be measured")
    for make in data:
        make(folder)
    session = Session(measure, libraries, programs, options.minutes * 60, folder, options.warm)
    session.options = dict(options.more_tidepools)
    return session, given, absent


def smoke(session):
    """Each program runs to its end with tidepool."""
    session.libraries = {results.HERO: session.libraries[results.HERO]}
    session.repeat()
    if session.failures:
        raise Failure("some programs failed")


def read_results(path):
    """Figures of an earlier run."""
    with open(path, encoding="utf-8") as file:
        try:
            raw = json.load(file)
            return {**raw, "programs": raw["programs"], "runs": raw["runs"]}
        except (ValueError, KeyError, TypeError):
            raise Failure(f"{path}: no figures of real programs") from None


def measured(options, session, given, absent):
    machine = describe_machine([])
    if options.caches:
        session.runs = list(caches.run(session))
    else:
        session.run()
    return {"format": 1, "date": command.timestamp(), "warm": options.warm,
            "kind": "caches" if options.caches else "times", "public": options.public is not None, "variants": session.options,
            "command": options.command or shlex.join(["bench/real.py", *sys.argv[1:]]), "machine": machine,
            "allocators": list(session.libraries),
            "versions": {name: session.options.get(name) or describe_version(name, given.get(name))
                         for name in session.libraries},
            "programs": [{"name": program.name, "what": program.what} for program in session.programs],
            "absent": absent, "failures": session.failures, "runs": session.runs}


def shown(raw):
    return caches.markdown(raw) if raw.get("kind") == "caches" else real_tables.markdown(real_tables.RealResults(raw))


def main():
    options = arguments()
    if options.markdown:
        return print(shown(read_results(options.markdown)))
    if options.missing_packages:
        lacking = (real_programs.missing(program) for program in chosen_set(options)[0])
        return print(*dict.fromkeys(package for parts in lacking for _, package in parts if package))
    if options.caches and options.more_tidepools:
        raise Failure("--with is not for --caches")
    if not options.measure or not options.tidepool:
        raise Failure("--measure and --tidepool are needed (tools/bench --programs gives them)")
    settle_environment()
    command.make_place(options.out)
    with tempfile.TemporaryDirectory(prefix="tidepool-bench-") as folder:
        session, given, absent = prepared(options, folder)
        if options.smoke:
            return smoke(session)
        raw = measured(options, session, given, absent)
    directory = command.make_directory(options.out)
    name = os.path.join(directory, "caches.json" if options.caches else "programs.json")
    with open(name, "w", encoding="utf-8") as file:
        json.dump(raw, file, indent=1)
    print(f"{shown(raw)}\n\n{name}")
    if not any(run["allocator"] == results.HERO for run in raw["runs"]):
        raise Failure(f"no program ran with {results.HERO}")
    return None


if __name__ == "__main__":
    command.run_command(main)
