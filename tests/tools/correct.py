# SPDX-License-Identifier: MIT
"""Tools say nothing of programs without a bug (correct.c).

usage: correct.py PROGRAM SOURCE INCLUDE LIBRARY [plain]
The plain library has no options for checks."""

import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True   # the source tree stays as it is

import planted

PROGRAM, *BUILT_FROM = sys.argv[1:5]
IS_PLAIN = sys.argv[5:] == ["plain"]
CASES = ["arrays", "nested", "contexts", "wiped", "classes", "later_budgets", "children", "calls"]
OPTIONS = ["", "blocks=malloc", "blocks=own", "blocks=malloc,abort_on_exhausted=1,check_at_exit=1,background=1"]
DEBUG_OPTIONS = [] if IS_PLAIN else ["checked=all", "guarded=all", "sites=4", "blocks=malloc,checked=1"]
CHECKS = [] if IS_PLAIN else ["checked=1", "guarded=1", "checked=all"]


class Correct(unittest.TestCase):
    def assert_quiet(self, *command, options=""):
        status, said, error = planted.run(list(command), TIDEPOOL_OPTIONS=options)
        self.assertEqual((status, said, error[:3000]), (0, "", ""), f"{command} with {options!r}")

    def test_without_a_tool(self):
        for case in CASES:
            for options in OPTIONS + DEBUG_OPTIONS:
                self.assert_quiet(PROGRAM, case, options=options)

    def test_memcheck(self):
        if not shutil.which("valgrind"):
            self.skipTest("valgrind is not installed")
        for options in "", *CHECKS:   # one after the other: it takes most of the time to begin
            self.assert_quiet("valgrind", "--command-line-only=yes", "-q", "--leak-check=full", "--error-exitcode=9",
                              PROGRAM, "all", options=options)

    def sanitizer(self, compiler, kind):
        if not shutil.which(compiler):
            self.skipTest(f"no {compiler}")
        with tempfile.TemporaryDirectory() as folder:
            program = planted.compiled(folder, compiler, kind, *BUILT_FROM)
            if not program:
                self.skipTest("its programs do not run here")
            for case in CASES:
                for options in "", *CHECKS[::2]:
                    self.assert_quiet(program, case, options=options)

    def test_address_sanitizer_of_gcc(self):
        self.sanitizer("gcc", "address")

    def test_address_sanitizer_of_clang(self):
        self.sanitizer("clang", "address")

    def test_thread_sanitizer(self):
        self.sanitizer("gcc", "thread")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
