#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The report of one run: a table for the terminal and one HTML file that needs nothing beside it, no script, no network.

    report.py RAW.json                prints the tables and writes report.html beside the file
    report.py --markdown RAW.json     prints what docs/performance.md has between "bench begin" and "bench end"

The HTML file needs jinja2 and matplotlib; tools/python finds the Python that has them.
"""
import os
import sys

sys.dont_write_bytecode = True   # the source tree stays as it is

import results as data
from results import CALLS, GENERAL, OWN_KINDS, PERCENTILES, nanoseconds, title
from tables import (NAMES, case_rows, environment_words, mean_rows, mean_words, missing_lines, ratio_words, slower_lines,
                    verdict_rows)

# The terminal.

def columns(rows):
    """Rows of strings as aligned lines, the first column to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    justified = ([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])] for row in rows)
    return ["  ".join(cells).rstrip() for cells in justified]


def case_table(results):
    lines = []
    if results.of_kind(GENERAL):
        lines += [*columns(case_rows(results, GENERAL)), "",
                  ratio_words(results), "Ratios of memory where at least 1 MiB is live.", "",
                  *columns(verdict_rows(results)), *slower_lines(results), "",
                  mean_words(results, GENERAL), *columns(mean_rows(results, GENERAL))]
    for kind in OWN_KINDS:
        if results.of_kind(kind):
            lines += ["", f"{NAMES[kind].capitalize()}, against what serves the same end",
                      *columns(case_rows(results, kind)), "",
                      *([] if results.of_kind(GENERAL) else [ratio_words(results)]),
                      mean_words(results, kind), *columns(mean_rows(results, kind))]
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


def write_page(results, path):
    """True, or a line that says why there is none."""
    try:
        import page   # what it needs may be missing
    except ImportError as error:
        print(f"No report.html: this Python has no {error.name} (Debian packages python3-jinja2 and python3-matplotlib)")
        return False
    with open(path, "w", encoding="utf-8") as file:
        file.write(page.page(results))
    return True


def write(results, directory):
    path = os.path.join(directory, "report.html")
    print(terminal(results), end="\n\n")
    if write_page(results, path):
        print(f"Report:   {path}")
    print(f"Raw data: {os.path.join(directory, 'raw.json')}")


# docs/performance.md.

def markdown_table(rows):
    return [f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]] if rows else []


def markdown(results):
    machine = results.raw["machine"]
    lines = [f"`{results.raw['command']}`: {machine['processor']}, {machine['processors']} usable, {machine['system']}, "
             f"{machine['compiler']}; {results.repetitions} repetitions. Brackets hold intervals of at least 95 %."]
    lines[0] += f" Measured with `{environment_words(results)}`." if results.raw.get("environment") else ""
    if results.of_kind(GENERAL):
        lines += ["", mean_words(results, GENERAL), "", *markdown_table(mean_rows(results, GENERAL)), "",
                  *markdown_table(verdict_rows(results)), "", *slower_lines(results)]
    for kind in OWN_KINDS:
        if results.of_kind(kind):
            lines += ["", f"{NAMES[kind].capitalize()}, against what serves the same end:", "",
                      *markdown_table(case_rows(results, kind))]
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
