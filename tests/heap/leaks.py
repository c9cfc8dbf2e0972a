# SPDX-License-Identifier: MIT
"""What the options `leaks` and `sites` have the manager say of programs that leak, or seem to (leaking.c).

usage: leaks.py PROGRAM [LIBRARY [CASE...]]   LIBRARY is preloaded, and the program has the names of malloc; "static": it is
                                              linked"""

import concurrent.futures
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

PROGRAM, LIBRARY = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
STUCK_SECONDS = 600
NAME = os.path.basename(PROGRAM)
LARGE = 5 << 20 if pathlib.Path(PROGRAM).read_bytes()[4] == 2 else 300 << 10   # by the class of the ELF file
# A block that another library has, or a buffer of the C library, may be counted beside those that are lost.
MORE = r"(; [\d,]+ blocks?, [\d,]+ bytes? more can be reached)?\n"
OTHER_THREAD = r"tidepool: leaks: 1 other thread was running, whose registers were not searched\n"


def has_tool():
    try:
        return subprocess.run(["addr2line", "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def knows_mappings():
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as mappings:
            return any(line.startswith("VmFlags:") for line in mappings)
    except OSError:
        return False


def is_sanitized():
    program = pathlib.Path(PROGRAM).read_bytes()
    return any(name in program for name in (b"__asan_init", b"__tsan_init", b"__msan_init", b"__hwasan_init"))


WHERE = r"leaking(?:_heaps)?\.c:\d+" if has_tool() else re.escape(NAME)


def place(function):
    return rf"{function}\+0x[0-9a-f]+ \({WHERE}\)"


def said(case, options, **variables):
    environment = {**os.environ, "TIDEPOOL_OPTIONS": options, **variables}
    if LIBRARY and LIBRARY != "static":
        environment["LD_PRELOAD"] = LIBRARY
    # A pointer of which the lower half was overwritten by 0 leads into a long block that lies across 4 GiB: one in 1,300 does.
    for _ in range(3 if case == "lose-large" else 1):
        done = subprocess.run([PROGRAM, case], env=environment, capture_output=True, text=True, timeout=STUCK_SECONDS,
                              check=True)
        assert done.stdout == "a buffer of the C library\n"
        if done.stderr:
            break
    return done.stderr


class Case(unittest.TestCase):
    def assert_says(self, case, line, options="leaks=exit"):
        self.assertRegex(said(case, options), rf"\A(?:{line})\Z")

    def assert_quiet(self, case, options="leaks=exit"):
        self.assertEqual(said(case, options), "", case)


class Leaks(Case):
    def test_what_frees_all_says_nothing(self):
        for options in ("leaks=exit", "leaks=all", "leaks=exit,sites=8", "leaks=exit,checked=1", "leaks=destroy"):
            self.assert_quiet("nothing", options)

    def test_what_is_reached_says_nothing(self):
        for case in ("keep", "keep-inside", "keep-in-thread", "keep-in-a-mapping", "keep-in-malloc", "keep-a-list",
                     "keep-in-what-was-made-read-only", "keep-in-shared-memory", "keep-in-what-a-child-shares",
                     "keep-in-a-long-block"):
            with self.subTest(case):
                self.assert_quiet(case)
                self.assert_quiet(case, "leaks=exit,profile=/dev/null,sample_bytes=1")

    def test_exit_on_a_stack_in_static_data(self):
        self.assert_quiet("keep-below-a-thread")
        if not is_sanitized():  # which says that it does not know of contexts
            self.assert_quiet("keep-below-a-context")

    def test_what_threads_free_meanwhile(self):
        # One block may be in a register alone.
        in_hand = rf"(tidepool: the default heap ended with 1 block, 100 bytes lost: 1 from {place('take_and_give')}{MORE}" \
                  rf"{OTHER_THREAD})?"
        for _ in range(12):
            self.assert_says("keep-beside-a-thread", in_hand)

    def test_pages_that_nobody_touched_are_not_read(self):
        faults = []
        for case in ("keep", "keep-in-a-long-block"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            self.assert_quiet(case)
            faults.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before)
        pages = (1 << 30) // resource.getpagesize()
        self.assertLess(faults[1], faults[0] + pages // 4)

    def test_without_the_option(self):
        for options in ("", "leaks=none", "leaks=destroy", "sites=1", "checked=1"):
            self.assert_quiet("lose", options)

    LOST = (rf"tidepool: the default heap ended with 4 blocks, 3,100 bytes lost: 3 \(3,000 bytes\) from {place('take')}, "
            rf"1 \(100 bytes\) from {place('take_second')}{MORE}")

    def test_lost(self):
        for options in ("leaks=exit", "leaks=all", "leaks=exit,sites=1", "checked=1,leaks=exit", "sites=0,leaks=exit",
                        "guarded=1,leaks=exit", "leaks=exit,guard_sample=1", "leaks=exit,profile=/dev/null,sample_bytes=1",
                        "leaks=exit,profile=/dev/null,sample_bytes=100"):
            self.assert_says("lose", self.LOST, options)

    def test_lost_large(self):
        for options in ("leaks=exit", "leaks=exit,profile=/dev/null,sample_bytes=1"):
            self.assert_says("lose-large", rf"tidepool: the default heap ended with 1 block, {LARGE:,} bytes lost: "
                                           rf"1 from {place('take')}{MORE}", options)

    def test_a_long_mapping(self):
        if not is_sanitized():
            self.assert_quiet("keep-in-long-mapping")
        elif knows_mappings():
            self.assert_says("keep-in-long-mapping",
                             rf"tidepool: the default heap ended with 1 block, 1,000 bytes lost: "
                             rf"1 from {place('take')}{MORE}")

    def test_what_leads_to_itself_is_lost(self):
        self.assert_says("lose-a-ring", rf"tidepool: the default heap ended with 2 blocks, 128 bytes lost: "
                                        rf"2 from {place('take')}{MORE}")

    def test_what_is_not_searched_is_said(self):
        self.assert_says("lose-beside-a-thread", self.LOST + OTHER_THREAD)

    def test_all_that_is_not_searched_is_said(self):
        both = OTHER_THREAD.replace("leaks: ", "leaks: some memory of the process could not be read; ")
        self.assert_says("lose-beside-what-is-hidden", self.LOST + both)

    def test_who_waits_for_all_children(self):
        self.assert_says("lose-beside-a-handler", self.LOST)

    def test_closed_standard_error(self):
        self.assert_says("lose-without-standard-error", self.LOST)

    def test_no_more_than_some(self):
        some = ", ".join(rf"1 \({(n + 1) * 100:,} bytes\) from {place(f'place_{n}')}" for n in range(9, 1, -1))
        self.assert_says("lose-in-many-places", rf"tidepool: the default heap ended with 10 blocks, 5,500 bytes lost: {some}, "
                                                rf"2 \(300 bytes\) from 2 other places{MORE}")

    def test_stacks(self):
        line = said("lose-large", "leaks=exit,sites=3")
        if " < " not in line:
            self.skipTest("no unwinder")
        self.assertRegex(line, rf"lost: 1 from {place('take')} < {place('lose_large')} < {place('main')}")


@unittest.skipIf(LIBRARY, "malloc has one heap")
class Heaps(Case):
    OPENED = rf"10 from {place('open_session')}"

    def test_destroyed(self):
        line = f'tidepool: heap "sessions" ended with 10 blocks, 10,080 bytes live: {self.OPENED}\n'
        for options in ("leaks=destroy", "leaks=all", "leaks=all,checked=1"):
            self.assert_says("destroy-full", line, options)
        self.assert_quiet("destroy-full", "leaks=exit")
        self.assert_quiet("destroy-empty", "leaks=all")

    def test_destroyed_object_pools(self):
        created = rf", created by pool_with\+0x[0-9a-f]+ \({re.escape(NAME)}\)\n"
        for options in ("leaks=destroy", "leaks=all", "leaks=all,checked=all"):
            self.assert_says("destroy-pool-in-use", f'tidepool: pool "jobs" ended with 3 objects of 56 bytes live{created}',
                             options)
        self.assert_says("destroy-pool-with-one", f'tidepool: pool "jobs" ended with 1 object of 56 bytes live{created}',
                         "leaks=destroy")
        self.assert_quiet("destroy-pool-in-use", "leaks=exit")
        self.assert_quiet("destroy-pool-unused", "leaks=all")

    def test_destroyed_without_standard_error(self):
        environment = {**os.environ, "TIDEPOOL_OPTIONS": "leaks=destroy"}
        subprocess.run(["sh", "-c", '"$0" destroy-beside-a-file 2>&-', PROGRAM], env=environment, stdout=subprocess.DEVNULL,
                       timeout=STUCK_SECONDS, check=True)

    def test_live_at_exit(self):
        self.assert_says("lose-of-a-heap", f'tidepool: heap "sessions" ended with 10 blocks, 10,080 bytes lost: {self.OPENED}; '
                                           "1 block, 24 bytes more can be reached\n")
        self.assert_says("keep-of-a-heap", 'tidepool: heap "sessions" ended with 1 block, 24 bytes live, '
                                           "all of which can be reached\n")
        self.assert_quiet("lose-of-a-heap", "leaks=destroy")

    def test_in_memory_of_a_caller(self):
        line = f'tidepool: heap "sessions" ended with 10 blocks, 10,080 bytes lost'
        self.assert_says("lose-of-a-guest", f"{line}: {self.OPENED}\n")
        self.assert_says("lose-of-a-plain-guest", f"{line}\n")


@unittest.skipIf(LIBRARY, "the heaps are the library's")
class Tool(unittest.TestCase):
    """What is in the place of addr2line."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def said_with(self, case, script, folder="tools"):
        tool = self.folder / folder / "addr2line"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        tool.chmod(0o755)
        return said(case, "leaks=exit", PATH=f"{tool.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}")

    def test_it_runs_once(self):
        runs = self.folder / "runs"
        lines = self.said_with("lose-of-many-heaps", f"echo run >> {runs}; shift 2; for i; do echo /a/b.c:12; done")
        self.assertEqual(len(re.findall(r"ended with 10 blocks.* \(b\.c:12\)\n", lines)), 100, lines)
        self.assertEqual(runs.read_text(encoding="utf-8"), "run\n")

    def test_no_end_of_a_line(self):
        """Whether more of it comes or not: the library waits for ten seconds in all, here for both at once."""
        scripts = {"half": "printf /a/b.c:1; exec sleep 40", "endless": "while printf /a/b.c:1; do sleep 0.01; done"}
        with concurrent.futures.ThreadPoolExecutor() as both:
            lines = {name: both.submit(self.said_with, "lose-large", script, name) for name, script in scripts.items()}
        for name, line in lines.items():
            with self.subTest(name):
                self.assertRegex(line.result(), rf"take\+0x[0-9a-f]+ \({re.escape(NAME)}\)")


if __name__ == "__main__":
    if os.environ.get("EMULATED"):
        print("skipped: the memory of an emulated process cannot be searched")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
