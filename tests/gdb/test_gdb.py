# SPDX-License-Identifier: MIT
"""The commands of tools/gdb/tidepool-gdb.py, in a process that is stopped, in a core file of it, and in a program that has
ended inside the manager. What they must say the program prints itself (program.c)."""

import re
import subprocess

import pytest

HEAPS_END = "the commands have ended"
NO_TRACE = re.compile(r"Could not trace the inferior|ptrace: Operation not permitted|Cannot create process")


@pytest.fixture(name="ask", scope="module")
def fixture_ask(pytestconfig):
    """Runs gdb with the script, on the program that is given its arguments or on a core file."""
    program, script = pytestconfig.getoption("--debugged"), pytestconfig.getoption("--gdb-script")

    def ask(*commands, arguments=()):
        done = subprocess.run(
            ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set pagination off",
             "-ex", f"source {script}", *(word for command in commands for word in ("-ex", command)),
             "-ex", f"echo {HEAPS_END}\\n", "--args", program, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        if "run" in commands and NO_TRACE.search(done.stdout):
            pytest.skip("no process can be debugged here")
        assert HEAPS_END in done.stdout and "Traceback" not in done.stdout, done.stdout
        return done.stdout

    return ask


@pytest.fixture(name="core", scope="module")
def fixture_core(ask, tmp_path_factory):
    """(what the program said, its core file)"""
    core = tmp_path_factory.mktemp("gdb") / "core"
    said = ask("break stopped", "run", f"generate-core-file {core}", "kill")
    assert core.exists(), said
    return said, core


def test_where(ask, core):
    said, file = core
    expected = re.findall(r"^where (0x[0-9a-f]+) (.*)$", said, re.M)
    assert len(expected) > 12
    answers = ask(f"core-file {file}", *(f"tidepool where {address}" for address, _ in expected))
    for address, what in expected:
        assert re.search(rf"^{address}: {what}", answers, re.M), (address, what, answers)


def test_heaps(ask, core):
    said, file = core
    expected = re.findall(r"^heap (.*) (\d+) (\d+)$", said, re.M)
    assert len(expected) == 4
    answers = ask(f"core-file {file}", "tidepool heaps", "print *pool_heap_default()", "print default_heap")
    for name, blocks, size in expected:
        assert re.search(rf"{name} .* {int(size):,} +{int(blocks):,} +", answers), (name, blocks, size, answers)
    assert re.search(r'= heap "default", [\d,]+ bytes held', answers)
    assert re.search(r'object pool "own ones" in .*: 10 objects of 48 bytes, \d taken', answers)


def test_objects(ask, core):
    said, file = core
    expected = re.findall(r"^object (0x[0-9a-f]+) (.*) (live|free)$", said, re.M)
    assert len(expected) == 4
    for address, name, state in expected:
        answer = ask(f"core-file {file}", f"tidepool where {address}")
        assert re.search(rf'object \d+ of pool "{name}": {state}', answer), (address, name, state, answer)


def test_blocks(ask, core):
    said, file = core
    blocks, size = re.search(r"^heap plain heap (\d+) (\d+)$", said, re.M).groups()
    answers = ask(f"core-file {file}", "tidepool blocks plain heap 3", "tidepool blocks 0 0", 'tidepool blocks "checked"')
    assert f'heap "plain heap": {int(blocks):,} blocks, {int(size):,} bytes live' in answers
    assert "500 of 112 bytes: 56,000" in answers
    assert len(re.findall(r"^0x[0-9a-f]+ \d+$", answers.split("plain heap")[0], re.M)) == 3
    assert 'heap "checked": 1 blocks, 100 bytes live' in answers


def test_a_live_process(ask):
    answers = ask("break stopped", "run", "tidepool check", "tidepool heaps", "tidepool where &outside", "print heap_is_dying")
    assert "in order" in answers and '"own ones"' in answers and "not the manager's memory" in answers


def test_a_crash_inside(ask):
    answers = ask("run", "tidepool check", "tidepool blocks plain heap 0", "backtrace", arguments=["misuse"])
    assert "SIGABRT" in answers and "fatal_misuse" in answers
    assert "in order" in answers and "blocks, " in answers


def test_check_finds_what_is_wrong(ask):
    """A block that was freed twice, which the library itself has not seen yet; and a count that was overwritten."""
    answers = ask("break stopped", "run", "continue", "tidepool check", arguments=["twice"])
    assert "was freed twice" in answers, answers
    answers = ask("break stopped", "run", "set var default_heap.bins[2]->outstanding = 77", "tidepool check")
    assert "B1 77 blocks are said to be out" in answers


def test_wrong_words(ask, core):
    _, file = core
    answers = ask(f"core-file {file}", "tidepool blocks no such heap", "tidepool where", "tidepool blocks", "tidepool where 1")
    assert "an address is needed" in answers and "a heap is needed" in answers and "0x1: not the manager's memory" in answers


def test_without_debug_information(pytestconfig):
    script = pytestconfig.getoption("--gdb-script")
    done = subprocess.run(["gdb", "-nx", "-batch", "-ex", f"source {script}", "-ex", "tidepool heaps"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    assert "has no debug information" in done.stdout and "Traceback" not in done.stdout
