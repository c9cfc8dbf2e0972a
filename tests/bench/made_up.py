# SPDX-License-Identifier: MIT
"""Results that nobody measured, with known answers, for the tests of bench/."""
import pathlib
import sys
import time
import unittest

sys.dont_write_bytecode = True   # the source tree stays as it is
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import results

try:
    import page
    needs_page = unittest.skipIf(False, "")
except ImportError as error:
    page, needs_page = None, unittest.skip(f"this Python has no {error.name}")



def ends(process, seconds=10):
    """Says whether a process ends. Nobody may wait for it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


REPETITIONS = 8
SPEEDS = {"tidepool": 10.0, "malloc": 20.0, "jemalloc": 40.0, "tcmalloc": 5.0}
# Only some have heaps and object pools, and only malloc's program does by hand what an object pool does.
WITHOUT = {"heaps": ("tcmalloc",), "object_pools": ("tcmalloc",)}
LATENCY = {f"{call}_{which}_ns": 9.0 * 3 ** i for call in results.CALLS for i, which in enumerate(results.PERCENTILES)}


HEAPS = ["heaps/pair", "heaps/reset"]
OBJECT_POOLS = ["object_pools/pairs", "object_pools/pairs_by_hand"]
SOAK = {"seconds": [1.0, 2.0, 3.0], "held_at_peak": [5e6, 6e6, 5e6], "held_in_trough": [2e6, 2e6, 2e6],
        "mixed_at_peak": [9e5, 9e5, 9e5], "mixed_in_trough": [1e5, 1e5, 1e5]}


def run(case, allocator, repetition, ns):
    google = {**LATENCY, "clock_ns": 9.0} if case.startswith("latency") else {}
    return {"case": case, "allocator": allocator, "repetition": repetition, "ns": ns, "peak": 3 * results.MIB, "end": 0,
            "live": 2 * results.MIB, "google": google}


def has(allocator, case):
    subject = case.split("/")[0]
    return allocator not in WITHOUT.get(subject, ()) and (allocator == "malloc" or not case.endswith("_by_hand"))


def raw(times=None, names=("pairs/16", "slots/<&>"), repetitions=REPETITIONS, runs=None, **more):
    """`times`: nanoseconds by case and allocator, or a function of the repetition, where they are not those of SPEEDS."""
    def time_of(case, allocator, repetition):
        time = (times or {}).get((case, allocator), SPEEDS[allocator])
        return time(repetition) if callable(time) else time * (1 + repetition / 10)
    if runs is None:
        runs = [run(case, a, r, time_of(case, a, r))
                for case in names for a in SPEEDS for r in range(repetitions) if has(a, case)]
    return {"cases": [{"name": name, "what": "a < b & c", "brief": True} for name in names], "allocators": list(SPEEDS),
            "runs": runs, "offered": {a: [name for name in names if has(a, name)] for a in SPEEDS},
            "failures": [], "versions": {}, "soak": None,
            "dropped": "", "command": "bench <x>", "date": "2001-02-03T04:05:06", "seconds_a_run": 0.1,
            "machine": {"processor": "p", "processors": 2, "memory": "m", "system": "s", "compiler": "c", "huge pages": "h",
                        "load when started": "0"}, **more}


def without(raw, *pairs):
    raw["runs"] = [run for run in raw["runs"] if (run["case"], run["allocator"]) not in pairs]
    return raw


def everything():
    """Cases of each kind that the report has a place for, and one that failed."""
    names = ["pairs/16", "slots/<&>", "latency/x/threads:1", *HEAPS, *OBJECT_POOLS,
             *[f"threads/slots/threads:{count}" for count in (1, 2, 3, 4)]]
    failures = [{"case": "slots/<&>", "allocator": "tcmalloc", "what": "ended"}]
    return without(raw(None, names, soak=SOAK, failures=failures), ("slots/<&>", "tcmalloc"))
