# SPDX-License-Identifier: MIT
"""Of a block that a form of new made and nothing leads to, the function that called new is named (leaking_new.cpp).

usage: leaks_of_new.py PROGRAM LIBRARY"""

import os
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM, LIBRARY = sys.argv[1:]
STUCK_SECONDS = 600
HAS_64_BITS = pathlib.Path(PROGRAM).read_bytes()[4] == 2
SIZES = {"by_new": 100, "by_array_new": 200, "by_nothrow_new": 300, "by_nothrow_array_new": 400, "by_aligned_new": 500,
         "by_aligned_array_new": 600, "by_aligned_nothrow_new": 700, "by_large_new": 5 << 20 if HAS_64_BITS else 300 << 10}


class LeaksOfNew(unittest.TestCase):
    def test_each_form(self):
        for options in ("leaks=exit", "leaks=exit,checked=1", "leaks=exit,guarded=1"):
            with self.subTest(options):
                said = subprocess.run([PROGRAM], env=os.environ | {"TIDEPOOL_OPTIONS": options, "LD_PRELOAD": LIBRARY},
                                      capture_output=True, text=True, timeout=STUCK_SECONDS, check=True).stderr
                self.assertIn(f"{len(SIZES)} blocks, {sum(SIZES.values()):,} bytes lost: ", said)
                lost = re.findall(r"\b1 \(([0-9,]+) bytes\) from (\w+)\+0x[0-9a-f]+ \(", said)
                self.assertEqual({function: int(size.replace(",", "")) for size, function in lost}, SIZES, said)


if __name__ == "__main__":
    if os.environ.get("EMULATED"):
        print("skipped: the memory of an emulated process cannot be searched")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
