# SPDX-License-Identifier: MIT
"""tidepool record and replay: what is recorded of programs whose operations are known, and what is made of it."""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys

import pytest

SECONDS = 600
CHUNK = 64 << 10
THREADS = 4   # of recorded.c


@pytest.fixture(name="tools")
def fixture_tools(request):
    return {name: os.path.abspath(request.config.getoption(f"--{name}"))
            for name in ("tidepool", "program", "static-program", "own-malloc", "library", "recorded", "recorded-cpp",
                         "recorded-cpp-replaced")
            if request.config.getoption(f"--{name}")}


@pytest.fixture(name="tidepool")
def fixture_tidepool(tools):
    def tidepool(command, *arguments, env=None, **more):
        own = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "TIDEPOOL_OPTIONS")}
        return subprocess.run([tools["tidepool"], command, *map(str, arguments)], env={**own, **(env or {})},
                              capture_output=True, text=True, timeout=SECONDS, check=False, **more)
    return tidepool


@pytest.fixture(name="facts")
def fixture_facts(tidepool):
    """What replay --check says is in a recording."""
    def facts(file):
        done = tidepool("replay", "--check", "--json", file)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    return facts


@pytest.fixture(name="recorded")
def fixture_recorded(tidepool, facts, tools, tmp_path):
    """Records a run of the test's program, and says what is in the recording."""
    def recorded(*arguments, status=0, frames=1, file=tmp_path / "recording", program=tools["recorded"], stderr="", **more):
        done = tidepool("record", "-o", file, "--frames", frames, program, *arguments, **more)
        assert (done.returncode, done.stderr) == (status, stderr)
        return facts(file)
    return recorded


def is_whole(found):
    return found["unknown_frees"] == found["missed_frees"] == found["damaged_parts"] == 0 and not found["lacks"]


def difference(recorded, what, rounds, **more):
    """What a number of rounds adds to none."""
    none, some = recorded(*what, 0, **more), recorded(*what, rounds, **more)
    assert is_whole(none) and is_whole(some), (none, some)
    return tuple(some[key] - none[key] for key in ("events", "end_blocks", "end_bytes"))


# ---- what programs did ----

def test_each_operation_is_there(recorded):
    rounds = 2000
    # of each round 4 allocations, 2 realloc, 3 free, a block handed over with its free, and one that stays
    assert difference(recorded, ["known"], rounds) == (THREADS * rounds * 11, THREADS * rounds, THREADS * rounds * 24)


@pytest.mark.parametrize("frames", (0, 16, 32))
def test_stacks_change_nothing(recorded, frames):
    assert difference(recorded, ["known"], 100, frames=frames) == (THREADS * 1100, THREADS * 100, THREADS * 2400)


@pytest.mark.parametrize("program", ("recorded-cpp", "recorded-cpp-replaced"))
def test_operators_of_cpp(recorded, tools, program):
    """Also where the program has some of them, which those of the library call."""
    if program not in tools:
        pytest.skip("there is no compiler of C++")
    assert difference(recorded, [], 1000, program=tools[program]) == (11000, 1000, 10000)


def test_blocks_that_go_round(recorded, tidepool, tmp_path):
    """Where one thread's old block is another's new one, the order is that of the addresses."""
    found = recorded("exchange", 100000)
    assert is_whole(found) and found["threads"] == THREADS + 1
    done = tidepool("replay", "--runs", 1, "--json", tmp_path / "recording")
    assert done.returncode == 0 and json.loads(done.stdout)["allocators"][0]["is_exact"]


def test_threads_that_come_and_go(recorded):
    found = recorded("threads", 1000)
    none = recorded("threads", 0)
    assert is_whole(found) and found["threads"] == 1001 and found["end_blocks"] - none["end_blocks"] >= 1000
    assert found["events"] - none["events"] >= 7000 and found["file_bytes"] <= 10 * CHUNK


def test_what_a_child_does_is_not_the_programs(recorded):
    found, other = recorded("fork", 1000), recorded("fork", 0)
    assert found["end_bytes"] == other["end_bytes"] and is_whole(found)


