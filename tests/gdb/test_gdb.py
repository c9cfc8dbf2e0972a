# SPDX-License-Identifier: MIT
"""The commands of tools/gdb/tidepool-gdb.py, in a process that is stopped, in a core file of it, and in a program that has
ended inside the manager. What they must say the program prints itself (program.c)."""

import re
import resource
import subprocess
from pathlib import Path

import pytest

HEAPS_END = "the commands have ended"
FILE_MOST = 1 << 29   # a core file of all addresses that guarded heaps may have would fill the disk
NO_TRACE = re.compile(r"Could not trace the inferior|ptrace: Operation not permitted|Cannot create process")


@pytest.fixture(name="ask", scope="module")
def fixture_ask(pytestconfig):
    """Runs gdb with the script, on the program that is given its arguments or on a core file."""
    debugged, own_script = pytestconfig.getoption("--debugged"), pytestconfig.getoption("--gdb-script")

    def ask(*commands, arguments=(), program=debugged, script=own_script):
        done = subprocess.run(
            ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set pagination off",
             "-ex", f"source {script}", *(word for command in commands for word in ("-ex", command)),
             "-ex", f"echo {HEAPS_END}\\n", "--args", program, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MOST, FILE_MOST)))
        if "run" in commands and NO_TRACE.search(done.stdout):
            pytest.skip("no process can be debugged here")
        assert HEAPS_END in done.stdout and "Traceback" not in done.stdout, done.stdout
        assert "Python Exception" not in done.stdout and "Error occurred in Python" not in done.stdout, done.stdout
        return done.stdout

    return ask


@pytest.fixture(name="core", scope="module")
def fixture_core(ask, tmp_path_factory):
    """(what the program said, its core file)"""
    core = tmp_path_factory.mktemp("gdb") / "core"
    said = ask("break stopped", "run", f"generate-core-file {core}", "kill")
    assert core.exists(), said
    return said, core


def places_that_were_told(said):
    """(address, expression of what is said of it)"""
    return [(address, what.replace("\\n", "\n")) for address, what in re.findall(r"^where (0x[0-9a-f]+) (.*)$", said, re.M)]


def assert_where(expected, answers):
    for address, what in expected:
        assert re.search(rf"^{address}: {what}", answers, re.M), (address, what, answers)


def test_where(ask, core):
    said, file = core
    expected = places_that_were_told(said)
    assert len(expected) > 20
    assert_where(expected, ask(f"core-file {file}", *(f"tidepool where {address}" for address, _ in expected)))


def test_guarded_heaps(ask):
    """In a process: what is noted of their blocks makes a core file long."""
    answers = ask("break stopped", "run", "tidepool heaps", "tidepool blocks guarded",
                  *(f"tidepool where told[{i}]" for i in range(40)), arguments=["guarded"])
    expected = [told for told in places_that_were_told(answers) if re.search("guarded|pages|ends", told[1])]
    assert len(expected) == 5
    assert_where(expected, answers)
    assert re.search(r"^ +\d guarded .* 8,292 +2 +0$", answers, re.M) and 'heap "guarded": 2 blocks, 8,292 bytes' in answers


def test_heaps(ask, core):
    said, file = core
    expected = re.findall(r"^heap (.*) (\d+) (\d+)$", said, re.M)
    assert len(expected) == 7
    answers = ask(f"core-file {file}", "tidepool heaps", "print *pool_heap_default()", "print default_heap")
    for name, blocks, size in expected:
        assert re.search(rf"{name} .* {int(size):,} +{int(blocks):,} +", answers), (name, blocks, size, answers)
    assert re.search(r'= heap "default", [\d,]+ bytes held', answers)
    for name in "own ones", "shared ones":
        assert re.search(rf'object pool "{name}" in .*: 10 objects of 48 bytes, 1 live$', answers, re.M)


def test_objects(ask, core):
    said, file = core
    expected = re.findall(r"^object (0x[0-9a-f]+) (.*) (live|free) (\d)$", said, re.M)
    assert len(expected) == 4
    answers = ask(f"core-file {file}", *(f"tidepool where {address}" for address, *_ in expected))
    for address, name, state, times in expected:
        told = rf'^{address}: .*\n +object \d+ of pool "{name}": {state}.*, got {times} times$'
        assert re.search(told, answers, re.M), (told, answers)


