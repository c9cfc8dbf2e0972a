/* SPDX-License-Identifier: MIT
 * What tests of heaps ask of Linux. tests/windows/heaps_system.c has what Windows can answer. */
#include "heaps.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- no system calls ---- */

static bool filter_is_there(void) { return prctl(PR_GET_SECCOMP) == 0; }

void no_more_system_calls(void)
{
  struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {COUNT_OF(filter), filter};
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

typedef struct sealed {
  void (*run)(void *);
  void *argument;
} sealed_t;

/* Not through _exit(): where coverage is counted it writes files first. */
static void run_sealed(void *argument)
{
  sealed_t *sealed = argument;
  sealed->run(sealed->argument);
  syscall(SYS_exit_group, 0);
}

void in_sealed_child(void (*run)(void *), void *argument)
{
  if (SANITIZED || !filter_is_there())
    skip();
  in_child(run_sealed, &(sealed_t){run, argument});
}

void ends_by_signal(void (*run)(void *), void *argument, int signal)
{
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    run(argument);
    _exit(0);
  }
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), signal);
}

/* ---- pages ---- */

bool is_resident(const void *block, size_t size)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = (uintptr_t)block % page, pages = (skip + size + page - 1) / page;
  unsigned char *in_memory = malloc(pages);
  must(in_memory && mincore((char *)(uintptr_t)block - skip, pages * page, in_memory) == 0);
  size_t count = 0;
  for (size_t i = 0; i < pages; i++)
    count += in_memory[i] & 1;
  free(in_memory);
  if (count != pages)
    print_error("%zu of %zu pages are in memory\n", count, pages);
  return count == pages;
}

bool may_lock(size_t size)
{
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(memory != MAP_FAILED);
  bool may = mlock(memory, size) == 0;
  munmap(memory, size);
  return may;
}

uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
