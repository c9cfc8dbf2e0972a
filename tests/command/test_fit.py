# SPDX-License-Identifier: MIT
"""tidepool fit: the classes and the budget of programs whose blocks are known."""

import os
import re
import sys

import pytest

from sharing import fixture_tidepool   # pylint: disable=unused-import


@pytest.fixture(name="recording")
def fixture_recording(request, tidepool, tmp_path):
    """Of python, where each object is a block."""
    file = tmp_path / "python.recording"
    library = os.path.abspath(request.config.getoption("--library"))
    work = "x = [{str(i): [i, i * 2.5]} for i in range(3000)]; y = [bytes(5000) for i in range(100)]; del x"
    tidepool("record", "--library", library, "--frames", 1, "-o", file, sys.executable, "-c", work,
             env={**os.environ, "PYTHONMALLOC": "malloc"})
    return file


def figures_of(line):
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    return [float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (B|KiB|MiB|GiB)\b", line)]


def test_classes(tidepool, recording):
    lines = tidepool("fit", recording).stdout.splitlines()
    assert lines[0].split() == ["left", "over", "held,", "mean", "held,", "peak"]
    before, after = figures_of(lines[1]), figures_of(lines[2])
    assert lines[1].startswith("built-in classes ") and len(before) == len(after) == 3
    assert after[1] < before[1] or "The built-in classes hold less." in lines
    text = "\n".join(lines)
    classes = [int(number) for number in re.search(r"size_classes\[\] = \{([^}]*)\}", text)[1].split(",")]
    assert classes == sorted(set(classes)) and all(number % 16 == 0 for number in classes)
    assert f".size_class_count = {len(classes)}" in text and lines[2].startswith(f"{len(classes)} classes ")


@pytest.mark.parametrize("count", (1, 2, 7, 30))
def test_so_many_classes(tidepool, recording, count):
    text = tidepool("fit", "--classes", count, recording).stdout
    assert f".size_class_count = {count}" in text


def test_more_classes_leave_less_over(tidepool, recording):
    over = [figures_of(tidepool("fit", "--classes", count, recording).stdout.splitlines()[2])[0] for count in (2, 5, 10, 40)]
    assert over == sorted(over, reverse=True) and over[0] > over[3]


def test_the_least_budget(tidepool, recording):
    text = tidepool("fit", "--budget", "100K", recording).stdout
    assert re.match(r"A budget of 102400 bytes would have refused \d+ requests, "
                    r"the first after [\d.]+ s: call \d+, of \d+ bytes\.\n", text)
    least = int(re.search(r"The least budget that serves all of it is (\d+) bytes", text)[1])
    live = int(re.search(r"(\d+) are live at the peak", text)[1])
    assert live < least < 3 * live + (1 << 20)
    assert tidepool("fit", "--budget", least, recording).stdout.startswith(f"A budget of {least} bytes serves all of it.\n")
    assert "would have refused" in tidepool("fit", "--budget", least - (64 << 10), recording).stdout
    assert tidepool("fit", "--budget", "1", recording).stdout.startswith("No heap has so small a budget.\n")


@pytest.mark.parametrize("arguments", [(), ("--classes", "0", "x"), ("--classes", "105", "x"), ("--classes", "2x", "x"),
                                       ("--budget", "0", "x"), ("--budget", "1T", "x"), ("--budget", "99999999999G", "x"),
                                       ("--budget", "-1", "x"), ("a", "b"), ("--none",)])
def test_wrong_arguments(tidepool, arguments):
    done = tidepool("fit", *arguments, check=False)
    assert done.returncode == 2 and not done.stdout and done.stderr.startswith("tidepool fit: ")


def test_what_is_no_recording(tidepool, tmp_path):
    for name, contents in (("empty", b""), ("text", b"hello\n" * 100)):
        (tmp_path / name).write_bytes(contents)
        done = tidepool("fit", tmp_path / name, check=False)
        assert done.returncode == 1 and not done.stdout and done.stderr.startswith(f"tidepool: fit: {tmp_path / name}: ")
    done = tidepool("fit", tmp_path / "none", check=False)
    assert done.returncode == 1 and done.stderr == f"tidepool: fit: {tmp_path / 'none'}: No such file or directory\n"
