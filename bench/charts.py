# SPDX-License-Identifier: MIT
"""The pictures of the report, each a function that has the SVG of it, or nothing where nothing of it was measured."""
import math

from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator, StrMethodFormatter

from drawing import (FAINT, INK, RULE, SHADE, TOLD, WIDTH, chart, colour, figure_of, ink, marker, panel, round_numbers,
                     spread_labels, tint, weight)
from results import (BASELINE, CALLS, GENERAL, HERO, MIB, PERCENTILES, digits, memory_size, nanoseconds, thread_count, title)


@chart
def key(allocators):
    figure = figure_of(20, "Colours and markers of the allocators")
    marks = [Line2D([], [], color=colour(a), marker=marker(a), markersize=8.5, linestyle="none") for a in allocators]
    legend = figure.legend(marks, allocators, ncol=len(allocators), loc="upper left", bbox_to_anchor=(0, 1), frameon=False,
                           borderpad=0.1, borderaxespad=0, handletextpad=0.2, columnspacing=1.4)
    for allocator, text in zip(allocators, legend.get_texts()):
        text.set_weight(weight(allocator))
    return figure


# Bars: one subject, time on the left, memory on the right.

NAME_END, BAR_START, BAR_END, TIME_END, RATIO_END = 78, 86, 440, 512, 566
MEMORY_START, MEMORY_END, PEAK_END = 610, 905, 990
ROW, HEAD, GAP, ABOVE, BELOW = 14, 20, 8, 26, 20
RATIO_LIMIT = 2.5     # longer bars are cut, and say so
MEMORY_FLOOR = 4096   # a page: the least that can be seen


def ratio_limit(results, cases):
    ratios = [results.ratio(case["name"], a, BASELINE) for case in cases for a in results.allocators]
    return min(RATIO_LIMIT, max([1.2] + [1.05 * r.high for r in ratios if r]))


def memory_label(value, _=None):
    for unit, scale in (("GiB", 1024 * MIB), ("MiB", MIB)):
        if value >= scale:
            return f"{value / scale:g} {unit}"
    return f"{value / 1024:g} KiB"


def memory_limits(results, cases):
    peaks = [results.of(case["name"], a, "peak") for case in cases for a in results.allocators]
    lives = [results.of(case["name"], results.allocators[0], "live") for case in cases]
    values = [max(value, MEMORY_FLOOR) for figure in peaks + lives if figure for value in (figure.low, figure.high)]
    return 2.0 ** math.floor(math.log2(min(values)) - 0.1), 2.0 ** math.ceil(math.log2(max(values)) + 0.1)


def spread(figures, floor=0.0):
    """The distances from the middle to either bound, as matplotlib wants them."""
    limited = [[max(value, floor) for value in (figure.low, figure.middle, figure.high)] for figure in figures]
    return [[middle - low for low, middle, _ in limited], [high - middle for _, middle, high in limited]]


def whiskers(axes, rows, floor=0.0):
    if rows:
        heights, figures = zip(*rows)
        axes.errorbar([max(figure.middle, floor) for figure in figures], heights, xerr=spread(figures, floor), fmt="none",
                      ecolor=INK, elinewidth=1, capsize=2.5, capthick=1)


def cell(words, x, y, text, side="right", **how):
    words.text(x, y, text, ha=side, va="center_baseline", **how)


def time_bars(words, axes, results, rows):
    """`rows`: a case, an allocator and where they stand."""
    limit, bars_of, whole = axes.get_xlim()[1], [], []
    for case, allocator, y in rows:
        time, ratio = results.of(case, allocator, "ns"), results.ratio(case, allocator, BASELINE)
        if not time:
            cell(words, BAR_START + 4, y, "not measured", "left", color=FAINT, size=11)
            continue
        cell(words, TIME_END, y, nanoseconds(time.middle), weight=weight(allocator))
        if not ratio:
            continue
        bars_of.append((y, min(ratio.middle, limit), tint(allocator, 1 if allocator == HERO else 0.6)))
        if ratio.middle > limit:
            cell(words, BAR_END - 5, y, "▸", color="white", size=11)
        elif allocator != BASELINE:
            whole.append((y, ratio))
        if allocator != BASELINE:
            cell(words, RATIO_END, y, f"{digits(ratio.middle)}×", color=ink(allocator), weight=weight(allocator))
    if bars_of:
        heights, widths, colours = zip(*bars_of)
        axes.barh(heights, widths, ROW - 4, color=colours)
    whiskers(axes, whole)