@pytest.mark.parametrize("folder", ["here", "100%p%%"])
def test_each_process_has_a_file(tidepool, facts, tools, tmp_path, folder):
    tmp_path = tmp_path / folder
    tmp_path.mkdir()
    done = tidepool("record", "--frames", 0, "-o", "of.%p", tools["recorded"], "fork", 1000, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    parent, child = sorted((facts(path) for path in tmp_path.iterdir()), key=lambda found: found["end_bytes"])
    assert child["end_bytes"] >= 1000 * 1000 > parent["end_bytes"] and parent["pid"] != child["pid"]
    assert child["recording"].endswith(f".{child['pid']}") and not child["lacks"] and not parent["lacks"]


def test_a_name_that_becomes_too_long(tidepool, tools):
    done = tidepool("record", "-o", "%p" * 900, tools["recorded"], "fork", 1)
    assert done.returncode == 125 and done.stderr.endswith("File name too long\n")


def test_the_last_program_of_a_process_is_recorded(recorded):
    assert recorded("exec", 5000)["events"] == recorded("exec", 5)["events"]


def test_a_program_that_is_killed(recorded):
    found = recorded("kill", 50000, status=-signal.SIGKILL)
    assert found["events"] >= 100000 and found["damaged_parts"] == 0
    assert found["lacks"] == "the program did not end by exit(): it was killed, or goes on"


def test_a_program_that_closes_all_descriptors(recorded, tmp_path):
    resource_of = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource_of[0] < 1000:
        pytest.skip("a process can have few files here")
    found = recorded("closes", 100000, tmp_path / "own")
    assert is_whole(found) and found["events"] >= 200000


def test_handlers_of_signals(recorded):
    found, none = recorded("signals", 1000), recorded("signals", 0)
    assert is_whole(found) and found["events"] - none["events"] == 4000


def test_a_request_that_fails(recorded):
    assert recorded("fails", 0)["failed"] == 1


def test_a_disk_that_is_full(tidepool, facts, tools, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 * CHUNK, 3 * CHUNK))
    file = tmp_path / "recording"
    done = tidepool("record", "-o", file, "--frames", 0, tools["recorded"], "pairs", 100000, preexec_fn=limit)
    line = f"tidepool: record: {file}: File too large; the recording ends here\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", line)
    found = facts(file)
    assert found["lacks"] == "it ended before the program: File too large" and found["events"] > 10000


def test_a_small_disk(tidepool, facts, tools, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root can mount")
    try:
        done = tidepool("record", "-o", folder / "file", "--frames", 0, tools["recorded"], "pairs", 200000)
        line = f"tidepool: record: {folder}/file: No space left on device; the recording ends here\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", line)
        assert facts(folder / "file")["lacks"] == "it ended before the program: No space left on device"
    finally:
        subprocess.run(["umount", folder], check=True)


def test_bytes_of_an_event(recorded):
    found = recorded("pairs", 600000, frames=16)
    assert found["events"] >= 1200000 and found["file_bytes"] <= 12 * found["events"]


# ---- tidepool record ----

def test_the_usual_file(tidepool, tools, tmp_path):
    done = tidepool("record", tools["program"], "42", cwd=tmp_path)
    assert done.returncode == 42 and not done.stderr and (tmp_path / "tidepool.recording").stat().st_mode & 0o777 == 0o600


def test_arguments_are_the_programs(tidepool, tools, tmp_path):
    done = tidepool("record", "--", tools["program"], "arguments", "-o", "--frames", "a b", cwd=tmp_path)
    assert done.stdout.split("\n")[:-1] == ["-o", "--frames", "a b"] and not done.stderr


def test_the_environment(tidepool, tools, tmp_path):
    done = tidepool("record", "--library", tools["library"], "/usr/bin/env", cwd=tmp_path, env={"LD_PRELOAD": "/lib/none.so"})
    preloaded = next(line for line in done.stdout.splitlines() if line.startswith("LD_PRELOAD=")).split("=")[1].split(":")
    assert "libtidepool-record.so" in preloaded[0] and preloaded[1:] == [os.path.realpath(tools["library"]), "/lib/none.so"]


