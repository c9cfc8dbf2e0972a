/* SPDX-License-Identifier: MIT
 *
 * A thread confines itself to the system calls that the library may make once it is up (docs/DESIGN.md, System calls). The
 * program ends at any other, with its number: a filter of Linux (seccomp) sends a signal instead of making the call. */
#ifndef SEALED_H
#define SEALED_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  SEAL_FENCES = 1 << 0,  /* membarrier(): heaps with budgets, and object pools, reach into other threads */
  SEAL_THREADS = 1 << 1, /* what the C library needs for threads that begin and end meanwhile, */
  SEAL_FORKS = 1 << 2,   /* and for forks; */
  SEAL_BREAK = 1 << 3,   /* what its own malloc needs */
  SEAL_ALL = 1 << 5,     /* of the threads that there are */
  SEAL_MASK = 1 << 4,    /* rt_sigprocmask(): a thread frees before it has a record */
  SEALED_MOST = 64,
  SEAL_REFUSED = 9, /* the status of a program that made another call */
  SEAL_SKIPPED = 77
};

static inline void seal_refused(int number, siginfo_t *about, void *context)
{
  char text[80];
  (void)number, (void)context;
  int length = snprintf(text, sizeof text, "system call %d is not one of those that are enough\n", about->si_syscall);
  if (write(STDERR_FILENO, text, (size_t)length) < 0)
    _exit(SEAL_REFUSED + 1);
  _exit(SEAL_REFUSED);
}

/* False: there are no filters here, or another one is there already. The signal is caught from now on. */
static inline bool seal_begin(void)
{
  struct sigaction action = {.sa_sigaction = seal_refused, .sa_flags = SA_SIGINFO};
  return prctl(PR_GET_SECCOMP) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && sigaction(SIGSYS, &action, NULL) == 0;
}

typedef struct seal_filter {
  struct sock_filter steps[SEALED_MOST];
  unsigned short length;
} seal_filter_t;

static inline void seal_add(seal_filter_t *filter, const struct sock_filter *steps, size_t count)
{
  if (filter->length + count > SEALED_MOST)
    abort();
  memcpy(&filter->steps[filter->length], steps, count * sizeof *steps);
  filter->length = (unsigned short)(filter->length + count);
}

static inline void seal_allow(seal_filter_t *filter, long number)
{
  const struct sock_filter steps[] = {
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  seal_add(filter, steps, sizeof steps / sizeof *steps);
}

/* What the C library calls for threads that begin and end meanwhile: clone3() where it knows that. */
static inline void seal_allow_threads(seal_filter_t *filter)
{
  seal_allow(filter, SYS_clone);
#ifdef SYS_clone3
  seal_allow(filter, SYS_clone3);
#endif
#ifdef SYS_rseq
  seal_allow(filter, SYS_rseq);
#endif
  seal_allow(filter, SYS_set_robust_list);
  seal_allow(filter, SYS_set_tid_address);
}

static inline void seal_allow_forks(seal_filter_t *filter)
{
  seal_allow(filter, SYS_wait4);
#ifndef __GLIBC__ /* musl makes other calls */
#ifdef SYS_fork
  seal_allow(filter, SYS_fork);
#endif
  seal_allow(filter, SYS_gettid);
#endif
}

/* For the calling thread and those that it starts from now on; SEAL_ALL: for all that there are, too. Of the calls that are
 * allowed the last three are the test's. */
static inline void seal(unsigned allowed)
{
  static const long numbers[] = {
#ifdef SYS_mmap2
    SYS_mmap2,
#else
    SYS_mmap,
#endif
#ifdef SYS_futex_time64
    SYS_futex_time64,
#endif
    SYS_munmap,       SYS_mremap, SYS_mprotect, SYS_madvise, SYS_futex, SYS_write, SYS_exit, SYS_exit_group};
  const struct sock_filter first = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                           last = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  seal_filter_t filter = {.length = 0};
  seal_add(&filter, &first, 1);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    seal_allow(&filter, numbers[i]);
  if (allowed & SEAL_FENCES)
    seal_allow(&filter, SYS_membarrier);
  if (allowed & SEAL_FORKS)
    seal_allow_forks(&filter);
  if (allowed & SEAL_BREAK)
    seal_allow(&filter, SYS_brk);
  if (allowed & (SEAL_MASK | SEAL_THREADS | SEAL_FORKS))
    seal_allow(&filter, SYS_rt_sigprocmask);
  if (allowed & (SEAL_THREADS | SEAL_FORKS))
    seal_allow_threads(&filter);
  seal_add(&filter, &last, 1);
  struct sock_fprog program = {filter.length, filter.steps};
  unsigned flags = allowed & SEAL_ALL ? SECCOMP_FILTER_FLAG_TSYNC : 0;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0) {
    perror("the filter is refused");
    _exit(1);
  }
}

#endif
