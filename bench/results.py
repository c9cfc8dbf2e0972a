# SPDX-License-Identifier: MIT
"""What was measured: the raw JSON of one run of the benchmarks, and the figures drawn from it.

A figure is a median over the repetitions, with the quartiles as its spread: a machine that does something else meanwhile
makes a few repetitions slow, which moves neither much. A ratio is formed inside each repetition, where both sides ran
within seconds of one another, before its median is taken.
"""
import json
import math
import statistics
from typing import NamedTuple

HERO = "tidepool"
BASELINE = "malloc"
PEER = "jemalloc"
MIB = 1024 * 1024
PERCENTILES = ("p50", "p90", "p99", "p99.9", "p99.99", "max")
CALLS = {"alloc": "allocate", "free": "free"}
MEMORY_MATTERS = MIB   # a ratio of memory says something where at least this much is live


class Figure(NamedTuple):
    middle: float
    low: float    # the quartiles
    high: float


def figure(values):
    values = sorted(values)
    if not values:
        return None
    if len(values) < 3:
        return Figure(statistics.median(values), values[0], values[-1])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Figure(middle, low, high)


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


class Results:
    def __init__(self, raw):
        self.raw = raw
        self.runs = {}
        for run in raw["runs"]:
            self.runs.setdefault((run["case"], run["allocator"]), {})[run["repetition"]] = run
        measured = [case for case in raw["cases"] if any((case["name"], a) in self.runs for a in raw["allocators"])]
        self.allocators = [a for a in raw["allocators"] if any((case["name"], a) in self.runs for case in measured)]
        # Those that time each call are shown by their percentiles: their own time is mostly that of the clock.
        self.single_calls = [case["name"] for case in measured if case["name"].startswith("latency/")]
        self.cases = [case for case in measured if case["name"] not in self.single_calls]
        self.repetitions = len({run["repetition"] for run in raw["runs"]})

    def subjects(self):
        """Cases by subject, in order."""
        subjects = {}
        for case in self.cases:
            subjects.setdefault(case["name"].split("/")[0], []).append(case)
        return subjects

    def of(self, case, allocator, key):
        """The figure `key` of a case, or None where it was not measured."""
        return figure([run[key] for run in self.runs.get((case, allocator), {}).values() if run.get(key) is not None])

    def ratio(self, case, allocator, other, key="ns"):
        ours, theirs = self.runs.get((case, allocator), {}), self.runs.get((case, other), {})
        return figure([ours[r][key] / theirs[r][key] for r in ours if r in theirs and ours[r].get(key) and theirs[r].get(key)])

    def memory_matters(self, case):
        lives = [run["live"] for a in self.allocators for run in self.runs.get((case, a), {}).values()]
        return bool(lives) and max(lives) >= MEMORY_MATTERS

    def time_and_memory(self, case, allocator, other=BASELINE):
        """Both ratios of one case, or None where memory says nothing."""
        if not self.memory_matters(case):
            return None
        time, memory = self.ratio(case, allocator, other), self.ratio(case, allocator, other, "peak")
        return (time.middle, memory.middle) if time and memory else None

    def mean_ratio(self, allocator, other, key="ns"):
        """Geometric mean over the cases, each counting once."""
        ratios = [self.ratio(case["name"], allocator, other, key) for case in self.cases
                  if key != "peak" or self.memory_matters(case["name"])]
        return geometric_mean([ratio.middle for ratio in ratios if ratio])

    def percentile(self, case, allocator, call, which):
        """Of the nanoseconds of single calls: "alloc" or "free", one of PERCENTILES. None where not measured."""
        values = [run["google"].get(f"{call}_{which}_ns") for run in self.runs.get((case, allocator), {}).values()]
        middle = figure([value for value in values if value])
        return middle.middle if middle else None

    def clock(self, case):
        """What the clock adds to each of them."""
        middle = figure([run["google"].get("clock_ns", 0) for a in self.allocators for run in self.runs.get((case, a), {}).values()])
        return middle.middle if middle else None


def load(path):
    with open(path, encoding="utf-8") as file:
        return Results(json.load(file))


def title(name):
    """threads/slots/threads:2 -> threads/slots, 2 threads"""
    name, _, threads = name.partition("/threads:")
    return f"{name}, {threads} thread{'s' * (threads != '1')}" if threads else name


def thread_count(name):
    return int(name.partition("/threads:")[2] or 1)


def nanoseconds(value):
    """Three digits and the unit that suits them."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= scale:
            return f"{digits(value / scale)} {unit}"
    return f"{digits(value)} ns"


def digits(value):
    if value >= 99.95:
        return f"{value:,.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.0995 else f"{value:.3f}"


def memory_size(value):
    return f"{digits(value / MIB)} MiB" if value >= MIB else f"{value / 1024:.0f} KiB"