@pytest.mark.parametrize("arguments", (
    ["--frames", "65", "true"], ["--frames", "-1", "true"], ["--frames", "many", "true"], ["--no-such-option", "true"], [],
    ["-o"],
), ids=str)
def test_wrong_arguments(tidepool, tmp_path, arguments):
    done = tidepool("record", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("tidepool record: ") and len(done.stderr.splitlines()) in (2, 3)   # where there is help


@pytest.mark.parametrize("make, why", (
    (lambda path: path.mkdir(), "Is a directory"), (os.mkfifo, "it is no file of a disk"),
    (lambda path: path.symlink_to("other"), "it is a symbolic link"),
), ids=("folder", "fifo", "link"))
def test_files_that_cannot_be_written(tidepool, tools, tmp_path, make, why):
    make(tmp_path / "file")
    done = tidepool("record", "-o", tmp_path / "file", tools["program"])
    assert (done.returncode, done.stdout, done.stderr) == (125, "", f"tidepool: record: {tmp_path}/file: {why}\n")


def test_a_folder_that_is_not_there(tidepool, tools, tmp_path):
    done = tidepool("record", "-o", tmp_path / "none/file", tools["program"])
    assert done.returncode == 125 and done.stderr == f"tidepool: record: {tmp_path}/none/file: No such file or directory\n"


def test_programs_that_keep_their_malloc(tidepool, tools, tmp_path):
    done = tidepool("record", tools["own-malloc"], "0", cwd=tmp_path)
    assert done.returncode == 0
    why = "keeps its own malloc: it has a malloc of its own, which comes first"
    assert done.stderr == f"tidepool: record: {tools['own-malloc']} {why}\n"
    assert tidepool("record", "no-such-program", cwd=tmp_path).returncode == 127


# ---- tidepool replay ----

def test_what_is_in_it(tidepool, recorded, tools, tmp_path):
    recorded("known", 10)
    done = tidepool("replay", "--check", tmp_path / "recording")
    words = dict(line.split("  ", 1) for line in done.stdout.splitlines() if "  " in line)
    assert words["command"].strip() == f"{tools['recorded']} known 10" and words["threads"].strip() == str(THREADS + 1)
    assert "live at the peak" in done.stdout and not done.stderr


def replayed(tidepool, file, *arguments):
    done = tidepool("replay", "--json", *arguments, file)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_other_allocators(tidepool, recorded, tools, tmp_path):
    recorded("known", 500)
    found = replayed(tidepool, tmp_path / "recording", "--runs", 2, "--with", f"tidepool,glibc,{tools['library']}")
    assert [allocator["name"] for allocator in found["allocators"]] == ["tidepool", "glibc", tools["library"]]
    for allocator in found["allocators"]:
        assert allocator["is_exact"] and len(allocator["runs"]) == 2 and allocator["calls_ns"] > 0
        assert allocator["p50_ns"] <= allocator["p99_ns"] <= allocator["p99_9_ns"] <= allocator["longest_ns"]
        assert allocator["peak_resident_bytes"] >= found["peak_bytes"] / 2 and allocator["page_faults"] > 0
    assert "libc." in found["allocators"][1]["library"] and "tidepool" in found["allocators"][0]["library"]
    assert found["allocators"][0]["calls_ns_ratio"] == 1


@pytest.mark.parametrize("name", ("jemalloc", "mimalloc", "tcmalloc"))
def test_allocators_of_the_system(tidepool, recorded, tmp_path, name):
    recorded("known", 100)
    done = tidepool("replay", "--runs", 1, "--with", name, "--json", tmp_path / "recording")
    if done.returncode == 125 and "is not there: the loader finds no lib" in done.stderr:
        pytest.skip(f"there is no {name}")
    assert done.returncode == 0 and json.loads(done.stdout)["allocators"][0]["is_exact"], done.stderr


def test_the_table(tidepool, recorded, tmp_path):
    recorded("threads", 300)
    done = tidepool("replay", "--runs", 1, "--with", "tidepool", "--with", "glibc", tmp_path / "recording")
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("301 threads, ") and [line.split()[0] for line in lines[4:6]] == ["tidepool", "glibc"]
    assert lines[-1].endswith(", as recorded, in each run") and max(map(len, lines[1:])) <= 128


@pytest.mark.parametrize("program", ("python", "lua"))
def test_programs_are_replayed_exactly(tidepool, facts, tmp_path, program):
    file = tmp_path / "recording"
    texts = {"python": "import json; json.loads(json.dumps([{'a': i, 'b': str(i)} for i in range(20000)]))",
             "lua": "local t = {} for i = 1, 50000 do t[i] = {i, tostring(i) .. 'x'} end"}
    path = sys.executable if program == "python" else shutil.which("lua5.4") or shutil.which("lua")
    if not path:
        pytest.skip(f"there is no {program}")
    flag = "-c" if program == "python" else "-e"
    done = tidepool("record", "-o", file, "--frames", 1, path, flag, texts[program], env={"PYTHONMALLOC": "malloc"})
    assert done.returncode == 0, done.stderr
    found = facts(file)
    assert is_whole(found) and found["events"] > 50000
    again = replayed(tidepool, file, "--runs", 1, "--with", "tidepool,glibc")
    assert all(allocator["is_exact"] and allocator["end_bytes"] == found["end_bytes"] for allocator in again["allocators"])


def test_redis(tidepool, facts, tmp_path):
    """Debian's package of the benchmark has the server, too, by another name."""
    server = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if not server or not shutil.which("redis-benchmark"):
        pytest.skip("there is no redis")
    (tmp_path / "redis-server").symlink_to(server)
    script = f"""{tmp_path}/redis-server --save '' --port 0 --unixsocket s --io-threads 4 >log & server=$!
                 for i in $(seq 100); do [ -S s ] && break; sleep .1; done
                 redis-benchmark -s s -n 20000 -P 8 -q -t set,lpush,hset >/dev/null
                 redis-cli -s s shutdown nosave; wait $server"""
    done = tidepool("record", "-o", "of.%p", "--frames", 1, "sh", "-c", script, cwd=tmp_path)
    if "Invalid" in done.stderr or not (tmp_path / "log").read_text().strip():
        pytest.skip("redis does not run here")
    largest = max(tmp_path.glob("of.*"), key=lambda path: path.stat().st_size)
    assert is_whole(facts(largest)), facts(largest)
    assert replayed(tidepool, largest, "--runs", 1, "--with", "tidepool,glibc")["allocators"][0]["is_exact"]


@pytest.mark.parametrize("arguments", (
    [], ["--runs", "0", "x"], ["--runs", "1001", "x"], ["--with"], ["a", "b"], ["--walk", "x"],
), ids=str)
def test_wrong_arguments_of_replay(tidepool, arguments):
    done = tidepool("replay", *arguments)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("tidepool replay: ") and len(done.stderr.splitlines()) in (2, 3)   # where there is help


def test_allocators_that_are_none(tidepool, recorded, tools, tmp_path):
    recorded("known", 1)
    for name, why in (("malloc", "is none of tidepool, glibc, "), (f"{tmp_path}/none", "No such file"),
                      (tools["tidepool"], "is no malloc that can be preloaded")):
        done = tidepool("replay", "--with", name, tmp_path / "recording")
        assert done.returncode == 125 and why in done.stderr and len(done.stderr.splitlines()) == 1


# ---- files ----

def test_the_table_of_events_is_that_of_the_header():
    root = pathlib.Path(__file__).parents[2]
    header = (root / "tools/record/recording.h").read_text()
    operations = re.search(r"typedef enum recording_op \{(.*?)\} recording_op_t", header, re.S)
    count = len(re.findall(r"^  RECORDING_\w+,", operations[1], re.M)) - 1   # without that of the end
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", (root / "docs/recording.md").read_text().split("## Events")[1], re.M)
    assert [int(number) for number, _ in rows] == list(range(1, count + 1))


def refused(tidepool, file, why):
    done = tidepool("replay", "--check", file)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"tidepool: replay: {file}: {why}\n")
    assert tidepool("replay", file).stderr == f"tidepool: replay: {file}: {why}\n"


