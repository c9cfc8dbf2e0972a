# SPDX-License-Identifier: MIT
"""Whose a recording is: two processes, or a process and what it becomes, that would write to one file."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from sharing import PART, SECONDS, check_of, events_of, fixture_record, fixture_tidepool   # pylint: disable=unused-import

ALLOCATES = "kept = [bytes(1000) for _ in range(20000)]\n"


def begun(file):
    end = time.monotonic() + SECONDS
    while not file.exists() or file.stat().st_size < 2 * PART:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def nothing_to_set_for_python(monkeypatch):
    """The command sets this for CPython and says so; here its output is about the file alone."""
    monkeypatch.setenv("PYTHONMALLOC", "malloc")


def test_two_programs_and_one_file(tidepool, record, tmp_path):
    """The second says so, and takes nothing away."""
    with subprocess.Popen(record(sys.executable, "-c", ALLOCATES + "input()"), stdin=subprocess.PIPE) as first:
        begun(tmp_path / "recording")
        second = subprocess.run(record("true"), capture_output=True, text=True, timeout=SECONDS, check=False)
        first.communicate(b"\n", timeout=SECONDS)
    assert second.returncode == 125 and "another process records to it" in second.stderr
    assert first.returncode == 0 and events_of(tidepool, tmp_path / "recording") > 20000
    assert not subprocess.run(record("true"), capture_output=True, text=True, timeout=SECONDS, check=True).stderr
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
def test_a_program_that_becomes_another_beside_a_child(record, tmp_path, name):
    """Which has the descriptor of the recording, and its lock."""
    (tmp_path / "starts.c").write_text(STARTS.replace("_exit((int)read", "usleep(300000), _exit((int)read"), encoding="utf-8")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-o", "starts", "starts.c"], cwd=tmp_path, check=True)
    done = subprocess.run(record(tmp_path / "starts", "4", file=tmp_path / name), capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert done.returncode == 0 and not done.stderr


WITHOUT_POWER = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def can_be_without_power():
    return not WITHOUT_POWER or (shutil.which("setpriv") is not None and
                                 subprocess.run([*WITHOUT_POWER, "true"], capture_output=True, check=False).returncode == 0)


@pytest.mark.skipif(not can_be_without_power(), reason="who may open each file stays so")
def test_a_file_that_cannot_be_opened(record, tmp_path):
    """It may be another's, who records to it."""
    (tmp_path / "recording").write_bytes(b"mine")
    os.chmod(tmp_path / "recording", 0o200)
    done = subprocess.run([*WITHOUT_POWER, *record("true")], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 125 and "recording: Permission denied" in done.stderr
    os.chmod(tmp_path / "recording", 0o600)
    assert (tmp_path / "recording").read_bytes() == b"mine"


def has_namespaces():
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="there are no namespaces here")
@pytest.mark.parametrize("name", ("recording", "recording.%p"))
def test_a_process_with_the_same_number(tidepool, record, tmp_path, name):
    """The first of each namespace is 1. The inner one is not to be recorded, and with %p its file is the other's."""
    inner = "import subprocess; subprocess.run(['unshare', '-pf', '--mount-proc', 'ls', '/'], stdout=-3)"
    words = record(sys.executable, "-c", ALLOCATES + inner, file=tmp_path / name)
    done = subprocess.run(["unshare", "-pf", "--mount-proc", *words], capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    assert done.returncode == 0 and ("Device or resource busy" in done.stderr if "%p" in name else not done.stderr)
    file = tmp_path / name.replace("%p", "1")
    assert "python" in tidepool("replay", "--check", file).stdout and events_of(tidepool, file) > 20000


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_a_reader_at_the_start(record, tmp_path):
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
        done = subprocess.run(record("true"), capture_output=True, text=True, timeout=SECONDS, check=True,
                              env={**os.environ, "LD_PRELOAD": tmp_path / "open.so"})
        assert not done.stderr


def test_a_reader_does_not_claim(record, tmp_path):
    """A program is recorded to a file that somebody reads."""
    (tmp_path / "recording").write_bytes(bytes(PART))
    with open(tmp_path / "recording", "rb") as read:
        fcntl.flock(read, fcntl.LOCK_SH)
        assert not subprocess.run(record("true"), capture_output=True, text=True, timeout=SECONDS, check=True).stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")
def test_two_programs_at_once(tidepool, record, tmp_path):
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
    with subprocess.Popen(record(sys.executable, "-c", "input()"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=slowly) as first:
        time.sleep(0.3)
        with subprocess.Popen(record(sys.executable, "-c", "'second'; input()"), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as second:
            said = [running.communicate("\n", timeout=SECONDS)[1] for running in (first, second)]
    is_first = "second" not in tidepool("replay", "--check", tmp_path / "recording").stdout
    assert not said[not is_first] and said[is_first].startswith("tidepool: record: "), said


def test_a_recorded_process_that_records_another_program(tidepool, record, tmp_path):
    """To the same file, of which it has the lock itself."""
    become = f"import os; os.execvp({record()[0]!r}, {[str(word) for word in record('echo', 'it ran')]!r})"
    done = subprocess.run(record(sys.executable, "-c", become), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it ran\n", "")
    assert "echo" in tidepool("replay", "--check", tmp_path / "recording").stdout


def test_a_program_that_is_not_there(record, tmp_path):
    """What was recorded before stays, and nothing new is left."""
    script, text = tmp_path / "script", tmp_path / "text"
    script.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    script.chmod(0o755)
    text.write_text("none", encoding="utf-8")
    for name in ("recording", "recording.%p"):
        (tmp_path / "recording").write_bytes(b"mine")
        for word, status in (("./no-such-program", 127), (script, 127), (text, 126), (tmp_path, 126)):
            done = subprocess.run(record(word, file=tmp_path / name), capture_output=True, text=True, timeout=SECONDS,
                                  check=False)
            assert done.returncode == status and done.stderr.count("\n") == 1
        assert (tmp_path / "recording").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["recording", "script", "text"]


@pytest.mark.skipif(not can_be_without_power(), reason="who may open each file stays so")
@pytest.mark.parametrize("name", ("recording", "recording.%p"))
def test_files_that_nobody_may_read(tidepool, record, tmp_path, name):
    """By the umask."""
    words = ["sh", "-c", 'umask 0777; exec "$0" "$@"', *WITHOUT_POWER, *record("true", file=tmp_path / name)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
    [file] = tmp_path.iterdir()
    file.chmod(0o600)
    assert not done.stderr and "true" in tidepool("replay", "--check", file).stdout


def test_a_program_that_keeps_its_own_malloc(request, record, tmp_path):
    """It has no recording, and none of before."""
    (tmp_path / "recording").write_bytes(b"mine")
    for name in ("recording", "recording.%p"):
        done = subprocess.run(record(os.path.abspath(request.config.getoption("--static-program")), file=tmp_path / name),
                              capture_output=True, text=True, timeout=SECONDS, check=True)
        assert "keeps its own malloc" in done.stderr
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("more", ("", "libm.so.6:"))
def test_a_program_that_is_run_by_the_command(tidepool, record, tmp_path, more):
    """The recorder is in front of each malloc that is preloaded, wherever it was."""
    words = record()
    become = ["sh", "-c", f'LD_PRELOAD={more}$LD_PRELOAD exec "$0" "$@"', words[0], "run", *words[2:4]]
    subprocess.run(record(*become, sys.executable, "-c", ""), timeout=SECONDS, check=True)
    assert "run" not in check_of(tidepool, tmp_path / "recording")["command"].split()
    assert events_of(tidepool, tmp_path / "recording") > 1000


@pytest.mark.parametrize("name", ("recording", "%p", "%%p-%p"))
def test_a_folder_that_is_not_there(record, tmp_path, name):
    """It is said before the program is run."""
    done = subprocess.run(record("echo", "it ran", file=tmp_path / "none" / name), capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    assert done.returncode == 125 and not done.stdout and "No such file or directory" in done.stderr
