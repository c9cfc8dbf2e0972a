# SPDX-License-Identifier: MIT
"""What runs the benchmarks, with programs that only say that they ran and a clock that they move: which repetitions count, when
the time is too short, what is listed as missing, which compiler is named."""
import collections
import contextlib
import html
import importlib.util
import io
import itertools
import json
import math
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

from made_up import page

import machine
import programs
import progress
import report
import results
import run
import turns
from programs import SETTINGS, Failure
from session import Session

CASES = ["pairs/16", "slots/wide", "heaps/pair"]


class Clock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


class Program:
    """Takes a second for each run, or what `takes` says of the case and the number of the run."""

    def __init__(self, clock, allocator, cases=CASES, takes=None, interrupt=None):
        self.clock, self.allocator, self.takes, self.interrupt, self.count = clock, allocator, takes, interrupt, 0
        self.first_call_ns, self.iteration_ns, self.threads, self.asked = 0, 10.0, 1, []
        self.cases = [{"name": case, "what": "", "brief": True} for case in cases]
        self.compiler = "gcc 1.2.3"

    def run(self, case, *arguments):
        self.count += 1
        if self.count == self.interrupt:
            raise KeyboardInterrupt
        self.clock.now += self.takes(case, self.count) if self.takes else 1
        self.asked.append((case, *arguments))
        if self.first_call_ns:
            return self.beside_first_call(*arguments)
        return {"items_per_second": 1e8, "real_time": 10.0, "peak_growth": 1, "end_growth": 0, "live": 1}

    def beside_first_call(self, argument):
        """10 ns an iteration, and what the first call of each process takes. Without a count they are so many that either fills
        20 ms."""
        count = int(argument.removeprefix("--iterations=")) if argument.startswith("--iterations=") else \
            max(16, round((20e6 - self.first_call_ns) / self.iteration_ns))
        each = (self.iteration_ns + self.first_call_ns / count) / self.threads   # as google-benchmark gives it
        return {"items_per_second": 1e8, "real_time": each, "iterations": count * self.threads, "threads": self.threads,
                "peak_growth": 1, "end_growth": 0, "live": 1}


def session_of(seconds, **differences):
    clock = Clock()
    three = [Program(clock, "tidepool", **differences), Program(clock, "malloc"), Program(clock, "tcmalloc", CASES[:2])]
    with unittest.mock.patch.object(progress, "time", clock), contextlib.redirect_stderr(io.StringIO()):
        session = Session(three, three[0].cases, seconds)
        session.run()
    return session


def counts(session):
    return set(collections.Counter((run["case"], run["allocator"]) for run in session.runs).values())


class Calibration(unittest.TestCase):
    def iterations_with(self, first_calls_ns, slower=(), threads=1):
        clock = Clock()
        given = [Program(clock, str(i), CASES[:1]) for i in range(len(first_calls_ns))]
        for program, first_call_ns in zip(given, first_calls_ns):
            program.first_call_ns, program.threads = first_call_ns, threads
        for i in slower:
            given[i].iteration_ns *= slower[i]
        with unittest.mock.patch.object(progress, "time", clock), contextlib.redirect_stderr(io.StringIO()):
            session = Session(given, given[0].cases, 80)
            session.calibrate()
        return session.iterations[CASES[0]], given

    def test_a_slow_first_call_is_not_the_time_of_an_iteration(self):
        """Of 40 ms that one allocator waits at its first call, 16 iterations would each seem to take 2.5 ms."""
        for threads in 1, 2, 4:
            usual, _ = self.iterations_with([1, 1, 1], threads=threads)
            beside_one, given = self.iterations_with([1, 1, 40e6], threads=threads)
            self.assertGreater(beside_one, usual / 5)
            self.assertEqual([program.asked[1:] for program in given], [[], [], [
                (CASES[0], f"--iterations={count}") for count in (256, 4096, 65536, 1048576)]])

    def test_one_that_is_slow_at_each_iteration_runs_once_more(self):
        """A hundred times slower, it is not looked at for longer than it takes to know that."""
        _, given = self.iterations_with([1, 1, 1], slower={2: 100})
        self.assertEqual([len(program.asked) for program in given], [1, 1, 2])

    def test_a_result_that_does_not_say_how_many_ends_it(self):
        _, given = self.iterations_with([1, 1, 0], slower={2: 100})   # 0: results as everywhere else in this file
        self.assertLessEqual(len(given[2].asked), 2)

    def test_with_none_that_is_slow_nobody_runs_twice(self):
        _, given = self.iterations_with([1, 1, 1e6])
        self.assertEqual([len(program.asked) for program in given], [1, 1, 1])


