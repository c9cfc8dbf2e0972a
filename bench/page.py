# SPDX-License-Identifier: MIT
"""The page of the report: the template report.html.jinja, and what it is filled with. Needs jinja2 and matplotlib."""
import pathlib

import jinja2
import markupsafe

import charts
import tables
from results import GENERAL, HERO, OWN_KINDS, memory_size, nanoseconds, title

FOLDER = pathlib.Path(__file__).parent


def description(results):
    """Under what the run was made: each a name, what is said, and whether that is code."""
    raw, machine = results.raw, results.raw["machine"]
    versions = "; ".join(f"{a}: {raw['versions'].get(a) or 'version unknown'}" for a in results.allocators)
    return [("Command", raw["command"], True), ("Date", raw["date"], False),
            ("Processor", f"{machine['processor']}, {machine['processors']} usable", False),
            ("Memory", machine["memory"], False), ("System", machine["system"], False),
            ("Compiler", machine["compiler"], False), ("Transparent huge pages", machine["huge pages"], False),
            ("Load when started", machine["load when started"], False), ("Allocators", versions, False),
            *([("Environment", tables.environment_words(results), True)] if raw.get("environment") else []),
            ("Repetitions", f"{results.repetitions}, each run some {raw['seconds_a_run']:.2f} s", False)]


def figure_cells(results, case):
    """Of each allocator: its name, the time, how far the quartiles are, the peak; or only the name."""
    for allocator in results.allocators:
        time, peak = results.of(case, allocator, "ns"), results.of(case, allocator, "peak")
        if time:
            half = 50 * (time.high - time.low) / time.middle
            yield allocator, nanoseconds(time.middle), f"±{half:.0f} %", memory_size(peak.middle)
        else:
            yield (allocator,)


def kind_tables(results, kind):
    """What the page says of cases of one kind; nothing where there are none."""
    return {"name": tables.NAMES[kind], "cases": tables.case_rows(results, kind), "means": tables.mean_rows(results, kind),
            "mean_words": tables.mean_words(results, kind)} if results.of_kind(kind) else None


def pictures(results):
    drawn = {"key": charts.key(results.allocators), "time_beside_memory": charts.time_beside_memory(results),
             "scaling": charts.scaling(results, results.raw["machine"]["processors"]),
             "percentiles": charts.percentiles(results), "soak": charts.soak(results.raw.get("soak"))}
    return {name: markupsafe.Markup(picture) for name, picture in drawn.items()}


def bars(results):
    return [(subject.replace("_", " "), markupsafe.Markup(charts.bars(results, subject, cases)))
            for subject, cases in results.subjects().items()]


def page(results):
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined,
                                     trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    return environment.get_template("report.html.jinja").render(
        hero=HERO, date=results.raw["date"][:10], allocators=results.allocators, cases=results.cases, title=title,
        lead=tables.lead(results) if results.cases else "", ratio_words=tables.ratio_words(results),
        general=kind_tables(results, GENERAL), own_kinds=[own for kind in OWN_KINDS if (own := kind_tables(results, kind))],
        verdicts=tables.verdict_rows(results), slower=list(tables.slower_lines(results)), description=description(results),
        pictures=pictures(results), bars=bars(results), missing=list(tables.missing_lines(results)),
        figures=[(case["name"], list(figure_cells(results, case["name"]))) for case in results.cases])
