# SPDX-License-Identifier: MIT
"""What was measured: the raw JSON of one run of the benchmarks, and the figures drawn from it.

A figure is a median over the repetitions, with the quartiles as its spread: a machine that does something else meanwhile
makes a few repetitions slow, which moves neither much. A ratio is formed inside each repetition, where both sides ran
within seconds of one another, before its median is taken; so is a mean of ratios, over its cases. With a median comes the
interval from the k-th least of the repetitions to the k-th greatest. The median of many more repetitions lies outside if
fewer than k of these lie on one side of it. How likely that is follows from tosses of a coin, whatever the distribution,
where repetitions do not depend on one another. k is the greatest with which it happens at most five times of a hundred
(H. A. David and H. N. Nagaraja, "Order Statistics", 2003, 7.1).

Means are over common cases: those that every allocator has and was measured in. An allocator that lacks what it would be
slow at, or quick at, would otherwise have another mean than the same allocator beside it.
"""
import functools
import json
import math
import re
import statistics
from typing import NamedTuple

HERO = "tidepool"
BASELINE = "malloc"
PEER = "jemalloc"
MIB = 1024 * 1024
PERCENTILES = ("p50", "p90", "p99", "p99.9", "p99.99", "max")
CALLS = {"alloc": "allocate", "free": "free"}
MEMORY_MATTERS = MIB   # a ratio of memory says something where at least this much is live
LEAST_REPETITIONS = 6  # the median of all is between the least and the greatest of six in 97 of 100 runs, of five in 94
MISSES = 0.05          # the most that an interval may miss its median
GENERAL = "general"    # cases of what every allocator has
OWN_KINDS = ("heaps", "object_pools")   # subjects of what only some have; each has means of its own
BY_HAND = "_by_hand"   # ends the name of a case in which malloc's program does by hand what an object pool does
SLOWER, UNDECIDED, FASTER = "slower", "no difference shown", "faster"


class Figure(NamedTuple):
    middle: float
    low: float    # the quartiles
    high: float


class Ratio(NamedTuple):
    middle: float
    low: float    # the interval
    high: float
    repetitions: int

    @property
    def verdict(self):
        """What the interval shows about the ratio: where it holds 1, nothing."""
        return SLOWER if self.low > 1 else FASTER if self.high < 1 else UNDECIDED


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