def test_files_that_are_no_recordings(tidepool, recorded, tmp_path):
    recorded("known", 10)
    good = (tmp_path / "recording").read_bytes()
    file = tmp_path / "bad"
    refused(tidepool, file, "No such file or directory")
    for contents, why in ((b"", "it is empty"), (b"tide", "it is no recording"), (b"#!/bin/sh\n" * 100, "it is no recording"),
                          (good[:8] + good[11:7:-1] + good[12:], "it was recorded on a machine of another byte order"),
                          (good[:12] + struct.pack("=I", 77) + good[16:],
                           "it is a recording of version 77, and this program reads version 1")):
        file.write_bytes(contents)
        refused(tidepool, file, why)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    refused(tidepool, fifo, "it is no file of a disk")
    refused(tidepool, tmp_path, "it is no file of a disk")


def test_a_command_is_no_terminals(tidepool, tools, tmp_path):
    """What a terminal would obey, and what is no text, is not printed."""
    words = [b"\x1b[31m", b"\xc2\x9b31m", b"\xff\xc3", "\u00e9\u20ac".encode(), b"\"\\"]
    done = subprocess.run([tools["tidepool"], "record", tools["program"], "arguments", *words], cwd=tmp_path, check=False,
                          capture_output=True)
    assert done.returncode == 0
    found = json.loads(tidepool("replay", "--check", "--json", tmp_path / "tidepool.recording").stdout)
    assert found["command"].split(" ")[2:] == ["?[31m", "??31m", "??", "\u00e9\u20ac", "\"\\"]


