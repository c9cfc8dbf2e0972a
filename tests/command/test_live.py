# SPDX-License-Identifier: MIT
"""tidepool report PID: the figures of processes that go on, and of those that stopped, ended, forked, became another program,
or share nothing."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

# pylint: disable-next=unused-import
from sharing import NOT_SHARED, SECONDS, Shares, descriptors_of, figures, fixture_shares, fixture_tidepool, heap_of, wait_for


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
    assert running.end() == 0


def test_a_preloaded_program(tidepool):
    running = subprocess.Popen([tidepool.program, "run", "-o", "export=1", sys.executable, "-c",
                                "blocks = [bytes(1000) for _ in range(20000)]; print(1, flush=True); input()"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    running.stdout.readline()
    assert heap_of(figures(tidepool, running.pid), "default")["live_bytes"] > 20_000_000
    threads = pathlib.Path(f"/proc/{running.pid}/task").glob("*/comm")
    assert "tidepool export\n" in [comm.read_text() for comm in threads]
    running.communicate(b"\n")
    assert running.returncode == 0


@pytest.fixture(name="both")
def fixture_both(tidepool, request):
    """A program with two libraries."""
    program = os.path.abspath(request.config.getoption("--shares"))
    with contextlib.ExitStack() as stack:
        def both(*options):
            started = Shares([tidepool.program, "run", *options, program])
            stack.callback(started.stop)
            return started
        yield both


BOTH = ["libtidepool", "libtidepool-malloc"]


def test_a_program_with_two_libraries(tidepool, both, tmp_path):
    running = both("--stats", tmp_path / "stats")
    running.do("heap sessions 100 64")
    answer = figures(tidepool, running.pid)
    assert sorted(answer["libraries"]) == BOTH
    assert heap_of(answer, "sessions")["live_bytes"] == 6400 and heap_of(answer, "malloc")["held_bytes"] > 0
    for text in (tidepool("report", running.pid).stdout, tidepool("top", "-n", 1, running.pid).stdout):
        names = [line.split()[0] for line in text.splitlines() if line]
        assert names.count("default") <= 1 and {"malloc", "sessions"} <= set(names)
    row = next(line for line in tidepool("top", "-n", 1).stdout.splitlines() if f" {running.pid} " in line)
    assert int(row.split()[-3]) == len(answer["heaps"])
    assert "has two libraries" in tidepool("map", running.pid).stderr
    assert running.end() == 0
    left = json.loads(tidepool("report", "--json", tmp_path / "stats").stdout)
    assert [sorted(line["libraries"]) for line in left] == [BOTH]


def test_two_libraries_of_a_child_and_of_the_last_thread(tidepool, both):
    running = both()
    running.do("fork")
    running.do("heap child 4 64")
    running.do("work")
    assert heap_of(figures(tidepool, running.child), "child")["live_blocks"] == 4
    running.process.stdin.write("last\n")   # the libraries have a thread each then, and see that they are alone
    assert running.process.wait(SECONDS) == 0


def test_two_libraries_know_each_other_at_exit(both):
    running = both("-o", "leaks=exit")
    running.do("heap sessions 100 64")
    running.do("lose")
    assert running.end() == 0
    said = running.process.stderr.read()   # of the malloc library first, while the other one's thread is there
    assert "the default heap ended with 1 block, 12,345 bytes lost" in said
    assert "other thread" not in said


def test_two_libraries_of_which_neither_answers(tidepool, both):
    running = both()
    assert sorted(figures(tidepool, running.pid)["libraries"]) == BOTH
    running.halt()
    began = time.monotonic()
    done = tidepool("report", "--json", running.pid)
    assert "does not answer" in done.stderr and sorted(json.loads(done.stdout)[0]["libraries"]) == BOTH
    assert time.monotonic() - began < 20   # two seconds, for both together


def test_nothing_is_shared_unasked(tidepool, shares):
    running = shares("export=0")
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr == f"tidepool: report: process {running.pid}: {NOT_SHARED}\n"
    assert not descriptors_of(running.pid)
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


def test_one_that_is_stopped_has_old_figures(tidepool, shares):
    running = shares()
    running.do("heap sessions 5 64")
    tidepool("report", running.pid)
    running.halt()
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
    running.halt()
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and "does not answer, and never did" in done.stderr


def test_another_program_in_its_place(tidepool, shares):
    running = shares()
    running.process.stdin.write("exec\n")
    wait_for(lambda: b"sleep" in pathlib.Path(f"/proc/{running.pid}/cmdline").read_bytes(), "another program")
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and NOT_SHARED in done.stderr


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
    assert not descriptors_of(running.child)   # it may be about to become another program
    running.do("heap child 4 64")
    running.do("work")
    names = [heap["name"] for heap in figures(tidepool, running.child)["heaps"]]
    assert "child" in names and "both" in names
    assert "child" not in [heap["name"] for heap in figures(tidepool, running.pid)["heaps"]]
    assert running.end() == 0


def test_a_child_of_threads_shares_nothing(tidepool, shares):
    running = shares()
    running.do("thread")
    running.do("fork")
    assert "does not share" in tidepool("report", running.child, check=False).stderr
    assert figures(tidepool, running.pid)
    assert running.end() == 0


def test_one_that_may_write_nothing(shares):
    """The program goes on without, and says so once."""
    running = shares(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    running.do("heap sessions 5 64")
    assert not descriptors_of(running.pid)
    assert running.end() == 0
    assert running.process.stderr.read() == "tidepool: export=1: figures cannot be shared with other processes\n"


@pytest.mark.parametrize("damage, why", [(b"x" * 8, "no figures"), (b"tidepool\7", "of another version"),
                                         (b"tidepool\2\0\0\0\xff\xff", "of another version")])
def test_a_page_that_is_none(tidepool, shares, damage, why):
    running = shares()
    running.halt()
    with open(f"/proc/{running.pid}/fd/{descriptors_of(running.pid)[0]}", "r+b") as shared:
        shared.write(damage)
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and why in done.stderr


def test_nobody_makes_it_shorter(tidepool, shares):
    running = shares()
    figures(tidepool, running.pid)
    with open(f"/proc/{running.pid}/fd/{descriptors_of(running.pid)[0]}", "r+b") as shared:
        with pytest.raises(PermissionError):
            shared.truncate(0)


def test_a_page_that_lies_about_its_length(tidepool, shares):
    """Its process does not believe that there is more memory than there is."""
    running = shares()
    figures(tidepool, running.pid)
    running.do("heaps many 3000")
    with open(f"/proc/{running.pid}/fd/{descriptors_of(running.pid)[0]}", "r+b") as shared:
        shared.seek(32)
        shared.write((1 << 24).to_bytes(8, sys.byteorder))
    assert sum(heap["name"] == "many" for heap in figures(tidepool, running.pid)["heaps"]) == 3000
    assert running.end() == 0


def test_one_that_closes_all_descriptors(tidepool, shares):
    running = shares()
    first = descriptors_of(running.pid)
    running.do("close")
    wait_for(lambda: descriptors_of(running.pid), "open again")
    assert first and heap_of(figures(tidepool, running.pid), "first")["live_blocks"] == 1


def test_one_that_has_no_descriptor_left_for_a_while(tidepool, shares):
    running = shares(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (900, 900)))
    running.do("descriptors")
    time.sleep(1.5)   # it looks once a second
    running.do("descriptors")
    wait_for(lambda: descriptors_of(running.pid), "open again")
    assert heap_of(figures(tidepool, running.pid), "first")["live_blocks"] == 1


def test_one_that_may_have_few_descriptors(tidepool, shares):
    """None of them is taken for a standard file."""
    running = shares(preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)), os.close(2)))
    assert int(descriptors_of(running.pid)[0]) > 2
    assert heap_of(figures(tidepool, running.pid), "first")["live_blocks"] == 1


def test_exit_in_a_handler(shares):
    for _ in range(12):
        running = shares("export=1,stats=exit:/dev/null")
        running.process.stdin.write("handler\n")
        assert running.process.wait(SECONDS) == 3


def test_one_that_ends_by_its_last_thread(shares):
    running = shares()
    running.process.stdin.write("last\n")
    assert running.process.wait(SECONDS) == 0


def test_a_limit_that_no_number_of_json_is(tidepool, shares):
    running = shares()
    running.do("limit huge 0")
    assert heap_of(figures(tidepool, running.pid), "huge")["budget"] == 2 ** 63 - 1
    assert "huge" in tidepool("top", "-n", 1, running.pid).stdout


def test_many_ask_at_once(tidepool, shares):
    running = shares()
    running.do("heaps many 8000")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: tidepool("top", "-n", 3, "-d", 0.1, running.pid, check=False), range(4)))
    assert [(one.returncode, one.stderr) for one in done] == [(0, "")] * 4


def test_one_that_is_stopped_and_needs_more_room(tidepool, shares):
    running = shares()
    running.do("heaps many 300")
    running.halt()
    begun = time.monotonic()
    done = tidepool("report", running.pid, check=False)
    assert done.returncode == 1 and "does not answer" in done.stderr and time.monotonic() - begun < 10


@pytest.mark.parametrize("closed", ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"))
def test_with_closed_standard_files(tidepool, shares, closed):
    running = shares()
    for command in ("report", "top -n 1"):
        subprocess.run(f"{tidepool.program} {command} {running.pid} {closed}", shell=True, timeout=SECONDS, check=False)
    assert heap_of(figures(tidepool, running.pid), "first")["live_blocks"] == 1


def test_with_a_limit_on_files(tidepool, shares):
    running = shares()
    running.do("heaps many 300")
    done = subprocess.run([tidepool.program, "report", str(running.pid)], capture_output=True, text=True, timeout=SECONDS,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)), check=False)
    assert done.returncode == 1 and done.stderr.endswith("no room for its figures: File too large\n")


def test_a_check_at_exit_sees_one_thread(shares):
    running = shares("export=1,checked=all")
    running.do("single alone 1 100")
    running.process.stdin.close()
    assert running.process.wait(SECONDS) == -signal.SIGABRT
    assert "written past its end" in running.process.stderr.read()
