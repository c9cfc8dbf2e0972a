/* SPDX-License-Identifier: MIT
 * A program's own handler of faults, which was there before the first guarded block, finds what the kernel would have given it.
 */
#include "heaps.h"
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 128 << 10, LOCAL = 64 << 10 };

static jmp_buf out;
static char *volatile nowhere; /* NULL, which no compiler may know */
static volatile sig_atomic_t calls;
static char stack_of_signals[STACK];

/* What makes the handler its own comes after it was set up. */
static void watch_faults(void)
{
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "walls", .flags = POOL_HEAP_GUARDED});
  must(pool_heap_alloc(heap, 100) != NULL);
}

static void handle(int signal, void (*handler)(int), int flags)
{
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  must(sigaction(signal, &action, NULL) == 0);
  watch_faults();
}

static void touch(void) { *nowhere = 1; }

/* ---- how a program ends ---- */

static void count_and_return(int number)
{
  (void)number;
  if (++calls > 3)
    _exit(9);
}

static void called_once(void *argument)
{
  (void)argument;
  handle(SIGSEGV, count_and_return, (int)SA_RESETHAND);
  touch();
}

static void ignores(void *argument)
{
  (void)argument;
  handle(SIGSEGV, SIG_IGN, 0);
  must(kill(getpid(), SIGSEGV) == 0 && raise(SIGSEGV) == 0);
  touch(); /* which cannot be ignored */
}

/* Before the test's own. */
static void have_none(void)
{
  must(signal(SIGSEGV, SIG_DFL) != SIG_ERR && signal(SIGBUS, SIG_DFL) != SIG_ERR);
  watch_faults();
}

static void has_none(void *argument)
{
  (void)argument;
  have_none();
  touch();
}

static void is_sent_one(void *argument)
{
  (void)argument;
  have_none();
  raise(SIGBUS);
}

static void ends(void **state)
{
  static const struct {
    void (*run)(void *);
    int signal;
  } cases[] = {{called_once, SIGSEGV}, {ignores, SIGSEGV}, {has_none, SIGSEGV}, {is_sent_one, SIGBUS}};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    ends_by_signal(cases[i].run, NULL, cases[i].signal);
}

/* ---- how it goes on ---- */

static void jump_out(int number)
{
  (void)number;
  calls++;
  longjmp(out, 1); /* and the signal stays blocked, unless SA_NODEFER was asked for */
}

static void faults_again(void *argument)
{
  (void)argument;
  handle(SIGSEGV, jump_out, SA_NODEFER);
  for (int i = 0; i < 3; i++)
    if (setjmp(out) == 0)
      touch();
  must(calls == 3);
}

static void look_at_mask(int number)
{
  sigset_t now;
  must(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
  must(sigismember(&now, SIGUSR1) == 1 && sigismember(&now, SIGUSR2) == 0 && sigismember(&now, number) == 1);
  calls++;
}

static void blocks_what_it_wants(void *argument)
{
  (void)argument;
  struct sigaction action = {.sa_handler = look_at_mask};
  sigaddset(&action.sa_mask, SIGUSR1);
  must(sigaction(SIGSEGV, &action, NULL) == 0);
  watch_faults();
  raise(SIGSEGV);
  sigset_t now;
  must(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && calls == 1);
  must(sigismember(&now, SIGUSR1) == 0 && sigismember(&now, SIGSEGV) == 0);
}

static bool is_on_stack_of_signals(const void *address) { return (size_t)((const char *)address - stack_of_signals) < STACK; }

static volatile sig_atomic_t was_on_stack_of_signals;

static void look_at_stack(int number)
{
  (void)number;
  volatile char local[LOCAL];
  local[0] = local[LOCAL - 1] = 1;
  was_on_stack_of_signals = is_on_stack_of_signals((const void *)(uintptr_t)local);
  calls++;
}

static void use_stack_of_signals(void)
{
  must(sigaltstack(&(stack_t){.ss_sp = stack_of_signals, .ss_size = STACK}, NULL) == 0);
}

static void stays_on_its_stack(void *argument)
{
  (void)argument;
  use_stack_of_signals();
  handle(SIGSEGV, look_at_stack, 0);
  raise(SIGSEGV);
  must(calls == 1 && !was_on_stack_of_signals);
}

static void goes_to_the_stack_of_signals(void *argument)
{
  (void)argument;
  use_stack_of_signals();
  handle(SIGSEGV, look_at_stack, SA_ONSTACK);
  raise(SIGSEGV);
  must(calls == 1 && was_on_stack_of_signals);
}

static void goes_on(void **state)
{
  static void (*const cases[])(void *) = {faults_again, stays_on_its_stack, goes_to_the_stack_of_signals};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); i++)
    in_child(cases[i], NULL);
}

static void signals_are_blocked(void **state)
{
  (void)state;
  in_child(blocks_what_it_wants, NULL);
}

/* Sanitizers have handlers of their own. */
int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ends),
    cmocka_unit_test(goes_on),
    cmocka_unit_test(signals_are_blocked),
  };
  return SANITIZED ? 0 : cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
