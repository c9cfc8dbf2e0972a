#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmark programs and writes raw figures, a table and a report.

Every case of every allocator runs in a process of its own, so that memory is measured from nothing. All allocators do the
same number of iterations of a case. Inside each repetition a case is run allocator by allocator, a different one first
each time, so that what else happens on the machine falls on all of them alike.
"""
import json
import math
import os
import shlex
import sys

sys.dont_write_bytecode = True   # the source tree stays as it is

import command
import report
import results
from machine import describe_machine, describe_version
from programs import Failure, Program, available, chosen_cases, settle_environment
from session import Session

SOAK_SHARE, SOAK_SECONDS_MOST = 0.1, 30   # of the time, for the long life of object pools


def raw_results(session, programs, absent, shown, soak, machine, environment):
    return {
        "format": 2, "date": command.timestamp(), "command": shown,
        "machine": machine, "environment": environment, "allocators": [p.allocator for p in programs],
        "versions": {p.allocator: describe_version(p.allocator, p.library) for p in programs},
        "seconds_a_run": session.run_seconds(), "cases": session.cases, "iterations": session.iterations,
        "offered": session.offered(), "absent": absent, "dropped": session.dropped, "failures": session.failures,
        "runs": session.runs, "soak": soak,
    }


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
    parser = command.parser("Runs the benchmarks, allocators in turn, and reports.", 5)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM", help="bench-tidepool, bench-malloc, ...")
    parser.add_argument("--given", metavar="PROGRAM", help="bench-given, which runs the libraries of --lib")
    parser.add_argument("--soak", metavar="PROGRAM", help="the soak of object pools, whose series is in the report")
    parser.add_argument("--only", metavar="SUBJECT", help="all cases of one subject instead of the selection")
    parser.add_argument("--keep-environment", action="store_true",
                        help="leave settings of allocators in the environment, and name them in the report")
    parser.add_argument("--smoke", action="store_true", help="only try every case once")
    return parser.parse_args()


def all_programs(options):
    libraries = command.given_libraries(options)
    if libraries and not options.given:
        raise Failure("--lib: --given is needed with it (tools/bench gives it)")
    return [Program(path) for path in options.programs] + [Program(options.given, *named) for named in libraries.items()]


def main():
    options = arguments()
    programs = all_programs(options)
    environment = settle_environment(options.keep_environment)
    programs, absent = available(programs)
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
        raise Failure(f"--minutes {options.minutes:g}: too short for {results.LEAST_REPETITIONS} repetitions of "
                      f"{session.runs_each()} runs; give {least:g} or more")
    command.make_place(options.out)
    machine = describe_machine(programs)   # before the session: the load of its own runs is not what it started with
    session.run()
    soak = session.soak(options.soak, soak_seconds) if soak_seconds else None
    if not session.runs:
        raise Failure("nothing was measured")
    directory = command.make_directory(options.out)
    shown = options.command or shlex.join(["bench/run.py", *sys.argv[1:]])
    raw = raw_results(session, programs, absent, shown, soak, machine, environment)
    with open(os.path.join(directory, "raw.json"), "w", encoding="utf-8") as file:
        json.dump(raw, file, indent=1)
    report.write(results.Results(raw), directory)
    return None


if __name__ == "__main__":
    command.run_command(main)
