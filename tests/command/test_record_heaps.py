# SPDX-License-Identifier: MIT
"""Recordings of heaps and object pools: of a program that tidepool record starts, and of one that is linked with the recorder
and begins recordings itself."""

import json
import os
import re
import subprocess

import pytest

SECONDS = 600
NO_HEAP = 'there is no heap or object pool "none" in it; tidepool show lists them\n'
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
HEAP_ROW = re.compile(r"^ +([\d.]+ \w+) +(\d+) +([\d.]+ \w+) +(\d+) +([\d.]+ \w+) +(\d+)  (.+)$", re.M)

# Bytes and blocks at the end, and how many were allocated.
SESSIONS = (2500, 13, 16)
MESSAGES = (336, 7, 29)
USED = {
    "sessions": SESSIONS,
    "messages (object pool)": MESSAGES,
    "evicting (object pool)": (160, 2, 20),
    "request": (0, 0, 50),
    "default": (270, 5, 11),
    "doomed": (0, 0, 1),
    "doomed too (object pool)": (0, 0, 8),
}


@pytest.fixture(name="programs")
def fixture_programs(request):
    return {name: os.path.abspath(request.config.getoption(f"--{name}"))
            for name in ("tidepool", "recorded-heaps", "recorded-heaps-start", "recorded-starts", "recorded-any")}


