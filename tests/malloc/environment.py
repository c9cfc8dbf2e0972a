# SPDX-License-Identifier: MIT
"""A program has its arguments and its environment under each option (environment.c).

usage: environment.py LIBRARY PROGRAM...   the library is preloaded"""

import os
import subprocess
import sys
import unittest

LIBRARY, *PROGRAMS = sys.argv[1:]
STUCK_SECONDS = 600
OPTIONS = ["", "sites=1", "sites=2", "sites=16", "checked=1,sites=8", "guarded=1", "guarded=1,sites=8", "guard_sample=1",
           "guard_sample=5000", "leaks=all", "leaks=exit,sites=8", "check_at_exit=1", "stats=exit"]


class Environment(unittest.TestCase):
    def test_is_there(self):
        for program in PROGRAMS:
            for options in OPTIONS:
                with self.subTest(f"{os.path.basename(program)} {options}"):
                    done = subprocess.run([program, "argument"], capture_output=True, text=True, timeout=STUCK_SECONDS,
                                          check=False, env=os.environ | {"SET_BY_TEST": "value", "LD_PRELOAD": LIBRARY,
                                                                         "TIDEPOOL_OPTIONS": options})
                    self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