@functools.cache
def rank(count):
    """Which of `count` values in order, from 1 on, and from the other end, are the bounds of their median; 0 where even the
    least and the greatest miss it too often."""
    def misses(k):
        return 2 * sum(math.comb(count, i) for i in range(k)) / 2 ** count
    return max((k for k in range(count // 2 + 1) if misses(k) <= MISSES), default=0)


def median_ratio(values):
    """Of the ratios of the repetitions; None where they are too few for an interval."""
    values, k = sorted(values), rank(len(values))
    return Ratio(statistics.median(values), values[k - 1], values[-k], len(values)) if k else None


def median_of_means(columns):
    """Of the geometric means of some cases, each a ratio by repetition: of those repetitions that all of them have. The
    interval is about the repetitions: it does not say what the mean of other cases would be."""
    shared = set.intersection(*map(set, columns)) if columns else set()
    return median_ratio([geometric_mean([column[r] for column in columns]) for r in shared])


def kind_of(case):
    subject = case.split("/")[0]
    return subject if subject in OWN_KINDS else GENERAL


def complete_runs(raw):
    """The runs without those of repetitions that were cut: where time is up, it is up for those cases that stand last."""
    pairs = {(run["case"], run["allocator"]) for run in raw["runs"]}
    pairs -= {(failure["case"], failure["allocator"]) for failure in raw["failures"]}
    found = {}
    for run in raw["runs"]:
        found.setdefault(run["repetition"], set()).add((run["case"], run["allocator"]))
    return [run for run in raw["runs"] if pairs <= found[run["repetition"]]]


class Unusable(ValueError):
    """One line that says which figure of which run cannot be one."""


ABOVE_ZERO = math.ulp(0)   # the least float that is
LEAST = {"ns": ABOVE_ZERO, "items_per_second": ABOVE_ZERO, "real_time": ABOVE_ZERO,
         "end": -math.inf, "end_growth": -math.inf}   # 0 of others


def fault_of(figures, names):
    """Which of them is no figure, or nothing. NaN and infinity are numbers in Python's JSON, and true is one in Python."""
    for name in names:
        value = figures.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < LEAST.get(name, 0):
            return f"{name} is {json.dumps(value)}"
    return ""


def check_raw(raw):
    for run in raw["runs"]:
        calls = [name for name in run["google"] if re.fullmatch(r"(alloc|free)_.*_ns|clock_ns", name)]
        fault = fault_of(run, ["ns", "peak", "live", "end"]) or fault_of(run["google"], calls)
        if fault:
            raise Unusable(f"{run['allocator']}, {run['case']}, \"repetition\": {run['repetition']}: {fault}")
    for name, series in (raw.get("soak") or {}).items():
        for number, value in enumerate(series):
            if fault_of({name: value}, [name]):
                raise Unusable(f"soak, {name}, row {number}: {fault_of({name: value}, [name])}")


class Results:
    def __init__(self, raw):
        check_raw(raw)
        self.raw = raw
        self.runs, self.ratios = {}, {}
        complete = complete_runs(raw)
        for run in complete:
            self.runs.setdefault((run["case"], run["allocator"]), {})[run["repetition"]] = run
        self.runs = {pair: runs for pair, runs in self.runs.items() if len(runs) >= LEAST_REPETITIONS}
        measured = [case for case in raw["cases"] if any((case["name"], a) in self.runs for a in raw["allocators"])]
        self.allocators = [a for a in raw["allocators"] if any((case["name"], a) in self.runs for case in measured)]
        # Those that time each call are shown by their percentiles: their own time is mostly that of the clock.
        self.single_calls = [case["name"] for case in measured if case["name"].startswith("latency/")]
        self.cases = [case for case in measured if case["name"] not in self.single_calls]
        self.repetitions = len({run["repetition"] for run in complete})

    def subjects(self):
        """Cases by subject, in order."""
        subjects = {}
        for case in self.cases:
            subjects.setdefault(case["name"].split("/")[0], []).append(case)
        return subjects

    def of(self, case, allocator, key):
        """The figure `key` of a case, or None where it was not measured."""
        return figure([run[key] for run in self.runs.get((case, allocator), {}).values() if run.get(key) is not None])

    def by_repetition(self, case, allocator, other, key, other_case=None):
        ours, theirs = self.runs.get((case, allocator), {}), self.runs.get((other_case or case, other), {})
        both = [r for r in sorted(ours) if ours[r].get(key) and theirs.get(r, {}).get(key)]
        return {r: ours[r][key] / theirs[r][key] for r in both}

    def ratio(self, case, allocator, other, key="ns", other_case=None):
        """With its interval, or None where one of them was not measured. The other may have done the same in a case of another
        name."""
        asked = case, allocator, other, key, other_case
        if asked not in self.ratios:
            self.ratios[asked] = median_ratio(self.by_repetition(*asked).values())
        return self.ratios[asked]

    def memory_matters(self, case):
        lives = [run["live"] for a in self.allocators for run in self.runs.get((case, a), {}).values()]
        return bool(lives) and max(lives) >= MEMORY_MATTERS

    def time_and_memory(self, case, allocator, other=BASELINE):
        """Both ratios of one case, or None where one of them is missing."""
        time, memory = self.ratio(case, allocator, other), self.ratio(case, allocator, other, "peak")
        return (time.middle, memory.middle) if time and memory else None

    def of_kind(self, kind):
        return [case["name"] for case in self.cases if kind_of(case["name"]) == kind]

    def having(self, kind):
        """The allocators that have what the cases of a kind are about."""
        return [a for a in self.allocators if any((case, a) in self.runs for case in self.of_kind(kind))]

    def common(self, kind=GENERAL, key="ns"):
        """The cases in which each allocator that has the kind was measured; for memory, where enough of it is live."""
        def measured(case, allocator):
            return sum(bool(run.get(key)) for run in self.runs.get((case, allocator), {}).values()) >= LEAST_REPETITIONS
        return [case for case in self.of_kind(kind)
                if (key != "peak" or self.memory_matters(case)) and all(measured(case, a) for a in self.having(kind))]

    def mean_over(self, cases, allocator, other, key="ns"):
        return median_of_means([self.by_repetition(case, allocator, other, key) for case in cases])

    def mean_ratio(self, allocator, other, key="ns", kind=GENERAL):
        """Geometric mean over the common cases, each counting once."""
        asked = kind, allocator, other, key
        if asked not in self.ratios:
            self.ratios[asked] = self.mean_over(self.common(kind, key), allocator, other, key)
        return self.ratios[asked]

    def verdicts(self, allocator, other, kind=GENERAL):
        """The cases of each verdict, the greatest ratio first; what is slower stands first. Of all cases that the two have in
        common: a count compares with no other count, as a mean does with other means."""
        found = {SLOWER: [], UNDECIDED: [], FASTER: []}
        for case in self.of_kind(kind):
            ratio = self.ratio(case, allocator, other)
            if ratio:
                found[ratio.verdict].append((case, ratio))
        return {verdict: sorted(cases, key=lambda each: -each[1].middle) for verdict, cases in found.items()}

    def not_measured(self):
        """Each case that an allocator has and was not measured in: pairs of the case and the allocator."""
        offered = self.raw.get("offered") or {a: [case["name"] for case in self.raw["cases"] if (case["name"], a) in self.runs]
                                              for a in self.raw["allocators"]}
        return [(case["name"], a) for case in self.raw["cases"] for a, names in offered.items()
                if case["name"] in names and (case["name"], a) not in self.runs]

    def percentile(self, case, allocator, call, which):
        """Of the nanoseconds of single calls: "alloc" or "free", one of PERCENTILES. None where not measured."""
        values = [run["google"].get(f"{call}_{which}_ns") for run in self.runs.get((case, allocator), {}).values()]
        middle = figure([value for value in values if value])
        return middle.middle if middle else None

    def clock(self, case):
        """What the clock adds to each of them."""
        runs = [run for a in self.allocators for run in self.runs.get((case, a), {}).values()]
        middle = figure([run["google"].get("clock_ns", 0) for run in runs])
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