def memory_marks(words, axes, results, rows):
    marks = [(y, peak, allocator) for case, allocator, y in rows if (peak := results.of(case, allocator, "peak"))]
    if not marks:
        return
    heights, peaks, allocators = zip(*marks)
    axes.hlines(heights, axes.get_xlim()[0], [max(peak.middle, MEMORY_FLOOR) for peak in peaks],
                colors=[colour(a) for a in allocators], linewidths=[1.5 if a == HERO else 1 for a in allocators])
    whiskers(axes, list(zip(heights, peaks)), MEMORY_FLOOR)
    for y, peak, allocator in marks:
        axes.plot(max(peak.middle, MEMORY_FLOOR), y, color=colour(allocator), marker=marker(allocator), markersize=7.5)
        cell(words, PEAK_END, y, memory_size(peak.middle), weight=weight(allocator))


def block_of(words, ratios, bytes_axes, results, case, top):
    """The head of one case, and the rows below it: a case, an allocator and where they stand."""
    for axes in ratios, bytes_axes:
        axes.axhspan(top, top + HEAD, color="white", zorder=0.8)
    words.axhline(top, color=RULE, linewidth=0.8)
    name = words.text(0, top + 11, title(case["name"]), size=12.5, weight="bold", va="center_baseline")
    words.annotate(case["what"], (1, 0), (2, 0), xycoords=name, textcoords="offset points", size=12.5, color=FAINT,
                   va="bottom", annotation_clip=False)
    live = results.of(case["name"], results.allocators[0], "live")
    if live and live.middle >= MEMORY_FLOOR:
        bytes_axes.vlines(live.middle, top + HEAD - 1, top + HEAD + ROW * len(results.allocators), color=INK, linewidth=1,
                          linestyle=(0, (2, 2)))
    for row, allocator in enumerate(results.allocators):
        y = top + HEAD + (row + 0.5) * ROW
        cell(words, NAME_END, y, allocator, color=ink(allocator), weight=weight(allocator))
        yield case["name"], allocator, y


@chart
def bars(results, subject, cases):
    block = HEAD + ROW * len(results.allocators) + GAP
    bottom = ABOVE + block * len(cases)
    figure = figure_of(bottom + BELOW, f"{subject}: bars of time against malloc and marks of peak memory for each case")
    ratios = panel(figure, BAR_START, ABOVE, BAR_END - BAR_START, bottom - ABOVE, xlim=(0, ratio_limit(results, cases)))
    bytes_axes = panel(figure, MEMORY_START, ABOVE, MEMORY_END - MEMORY_START, bottom - ABOVE, xscale="log",
                       xlim=memory_limits(results, cases))
    words = panel(figure, 0, 0, WIDTH, bottom, xlim=(0, WIDTH), ylim=(bottom, 0))
    words.set_axis_off()
    for axes in ratios, bytes_axes:
        axes.set(ylim=(bottom, ABOVE))
        axes.yaxis.set_major_locator(NullLocator())
    ratios.xaxis.set(major_locator=round_numbers(), major_formatter=StrMethodFormatter("{x:g}×"))
    ratios.axvline(1, color=FAINT, linewidth=1, linestyle=(0, (3, 3)), zorder=0.7)
    bytes_axes.xaxis.set(major_locator=LogLocator(2, numticks=7), major_formatter=FuncFormatter(memory_label),
                         minor_locator=NullLocator())
    for x, what, side in ((BAR_START, "time of one operation, against malloc", "left"), (TIME_END, "time", "right"),
                          (RATIO_END, "ratio", "right"), (PEAK_END, "peak", "right"),
                          (MEMORY_START, "peak growth of resident memory, log scale", "left")):
        words.text(x, 12, what, ha=side, color=FAINT)
    rows = [row for index, case in enumerate(cases)
            for row in block_of(words, ratios, bytes_axes, results, case, ABOVE + index * block)]
    time_bars(words, ratios, results, rows)
    memory_marks(words, bytes_axes, results, rows)
    return figure


# Points: time beside memory, one panel for each allocator.

POINTS_LEFT, POINTS_TOP, POINTS_GAP, POINTS_BELOW, POINTS_MOST = 52, 44, 26, 44, 300


@chart
def time_beside_memory(results):
    common = results.common(key="peak")
    panels = {a: {title(case): p for case in common if (p := results.time_and_memory(case, a))}
              for a in results.having(GENERAL) if a != BASELINE}
    panels = {a: points for a, points in panels.items() if points}
    if not panels:
        return None
    room = WIDTH - POINTS_LEFT - 10 - POINTS_GAP * (len(panels) - 1)
    width = min(POINTS_MOST, room / len(panels))
    height = min(width, 240)
    figure = figure_of(POINTS_TOP + height + POINTS_BELOW,
                       "Time and memory of each case against malloc, one panel for each allocator")
    first = None
    for index, (allocator, points) in enumerate(panels.items()):
        axes = panel(figure, POINTS_LEFT + index * (width + POINTS_GAP), POINTS_TOP, width, height, sharex=first, sharey=first)
        first = first or axes
        means = [results.mean_over(common, allocator, BASELINE, what) for what in ("ns", "peak")]
        point_panel(axes, allocator, points, means)
        axes.tick_params(labelleft=axes is first)
    first.set(xscale="log", yscale="log")
    first.set_ylabel("peak memory against malloc", rotation_mode="anchor")
    for axes in figure.axes:
        shade_better(axes)
    middle = (POINTS_LEFT + (len(panels) * (width + POINTS_GAP) - POINTS_GAP) / 2) / WIDTH
    figure.text(middle, 10 / (POINTS_TOP + height + POINTS_BELOW), "time against malloc: left of 1 is faster; below 1 is less "
                "memory (log scales)", ha="center", color=FAINT)
    return figure


