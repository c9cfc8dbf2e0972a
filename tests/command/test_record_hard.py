# SPDX-License-Identifier: MIT
"""tidepool record and programs that a recorder could well bring down; and what is said of recordings that are odd."""

import json
import os
import re
import resource
import shutil
import struct
import subprocess
import time

import pytest

from sharing import SECONDS, fixture_tidepool   # pylint: disable=unused-import

PART = 64 << 10
STARTED = 24   # where the head says when the recording began


@pytest.fixture(name="record")
def fixture_record(request, tidepool, tmp_path):
    """Records the hard program, which ends with 0 by itself."""
    library, hard = (os.path.abspath(request.config.getoption(name)) for name in ("--library", "--recorded-hard"))

    def record(*words, options=(), status=0, **more):
        done = tidepool("record", "--library", library, "-o", tmp_path / "recording", *options, hard, *words, check=False,
                        **more)
        assert done.returncode == status, done.stderr
        return done
    record.hard, record.library, record.file = hard, library, tmp_path / "recording"
    return record


@pytest.mark.parametrize("frames", (0, 1, 16))
@pytest.mark.parametrize("what", ("fork", "loader", "cancel", "daemon", "closes"))
def test_hard_programs(record, what, frames):
    assert not record(what, options=("--frames", frames)).stderr


def test_a_program_whose_names_lead_to_those_of_the_c_library(request, tidepool, record):
    program = os.path.abspath(request.config.getoption("--recorded-own-names"))
    done = tidepool("record", "--library", record.library, "-o", record.file, program, "use")
    assert "keeps its own malloc" in done.stderr


@pytest.mark.skipif(not shutil.which("addr2line"), reason="addr2line is not here")
def test_a_library_that_another_thread_used_first(request, tidepool, record):
    record("later", request.config.getoption("--recorded-plugs").split(",")[0])
    assert re.search(r" 100  plug_first < allocate < use_after_another", tidepool("show", "-n", 50, record.file).stdout)


def test_children_of_handlers_with_files_of_their_own(record, tmp_path):
    record("fork", options=("-o", tmp_path / "of.%p"))
    assert list(tmp_path.glob("of.*"))


def test_a_daemon_with_few_descriptors(record):
    record("daemon", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60)))


def test_a_plug_in_that_waits_for_a_thread(request, record, tmp_path):
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    (tmp_path / "plug.cpp").write_text("#include <thread>\nstatic struct S { S() { std::thread t([] {}); t.join(); } } s;\n"
                                       'extern "C" void allocate(int) {}\n')
    subprocess.run(["g++", "-shared", "-fPIC", "-pthread", "-o", "plug.so", "plug.cpp"], cwd=tmp_path, check=True)
    record("load", tmp_path / "plug.so", tmp_path / "plug.so")


def test_two_recordings_to_one_file(tidepool, record):
    first = subprocess.Popen([tidepool.program, "record", "--library", record.library, "-o", record.file, record.hard, "fork"])
    time.sleep(0.05)
    second = tidepool("record", "--library", record.library, "-o", record.file, record.hard, "use", check=False)
    assert second.returncode == 0 or "another process records to it" in second.stderr
    assert first.wait(SECONDS) == 0


def test_the_end_of_a_recording_is_said_to_nobody_else(record, tmp_path):
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))}
    assert record("use", **limit).stderr.endswith("File too large; the recording ends here\n")
    record("error", tmp_path / "data", **limit)
    assert (tmp_path / "data").read_bytes() == b"own"


def test_nobody_reads_what_is_said(tidepool, record):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([tidepool.program, "record", "--library", record.library, "-o", record.file, record.hard, "use"],
                          stderr=writing, timeout=SECONDS, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000)))
    os.close(writing)
    assert done.returncode == 0


@pytest.mark.skipif(not shutil.which("addr2line"), reason="addr2line is not here")
def test_libraries_in_place_of_others(request, tidepool, record):
    plugs = [os.path.abspath(path) for path in request.config.getoption("--recorded-plugs").split(",")]
    record("load", *plugs)
    text = tidepool("show", "-n", 50, record.file).stdout
    ends = text[text.index("\nlive at the end"):text.index("\nallocated")]
    found = {name: int(count) for count, name in re.findall(r"(\d+)  (plug_\w+) <", ends)}
    assert found == {"plug_first": 100, "plug_second": 3}