class Repetitions(unittest.TestCase):
    """Eight runs, and as many seconds, are a repetition, and the calibration too."""

    def test_a_repetition_that_does_not_fit_is_not_begun(self):
        session = session_of(seconds=80)
        self.assertEqual((session.repetitions, session.dropped), (10, ""))
        self.assertEqual(counts(session), {10})

    def test_a_repetition_that_time_cuts_is_dropped_and_told(self):
        """The tenth takes four times as long."""
        session = session_of(seconds=80, takes=lambda case, count: 20 if count > 3 * 10 else 1)
        self.assertEqual((session.repetitions, session.dropped), (9, "repetition 10, which time cut"))
        self.assertEqual(counts(session), {9})

    def test_what_intervals_need_is_done_though_it_takes_longer(self):
        session = session_of(seconds=40)
        self.assertEqual(session.repetitions, results.LEAST_REPETITIONS)
        self.assertEqual(counts(session), {results.LEAST_REPETITIONS})

    def test_too_short_a_time_is_an_error_and_no_report(self):
        for seconds, found in (20, 4), (9, 1), (3, 0):
            with self.assertRaisesRegex(Failure, f"too short a time: {found} of at least 6 repetitions"):
                session_of(seconds)

    def test_an_interrupted_repetition_is_dropped_and_told(self):
        session = session_of(seconds=800, interrupt=3 * 9 + 2)
        self.assertEqual((session.repetitions, session.dropped), (8, "repetition 9, which was interrupted"))
        self.assertEqual(counts(session), {8})

    def test_an_early_interrupt_is_an_error_and_no_report(self):
        for at in 1, 3 * 3 + 2:
            with self.assertRaisesRegex(Failure, "interrupted after .* of at least 6 repetitions: nothing to report"):
                session_of(seconds=800, interrupt=at)

    def test_each_repetition_of_each_case_has_an_order_of_its_own(self):
        session = session_of(seconds=80)
        for repetition in range(session.repetitions):
            for case in CASES[:2]:
                order = [r["allocator"] for r in session.runs if (r["repetition"], r["case"]) == (repetition, case)]
                self.assertEqual(order, turns.shuffled(["tidepool", "malloc", "tcmalloc"], repetition, case))

    def test_what_each_allocator_has_is_known(self):
        self.assertEqual(session_of(seconds=80).offered(), {"tidepool": CASES, "malloc": CASES, "tcmalloc": CASES[:2]})

    def test_five_minutes_are_enough_for_the_selection(self):
        """Some two hundred runs."""
        clock = Clock()
        cases = [f"pairs/{n}" for n in range(44)]
        with unittest.mock.patch.object(progress, "time", clock):
            five = [Program(clock, str(n), cases) for n in range(5)]
            self.assertLess(Session(five, five[0].cases, 270).least_seconds(), 120)


