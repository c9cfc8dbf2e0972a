#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The report of one run: a table for the terminal and one HTML file that needs nothing beside it, no script, no network.

    report.py RAW.json                prints the tables and writes report.html beside the file
    report.py --markdown RAW.json     prints what README.md shows between "bench begin" and "bench end"
"""
import os
import shlex
import sys
from html import escape

sys.dont_write_bytecode = True   # the source tree stays as it is

import charts
import results as data
from results import (BASELINE, BY_HAND, CALLS, FASTER, GENERAL, HERO, OWN_KINDS, PEER, PERCENTILES, SLOWER, UNDECIDED, digits, memory_size,
                     nanoseconds, title)

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; color: #1d2126; background: #fff;
  max-width: 1000px; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .3rem; border-top: 1px solid #d8dce1; padding-top: 1.1rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .3rem 0 .9rem; max-width: 46rem; }
p.lead { font-size: 1.05rem; }
.faint, caption { color: #646a73; }
figure { margin: .6rem 0 1.2rem; }
svg { display: block; width: 100%; height: auto; font-family: inherit; font-variant-numeric: tabular-nums; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1.2rem; font-size: .9rem; margin: .8rem 0; }
dt { color: #646a73; } dd { margin: 0; }
code { font: .92em ui-monospace, "Liberation Mono", monospace; }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .18rem .7rem; border-bottom: 1px solid #e7eaee; white-space: nowrap; font-weight: normal; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { color: #646a73; vertical-align: bottom; border-bottom-color: #646a73; }
.hero, .hero td { font-weight: 600; } thead .hero { color: #b24e00; }
.spread { color: #646a73; font-weight: normal; font-size: .92em; }
.wide { overflow-x: auto; }
@media print {
  @page { size: A4; margin: 14mm; }
  body { font-size: 10pt; margin: 0; padding: 0; max-width: none; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  h2, h2 + p, h3 { break-after: avoid; }
  figure, tr, dl { break-inside: avoid; }
  thead { display: table-header-group; }
  table { font-size: 7.2pt; } th, td { padding: .1rem .35rem; }
  .wide { overflow: visible; }
}
"""


# What both the terminal and the page show: rows of strings, of which the first is the head.