def point_panel(axes, allocator, points, means):
    for name, (time, memory) in points.items():
        axes.plot(time, memory, color=colour(allocator), marker=marker(allocator), markersize=6.5, alpha=0.55,
                  gid=f"{TOLD}{name}: {digits(time)}× time, {digits(memory)}× memory")
    axes.plot(1, 1, linestyle="none")   # both scales have it
    axes.annotate(allocator, (0, 1), (0, 22), xycoords="axes fraction", textcoords="offset points", size=13, weight="bold")
    if all(means):
        time, memory = (mean.middle for mean in means)
        axes.annotate(f"mean: {digits(time)}× time, {digits(memory)}× memory", (0, 1), (0, 7), xycoords="axes fraction",
                      textcoords="offset points", size=11.5, color=ink(allocator))
        axes.plot(time, memory, color=INK, marker="+", markersize=18, markeredgewidth=2)


def shade_better(axes):
    """The quarter with less of both, and the lines where it ends; on scales that all panels share."""
    left, right, low, high = *axes.get_xlim(), *axes.get_ylim()
    axes.fill([left, 1, 1, left], [low, low, 1, 1], color=SHADE, zorder=0)
    axes.axhline(1, color=FAINT, linewidth=1, zorder=0.9)
    axes.axvline(1, color=FAINT, linewidth=1, zorder=0.9)
    axes.set(xlim=(left, right), ylim=(low, high))
    for axis in axes.xaxis, axes.yaxis:
        axis.set(major_locator=LogLocator(10, subs=(1, 2, 5), numticks=12), major_formatter=StrMethodFormatter("{x:g}"),
                 minor_locator=NullLocator())


# Lines: throughput by threads, percentiles of single calls and a long life, in panels two abreast.

PANEL_WIDTH, PANEL_HEIGHT, PANEL_LEFT, PANEL_LABELS, PANEL_ABOVE, PANEL_BELOW, PANEL_GAP = 480, 230, 54, 82, 32, 44, 40


def panels_of(count, label):
    return figure_of(math.ceil(count / 2) * (PANEL_ABOVE + PANEL_HEIGHT + PANEL_BELOW), label)


def line_panel(figure, index, name, what, **options):
    """The axes of one panel, with its name and what its heights are."""
    left, row = (index % 2) * (PANEL_WIDTH + PANEL_GAP), index // 2
    axes = panel(figure, left + PANEL_LEFT, PANEL_ABOVE + row * (PANEL_ABOVE + PANEL_HEIGHT + PANEL_BELOW),
                 PANEL_WIDTH - PANEL_LEFT - PANEL_LABELS, PANEL_HEIGHT, **options)
    axes.grid(False, axis="x")
    axes.annotate(name, (0, 1), (-PANEL_LEFT, 14), xycoords="axes fraction", textcoords="offset points", weight="bold")
    axes.annotate(what, (1, 1), (0, 14), xycoords="axes fraction", textcoords="offset points", ha="right", size=11, color=FAINT)
    return axes


def name_ends(axes, ends):
    """The name of each allocator where its line ends. The limits of the axes are settled."""
    low, high = axes.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    depths = [-axes.transData.transform(end)[1] for end in ends.values()]
    for (allocator, end), depth, placed in zip(ends.items(), depths, spread_labels(depths, 14, -high, -low)):
        axes.annotate(allocator, end, (19, depth - placed), textcoords="offset points", va="center", annotation_clip=False,
                      color=ink(allocator), weight=weight(allocator),
                      arrowprops={"arrowstyle": "-", "color": colour(allocator), "linewidth": 0.8, "shrinkA": 1, "shrinkB": 5,
                                  "relpos": (0, 0.5)})


def line_style(allocator):
    hero = allocator == HERO
    return {"color": colour(allocator), "marker": marker(allocator), "markersize": 8 if hero else 6.5,
            "linewidth": 2.6 if hero else 1.4, "zorder": 3 if hero else 2}


