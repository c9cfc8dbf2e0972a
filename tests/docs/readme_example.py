# SPDX-License-Identifier: MIT
"""Runs the example of README.md and checks what it prints: pages were dropped, and the budget held.

usage: readme_example.py PROGRAM"""

import json
import subprocess
import sys

result = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=True)
dropped, _, figures = result.stdout.partition(" pages dropped\n")
heap = json.loads(figures)
assert heap["name"] == "cache" and heap["budget"] == 4 << 20, heap
assert 0 < int(dropped) < 100000 and heap["retried_count"] > 0 and heap["exhausted_count"] == 0, result.stdout
assert heap["live_bytes"] < heap["peak_held_bytes"] <= heap["budget"], heap
