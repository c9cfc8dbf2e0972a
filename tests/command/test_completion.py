# SPDX-License-Identifier: MIT
"""The completion of bash, without the package that helps it with other programs, and with a stand-in for it."""

import pathlib
import subprocess

import pytest

FILE = pathlib.Path(__file__).parents[2] / "tools/command/completion.bash"


def completed(*words, helper=""):
    """What bash would offer for the last word."""
    script = f"""{helper}
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tidepool
        printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", FILE, *words], capture_output=True, text=True, timeout=600,
                          check=True)
    assert not done.stderr
    return done.stdout.split()


def test_commands():
    assert completed("tidepool", "") == ["run", "record", "replay", "fit", "show", "diff", "map", "report", "top",
                                         "--help", "--version"]
    assert completed("tidepool", "ru") == ["run"]


def test_options():
    assert completed("tidepool", "run", "--ch") == ["--checked"]
    assert completed("tidepool", "run", "--checked", "--le") == ["--leaks"]
    assert completed("tidepool", "run", "-o", "guard") == ["guard_sample=", "guarded="]


@pytest.mark.parametrize("command", ("run", "record", "replay", "map"))
def test_every_option_of_the_help_is_offered(request, command):
    tidepool = request.config.getoption("--tidepool")
    text = subprocess.run([tidepool, command, "--help"], capture_output=True, text=True, timeout=600, check=True).stdout
    known = {word.strip(",").split("=")[0] for word in text.split() if word.startswith("--") and len(word) > 2}
    assert known - {"--usage", "--version"} == set(completed("tidepool", command, "--"))


def test_record(tmp_path):
    (tmp_path / "figures").touch()
    at = f"{tmp_path}/fi"
    for words in (["-o", at], ["--output", "=", at], ["--frames", "3", "cat", at], ["-o", "x", "--", "cat", at]):
        assert completed("tidepool", "record", *words) == [f"{tmp_path}/figures"], words
    assert "16" in completed("tidepool", "record", "--frames", "")
    assert "bash" in completed("tidepool", "record", "-o", "x", "bas")


def test_replay(tmp_path):
    (tmp_path / "figures").touch()
    at = f"{tmp_path}/fi"
    assert completed("tidepool", "replay", at) == completed("tidepool", "replay", "--json", at) == [f"{tmp_path}/figures"]
    for words in (["--with", "je"], ["--with", "=", "je"]):
        assert completed("tidepool", "replay", *words) == ["jemalloc"]
    assert completed("tidepool", "replay", "--with", at) == [f"{tmp_path}/figures"]


def test_map(tmp_path):
    (tmp_path / "figures").touch()
    at = f"{tmp_path}/fi"
    for words in ([at], ["-o", at], ["--library", "=", at], ["--json", at]):
        assert completed("tidepool", "map", *words) == [f"{tmp_path}/figures"], words
    assert completed("tidepool", "map", "--at", "=", "e") == ["end"]


def test_every_option_of_the_library_is_offered(request):
    library = request.config.getoption("--library")
    tidepool = request.config.getoption("--tidepool")
    text = subprocess.run([tidepool, "run", "--library", library, "-o", "help", "ls", "/"], capture_output=True, text=True,
                          timeout=600, check=True).stderr
    keys = {line.split("=")[0] + "=" for line in text.splitlines()}
    assert keys == set(completed("tidepool", "run", "-o", ""))


def test_report(request, tmp_path):
    tidepool = request.config.getoption("--tidepool")
    (tmp_path / "figures").touch()
    for words in (["--json"], ["--html"], ["--html", "="]):
        assert completed("tidepool", "report", *words, f"{tmp_path}/fi") == [f"{tmp_path}/figures"]
    help_of = subprocess.run([tidepool, "report", "--help"], capture_output=True, text=True, timeout=600, check=False)
    if help_of.returncode == 0:   # it may have been built without
        known = {word.split("=")[0] for word in help_of.stdout.split() if word.startswith("--")}
        assert known - {"--usage", "--version", "--stats"} == set(completed("tidepool", "report", "--"))


def test_top(request):
    assert completed("tidepool", "top", "--sort", "=", "l") == completed("tidepool", "top", "-s", "l") == ["live"]
    assert completed("tidepool", "top", "-s", "") == ["held", "change", "live", "blocks", "exhausted", "name"]
    help_of = subprocess.run([request.config.getoption("--tidepool"), "top", "--help"], capture_output=True, text=True,
                             timeout=600, check=False)
    if help_of.returncode == 0:   # it may have been built without
        known = {word.split("=")[0] for word in help_of.stdout.replace(",", " ").split() if word.startswith("--")}
        assert known - {"--usage", "--version"} == set(completed("tidepool", "top", "--"))


def test_files(tmp_path):
    (tmp_path / "figures").touch()
    at = f"{tmp_path}/fi"
    for words in (["--stats", at], ["--stats", "=", at], ["--", "cat", at], ["cat", at], ["-o", "sites", "=", "2", "cat", at]):
        assert completed("tidepool", "run", *words) == [f"{tmp_path}/figures"], words


def test_values():
    assert "guarded=" in completed("tidepool", "run", "--option", "=")
    assert completed("tidepool", "run", "-o", "checked", "=") == completed("tidepool", "run", "-o", "checked", "=", "a") == []


def test_bash_is_told_what_is_a_file():
    """Readline quotes its name then, and puts no space behind an option that wants a value."""
    helper = 'compopt() { [ "$*" = "$WANTED" ] && echo told; }'
    for wanted, words in (("-o filenames", ["run", "--stats", "x"]), ("-o filenames", ["report", "x"]),
                          ("-o nospace", ["run", "-o", "s"])):
        assert "told" in completed("tidepool", *words, helper=f"WANTED='{wanted}'; {helper}")


def test_programs():
    assert "bash" in completed("tidepool", "run", "--checked", "bas")
    assert "bash" in completed("tidepool", "run", "--", "bas")


@pytest.mark.parametrize("words, at", (
    (["run", "cat", "-"], 2), (["run", "-o", "sites=2", "cat", "-"], 4), (["run", "--", "cat", "x"], 3),
    (["run", "--stats", "file", "--checked", "cat", ""], 5), (["run", "--stats=file", "cat", ""], 3),
    (["run", "--stats", "=", "file", "cat", ""], 5),   # as bash splits words
))
def test_what_follows_is_the_programs(words, at):
    assert completed("tidepool", *words, helper='_command_offset() { COMPREPLY=("from=$1"); }') == [f"from={at}"]
