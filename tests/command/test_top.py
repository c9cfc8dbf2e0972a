# SPDX-License-Identifier: MIT
"""tidepool report PID and tidepool top: the figures of processes that go on, and of those that stopped, ended, forked, became
another program, or share nothing."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time

import pytest

SECONDS = 60
SHARED = pathlib.Path("/dev/shm")

pytestmark = pytest.mark.skipif(not os.access(SHARED, os.W_OK), reason="there is no /dev/shm to write to")


@pytest.fixture(name="tidepool")
def fixture_tidepool(request):
    program = os.path.abspath(request.config.getoption("--tidepool"))

    def tidepool(*arguments, check=True):
        return subprocess.run([program, *map(str, arguments)], capture_output=True, encoding="utf-8", timeout=SECONDS,
                              check=check)
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

    def stop(self):
        """What it has left behind goes too: it may have been killed."""
        self.process.kill()
        self.process.wait(SECONDS)
        for pid in (self.pid, self.child):
            for file in files_of(pid):
                file.unlink()


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


def files_of(pid):
    return list(SHARED.glob(f"tidepool.{pid}.*"))


def test_a_report_of_a_process(tidepool, shares):
    running = shares()
    running.do("heap sessions 100 64")
    running.do("objects messages 0 48")
    answer = figures(tidepool, running.pid)
    assert answer["pid"] == running.pid
    assert heap_of(answer, "sessions")["live_blocks"] == 100 and heap_of(answer, "sessions")["live_bytes"] == 6400
    assert heap_of(answer, "sessions")["budget"] == 64 << 20
    assert [pool["live"] for pool in answer["object_pools"]] == [1]
    running.do("heap later 7 64")
    assert heap_of(figures(tidepool, running.pid), "later")["live_blocks"] == 7
    assert f"process {running.pid}" in tidepool("report", running.pid).stdout
    assert f'tidepool_heap_live_blocks{{pid="{running.pid}",heap="later"}} 7' in tidepool("report", "--prometheus",
                                                                                            running.pid).stdout
    assert running.end() == 0 and not files_of(running.pid)


def test_a_preloaded_program(tidepool, request):
    library = os.path.abspath(request.config.getoption("--library"))
    running = subprocess.Popen([tidepool.program, "run", "--library", library, "-o", "export=1", sys.executable, "-c",
                                "blocks = [bytes(1000) for _ in range(20000)]; print(1, flush=True); input()"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    running.stdout.readline()
    assert heap_of(figures(tidepool, running.pid), "default")["live_bytes"] > 20_000_000
    threads = pathlib.Path(f"/proc/{running.pid}/task").glob("*/comm")
    assert "tidepool\n" in [comm.read_text() for comm in threads]
    running.communicate(b"\n")
    assert running.returncode == 0 and not files_of(running.pid)


def test_nothing_is_shared_unasked(tidepool, shares):
    running = shares("export=0")
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and not done.stdout
    why = "it does not share its figures: it is not run with export=1"
    assert done.stderr == f"tidepool: report: process {running.pid}: {why}\n"
    assert not files_of(running.pid)
    assert f" {running.pid} " not in tidepool("top", "-n", 1).stdout
    nobody = 2 ** 31 - 1
    assert tidepool("top", nobody, check=False).stderr == f"tidepool: top: process {nobody}: there is no such process\n"
    assert tidepool("report", 2 ** 31, check=False).returncode == 125   # a file that is not there


def test_more_figures_than_fit_in_a_page(tidepool, shares):
    running = shares()
    running.do("heaps many 3000")
    answer = figures(tidepool, running.pid)
    assert sum(heap["name"] == "many" for heap in answer["heaps"]) == 3000
    assert len(figures(tidepool, running.pid)["heaps"]) == len(answer["heaps"])


def test_heaps_come_and_go_while_many_ask(tidepool, shares):
    running = shares()
    running.do("churn")
    running.do("churn")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: figures(tidepool, running.pid), range(60)))
    assert all(heap_of(answer, "default") for answer in answers)


def test_top_says_what_changes(tidepool, shares):
    running = shares()
    running.do("heap small 10 64")
    running.do("heap large 1000 4096")
    top = subprocess.Popen([tidepool.program, "top", "-d", "2", "-n", "2", str(running.pid)], stdout=subprocess.PIPE, text=True)
    head = [top.stdout.readline() for _ in range(3)]
    assert head[0].startswith(f"process {running.pid}, ") and "a second" in head[1] and head[2].startswith("large ")
    running.do("heap new 2000 4096")
    rest = top.communicate(timeout=SECONDS)[0]
    assert top.returncode == 0
    second = rest[rest.index("process "):].splitlines()
    assert second[2].startswith("new ")
    named = tidepool("top", "-n", 1, "-s", "name", running.pid).stdout.splitlines()[2:]
    names = [line.split()[0] for line in named]
    assert names == sorted(names) and len(names) == 5


def test_top_adds_up_what_grows(tidepool, shares):
    running = shares()
    top = subprocess.Popen([tidepool.program, "top", "-d", "2", "-n", "2"], stdout=subprocess.PIPE, text=True)
    first = top.stdout.readline()
    assert first.split() == ["process", "held", "a", "second", "live", "blocks", "heaps", "obj.", "pools", "refused"]
    while not (line := top.stdout.readline()).split()[:1] == [str(running.pid)]:
        assert line
    running.do("heap new 10000 4096")
    rest = top.communicate(timeout=SECONDS)[0]
    grown = next(line for line in rest.splitlines() if line.split()[:1] == [str(running.pid)])
    # 39 MiB in about two seconds
    rate = re.search(r"\+ ?([\d.]+) MiB", grown)
    assert rate and 2 < float(rate[1]) < 40, grown


def test_one_that_is_stopped_has_old_figures(tidepool, shares):
    running = shares()
    running.do("heap sessions 5 64")
    tidepool("report", running.pid)
    running.process.send_signal(signal.SIGSTOP)
    time.sleep(1.1)
    done = tidepool("report", "--json", running.pid)
    assert re.fullmatch(rf"tidepool: report: process {running.pid} does not answer; its figures are \d+ s old\n", done.stderr)
    assert heap_of(json.loads(done.stdout)[0], "sessions")["live_blocks"] == 5
    assert "does not answer" in tidepool("top", "-n", 1, running.pid).stdout
    assert re.search(rf"^ +{running.pid} .* s old$", tidepool("top", "-n", 1).stdout, re.M)
    running.process.send_signal(signal.SIGCONT)
    assert not tidepool("report", running.pid).stderr


def test_one_that_never_answered(tidepool, shares):
    running = shares()
    running.process.send_signal(signal.SIGSTOP)
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and "does not answer, and never did" in done.stderr


def test_what_a_killed_process_left_is_removed(tidepool, shares):
    running = shares()
    assert files_of(running.pid)
    running.process.kill()
    running.process.wait()
    assert files_of(running.pid)
    assert "there is no such process" in tidepool("report", running.pid, check=False).stderr
    tidepool("top", "-n", 1)
    assert not files_of(running.pid)


def test_top_ends_with_the_process(tidepool, shares):
    running = shares()
    top = subprocess.Popen([tidepool.program, "top", "-d", "0.1", str(running.pid)], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    assert top.stdout.readline()
    running.end()
    said = top.communicate(timeout=SECONDS)[1]
    assert top.returncode == 1 and re.fullmatch(rf"tidepool: top: process {running.pid}: .*\n", said)


def test_another_program_in_its_place(tidepool, shares):
    running = shares()
    running.process.stdin.write("exec\n")
    deadline = time.monotonic() + SECONDS
    while b"sleep" not in pathlib.Path(f"/proc/{running.pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and "another program now" in done.stderr
    tidepool("top", "-n", 1)
    assert not files_of(running.pid)


def test_the_same_program_in_its_place(tidepool, shares):
    running = shares()
    running.do("heap before 5 64")
    running.process.stdin.write("again\n")
    running.do("heap after 6 64")
    names = [heap["name"] for heap in figures(tidepool, running.pid)["heaps"]]
    assert "after" in names and "before" not in names


def test_a_child_has_figures_of_its_own(tidepool, shares):
    running = shares()
    running.do("heap both 3 64")
    running.do("fork")
    running.do("heap child 4 64")
    names = [heap["name"] for heap in figures(tidepool, running.child)["heaps"]]
    assert "child" in names and "both" in names
    assert "child" not in [heap["name"] for heap in figures(tidepool, running.pid)["heaps"]]
    assert running.end() == 0 and not files_of(running.child) and not files_of(running.pid)


def test_a_child_of_threads_shares_nothing(tidepool, shares):
    running = shares()
    running.do("thread")
    running.do("fork")
    assert "does not share" in tidepool("report", running.child, check=False).stderr
    assert figures(tidepool, running.pid)
    assert running.end() == 0 and not files_of(running.pid)


def test_one_that_may_write_nothing(shares):
    """The program goes on without, and says so once."""
    running = shares(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    running.do("heap sessions 5 64")
    assert not files_of(running.pid)
    assert running.end() == 0
    said = running.process.stderr.read()
    assert re.fullmatch(rf"tidepool: /dev/shm/tidepool\.{running.pid}\.\d+: cannot be made; export=1 is off\n", said)


@pytest.mark.parametrize("damage, why", [(lambda page: page[:100], "no figures"),
                                         (lambda page: b"x" * 8 + page[8:], "no figures"),
                                         (lambda page: page[:8] + b"\7" + page[9:], "of another version")])
def test_a_page_that_is_none(tidepool, shares, damage, why):
    running = shares()
    file = files_of(running.pid)[0]
    running.process.send_signal(signal.SIGSTOP)   # it would not survive to look there
    page = file.read_bytes()
    with open(file, "r+b") as shared:
        changed = damage(page)
        shared.write(changed)
        shared.truncate(len(changed))
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and why in done.stderr


def read_until(screen, text, deadline):
    """What the terminal was sent until `text` is in it."""
    seen = b""
    while text not in seen and time.monotonic() < deadline:
        if select.select([screen], [], [], 1)[0]:
            seen += os.read(screen, 65536)
    assert text in seen, seen
    return seen


def test_the_screen(tidepool, shares):
    running = shares()
    for name in ("aaa", "bbb"):
        running.do(f"heap {name} 50 64")
    child, screen = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(tidepool.program, [tidepool.program, "top", "-d", "0.2", str(running.pid)])
    deadline = time.monotonic() + SECONDS
    try:
        first = read_until(screen, b"sorted by held", deadline)
        assert b"aaa" in first and b"default" in first and b"refused" not in first   # that is beyond the edge
        os.write(screen, b"\x1bOC" * 8)
        read_until(screen, b"refused", deadline)
        os.write(screen, b"n")
        read_until(screen, b"name", deadline)
        os.write(screen, b"\x1bOB\x1bOA\x1bOD\x1b[6~\x1b[5~q")
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if select.select([screen], [], [], 0.1)[0]:
                    os.read(screen, 65536)
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
        assert pid == child and os.waitstatus_to_exitcode(status) == 0
    finally:
        os.close(screen)


@pytest.mark.parametrize("arguments", [("-d", "0"), ("-d", "x"), ("-n", "0"), ("-n", "1x"), ("-s", "size"), ("x",), ("1", "2"),
                                       ("-1",), ("--none",)])
def test_wrong_arguments(tidepool, arguments):
    done = tidepool("top", *arguments, check=False)
    assert done.returncode == 125 and not done.stdout and done.stderr.startswith("tidepool top: ")
