# SPDX-License-Identifier: MIT
"""Children of a recorded process, and what its threads and handlers do meanwhile."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys

import pytest

from sharing import SECONDS, check_of, events_of, fixture_record, fixture_tidepool   # pylint: disable=unused-import

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler")


def compiled(folder, name, text, *more):
    (folder / f"{name}.c").write_text(text, encoding="utf-8")
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O1", "-pthread", "-o", folder / name, f"{name}.c", *more], cwd=folder, check=True)
    return folder / name


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


def test_children_that_live_on(record, tmp_path):
    """They have nothing of the recording, not even a chunk that a thread was just beginning."""
    forks = compiled(tmp_path, "forks", FORKS)
    with subprocess.Popen(record(forks), start_new_session=True, stdout=subprocess.PIPE) as program:
        try:
            program.communicate(timeout=SECONDS)
            assert program.returncode == 0
            with open(tmp_path / "recording", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.killpg(program.pid, signal.SIGKILL)


HANDLED = """#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { BLOCKS = 64, ROUNDS = 40000 };
static volatile sig_atomic_t is_child;
static void handle(int number)
{
  (void)number;
  if (!is_child && FORK == 0) {
    is_child = 1;
    usleep(3000);
  }
}
int main(void)
{
  static void *volatile blocks[BLOCKS];
  signal(SIGCHLD, SIG_IGN);
  signal(SIGUSR1, handle);
#ifdef SIGNALS
  const pid_t self = getpid();
  if (fork() == 0) {
    for (int i = 0; i < SIGNALS; i++)
      if (usleep(500), getppid() == self)
        kill(self, SIGUSR1);
    _exit(0);
  }
#endif
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
#include <time.h>
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
int clock_gettime(clockid_t clock, struct timespec *now)
{
  static int calls;
  if (AT == 4 && ++calls % 1000 == 0)
    be_interrupted();
  return (int)syscall(SYS_clock_gettime, clock, now);
}
"""


def assert_is_whole(found):
    assert found["events"] >= 2 * 40000 - 64 and not found["lacks"] and found["end_blocks"] <= 70, found
    assert not (found["missing_parts"] or found["damaged_parts"] or found["unknown_frees"] or found["missed_frees"]), found


@pytest.mark.skipif(sys.maxsize < 2**32, reason="mmap() has another number")
@pytest.mark.parametrize("fork", ("fork()", "syscall(SYS_clone, 17L, 0L, 0L, 0L, 0L)"))
@pytest.mark.parametrize("at", range(5))
def test_a_handler_that_forks_in_an_event(tidepool, record, tmp_path, at, fork):
    """The child goes on with it, and with none of what its parent has, also where a chunk begins (0 to 3)."""
    signals = compiled(tmp_path, "signals", SIGNALS, f"-DAT={at}", "-shared", "-fPIC")
    subprocess.run(record(compiled(tmp_path, "handled", HANDLED, f"-DFORK={fork}")), timeout=SECONDS, check=True,
                   env={**os.environ, "LD_PRELOAD": signals})
    assert_is_whole(check_of(tidepool, tmp_path / "recording"))


@pytest.mark.parametrize("fork", ("fork()", "_Fork()"))
def test_a_handler_that_forks(tidepool, record, tmp_path, fork):
    """Of which the second calls no handler of pthread_atfork()."""
    try:
        handled = compiled(tmp_path, "handled", HANDLED, f"-DFORK={fork}", "-DSIGNALS=150", "-Werror=implicit")
    except subprocess.CalledProcessError:
        pytest.skip(f"there is no {fork}")
    for _ in range(4):
        subprocess.run(record(handled), timeout=SECONDS, check=True)
        assert_is_whole(check_of(tidepool, tmp_path / "recording"))
        (tmp_path / "recording").unlink()  # a child that was forked in an event holds the lock until it ends


STARTED = """#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <tidepool/record.h>
#include <unistd.h>
static volatile sig_atomic_t is_child, may_fork;
static void handle(int number) /* at most once a round: a fork may take longer than the timer */
{
  (void)number;
  if (may_fork && !is_child && (may_fork = 0, fork() == 0)) {
    is_child = 1;
    usleep(3000);
  }
}
int main(void)
{
  signal(SIGCHLD, SIG_IGN);
  signal(SIGALRM, handle);
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 700}, {0, 700}}, NULL);
  for (int i = 0; i < 100; i++) {
    may_fork = 1;
    int file = open("recording", O_RDWR | O_CREAT, 0600);
    const bool is_on = pool_record_start(file);
    if (is_child)
      _exit(0);
    close(file);
    for (int j = 0; is_on && j < 10000; j++)
      free((void *volatile){malloc(100)});
    if (is_child)
      _exit(0);
    pool_record_stop();
    if (is_child)
      _exit(0);
  }
  return 0;
}
"""


def test_a_handler_that_forks_while_a_recording_begins(request, tmp_path):
    """The child would make the file of its parent shorter, which ends that by SIGBUS."""
    recorder = os.path.dirname(os.path.abspath(request.config.getoption("--tidepool"))) + "/../record"
    library = os.path.dirname(os.path.abspath(request.config.getoption("--library")))
    folders = [f"-I{os.path.dirname(__file__)}/../../include", f"-L{recorder}", f"-Wl,-rpath,{recorder}", f"-L{library}",
               f"-Wl,-rpath,{library}"]
    started = compiled(tmp_path, "started", STARTED, *folders, "-Wl,--no-as-needed", "-ltidepool-record", "-ltidepool")
    subprocess.run([started], cwd=tmp_path, timeout=SECONDS, check=True)


MAPS = """#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
enum { MAPS = 40, BYTES = 64 << 10, CHILDREN = 200 };
static char *maps[MAPS];
static void map(void)
{
  for (int i = 0; i < MAPS; i++) {
    maps[i] = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(maps[i], 1, 64);
  }
}
static int are_there(void)
{
  for (int i = 0; i < MAPS; i++)
    if (msync(maps[i], BYTES, MS_ASYNC) || *maps[i] != 1)
      return 0;
  return 1;
}
static volatile int is_over;
static void *go_on(void *unused)
{
  while (!is_over)
    free((void *volatile){malloc(100)});
  return unused;
}
static void watch(void) { pthread_atfork(NULL, NULL, map); }
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = watch; /* so its handlers are, too */
int main(void)
{
  pthread_t threads[3];
  int wrong = 0, status;
  for (int i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, go_on, NULL);
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    if (child == 0)
      _exit(!are_there());
    wrong += waitpid(child, &status, 0) != child || status;
  }
  is_over = 1;
  return wrong != 0;
}
"""


def test_children_that_map_memory(record, tmp_path):
    """Before the recorder's handler is called: it gives no memory away but its own."""
    subprocess.run(record(compiled(tmp_path, "maps", MAPS)), timeout=SECONDS, check=True)


