# SPDX-License-Identifier: MIT
"""The pictures of the report, as SVG text. Allocators keep their colour and marker throughout; a name always stands beside.

Colours are of Okabe and Ito's palette, which people with any colour vision can tell apart, and grey for the C library.
"""
import math
from xml.sax.saxutils import escape

from results import BASELINE, CALLS, GENERAL, HERO, MIB, PERCENTILES, digits, memory_size, nanoseconds, thread_count, title

COLOURS = {"tidepool": "#d55e00", "malloc": "#767b82", "jemalloc": "#0072b2", "mimalloc": "#009e73", "tcmalloc": "#cc79a7"}
SPARE_COLOURS = ("#e69f00", "#56b4e9", "#8c6d31")
INK, FAINT, RULE, SHADE = "#1d2126", "#5b616a", "#d8dce1", "#eef2f5"
WIDTH = 1000


def colour(allocator):
    return COLOURS.get(allocator) or SPARE_COLOURS[sum(allocator.encode()) % len(SPARE_COLOURS)]


def tint(allocator, share):
    """Its colour with white mixed in: unlike opacity, it hides what is behind."""
    parts = [int(colour(allocator)[i:i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def text(x, y, words, anchor="start", fill=INK, size=12, bold=False, turn=None):
    weight = ' font-weight="600"' if bold else ""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}"{weight}{turned}>'
            f"{escape(words)}</text>")


def headline(x, y, name, words):
    return (f'<text x="{x}" y="{y:.1f}" fill="{INK}" font-size="12.5"><tspan font-weight="600">{escape(name)}</tspan>'
            f'<tspan dx="10" fill="{FAINT}">{escape(words)}</tspan></text>')


def line(x1, y1, x2, y2, stroke=RULE, width=1.0, dash=None):
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"{dashed}/>'


def bar(x, y, width, height, fill):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" fill="{fill}"/>'


def polygon(points, fill, opacity):
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{corners}" fill="{fill}" fill-opacity="{opacity}"/>'


def marker(allocator, x, y, size=4.0, opacity=1.0):
    """Shapes differ as well as colours: print may have none."""
    fill = colour(allocator)
    if allocator == BASELINE:
        return polygon([(x - size, y - size), (x + size, y - size), (x + size, y + size), (x - size, y + size)], fill, opacity)
    if allocator == "jemalloc":
        return polygon([(x, y - size * 1.2), (x + size * 1.15, y + size), (x - size * 1.15, y + size)], fill, opacity)
    if allocator == "mimalloc":
        return polygon([(x, y - size * 1.35), (x + size * 1.35, y), (x, y + size * 1.35), (x - size * 1.35, y)], fill, opacity)
    if allocator == "tcmalloc":
        return polygon([(x, y + size * 1.2), (x + size * 1.15, y - size), (x - size * 1.15, y - size)], fill, opacity)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{fill}" fill-opacity="{opacity}"/>'


def whisker(x1, x2, y, half=2.5):
    return line(x1, y, x2, y, INK, 1) + line(x1, y - half, x1, y + half, INK, 1) + line(x2, y - half, x2, y + half, INK, 1)


def svg(height, parts, label):
    return (f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label, {chr(34): "&quot;"})}" '
            f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>')


class Linear:
    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value):
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about=5):
        step = 10 ** math.floor(math.log10((self.high - self.low) / about))
        step = next(step * m for m in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * m) <= about)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


class Log(Linear):
    def __init__(self, low, high, start, end):
        super().__init__(math.log10(low), math.log10(high), start, end)

    def __call__(self, value):
        return super().__call__(math.log10(value))

    def ticks(self, about=5):
        fine = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        values = [m * 10.0 ** d for d in decades for m in fine]
        return [v for v in values if self.low - 1e-9 <= math.log10(v) <= self.high + 1e-9]


def covering(values, steps=(1, 2, 5), base=10.0):
    """Round numbers around all values and apart from one another, for a logarithmic axis."""
    low, high = min(values) * 0.98, max(values) * 1.02
    rounds = [m * base ** d for d in range(-4, 13) for m in steps]
    return max([r for r in rounds if r <= low] or [low]), min([r for r in rounds if r >= high] or [high])