def test_blocks(ask, core):
    said, file = core
    blocks, size = re.search(r"^heap plain heap (\d+) (\d+)$", said, re.M).groups()
    answers = ask(f"core-file {file}", "tidepool blocks plain heap 3", "tidepool blocks 0 0", 'tidepool blocks "checked"',
                  "tidepool blocks *dense", "tidepool blocks dense", "tidepool blocks dense and checked")
    assert f'heap "plain heap": {int(blocks):,} blocks, {int(size):,} bytes live' in answers
    assert "500 of 112 bytes: 56,000" in answers
    assert len(re.findall(r"^0x[0-9a-f]+ \d+$", answers.split("plain heap")[0], re.M)) == 3
    assert 'heap "checked": 2 blocks, 400,100 bytes live' in answers
    assert 'heap "dense and checked": 1 blocks, 100 bytes live' in answers
    assert answers.count('heap "dense": 1 blocks, 112 bytes live') == 2


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


@pytest.mark.parametrize("change, found", [
    ("map[-1] = 1", "R1 the end is not where it belongs"), ("used[0] = 0", "R3 the page at .* unused, and has a block"),
    ("used[0] = 3", "R3 the page at .* used, and has no block"), ("live += 2", "R4 9 live granules and 1 blocks"),
    ("blocks = 5", "R4 7 live granules and 5 blocks"), ("map[-18] = 0", "R5 the kept block of 208 bytes is none")])
def test_check_of_granules(ask, change, found):
    answers = ask("break stopped", "run", "tidepool check", "echo now changed\\n", f"set var dense->region.granules.{change}",
                  "tidepool check")
    before, after = answers.split("now changed")
    assert "in order" in before and re.search(f'heap "dense": {found}', after), answers


NAMES_LOOKED_FOR = re.compile(r'(?:variable|type|symbols)\("[\w.]+", "(\w+)"\)')


def test_names_of_the_program(ask, pytestconfig):
    """A program may have the library's names for its own: in a shared library's program all of them, else static ones."""
    scripts = Path(pytestconfig.getoption("--gdb-script")).parent.glob("*.py")
    wanted = {name for script in scripts for name in NAMES_LOOKED_FOR.findall(script.read_text())}
    own = (Path(__file__).parent / "names.c").read_text()
    assert len(wanted) > 10 and not [name for name in wanted if not re.search(rf"\b{name}\b( = |;|,)", own)]
    programs = pytestconfig.getoption("--debugged-names")
    assert len(programs) == 2
    for program in programs:
        answers = ask("break stopped", "run", "tidepool heaps", "tidepool blocks *checked", "tidepool check", "print own_heap",
                      "print own_pool", *(f"tidepool where told[{i}]" for i in range(5)), program=program)
        expected = places_that_were_told(answers)
        assert len(expected) == 5
        assert 'heap "checked heap": 1 blocks, 50 bytes live' in answers and '"objects" in the default heap' in answers
        assert "in order" in answers and answers.count("{own = 0}") == 2
        assert_where(expected, answers)


@pytest.mark.parametrize("language", ["rust", "ada", "c++", "fortran"])
def test_languages(ask, core, language):
    """A program may be of any language."""
    _, file = core
    answers = ask(f"core-file {file}", f"set language {language}", "tidepool heaps", "tidepool check",
                  "tidepool blocks checked", "show language")
    assert f'The current source language is "{language}"' in answers
    assert 'heap "checked": 2 blocks, 400,100 bytes live' in answers and "in order" in answers


def test_sourced_by_another_script(ask, core, tmp_path, pytestconfig):
    """Then __file__ is the other one's."""
    _, file = core
    outer = tmp_path / "outer.py"
    outer.write_text(f"import gdb\ngdb.execute('source {pytestconfig.getoption('--gdb-script')}')\n")
    assert "in order" in ask(f"core-file {file}", "tidepool check", script=outer)


def test_wrong_words(ask, core):
    _, file = core
    answers = ask(f"core-file {file}", "tidepool blocks no such heap", "tidepool where", "tidepool blocks", "tidepool where 1",
                  "tidepool where no_such", "tidepool where *(char **)1", "tidepool blocks 77", "tidepool blocks *(int *)1")
    assert "an address is needed" in answers and "a heap is needed" in answers and "0x1: not the manager's memory" in answers
    assert "no live heap is called no such heap" in answers and "no live heap is called 77" in answers
    assert 'No symbol "no_such" in current context.' in answers and "Cannot access memory at address 0x1" in answers


def test_without_debug_information(pytestconfig):
    script = pytestconfig.getoption("--gdb-script")
    done = subprocess.run(["gdb", "-nx", "-batch", "-ex", f"source {script}", "-ex", "tidepool heaps"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    assert "has no debug information" in done.stdout and "Traceback" not in done.stdout
