# SPDX-License-Identifier: MIT
"""tidepool top: what changes, on a screen and in tables."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

# pylint: disable-next=unused-import
from sharing import SECONDS, figures, fixture_shares, fixture_tidepool, wait_for


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
    assert first.split() == ["process", "held", "a", "second", "live", "blocks", "heaps", "obj.", "pools", "exhausted"]
    while not (line := top.stdout.readline()).split()[:1] == [str(running.pid)]:
        assert line
    running.do("heap new 10000 4096")
    rest = top.communicate(timeout=SECONDS)[0]
    grown = next(line for line in rest.splitlines() if line.split()[:1] == [str(running.pid)])
    # 39 MiB in about two seconds
    rate = re.search(r"\+ ?([\d.]+) MiB", grown)
    assert rate and 2 < float(rate[1]) < 40, grown


def test_top_ends_with_the_process(tidepool, shares):
    running = shares()
    top = subprocess.Popen([tidepool.program, "top", "-d", "0.1", str(running.pid)], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    assert top.stdout.readline()
    running.end()
    said = top.communicate(timeout=SECONDS)[1]
    assert top.returncode == 1 and re.fullmatch(rf"tidepool: top: process {running.pid}: .*\n", said)


def test_top_goes_on_with_one_that_paused(tidepool, shares, tmp_path):
    running = shares()
    running.do("heaps many 3000")
    with open(tmp_path / "tables", "w+", encoding="utf-8") as tables:
        top = subprocess.Popen([tidepool.program, "top", "-d", "0.4", "-n", "10", str(running.pid)], stdout=tables)
        wait_for(lambda: (tmp_path / "tables").stat().st_size, "a table")
        running.halt()
        wait_for(lambda: "does not answer" in (tmp_path / "tables").read_text(encoding="utf-8"), "old figures")
        running.process.send_signal(signal.SIGCONT)
        assert top.wait(SECONDS) == 0
        tables.seek(0)
        titles = [line for line in tables if line.startswith("process ")]
    assert len(titles) == 10 and "answer" not in titles[-1]


def test_heaps_of_one_name_have_no_rate(tidepool, shares):
    running = shares()
    running.do("heap session 10 1000")
    top = subprocess.Popen([tidepool.program, "top", "-d", "1", "-n", "2", str(running.pid)], stdout=subprocess.PIPE, text=True)
    while not top.stdout.readline().startswith("session"):
        pass
    running.do("heap session 10000 1000")
    second = top.communicate(timeout=SECONDS)[0]
    second = second[second.index("process "):]
    assert all("MiB" not in line[46:60] for line in second.splitlines() if line.startswith("session "))


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
        assert b"aaa" in first and b"default" in first and b"exhausted" not in first   # that is beyond the edge
        os.write(screen, b"\x1bOC" * 8)
        read_until(screen, b"exhausted", deadline)
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
    assert done.returncode == 2 and not done.stdout and done.stderr.startswith("tidepool top: ")
