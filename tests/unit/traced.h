/* SPDX-License-Identifier: MIT
 * A child that runs one instruction at a time, so that what others can see meanwhile is looked at after each. */
#ifndef TRACED_H
#define TRACED_H

#include "unit.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts a child that stops before `run`. 0: it cannot be traced. */
static inline pid_t traced_start(void (*run)(void))
{
  pid_t child = fork();
  must(child >= 0);
  if (!child) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) {
      raise(SIGSTOP);
      run();
    }
    _exit(0);
  }
  int status;
  must(waitpid(child, &status, 0) == child);
  return WIFSTOPPED(status) ? child : 0;
}

/* One instruction. False: the child has ended, as it should. */
static inline bool traced_step(pid_t child, bool *is_traced)
{
  int status;
  *is_traced = ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0;
  if (!*is_traced) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
  }
  must(waitpid(child, &status, 0) == child);
  if (WIFSTOPPED(status)) {
    must(WSTOPSIG(status) == SIGTRAP);
    return true;
  }
  must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return false;
}

#endif