CLOSES = """#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
enum { CALLS = 500000 };
static volatile int running = 2;
static void *go_on(void *unused)
{
  for (int i = 0; i < CALLS; i++)
    free((void *volatile){malloc(100)});
  __atomic_fetch_sub(&running, 1, __ATOMIC_RELAXED);
  return unused;
}
int main(void)
{
  pthread_t thread;
  for (int i = 0; i < 2; i++)
    pthread_create(&thread, NULL, go_on, NULL);
  while (__atomic_load_n(&running, __ATOMIC_RELAXED)) {
    for (int i = 3; i < 1024; i++)
      close(i);
    usleep(50);
  }
  return 0;
}
"""


def test_a_program_that_closes_all_files(tidepool, record, tmp_path):
    """While its threads come to the ends of their parts."""
    closes = compiled(tmp_path, "closes", CLOSES)
    done = subprocess.run(record(closes), capture_output=True, text=True, timeout=SECONDS, check=True)
    assert not done.stderr and events_of(tidepool, tmp_path / "recording") >= 2 * 2 * 500000


OPENS = """#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
extern int all_are_closed __attribute__((weak)); /* the program's */
int open64(const char *path, int flags, ...) /* another thread closes all files, and opens one, as soon as this has a number */
{
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
  if (!&all_are_closed || !all_are_closed || !strstr(path, "recording"))
    return file;
  all_are_closed = 0;
  close(file);
  if (syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR) != file)
    _exit(3);
  return file;
}
int open(const char *path, int flags, ...) { return open64(path, flags); }
"""