@pytest.fixture(name="run")
def fixture_run(programs):
    def run(program, *arguments):
        own = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "TIDEPOOL_OPTIONS")}
        done = subprocess.run([programs[program], *map(str, arguments)], env=own, capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout
    return run


@pytest.fixture(name="facts")
def fixture_facts(programs):
    """What lacks in it is said on standard error, and in the facts."""
    def facts(file):
        done = subprocess.run([programs["tidepool"], "replay", "--check", "--json", file], capture_output=True, text=True,
                              timeout=SECONDS, check=True)
        return json.loads(done.stdout)
    return facts


def about(amount):
    number, unit = amount.split()
    return float(number) * UNITS[unit]


def heaps_of(text):
    return {row[6]: (about(row[2]), int(row[3]), int(row[5])) for row in HEAP_ROW.findall(text)}


@pytest.fixture(name="heaps")
def fixture_heaps(run):
    """What show says of each heap: bytes and blocks at the end, and how many blocks in all. Bytes are rounded."""
    def heaps(file):
        return heaps_of(run("tidepool", "show", "-n", "0", file))
    return heaps


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, (end, blocks, allocated) in wanted.items():
        assert found[name][1:] == (blocks, allocated), name
        assert abs(found[name][0] - end) <= end * 0.01, name


def is_whole(found):
    return found["unknown_frees"] == found["missed_frees"] == found["damaged_parts"] == 0 and not found["lacks"]


def test_each_heap_has_what_was_done_in_it(run, programs, heaps, facts, tmp_path):
    run("tidepool", "record", "-o", tmp_path / "a", "--frames", 1, programs["recorded-heaps"], "use")
    found = facts(tmp_path / "a")
    assert is_whole(found) and found["failed"] == 1
    assert (found["end_bytes"], found["end_blocks"]) == (sum(w[0] for w in USED.values()), sum(w[1] for w in USED.values()))
    same({name: row for name, row in heaps(tmp_path / "a").items() if name != "malloc"}, USED)


def test_what_is_shown_is_by_heap(run, programs, heaps, tmp_path):
    run("tidepool", "record", "-o", tmp_path / "a", programs["recorded-heaps"], "use")
    text = run("tidepool", "show", tmp_path / "a")
    at_end = text.split("live at the end: ")[1].split("allocated: ")[0]
    lines = [line for line in at_end.splitlines()[1:] if line]
    assert any('heap "sessions"' in line for line in lines) and any('object pool "messages"' in line for line in lines)
    assert "doomed" not in at_end
    only = heaps_of(run("tidepool", "show", "--heap", "messages", "-n", "0", tmp_path / "a"))
    same(only, {"messages (object pool)": MESSAGES})
    assert heaps(tmp_path / "a").keys() >= set(USED)
    run("tidepool", "show", "-o", tmp_path / "a.html", tmp_path / "a")
    page = (tmp_path / "a.html").read_text()
    assert "Heaps and object pools" in page and "messages (object pool)" in page and page.count("class='area heap") >= 5
    assert "heap \\u0022sessions\\u0022" in page
    done = subprocess.run([programs["tidepool"], "show", "--heap", "none", tmp_path / "a"], capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert done.returncode == 1 and done.stderr.endswith(NO_HEAP)


def test_what_has_grown_is_by_heap(run, programs, tmp_path):
    for name in "a", "b":
        run("tidepool", "record", "-o", tmp_path / name, programs["recorded-heaps"], "use" if name == "a" else "threads")
    text = run("tidepool", "diff", tmp_path / "a", tmp_path / "b")
    assert 'heap "shared"' in text and 'object pool "messages"' in text


def test_threads_reset_their_heaps(run, programs, heaps, facts, tmp_path):
    run("tidepool", "record", "-o", tmp_path / "a", "--frames", 1, programs["recorded-heaps"], "threads")
    found, by_heap = facts(tmp_path / "a"), heaps(tmp_path / "a")
    assert is_whole(found)
    assert by_heap["shared"][1:] == (0, 4 * 13333) and by_heap["of a thread"][1:] == (0, 4 * 6667)


def test_what_is_replayed_is_what_was_live(run, programs, facts, tmp_path):
    run("tidepool", "record", "-o", tmp_path / "a", "--frames", 1, programs["recorded-heaps"], "use")
    found = facts(tmp_path / "a")
    replayed = json.loads(run("tidepool", "replay", "--json", "--runs", 1, "--with", "glibc", tmp_path / "a"))
    assert found["peak_bytes"] and str(found["end_bytes"]) in json.dumps(replayed)


def test_fit_is_for_one_heap(run, programs, tmp_path):
    run("tidepool", "record", "-o", tmp_path / "a", "--frames", 1, programs["recorded-heaps"], "use")
    text = run("tidepool", "fit", "--heap", "messages", tmp_path / "a")
    assert "size_classes[] = {48};" in text
    done = subprocess.run([programs["tidepool"], "fit", "--heap", "none", tmp_path / "a"], capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tidepool: fit: {tmp_path}/a: {NO_HEAP}"


# ---- a program that begins and ends them ----

def test_one_that_begins_late_knows_what_was_there(run, heaps, facts, tmp_path):
    run("recorded-heaps-start", "late", tmp_path / "a")
    found = facts(tmp_path / "a")
    assert is_whole(found) and found["failed"] == 1
    same({name: row for name, row in heaps(tmp_path / "a").items() if name != "malloc"}, USED)


def test_one_heap_alone(run, heaps, facts, tmp_path):
    run("recorded-heaps-start", "heap", tmp_path / "a")
    assert is_whole(facts(tmp_path / "a"))
    same(heaps(tmp_path / "a"), {"sessions": SESSIONS})


def test_one_object_pool_alone(run, heaps, facts, tmp_path):
    run("recorded-heaps-start", "object-pool", tmp_path / "a")
    assert is_whole(facts(tmp_path / "a"))
    same(heaps(tmp_path / "a"), {"messages (object pool)": MESSAGES})


def test_one_object_pool_alone_ends_with_its_heap(run, heaps, facts, tmp_path):
    run("recorded-heaps-start", "pool-of-heap", tmp_path / "a")
    found = heaps(tmp_path / "a")
    assert list(found) == ["first (object pool)"] and found["first (object pool)"][1:] == (0, 10)
    assert is_whole(facts(tmp_path / "a"))


def test_realloc_to_nothing(run, facts, tmp_path):
    run("recorded-heaps-start", "empty", tmp_path / "a")
    found = facts(tmp_path / "a")
    assert is_whole(found) and found["end_bytes"] >= 54321   # SLOT_BYTES


@pytest.mark.parametrize("what", ["after", "after-close"])
def test_a_file_after_its_recording(run, what, tmp_path):
    run("recorded-heaps-start", what, tmp_path / "a")


def test_one_after_the_other_while_threads_are_at_work(run, heaps, facts, tmp_path):
    run("recorded-heaps-start", "often", tmp_path / "a")
    for i in range(10):
        found = facts(tmp_path / f"a.{i}")
        # What a thread had when it began is freed in it: at most two blocks of each.
        assert found["unknown_frees"] <= 8 and found["missed_frees"] == found["damaged_parts"] == 0 and not found["lacks"]
        assert found["end_blocks"] <= 9 and heaps(tmp_path / f"a.{i}")["sessions"][2] >= 1


def test_a_child_is_not_recorded(run, facts, tmp_path):
    run("recorded-heaps-start", "fork", tmp_path / "a")
    parent, child = facts(tmp_path / "a"), facts(tmp_path / "a.child")
    assert (parent["end_bytes"], parent["end_blocks"]) == (33333, 1)
    assert (child["end_bytes"], child["end_blocks"]) == (22222, 1)


@pytest.mark.parametrize("what", ["late-destructors", "last-words", "brief-threads", "cancellation", "handlers", "files"])
def test_bad_moments(run, what, tmp_path):
    run("recorded-starts", what, tmp_path / "a")


@pytest.mark.parametrize("what", ["full", "one-heap", "in-the-middle"])
def test_what_comes_after_a_bad_moment(programs, facts, what, tmp_path):
    done = subprocess.run([programs["recorded-starts"], what, tmp_path / "a"], capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    found = facts(tmp_path / "a")
    assert done.returncode == 0, done.stderr
    assert f'{found["end_bytes"]} {found["end_blocks"]}\n' == done.stdout and is_whole(found)


@pytest.mark.parametrize("seed", range(6))
def test_anything_at_all(run, programs, facts, seed, tmp_path):
    """What is live at the end is what the program has counted, to the byte, with no free too many or too few."""
    counted = run("tidepool", "record", "-o", tmp_path / "a", "--frames", 1, programs["recorded-any"], seed, 20000)
    found = facts(tmp_path / "a")
    assert f'{found["end_bytes"]} {found["end_blocks"]}\n' == counted
    assert found["unknown_frees"] == found["missed_frees"] == found["damaged_parts"] == 0


@pytest.mark.parametrize("how", ["recorded", "preloaded"])
def test_plug_ins_with_libraries_of_their_own(request, programs, facts, how, tmp_path):
    """What one has allocated goes back to it, and the loader is not waited for."""
    modules = [os.path.abspath(path) for path in request.config.getoption("--recorded-module")]
    program = os.path.abspath(request.config.getoption("--recorded-modules"))
    recorder = os.path.join(os.path.dirname(programs["tidepool"]), "../record/libtidepool-record.so.0")
    command = [programs["tidepool"], "record", "-o", tmp_path / "a", "--frames", "1"] if how == "recorded" else []
    env = {**os.environ, "LD_PRELOAD": "" if how == "recorded" else recorder}
    done = subprocess.run([*command, program, *modules], env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    if how == "recorded":
        found = facts(tmp_path / "a")
        assert found["unknown_frees"] == found["missed_frees"] == 0


def test_a_heap_where_another_was(run, heaps, tmp_path):
    run("recorded-heaps-start", "again", tmp_path / "a")
    found = heaps(tmp_path / "a")
    assert found["first"][1:] == (0, 100) and found["second"][1:] == (10, 10)


def test_files_that_cannot_be_recorded_to(run):
    run("recorded-heaps-start", "wrongly")


def test_a_recording_of_the_command_goes_on(programs, tmp_path):
    done = subprocess.run([programs["tidepool"], "record", "-o", tmp_path / "a", programs["recorded-heaps-start"], "late",
                           tmp_path / "b"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1 and done.stderr.startswith("recorded-heaps: line ")   # the program's own check: EBUSY
