# SPDX-License-Identifier: MIT
"""How a test preloads the library: under a name that LD_PRELOAD can hold, and sure that it is loaded."""

import atexit
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

STUCK_SECONDS = 600
SPLITS = re.compile(r"[ :]")   # LD_PRELOAD ends a name at these, and knows no escape


class NotPreloaded(Exception):
    """The line says of what program."""


def preloadable(library):
    """The library's path, or that of a link to it, which is removed at the end."""
    library = os.path.realpath(library)
    if not SPLITS.search(library):
        return library
    parents = (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")
    parent = next(folder for folder in parents if not SPLITS.search(folder) and os.path.isdir(folder))
    folder = tempfile.mkdtemp(prefix="preload-", dir=parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link = os.path.join(folder, os.path.basename(library))
    os.symlink(library, link)
    return link


def dynamic_program(program):
    """The file itself, or the interpreter that a script names."""
    path = shutil.which(program) or program
    with open(path, "rb") as file:
        begin = file.readline(256)
    if not begin.startswith(b"#!"):
        return path
    words = begin[2:].decode(errors="replace").split()
    words = words[1:] if os.path.basename(words[0]) == "env" else words
    return dynamic_program(next(word for word in words if not word.startswith("-")))


def check_preloading(library, programs):
    """The loader ignores what it cannot load, and a static program has none: then a test would see the C library's malloc."""
    for program in programs:
        path = dynamic_program(str(program))
        listed = subprocess.run(["ldd", path], env={**os.environ, "LD_PRELOAD": library}, capture_output=True, text=True,
                                errors="replace", timeout=STUCK_SECONDS, check=False).stdout
        if not re.search(rf"^\t{re.escape(library)} ", listed, re.MULTILINE):
            raise NotPreloaded(f"{pathlib.Path(path)} does not load {library}")