OPENED = """#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int all_are_closed;
int main(void)
{
  for (int i = 3; i < 1024; i++)
    close(i);
  all_are_closed = 1;
  for (int i = 0; i < 50000; i++)
    free((void *volatile){malloc(100)});
  return fcntl(3, F_GETFD) < 0;
}
"""


def test_a_program_that_opens_a_file_meanwhile(tidepool, record, tmp_path):
    """It has the number that the recorder's had, and keeps it."""
    opens = compiled(tmp_path, "opens", OPENS, "-shared", "-fPIC")
    opened = compiled(tmp_path, "opened", OPENED, "-rdynamic")
    done = subprocess.run(record(opened), capture_output=True, text=True, timeout=SECONDS, check=True,
                          env={**os.environ, "LD_PRELOAD": opens})
    assert not done.stderr and events_of(tidepool, tmp_path / "recording") >= 2 * 50000


GROWS = """#include <alloca.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
static char *stack;
static size_t room, page, length;
static ucontext_t outer, inner;
static void grow(int number, siginfo_t *info, void *unused)
{
  char *at = (char *)((size_t)info->si_addr & ~(page - 1));
  (void)unused;
  if (at < stack || at >= stack + length)
    signal(number, SIG_DFL);
  else
    mprotect(at, page, PROT_READ | PROT_WRITE);
}
static void work(void)
{
  char *filled = alloca(room);
  *(volatile char *)filled = 1;
  for (int i = 0; i < 30000; i++)
    free((void *volatile){malloc(100)});
}
int main(void)
{
  sigaltstack(&(stack_t){.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, NULL);
  sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = grow, .sa_flags = SA_SIGINFO | SA_ONSTACK}, NULL);
  page = (size_t)getpagesize();
  length = 64 * page;
  stack = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (room = page / 64; room < 2 * page; room += page / 64) {
    mprotect(stack, length, PROT_NONE);
    getcontext(&inner);
    inner.uc_stack = (stack_t){.ss_sp = stack, .ss_size = length};
    inner.uc_link = &outer;
    makecontext(&inner, work, 0);
    swapcontext(&outer, &inner);
  }
  return 0;
}
"""


def test_stacks_that_grow_by_a_handler(record, tmp_path):
    """Wherever the recorder comes to the next page of one."""
    subprocess.run(record(compiled(tmp_path, "grows", GROWS)), timeout=SECONDS, check=True)


@pytest.mark.parametrize("began, is_another", (("int(began)", False), ("int(began) + 1", True), ("0", False)))
def test_a_process_that_begins_later(tidepool, record, tmp_path, began, is_another):
    """With the same number, by what it was told: another has it when its process has ended. 0: it is not known."""
    become = ("import os; pid, of, clocks, began, rest = os.environ['TIDEPOOL_RECORD'].split(':', 4); "
              f"os.environ['TIDEPOOL_RECORD'] = f'{{pid}}:{{of}}:{{clocks}}:{{{began}}}:{{rest}}'; "
              "os.execlp('true', 'true')")
    subprocess.run(record(sys.executable, "-c", become), timeout=SECONDS, check=True)
    assert ("python" in tidepool("replay", "--check", tmp_path / "recording").stdout) == is_another


OTHER_CLOCK = ["unshare", "-T", "--boottime", "1000"]


def has_other_clock():
    return shutil.which("unshare") and not subprocess.run([*OTHER_CLOCK, "true"], capture_output=True, check=False).returncode


@pytest.mark.skipif(not has_other_clock(), reason="there are no such namespaces here")
def test_a_process_that_gets_another_clock(tidepool, record, tmp_path):
    """By which it has begun at another time."""
    subprocess.run(record(*OTHER_CLOCK, "true"), timeout=SECONDS, check=True)
    assert "unshare" not in tidepool("replay", "--check", tmp_path / "recording").stdout
