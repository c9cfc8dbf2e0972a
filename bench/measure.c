/* SPDX-License-Identifier: MIT
 *
 * Runs a program, which another malloc may be preloaded to, and writes what it took. It is small itself: what a process holds
 * when it starts a program counts in that program's peak.
 *
 * usage: measure [--warm MIB] [--times N] FILE LIBRARY COMMAND...     with LIBRARY "" for none
 *
 * --warm has another process touch so many MiB of huge pages first and end. The host of a virtual machine that takes back free
 * memory then has these pages ready, as a bare machine always does.
 *
 * --times starts the program N times, one after the other. A run that fails is the last. The figures are means of the runs,
 * but the peak is the highest one.
 *
 * FILE gets one line: seconds by the clock, of user and system time, page faults, bytes at the peak of one process, and mean
 * bytes of all of them together, sampled each 5 ms. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE_NS = 5000000, CANNOT_RUN = 127 };

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

/* Reads the head of a file; an empty text where the process has ended meanwhile. */
static void read_head(const char *path, char *text, size_t most)
{
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, text, most - 1);
  if (file >= 0)
    close(file);
  text[length > 0 ? length : 0] = '\0';
}

static double resident_bytes(long pid);

/* Of those that one thread has started, and of all that those have. */
static double resident_below(const char *task)
{
  char path[400], text[4096], *end;
  double bytes = 0;
  snprintf(path, sizeof path, "%s/children", task);
  read_head(path, text, sizeof text);
  for (const char *at = text;; at = end) {
    long child = strtol(at, &end, 10);
    if (end == at)
      return bytes;
    bytes += resident_bytes(child);
  }
}

/* Of a process and all that it has started. */
static double resident_bytes(long pid)
{
  char path[64], task[sizeof path + sizeof((struct dirent *)0)->d_name], text[256];
  snprintf(path, sizeof path, "/proc/%ld/statm", pid);
  read_head(path, text, sizeof text);
  const char *second = strchr(text, ' ');
  double bytes = second ? (double)strtol(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE) : 0;
  snprintf(path, sizeof path, "/proc/%ld/task", pid);
  DIR *tasks = opendir(path);
  for (const struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;)
    if (entry->d_name[0] != '.') {
      snprintf(task, sizeof task, "%s/%s", path, entry->d_name);
      bytes += resident_below(task);
    }
  if (tasks)
    closedir(tasks);
  return bytes;
}

static void touch_huge_pages(size_t bytes)
{
  char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    _exit(1);
  madvise(start, bytes, MADV_HUGEPAGE);
  memset(start, 1, bytes);
  _exit(0);
}

static bool warm(const char *mib)
{
  char *end;
  unsigned long count = strtoul(mib, &end, 10);
  int status = 1;
  pid_t pid = *end || !count || count > SIZE_MAX >> 20 ? -1 : fork();
  if (pid == 0)
    touch_huge_pages(count << 20);
  if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
    return true;
  fprintf(stderr, "measure: --warm: cannot touch %s MiB\n", mib);
  return false;
}

/* The program ends with whoever measures it. */
static _Noreturn void become(const char *library, char **command)
{
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (*library)
    setenv("LD_PRELOAD", library, 1);
  execvp(command[0], command);
  fprintf(stderr, "measure: %s: %s\n", command[0], strerror(errno));
  _exit(CANNOT_RUN);
}

struct figures {
  double clock, user, system, faults, peak, mean;
};

/* Runs the command once and adds what it took. Returns its status as wait() gives it, or -1 without one. */
static int run_once(const char *library, char **command, const sigset_t *child_ends, struct figures *sums)
{
  const struct timespec pause = {.tv_nsec = SAMPLE_NS};
  double start = now(), sum = 0, samples = 0;
  pid_t pid = fork(), ended = 0;
  if (pid == 0)
    become(library, command);
  struct rusage used;
  int status = 0;
  while (pid > 0 && (ended = wait4(pid, &status, WNOHANG, &used)) == 0) {
    sum += resident_bytes(pid);
    samples++;
    sigtimedwait(child_ends, NULL, &pause);
  }
  if (ended != pid || pid < 0) {
    fprintf(stderr, "measure: %s\n", strerror(errno));
    return -1;
  }
  double peak = (double)used.ru_maxrss * 1024;
  sums->clock += now() - start;
  sums->user += seconds(used.ru_utime);
  sums->system += seconds(used.ru_stime);
  sums->faults += (double)used.ru_minflt;
  sums->peak = peak > sums->peak ? peak : sums->peak;
  sums->mean += samples > 0 ? sum / samples : peak;
  return status;
}

/* Writes the means of so many runs, and the highest peak. */
static bool write_figures(const char *path, const struct figures *sums, double runs)
{
  FILE *file = fopen(path, "w");
  if (file &&
      fprintf(file, "%.6f %.6f %.6f %.1f %.0f %.0f\n", sums->clock / runs, sums->user / runs, sums->system / runs,
              sums->faults / runs, sums->peak, sums->mean / runs) >= 0 &&
      fclose(file) == 0)
    return true;
  fprintf(stderr, "measure: %s: %s\n", path, strerror(errno));
  return false;
}

/* Returns the value of an option if it stands first, and removes both from the arguments. */
static const char *option(const char *name, int *argc, char ***argv)
{
  if (*argc < 3 || strcmp((*argv)[1], name) != 0)
    return NULL;
  *argc -= 2;
  *argv += 2;
  return (*argv)[0];
}

int main(int argc, char **argv)
{
  const char *mib = option("--warm", &argc, &argv), *times = option("--times", &argc, &argv);
  char *end = NULL;
  long wanted = times ? strtol(times, &end, 10) : 1, runs = 0;
  if (argc < 4 || wanted < 1 || (end && *end)) {
    fprintf(stderr, "usage: measure [--warm MIB] [--times N] FILE LIBRARY COMMAND...\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGCHLD, SIG_DFL); /* whoever ignores it gets no figures of a child */
  if (mib && !warm(mib))
    return 1;
  sigset_t child_ends;
  sigemptyset(&child_ends);
  sigaddset(&child_ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ends, NULL); /* so that it is waited for together with the time */
  struct figures sums = {0};
  int status = 0;
  for (; runs < wanted && status == 0; runs++)
    status = run_once(argv[2], argv + 3, &child_ends, &sums);
  if (status == -1 || !write_figures(argv[1], &sums, (double)runs))
    return 1;
  if (WIFSIGNALED(status))
    fprintf(stderr, "measure: %s: ended by signal %d\n", argv[3], WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