# Whose cases of a kind serve the same end, and how they are called there. An object pool is what a program would write itself.
RIVALS = {
    GENERAL: ((BASELINE, BASELINE, ""), (PEER, PEER, "")),
    "heaps": (("malloc, each freed", BASELINE, ""), ("jemalloc's arenas", PEER, ""), ("mimalloc's heaps", "mimalloc", "")),
    "object_pools": (("malloc, made again", BASELINE, ""), ("jemalloc, made again", PEER, ""), ("a list by hand", BASELINE, BY_HAND)),
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
        return ([SLOWER in verdicts, UNDECIDED in verdicts, FASTER in verdicts, True].index(True), -max([r.middle for r in ratios] or [0]))
    return sorted([case for case in results.of_kind(kind) if not case.endswith(BY_HAND)], key=place)


def case_row(results, case, kind):
    hero = subject_of(results)
    time, peak = results.of(case, hero, "ns"), results.of(case, hero, "peak")
    cells = [cell for ratio in ratios_of(results, case, kind) for cell in (number(ratio), ratio.verdict if ratio else "")]
    cells = [title(case), nanoseconds(time.middle) if time else "-", *cells, memory_size(peak.middle) if peak else "-"]
    if kind == GENERAL:
        memory = [results.ratio(case, hero, other, "peak") if results.memory_matters(case) else None for _, other, _ in rivals_of(results, kind)]
        cells += [digits(ratio.middle) if ratio else "-" for ratio in memory]
    return cells


def case_rows(results, kind):
    head = [subject_of(results), "time", *[cell for name, _, _ in rivals_of(results, kind) for cell in (f"/ {name}", "")], "peak memory"]
    head += [f"/ {name}" for name, _, _ in rivals_of(results, kind)] if kind == GENERAL else []
    return [head] + [case_row(results, case, kind) for case in slowest_first(results, kind)]


def mean_rows(results, kind):
    """What there are common cases for."""
    columns = [(key, other) for key in ("ns", "peak") if results.common(kind, key) for other in (BASELINE, PEER) if other in results.having(kind)]
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
    return (f"Below 1 is faster, or less memory. Medians of {results.repetitions} repetitions; in brackets an interval that holds such a "
            f"ratio at least 95 times of 100. {UNDECIDED.capitalize()}: 1 is in it." + (f" Fewer of {enumeration(fewer)}." if fewer else ""))


# The terminal.

def columns(rows):
    """Rows of strings as aligned lines, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]).rstrip() for row in rows]


def case_table(results):
    lines = []
    if results.of_kind(GENERAL):
        lines += [*columns(case_rows(results, GENERAL)), "", ratio_words(results), "Ratios of memory where at least 1 MiB is live.", "",
                  *columns(verdict_rows(results)), *slower_lines(results), "", mean_words(results, GENERAL), *columns(mean_rows(results, GENERAL))]
    for kind in OWN_KINDS:
        if results.of_kind(kind):
            lines += ["", f"{NAMES[kind].capitalize()}, against what serves the same end", *columns(case_rows(results, kind)), "",
                      *([] if results.of_kind(GENERAL) else [ratio_words(results)]), mean_words(results, kind), *columns(mean_rows(results, kind))]
    return lines


def percentile_table(results, case, call):
    rows = [[f"{CALLS[call]}: {title(case)}", *PERCENTILES]]
    for allocator in results.allocators:
        times = [results.percentile(case, allocator, call, which) for which in PERCENTILES]
        rows.append([allocator, *[nanoseconds(time) if time else "-" for time in times]])
    return ["", *columns(rows)]


def terminal(results):
    lines = case_table(results) if results.cases else []
    for case in results.single_calls:
        lines += [line for call in CALLS for line in percentile_table(results, case, call)]
    missing = list(missing_lines(results))
    lines += ["", *missing] if missing else []
    lines += ["", f"Measured with {environment_words(results)}."] if results.raw.get("environment") else []
    return "\n".join(lines)


# The page.

def against_malloc(results, kind):
    """How often tidepool is slower and faster than malloc, in cases of one kind; empty where no case has both."""
    verdicts = {verdict: len(cases) for verdict, cases in results.verdicts(HERO, BASELINE, kind).items()}
    count = sum(verdicts.values())
    return (f"{HERO} is slower in {verdicts[SLOWER]} of {counted(count)} and faster in {verdicts[FASTER]}; "
            f"in {verdicts[UNDECIDED]} no difference is shown") if count else ""


def lead(results):
    """The first sentences: true whatever was measured."""
    missing = [name for allocator, name in ((HERO, HERO), (BASELINE, "the C library's malloc")) if allocator not in results.allocators]
    if missing:
        return f"Not measured: {' and '.join(missing)}. So the two are not compared here."
    general = against_malloc(results, GENERAL)
    if general:
        means = [f"{digits(mean.middle)} times the {what}" for key, what in (("ns", "time"), ("peak", "peak memory"))
                 if (mean := results.mean_ratio(HERO, BASELINE, key))]
        over = f" over the {counted(len(results.common()))} that all allocators ran" if len(results.common()) < len(results.of_kind(GENERAL)) else ""
        return f"Against the C library's malloc, {general}." + (f" It takes {' and '.join(means)} in the geometric mean{over}." if means else "")
    own = [f"{NAMES[kind].capitalize()}: against the C library's malloc to the same end, {words}."
           for kind in OWN_KINDS if (words := against_malloc(results, kind))]
    return " ".join(own) or f"No case was measured with both {HERO} and the C library's malloc."


def description(results):
    raw, machine = results.raw, results.raw["machine"]
    entries = {"Command": f"<code>{escape(raw['command'])}</code>", "Date": escape(raw["date"]),
               "Processor": escape(f"{machine['processor']}, {machine['processors']} usable"), "Memory": escape(machine["memory"]),
               "System": escape(machine["system"]), "Compiler": escape(machine["compiler"]),
               "Transparent huge pages": escape(machine["huge pages"]), "Load when started": escape(machine["load when started"]),
               "Allocators": escape("; ".join(f"{a}: {raw['versions'].get(a) or 'version unknown'}" for a in results.allocators)),
               **({"Environment": f"<code>{escape(environment_words(results))}</code>"} if raw.get("environment") else {}),
               "Repetitions": f"{results.repetitions}, each run some {raw['seconds_a_run']:.2f} s"}
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in entries.items()) + "</dl>"


def picture(drawing):
    return f"<figure>{drawing}</figure>" if drawing else ""


def section(heading, words, drawing):
    return f"<h2>{heading}</h2><p>{words}</p>{picture(drawing)}" if drawing else ""


def html_table(rows):
    if not rows:
        return ""
    head, *body = rows
    cells = "".join(f"<tr{hero_class(row[0])}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table></div>'


def hero_class(allocator):
    return ' class="hero"' if allocator == HERO else ""


def figure_cell(results, case, allocator):
    time, peak = results.of(case, allocator, "ns"), results.of(case, allocator, "peak")
    if not time:
        return "<td>-</td><td></td>"
    half = 50 * (time.high - time.low) / time.middle
    return (f"<td{hero_class(allocator)}>{nanoseconds(time.middle)} <span class=\"spread\">±{half:.0f} %</span></td>"
            f"<td{hero_class(allocator)}>{memory_size(peak.middle)}</td>")


def figure_table(results):
    names = "".join(f'<th colspan="2"{hero_class(a)}>{escape(a)}</th>' for a in results.allocators)
    units = "<th>time</th><th>peak</th>" * len(results.allocators)
    rows = "".join(f"<tr><td>{escape(title(case['name']))}</td>" + "".join(figure_cell(results, case["name"], a) for a in results.allocators) + "</tr>"
                   for case in results.cases)
    return (f'<div class="wide"><table><thead><tr><th></th>{names}</tr><tr><th></th>{units}</tr></thead><tbody>{rows}</tbody></table></div>')


METHOD = """
Every case of every allocator runs in a process of its own. All allocators do the same number of iterations of a case, and
inside each repetition the allocators take turns, a different one first each time; a repetition that was cut does not count.
Time is a median over the repetitions; its spread is the quartiles. A ratio is formed inside each repetition before its
median is taken, and a mean over cases too. The interval goes from the k-th least of the repetitions to the k-th greatest:
of six, seven or eight from the least to the greatest, of nine from the second on each side. k is the greatest with which
the median of many more repetitions is missed at most 5 times of 100, whatever the distribution, where repetitions do not
depend on one another. Up to one interval in twenty misses its ratio, so of many cases some differ by chance. Cases with one
thread are timed by the processor time of the process, cases with several by the clock. The loops are compiled once for each
allocator from the same text, and a call is an indirect call through one word of memory for all of them; malloc in the
process always is the C library's. Memory is the highest resident set of the process above what it was before the first
call; pages of programs and libraries do not count, nor does memory of the harness.
"""


def means(results):
    if not results.of_kind(GENERAL):
        return ""
    slower = "".join(f"<p>{escape(line)}</p>" for line in slower_lines(results))
    return (f'{html_table(mean_rows(results, GENERAL))}<p class="faint">{escape(mean_words(results, GENERAL))}</p>'
            f"{html_table(verdict_rows(results))}{slower}")


def own_kinds(results):
    parts = []
    for kind in OWN_KINDS:
        if results.of_kind(kind):
            parts += [f"<h2>{NAMES[kind].capitalize()}, against what serves the same end</h2><p>{escape(ratio_words(results))}</p>",
                      html_table(case_rows(results, kind)),
                      f'<p class="faint">{escape(mean_words(results, kind))}</p>', html_table(mean_rows(results, kind))]
    return "".join(parts)


def missing(results):
    lines = "".join(f"<p>{escape(line)}</p>" for line in missing_lines(results))
    return f"<h2>What is not here</h2>{lines}" if lines else ""


def case_by_case(results):
    if not results.cases:
        return ""
    table = f"<h2>Slowest first</h2><p>{escape(ratio_words(results))}</p>{html_table(case_rows(results, GENERAL))}" if results.of_kind(GENERAL) else ""
    bars = "".join(f"<h3>{escape(subject.replace('_', ' '))}</h3>{picture(charts.bars(results, cases))}" for subject, cases in results.subjects().items())
    return (f"{table}<h2>Case by case</h2><p>Bars are time against malloc, shorter is better, with the interval of the ratio; marks are memory, with a "
            f"dashed line at what the case itself has live. A bar with an arrow is cut.</p>{bars}"
            f"<h2>All figures</h2><p>Medians; ± is half the distance of the quartiles.</p>{figure_table(results)}")


def pictures(results):
    return "".join([
        section("Time beside memory", "One point for each common case with at least 1 MiB live; the cross is the geometric mean. The shaded quarter "
                "is faster than malloc with less memory.", charts.time_beside_memory(results)),
        section("Scaling by threads", "Higher is better. The bars at the markers are quartiles.",
                charts.scaling(results, results.raw["machine"]["processors"])),
        section("Time of a single call", "Percentiles of all calls, medians over the repetitions. The time includes that of the clock. "
                "The longest call of a run is mostly an interruption by the system.", charts.percentiles(results)),
        section("Object pools, a long life", "Pools that grow and shrink, evict and overflow in a heap with a budget, and blocks of all sizes in a "
                "second heap, wave after wave of five heights: bytes that the heaps hold at the top of each wave and after it. A line that "
                "climbs would be fragmentation.", charts.soak(results.raw.get("soak"))),
        own_kinds(results),
        case_by_case(results),
        missing(results),
    ])


def page(results):
    body = [f'<h1>{HERO} benchmarks</h1>', f'<p class="lead">{escape(lead(results))}</p>' if results.cases else "",
            picture(charts.key(results.allocators)), means(results), description(results), pictures(results),
            f"<h2>How it was measured</h2><p>{METHOD}</p>"]
    return ('<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><meta charset="utf-8"/>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
            f"<title>{HERO} benchmarks, {escape(results.raw['date'][:10])}</title><style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n")


def write(results, directory):
    path = os.path.join(directory, "report.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page(results))
    print(terminal(results))
    print(f"\nReport:   {path}\nRaw data: {os.path.join(directory, 'raw.json')}")


# README.md.

def markdown_table(rows):
    return [f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]] if rows else []


def markdown(results):
    machine = results.raw["machine"]
    lines = [f"`{results.raw['command']}`: {machine['processor']}, {machine['processors']} usable, {machine['system']}, {machine['compiler']}; "
             f"{results.repetitions} repetitions. In brackets intervals of at least 95 %."]
    lines[0] += f" Measured with `{environment_words(results)}`." if results.raw.get("environment") else ""
    if results.of_kind(GENERAL):
        lines += ["", mean_words(results, GENERAL), "", *markdown_table(mean_rows(results, GENERAL)), "", *markdown_table(verdict_rows(results)), "",
                  *slower_lines(results)]
    for kind in OWN_KINDS:
        if results.of_kind(kind):
            lines += ["", f"{NAMES[kind].capitalize()}, against what serves the same end:", "", *markdown_table(case_rows(results, kind))]
    missing = list(missing_lines(results))
    return "\n".join(lines + (["", *missing] if missing else []))


def main():
    *options, path = sys.argv[1:] or ["--help"]
    if path in ("-h", "--help") or options not in ([], ["--markdown"]):
        sys.exit(__doc__.strip())
    try:
        measured = data.load(path)
        if options:
            return print(markdown(measured))
        return write(measured, os.path.dirname(os.path.abspath(path)))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None
    except data.Unusable as error:
        return sys.exit(f"report: {path}: {error}")
    except (OSError, ValueError, KeyError) as error:
        return sys.exit(f"report: {path}: {error!r}")


if __name__ == "__main__":
    main()
