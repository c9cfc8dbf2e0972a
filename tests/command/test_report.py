# SPDX-License-Identifier: MIT
"""tidepool report: the figures that processes have left, for people, as JSON and as metrics; and files that hold anything."""

import json
import os
import re
import subprocess

import pytest

SECONDS = 600
KIB, MIB = 1 << 10, 1 << 20
METRIC = re.compile(r'tidepool_\w+\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\} \d+')


def heap(name, **figures):
    keys = ("budget", "held_bytes", "peak_held_bytes", "live_bytes", "live_blocks", "cached_bytes", "idle_bytes",
            "metadata_bytes", "children_bytes", "exhausted_count", "retried_count", "overflowed_count", "purged_bytes",
            "free_bytes", "returned_bytes", "mapped_bytes", "advised_bytes")
    return {"name": name, **{key: figures.get(key, 0) for key in keys}}


def process(*heaps, pid=7, object_pools=()):
    return {"pid": pid, "heaps": list(heaps), "object_pools": list(object_pools), "refused_system_calls": 0}


@pytest.fixture(name="tidepool")
def fixture_tidepool(request):
    return os.path.abspath(request.config.getoption("--tidepool"))


@pytest.fixture(name="report")
def fixture_report(tidepool, tmp_path):
    def report(contents, *options):
        """Of what a file holds: bytes, or values that each have a line."""
        file = tmp_path / "figures"
        file.write_bytes(contents if isinstance(contents, bytes)
                         else b"".join(json.dumps(value).encode() + b"\n" for value in contents))
        return subprocess.run([tidepool, "report", *options, file], capture_output=True, timeout=SECONDS, check=False,
                              encoding="utf-8")
    return report


def rows(done):
    return [line.split() for line in done.stdout.splitlines()]


