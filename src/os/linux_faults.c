/* SPDX-License-Identifier: MIT
 *
 * Faults, on Linux. The handler says what is known and steps aside: for the program's handler if there was one before, and else
 * for the default action, which the access meets when it is made again. It runs on the stack that the program has set up for
 * signals, if it did so; else on the thread's own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/lock.h"
#include "os/os.h"
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static os_fault_fn *said_by;
static struct sigaction before_segv, before_bus;

static struct sigaction *before_of(int signal) { return signal == SIGBUS ? &before_bus : &before_segv; }

/* The processor says why the access was a fault, as far as the kernel hands it on. */
#if defined __x86_64__ || defined __i386__
static os_access_t access_of(const void *context)
{
  enum { FAULT_WRITE = 1 << 1, FAULT_FETCH = 1 << 4 };
  unsigned long error = (unsigned long)((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
  return error & FAULT_FETCH ? OS_RUNS : error & FAULT_WRITE ? OS_WRITES : OS_READS;
}
#else
static os_access_t access_of(const void *context)
{
  (void)context;
  return OS_ACCESSES;
}
#endif

/* The kernel ends a process that ignores a fault, and so does this. A signal that was sent does not come again by itself. */
static void step_aside(int number, const siginfo_t *info)
{
  struct sigaction fallback = {.sa_handler = SIG_DFL};
  sigaction(number,
            before_of(number)->sa_handler == SIG_IGN && !(before_of(number)->sa_flags & SA_SIGINFO) ? &fallback
                                                                                                    : before_of(number),
            NULL);
  if (info->si_code <= 0)
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

/* The program's handler finds the signals blocked that it asked for, and is the one who is called next time if it asked to be
 * called once. */
static void call_before(int number, siginfo_t *info, void *context)
{
  const struct sigaction *before = before_of(number);
  sigset_t mask;
  sigprocmask(SIG_BLOCK, &before->sa_mask, &mask);
  if (before->sa_flags & SA_SIGINFO)
    before->sa_sigaction(number, info, context);
  else
    before->sa_handler(number);
  sigprocmask(SIG_SETMASK, &mask, NULL);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
  int saved = errno;
  const struct sigaction *before = before_of(number);
  if (info->si_code > 0)
    said_by(info->si_addr, access_of(context));
  if (before->sa_flags & SA_SIGINFO || (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN))
    call_before(number, info, context);
  else
    step_aside(number, info);
  errno = saved;
}

void os_watch_faults(os_fault_fn *say)
{
  static uint32_t watched;
  if (__atomic_exchange_n(&watched, 1, __ATOMIC_RELAXED))
    return;
  int saved = errno;
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  said_by = say;
  /* What there was before is known before the handler can be called. */
  sigaction(SIGSEGV, NULL, &before_segv);
  sigaction(SIGBUS, NULL, &before_bus);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  errno = saved;
}
