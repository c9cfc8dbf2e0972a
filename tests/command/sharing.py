# SPDX-License-Identifier: MIT
"""The command, a program that shares its figures, and what tests ask of it."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

SECONDS = 600
NOT_SHARED = "it does not share its figures (yet): start it by tidepool run -o export=1 PROGRAM"


@pytest.fixture(name="tidepool")
def fixture_tidepool(request):
    program = os.path.abspath(request.config.getoption("--tidepool"))

    def tidepool(*arguments, check=True, **more):
        return subprocess.run([program, *map(str, arguments)], capture_output=True, encoding="utf-8", timeout=SECONDS,
                              check=check, **more)
    tidepool.program = program
    return tidepool


class Shares:
    """A program that does what it is told."""

    def __init__(self, arguments, options="export=1", **more):
        self.process = subprocess.Popen(arguments, env={**os.environ, "TIDEPOOL_OPTIONS": options}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1, **more)
        self.pid, self.child = self.process.pid, 0
        self.do("heap first 1 64")   # with the first use of the library it begins to share

    def do(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline()
        while answer not in ("done\n", ""):
            if answer.startswith("child "):
                self.child = int(answer.split()[1])
            answer = self.process.stdout.readline()
        return answer

    def end(self):
        self.process.stdin.close()
        return self.process.wait(SECONDS)

    def halt(self):
        """Stops all of its threads, and not only soon."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.pid}/task")
        wait_for(lambda: all(") T" in task.read_text() for task in tasks.glob("*/stat")), "stopped")

    def stop(self):
        self.process.kill()
        self.process.wait(SECONDS)


@pytest.fixture(name="shares")
def fixture_shares(request):
    program = os.path.abspath(request.config.getoption("--shares"))
    with contextlib.ExitStack() as stack:
        def shares(options="export=1", **more):
            started = Shares([program], options, **more)

            stack.callback(started.stop)
            return started
        yield shares


def figures(tidepool, pid):
    return json.loads(tidepool("report", "--json", pid).stdout)[0]


def heap_of(answer, name):
    return next(heap for heap in answer["heaps"] if heap["name"] == name)


def descriptors_of(pid):
    """The numbers by which a process has its figures open."""
    folder = pathlib.Path(f"/proc/{pid}/fd")
    return [entry.name for entry in folder.iterdir() if os.readlink(entry).startswith("/memfd:tidepool figures")]


def wait_for(true, what):
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


PART = 64 << 10


@pytest.fixture(name="record")
def fixture_record(request, tmp_path):
    """The words that record a program, to a file in the test's folder."""
    program, library = (os.path.abspath(request.config.getoption(name)) for name in ("--tidepool", "--library"))

    def record(*words, file=tmp_path / "recording"):
        return [program, "record", "--library", library, "--frames", "0", "-o", file, *words]
    return record


def check_of(tidepool, file):
    return json.loads(tidepool("replay", "--check", "--json", file).stdout)


def events_of(tidepool, file):
    return check_of(tidepool, file)["events"]
