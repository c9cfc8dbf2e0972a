# SPDX-License-Identifier: MIT
"""What is said of real programs: tables of Markdown, which a terminal can show as they are."""
import statistics

from results import BASELINE, HERO, LEAST_REPETITIONS, MIB, UNDECIDED, digits, median_of_means, median_ratio, nanoseconds


class RealResults:
    """Ratios are formed inside each repetition, like those of the other benchmarks (results.py)."""
    def __init__(self, raw):
        self.raw, self.runs = raw, {}
        for run in raw["runs"]:
            self.runs.setdefault((run["program"], run["allocator"]), {})[run["repetition"]] = run
        self.runs = {pair: runs for pair, runs in self.runs.items() if len(runs) >= LEAST_REPETITIONS}
        self.programs = [program["name"] for program in raw["programs"] if (program["name"], HERO) in self.runs]
        self.allocators = [a for a in raw["allocators"] if any((program, a) in self.runs for program in self.programs)]

    def middle(self, program, allocator, key):
        return statistics.median(run[key] for run in self.runs[program, allocator].values())

    def by_repetition(self, program, allocator, other, key):
        ours, theirs = self.runs.get((program, allocator), {}), self.runs.get((program, other), {})
        return {r: ours[r][key] / theirs[r][key] for r in ours if r in theirs and theirs[r][key]}

    def ratio(self, program, allocator, other, key):
        return median_ratio(self.by_repetition(program, allocator, other, key).values())

    def others(self, program, allocator):
        """The allocators that one is compared with. tidepool with options, a variant, is no other allocator than tidepool."""
        variants = self.raw.get("variants", {})
        left_out = {allocator, *variants, *([HERO] if allocator in variants else [])}
        return [a for a in self.allocators if a not in left_out and (program, a) in self.runs]

    def best_other(self, program, allocator, key):
        """Whoever has the least in the middle, but for one allocator."""
        return min(self.others(program, allocator), key=lambda other: self.middle(program, other, key), default=None)

    def common(self):
        return [program for program in self.programs if all((program, a) in self.runs for a in self.allocators)]

    def mean(self, allocator, other, key):
        return median_of_means([self.by_repetition(program, allocator, other, key) for program in self.common()])

    def mean_of_best(self, allocator, key):
        """Of the ratios to the best of the others at each program."""
        return median_of_means([self.by_repetition(program, allocator, self.best_other(program, allocator, key), key)
                                for program in self.common()])


def number(ratio):
    return f"{digits(ratio.middle)} ({digits(ratio.low)}-{digits(ratio.high)})" if ratio else "-"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def program_row(results, program):
    best, least = (results.best_other(program, HERO, key) for key in ("time", "peak"))
    middle = {key: results.middle(program, HERO, key) for key in ("time", "system", "peak", "mean", "faults")}
    time = results.ratio(program, HERO, best, "time") if best else None
    peak = results.ratio(program, HERO, least, "peak") if least else None
    return [program, nanoseconds(middle["time"] * 1e9), number(results.ratio(program, HERO, BASELINE, "time")),
            f"{number(time)} {best}, {time.verdict}" if time else "-", f"{digits(middle['peak'] / MIB)} MiB",
            f"{digits(peak.middle)} {least}" if peak else "-", f"{digits(middle['mean'] / MIB)} MiB",
            f"{middle['faults']:,.0f}", f"{results.middle(program, best, 'faults'):,.0f}" if best else "-"]


def slowest_first(results):
    def place(program):
        best = results.best_other(program, HERO, "time")
        return -results.ratio(program, HERO, best, "time").middle if best else 0
    return sorted(results.programs, key=place)


def mean_row(results, allocator):
    cells = ["1" if allocator == BASELINE else number(results.mean(allocator, BASELINE, key))
             for key in ("time", "peak", "mean")]
    return [allocator, *cells, number(results.mean_of_best(allocator, "time")), number(results.mean_of_best(allocator, "peak"))]


def surroundings(raw):
    """On what it was measured, and what could not be."""
    machine = raw["machine"]
    return [f"{machine['processor']}, {machine['processors']} usable, {machine['system']}, "
            f"huge pages {machine['huge pages']}; "
            + (f"before each run another process touched {raw['warm']} MiB of huge pages; " if raw.get("warm") else "")
            + "; ".join(f"{a}: {raw['versions'].get(a) or 'version unknown'}" for a in raw["allocators"]) + ".",
            *(f"Not measured: {line}." for line in raw["absent"]),
            *sorted({f"Failed: {failure['allocator']}: {failure['what']}." for failure in raw["failures"]})]


def markdown(results):
    """All of it."""
    raw = results.raw
    head = [HERO, "time", "/ malloc", "/ best other", "peak", "/ least other", "mean", "faults", "best other's"]
    means = ["", "time / malloc", "peak / malloc", "mean memory / malloc", "time / best other", "peak / least other"]
    repetitions = len({run["repetition"] for run in raw["runs"]})
    time = "The time that a workload prints, or the clock's." if raw.get("public") else "Processor time."
    parts = [table(head, [program_row(results, program) for program in slowest_first(results)]),
             table(means, [mean_row(results, allocator) for allocator in results.allocators]),
             f"{time} Below 1 is faster, or less memory. Medians of {repetitions} repetitions; "
             f"brackets show a 95 % confidence interval of the ratio; {UNDECIDED}: the interval contains 1. The best other is "
             "the fastest at that program, chosen by the same figures, which favours it. Means are geometric, over "
             f"{len(results.common())} programs."]
    return "\n\n".join(parts + surroundings(raw))