@pytest.mark.skipif(not shutil.which("addr2line"), reason="addr2line is not here")
def test_a_program_that_is_another_since(tidepool, record, tmp_path):
    program = tmp_path / "program"
    shutil.copy(record.hard, program)
    time.sleep(0.05)
    tidepool("record", "--library", record.library, "-o", record.file, program, "use")
    assert "use < main" in tidepool("show", record.file).stdout
    os.utime(program, (time.time() + 10,) * 2)   # clocks of files are coarse
    done = tidepool("show", record.file)
    why = f"{program} has changed since it was recorded, so its functions have no names"
    assert done.stderr == f"tidepool: show: {why}\n" and "use < main" not in done.stdout


# ---- made recordings ----

def number(value):
    text = b""
    while value > 0x7f:
        text += bytes([value & 0x7f | 0x80])
        value >>= 7
    return text + bytes([value])


def made(record, events):
    """The head of a real one, and a chunk with these events."""
    record("use")
    whole = record.file.read_bytes()
    mark = struct.unpack_from("=I", whole, 65536)[0]
    size = 24 if len(whole) > 65536 else 0
    chunk = whole[65536:65536 + size]
    record.file.write_bytes(whole[:65536] + (chunk + events).ljust(65536, b"\0"))
    assert mark and chunk


def test_a_request_that_nothing_serves(tidepool, record):
    made(record, b"\1" + number(1) + number(2 * 4096) + number(1 << 47) + number(0))
    for arguments in (), ("--budget", "1M"):
        done = tidepool("fit", *arguments, record.file, check=False)
        assert done.returncode == 1 and "1 requests cannot be served here, the first of" in done.stderr


def test_blocks_that_no_class_has(tidepool, record):
    made(record, b"\1" + number(1) + number(2 * 4096) + number(1 << 20) + number(0))
    assert tidepool("fit", record.file).stdout == "All blocks are of more than 262144 bytes: no class would have them.\n"


def test_a_site_of_a_number_that_none_has(tidepool, record):
    made(record, b"\7" + number(100000000) + number(1) + number(2 * 4096))
    tidepool("show", record.file, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))


