# SPDX-License-Identifier: MIT
"""What the program says that measures one run of another."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import made_up

MEASURE = sys.argv.pop()
MIB = 1 << 20
HOLD = "block = bytearray(64 << 20); import time; time.sleep(.3)"
# Holds it four times as long as it took to get there, however slow the machine is.
HOLD_LONG = ("import sys, time; block = bytearray(64 << 20); "
             "time.sleep(max(.1, 4 * (time.monotonic() - float(sys.argv[1]))))")


class Measure(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name, "figures")

    def figures(self, *command, status=0, **options):
        done = subprocess.run([MEASURE, self.file, "", *command], capture_output=True, text=True, timeout=600, check=False,
                              **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return [float(word) for word in self.file.read_text().split()]

    def test_time_faults_and_memory(self):
        clock, user, system, faults, peak, mean = self.figures(sys.executable, "-c", HOLD)
        self.assertTrue(0.3 <= clock and 0 < user + system and faults > 100, (clock, user, system, faults))
        self.assertTrue(64 * MIB < peak < 1024 * MIB and 0 < mean <= peak, (peak, mean))

    @unittest.skipUnless(os.path.exists(f"/proc/self/task/{os.getpid()}/children"), "this kernel does not list children")
    def test_memory_of_what_it_starts_counts_whichever_thread_started_it(self):
        child = ("import subprocess, sys, time\n"
                 f"run = lambda: subprocess.run([sys.executable, '-c', {HOLD_LONG!r}, str(time.monotonic())])\n")
        thread = child + "import threading; t = threading.Thread(target=run); t.start(); t.join()"
        for text in child + "run()", thread:
            mean, peak = self.figures(sys.executable, "-c", text)[:3:-1]
            self.assertGreater(mean, 24 * MIB)
            self.assertGreater(peak, 64 * MIB)

    def test_a_program_that_ends_at_once_has_figures_too(self):
        for _ in range(20):
            mean, peak = self.figures("/bin/true")[:3:-1]
            self.assertTrue(0 <= mean <= 2 * peak, (mean, peak))   # not NaN

    def test_memory_may_be_touched_by_another_process_first(self):
        def run(*given):
            return subprocess.run([MEASURE, "--warm", *given], capture_output=True, text=True, timeout=600, check=False)
        done = run("40", self.file, "", sys.executable, "-c", HOLD)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        touched = [float(word) for word in self.file.read_text().split()]
        self.assertTrue(64 * MIB < touched[4] < 1024 * MIB and touched[3] > 100, touched)   # the program's own
        for mib in "0", "-1", "1x", "99999999999999":
            done = run(mib, self.file, "", "/bin/true")
            self.assertEqual((done.returncode, done.stderr), (1, f"measure: --warm: cannot touch {mib} MiB\n"))
        self.assertEqual(run("40").returncode, 2)

    def test_a_program_that_is_started_often_has_the_means_of_its_runs(self):
        def run(times, *command):
            return subprocess.run([MEASURE, "--times", times, self.file, "", *command], capture_output=True, text=True,
                                  timeout=600, check=False)
        runs = self.file.with_name("runs")
        self.assertEqual(run("12", "/bin/sh", "-c", f"echo >>{runs}").returncode, 0)
        self.assertEqual(runs.read_text(), 12 * "\n")
        means = [float(word) for word in self.file.read_text().split()]
        once = self.figures("/bin/sh", "-c", f"echo >>{runs}")
        self.assertTrue(once[3] / 2 < means[3] < 2 * once[3], (once, means))
        self.assertTrue(0 < means[5] <= 2 * means[4], means)
        self.assertEqual(run("12", "/bin/sh", "-c", f"echo >>{runs}; exit 3").returncode, 3)
        self.assertEqual(len(runs.read_text()), 14)   # the first that fails is the last, and the only one that counts
        self.assertGreater(float(self.file.read_text().split()[3]), once[3] / 2)
        # The times of one of twelve runs are less than those of a run that does the same four times.
        work = "import time; time.sleep(.1); sum(range(4000000));"
        self.assertEqual(run("12", sys.executable, "-c", work).returncode, 0)
        clock, user, system = [float(word) for word in self.file.read_text().split()][:3]
        whole = self.figures(sys.executable, "-c", 4 * work)
        self.assertTrue(.1 < clock < whole[0] and user + system < whole[1] + whole[2], (clock, user, system, whole))
        for times in "0", "-1", "x", "2x":
            self.assertEqual(run(times, "/bin/true").returncode, 2)

    def test_the_status_is_the_program_s(self):
        self.figures("/bin/sh", "-c", "exit 3", status=3)
        self.figures("/bin/sh", "-c", "exit 3", status=3,
                     preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.figures("/bin/sh", "-c", "kill -9 $$", status=1)
        self.figures("/no/such/program", status=127)

    def test_the_program_ends_with_it(self):
        started = self.file.with_name("started")
        script = f"echo $$ >{started}.new; mv {started}.new {started}; exec sleep 1000"
        command = [MEASURE, self.file, "", "/bin/sh", "-c", script]
        with subprocess.Popen(command) as process:
            while not started.exists():
                time.sleep(0.01)
            process.kill()
        self.assertTrue(made_up.ends(int(started.read_text())))


unittest.main()
