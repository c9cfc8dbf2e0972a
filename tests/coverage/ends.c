/* SPDX-License-Identifier: MIT
 * For tools/coverage. The counts of a process are written by exit(); a child that leaves through _exit(), or ends with abort()
 * because that is what is tested, would take its counts along. This is linked into every program and library of that build, and
 * the linker puts these functions in the places of the two (--wrap). Each module has counts of its own: it tells
 * libends.so, which all share, how to write them. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

void ends_register(void (*dump)(void));
void ends_dump_all(void);

#ifdef SHARED_BY_ALL
enum { MODULES_MOST = 32 };
static void (*dumps[MODULES_MOST])(void);
static size_t count;

void ends_register(void (*dump)(void))
{
  if (count < MODULES_MOST)
    dumps[count++] = dump;
}

void ends_dump_all(void)
{
  for (size_t i = 0; i < count; i++)
    dumps[i]();
}
#else
void __gcov_dump(void);
_Noreturn void __real_abort(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap_abort(void);
_Noreturn void __wrap__exit(int status);

__attribute__((constructor)) static void tell(void) { ends_register(__gcov_dump); }

/* As abort() does: a handler is called, and if it returns the signal ends the process. What the handler reaches counts too. */
void __wrap_abort(void)
{
  struct sigaction action;
  if (!sigaction(SIGABRT, NULL, &action) && action.sa_handler != SIG_DFL) {
    raise(SIGABRT);
    signal(SIGABRT, SIG_DFL);
  }
  ends_dump_all();
  __real_abort();
}

void __wrap__exit(int status)
{
  ends_dump_all();
  __real__exit(status);
}
#endif