class Turns(unittest.TestCase):
    def test_nobody_runs_behind_the_same_other_again_and_again(self):
        """Of 840 orders of eight each pair is a neighbour in 105, more or less."""
        behind = collections.Counter(
            pair for repetition in range(60) for case in range(14)
            for pair in itertools.pairwise(turns.shuffled(range(8), repetition, f"case {case}")))
        self.assertEqual(len(behind), 8 * 7)
        self.assertTrue(all(60 < count < 150 for count in behind.values()), behind)

    def test_an_order_is_the_same_in_the_next_session(self):
        """In another process, whose strings have other hashes."""
        ask = "import turns; print(''.join(turns.shuffled('abcdefgh', 3, 'slots/wide')), end='')"
        for seed in "1", "2":
            done = subprocess.run([sys.executable, "-B", "-c", ask], cwd=os.path.dirname(turns.__file__), text=True,
                                  capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
            self.assertEqual(done.stdout, "".join(turns.shuffled("abcdefgh", 3, "slots/wide")))


class Compiler(unittest.TestCase):
    def test_it_is_the_one_that_the_programs_name(self):
        same = [types.SimpleNamespace(compiler="gcc 1.2.3", allocator=a) for a in ("tidepool", "malloc")]
        self.assertEqual(machine.describe_machine(same)["compiler"], "gcc 1.2.3")
        other = types.SimpleNamespace(compiler="clang 4", allocator="jemalloc")
        self.assertEqual(machine.describe_compilers([*same, other]), "gcc 1.2.3 (tidepool, malloc); clang 4 (jemalloc)")


class Figures(unittest.TestCase):
    def test_a_run_with_a_figure_that_cannot_be_has_failed(self):
        good = {"items_per_second": 1e8, "real_time": 10.0, "peak_growth": 0, "end_growth": -1, "live": 1}
        program = programs.Program("bench-malloc")
        with unittest.mock.patch.object(program, "call", lambda *_: json.dumps({"benchmarks": [measured]})):
            measured = good
            self.assertEqual(program.run("pairs/16"), good)
            for key, value in (("items_per_second", math.inf), ("items_per_second", -1.0), ("real_time", math.nan),
                               ("peak_growth", -1), ("live", None)):
                measured, said = {**good, key: value}, f"^bench-malloc: pairs/16: {key} is {json.dumps(value)}$"
                with self.subTest(key=key), self.assertRaisesRegex(Failure, said):
                    program.run("pairs/16")


FAKE = """#!/bin/sh
(echo RUN=; env) >>"$0.environment"
case $* in
*--compiler*) echo gcc 98.7.6; exit ;;
esac
{absent}
case $* in
*--list*) printf '%s\\tbrief\\ta pair\\n' pairs/16 heaps/pair ;;
{fails}
*) echo '{{"benchmarks": [{{"items_per_second": 1e8, "real_time": 10.0, "peak_growth": 1, "end_growth": 0, "live": 1}}]}}' ;;
esac
"""
ABSENT = "echo 'bench-tcmalloc: skipped: not installed' >&2; exit 77"
FAILS = "*--case=heaps*) echo ended badly >&2; exit 1 ;;"


BENCH = pathlib.Path(run.__file__).parent


def read_terminal(terminal):
    """Nothing when nobody writes to it any more, which Linux calls an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


class Whole(unittest.TestCase):
    """run.py as a command, with programs that take no time."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.programs = []
        for allocator, absent, fails in (("tidepool", "", ""), ("malloc", "", ""), ("jemalloc", "", FAILS),
                                         ("tcmalloc", ABSENT, "")):
            path = pathlib.Path(self.folder.name, f"bench-{allocator}")
            path.write_text(FAKE.format(absent=absent, fails=fails))
            path.chmod(0o755)
            self.programs.append(str(path))

    def command(self, *arguments):
        return [*arguments, "--out", self.folder.name + "/out", *self.programs]

    @staticmethod
    def environment(**more):
        own = {name: value for name, value in os.environ.items() if not SETTINGS.fullmatch(name)}   # meson sets MALLOC_PERTURB_
        return {**own, **more}

    def run_with(self, *arguments, **environment):
        return subprocess.run([sys.executable, run.__file__, *self.command(*arguments)], capture_output=True, text=True,
                              timeout=600, check=False, env=self.environment(**environment))

    def seen(self):
        """The names that a program found in its environment."""
        lines = pathlib.Path(self.folder.name, "bench-malloc.environment").read_text().splitlines()
        return {line.partition("=")[0] for line in lines}

    def pages(self):
        """The page that was written; none without the libraries that it needs."""
        return [pathlib.Path(self.folder.name, "out/latest/report.html").read_text(encoding="utf-8")] if page else []

    def test_too_short_a_time_is_refused_at_once_with_what_is_enough(self):
        done = self.run_with("--minutes", "0.01")
        self.assertEqual(done.returncode, 1)
        enough = re.fullmatch(r"bench: --minutes 0.01: too short for 6 repetitions of 6 runs; give ([\d.]+) or more\n",
                              done.stderr.splitlines(True)[-1])
        self.assertTrue(enough, done.stderr)
        self.assertFalse(os.path.exists(self.folder.name + "/out"))
        self.assertLessEqual(float(enough[1]), 0.1)

    SETTINGS = {"TIDEPOOL_OPTIONS": "checked=1", "MALLOC_CONF": "x <y>", "MALLOC_ARENA_MAX": "1",
                "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "MIMALLOC_SHOW_STATS": "1", "mimalloc_verbose": "1",
                "TCMALLOC_SAMPLE_PARAMETER": "1", "LD_PRELOAD": "", "LD_AUDIT": "", "JE_MALLOC_CONF": "x",
                "BENCHMARK_REPETITIONS": "3"}

    def test_settings_of_allocators_are_taken_out_and_told(self):
        done = self.run_with("--minutes", "5", **self.SETTINGS, OTHER_MALLOC="stays")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.seen() & self.SETTINGS.keys(), set())
        self.assertIn("OTHER_MALLOC", self.seen())
        for name, value in self.SETTINGS.items():
            self.assertIn(f"bench: {name}={value} is taken out of the environment (--keep-environment leaves it there)\n",
                          done.stderr)
        self.assertEqual(json.loads(pathlib.Path(self.folder.name, "out/latest/raw.json").read_text())["environment"], {})
        self.assertNotIn("MALLOC_CONF", done.stdout)
        self.assertFalse(any("MALLOC_CONF" in text for text in self.pages()))

    def test_settings_that_are_kept_are_named(self):
        done = self.run_with("--minutes", "5", "--keep-environment", **self.SETTINGS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.seen() & self.SETTINGS.keys(), self.SETTINGS.keys())
        self.assertNotIn("is taken out", done.stderr)
        raw = json.loads(pathlib.Path(self.folder.name, "out/latest/raw.json").read_text())
        self.assertEqual(raw["environment"], self.SETTINGS)
        for text in self.pages():
            self.assertIn("<code>", text)
            self.assertIn("x &lt;y&gt;", text)
            self.assertIn("MALLOC_CONF='x <y>'", html.unescape(text))
        self.assertRegex(done.stdout, "(?m)^Measured with .*MALLOC_CONF='x <y>' .*TIDEPOOL_OPTIONS=checked=1")
        self.assertIn("MALLOC_CONF='x <y>'", report.markdown(results.Results(raw)))

    def test_the_load_is_that_before_the_session(self):
        """A load that says how often a program has run."""
        folder = pathlib.Path(self.folder.name)
        log = folder / "bench-malloc.environment"
        def load():
            return (float(log.read_text().count("RUN=\n")),) * 3
        self.run_with("--minutes", "0.01")   # refused: begins the log
        before = load()[0]
        with contextlib.ExitStack() as stack:
            for change in (unittest.mock.patch.object(os, "getloadavg", load), unittest.mock.patch.dict(os.environ),
                           unittest.mock.patch.object(sys, "argv", ["run.py", *self.command("--minutes", "5")]),
                           contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO())):
                stack.enter_context(change)
            run.main()
        self.assertGreater(load()[0], before + 20)
        raw = json.loads((folder / "out/latest/raw.json").read_text())
        self.assertLess(float(raw["machine"]["load when started"].split()[0]), before + 5)

    def test_what_is_missing_is_in_the_report(self):
        done = self.run_with("--minutes", "5")   # ends sooner: there is a most of repetitions
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ("Not measured with jemalloc (1 case): heaps/pair.", "Failed: heaps/pair: ended badly",
                     "Not measured: bench-tcmalloc: skipped: not installed."):
            self.assertIn(line, done.stdout)
        raw = json.loads(pathlib.Path(self.folder.name, "out/latest/raw.json").read_text())
        self.assertEqual(raw["machine"]["compiler"], "gcc 98.7.6")
        self.assertTrue(all("gcc 98.7.6" in text for text in self.pages()))

    STAGES = r"(?m)^ *\d+ s  repetition 2\r?\n *\d+ s  repetition 3\r?\n"

    def on_terminal(self, *program, term="xterm"):
        """All that a terminal is sent of run.py's standard error."""
        terminal, end = pty.openpty()
        command = [sys.executable, *program, *self.command("--minutes", "5")]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=end, cwd=BENCH,
                              env=self.environment(TERM=term, COLUMNS="200")) as running:
            os.close(end)
            sent = b""
            while part := read_terminal(terminal):
                sent += part
        os.close(terminal)
        self.assertEqual(running.returncode, 0, sent)
        return sent.decode()

    def test_progress_is_a_line_for_each_stage_where_there_is_no_terminal(self):
        done = self.run_with("--minutes", "5", TERM="xterm")
        self.assertRegex(done.stderr, self.STAGES)
        self.assertNotIn("\x1b", done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("rich"), "this Python has no rich")
    def test_progress_is_a_bar_on_a_terminal_and_gone_at_the_end(self):
        sent = self.on_terminal(run.__file__)
        self.assertRegex(sent, r"\d:\d\d left.* repetition 2  pairs/16  malloc")
        self.assertIn("heaps/pair: ended badly", sent)
        self.assertNotRegex(sent, self.STAGES)
        hidden, shown = "\x1b[?25l", "\x1b[?25h"   # the cursor
        self.assertGreater(sent.rfind(shown), sent.rfind(hidden))
        self.assertIn(hidden, sent)

    def test_progress_is_lines_on_a_terminal_without_rich_or_that_cannot_draw(self):
        sent = self.on_terminal("-c", "import sys; sys.modules['rich'] = None; import run; run.main()")
        self.assertRegex(sent, self.STAGES)
        self.assertIn("bench: no progress bar: this Python has no rich (Debian package python3-rich)", sent)
        self.assertRegex(self.on_terminal(run.__file__, term="dumb"), self.STAGES)


unittest.main()
