# SPDX-License-Identifier: MIT
"""What runs real programs, with a program in place of `measure` that takes no time, and figures with known answers: which
libraries and programs are left out and named, which repetitions count, what the tables say."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import made_up   # finds bench/

import command
import more_programs
import public_workloads
import real
import real_programs
import real_tables
import results
import starts
import turns
from programs import Failure

TIMES = {"tidepool": 1.0, "malloc": 2.0, "jemalloc": 4.0, "mimalloc": 0.5}
MEASURE = """#!/bin/sh
case "$2" in
*absent*) echo "ERROR: ld.so: object '$2' from LD_PRELOAD cannot be preloaded" >&2; exit 0 ;;
*mimalloc*) time=.5 ;;
*jemalloc*) time=4 ;;
*tidepool*) time=1 ;;
*) time=2 ;;
esac
case "$3$2" in
fails*jemalloc*) echo 'fails: no memory' >&2; exit 1 ;;
esac
echo "9 $time .25 1000 2097152 1048576" >"$1"
echo "of $3: $time seconds, 8 operations"
"""


def program(name, binary="true"):
    return real_programs.RealProgram(name, binary, "package-of-" + name, "does it",
                                     real_programs.plain(name, "DATA/x", OWN="1"))


def raw(times=None, names=("lua", "git"), repetitions=8, **more):
    def run(name, allocator, repetition):
        time = (times or {}).get((name, allocator), TIMES[allocator]) * (1 + repetition / 10)
        return {"program": name, "allocator": allocator, "repetition": repetition, "time": time, "clock": time, "user": time,
                "system": 0.0, "faults": 10.0, "peak": 4e6 * TIMES[allocator], "mean": 1e6}
    return {"programs": [{"name": name, "what": "x"} for name in names], "allocators": list(TIMES), "versions": {},
            "runs": [run(n, a, r) for r in range(repetitions) for n in names for a in TIMES], "absent": [], "failures": [],
            "machine": {"processor": "p", "processors": 2, "system": "s", "huge pages": "h"}, **more}


class Tables(unittest.TestCase):
    def test_a_mean_is_over_the_programs_that_all_allocators_ran(self):
        found = raw({("git", "tidepool"): 100.0})
        self.assertAlmostEqual(real_tables.RealResults(found).mean("tidepool", "malloc", "time").middle, 25 ** 0.5)
        found["runs"] = [run for run in found["runs"] if (run["program"], run["allocator"]) != ("git", "jemalloc")]
        less = real_tables.RealResults(found)
        self.assertEqual(less.common(), ["lua"])
        self.assertAlmostEqual(less.mean("tidepool", "malloc", "time").middle, 0.5)

    def test_the_best_other_is_chosen_program_by_program(self):
        found = real_tables.RealResults(raw({("git", "mimalloc"): 9.0}))
        self.assertEqual([found.best_other(name, "tidepool", "time") for name in ("lua", "git")], ["mimalloc", "malloc"])
        self.assertAlmostEqual(found.mean_of_best("tidepool", "time").middle, (2 * 0.5) ** 0.5)
        self.assertEqual(found.best_other("lua", "mimalloc", "time"), "tidepool")

    def test_too_few_repetitions_are_no_result(self):
        self.assertEqual(real_tables.RealResults(raw(repetitions=results.LEAST_REPETITIONS - 1)).programs, [])

    def test_where_it_is_slower_stands_first(self):
        rows = real_tables.markdown(real_tables.RealResults(raw({("git", "tidepool"): 30.0}))).splitlines()
        self.assertIn(f"60.0 (60.0-60.0) mimalloc, {results.SLOWER}", rows[2])
        self.assertTrue(rows[2].startswith("| git |") and rows[3].startswith("| lua |"), rows)

    def test_what_is_missing_stands_below(self):
        failures = [{"program": "git", "allocator": "jemalloc", "what": "git: no memory"}] * 3
        text = real_tables.markdown(real_tables.RealResults(raw(absent=["tcmalloc: not here"], failures=failures)))
        self.assertIn("Not measured: tcmalloc: not here.", text)
        self.assertEqual(text.count("Failed: jemalloc: git: no memory."), 1)


class Sessions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.measure = pathlib.Path(self.folder.name, "measure")
        self.measure.write_text(MEASURE)
        self.measure.chmod(0o755)

    def session(self, names=("one", "two"), seconds=0, libraries=tuple(TIMES), **more):
        return real.Session(str(self.measure), {name: name for name in libraries}, [program(name) for name in names], seconds,
                            self.folder.name, **more)

    def run_quietly(self, session, **more):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            session.run(**more)
        return said.getvalue()

    def test_six_repetitions_are_always_done_and_the_first_runs_do_not_count(self):
        session = self.session()
        self.run_quietly(session)
        self.assertEqual(session.repetitions, results.LEAST_REPETITIONS)
        self.assertEqual(len(session.runs), results.LEAST_REPETITIONS * 2 * len(TIMES))
        self.assertEqual({run["allocator"]: run["time"] for run in session.runs}, {a: t + 0.25 for a, t in TIMES.items()})

    def test_each_repetition_of_each_program_has_an_order_of_its_own(self):
        session = self.session(names=("one", "two", "three"))
        self.run_quietly(session)
        orders = {}
        for run in session.runs:
            orders.setdefault((run["repetition"], run["program"]), []).append(run["allocator"])
        self.assertTrue(all(sorted(order) == sorted(TIMES) for order in orders.values()))
        self.assertEqual(orders, {of: turns.shuffled(TIMES, *of) for of in orders})

    def test_a_program_that_fails_is_named_and_the_others_count(self):
        session = self.session(names=("fails", "two"))
        self.assertIn("jemalloc: fails: fails: no memory", self.run_quietly(session))
        self.assertEqual({failure["allocator"] for failure in session.failures}, {"jemalloc"})
        self.assertEqual({run["allocator"] for run in session.runs if run["program"] == "fails"}, set(TIMES) - {"jemalloc"})

    def test_memory_is_touched_before_each_run_if_that_is_asked_for(self):
        self.measure.write_text(MEASURE.replace("#!/bin/sh", '#!/bin/sh\n[ "$1 $2" = "--warm 512" ] || exit 1\nshift 2'))
        self.assertEqual(self.run_quietly(self.session(warm=512)).count("exit status"), 0)
        self.assertIn("exit status 1", self.run_quietly(self.session()))
        text = real_tables.markdown(real_tables.RealResults(raw(warm=512)))
        self.assertIn("; before each run another process touched 512 MiB of huge pages; ", text)

    def test_a_program_may_be_started_often_in_one_run(self):
        self.measure.write_text(MEASURE.replace("#!/bin/sh", '#!/bin/sh\n[ "$1 $2" = "--times 100" ] || exit 1\nshift 2'))
        session = self.session(names=("one",), libraries=("tidepool",))
        self.assertIn("exit status 1", self.run_quietly(session))
        session.programs = [session.programs[0]._replace(times=100)]
        self.assertNotIn("exit status", self.run_quietly(session))

    def test_the_time_may_be_what_a_program_prints(self):
        session = self.session(names=("one",), libraries=("tidepool", "jemalloc"))
        for time, expected in ((public_workloads.said("([0-9.]+) seconds"), {1, 4}),
                               (public_workloads.said("([0-9]+) op", 2), {.25}), (public_workloads.clock, {9})):
            session.programs = [session.programs[0]._replace(time=time)]
            self.run_quietly(session)
            self.assertEqual({run["time"] for run in session.runs}, expected)
        session.programs = [session.programs[0]._replace(time=public_workloads.said("([0-9]+) hours"))]
        self.assertIn("one: no figure in what it prints: of one: 1 seconds, 8 operations", self.run_quietly(session))

    def test_an_interrupt_counts_what_is_complete_or_is_an_error(self):
        for at, enough in (2, False), (results.LEAST_REPETITIONS + 2, True):
            session, repeat = self.session(seconds=1000), real.Session.repeat
            def interrupted(self, at=at, repeat=repeat):
                if self.repetitions + 1 == at and self.runs:
                    raise KeyboardInterrupt
                repeat(self)
            with unittest.mock.patch.object(real.Session, "repeat", interrupted):
                if enough:
                    self.run_quietly(session)
                    self.assertEqual({run["repetition"] for run in session.runs}, set(range(at - 1)))
                else:
                    self.assertRaisesRegex(Failure, "interrupted after 1 of at least 6", self.run_quietly, session)

    def test_a_library_that_the_loader_does_not_find_is_named(self):
        libraries = {"tidepool": "tidepool", "x": "absent.so", "malloc": ""}
        absent = real.usable(str(self.measure), libraries, self.folder.name)
        self.assertEqual(list(libraries), ["tidepool", "malloc"])
        self.assertRegex(absent[0], "^x: .*absent.so.* cannot be preloaded$")

    def test_a_program_that_hangs_ends_with_all_that_it_has_started(self):
        started = pathlib.Path(self.folder.name, "started")
        started.touch()
        def wait_for_it(*_):   # however slow the machine is
            while not started.read_text():
                time.sleep(0.01)
        self.measure.write_text(f"#!/bin/sh\n(sh -c 'echo $PPID'; exec sleep 1000) >{started} &\nwait\n")
        session = self.session(names=("one",), libraries=("tidepool",))
        session.programs = [session.programs[0]._replace(client=wait_for_it)]
        with unittest.mock.patch.object(real_programs, "STUCK_SECONDS", 1), contextlib.redirect_stderr(io.StringIO()):
            session.repeat()
        self.assertRegex(session.failures[0]["what"], "^one: .*timed out after 1 seconds$")
        self.assertTrue(made_up.ends(int(started.read_text())))

    def test_a_library_may_have_blanks_in_its_path(self):
        path = pathlib.Path(self.folder.name, "a b:c.so")
        path.touch()
        given = real.preloadable(str(path), self.folder.name)
        self.assertNotRegex(given, r"[\s:]")
        self.assertTrue(os.path.samefile(given, path))
        self.assertEqual(real.preloadable("/x/y.so", self.folder.name), "/x/y.so")

    def whole(self, *arguments, programs=("one", "two"), more=("three",)):
        """What real.py prints, and its complaints."""
        listed, second = ([program(name, "true" if name != "gone" else "no-such-binary") for name in names]
                          for names in (programs, more))
        given = ["real.py", "--out", self.folder.name, "--measure", str(self.measure), "--tidepool", "tidepool", "--minutes",
                 "0.001", *arguments]
        printed, said = io.StringIO(), io.StringIO()
        with unittest.mock.patch.multiple(real_programs, DATA=(), REAL_PROGRAMS=listed), \
                unittest.mock.patch.multiple(more_programs, DATA=(), REAL_PROGRAMS=second), \
                unittest.mock.patch.object(sys, "argv", given), unittest.mock.patch.dict(os.environ), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            os.environ.pop("MALLOC_PERTURB_", None)   # meson's
            try:
                real.main()
            except Failure as failure:
                return printed.getvalue(), str(failure)
        return printed.getvalue(), said.getvalue()

    def test_a_whole_run_prints_tables_and_writes_all_figures(self):
        library = pathlib.Path(self.folder.name, "jemalloc5.so")
        library.touch()
        printed, said = self.whole("--lib", f"newest={library}", programs=("one", "gone"))
        self.assertIn("| newest |", printed)
        self.assertIn("newest: jemalloc5.so", printed)
        self.assertIn("gone: no-such-binary is not installed (Debian package package-of-gone)", said)
        found = json.loads(pathlib.Path(self.folder.name, "latest/programs.json").read_text())
        self.assertEqual(found["allocators"], ["tidepool", "malloc", "jemalloc", "mimalloc", "tcmalloc", "newest"])
        # Where there is time left, which is the machine's to say, there are more repetitions than the least.
        repetitions, rest = divmod(len(found["runs"]), len(found["allocators"]))
        self.assertEqual(rest, 0)
        self.assertGreaterEqual(repetitions, results.LEAST_REPETITIONS)
        again, _ = self.whole("--markdown", os.path.join(self.folder.name, "latest/programs.json"))
        self.assertTrue(printed.startswith(again.rstrip("\n")))

    def test_programs_and_settings_that_cannot_be_are_told_in_a_line(self):
        self.assertEqual(self.whole("--only", "three")[1], "--only: no program three; there are one, two")
        self.assertEqual(self.whole("--only", "gone", programs=("one", "gone"))[1], "nothing can be measured")
        with unittest.mock.patch.dict(os.environ, {"MALLOC_CONF": "x"}):
            self.assertIn("bench: MALLOC_CONF=x is taken out of the environment\n", self.whole("--smoke")[1])
        self.assertEqual(self.whole("--smoke", programs=("one", "fails"))[1], "")   # that fails with jemalloc alone

    def test_results_are_not_lost_at_the_end(self):
        with unittest.mock.patch.object(real, "measured", self.fail):
            file = os.path.join(self.folder.name, "file")
            pathlib.Path(file).touch()
            for place in file, file + "/below":
                self.assertRaises(OSError, self.whole, "--out", place)
            self.assertIn("no figures of real programs", self.whole("--markdown", file)[1])
        self.measure.write_text(MEASURE.replace('case "$3$2" in', 'case "$3$2" in\n*/true*) ;; *tidepool*) exit 1 ;;'))
        self.assertEqual(self.whole()[1].splitlines()[-1], "no program ran with tidepool")

    def test_packages_that_are_missing_are_listed(self):
        self.assertEqual(self.whole("--missing-packages", programs=("one", "gone"))[0], "package-of-gone\n")
        self.assertEqual(self.whole("--more", "--missing-packages", more=("one", "gone"))[0], "package-of-gone\n")

    def test_the_second_set_is_a_set_of_its_own(self):
        printed, _ = self.whole("--more")
        self.assertIn("| three |", printed)
        self.assertNotIn("| one |", printed)
        self.assertEqual(self.whole("--more", "--only", "one")[1], "--only: no program one; there are three")

    def test_workloads_are_those_of_a_directory(self):
        built = pathlib.Path(self.folder.name, "out/bench")
        built.mkdir(parents=True)
        for name in "cfrac", "mleak":
            built.joinpath(name).symlink_to("/bin/true")
        printed, said = self.whole("--public", self.folder.name, "--only", "cfrac,mleak,barnes")
        self.assertIn("| cfrac | 9.00 s |", printed)   # by the clock
        self.assertIn("The time that a workload prints, or the clock's.", printed)
        self.assertIn(f"barnes: {built}/barnes is not installed\n", said)
        self.assertEqual(self.whole("--public", "/no/such", "--only", "cfrac")[1], "nothing can be measured")
        with unittest.mock.patch.object(real_programs, "PATH", self.folder.name):
            # No package has the others.
            self.assertEqual(self.whole("--public", "/no/such", "--missing-packages")[0], "ruby\n")
        self.assertEqual(self.whole("--public", "", "--only", "one")[1].partition(";")[0], "--only: no program one")

    def test_tidepool_may_run_once_more_with_options(self):
        slow = '[ "$TIDEPOOL_OPTIONS" != slow=1 ] || set -- "$1" other "$3"'
        self.measure.write_text(MEASURE.replace("#!/bin/sh", "#!/bin/sh\n" + slow))
        printed, _ = self.whole("--with", "slow=slow=1", "--with", "same=quick=1", "--without", "jemalloc,mimalloc,tcmalloc")
        for row in "| tidepool | 0.56 ", "| slow | 1.00 ", "| same | 0.56 ":
            self.assertIn("\n" + row, printed)
        self.assertIn("slow: slow=1; same: quick=1.", printed)
        self.assertNotIn("1.00 (1.00-1.00) same", printed)   # they are no other allocators
        self.assertEqual(self.whole("--with", "a=x", "--with", "a=y")[1], "--with: a is given twice")
        self.assertEqual(self.whole("--with", "a=x", "--caches")[1], "--with is not for --caches")
        for text in "malloc=x=1", "x", "a b=x=1":
            self.assertRaisesRegex(argparse.ArgumentTypeError, "not NAME=OPTIONS with", real.named_options, text)

    def test_some_allocators_may_be_left_out(self):
        printed, _ = self.whole("--without", "jemalloc,tcmalloc")
        self.assertEqual([name in printed for name in ("| malloc |", "| mimalloc |", "| jemalloc |", "| tcmalloc |")],
                         [True, True, False, False])
        self.assertEqual(self.whole("--without", "tidepool")[1],
                         "--without: no allocator tidepool; there are malloc, jemalloc, mimalloc, tcmalloc")

    def test_a_smoke_test_without_programs_counts_as_skipped(self):
        with self.assertRaises(SystemExit) as ended:
            self.whole("--smoke", programs=("gone",))
        self.assertEqual(ended.exception.code, 77)


class Programs(unittest.TestCase):
    """The second set: its data, and how its servers end."""
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def fake(self, name, text):
        """A program that notes its last argument."""
        path = pathlib.Path(self.folder.name, name)
        path.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$last" >>{self.folder.name}/said\n{text}\n')
        path.chmod(0o755)
        return str(path)

    def said(self):
        return pathlib.Path(self.folder.name, "said").read_text().split()

    def test_all_that_a_program_needs_is_missed(self):
        lacking = program("one")._replace(needs=(("true", "x"), ("no-such-binary", "package-of-it")))
        self.assertEqual(real_programs.missing(lacking), [("no-such-binary", "package-of-it")])

    def test_names_are_unique_and_fit_a_list(self):
        sets = [module.REAL_PROGRAMS for module in (real_programs, more_programs, starts)]
        names = [program.name for programs in [*sets, public_workloads.in_directory("x")] for program in programs]
        self.assertEqual(len(names), len(set(names)))
        self.assertFalse([name for name in names if set(name) & set(", |")])

    def test_data_is_the_same_each_time(self):
        made = []
        for name in "one", "two":
            folder = pathlib.Path(self.folder.name, name)
            folder.mkdir()
            for make in more_programs.DATA:
                if make is not more_programs.make_trees:   # twelve thousand files
                    make(str(folder))
            made.append({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        self.assertEqual(*made)

    @unittest.skipUnless(shutil.which("git", path=real_programs.PATH), "git is not installed")
    def test_git_compares_fifty_files(self):
        for make in starts.DATA:
            make(self.folder.name)
        git = ["git", "-C", os.path.join(self.folder.name, "worktree")]
        said = [subprocess.run([*git, *words], capture_output=True, text=True, check=True).stdout
                for words in (["ls-files"], ["status", "--short"])]
        self.assertEqual((len(said[0].split()), said[1]), (50, ""))

    def test_mariadb_is_ended_when_its_client_fails(self):
        self.fake("mariadb", '[ "$last" = SHUTDOWN ] || exit 1')
        pathlib.Path(self.folder.name, "work.sql").touch()
        with unittest.mock.patch.object(more_programs, "PATH", f"{self.folder.name}:/bin"):
            self.assertRaises(subprocess.CalledProcessError, more_programs.load_mariadb, self.folder.name, self.ended())
        self.assertEqual(self.said()[-1], "SHUTDOWN")

    def test_nginx_is_ended_when_requests_fail(self):
        self.fake("ab", 'echo "Complete requests:      15\nFailed requests:        3"')
        with unittest.mock.patch.multiple(more_programs, PATH=f"{self.folder.name}:/bin", NGINX=self.fake("nginx-program", "")):
            more_programs.nginx_command(self.folder.name)
            self.assertRaisesRegex(subprocess.SubprocessError, "failed requests of page0.html", more_programs.load_nginx,
                                   self.folder.name, self.ended())
        self.assertEqual(self.said()[-1], "quit")

    def test_answers_of_nginx_have_to_be_pages(self):
        for more, fails in ("Keep-Alive requests:    0\n", False), ("Non-2xx responses:      15\n", True):
            self.fake("ab", f'echo "Complete requests:      15\nFailed requests:        0\n{more}"')
            with unittest.mock.patch.object(more_programs, "PATH", f"{self.folder.name}:/bin"), \
                    self.assertRaises(subprocess.SubprocessError) if fails else contextlib.nullcontext():
                more_programs.get_pages(1, "x", 15, 60)

    def ended(self):
        process = subprocess.Popen(["/bin/true"])
        process.wait()
        return process


class Commands(unittest.TestCase):
    def test_minutes_are_more_than_none_and_at_most_a_day(self):
        self.assertEqual(command.minutes("0.5"), 0.5)
        for text in "0", "-1", "nan", "inf", "1441", "x", "":
            self.assertRaisesRegex(argparse.ArgumentTypeError, f"^{text}: more than 0", command.minutes, text)

    def test_a_library_has_a_name_of_its_own_and_a_path(self):
        self.assertEqual(command.named_library(f"mi3={__file__}"), ("mi3", os.path.abspath(__file__)))
        for text in "mi3", "mi3=", f"={__file__}", f"a b={__file__}", "mi3=/no/such/file", "mi3=/":
            self.assertRaisesRegex(argparse.ArgumentTypeError, "not NAME=PATH", command.named_library, text)
        for name in "tidepool", "malloc", "jemalloc":
            self.assertRaisesRegex(argparse.ArgumentTypeError, "always here", command.named_library, f"{name}={__file__}")
        twice = types.SimpleNamespace(lib=[("a", "x"), ("a", "y")])
        self.assertRaisesRegex(Failure, "^--lib: a is given twice$", command.given_libraries, twice)

    def test_a_failure_of_either_command_is_one_line(self):
        for arguments in ["real.py", "--minutes", "0"], ["run.py", "--minutes", "0", "x"], ["run.py", "--lib", "x", "y"]:
            done = subprocess.run([sys.executable, pathlib.Path(real.__file__).with_name(arguments[0]), *arguments[1:]],
                                  capture_output=True, text=True, timeout=600, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"\Abench: argument --\w+: .*\n\Z")


unittest.main()
