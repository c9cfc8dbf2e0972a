# SPDX-License-Identifier: MIT
"""TIDEPOOL_OPTIONS as a user of the preloaded library meets it.

usage: options.py LIBRARY PROBE   (PROBE: the program built from probe.c)"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True   # the source tree stays as it is
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import preloading

LIBRARY, PROBE = preloading.preloadable(sys.argv[1]), sys.argv[2]
KEYS = ["purge_delay_ms", "huge_pages", "stats", "checked", "guarded", "guard_sample", "check_at_exit", "leaks", "sites",
        "blocks", "abort_on_exhausted"]
STUCK_SECONDS = 600
WARNING = re.compile(r"tidepool: .+\n")


def run(options, action="work", *arguments):
    """The probe under these options; None: the variable is not set at all."""
    environment = {k: v for k, v in os.environ.items() if k != "TIDEPOOL_OPTIONS"}
    environment["LD_PRELOAD"] = LIBRARY
    if options is not None:
        environment["TIDEPOOL_OPTIONS"] = options
    return subprocess.run([PROBE, action, *arguments], env=environment, capture_output=True, text=True, timeout=STUCK_SECONDS)


class Options(unittest.TestCase):
    def assert_quiet(self, options, action="work"):
        result = run(options, action)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "ok\n", ""), options)

    def assert_one_warning(self, options, subject):
        result = run(options)
        self.assertEqual((result.returncode, result.stdout), (0, "ok\n"), options)
        self.assertRegex(result.stderr, WARNING)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(subject, result.stderr)

    def test_none_and_empty_are_quiet(self):
        for options in (None, "", ",", ",,"):
            self.assert_quiet(options)

    def test_good_values_are_quiet(self):
        for options in ("purge_delay_ms=0", "purge_delay_ms=1", "purge_delay_ms=100000", "purge_delay_ms=never",
                        "huge_pages=never", "huge_pages=auto", "huge_pages=always", "stats=none",
                        "checked=0", "checked=1", "checked=all", "guarded=0", "guarded=1", "guarded=all", "checked=1,guarded=1",
                        "guard_sample=0",
                        "guard_sample=1", "guard_sample=5000", "guard_sample=4294967295", "guarded=1,guard_sample=3",
                        "check_at_exit=0", "check_at_exit=1", "blocks=auto", "blocks=own", "blocks=malloc",
                        "abort_on_exhausted=0", "abort_on_exhausted=1",
                        "sites=0", "sites=1", "sites=16", "leaks=none",
                        "leaks=destroy", "leaks=exit,sites=3", "leaks=all",
                        "checked=1,purge_delay_ms=0,huge_pages=always", "stats=none,checked=0"):
            self.assert_quiet(options)

    def test_unknown_keys_are_warned_of_once(self):
        self.assert_one_warning("no_such_key=1", "no_such_key")
        self.assert_one_warning("no_such_key", "no_such_key")
        self.assert_one_warning("checked=0,colour=red,purge_delay_ms=10", "colour")

    def test_bad_values_are_warned_of_once(self):
        for options in ("checked=2", "checked=", "checked", "huge_pages=sometimes", "stats=now", "purge_delay_ms=soon",
                        "purge_delay_ms=-1", "purge_delay_ms=", "purge_delay_ms=99999999999999999999",
                        "abort_on_exhausted=yes"):
            self.assert_one_warning(options, options.split("=")[0])

    def test_a_bad_option_does_not_spoil_the_others(self):
        result = run("nonsense=1,abort_on_exhausted=1", "exhaust")
        self.assertEqual(result.returncode, -signal.SIGABRT)

    def test_long_options_are_survived(self):
        for options in ("x" * 5000, "checked=" + "1" * 5000, "a=1," * 300):
            result = run(options)
            self.assertEqual((result.returncode, result.stdout), (0, "ok\n"))
            for line in result.stderr.splitlines():
                self.assertTrue(line.startswith("tidepool: "), line)

    def test_help_prints_every_key(self):
        result = run("help")
        for key in KEYS:
            self.assertRegex(result.stderr + result.stdout, rf"(?m)^\s*{key}\b")

    def test_stats_at_exit(self):
        result = run("stats=exit")
        self.assertEqual((result.returncode, result.stdout), (0, "ok\n"))
        for figure in ("held", "live"):
            self.assertIn(figure, result.stderr)
        self.assertRegex(result.stderr, r"\d")

    def stats_of(self, text):
        lines = text.splitlines()
        self.assertEqual(len(lines), 1, text)
        stats = json.loads(lines[0])
        self.assertIn("default", [heap["name"] for heap in stats["heaps"]])
        return stats

    def test_stats_of_a_program_that_closes_standard_error(self):
        """As coreutils do at exit. The figures go to what standard error was, and nowhere else."""
        result = run("stats=exit", "close-error")
        self.assertEqual((result.returncode, result.stdout), (0, "ok\n"))
        self.assertGreater(self.stats_of(result.stderr)["pid"], 0)

    def test_stats_go_into_no_other_file(self):
        """The program closes all files, and the number of the kept one is another file's."""
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "other")
            result = run("stats=exit", "reuse-files", other)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            with open(other, encoding="ascii") as file:
                self.assertEqual(file.read(), "")

    def test_stats_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                result = run(f"stats=exit:{folder}/%p.%l.json")
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "ok\n", ""))
            names = sorted(os.listdir(folder))
            self.assertEqual(len(names), 2)
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    stats = self.stats_of(file.read())
                    self.assertEqual(f"{stats['pid']}.{stats['library']}.json", name)

    def test_stats_of_a_thread_that_is_to_be_cancelled(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run(f"stats=exit:{folder}/figures", "cancelled")
            self.assertEqual((result.returncode, result.stdout, result.stderr), (7, "", ""))
            with open(f"{folder}/figures", encoding="utf-8") as file:
                self.stats_of(file.read())

    def test_a_file_that_cannot_be_written_is_said(self):
        for path in ["/nowhere/at/all", "/dev/full"]:
            with self.subTest(path):
                result = run(f"stats=exit:{path}")
                self.assertEqual((result.returncode, result.stdout), (0, "ok\n"))
                self.assertEqual(result.stderr, f"tidepool: {path}: cannot be written; the figures of stats=exit are lost\n")

    def test_exhaustion_ends_the_program_if_asked(self):
        self.assert_quiet("abort_on_exhausted=0", "exhaust")
        result = run("abort_on_exhausted=1", "exhaust")
        self.assertEqual(result.returncode, -signal.SIGABRT)
        self.assertEqual(result.stderr, f"tidepool: malloc({1 << 55}): memory exhausted\n")

    def test_exhaustion_ends_the_program_at_its_first_request(self):
        half = 1 << 63
        for action, call in [("exhaust-at-once", f"malloc({half})"), ("exhaust-aligned", f"aligned_alloc({half})"),
                             ("exhaust-by-product", f"calloc({2 * half - 1})")]:
            with self.subTest(action):
                self.assert_quiet(None, action)
                result = run("abort_on_exhausted=1", action)
                self.assertEqual(result.returncode, -signal.SIGABRT)
                self.assertEqual(result.stderr, f"tidepool: {call}: memory exhausted\n")

    def test_stats_json_may_be_asked_of_a_checked_heap(self):
        result = run("stats=exit,checked=1")
        self.assertEqual((result.returncode, result.stdout), (0, "ok\n"))

    def advised_bytes(self, option):
        result = run(option and f"huge_pages={option}", "huge-pages")
        self.assertEqual(result.returncode, 0, result.stderr)
        return int(result.stdout)

    def test_huge_pages_are_asked_for_as_the_option_says(self):
        """There are 64 MiB of small blocks and four large ones of 8 MiB."""
        if not os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"):
            self.skipTest("this system has no transparent huge pages")
        never, auto, always, default = map(self.advised_bytes, ("never", "auto", "always", None))
        if never == 2**64 - 1:
            self.skipTest("this system does not tell what it was asked for")
        self.assertEqual(never, 0)
        # All of the 64 MiB behind the first 8, or none if the system grants none, and a few above for small blocks.
        self.assertTrue(auto == 0 or 64 << 20 <= auto <= 80 << 20, auto)
        self.assertEqual(auto, default)
        self.assertGreaterEqual(always, 96 << 20)

    def test_purged_memory_leaves_the_process(self):
        for options in (None, "purge_delay_ms=0", "purge_delay_ms=50"):
            self.assert_quiet(options, "purge")

    def test_never_purging_keeps_the_memory(self):
        self.assert_quiet("purge_delay_ms=never", "keep")


unittest.main(argv=sys.argv[:1] + ["-v"])
