# SPDX-License-Identifier: MIT
"""The simulation of many cores, where the result can be reckoned by hand, and both programs that it is fed by."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True   # the source tree stays as it is
PROGRAMS = sys.argv[1:]
del sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import many_cores   # noqa: E402  pylint: disable=wrong-import-position

many_cores.VISITS, many_cores.VISITS_LEAST = 6000, 50   # some percent of noise

MACHINE = {"line_ns": 40, "wake_ns": 2000, "wake_latency_ns": 5000, "two_at_once": 2}


def rates(count, own, *visits):
    return many_cores.Simulation([(own, list(visits))] * count, MACHINE).run()


def visit(rate, held, lock="a", inner=()):
    return many_cores.Visit(rate, {lock: 1}, (0, 0), (held, held), inner)


class Simulated(unittest.TestCase):
    def about(self, value, expected, part=0.05):
        self.assertAlmostEqual(value / expected, 1, delta=part)

    def test_without_locks_each_core_is_one_more(self):
        for count in 1, 2, 64:
            self.about(sum(rates(count, 20)), count / 20)

    def test_one_core_pays_for_its_visits(self):
        self.about(rates(1, 20, visit(.1, 50))[0], 1 / 25)
        self.about(rates(1, 20, visit(.1, 50, inner=[visit(2, 10, "b")]))[0], 1 / 27)

    def test_a_lock_that_is_always_held_is_the_limit(self):
        many = sum(rates(32, 20, visit(.5, 400)))
        self.assertLess(many, 1 / 200)          # two operations while it is held once
        self.assertGreater(many, .1 / 200)

    def test_an_attempt_does_not_wait(self):
        attempt = many_cores.Visit(.5, {"a": 1}, (0, 0), (400, 400), site="f attempt a")
        self.about(sum(rates(32, 20, attempt)), 31 / 20, 0.1)

    def test_locks_of_their_own_are_no_limit(self):
        works = [(20, [visit(.5, 400, core)]) for core in range(32)]
        self.about(sum(many_cores.Simulation(works, MACHINE).run()), 32 / 220)

    def test_what_another_core_had_costs_more(self):
        shared = many_cores.Visit(.01, {"a": 1}, (0, 100), (10, 410))
        alone, two = rates(1, 100, shared)[0], rates(2, 100, shared)
        self.about(alone, 1 / 100.1)
        self.assertTrue(1 / 105.5 < two[0] < 1 / 101.5, two)

    def test_sleepers_are_woken(self):
        long = sum(rates(8, 20, visit(1, 10000)))     # longer than anybody spins
        self.about(long, 1 / (10000 + MACHINE["wake_ns"]), 0.6)


def row(thread, count, held, site="bin &bin->lock", within=None, lock="0x1"):
    times = [count, held, 0]
    return {"thread": thread, "site": site, "within": within, "lock": lock, "took_own": [count, 0, 0],
            "took_other": [0, 0, 0], "held_own": times, "held_other": [0, 0, 0], "waited": [0, 0, 0]}


def run(threads, held, case="slots/small"):
    return {"case": case, "threads": threads, "operations": 1000 * threads, "seconds": .1, "processor_seconds": threads * 3e-5,
            "locks": [row(thread, 10, held) for thread in range(threads)]}


class Predicted(unittest.TestCase):
    def raw(self, held):
        counted = {str(n): run(n, held) for n in many_cores.CORES}
        plain = {n: [run(int(n), 0)] * 3 for n in ("1", "2", "64")}
        return {"machine": MACHINE, "cases": {"slots/small": {"plain": plain, "counted": counted}}}

    def test_what_is_counted_comes_out(self):
        # 30 ns an operation, of which a visit in a hundred operations takes so much.
        few, many = (many_cores.results(self.raw(held))["slots/small"] for held in (10, 1000))
        self.assertAlmostEqual(few["own_ns"], 29.9, delta=.01)
        self.assertAlmostEqual(many["own_ns"], 20, delta=.01)
        self.assertGreater(few["speed_up"][8], 7)
        self.assertLess(many["speed_up"][64], 3.5)
        self.assertEqual(few["two"], (2, 2, 2))
        self.assertEqual(few["sixty_four"], (1, 1, 1))

    def test_of_two_sides_the_slower_counts(self):
        works = run(4, 10, "handover/small")
        works["locks"] = [row(thread, 10, 4000 if thread % 2 else 10, lock=hex(thread)) for thread in range(4)]
        fast = many_cores.predict(run(4, 0, "handover/small"), 20, run(2, 0), MACHINE)
        self.assertLess(many_cores.predict(works, 20, run(2, 0), MACHINE), .8 * fast)

    def test_the_lock_that_is_waited_for_is_named(self):
        of = self.raw(1000)["cases"]["slots/small"]["counted"]
        (held, wait, sites), *_ = many_cores.busiest(of["64"], 20, of["2"], MACHINE)
        self.assertGreater(held, .5)
        self.assertGreater(wait, 30)
        self.assertEqual(sites, ["bin &bin->lock"])
        self.assertLess(many_cores.busiest(of["1"], 20, of["2"], MACHINE)[0][1], .01)

    def test_a_table_of_what_was_kept(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file, io.StringIO() as printed:
            json.dump(self.raw(10), file)
            file.flush()
            with contextlib.redirect_stdout(printed):
                many_cores.main(["--again", file.name])
            self.assertIn("| slots/small | 2.00 (2.00-2.00) | ", printed.getvalue())


@unittest.skipUnless(PROGRAMS, "the programs are not built")
class Programs(unittest.TestCase):
    def ask(self, program, *arguments):
        return many_cores.ask(program, *arguments)

    def test_the_library_as_it_is_counts_nothing(self):
        run_of_it = self.ask(PROGRAMS[0], "slots/small", 2, .01)
        self.assertTrue(run_of_it["operations"] > 0 and run_of_it["processor_seconds"] > 0 and not run_of_it["locks"])

    def test_each_lock_is_counted_with_what_is_within(self):
        for case in many_cores.CASES:
            counted = self.ask(PROGRAMS[1], case, 4, .01)
            self.assertEqual(counted["threads"], 4)
            for row_of_it in counted["locks"]:
                self.assertGreater(many_cores.row_count(row_of_it), 0)
                self.assertLess(row_of_it["thread"], 4)
        sites = {row_of_it["site"] for row_of_it in self.ask(PROGRAMS[1], "handover/small", 4, .02)["locks"]}
        self.assertTrue(any("&depot->lock" in site for site in sites), sites)

    def test_bad_arguments_are_one_line(self):
        for arguments in (["nothing", "1", "1"], ["slots/small", "0", "1"], ["slots/small", "1000", "1"], ["slots/small"]):
            done = subprocess.run([PROGRAMS[0], *arguments], capture_output=True, text=True, check=False)
            self.assertTrue(done.returncode and done.stderr.count("\n") == 1, done)


unittest.main()