def spread_labels(wanted, gap, low, high):
    """Heights for labels that want the given ones, `gap` apart, between low and high."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [0.0] * len(wanted)
    at = low - gap
    for i in order:
        at = placed[i] = max(wanted[i], at + gap)
    at = high + gap
    for i in reversed(order):
        at = placed[i] = min(placed[i], at - gap)
    return placed


def key(allocators):
    parts, x = [], 4
    for allocator in allocators:
        parts += [marker(allocator, x + 4, 10, 4.5), text(x + 14, 14, allocator, bold=allocator == HERO)]
        x += 40 + 7.2 * len(allocator)
    return svg(20, parts, "Colours and markers of the allocators")


# Bars: one subject, time on the left, memory on the right.

NAME_END, BAR_START, BAR_END, TIME_END, RATIO_END = 78, 86, 440, 512, 566
MEMORY_START, MEMORY_END, PEAK_END = 610, 905, 990
ROW, HEAD, GAP, AXIS = 14, 20, 8, 34
RATIO_LIMIT = 2.5   # longer bars are cut, and say so


def ratio_limit(results, cases):
    ratios = [results.ratio(case["name"], a, BASELINE) for case in cases for a in results.allocators]
    return min(RATIO_LIMIT, max([1.2] + [1.05 * r.high for r in ratios if r]))


def time_bar(results, case, allocator, y, across):
    time, ratio = results.of(case, allocator, "ns"), results.ratio(case, allocator, BASELINE)
    if not time:
        return [text(BAR_START + 4, y + 10, "not measured", fill=FAINT, size=11)]
    hero = allocator == HERO
    parts = [text(TIME_END, y + 10, nanoseconds(time.middle), "end", bold=hero)]
    if not ratio:
        return parts
    end = min(across(ratio.middle), BAR_END)
    parts.append(bar(BAR_START, y + 1, end - BAR_START, ROW - 4, tint(allocator, 1 if hero else 0.6)))
    if across(ratio.middle) > BAR_END:
        parts.append(text(BAR_END - 5, y + 10, "▸", "end", "#fff", 11))
    else:
        parts.append(whisker(across(ratio.low), min(across(ratio.high), BAR_END), y + ROW / 2 - 1))
    if allocator != BASELINE:
        parts.append(text(RATIO_END, y + 10, f"{digits(ratio.middle)}×", "end", INK if hero else FAINT, bold=hero))
    return parts


def memory_mark(results, case, allocator, y, across):
    peak = results.of(case, allocator, "peak")
    if not peak:
        return []
    hero = allocator == HERO
    low, middle, high = (across(max(value, MEMORY_FLOOR)) for value in (peak.low, peak.middle, peak.high))
    return [line(MEMORY_START, y + 6, middle, y + 6, colour(allocator), 1.5 if hero else 1), whisker(low, high, y + 6) if high - low > 9 else "",
            marker(allocator, middle, y + 6, 4), text(PEAK_END, y + 10, memory_size(peak.middle), "end", bold=hero)]


MEMORY_FLOOR = 4096   # a page: the least that can be seen


def memory_axis(results, cases):
    peaks = [results.of(case["name"], a, "peak") for case in cases for a in results.allocators]
    lives = [results.of(case["name"], results.allocators[0], "live") for case in cases]
    values = [max(f.high, MEMORY_FLOOR) for f in peaks + lives if f] + [max(f.low, MEMORY_FLOOR) for f in peaks + lives if f]
    return Log(*covering(values, [1, 4, 16, 64, 256], 1024), MEMORY_START, MEMORY_END)


def memory_ticks(across):
    """Powers of two, so many that their labels have room."""
    powers = [2 ** n for n in range(10, 41) if across.low - 1e-9 <= math.log10(2 ** n) <= across.high + 1e-9]
    return powers[::max(1, math.ceil(len(powers) / 6))]


def bars(results, cases):
    across = Linear(0, ratio_limit(results, cases), BAR_START, BAR_END)
    bytes_across = memory_axis(results, cases)
    block = HEAD + ROW * len(results.allocators) + GAP
    top, bottom = 26, 26 + block * len(cases)
    parts = [text(BAR_START, 12, "time of one operation, against malloc", fill=FAINT), text(TIME_END, 12, "time", "end", FAINT),
             text(RATIO_END, 12, "ratio", "end", FAINT), text(MEMORY_START, 12, "peak growth of resident memory, log scale", fill=FAINT),
             text(PEAK_END, 12, "peak", "end", FAINT)]
    for tick in across.ticks():
        strong = abs(tick - 1) < 1e-9
        parts += [line(across(tick), top, across(tick), bottom, FAINT if strong else RULE, 1, "3 3" if strong else None),
                  text(across(tick), bottom + 14, f"{tick:g}×", "middle", FAINT, 11)]
    for tick in memory_ticks(bytes_across):
        parts += [line(bytes_across(tick), top, bytes_across(tick), bottom),
                  text(bytes_across(tick), bottom + 14, f"{tick // MIB} MiB" if tick >= MIB else f"{tick // 1024} KiB", "middle", FAINT, 11)]
    for index, case in enumerate(cases):
        y = top + index * block
        parts += [bar(0, y, WIDTH, HEAD - 1, "#fff"), line(0, y, WIDTH, y)]
        parts.append(headline(0, y + 15, title(case["name"]), case["what"]))
        y += HEAD
        live = results.of(case["name"], results.allocators[0], "live")
        if live and live.middle >= MEMORY_FLOOR:
            x = bytes_across(live.middle)
            parts.append(line(x, y - 1, x, y + ROW * len(results.allocators) - 2, INK, 1, "2 2"))
        for row, allocator in enumerate(results.allocators):
            at = y + row * ROW
            parts.append(text(NAME_END, at + 10, allocator, "end", INK if allocator == HERO else FAINT, bold=allocator == HERO))
            parts += time_bar(results, case["name"], allocator, at, across) + memory_mark(results, case["name"], allocator, at, bytes_across)
    return svg(bottom + AXIS - 14, parts, "Bars of time against malloc and marks of peak memory for each case")


# Points: time beside memory, one panel for each allocator.

def time_beside_memory(results):
    panels = {a: {title(case): p for case in results.common(key="peak") if (p := results.time_and_memory(case, a))}
              for a in results.having(GENERAL) if a != BASELINE}
    panels = {a: points for a, points in panels.items() if points}
    means = {a: [results.mean_over(results.common(key="peak"), a, BASELINE, key) for key in ("ns", "peak")] for a in panels}
    every = [point for points in panels.values() for point in points.values()]
    if not every:
        return ""
    x_range, y_range = covering([t for t, _ in every] + [1]), covering([m for _, m in every] + [1])
    left, top, gap = 52, 44, 26
    width = min(300, (WIDTH - left - 10 - gap * (len(panels) - 1)) / len(panels))
    height = min(width, 240)
    parts = [text(14, top + height / 2, "peak memory against malloc", "middle", FAINT, turn=-90)]
    for index, (allocator, points) in enumerate(panels.items()):
        start = left + index * (width + gap)
        across, up = Log(*x_range, start, start + width), Log(*y_range, top + height, top)
        parts += point_panel(allocator, points, means[allocator], across, up, start, top, width, height, labels=index == 0)
    parts.append(text(left + (len(panels) * (width + gap) - gap) / 2, top + height + 34, "time against malloc: left of 1 is faster; below 1 is less memory (log scales)", "middle", FAINT))
    return svg(top + height + 42, parts, "Time and memory of each case against malloc, one panel for each allocator")


def point_panel(allocator, points, means, across, up, start, top, width, height, labels):
    hero = allocator == HERO
    better = bar(start, up(1), across(1) - start, top + height - up(1), SHADE)
    parts = [better, text(start, top - 24, allocator, bold=True, size=13)]
    for tick in across.ticks():
        parts += [line(across(tick), top, across(tick), top + height, FAINT if tick == 1 else RULE), text(across(tick), top + height + 14, f"{tick:g}", "middle", FAINT, 11)]
    for tick in up.ticks():
        parts.append(line(start, up(tick), start + width, up(tick), FAINT if tick == 1 else RULE))
        if labels:
            parts.append(text(start - 6, up(tick) + 4, f"{tick:g}", "end", FAINT, 11))
    parts += [f"<g><title>{escape(name)}: {digits(t)}× time, {digits(m)}× memory</title>{marker(allocator, across(t), up(m), 3.2, 0.5)}</g>"
              for name, (t, m) in points.items()]
    if all(means):
        time, memory = (mean.middle for mean in means)
        x, y = across(time), up(memory)
        parts += [text(start, top - 8, f"mean: {digits(time)}× time, {digits(memory)}× memory", fill=INK if hero else FAINT, size=11.5),
                  line(x - 9, y, x + 9, y, INK, 2), line(x, y - 9, x, y + 9, INK, 2)]
    return parts


# Lines: throughput by threads, and percentiles of single calls, in panels two abreast.

PANEL_WIDTH, PANEL_HEIGHT, PANEL_LEFT, PANEL_LABELS = 480, 230, 44, 76


def panel_place(index):
    return (index % 2) * (PANEL_WIDTH + 40), (index // 2) * (PANEL_HEIGHT + 76) + 24


def panels_height(count):
    return math.ceil(count / 2) * (PANEL_HEIGHT + 76) - 12


def curve(allocator, points, label_y):
    """Markers joined by a line, and the name where it ends."""
    hero = allocator == HERO
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    return [f'<polyline points="{path}" fill="none" stroke="{colour(allocator)}" stroke-width="{2.6 if hero else 1.4}"/>',
            *[marker(allocator, px, py, 4.2 if hero else 3.4) for px, py in points],
            line(x + 6, y, x + 16, label_y, colour(allocator), 0.8),
            text(x + 19, label_y + 4, allocator, bold=hero, fill=INK if hero else FAINT)]


def scaling(results, processors):
    families = {}
    for case in results.cases:
        name, threaded, _ = case["name"].partition("/threads:")
        if threaded:
            families.setdefault(name, []).append(case["name"])
    families = {name: cases for name, cases in families.items() if len(cases) > 2}
    parts = [part for index, (name, cases) in enumerate(families.items()) for part in scaling_panel(results, name, cases, processors, index)]
    return svg(panels_height(len(families)), parts, "Operations a second by number of threads") if families else ""


def scaling_panel(results, name, cases, processors, index):
    left, top = panel_place(index)
    start, end, bottom = left + PANEL_LEFT, left + PANEL_WIDTH - PANEL_LABELS, top + PANEL_HEIGHT
    times = {a: [(thread_count(case), figure) for case in cases if (figure := results.of(case, a, "ns"))] for a in results.allocators}
    times = {a: points for a, points in times.items() if points}
    most = max(1e3 / figure.low for points in times.values() for _, figure in points)
    across, up = Linear(1, max(map(thread_count, cases)), start + 14, end), Linear(0, most * 1.05, bottom, top)
    parts = [text(left, top - 12, name, bold=True), text(end, top - 12, "million operations a second, all threads", "end", FAINT, 11)]
    for tick in up.ticks():
        parts += [line(start, up(tick), end, up(tick)), text(start - 6, up(tick) + 4, f"{tick:g}", "end", FAINT, 11)]
    for threads in map(thread_count, cases):
        parts.append(text(across(threads), bottom + 16, str(threads), "middle", FAINT, 11))
    parts.append(text((start + end) / 2, bottom + 32, "threads", "middle", FAINT))
    if 1 < processors < across.high:
        parts += [line(across(processors), top, across(processors), bottom, FAINT, 1, "3 3"),
                  text(across(processors) + 4, bottom - 6, f"{processors} processors", fill=FAINT, size=11)]
    heights = spread_labels([up(1e3 / points[-1][1].middle) for points in times.values()], 14, top, bottom)
    drawn = [(a, points, heights[i]) for i, (a, points) in enumerate(times.items())]
    for allocator, points, height in sorted(drawn, key=lambda each: each[0] == HERO):
        parts += [line(across(n), up(1e3 / f.low), across(n), up(1e3 / f.high), colour(allocator), 1) for n, f in points]
        parts += curve(allocator, [(across(n), up(1e3 / f.middle)) for n, f in points], height)
    return parts


def percentiles(results):
    panels = [(case, call) for case in results.single_calls for call in CALLS]
    every = [value for case, call in panels for a in results.allocators for which in PERCENTILES if (value := results.percentile(case, a, call, which))]
    if not every:
        return ""
    span = covering(every)
    parts = [part for index, (case, call) in enumerate(panels) for part in percentile_panel(results, case, call, span, index)]
    return svg(panels_height(len(panels)), parts, "Percentiles of the time of single calls")


def percentile_panel(results, case, call, span, index):
    left, top = panel_place(index)
    start, end, bottom = left + PANEL_LEFT + 10, left + PANEL_WIDTH - PANEL_LABELS, top + PANEL_HEIGHT
    across, up = Linear(0, len(PERCENTILES) - 1, start + 14, end), Log(*span, bottom, top)
    parts = [text(left, top - 12, f"{CALLS[call]}: {title(case)}", bold=True), text(end, top - 12, "time of one call, log scale", "end", FAINT, 11)]
    for tick in up.ticks():
        parts += [line(start, up(tick), end, up(tick)), text(start - 6, up(tick) + 4, f"{tick_time(tick)}", "end", FAINT, 11)]
    for at, which in enumerate(PERCENTILES):
        parts.append(text(across(at), bottom + 16, which, "middle", FAINT, 11))
    if results.clock(case):
        clock = up(max(results.clock(case), span[0]))
        parts += [line(start, clock, end, clock, FAINT, 1, "3 3"), text(end, clock - 4, "the clock alone", "end", FAINT, 11)]
    lines = [(a, [(across(i), up(v)) for i, which in enumerate(PERCENTILES) if (v := results.percentile(case, a, call, which))]) for a in results.allocators]
    lines = [(a, points) for a, points in lines if points]
    heights = spread_labels([points[-1][1] for _, points in lines], 14, top, bottom)
    for (allocator, points), height in sorted(zip(lines, heights), key=lambda each: each[0][0] == HERO):
        parts += curve(allocator, points, height)
    return parts


SOAKS = (("the heap of the pools", "held_at_peak", "held_in_trough"), ("the heap of blocks of all sizes", "mixed_at_peak", "mixed_in_trough"))


def soak(series):
    if not series or len(series["seconds"]) < 2:
        return ""
    parts = [part for index, (name, *columns) in enumerate(SOAKS) for part in soak_panel(series, name, columns, index)]
    return svg(panels_height(len(SOAKS)), parts, "Bytes held by two heaps over the time of a soak")


def soak_panel(series, name, columns, index):
    left, top = panel_place(index)
    start, end, bottom = left + PANEL_LEFT + 10, left + PANEL_WIDTH - PANEL_LABELS, top + PANEL_HEIGHT
    seconds, most = series["seconds"], max(max(series[column]) for column in columns)
    across, up = Linear(0, seconds[-1], start, end), Linear(0, most * 1.05 / MIB, bottom, top)
    parts = [text(left, top - 12, name, bold=True), text(end, top - 12, "MiB held", "end", FAINT, 11)]
    for tick in up.ticks():
        parts += [line(start, up(tick), end, up(tick)), text(start - 6, up(tick) + 4, f"{tick:g}", "end", FAINT, 11)]
    for tick in across.ticks():
        parts.append(text(across(tick), bottom + 16, f"{tick:g} s", "middle", FAINT, 11))
    for column, what, width in zip(columns, ("at the top", "after it"), (0.7, 2.2)):
        points = " ".join(f"{across(x):.1f},{up(y / MIB):.1f}" for x, y in zip(seconds, series[column]))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour(HERO)}" stroke-width="{width}"/>')
        parts.append(text(end + 6, up(series[column][-1] / MIB) + 4, what, bold=width > 1))
    return parts


def tick_time(value):
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= scale:
            return f"{value / scale:g} {unit}"
    return f"{value:g} ns"
