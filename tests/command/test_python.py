# SPDX-License-Identifier: MIT
"""CPython, whose objects are blocks of malloc with PYTHONMALLOC=malloc alone: how it is recognized, and what is seen then."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

SECONDS = 600
SETS = "sets PYTHONMALLOC=malloc, so that CPython's objects are seen"
SETS_BOTH = "sets PYTHONMALLOC=malloc and PYTHONPERFSUPPORT=1, so that CPython's objects and functions are seen"
IGNORES = "CPython ignores PYTHONMALLOC with -E or -I, so most of its objects are not seen"
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "report.py"


@pytest.fixture(name="tools")
def fixture_tools(request):
    return {name: os.path.abspath(request.config.getoption(f"--{name}"))
            for name in ("tidepool", "program", "python-like", "python-with-perf", "python-free-threaded",
                         "trampoline")}


@pytest.fixture(name="tidepool")
def fixture_tidepool(tools, tmp_path):
    def tidepool(command, *arguments, env=None, check=True):
        own = {key: value for key, value in os.environ.items()
               if key not in ("LD_PRELOAD", "TIDEPOOL_OPTIONS") and not key.startswith("PYTHON")}
        return subprocess.run([tools["tidepool"], command, *map(str, arguments)], env={**own, **(env or {})},
                              text=True, cwd=tmp_path, capture_output=True, timeout=SECONDS, check=check)
    return tidepool


def said(done):
    """What the command said of Python, and what the program was told."""
    lines = [line.split(": ", 2)[2] for line in done.stderr.splitlines() if line.startswith("tidepool: ")]
    return lines, done.stdout.strip()


def script(path, first):
    path.write_text(first + "\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("how", (["record"], ["run", "--leaks"], ["run", "--checked"], ["run", "--profile", "x"],
                                 ["run", "-o", "checked=1"]), ids=str)
def test_it_is_told(tidepool, tools, how):
    assert said(tidepool(*how, tools["python-like"])) == ([SETS], "malloc")


@pytest.mark.parametrize("how", (["run"], ["run", "--stats", "x"], ["run", "-o", "leaks=none"]), ids=str)
def test_it_is_left_alone(tidepool, tools, how):
    assert said(tidepool(*how, tools["python-like"])) == ([], "not set")


def test_others_are_not_told(tidepool, tools):
    assert said(tidepool("record", tools["program"], "0")) == ([], "")


def test_what_the_user_has_set_stays(tidepool, tools):
    for value in ("debug", "malloc", "pymalloc"):
        assert said(tidepool("record", tools["python-like"], env={"PYTHONMALLOC": value})) == ([], value)
    assert said(tidepool("record", tools["python-like"], env={"PYTHONMALLOC": ""})) == ([SETS], "malloc")   # as not set


@pytest.mark.parametrize("options, ignores", (
    ("-E", True), ("-I", True), ("-sE", True), ("-W ignore -I", True), ("-Wignore -I", True), ("-X dev -E", True),
    ("--check-hash-based-pycs always -E", True), ("-s x -E", False), ("-c 0 -E", False), ("-m x -I", False), ("-mEx", False),
    ("- -E", False), ("-- -E", False), ("-WE", False), ("-XE", False), ("-W", False), ("-s", False), ("", False)))
def test_options_that_ignore_the_environment(tidepool, tools, tmp_path, options, ignores):
    """Of the interpreter, and of one in the first line of a script, whose own arguments are not looked at."""
    wanted = ([IGNORES], "not set") if ignores else ([SETS], "malloc")
    assert said(tidepool("record", tools["python-like"], *options.split())) == wanted
    for first in (f"#!{tools['python-like']} {options}", f"#!/usr/bin/env -S {tools['python-like']} {options}"):
        assert said(tidepool("record", script(tmp_path / "script", first), "-E")) == wanted


def test_the_file_counts(tidepool, tools, tmp_path):
    """Not its name: a virtual environment has links or copies, and what is called python may be another program."""
    (tmp_path / "linked").symlink_to(tools["python-like"])
    shutil.copy(tools["python-like"], tmp_path / "service")
    for name in ("linked", "service"):
        assert said(tidepool("record", tmp_path / name)) == ([SETS], "malloc")
        assert said(tidepool("record", script(tmp_path / "script", f"#!{tmp_path}/{name}"))) == ([SETS], "malloc")
    (tmp_path / "python3").symlink_to(tools["program"])
    assert said(tidepool("record", tmp_path / "python3", "0")) == ([], "")


@pytest.mark.parametrize("name", ("python", "python3", "python3.12"))
def test_a_script_in_front_of_it(tidepool, tools, tmp_path, name):
    """As pyenv has one: it starts the real one, so its name is all that there is."""
    script(tmp_path / name, f"#!/bin/sh\nexec {tools['python-like']} \"$@\"")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert said(tidepool("record", name, env=path)) == ([SETS_BOTH], "malloc, perf")   # which an older one ignores
    assert said(tidepool("run", "--leaks", name, env=path)) == ([SETS], "malloc")
    assert said(tidepool("record", name, "-I", env=path)) == ([IGNORES], "not set")
    found = script(tmp_path / "script", f"#!/usr/bin/env {name}")
    assert said(tidepool("record", found, "-I", env=path)) == ([SETS_BOTH], "malloc, perf")
    script(tmp_path / "python-config", f"#!/bin/sh\nexec {tools['python-like']}")
    assert said(tidepool("record", "python-config", env=path)) == ([], "not set")


def test_one_that_names_its_functions(tidepool, tools):
    """Only a recording knows the process, whose file has the names."""
    assert said(tidepool("record", tools["python-with-perf"])) == ([SETS_BOTH], "malloc, perf")
    assert said(tidepool("run", "--leaks", tools["python-with-perf"])) == ([SETS], "malloc")
    assert said(tidepool("record", tools["python-with-perf"], env={"PYTHONPERFSUPPORT": "0"})) == ([SETS], "malloc, perf")


def test_functions_made_at_run_time(tidepool, tools, tmp_path):
    """Stacks go through the code that calls them, and it has the names that the process has written."""
    made = tidepool("record", tools["trampoline"]).stdout.split()
    if made[0] == "0":
        pytest.skip("code cannot be made here, or has no tables")
    path, recording = pathlib.Path(made[1]), tmp_path / "tidepool.recording"
    try:
        shown = tidepool("show", recording).stdout
        for i in range(int(made[0])):
            assert f"allocate < made_{i} (made.py) < come_through < main" in shown
        os.utime(path, (1, 1))   # of an older process
        assert "made" not in tidepool("show", recording).stdout
    finally:
        path.unlink()


def test_a_free_threaded_one(tidepool, tools):
    """It would end with a fatal error if it were told."""
    lines, told = said(tidepool("record", tools["python-free-threaded"]))
    assert told == "not set"
    assert lines == ["a free-threaded CPython keeps its own allocator, so most of its objects are not seen"]


# ---- the real one ----


@pytest.fixture(name="recording", scope="module")
def fixture_recording(request, tmp_path_factory):
    """The example, with a tenth of its requests."""
    file = tmp_path_factory.mktemp("python") / "recording"
    tidepool, library = (os.path.abspath(request.config.getoption(name)) for name in ("--tidepool", "--library"))
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON") and key != "TIDEPOOL_OPTIONS"}
    done = subprocess.run([tidepool, "record", "--library", library, "--frames", "4", "-o", file, sys.executable, EXAMPLE,
                           "350"], env=env, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert (SETS in done.stderr or SETS_BOTH in done.stderr) and done.stdout.startswith("350 requests answered, ")
    return file


def test_the_growth_of_the_example_is_seen(tidepool, recording):
    """A catalogue of some 500,000 blocks, and a block of 18 kB for each request."""
    facts = json.loads(tidepool("replay", "--check", "--json", recording).stdout)
    assert facts["peak_blocks"] > 300_000 and 38_000_000 < facts["peak_bytes"] < 60_000_000
    places = json.loads(tidepool("show", "--json", recording).stdout)["places"]
    reports = [place for place in places if place["peak_bytes"] > 15_000 * max(place["peak_blocks"], 1)]
    assert max(place["peak_blocks"] for place in reports) >= 300
