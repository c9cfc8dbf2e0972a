#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the chart of the README from the table that docs/performance.md has between "chart begin" and "chart end".

    published_chart.py docs/performance.md              writes docs/programs.svg beside the text
    published_chart.py --check docs/performance.md      fails if the picture is not that of the table

The first column names allocators, each other one is a machine. A bar is a ratio to what the table's first cell names after a
slash. The picture has a background of its own, light or dark as the reader's system is."""
import html
import pathlib
import re
import sys

TABLE = re.compile(r"<!-- chart begin -->\n(.*?)<!-- chart end -->", re.S)
WIDTH, LEFT, RIGHT, TOP, BAR, ROW, HEAD, GAP, BOTTOM = 860, 150, 120, 44, 15, 22, 28, 16, 36
MOST = 1.2   # the ratio at the right end of the scale
STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif; fill: #1f2933; }
  .title { font-size: 16px; font-weight: 600; } .machine { font-weight: 600; } .own { font-weight: 600; }
  .back { fill: #ffffff; } .bar { fill: #a7b3bf; } .bar.own { fill: #1f6feb; }
  .one { stroke: #57606a; stroke-width: 1.5; stroke-dasharray: 4 3; } .note { fill: #57606a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .back { fill: #0d1117; } .bar { fill: #57626e; } .bar.own { fill: #4493f8; }
    .one { stroke: #9198a1; } .note { fill: #9198a1; }
  }
"""


def table_of(text):
    """(head, rows) as lists of cells."""
    found = TABLE.search(text)
    if not found:
        raise ValueError('no table between "chart begin" and "chart end"')
    head, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in found[1].strip().splitlines()]
    return head, rows


def label(x, y, words, kind="", anchor="start"):
    classes = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{classes}>{html.escape(words)}</text>'


def place(ratio):
    return LEFT + ratio / MOST * (WIDTH - LEFT - RIGHT)


def in_words(ratio):
    """0.92 as "8 % less"."""
    percent = round((ratio - 1) * 100)
    return f"{abs(percent)} % {'more' if percent > 0 else 'less'}" if percent else "the same"


def group(machine, rows, column, y):
    yield label(16, y + 18, machine, "machine")
    for number, row in enumerate(rows):
        ratio, top, own = float(row[column]), y + HEAD + number * ROW, " own" if number == 0 else ""
        yield label(LEFT - 10, top + 12, row[0], own.strip(), "end")
        yield f'<rect class="bar{own}" x="{LEFT}" y="{top}" width="{place(ratio) - LEFT:.1f}" height="{BAR}" rx="2"/>'
        yield label(f"{place(max(ratio, 1)) + 8:.1f}", top + 12, f"{ratio:.2f}, {in_words(ratio)}", own.strip())


def picture(head, rows):
    what, _, baseline = head[0].partition(" / ")
    tall = HEAD + len(rows) * ROW + GAP
    height = TOP + tall * (len(head) - 1) + BOTTOM
    title = f"{what[0].upper()}{what[1:]} of fourteen programs, against {baseline}"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
             ' role="img" aria-labelledby="title text">', f'<title id="title">{html.escape(title)}</title>']
    told = "; ".join(f"{machine}: " + ", ".join(f"{row[0]} {row[column]}" for row in rows)
                     for column, machine in enumerate(head[1:], 1))
    lines += [f'<desc id="text">{html.escape(told)}.</desc>', f"<style>{STYLE}</style>",
              f'<rect class="back" width="{WIDTH}" height="{height}" rx="8"/>', label(16, 28, title, "title")]
    for column, machine in enumerate(head[1:], 1):
        lines += group(machine, rows, column, TOP + tall * (column - 1))
    lines += [f'<line class="one" x1="{place(1):.1f}" x2="{place(1):.1f}" y1="{TOP + HEAD - 6}" y2="{height - BOTTOM + 4}"/>',
              label(f"{place(1):.1f}", height - 14, f"1: {baseline}", "note", "middle"),
              label(LEFT, height - 14, "shorter is faster", "note"), "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    check = sys.argv[1:2] == ["--check"]
    if len(sys.argv) != 2 + check or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    text = pathlib.Path(sys.argv[-1])
    drawn = picture(*table_of(text.read_text()))
    target = text.with_name("programs.svg")
    if not check:
        target.write_text(drawn)
    elif not target.is_file() or target.read_text() != drawn:
        sys.exit(f"{target} is not the picture of the table: bench/published_chart.py {text} draws it")


if __name__ == "__main__":
    main()
