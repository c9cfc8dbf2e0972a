# SPDX-License-Identifier: MIT
"""Which Python tools/python chooses, of two that are made up: scripts that have the modules they are told."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "tools/python"
DEBIANS = "/usr/bin/python3"
# Asked with -c which modules it has not, and else a program that says who it is.
FAKE = """#!/bin/sh
[ -z "{broken}" ] || exit 127
if [ "$1" = -c ]; then
  shift 2
  for name; do case " {modules} " in *" $name "*) ;; *) echo "$name" ;; esac; done
  exit
fi
echo {who}
printf '<%s>' "$@"
exit 5
"""


class Choice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        text = SOURCE.read_text()
        self.assertEqual(text.count(f"for python in python3 {DEBIANS};"), 1)
        self.script("chooser", text.replace(f"in python3 {DEBIANS};", f"in python3 '{self.folder}/debians';"))

    def script(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def pythons(self, first, debians):
        """What each has, or None for one that does not run."""
        for name, modules in ("python3", first), ("debians", debians):
            self.script(name, FAKE.format(who=name, modules=modules, broken="yes" if modules is None else ""))

    def choose(self, *arguments):
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        done = subprocess.run([self.folder / "chooser", *arguments], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
        return done.returncode, done.stdout

    def test_the_first_in_path_if_it_has_all(self):
        self.pythons("rich pytest", "rich pytest")
        self.assertEqual(self.choose("rich", "pytest", "--", "-m", "two words"), (5, "python3\n<-m><two words>"))

    def test_debians_if_only_that_has_all(self):
        for first in "rich", "", None:
            self.pythons(first, "rich pytest")
            self.assertEqual(self.choose("rich", "pytest", "--", "x"), (5, "debians\n<x>"))

    def test_none_is_a_skipped_test_that_says_why(self):
        self.pythons("rich", "")
        self.assertEqual(self.choose("rich", "pytest", "jinja2", "--", "x"),
                         (77, "skipped: no Python here has pytest jinja2\n"))

    def test_the_one_that_has_the_most_if_not_all_are_needed(self):
        self.pythons("rich", "rich jinja2")
        self.assertEqual(self.choose("--prefer", "rich", "pytest", "jinja2", "--", "x"), (5, "debians\n<x>"))
        self.pythons("", "")
        self.assertEqual(self.choose("--prefer", "rich", "--", "x"), (5, "python3\n<x>"))

    def test_no_python_at_all_is_a_failure(self):
        self.pythons(None, None)
        self.assertEqual(self.choose("--prefer", "rich", "--", "x"), (1, "tools/python: there is no Python\n"))

    def test_without_a_program_it_says_how_to_call_it(self):
        self.pythons("rich", "rich")
        for arguments in ("rich",), ("rich", "--"), ("--unknown",), ():
            status, output = self.choose(*arguments)
            self.assertEqual((status, output.split()[0]), (2, "usage:"), arguments)


unittest.main()