def test_files_that_are_cut_off(tidepool, recorded, tmp_path):
    whole = recorded("pairs", 60000)
    good = (tmp_path / "recording").read_bytes()
    file = tmp_path / "cut"
    for length in (CHUNK + 1000, 3 * CHUNK - 1, 2 * CHUNK + 5):
        file.write_bytes(good[:length])
        done = tidepool("replay", "--check", "--json", file)
        found = json.loads(done.stdout)
        assert done.returncode == 0 and 0 < found["events"] < whole["events"]
        assert done.stderr.startswith(f"tidepool: replay: {file}: the file is cut off") and len(done.stderr.splitlines()) == 1
    file.write_bytes(good[:-CHUNK])
    assert f"{file}: the file is cut off; parts that are missing: 1" in tidepool("show", file).stderr
    file.write_bytes(good[:CHUNK])
    refused_by_replay = tidepool("replay", file)
    assert refused_by_replay.returncode == 1 and "there is no event in it" in refused_by_replay.stderr


def test_a_part_that_is_missing(tidepool, recorded, tmp_path):
    """In the middle of a stream, and at its end."""
    whole = recorded("pairs", 60000)
    file = tmp_path / "recording"
    good = file.read_bytes()
    assert not whole["missing_parts"] and len(good) > 4 * CHUNK
    for part in (2, len(good) // CHUNK - 1):
        file.write_bytes(good[:part * CHUNK] + bytes(CHUNK) + good[(part + 1) * CHUNK:])
        done = tidepool("replay", "--check", "--json", file)
        assert json.loads(done.stdout)["missing_parts"] == 1
        assert done.stderr == f"tidepool: replay: {file}: parts that are missing: 1\n"
    recorded("kill", 60000, status=-signal.SIGKILL)   # its head has no end, and says how many parts there were all the same
    killed = file.read_bytes()
    last = max(at for at in range(0, len(killed), CHUNK) if any(killed[at:at + 64]))
    file.write_bytes(killed[:last] + bytes(CHUNK) + killed[last + CHUNK:])
    assert json.loads(tidepool("replay", "--check", "--json", file).stdout)["missing_parts"] == 1
    numberless = good[:CHUNK + 20] + bytes(4) + good[CHUNK + 24:-CHUNK] + bytes(CHUNK)
    file.write_bytes(numberless) # one without a number does not make it an older recorder's
    found = json.loads(tidepool("replay", "--check", "--json", file).stdout)
    assert found["missing_parts"] + found["damaged_parts"] >= 1
    file.write_bytes(good[:2 * CHUNK] + good[CHUNK:])
    assert json.loads(tidepool("replay", "--check", "--json", file).stdout)["damaged_parts"] >= 1


def test_a_damaged_part(tidepool, recorded, tmp_path):
    """What is in the others is read."""
    whole = recorded("pairs", 60000)
    file = tmp_path / "recording"
    good = bytearray(file.read_bytes())
    good[2 * CHUNK + 1000:2 * CHUNK + 1040] = b"\xff" * 40
    file.write_bytes(good)
    done = tidepool("replay", "--check", "--json", file)
    found = json.loads(done.stdout)
    assert done.returncode == 0 and 1 <= found["damaged_parts"] and whole["events"] / 2 < found["events"] < whole["events"]
    assert "could not be read to their end" in done.stderr
    again = json.loads(tidepool("replay", "--runs", 1, "--json", file).stdout)
    assert again["allocators"][0]["is_exact"]


def test_a_file_that_is_a_hole(tidepool, recorded, tmp_path):
    recorded("known", 10)
    os.truncate(tmp_path / "recording", 1 << 42)
    assert tidepool("replay", "--check", tmp_path / "recording").returncode == 0