HAND_OVER = """#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
enum { PLACES = 64 };
static _Atomic(void *) places[PLACES];
static void *give(void *unused)
{
  for (unsigned i = 0;; i++) {
    while (places[i % PLACES])
      sched_yield();
    places[i % PLACES] = malloc(1000 + i % 50000);
  }
  return unused;
}
int main(void)
{
  pthread_t giver;
  pthread_create(&giver, NULL, give, NULL);
  for (unsigned i = 0;; i++) {
    void *block;
    while (!(block = atomic_exchange(&places[i % PLACES], NULL)))
      sched_yield();
    free(block);
  }
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
@pytest.mark.parametrize("other_clock", ("of the day", pytest.param("of a namespace", marks=pytest.mark.skipif(
    not os.path.exists("/proc/self/ns/time"), reason="clocks have no namespaces here"))))
def test_a_program_that_goes_on(request, tidepool, tmp_path, other_clock):
    """What its threads have written is read to one moment: no block is there that another thread has freed."""
    (tmp_path / "hand_over.c").write_text(HAND_OVER, encoding="utf-8")
    subprocess.run(["cc", "-O1", "-pthread", "-o", "hand_over", "hand_over.c"], cwd=tmp_path, check=True)
    program, library = (os.path.abspath(request.config.getoption(name)) for name in ("--tidepool", "--library"))
    command = [program, "record", "--library", library, "--frames", "1", "-o", "live", "./hand_over"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL) as running:
        try:
            looks, until = 0, time.monotonic() + SECONDS
            while looks < 5 and time.monotonic() < until:
                time.sleep(0.2)
                done = tidepool("replay", "--check", "--json", tmp_path / "live", check=False)
                if done.returncode or (found := json.loads(done.stdout))["events"] < 1000:
                    continue
                looks += 1
                assert found["unknown_frees"] == found["missed_frees"] == 0 and found["peak_blocks"] <= 80, found
                assert "the program goes on" in done.stderr
                with open(tmp_path / "live", "r+b") as file:
                    if other_clock == "of the day": # it is set meanwhile
                        file.seek(STARTED)
                        file.write(struct.pack("=Q", (int(time.time()) + 20 * looks - 50) * 1000000000))
                    else: # a recorder in a namespace whose clock is behind
                        file.seek(PART - 24)
                        file.write(struct.pack("=QQ", 1, 1000000000 * looks))
            assert looks == 5
        finally:
            running.kill()


BUSY_EXIT = """#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *go_on(void *unused)
{
  for (unsigned i = 0;; i++) {
    void *volatile block = malloc(16 + i * 7919u % 60000);
    free(block);
  }
  return unused;
}
int main(void)
{
  pthread_t thread;
  for (int i = 0; i < 6; i++)
    pthread_create(&thread, NULL, go_on, NULL);
  usleep(15000);
  exit(0);
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_a_program_that_ends_beside_busy_threads(request, tidepool, tmp_path):
    """A chunk that one of them had begun, and had written nothing to, is not missing."""
    (tmp_path / "busy.c").write_text(BUSY_EXIT, encoding="utf-8")
    subprocess.run(["cc", "-O1", "-pthread", "-o", "busy", "busy.c"], cwd=tmp_path, check=True)
    library = os.path.abspath(request.config.getoption("--library"))
    for _ in range(20):
        tidepool("record", "--library", library, "-o", tmp_path / "busy.recording", tmp_path / "busy")
        assert json.loads(tidepool("replay", "--check", "--json", tmp_path / "busy.recording").stdout)["missing_parts"] == 0


def test_a_recording_without_numbers_of_parts(record, tidepool):
    """As older recorders wrote it, with the command's words where the number of parts is now."""
    record("fork")
    recording = bytearray(record.file.read_bytes())
    recording[PART - 8:PART] = b"xxxxxxx\0"
    for part in range(PART, len(recording), PART):
        recording[part + 20:part + 24] = bytes(4)
    record.file.write_bytes(recording)
    assert json.loads(tidepool("replay", "--check", "--json", record.file).stdout)["missing_parts"] == 0


SLOW_LOCK = """#include <unistd.h>
#include <sys/syscall.h>
int flock(int file, int how)
{
  usleep(1000000);
  return (int)syscall(SYS_flock, file, how);
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_a_program_that_ends_while_its_recording_is_opened(request, record, tidepool, tmp_path):
    """What the head and the file have is read behind the moment: it is whole then."""
    (tmp_path / "slow.c").write_text(SLOW_LOCK, encoding="utf-8")
    (tmp_path / "busy.c").write_text(BUSY_EXIT.replace("15000", "500000"), encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "slow.so", "slow.c"], cwd=tmp_path, check=True)
    subprocess.run(["cc", "-O1", "-pthread", "-o", "busy", "busy.c"], cwd=tmp_path, check=True)
    program = os.path.abspath(request.config.getoption("--tidepool"))
    command = [program, "record", "--library", record.library, "--frames", "0", "-o", record.file, tmp_path / "busy"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as running:
        while not record.file.exists() or record.file.stat().st_size < 3 * PART:
            time.sleep(0.01)
        while_it_ends = json.loads(tidepool("replay", "--check", "--json", record.file,
                                            env={**os.environ, "LD_PRELOAD": tmp_path / "slow.so"}).stdout)
        running.wait(SECONDS)
    whole = json.loads(tidepool("replay", "--check", "--json", record.file).stdout)
    assert while_it_ends["missed_frees"] == 0 and "killed" not in while_it_ends["lacks"]
    assert while_it_ends["events"] == whole["events"] or "goes on" in while_it_ends["lacks"] # on a slow machine it does


ODD_SYSTEM = """#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
  static int seconds = 5000;
  if (clock != CLOCK_MONOTONIC)
    return (int)syscall(SYS_clock_gettime, clock, now);
  *now = (struct timespec){seconds++, 0};
  return 0;
}
int posix_fallocate64(int file, off_t from, off_t length)
{
  static unsigned calls;
  return ++calls % 3 ? EINTR : syscall(SYS_fallocate, file, 0, from, length) ? errno : 0;
}
int posix_fallocate(int file, off_t from, off_t length) { return posix_fallocate64(file, from, length); }
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_a_clock_that_goes_on_and_calls_that_are_interrupted(record, tidepool, tmp_path):
    """The beginning that a reader is told is the recorder's own, however long that takes."""
    (tmp_path / "odd.c").write_text(ODD_SYSTEM, encoding="utf-8")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "odd.so", "odd.c"], cwd=tmp_path, check=True)
    assert not record("closes", env={**os.environ, "LD_PRELOAD": tmp_path / "odd.so"}).stderr
    assert struct.unpack("=Q", record.file.read_bytes()[PART - 16:PART - 8])[0] == 5000 * 10**9
    assert json.loads(tidepool("replay", "--check", "--json", record.file).stdout)["lacks"] == ""
