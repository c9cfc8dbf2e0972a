/* SPDX-License-Identifier: MIT
 *
 * Runs a program, which another malloc may be preloaded to, and writes what it took. It is small itself: what a process holds
 * when it starts a program counts in that program's peak.
 *
 * usage: measure FILE LIBRARY COMMAND...     with LIBRARY "" for none
 *
 * FILE gets one line: seconds by the clock, of user and system time, page faults, bytes at the peak of one process, and mean
 * bytes of all of them together, sampled each 5 ms. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE_NS = 5000000, MOST_CHILDREN = 64, CANNOT_RUN = 127 };

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

/* Reads the head of a file of /proc; an empty text where the process has ended meanwhile. */
static const char *read_proc(const char *format, long pid)
{
  static char text[4096];
  char path[64];
  snprintf(path, sizeof path, format, pid, pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0)
    close(file);
  text[length > 0 ? length : 0] = '\0';
  return text;
}

/* Of a process and all that it has started. */
static double resident_bytes(long pid)
{
  const char *second = strchr(read_proc("/proc/%ld/statm", pid), ' ');
  double bytes = second ? (double)strtol(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE) : 0;
  long children[MOST_CHILDREN];
  size_t count = 0;
  char *end;
  for (const char *at = read_proc("/proc/%ld/task/%ld/children", pid); count < MOST_CHILDREN; at = end) {
    long child = strtol(at, &end, 10);
    if (end == at)
      break;
    children[count++] = child;
  }
  for (size_t i = 0; i < count; i++)
    bytes += resident_bytes(children[i]);
  return bytes;
}

static _Noreturn void become(const char *library, char **command)
{
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (*library)
    setenv("LD_PRELOAD", library, 1);
  execvp(command[0], command);
  fprintf(stderr, "measure: %s: %s\n", command[0], strerror(errno));
  _exit(CANNOT_RUN);
}

int main(int argc, char **argv)
{
  if (argc < 4) {
    fprintf(stderr, "usage: measure FILE LIBRARY COMMAND...\n");
    return 2;
  }
  const struct timespec pause = {.tv_nsec = SAMPLE_NS};
  sigset_t child_ends;
  sigemptyset(&child_ends);
  sigaddset(&child_ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ends, NULL); /* so that it is waited for together with the time */
  double start = now(), sum = 0, samples = 0;
  pid_t pid = fork();
  if (pid == 0)
    become(argv[2], argv + 3);
  struct rusage used;
  int status = 0;
  while (pid > 0 && wait4(pid, &status, WNOHANG, &used) == 0) {
    sum += resident_bytes(pid);
    samples++;
    sigtimedwait(&child_ends, NULL, &pause);
  }
  double took = now() - start;
  FILE *file = pid > 0 ? fopen(argv[1], "w") : NULL;
  if (!file ||
      fprintf(file, "%.6f %.6f %.6f %ld %.0f %.0f\n", took, seconds(used.ru_utime), seconds(used.ru_stime), used.ru_minflt,
              (double)used.ru_maxrss * 1024, sum / samples) < 0 ||
      fclose(file) != 0) {
    fprintf(stderr, "measure: %s: %s\n", pid > 0 ? argv[1] : "fork", strerror(errno));
    return 1;
  }
  if (WIFSIGNALED(status))
    fprintf(stderr, "measure: %s: ended by signal %d\n", argv[3], WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