@chart
def scaling(results, processors):
    families = {}
    for case in results.cases:
        name, threaded, _ = case["name"].partition("/threads:")
        if threaded:
            families.setdefault(name, []).append(case["name"])
    families = {name: cases for name, cases in families.items() if len(cases) > 2}
    if not families:
        return None
    figure = panels_of(len(families), "Operations a second by number of threads")
    for index, (name, cases) in enumerate(families.items()):
        scaling_panel(line_panel(figure, index, name, "million operations a second, all threads"), results, cases, processors)
    return figure


def throughput(figure):
    """Of the time of one operation, in millions a second; the longest time is the least."""
    return type(figure)(1e3 / figure.middle, 1e3 / figure.high, 1e3 / figure.low)


def scaling_panel(axes, results, cases, processors):
    threads, ends = [thread_count(case) for case in cases], {}
    for allocator in results.allocators:
        points = [(thread_count(case), throughput(time)) for case in cases if (time := results.of(case, allocator, "ns"))]
        if points:
            numbers, figures = zip(*points)
            middles = [figure.middle for figure in figures]
            axes.errorbar(numbers, middles, spread(figures), elinewidth=1, **line_style(allocator))
            ends[allocator] = numbers[-1], middles[-1]
    if 1 < processors < max(threads):
        axes.axvline(processors, color=FAINT, linewidth=1, linestyle=(0, (3, 3)), zorder=1)
        axes.annotate(f"{processors} processors", (processors, 0), (4, 6), xycoords=axes.get_xaxis_transform(),
                      textcoords="offset points", size=11, color=FAINT)
    axes.set(ylim=(0, None), xlabel="threads")
    axes.xaxis.set_major_locator(FixedLocator(threads))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(round_numbers())
    name_ends(axes, ends)


@chart
def percentiles(results):
    panels = [(case, call) for case in results.single_calls for call in CALLS]
    if not any(results.percentile(case, a, call, which) for case, call in panels for a in results.allocators
               for which in PERCENTILES):
        return None
    figure, first = panels_of(len(panels), "Percentiles of the time of single calls"), None
    ends = {}
    for index, (case, call) in enumerate(panels):
        axes = line_panel(figure, index, f"{CALLS[call]}: {title(case)}", "time of one call, log scale", sharey=first)
        first = first or axes
        ends[axes] = percentile_lines(axes, results, case, call)
    first.set_yscale("log")
    for axes, lines in ends.items():
        axes.yaxis.set(major_locator=LogLocator(10, numticks=12), minor_locator=NullLocator(),
                       major_formatter=EngFormatter("s"))
        name_ends(axes, lines)
    return figure


def percentile_lines(axes, results, case, call):
    """Where the lines end, by allocator."""
    ends, places = {}, range(len(PERCENTILES))
    for allocator in results.allocators:
        points = [(at, value * 1e-9) for at in places if (value := results.percentile(case, allocator, call, PERCENTILES[at]))]
        if points:
            axes.plot(*zip(*points), **line_style(allocator))
            ends[allocator] = points[-1]
    if results.clock(case):
        clock = results.clock(case) * 1e-9
        axes.axhline(clock, color=FAINT, linewidth=1, linestyle=(0, (3, 3)))
        axes.annotate("the clock alone", (1, clock), (0, 3), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
                      ha="right", size=11, color=FAINT)
    axes.set_xticks(list(places), PERCENTILES)
    return ends


SOAKS = (("the heap of the pools", "held_at_peak", "held_in_trough"),
         ("the heap of blocks of all sizes", "mixed_at_peak", "mixed_in_trough"))


@chart
def soak(series):
    if not series or len(series["seconds"]) < 2:
        return None
    figure = panels_of(len(SOAKS), "Bytes held by two heaps over the time of a soak")
    for index, (name, top, trough) in enumerate(SOAKS):
        axes = line_panel(figure, index, name, "MiB held")
        soak_lines(axes, series["seconds"], [value / MIB for value in series[top]], [value / MIB for value in series[trough]])
    return figure


def soak_lines(axes, seconds, tops, troughs):
    """Waves are of five heights: points show each height as a row, where a line would fill the space between."""
    axes.plot(seconds, tops, color=colour(HERO), marker="o", markersize=2.4, linestyle="none")
    axes.plot(seconds, troughs, color=colour(HERO), linewidth=2.2)
    axes.set(ylim=(0, 1.05 * max(tops + troughs)), xlim=(0, seconds[-1]))
    axes.xaxis.set(major_locator=round_numbers(), major_formatter=StrMethodFormatter("{x:g} s"))
    axes.yaxis.set(major_locator=round_numbers(), major_formatter=StrMethodFormatter("{x:g}"))
    for height, what, how in (max(tops[-5:]), "at the top", "normal"), (troughs[-1], "after it", "bold"):
        axes.annotate(what, (1, height), (6, 0), xycoords=axes.get_yaxis_transform(), textcoords="offset points", va="center",
                      weight=how, annotation_clip=False)
