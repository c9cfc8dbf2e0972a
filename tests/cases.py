# SPDX-License-Identifier: MIT
"""Counts the cases that a build's tests ran, suite by suite, and compares with those that cases.golden wants.

A case is a test of cmocka, unittest or pytest where a program says how many it ran, and a program otherwise. What is slow or
long is counted there alone, since short runs leave it out. A test that is skipped is there, and says so; one that is not there
is a failure, unless it goes with a package that is missing (GO_WITH): then it counts as skipped. A log that is not there is a
failure too, unless all that should be in it counts as skipped.

usage: cases.py LENGTH BUILD [MISSING-PACKAGE]...    LENGTH: quick, normal, long or rest, what was run (tools/test)
       cases.py --raise BUILD...                     raises cases.golden to what the last run of each build counted

The first line of output has tests passed, failed and skipped; then come lines that begin with "failed: ", and others to be
shown."""

import collections
import json
import pathlib
import re
import sys

GOLDEN = pathlib.Path(__file__).with_name("cases.golden")
VERDICTS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}
ALONE = ("long", "slow")
LEFT_OUT = {"quick": {"slow", "long"}, "normal": {"long"}, "long": set()}   # nothing is expected of a rest
RAN = re.compile(r"^\[=+\] (\d+) test\(s\) run\.|^Ran (\d+) tests? in ", re.MULTILINE)
SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) test\(s\)|\(skipped=(\d+)", re.MULTILINE)
# The last line of pytest -q: 1 failed, 99 passed, 1 skipped in 3.02s
PYTEST = re.compile(r"^((?:\d+ [a-z]+, )*\d+ [a-z]+) in \d+\.\d\ds(?: \([\d:]+\))?$", re.MULTILINE)
PYTEST_CASES = ("passed", "failed", "error", "errors", "xfailed", "xpassed", "skipped")

# Which cases are not even there without a package: any of the packages, and how many cases of a suite go with it; of a suite of
# one build where they are only there; of a whole build where nothing compiles it. A test that says itself that it is skipped is
# there.
ALL = sys.maxsize
GO_WITH = (
    ({"g++"}, {"malloc": 27, "layout": 8, "unit": 66, "adapters": 1, "cpp": 97, "docs": 1, "examples": 1}),
    ({"g++", "clang", "libc++-dev", "libc++abi-dev"}, {"malloc": 10, "cpp": 50}),
    ({"g++", "libbenchmark-dev"}, {"bench": 2}),
    ({"clang"}, {"build-clang": ALL}),
    ({"clang", "libclang-rt-14-dev"}, {"build-clang long": 1}),
    ({"mandoc"}, {"docs": 3}),
    ({"gdb"}, {"build-test slow": 22, "build-test gdb": 2}),
    ({"abigail-tools"}, {"build-test layout": 2}),
    ({"cargo", "rustc"}, {"build-test rust": 113}),   # the one that is left says that it is skipped
    ({"python3-pytest"}, {"misuse": 99}),
    ({"clang-format"}, {"layout": 1}),
    ({"liblua5.4-dev"}, {"adapters": 5, "unit": 5, "layout": 1, "examples": 1}),
    ({"libsqlite3-dev"}, {"adapters": 6, "unit": 6, "layout": 1, "examples": 1}),
    ({"libexpat1-dev"}, {"adapters": 6, "unit": 6, "layout": 1, "examples": 1}),
    ({"zlib1g-dev"}, {"adapters": 6, "unit": 6, "layout": 1, "examples": 1}),
    ({"libgmp-dev"}, {"adapters": 6, "unit": 6, "layout": 1, "examples": 1}),
    ({"libjansson-dev"}, {"adapters": 6, "unit": 6, "layout": 1, "examples": 1}),
    ({"libfreetype-dev"}, {"adapters": 4, "unit": 4, "layout": 1, "examples": 1}),
    ({"libxml2-dev"}, {"adapters": 5, "unit": 5, "layout": 1, "examples": 1}),
    ({"libevent-dev"}, {"adapters": 6, "unit": 6, "layout": 1, "examples": 1}),
    ({"libuv1-dev"}, {"adapters": 7, "unit": 7, "layout": 1, "examples": 1}),
    ({"libcurl4-openssl-dev"}, {"adapters": 6, "unit": 6, "layout": 1, "examples": 1}),
    ({"libssl-dev"}, {"adapters": 8, "unit": 8, "layout": 1, "examples": 1}),
    ({"libsdl2-dev"}, {"adapters": 5, "unit": 5, "layout": 1, "examples": 1}),
    ({"libpython3-dev"}, {"adapters": 8, "unit": 8, "layout": 1, "examples": 1}),
    ({"g++", "liblua5.4-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libsqlite3-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libexpat1-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "zlib1g-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libgmp-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libjansson-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libfreetype-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libxml2-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libevent-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libuv1-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libcurl4-openssl-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libssl-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libsdl2-dev"}, {"adapters": 1, "layout": 1}),
    ({"g++", "libpython3-dev"}, {"adapters": 1, "layout": 1}),
)


def read_log(build):
    """None if no test ran."""
    try:
        return [json.loads(line) for line in (pathlib.Path(build) / "meson-logs/testlog.json").read_text().splitlines()]
    except FileNotFoundError:
        return None


def verdict(test):
    return VERDICTS.get(test["result"], "failed")


def suites_of(test):
    """tidepool:malloc+slow / fork: malloc and slow."""
    suites = test["name"].partition(" / ")[0].partition(":")[2].split("+")
    return [suite for suite in ALONE if suite in suites][:1] or suites


def sum_of(pattern, text):
    return sum(int(next(filter(None, numbers))) for numbers in pattern.findall(text) if any(numbers))


def pytest_counts(text):
    """All cases, and those that were skipped."""
    counts = collections.Counter()
    for line in PYTEST.findall(text):
        for number, what in re.findall(r"(\d+) ([a-z]+)", line):
            counts[what] += int(number)
    return sum(counts[what] for what in PYTEST_CASES), counts["skipped"]


def cases_of(test):
    """Cases that ran, and cases that were skipped."""
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    of_pytest, skipped_by_pytest = pytest_counts(text)
    if verdict(test) == "skipped":
        return 0, max(skipped_by_pytest, 1)
    skipped = sum_of(SKIPPED, text) + skipped_by_pytest
    return max(sum_of(RAN, text) + of_pytest, 1) - skipped, skipped


def count(log):
    """(ran, skipped) by suite."""
    counts = collections.defaultdict(lambda: (0, 0))
    for test in log:
        ran, skipped = cases_of(test)
        for suite in suites_of(test):
            counts[suite] = counts[suite][0] + ran, counts[suite][1] + skipped
    return dict(sorted(counts.items()))


def read_golden():
    lines = (line.split() for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#"))
    return {(build, suite): int(least) for build, suite, least in lines}


def missing_cases(build, length, counts):
    """Of each suite that was to run, how many cases of how many are not there."""
    for (of, suite), least in read_golden().items():
        if length != "rest" and of == build and suite not in LEFT_OUT[length] and (suite == "long") == (length == "long"):
            there = sum(counts.get(suite, (0, 0)))
            if there < least:
                yield suite, least - there, least


def excused(build, suite, packages, built):
    """How many cases of a suite may not be there, and for want of which packages."""
    most, wanting = 0, set()
    for needed, cases in GO_WITH:
        lost = cases.get(suite, 0) + cases.get(f"{build} {suite}", 0) + (0 if built else cases.get(build, 0))
        if lost and needed & packages:
            most, wanting = most + lost, wanting | needed & packages
    return most, " ".join(sorted(wanting))


def described(counts):
    def told(skipped):
        return f" ({skipped} skipped)" if skipped else ""
    return ", ".join(f"{suite} {ran}{told(skipped)}" for suite, (ran, skipped) in counts.items())


def report(length, build, packages):
    name = pathlib.Path(build).name
    log = read_log(build)
    counts = count(log or [])
    tests = collections.Counter(map(verdict, log or []))
    lines = [f"failed:   {name}: {test['name']} ({test['result'].lower()})" for test in log or [] if verdict(test) == "failed"]
    for suite, missing, least in missing_cases(name, length, counts):
        most, wanting = excused(name, suite, packages, built=log is not None)
        skipped = min(missing, most)
        if skipped:
            tests["skipped"] += skipped
            lines.append(f"{name}: skipped, {skipped} of {least} cases of suite {suite}; missing packages: {wanting}")
        if skipped < missing:
            tests["failed"] += 1
            lines.append(f"failed:   {name}: {missing - skipped} of {least} cases of suite {suite} did not run")
    if log is None and (tests["failed"] or not tests["skipped"]):
        tests["failed"] += 1
        lines.insert(0, f"failed:   {name}: meson test wrote no log")
    print(tests["passed"], tests["failed"], tests["skipped"])
    print("\n".join(lines + [f"{name}, cases: {described(counts)}"] if counts else lines))


def raise_golden(builds):
    golden = read_golden()
    for build in builds:
        for suite, counts in count(read_log(build) or []).items():
            key = pathlib.Path(build).name, suite
            golden[key] = max(golden.get(key, 0), sum(counts))
    head = [line for line in GOLDEN.read_text().splitlines() if line.startswith("#")]
    GOLDEN.write_text("\n".join(head + [f"{build} {suite} {least}" for (build, suite), least in sorted(golden.items())]) + "\n")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--raise":
        raise_golden(sys.argv[2:])
    else:
        report(sys.argv[1], sys.argv[2], set(sys.argv[3:]))


main()
