# SPDX-License-Identifier: MIT
"""Which library tidepool run takes: the debug library for the options that only it has, in programs that are linked with
libtidepool too, wherever these look for it; and otherwise the plain one."""

import ctypes
import os
import signal
import subprocess
import sys

import pytest

from sharing import NOT_SHARED, SECONDS, figures, fixture_tidepool   # pylint: disable=unused-import

VALUES = {"leaks": "all", "profile": "/dev/null", "sites": "2", "guard_sample": "1000", "checked": "1", "guarded": "1"}
PRINTS = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(*{line.split()[-1] for line in open('/proc/self/maps') " \
         "if '/libtidepool' in line}, sep='\\n')"


@pytest.fixture(name="built")
def fixture_built(request):
    """The libraries of the build, by whether they are for diagnostics."""
    plain = {os.path.realpath(request.config.getoption(name)) for name in ("--library", "--own-library")}
    return {False: plain, True: {os.path.join(os.path.dirname(path), "debug", os.path.basename(path)) for path in plain}}


@pytest.fixture(name="linked")
def fixture_linked(request):
    return [os.path.abspath(program) for program in request.config.getoption("--linked")]


@pytest.fixture(name="linked_malloc")
def fixture_linked_malloc(request):
    return os.path.abspath(request.config.getoption("--linked-malloc"))


@pytest.fixture(name="run")
def fixture_run(tidepool):
    def run(*arguments, env=None, **more):
        own = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "TIDEPOOL_OPTIONS")}
        return tidepool("run", *arguments, env={**own, **(env or {})}, **more)
    return run


def libraries(done):
    assert not done.stderr
    return {os.path.realpath(path) for path in done.stdout.splitlines() if "/libtidepool" in path}


def own_of(paths):
    return {path for path in paths if "malloc" not in path}


def malloc_of(paths):
    return paths - own_of(paths)


@pytest.mark.parametrize("options", (
    ["--checked"], ["--guarded"], ["--leaks"], ["-o", "checked=1"], ["-o", "export=1"], ["-o", "sites=3"],
    ["-o", "guard_sample=1000"], ["--option", "guarded=all"]), ids=str)
def test_diagnostics_take_the_debug_library(run, linked, linked_malloc, built, options):
    for program in linked:
        assert libraries(run(*options, program)) == built[True]
    done = run(*options, linked_malloc)
    assert malloc_of(libraries(done)) == malloc_of(built[True])


@pytest.mark.parametrize("options", (
    [], ["-o", "purge_delay_ms=5"], ["-o", "checked=0"], ["-o", "leaks=none", "-o", "sites=0", "-o", "export=0"],
    ["--stats", "/dev/null"]), ids=str)
def test_other_options_take_the_plain_library(run, linked, linked_malloc, built, options):
    for program in linked:
        assert libraries(run(*options, program)) == built[False]
    assert libraries(run(*options, linked_malloc)) == malloc_of(built[False])


def test_every_option_that_the_plain_library_refuses(run, linked, built, request):
    """The table of the command is that of the library."""
    keys = [line.split("=")[0] for line in run("-o", "help", linked[0]).stderr.splitlines()]
    library = ctypes.CDLL(os.path.abspath(request.config.getoption("--own-library")))
    library.tidepool_error.restype = ctypes.c_char_p
    refused = set()
    for key in keys:
        assert not library.tidepool_option_set(key.encode(), b"no value of any")
        if b"debug library" in library.tidepool_error():
            refused.add(key)
    assert {"checked", "export", "profile_signal"} < refused < set(keys)
    for key in keys:
        value = VALUES.get(key, {"stats": "none", "huge_pages": "auto", "blocks": "auto"}.get(key, "1"))
        assert libraries(run("-o", f"{key}={value}", linked[0])) == built[key in refused], key


def test_a_profile_of_a_program_that_is_linked(run, linked, built, tmp_path):
    done = run("--profile", tmp_path / "%p.heap", linked[1])
    assert libraries(done) == built[True] and len(list(tmp_path.iterdir())) == 1


def test_options_in_the_environment_choose_too(run, linked, built):
    for options, is_debug in (("checked=1", True), ("purge_delay_ms=5,leaks=exit", True), ("purge_delay_ms=5,", False),
                              ("leaks=none", False)):
        assert libraries(run(linked[0], env={"TIDEPOOL_OPTIONS": options})) == built[is_debug]


def test_a_recording_is_made_with_the_same(tidepool, linked, built, tmp_path):
    for options, is_debug in (("checked=1", True), ("", False)):
        done = tidepool("record", "-o", tmp_path / "recording", linked[1], env={**os.environ, "TIDEPOOL_OPTIONS": options})
        paths = {path for path in libraries(done) if "-record" not in path}
        assert paths == built[is_debug]
        shown = tidepool("show", tmp_path / "recording").stdout.splitlines()
        assert any(" 100 B " in line and line.endswith(" main") for line in shown)   # of libtidepool


def test_a_write_past_the_end_is_found(run, linked, linked_malloc):
    for program in (*linked, linked_malloc):
        done = run("--checked", program, "past", check=False)
        assert done.returncode == -signal.SIGABRT and "written past its end at offset 100" in done.stderr
        assert run(program, "past").returncode == 0


def test_what_a_program_starts_has_the_same(run, linked, built, tidepool):
    for words, is_debug in ((["--checked"], True), ([], False)):
        assert libraries(run(*words, "/bin/sh", "-c", f'"{linked[1]}"; exit 0')) == built[is_debug]
        assert libraries(run(*words, tidepool.program, "run", linked[1])) == built[is_debug]
    assert libraries(run(tidepool.program, "run", "--checked", linked[1])) == built[True]


def test_a_plug_in_has_the_same(run, built, request):
    """A program that has no tidepool loads a library that is linked with it."""
    plug_in = os.path.abspath(request.config.getoption("--linked-library"))
    for words, is_debug in ((["-o", "sites=2"], True), ([], False)):
        assert libraries(run(*words, sys.executable, "-c", PRINTS, plug_in)) == built[is_debug]


def test_a_library_that_is_given_is_taken(run, linked, built):
    """And nothing else is replaced."""
    for is_debug in (False, True):
        given, = malloc_of(built[is_debug])
        for options in ([], ["-o", "guard_sample=1000000"]):
            done = run("--library", given, *options, linked[0], check=False)
            assert {os.path.realpath(path) for path in done.stdout.splitlines()} == {given} | own_of(built[False])
            assert bool(done.stderr) == bool(options)


@pytest.mark.parametrize("command", (["report"], ["top", "-n", "1"], ["map"]))
def test_a_process_with_the_plain_library(tidepool, linked, command):
    """One line says how it has to be started."""
    process = subprocess.Popen([linked[0], "waits"], env={**os.environ, "TIDEPOOL_OPTIONS": "export=1"},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    done = tidepool(*command, process.pid, check=False)
    said = process.communicate("\n", SECONDS)[1]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tidepool: {command[0]}: process {process.pid}: {NOT_SHARED}\n"
    assert said.count("\n") == 1 and "export" in said and "debug library" in said


def test_a_process_that_run_has_started(tidepool, linked):
    for program in linked:
        process = subprocess.Popen([tidepool.program, "run", "-o", "export=1", program, "waits"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        answer = figures(tidepool, process.pid)
        said = process.communicate("\n", SECONDS)[1]
        assert (process.returncode, said) == (0, "") and answer["pid"] == process.pid
        assert sorted(answer["libraries"]) == ["libtidepool", "libtidepool-malloc"]
