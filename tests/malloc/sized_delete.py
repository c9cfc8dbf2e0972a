# SPDX-License-Identifier: MIT
"""A correct program that frees by size ends well under every option, alone and in pairs. The options and their values are
those of the library's own help, so a new one is tried too.

usage: sized_delete.py LIBRARY PROGRAM [TEST...]   (PROGRAM: built from sized_delete.cpp)"""

import concurrent.futures
import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True   # the source tree stays as it is
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import preloading

LIBRARY, PROGRAM = preloading.preloadable(sys.argv[1]), os.path.abspath(sys.argv[2])
STUCK_SECONDS = 600
# A value of what the help describes in words.
VALUES = {"milliseconds": ["0"], "0 to 1073741824": ["0", "1000000"],
          "a number N": ["3"], "1 to 64": ["10"], "0 to 16": ["1", "16"], "1 to 2147483648": ["1"]}


def run(options, folder, *arguments):
    environment = {**os.environ, "LD_PRELOAD": LIBRARY, "TIDEPOOL_OPTIONS": options}
    return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=STUCK_SECONDS,
                          cwd=folder, check=False)


def options_of_help(text):
    """Of each key the settings that differ from its default."""
    settings = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)=(.+?)(?: \(.*?\))? {2,}.* \((.+)\)", line)
        key, values, default = match.groups()
        each = [value for word in values.split(", ") for value in VALUES.get(word, [word])]
        settings[key] = [f"{key}={value.replace('FILE', key + '.%p')}" for value in each if value != default]
    return settings


def wrong_with(folder, options):
    result = run(options, folder)
    if (result.returncode, result.stdout) == (0, "ok\n") and "ignored" not in result.stderr:
        return None
    return f"{options}: {result.returncode} {result.stdout}{result.stderr[:400]}"


class SizedDelete(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.settings = options_of_help(run("help", self.folder).stderr)

    def all_end_well(self, runs):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = [line for line in pool.map(lambda options: wrong_with(self.folder, options), runs) if line]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(runs)}")

    def test_the_help_was_understood(self):
        self.assertGreaterEqual(len(self.settings), 16)
        self.assertTrue(all(self.settings.values()))
        self.assertIn("checked=all", self.settings["checked"])
        self.assertIn("profile=profile.%p", self.settings["profile"])

    def test_each_option_alone(self):
        self.all_end_well(list(itertools.chain(*self.settings.values())))

    def test_each_two_options(self):
        """With the last value of each, which asks for most. Where the profile is one of the two, every block enters it."""
        runs = [f"{one[-1]},{other[-1]}" for one, other in itertools.combinations(self.settings.values(), 2)]
        runs += [f"{run},sample_bytes=1" for run in runs if "profile=" in run and "sample_bytes=" not in run]
        self.all_end_well(runs)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
