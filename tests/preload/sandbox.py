# SPDX-License-Identifier: MIT
"""A case: what a program does in a folder of its own with the library preloaded, and without it unless its result says itself
that all went well. Both must print the same and end the same way."""

import hashlib
import os
import pathlib
import subprocess
import typing

STUCK_SECONDS = 1200   # how long anything takes is up to the machine
CASES = {}
# Of the caller's environment; the rest are defaults of a user for one program or another, or a repository of git's.
INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "TIDEPOOL_OPTIONS")


class Failure(Exception):
    pass


class Case(typing.NamedTuple):
    programs: tuple
    length: str
    function: typing.Callable
    is_fine: typing.Callable


def some_of(count):
    """All of what a case does so often, in the suite long; else a third."""
    return count if "ALL_CASES" in os.environ else count // 3


def case(*programs, length="quick", name=None, is_fine=lambda result: False):
    """Registers a function of a Sandbox as a case that needs these programs; its result is what must be the same.

    A slow case takes more than some seconds, a long one minutes. A program that checks itself need not run without the library
    where is_fine(result)."""
    def register(function):
        CASES[name or function.__name__.replace("_", "-")] = Case(programs, length, function, is_fine)
        return function
    return register


class Sandbox:
    """A folder of its own and the environment of one run."""

    def __init__(self, folder, library):
        self.folder = pathlib.Path(folder)
        self.environment = {"HOME": folder, "LC_ALL": "C", "TZ": "UTC", "MALLOC_ARENA_MAX": "2"}
        self.environment |= {name: os.environ[name] for name in INHERITED if name in os.environ}
        if library:
            self.environment["LD_PRELOAD"] = library

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def start(self, *command, **options):
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                stderr=subprocess.STDOUT, **options)

    def run(self, *command, text=None):
        """Standard output of a command that must succeed."""
        result = subprocess.run(command, cwd=self.folder, env=self.environment, input=text or "", text=True,
                                capture_output=True, errors="replace", timeout=STUCK_SECONDS)
        if result.returncode != 0:
            raise Failure(f"{' '.join(map(str, command))[:200]} ended with {result.returncode}:\n"
                          f"{result.stdout[-1500:]}{result.stderr[-1500:]}")
        return result.stdout

    def digest(self, name):
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
