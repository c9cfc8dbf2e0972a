# SPDX-License-Identifier: MIT
"""type_errors.cpp compiles, and does not with any of its macros. What it includes is compiled once, ahead of all of them.

usage: type_errors.py SOURCE COMPILER..."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, *COMPILER = sys.argv[1:]
TEXT = pathlib.Path(SOURCE).read_text(encoding="utf-8")
STUCK_SECONDS = 600


class TypeErrors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.header = pathlib.Path(folder.name, "included.h")
        cls.header.write_text("".join(re.findall(r"^#include .*\n", TEXT, re.M)), encoding="utf-8")
        subprocess.run([*COMPILER, "-x", "c++-header", cls.header, "-o", f"{cls.header}.gch"], check=True,
                       timeout=STUCK_SECONDS)

    def compiled(self, *arguments):
        return subprocess.run([*COMPILER, "-fsyntax-only", "-include", self.header, *arguments, SOURCE], stderr=subprocess.PIPE,
                              text=True, errors="replace", timeout=STUCK_SECONDS, check=False)

    def test_it_compiles(self):
        done = self.compiled()
        self.assertEqual((done.returncode, done.stderr), (0, ""))


def add(macro):
    def test(self):
        done = self.compiled(f"-D{macro}")
        self.assertNotEqual(done.returncode, 0, "it compiles")
        self.assertIn("error: ", done.stderr)
    setattr(TypeErrors, f"test_{macro}", test)


for name in re.findall(r"^#ifdef (\w+)$", TEXT, re.M):
    add(name)
unittest.main(argv=sys.argv[:1])
