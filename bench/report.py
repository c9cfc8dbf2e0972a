#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The report of one run: a table for the terminal and one HTML file that needs nothing beside it, no script, no network.

    report.py RAW.json          prints the table and writes report.html beside the file
    report.py --self-test
"""
import os
import re
import sys
import xml.etree.ElementTree
from html import escape

sys.dont_write_bytecode = True   # the source tree stays as it is

import charts
import results as data
from results import BASELINE, CALLS, HERO, PEER, PERCENTILES, Results, digits, memory_size, nanoseconds, title

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


def number(ratio):
    return f"{digits(ratio.middle)} ({digits(ratio.low)}-{digits(ratio.high)})" if ratio else "-"


# The terminal.

def columns(rows):
    """Rows of strings as aligned lines, the first column to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]).rstrip() for row in rows]


def subject_of(results):
    """Whose figures the table shows: tidepool's, unless it did not run."""
    return HERO if HERO in results.allocators else results.allocators[0]


def case_row(results, case, hero):
    time, peak = results.of(case, hero, "ns"), results.of(case, hero, "peak")
    memory = [results.ratio(case, hero, other, "peak") if results.memory_matters(case) else None for other in (BASELINE, PEER)]
    return [title(case), nanoseconds(time.middle) if time else "-", number(results.ratio(case, hero, BASELINE)),
            number(results.ratio(case, hero, PEER)), memory_size(peak.middle) if peak else "-",
            *[digits(ratio.middle) if ratio else "-" for ratio in memory]]


def mean_row(results, allocator):
    means = [results.mean_ratio(allocator, other, key) for key in ("ns", "peak") for other in (BASELINE, PEER)]
    return [allocator, *[digits(mean) if mean else "-" for mean in means]]


def case_table(results):
    hero = subject_of(results)
    rows = [[hero, "time", "against malloc", "against jemalloc", "peak memory", "/malloc", "/jemalloc"]]
    rows += [case_row(results, case["name"], hero) for case in results.cases]
    means = [["geometric mean", "time / malloc", "time / jemalloc", "memory / malloc", "memory / jemalloc"]]
    means += [mean_row(results, allocator) for allocator in results.allocators]
    return [*columns(rows), "", f"Below 1 is faster, or less memory. Medians of {results.repetitions} repetitions, in brackets their quartiles.",
            "Ratios of memory where at least 1 MiB is live.", "", *columns(means)]


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
    lines += [f"Left out: {failure}" for failure in sorted({f"{f['case']}: {f['what']}" for f in results.raw["failures"]})]
    return "\n".join(lines)


# The page.

def lead(results):
    hero = subject_of(results)
    ratios = [results.ratio(case["name"], hero, BASELINE) for case in results.cases]
    ratios = [ratio for ratio in ratios if ratio]
    if not ratios:
        return f"The C library's malloc or {hero} was not measured."
    time, memory = results.mean_ratio(hero, BASELINE), results.mean_ratio(hero, BASELINE, "peak")
    faster, slower = sum(ratio.high < 1 for ratio in ratios), sum(ratio.low > 1 for ratio in ratios)
    words = f"Against the C library's malloc, {hero} is faster in {faster} of {len(ratios)} cases and slower in {slower}"
    words += " (the rest are within the spread)"
    means = [f"{digits(mean)} times the {what}" for mean, what in ((time, "time"), (memory, "peak memory")) if mean]
    return words + (f"; it takes {' and '.join(means)} in the geometric mean." if means else ".")


def description(results):
    raw, machine = results.raw, results.raw["machine"]
    entries = {"Command": f"<code>{escape(raw['command'])}</code>", "Date": escape(raw["date"]),
               "Processor": escape(f"{machine['processor']}, {machine['processors']} usable"), "Memory": escape(machine["memory"]),
               "System": escape(machine["system"]), "Compiler": escape(machine["compiler"]),
               "Transparent huge pages": escape(machine["huge pages"]), "Load when started": escape(machine["load when started"]),
               "Allocators": escape("; ".join(f"{a}: {raw['versions'].get(a) or 'version unknown'}" for a in results.allocators)),
               "Repetitions": f"{results.repetitions}, each run some {raw['seconds_a_run']:.2f} s"}
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in entries.items()) + "</dl>"


def picture(drawing):
    return f"<figure>{drawing}</figure>" if drawing else ""


def section(heading, words, drawing):
    return f"<h2>{heading}</h2><p>{words}</p>{picture(drawing)}" if drawing else ""


