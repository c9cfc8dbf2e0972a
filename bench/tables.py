# SPDX-License-Identifier: MIT
"""What the terminal, the page and docs/performance.md show of results: tables and the sentences about them. A table is rows of
strings, of which the first is the head."""
import shlex

import results as data
from results import (BASELINE, BY_HAND, FASTER, GENERAL, HERO, OWN_KINDS, PEER, SLOWER, UNDECIDED, digits, memory_size,
                     nanoseconds, title)

# Whose cases of a kind serve the same end, and how they are called there. An object pool is what a program would write itself.
RIVALS = {
    GENERAL: ((BASELINE, BASELINE, ""), (PEER, PEER, "")),
    "heaps": (("malloc, each freed", BASELINE, ""), ("jemalloc's arenas", PEER, ""), ("mimalloc's heaps", "mimalloc", "")),
    "object_pools": (("malloc, made again", BASELINE, ""), ("jemalloc, made again", PEER, ""),
                     ("a list by hand", BASELINE, BY_HAND)),
}
NAMES = {GENERAL: "what every allocator has", "heaps": "heaps", "object_pools": "object pools"}


def number(ratio):
    return f"{digits(ratio.middle)} ({digits(ratio.low)}-{digits(ratio.high)})" if ratio else "-"


def enumeration(words):
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]


def counted(cases):
    return f"{cases} case{'s' * (cases != 1)}"


def subject_of(results):
    """Whose figures the tables show: tidepool's, unless it did not run."""
    return HERO if HERO in results.allocators else results.allocators[0]


def rivals_of(results, kind):
    return [(name, other, ending) for name, other, ending in RIVALS[kind]
            if other in results.having(kind) and (other != subject_of(results) or ending)]


def ratios_of(results, case, kind):
    """Of one case, to each rival."""
    return [results.ratio(case, subject_of(results), other, other_case=case + ending if ending else None)
            for _, other, ending in rivals_of(results, kind)]


def slowest_first(results, kind):
    """The cases of a kind: what is slower than any rival, where no difference is shown, what is faster than all; in each the
    greatest ratio first."""
    def place(case):
        ratios = [ratio for ratio in ratios_of(results, case, kind) if ratio]
        verdicts = {ratio.verdict for ratio in ratios}
        worst = next((at for at, verdict in enumerate((SLOWER, UNDECIDED, FASTER)) if verdict in verdicts), 3)
        return worst, -max([ratio.middle for ratio in ratios] or [0])
    return sorted([case for case in results.of_kind(kind) if not case.endswith(BY_HAND)], key=place)


def case_row(results, case, kind):
    hero = subject_of(results)
    time, peak = results.of(case, hero, "ns"), results.of(case, hero, "peak")
    cells = [cell for ratio in ratios_of(results, case, kind) for cell in (number(ratio), ratio.verdict if ratio else "")]
    cells = [title(case), nanoseconds(time.middle) if time else "-", *cells, memory_size(peak.middle) if peak else "-"]
    if kind == GENERAL:
        matters = results.memory_matters(case)
        memory = [results.ratio(case, hero, other, "peak") if matters else None for _, other, _ in rivals_of(results, kind)]
        cells += [digits(ratio.middle) if ratio else "-" for ratio in memory]
    return cells


def case_rows(results, kind):
    names = [f"/ {name}" for name, _, _ in rivals_of(results, kind)]
    head = [subject_of(results), "time", *[cell for name in names for cell in (name, "")], "peak memory"]
    head += names if kind == GENERAL else []
    return [head] + [case_row(results, case, kind) for case in slowest_first(results, kind)]


def mean_rows(results, kind):
    """What there are common cases for."""
    others = [other for other in (BASELINE, PEER) if other in results.having(kind)]
    columns = [(key, other) for key in ("ns", "peak") if results.common(kind, key) for other in others]
    head = ["", *[f"{'time' if key == 'ns' else 'memory'} / {other}" for key, other in columns]]
    return [head] + [[a, *["1" if a == other else number(results.mean_ratio(a, other, key, kind)) for key, other in columns]]
                     for a in results.having(kind)] if columns else []


