# SPDX-License-Identifier: MIT
"""Whose a recording is: two processes, or a process and what it becomes, that would write to one file."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from sharing import SECONDS, fixture_tidepool   # pylint: disable=unused-import

PART = 64 << 10
ALLOCATES = "kept = [bytes(1000) for _ in range(20000)]\n"


@pytest.fixture(name="command")
def fixture_command(request, tmp_path):
    program, library = (os.path.abspath(request.config.getoption(name)) for name in ("--tidepool", "--library"))

    def command(*words, file=tmp_path / "recording"):
        return [program, "record", "--library", library, "--frames", "0", "-o", file, *words]
    return command


def events_of(tidepool, file):
    return json.loads(tidepool("replay", "--check", "--json", file).stdout)["events"]


def begun(file):
    end = time.monotonic() + SECONDS
    while not file.exists() or file.stat().st_size < 2 * PART:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_programs_and_one_file(tidepool, command, tmp_path):
    """The second says so, and takes nothing away."""
    with subprocess.Popen(command(sys.executable, "-c", ALLOCATES + "input()"), stdin=subprocess.PIPE) as first:
        begun(tmp_path / "recording")
        second = subprocess.run(command("true"), capture_output=True, text=True, timeout=SECONDS, check=False)
        first.communicate(b"\n", timeout=SECONDS)
    assert second.returncode == 125 and "another process records to it" in second.stderr
    assert first.returncode == 0 and events_of(tidepool, tmp_path / "recording") > 20000
    assert not subprocess.run(command("true"), capture_output=True, text=True, timeout=SECONDS, check=True).stderr
    assert events_of(tidepool, tmp_path / "recording") < 20000


STARTS = """#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words)
{
  int ends[2], left = atoi(words[1]);
  if (!left)
    return 0;
  if (pipe2(ends, O_CLOEXEC) || syscall(SYS_clone, 17L, 0L, 0L, 0L, 0L) == 0) { /* no handler of forks is called */
    char byte;
    close(ends[1]);
    _exit((int)read(ends[0], &byte, 1)); /* until its parent has become the next program, and a while longer */
  }
  char *next[] = {words[0], (char[]){(char)('0' + left - 1), 0}, 0};
  execv(words[0], next);
  return count + 1;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
@pytest.mark.parametrize("name", ("recording", "recording.%p"))
def test_a_program_that_becomes_another_beside_a_child(command, tmp_path, name):
    """Which has the descriptor of the recording, and its lock."""
    (tmp_path / "starts.c").write_text(STARTS.replace("_exit((int)read", "usleep(300000), _exit((int)read"), encoding="utf-8")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-o", "starts", "starts.c"], cwd=tmp_path, check=True)
    done = subprocess.run(command(tmp_path / "starts", "4", file=tmp_path / name), capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert done.returncode == 0 and not done.stderr


FORKS = """#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *go_on(void *unused)
{
  for (;;)
    free((void *volatile){malloc(100)});
  return unused;
}
int main(void)
{
  pthread_t thread;
  for (int i = 0; i < 3; i++)
    pthread_create(&thread, NULL, go_on, NULL);
  for (int i = 0; i < 150; i++) {
    if (fork() == 0) {
      close(1);
      sleep(600);
      _exit(0);
    }
    usleep(2000);
  }
  return 0;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_children_that_live_on(command, tmp_path):
    """They have nothing of the recording, not even a chunk that a thread was just beginning."""
    (tmp_path / "forks.c").write_text(FORKS, encoding="utf-8")
    subprocess.run(["cc", "-O1", "-pthread", "-o", "forks", "forks.c"], cwd=tmp_path, check=True)
    with subprocess.Popen(command(tmp_path / "forks"), start_new_session=True, stdout=subprocess.PIPE) as program:
        try:
            program.communicate(timeout=SECONDS)
            assert program.returncode == 0
            with open(tmp_path / "recording", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.killpg(program.pid, signal.SIGKILL)


HANDLED = """#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
enum { BLOCKS = 64, ROUNDS = 40000 };
static volatile sig_atomic_t is_child;
static void handle(int number)
{
  (void)number;
  if (!is_child && fork() == 0) {
    is_child = 1;
    usleep(3000);
  }
}
int main(void)
{
  static void *volatile blocks[BLOCKS];
  signal(SIGCHLD, SIG_IGN);
  signal(SIGUSR1, handle);
  for (unsigned i = 0; i < ROUNDS; i++) {
    free(blocks[i % BLOCKS]);
    blocks[i % BLOCKS] = malloc(16 + i % 500);
    if (is_child)
      _exit(0);
  }
  usleep(50000);
  return 0;
}
"""

SIGNALS = """#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static void be_interrupted(void)
{
  struct sigaction now;
  if (sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler != SIG_DFL)
    raise(SIGUSR1);
}
int posix_fallocate64(int file, off_t from, off_t length)
{
  int error = (int)syscall(SYS_fallocate, file, 0, from, length);
  if (AT == 0)
    be_interrupted();
  return error;
}
int posix_fallocate(int file, off_t from, off_t length) { return posix_fallocate64(file, from, length); }
void *mmap64(void *place, size_t size, int may, int flags, int file, off_t from)
{
  void *there = (void *)syscall(SYS_mmap, place, size, may, flags, file, from);
  if ((AT == 1 && may == PROT_NONE && size == 65536) || (AT == 2 && flags & MAP_SHARED && flags & MAP_FIXED))
    be_interrupted();
  return there;
}
int munmap(void *place, size_t size)
{
  if (AT == 3 && size == 65536)
    be_interrupted();
  return (int)syscall(SYS_munmap, place, size);
}
void *mmap(void *place, size_t size, int may, int flags, int file, off_t from)
{
  return mmap64(place, size, may, flags, file, from);
}
"""


@pytest.mark.skipif(not shutil.which("cc") or sys.maxsize < 2**32, reason="no compiler, or mmap() has another number")
@pytest.mark.parametrize("at", range(4))
def test_a_handler_that_forks_while_a_chunk_begins(tidepool, command, tmp_path, at):
    """The child goes on with the event, and with none of what its parent has."""
    (tmp_path / "handled.c").write_text(HANDLED, encoding="utf-8")
    (tmp_path / "signals.c").write_text(SIGNALS, encoding="utf-8")
    subprocess.run(["cc", "-O1", "-o", "handled", "handled.c"], cwd=tmp_path, check=True)
    subprocess.run(["cc", "-D_GNU_SOURCE", f"-DAT={at}", "-shared", "-fPIC", "-o", "signals.so", "signals.c"], cwd=tmp_path,
                   check=True)
    subprocess.run(command(tmp_path / "handled"), timeout=SECONDS, check=True,
                   env={**os.environ, "LD_PRELOAD": tmp_path / "signals.so"})
    found = json.loads(tidepool("replay", "--check", "--json", tmp_path / "recording").stdout)
    assert found["events"] >= 2 * 40000 - 64 and not found["lacks"] and found["end_blocks"] <= 70
    assert not (found["missing_parts"] or found["damaged_parts"] or found["unknown_frees"] or found["missed_frees"]), found


WITHOUT_POWER = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def can_be_without_power():
    return not WITHOUT_POWER or (shutil.which("setpriv") is not None and
                                 subprocess.run([*WITHOUT_POWER, "true"], capture_output=True, check=False).returncode == 0)


@pytest.mark.skipif(not can_be_without_power(), reason="who may open each file stays so")
def test_a_file_that_cannot_be_opened(command, tmp_path):
    """It may be another's, who records to it."""
    (tmp_path / "recording").write_bytes(b"mine")
    os.chmod(tmp_path / "recording", 0o200)
    done = subprocess.run([*WITHOUT_POWER, *command("true")], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 125 and "recording: Permission denied" in done.stderr
    os.chmod(tmp_path / "recording", 0o600)
    assert (tmp_path / "recording").read_bytes() == b"mine"


def has_namespaces():
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="there are no namespaces here")
@pytest.mark.parametrize("name", ("recording", "recording.%p"))
def test_a_process_with_the_same_number(tidepool, command, tmp_path, name):
    """The first of each namespace is 1. The inner one is not to be recorded, and with %p its file is the other's."""
    inner = "import subprocess; subprocess.run(['unshare', '-pf', '--mount-proc', 'ls', '/'], stdout=-3)"
    words = command(sys.executable, "-c", ALLOCATES + inner, file=tmp_path / name)
    done = subprocess.run(["unshare", "-pf", "--mount-proc", *words], capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    assert done.returncode == 0 and ("Device or resource busy" in done.stderr if "%p" in name else not done.stderr)
    file = tmp_path / name.replace("%p", "1")
    assert "python" in tidepool("replay", "--check", file).stdout and events_of(tidepool, file) > 20000


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_a_reader_at_the_start(command, tmp_path):
    """It has the lock for a moment, and the recorder waits for that."""
    (tmp_path / "open.c").write_text("""#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>
/* Another process that reads it, and has nothing of this one's. It goes on when its lock is there. */
static void read_beside(const char *path, int file)
{
  int ends[2];
  char locked = 0;
  if (pipe(ends))
    _exit(1);
  if (syscall(SYS_clone, 17L, 0L, 0L, 0L, 0L) == 0) {
    close(file);
    flock((int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY), LOCK_SH);
    if (write(ends[1], "", 1) == 1)
      usleep(1000);
    _exit(0);
  }
  close(ends[1]);
  if (read(ends[0], &locked, 1) != 1)
    _exit(1);
  close(ends[0]);
}

int open64(const char *path, int flags, ...) /* what is made anew has a reader at once */
{
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
  if (file >= 0 && strstr(path, "recording") && flags & O_EXCL)
    read_beside(path, file);
  return file;
}
int open(const char *path, int flags, ...) { return open64(path, flags); }
""", encoding="utf-8")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "open.so", "open.c"], cwd=tmp_path, check=True)
    for _ in range(5):
        done = subprocess.run(command("true"), capture_output=True, text=True, timeout=SECONDS, check=True,
                              env={**os.environ, "LD_PRELOAD": tmp_path / "open.so"})
        assert not done.stderr


def test_a_reader_does_not_claim(command, tmp_path):
    """A program is recorded to a file that somebody reads."""
    (tmp_path / "recording").write_bytes(bytes(PART))
    with open(tmp_path / "recording", "rb") as read:
        fcntl.flock(read, fcntl.LOCK_SH)
        assert not subprocess.run(command("true"), capture_output=True, text=True, timeout=SECONDS, check=True).stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_two_programs_at_once(tidepool, command, tmp_path):
    """Whichever comes to the file while the other makes it: one is recorded, and the other says that it is not."""
    (tmp_path / "slow.c").write_text("""#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int open64(const char *path, int flags, ...)
{
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
  if (file >= 0 && strstr(path, "recording") && flags & O_EXCL)
    usleep(700000);
  return file;
}
int open(const char *path, int flags, ...) { return open64(path, flags); }
""", encoding="utf-8")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", "slow.so", "slow.c"], cwd=tmp_path, check=True)
    slowly = {**os.environ, "LD_PRELOAD": tmp_path / "slow.so"}
    with subprocess.Popen(command(sys.executable, "-c", "input()"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=slowly) as first:
        time.sleep(0.3)
        with subprocess.Popen(command(sys.executable, "-c", "'second'; input()"), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as second:
            said = [running.communicate("\n", timeout=SECONDS)[1] for running in (first, second)]
    is_first = "second" not in tidepool("replay", "--check", tmp_path / "recording").stdout
    assert not said[not is_first] and said[is_first].startswith("tidepool: record: "), said