def mean_table(results):
    head = ["", "time<br/>/ malloc", f"time<br/>/ {PEER}", "memory<br/>/ malloc", f"memory<br/>/ {PEER}"]
    rows = [mean_row(results, allocator) for allocator in results.allocators]
    cells = "".join(f"<tr{hero_class(row[0])}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return "<table><thead><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + f"</tr></thead><tbody>{cells}</tbody></table>"


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
inside each repetition the allocators take turns, a different one first each time. Time is a median over the repetitions;
its spread is the quartiles. A ratio is formed inside each repetition before its median is taken. Cases with one thread are
timed by the processor time of the process, cases with several by the clock. The loops are compiled once for each allocator
from the same text, and a call is an indirect call through one word of memory for all of them; malloc in the process always
is the C library's. Memory is the highest resident set of the process above what it was before the first call; pages of
programs and libraries do not count, nor does memory of the harness.
"""


def means(results):
    if not results.cases:
        return ""
    return f'{mean_table(results)}<p class="faint">Geometric means over all cases; memory over those with at least 1 MiB live.</p>'


def case_by_case(results):
    if not results.cases:
        return ""
    bars = "".join(f"<h3>{escape(subject.replace('_', ' '))}</h3>{picture(charts.bars(results, cases))}" for subject, cases in results.subjects().items())
    return ("<h2>Case by case</h2><p>Bars are time against malloc, shorter is better, with quartiles; marks are memory, with a dashed line at what "
            f"the case itself has live. A bar with an arrow is cut.</p>{bars}"
            f"<h2>All figures</h2><p>Medians; ± is half the distance of the quartiles.</p>{figure_table(results)}")


def pictures(results):
    return "".join([
        section("Time beside memory", "One point for each case with at least 1 MiB live; the cross is the geometric mean. The shaded quarter is "
                "faster than malloc with less memory.", charts.time_beside_memory(results)),
        section("Scaling by threads", "Higher is better. The bars at the markers are quartiles.",
                charts.scaling(results, results.raw["machine"]["processors"])),
        section("Time of a single call", "Percentiles of all calls, medians over the repetitions. The time includes that of the clock. "
                "The longest call of a run is mostly an interruption by the system.", charts.percentiles(results)),
        section("Object pools, a long life", "Pools that grow and shrink, evict and overflow in a heap with a budget, and blocks of all sizes in a "
                "second heap, wave after wave of five heights: bytes that the heaps hold at the top of each wave and after it. A line that "
                "climbs would be fragmentation.", charts.soak(results.raw.get("soak"))),
        case_by_case(results),
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


# Self-test: made-up results with known answers.

def made_up_run(case, allocator, repetition, ns):
    google = {f"{call}_{which}_ns": ns * 3 ** i for call in ("alloc", "free") for i, which in enumerate(PERCENTILES)}
    return {"case": case, "allocator": allocator, "repetition": repetition, "ns": ns, "peak": 3 * data.MIB, "end": 0, "live": 2 * data.MIB,
            "google": {**google, "clock_ns": 9.0} if case.startswith("latency") else {}}


def made_up():
    names = ["pairs/16", "slots/<&>", "latency/x/threads:1"] + [f"threads/slots/threads:{n}" for n in (1, 2, 3, 4)]
    speeds = {HERO: 10.0, BASELINE: 20.0, PEER: 40.0, "another": 900.0}
    runs = [made_up_run(case, a, r, ns * (1 + r / 10)) for case in names for a, ns in speeds.items() for r in range(3)
            if (case, a) != ("pairs/16", "another")]
    return Results({"cases": [{"name": name, "what": "a < b & c", "brief": True} for name in names], "allocators": list(speeds),
                    "runs": runs, "failures": [{"case": "pairs/16", "allocator": "another", "what": "ended"}], "versions": {},
                    "soak": {"seconds": [1.0, 2.0, 3.0], "held_at_peak": [5e6, 6e6, 5e6], "held_in_trough": [2e6, 2e6, 2e6],
                             "mixed_at_peak": [9e5, 9e5, 9e5], "mixed_in_trough": [1e5, 1e5, 1e5]},
                    "command": "bench <x>", "date": "2001-02-03T04:05:06", "seconds_a_run": 0.1,
                    "machine": {"processor": "p", "processors": 2, "memory": "m", "system": "s", "compiler": "c", "huge pages": "h",
                                "load when started": "0"}})


def self_test():
    results = made_up()
    assert abs(results.ratio("pairs/16", HERO, BASELINE).middle - 0.5) < 1e-9
    assert abs(results.ratio("pairs/16", HERO, PEER).high - 0.25) < 1e-9
    assert abs(results.mean_ratio("another", BASELINE) - 45) < 1e-6
    assert results.of("pairs/16", "another", "ns") is None and data.figure([]) is None
    assert abs(results.of("pairs/16", HERO, "ns").middle - 11) < 1e-9
    table = terminal(results)
    assert re.search(r"^pairs/16 +11\.0 ns +0\.50 \(0\.50-0\.50\) +0\.25 ", table, re.MULTILINE), table
    assert "threads/slots, 2 threads" in table and "Left out: pairs/16: ended" in table
    text = page(results)
    tree = xml.etree.ElementTree.fromstring(text.split("\n", 1)[1])
    drawings = [element for element in tree.iter() if element.tag.endswith("}svg")]
    assert len(drawings) == 1 + 1 + 1 + 1 + 1 + len(results.subjects())
    assert charts.soak(None) == ""
    assert not any(element.tag.endswith(("}script", "}link", "}img")) for element in tree.iter())
    assert not re.search(r"nan|inf\b|\b(?:src|href)=", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower())
    placed = charts.spread_labels([5.0, 5.0, 5.0], 10, 0, 100)
    assert sorted(placed) == [5.0, 15.0, 25.0]


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    if sys.argv[1] == "--self-test":
        return self_test()
    try:
        return write(data.load(sys.argv[1]), os.path.dirname(os.path.abspath(sys.argv[1])))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None
    except (OSError, ValueError, KeyError) as error:
        return sys.exit(f"report: {sys.argv[1]}: {error!r}")


if __name__ == "__main__":
    main()