def test_what_run_has_written(tidepool, request, tmp_path):
    program = os.path.abspath(request.config.getoption("--program"))
    library = os.path.abspath(request.config.getoption("--library"))
    for _ in range(2):
        subprocess.run([tidepool, "run", "--library", library, "--stats", "figures", program, "elsewhere"], cwd=tmp_path,
                       check=True, timeout=SECONDS)
    done = subprocess.run([tidepool, "report", "figures"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS,
                          check=True)
    assert sum(line[0] == "process" for line in rows(done) if line) == 2
    assert sum(line[0] == "default" for line in rows(done) if line) == 2 and not done.stderr


def test_the_table(report):
    pool = {"name": "messages", "heap": "parser", "object_size": 64, "capacity": 0, "live": 5, "arrays": 1, "held_bytes": 2048}
    done = report([process(heap("small", held_bytes=1023), heap("parser", budget=4 * MIB, held_bytes=3 * MIB + MIB // 2,
                                                                live_bytes=100 * KIB, live_blocks=12, exhausted_count=3,
                                                                free_bytes=KIB, returned_bytes=2 * KIB, mapped_bytes=4 * MIB,
                                                                metadata_bytes=512),
                           object_pools=[pool])])
    assert done.returncode == 0 and not done.stderr
    assert rows(done) == [
        "process 7 has 4.00 MiB mapped: 100 KiB live, 0 B cached, 1.00 KiB free, 2.00 KiB returned, 512 B records".split(),
        "heap budget held peak live blocks cached free returned records children exhausted".split(),
        "parser 4.0 MiB 3.5 MiB 0 B 100 KiB 12 0 B 1.0 KiB 2.0 KiB 512 B 0 B 3".split(),   # the most first
        "small none 1023 B 0 B 0 B 0 0 B 0 B 0 B 0 B 0 B 0".split(),
        "object pool object capacity live arrays held heap".split(),
        "messages 64 B no limit 5 1 2.0 KiB parser".split()]


def test_columns_stand_below_their_heads(report):
    names = ("x", "größer", "a name of more than twenty-four characters")
    lines = report([process(*(heap(name, held_bytes=5) for name in names))]).stdout.splitlines()[1:]
    assert len({len(line) for line in lines[:3]}) == 1 and len(lines[3]) > len(lines[0])


def test_one_heap_alone_and_no_process(report):
    done = report([heap("alone", held_bytes=5)])
    assert rows(done)[1][0] == "alone" and done.returncode == 0


def test_standard_input(tidepool):
    done = subprocess.run([tidepool, "report", "-"], input=json.dumps(process(heap("piped"))), capture_output=True, text=True,
                          timeout=SECONDS, check=True)
    assert "piped" in done.stdout


def test_figures_of_another_version(report):
    """What is not known is passed over, and what is not there is not known."""
    done = report([{"pid": 1, "heaps": [{"name": "old", "held_bytes": 5, "later": [1]}], "more": {}}])
    assert rows(done)[2] == "old ? 5 B ? ? ? ? ? ? ? ? ?".split() and rows(done)[0] == ["process", "1"]
    assert done.returncode == 0
    assert report([{"pid": 1, "heaps": [{"name": "old", "held_bytes": 5}]}], "--prometheus").stdout.count("} 5\n") == 1


def test_a_name_is_not_obeyed_by_a_terminal(report):
    done = report([process(heap("\x1b[2Jx\x07\x7f\x9b1m\n"))])
    assert rows(done)[2][0] == "?[2Jx???1m?"


def test_json(report):
    values = [process(heap("a", held_bytes=1)), process(heap('"\\\n'), pid=8), heap("alone")]
    assert json.loads(report(values, "--json").stdout) == values


# ---- metrics ----

def metrics(done):
    """Each line is one, each metric has its type, and none comes twice."""
    assert not done.stderr and done.returncode == 0
    lines = done.stdout.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(METRIC.fullmatch(line) for line in samples)
    names = [line.rpartition(" ")[0] for line in samples]
    assert len(set(names)) == len(names)
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert {name.partition("{")[0] for name in names} <= typed
    return dict(line.rsplit(" ", 1) for line in samples)


def test_metrics(report):
    pool = {"name": "m", "heap": "h", "object_size": 64, "capacity": 9, "live": 5, "arrays": 1, "held_bytes": 2048}
    found = metrics(report([process(heap("h", live_bytes=5, exhausted_count=2), object_pools=[pool])], "--prometheus"))
    assert found['tidepool_heap_live_bytes{pid="7",heap="h"}'] == "5"
    assert found['tidepool_heap_exhausted_total{pid="7",heap="h"}'] == "2"
    assert found['tidepool_object_pool_live_objects{pid="7",object_pool="m",heap="h"}'] == "5"


def test_heaps_of_one_name_are_summed(report):
    found = metrics(report([process(*(heap(name, held_bytes=3) for name in "abaca"))], "--prometheus"))
    assert [found[f'tidepool_heap_held_bytes{{pid="7",heap="{name}"}}'] for name in "abc"] == ["9", "3", "3"]
    most = (1 << 63) - 1
    found = metrics(report([process(heap("a", held_bytes=most), heap("a", held_bytes=most))], "--prometheus"))
    assert found['tidepool_heap_held_bytes{pid="7",heap="a"}'] == str(most)


def test_the_last_of_a_number_counts(report):
    values = [process(heap("a", held_bytes=size), pid=pid) for size, pid in ((1, 5), (2, 6), (3, 5))]
    found = metrics(report(values, "--prometheus"))
    assert [found[f'tidepool_heap_held_bytes{{pid="{pid}",heap="a"}}'] for pid in (5, 6)] == ["3", "2"]


def test_two_libraries_of_a_process_are_one(report):
    pool = {"name": "m", "heap": "h", "object_size": 64, "capacity": 9, "live": 5, "arrays": 1, "held_bytes": 2048}
    own = {**process(heap("default", held_bytes=1), heap("h", held_bytes=2), object_pools=[pool]), "library": "libtidepool",
           "refused_system_calls": 7}
    malloc = {**process(heap("default", held_bytes=4)), "library": "libtidepool-malloc", "refused_system_calls": 2}
    other = {**process(heap("default", held_bytes=8), pid=9), "library": "libtidepool"}
    for lines in ([own, other, malloc], [malloc, other, own], [malloc, own, other]):
        done = report(lines)
        assert [line[1] for line in rows(done) if line and line[0] == "process"] == sorted(["7", "9"], key=lambda pid: (
            [line["pid"] for line in lines].index(int(pid))))
        found = metrics(report(lines, "--prometheus"))
        held = {(pid, name): found.get(f'tidepool_heap_held_bytes{{pid="{pid}",heap="{name}"}}')
                for pid in (7, 9) for name in ("default", "h", "malloc")}
        assert held == {(7, "default"): "1", (7, "h"): "2", (7, "malloc"): "4",
                        (9, "default"): "8", (9, "h"): None, (9, "malloc"): None}
        assert found['tidepool_object_pool_live_objects{pid="7",object_pool="m",heap="h"}'] == "5"
        said = json.loads(report(lines, "--json").stdout)
        assert sorted(sorted(line.get("libraries", [])) for line in said) == [[], ["libtidepool", "libtidepool-malloc"]]
        assert sorted(line["refused_system_calls"] for line in said) == [0, 9]
    others = [process(heap("x"), pid=pid) for pid in range(1000, 1200)]
    found = metrics(report([own, *others, malloc], "--prometheus"))   # of processes that ended meanwhile
    held = [found[f'tidepool_heap_held_bytes{{pid="7",heap="{name}"}}'] for name in ("default", "h", "malloc")]
    assert held == ["1", "2", "4"]
    alone = {**heap("default", held_bytes=32), "pid": 7, "library": "libtidepool-malloc"}   # of one heap
    assert len(json.loads(report([own, alone], "--json").stdout)) == len(json.loads(report([alone, own], "--json").stdout)) == 2
    # A number that was given to another process later.
    found = metrics(report([malloc, own, {**malloc, "heaps": [heap("default", held_bytes=16)]}], "--prometheus"))
    assert found['tidepool_heap_held_bytes{pid="7",heap="default"}'] == "16" and 'heap="h"' not in str(found)


def test_names_are_quoted(report):
    found = metrics(report([process(heap('a"b\\c\nd'), heap("x"))], "--prometheus"))
    assert 'tidepool_heap_held_bytes{pid="7",heap="a\\"b\\\\c\\nd"}' in found


def test_many_heaps(report):
    values = [process(*(heap(f"request {i}", held_bytes=i) for i in range(20000)))]
    assert len(metrics(report(values, "--prometheus"))) == 20000 * 17
    assert len(rows(report(values))) == 20002


# ---- files that hold anything ----

GOOD = json.dumps(process(heap("good"))).encode()


@pytest.mark.parametrize("line", (
    b"{", GOOD[:-1], GOOD[:40], b"[]", b"null", b"7", b'"text"', b"\xff", b"{}", b'{"heaps": 5}', b'{"heaps": {}}',
    b'{"heaps": [5]}', b'{"heaps": [{}]}', b'{"heaps": [{"name": 5}]}', b'{"heaps": [{"name": "a", "held_bytes": -1}]}',
    b'{"heaps": [{"name": "a", "held_bytes": 1.5}]}', b'{"heaps": [{"name": "a", "held_bytes": "1"}]}',
    b'{"heaps": [{"name": "a", "held_bytes": 18446744073709551616}]}', b'{"heaps": [], "object_pools": 5}',
    b'{"heaps": [], "object_pools": [{"name": "a", "live": null}]}', b'{"heaps": [{"name": "\\u0000"}]}', b"[" * 100000,
    b'{"heaps":' * 10000, b"\x00", b"\x7fELF\x02\x01", GOOD + GOOD, b'{"heaps": [{"name": "\xff"}]}'),
    ids=lambda line: repr(line[:50]))
def test_a_bad_line_is_said_and_the_others_are_printed(report, line):
    for form in ([], ["--json"], ["--prometheus"]):
        done = report(GOOD + b"\n\n" + line + b"\n" + GOOD, *form)
        assert done.returncode == 1 and "good" in done.stdout
        assert re.fullmatch(r"tidepool: report: .*/figures: line 3: [^\n]+\n", done.stderr), done.stderr


def test_nothing_in_it(report):
    done = report(b" \n\n")
    assert done.returncode == 1 and re.fullmatch(r"tidepool: report: .*/figures: nothing is in it\n", done.stderr)


def test_usage_and_files_that_cannot_be_read(tidepool, tmp_path):
    def run(*arguments, **more):
        return subprocess.run([tidepool, "report", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False,
                              **more)
    for arguments in ([], ["a", "b"], ["--xml", "a"]):
        assert run(*arguments).returncode == 2
    done = run(tmp_path / "none")
    assert (done.returncode, done.stderr) == (125, f"tidepool: report: {tmp_path}/none: No such file or directory\n")
    assert run(tmp_path).returncode == 125
    assert run("--help").stdout.startswith("Usage: tidepool report")


def test_a_full_disk(tidepool, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no full device")
    (tmp_path / "figures").write_bytes(GOOD)
    for form in ([], ["--json"], ["--prometheus"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([tidepool, "report", *form, tmp_path / "figures"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=SECONDS, check=False)
        assert done.returncode == 125 and len(done.stderr.splitlines()) == 1
