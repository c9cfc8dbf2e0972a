/* SPDX-License-Identifier: MIT
 *
 * Faults on Linux. The handler reports what is known and then steps aside: for the program's earlier handler, or else for the
 * default action, which the repeated access triggers. The program's handler gets what it asked for: its stack, blocked signals,
 * and being called once. If there was none, this handler runs on the program's signal stack, or else the thread's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "debug/system.h"
#include "os/lock.h"
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static os_fault_fn *said_by;

typedef struct before {
  struct sigaction action;
  uint32_t called; /* it was to be called once, and was */
} before_t;
static before_t before_segv, before_bus;

static before_t *before_of(int signal) { return signal == SIGBUS ? &before_bus : &before_segv; }

static bool is_function(const struct sigaction *action)
{
  return action->sa_flags & SA_SIGINFO || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* The kernel stores here what the processor reported about the access. */
#if defined __x86_64__
#define INSTRUCTION(machine) ((machine).gregs[REG_RIP])
#define ERROR(machine)       ((machine).gregs[REG_ERR])
#elif defined __i386__
#define INSTRUCTION(machine) ((machine).gregs[REG_EIP])
#define ERROR(machine)       ((machine).gregs[REG_ERR])
#elif defined __aarch64__
#define INSTRUCTION(machine) ((machine).pc)
#elif defined __arm__
#define INSTRUCTION(machine) ((machine).arm_pc)
#endif

#ifdef ERROR
static os_access_t access_of(const ucontext_t *context)
{
  enum { FAULT_WRITE = 1 << 1, FAULT_FETCH = 1 << 4 };
  unsigned long error = (unsigned long)ERROR(context->uc_mcontext);
  return error & FAULT_FETCH ? OS_RUNS : error & FAULT_WRITE ? OS_WRITES : OS_READS;
}
#else
static os_access_t access_of(const ucontext_t *context)
{
  (void)context;
  return OS_ACCESSES;
}
#endif

#ifdef INSTRUCTION
static const void *instruction_of(const ucontext_t *context)
{
  return (const void *)(uintptr_t)INSTRUCTION(context->uc_mcontext);
}
#else
static const void *instruction_of(const ucontext_t *context)
{
  (void)context;
  return NULL;
}
#endif

/* The kernel drops an ignored signal that was sent, and ends a process that ignores a fault. Sent signals do not recur. */
static void step_aside(int number, const siginfo_t *info, bool ignored)
{
  bool sent = info->si_code <= 0;
  if (sent && ignored)
    return;
  struct sigaction fallback = {.sa_handler = SIG_DFL};
  sigaction(number, &fallback, NULL);
  if (sent)
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
  int saved = errno;
  before_t *before = before_of(number);
  const struct sigaction *action = &before->action;
  bool once = action->sa_flags & (int)SA_RESETHAND;
  if (info->si_code > 0)
    said_by(info->si_addr, access_of(context), instruction_of(context));
  if (!is_function(action) || (once && __atomic_exchange_n(&before->called, 1, __ATOMIC_RELAXED)))
    step_aside(number, info, !is_function(action) && action->sa_handler == SIG_IGN);
  else if (action->sa_flags & SA_SIGINFO)
    action->sa_sigaction(number, info, context);
  else
    action->sa_handler(number);
  errno = saved;
}

static void watch(int number)
{
  struct sigaction *before = &before_of(number)->action, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(number, NULL, before);
  sigemptyset(&action.sa_mask);
  if (is_function(before)) {
    action.sa_mask = before->sa_mask;
    action.sa_flags |= before->sa_flags & (SA_ONSTACK | SA_NODEFER | SA_RESTART);
  } else {
    action.sa_flags |= SA_ONSTACK;
  }
  sigaction(number, &action, NULL);
}

void os_watch_faults(os_fault_fn *say)
{
  static uint32_t watched;
  if (__atomic_exchange_n(&watched, 1, __ATOMIC_RELAXED))
    return;
  int saved = errno;
  said_by = say;
  watch(SIGSEGV);
  watch(SIGBUS);
  errno = saved;
}
