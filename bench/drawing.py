# SPDX-License-Identifier: MIT
"""How all pictures of the report look, and how a figure of matplotlib becomes SVG for the page. Allocators keep their colour
and marker throughout; a name always stands beside.

Colours are of Okabe and Ito's palette, which people with any colour vision can tell apart, and grey for the C library.
A figure is as many points wide as the page has pixels. Its text stays text, in the page's font. Its label is what a reader
who sees no pictures is told, and what the names in its SVG are made from: the same figures give the same file.
"""
import functools
import io
import re
import xml.etree.ElementTree as tree

import matplotlib.style
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from results import HERO

COLOURS = {"tidepool": "#d55e00", "malloc": "#767b82", "jemalloc": "#0072b2", "mimalloc": "#009e73", "tcmalloc": "#cc79a7"}
SPARE_COLOURS = ("#e69f00", "#56b4e9", "#8c6d31")
# Shapes differ as well as colours: print may have none.
MARKERS = {"tidepool": "o", "malloc": "s", "jemalloc": "^", "mimalloc": "D", "tcmalloc": "v"}
SPARE_MARKER = "P"
INK, FAINT, RULE, SHADE = "#1d2126", "#5b616a", "#d8dce1", "#eef2f5"
WIDTH, POINTS = 1000, 72
STYLE = ["default", {
    "svg.fonttype": "none", "text.parse_math": False, "font.family": "DejaVu Sans", "font.size": 12, "text.color": INK,
    "figure.dpi": POINTS, "savefig.transparent": True, "path.simplify": False,
    "axes.facecolor": "none", "axes.edgecolor": RULE, "axes.linewidth": 0.8, "axes.labelcolor": FAINT, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
    "axes.grid": True, "grid.color": RULE, "grid.linewidth": 0.8,
    "xtick.labelcolor": FAINT, "ytick.labelcolor": FAINT, "xtick.labelsize": 11, "ytick.labelsize": 11,
    "xtick.major.pad": 7, "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "lines.markeredgewidth": 0, "lines.solid_capstyle": "butt",
}]
SPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
SVG = f"{{{SPACES['']}}}"
TOLD = "told: "   # begins the name of what has a title in the picture


def colour(allocator):
    return COLOURS.get(allocator) or SPARE_COLOURS[sum(allocator.encode()) % len(SPARE_COLOURS)]


def marker(allocator):
    return MARKERS.get(allocator, SPARE_MARKER)


def tint(allocator, share):
    """Its colour with white mixed in: unlike opacity, it hides what is behind."""
    return tuple(1 - share * (1 - part) for part in to_rgb(colour(allocator)))


def weight(allocator):
    return "bold" if allocator == HERO else "normal"


def ink(allocator):
    return INK if allocator == HERO else FAINT


# From a figure to what stands in the page.

def svg_text(figure):
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": figure.get_label()}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return buffer.getvalue()


def for_a_page(text, label):
    """Without what only a file of its own needs: a size, a style of everything, names that nothing refers to."""
    for prefix, space in SPACES.items():
        tree.register_namespace(prefix, space)
    root = tree.fromstring(text)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (SVG + "metadata", SVG + "style"):
                parent.remove(child)
        name = parent.get("id", "")
        if name not in referred:
            parent.attrib.pop("id", None)
        if name.startswith(TOLD):
            told = tree.Element(SVG + "title")
            told.text = name.removeprefix(TOLD)
            parent.insert(0, told)
    for name in "width", "height", "version":
        root.attrib.pop(name, None)
    root.attrib.update({"role": "img", "aria-label": label, "stroke-linejoin": "round"})
    return tree.tostring(root, encoding="unicode")


def chart(draw):
    """Makes a function that draws a figure, or nothing, into one that has the SVG of it."""
    @functools.wraps(draw)
    def drawn(*arguments):
        with matplotlib.style.context(STYLE, after_reset=True):
            figure = draw(*arguments)
            return for_a_page(svg_text(figure), figure.get_label()) if figure else ""
    return drawn


def figure_of(height, label):
    return Figure(figsize=(WIDTH / POINTS, height / POINTS), label=label)


def panel(figure, left, top, width, height, **options):
    """Axes at a place that is given in points from the upper left corner."""
    whole_width, whole_height = figure.get_size_inches() * POINTS
    return figure.add_axes([left / whole_width, 1 - (top + height) / whole_height, width / whole_width, height / whole_height],
                           **options)


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


def round_numbers():
    return MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