def mean_words(results, kind):
    """Over which cases the means are."""
    times, memories, having = results.common(kind), results.common(kind, "peak"), results.having(kind)
    left_out = len(results.of_kind(kind)) - len(times)
    if not times:
        return f"No means: there is no case that all of {enumeration(having)} ran."
    words = f"Geometric means over the {counted(len(times))} that all of {enumeration(having)} ran"
    words += f"; {left_out} more, which not all of them ran, are left out" if left_out else ""
    words += (f". Memory: over the {len(memories)} of them in which at least 1 MiB is live." if memories else
              ". None of memory: in none of them at least 1 MiB is live.")
    few = any("-" in row for row in mean_rows(results, kind)[1:])
    return words + (f" A dash: fewer than {data.LEAST_REPETITIONS} repetitions have all of these cases." if few else "")


def verdict_rows(results):
    """Empty where the subject meets nobody."""
    hero, rows = subject_of(results), []
    for other in results.having(GENERAL):
        counts = [len(cases) for cases in results.verdicts(hero, other).values()]
        if other != hero and sum(counts):
            rows.append([f"than {other}, of {counted(sum(counts))}", *map(str, counts)])
    return [[hero, SLOWER, UNDECIDED, FASTER], *rows] if rows else []


def slower_lines(results):
    """The cases in which others are faster, by name."""
    for other in results.having(GENERAL):
        slower = results.verdicts(subject_of(results), other)[SLOWER] if other != subject_of(results) else []
        if slower:
            yield f"Slower than {other}: " + ", ".join(f"{title(case)} {digits(ratio.middle)}" for case, ratio in slower) + "."


def environment_words(results):
    """Settings of allocators that were kept in the environment of all programs."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in (results.raw.get("environment") or {}).items())


def missing_lines(results):
    """What should be in the tables and is not, and why."""
    missing = {}
    for case, allocator in results.not_measured():
        missing.setdefault(allocator, []).append(title(case))
    for allocator, cases in missing.items():
        yield f"Not measured with {allocator} ({counted(len(cases))}): {', '.join(cases)}."
    yield from (f"Not measured: {line}." for line in results.raw.get("absent", []))
    yield from sorted({f"Failed: {f['case']}: {f['what']}" for f in results.raw["failures"]})
    if results.raw.get("dropped"):
        yield f"Dropped: {results.raw['dropped']}."


def fewer_repetitions(results):
    """The pairs of which runs failed, and how many are left."""
    counts = {pair: len(runs) for pair, runs in results.runs.items() if len(runs) < results.repetitions}
    return [f"{title(case)} with {allocator} ({count})" for (case, allocator), count in counts.items()]


def ratio_words(results):
    fewer = fewer_repetitions(results)
    words = (f"Below 1 is faster, or less memory. Medians of {results.repetitions} repetitions; brackets show a 95 % "
             f"confidence interval of the ratio. {UNDECIDED.capitalize()}: the interval contains 1.")
    return words + (f" Fewer of {enumeration(fewer)}." if fewer else "")


def against_malloc(results, kind):
    """How often tidepool is slower and faster than malloc, in cases of one kind; empty where no case has both."""
    verdicts = {verdict: len(cases) for verdict, cases in results.verdicts(HERO, BASELINE, kind).items()}
    count = sum(verdicts.values())
    return (f"{HERO} is slower in {verdicts[SLOWER]} of {counted(count)} and faster in {verdicts[FASTER]}; "
            f"in {verdicts[UNDECIDED]} no difference is shown") if count else ""


def lead(results):
    """The first sentences: true whatever was measured."""
    names = {HERO: HERO, BASELINE: "the C library's malloc"}
    missing = [name for allocator, name in names.items() if allocator not in results.allocators]
    if missing:
        return f"Not measured: {' and '.join(missing)}. So the two are not compared here."
    general = against_malloc(results, GENERAL)
    if general:
        return f"Against the C library's malloc, {general}.{mean_sentence(results)}"
    own = [f"{NAMES[kind].capitalize()}: against the C library's malloc to the same end, {words}."
           for kind in OWN_KINDS if (words := against_malloc(results, kind))]
    return " ".join(own) or f"No case was measured with both {HERO} and the C library's malloc."


def mean_sentence(results):
    means = [f"{digits(mean.middle)} times the {what}" for key, what in (("ns", "time"), ("peak", "peak memory"))
             if (mean := results.mean_ratio(HERO, BASELINE, key))]
    common = len(results.common())
    over = f" over the {counted(common)} that all allocators ran" if common < len(results.of_kind(GENERAL)) else ""
    return f" It takes {' and '.join(means)} in the geometric mean{over}." if means else ""
