# SPDX-License-Identifier: MIT
"""The READMEs of src, of its folders, and of tests/check: each describes every file of its folder, and is short."""

import pathlib
import re

FOLDER_MOST, SRC_MOST = 40, 80   # lines of the README of a folder of src, and of src itself
NAMES = re.compile(r"`([^`\n]+)`")
ROW = re.compile(r"^\| ((?:`[^`|]+`(?:, |: )?)+) \| [^|]+ \|$", re.M)   # its first cell is names of files


def readmes(root):
    """Of the folders that are described file by file: src, each folder in it, and the tests that assert the invariants."""
    folders = [root / "src", *sorted(path for path in (root / "src").iterdir() if path.is_dir()), root / "tests/check"]
    return [folder / "README.md" for folder in folders]


def files_described(root, readme):
    """The files of the README's folder. Those of a folder within a folder of src have a line in the outer one's README."""
    files = (readme.parent.glob if readme == root / "src/README.md" else readme.parent.rglob)("*")
    return sorted(path for path in files if path.is_file() and path.suffix not in (".md", ".pyc"))


def unlisted_sources(root):
    """Each file has a line in the README of its folder; the header's stands for the .c of the same name. No line is of a file
    that is gone."""
    for readme in readmes(root):
        where = readme.relative_to(root)
        rows = ROW.findall(readme.read_text().partition("| file |")[2])
        listed = {name for row in rows for name in NAMES.findall(row)}
        for path in files_described(root, readme):
            name = path.relative_to(readme.parent).as_posix()
            if not {name, str(pathlib.PurePath(name).with_suffix(".h"))} & listed:
                yield f"{where}: {name} has no line"
        for name in sorted(listed):
            if not (readme.parent / name).is_file():
                yield f"{where}: a line is of {name}, which is not there"


def long_readmes(root):
    for readme in readmes(root):
        lines, most = len(readme.read_text().splitlines()), SRC_MOST if readme == root / "src/README.md" else FOLDER_MOST
        if lines > most:
            yield f"{readme.relative_to(root)}: {lines} lines, more than {most}"
