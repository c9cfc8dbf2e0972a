# SPDX-License-Identifier: MIT
"""Writes a C source with the texts of style sheets and scripts in it, each as an array: page/style.css is page_style_css. Lines
that are comments or empty are left out.

usage: embed.py SOURCE FILE...     files of Python are left out"""

import pathlib
import re
import sys

COMMENT = re.compile(r"\s*(//.*|/\*.*\*/)?\s*")


def text_of(path):
    lines = path.read_text(encoding="ascii").splitlines()
    return "".join(line.strip() + "\n" for line in lines if not COMMENT.fullmatch(line))


def array_of(path):
    name = "page_" + re.sub(r"\W", "_", path.name)
    values = [str(byte) for byte in text_of(path).encode() + b"\0"]
    rows = ["  " + ", ".join(values[i:i + 30]) + ",\n" for i in range(0, len(values), 30)]
    return f"\nconst char {name}[] = {{\n{''.join(rows)}}};\n"


def main(source, *files):
    arrays = "".join(array_of(pathlib.Path(file)) for file in files if not file.endswith(".py"))
    pathlib.Path(source).write_text('/* made by embed.py */\n#include "page/texts.h"\n' + arrays, encoding="ascii")


main(*sys.argv[1:])
