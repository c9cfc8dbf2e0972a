/* SPDX-License-Identifier: MIT
 * The stacks of os.h are those that the compiler's unwinder sees, whatever the frames are like. */
#include "debug/linux_tables.h"
#include "os/tool.h"
#include "stacks.h"
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unwind.h>

static volatile unsigned after_call;

typedef struct both {
  os_stack_t own, expected;
} both_t;
static both_t both;

typedef struct frames {
  const void *from;
  os_stack_t *stack;
} frames_t;

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument)
{
  frames_t *f = argument;
  const void *address = (const void *)_Unwind_GetIP(context);
  if (address && (f->stack->count || address == f->from))
    f->stack->frames[f->stack->count++] = address;
  return address && f->stack->count < f->stack->most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

OPAQUE static void take(void)
{
  const void *from = __builtin_return_address(0);
  both.expected.count = 0;
  both.own.most = both.expected.most = OS_STACK_MOST;
  errno = 77;
  os_take_stack(from, &both.own);
  must_be_same_at(__builtin_frame_address(0), &both.own, from);
  assert_int_equal(errno, 77);
  _Unwind_Backtrace(visit, &(frames_t){from, &both.expected});
  after_call++;
}

static void assert_are_same(size_t least)
{
  assert_true(both.own.count >= least);
  assert_int_equal(both.own.count, both.expected.count);
  for (size_t i = 0; i < both.own.count; i++)
    assert_ptr_equal(both.own.frames[i], both.expected.frames[i]);
}

/* An emulator may have signals return to a place that no module has, where the stack ends. */
static bool are_all_of_modules(void)
{
  module_t module;
  for (size_t i = 0; i < both.expected.count; i++)
    if (!module_find((uintptr_t)both.expected.frames[i], &module))
      return false;
  return true;
}

/* The second time it goes by what was found the first time. */
static void call_and_compare(void (*call)(void), size_t least)
{
  for (int i = 0; i < 3; i++) {
    both.own.count = 0;
    call();
    if (!are_all_of_modules())
      skip();
    assert_are_same(least);
  }
}

static int load(void **state)
{
  (void)state;
  os_load_stacks();
  return 0;
}

/* ---- frames ---- */

static void plain(void **state)
{
  (void)state;
  call_and_compare(take, 2);
}

OPAQUE static void recurse(unsigned depth)
{
  if (depth)
    recurse(depth - 1);
  else
    take();
  after_call++;
}

static void recurse_a_little(void) { recurse(5), after_call++; }
static void recurse_far(void) { recurse(100), after_call++; }

static void recursion(void **state)
{
  (void)state;
  call_and_compare(recurse_a_little, 8);
  call_and_compare(recurse_far, OS_STACK_MOST);
}

OPAQUE static void with_alloca(unsigned depth)
{
  volatile char *room = alloca(depth * 100 + 1 + after_call % 8);
  room[0] = 1;
  if (depth)
    with_alloca(depth - 1);
  else
    take();
  after_call += room[0];
}

static void alloca_of_some(void) { with_alloca(10), after_call++; }

static void frames_of_any_length(void **state)
{
  (void)state;
  call_and_compare(alloca_of_some, 13);
}

/* The stack pointer is aligned, and the frame of the caller found by a register. */
OPAQUE static void with_alignment(unsigned depth)
{
  _Alignas(256) volatile char room[256];
  volatile char *more = alloca(depth * 100 + 1);
  room[depth] = more[0] = 1;
  if (depth)
    with_alignment(depth - 1);
  else
    take();
  after_call += room[depth] + more[0];
}

static void align_some(void) { with_alignment(10), after_call++; }

static void aligned_frames(void **state)
{
  (void)state;
  call_and_compare(align_some, 13);
}

OPAQUE static void with_pages(unsigned depth)
{
  volatile char room[20000];
  room[depth] = 1;
  if (depth)
    with_pages(depth - 1);
  else
    take();
  after_call += room[depth];
}

static void pages_of_some(void) { with_pages(10), after_call++; }

static void frames_of_pages(void **state)
{
  (void)state;
  call_and_compare(pages_of_some, 13);
}

/* They need all the registers that a call leaves alone. */
OPAQUE static unsigned with_registers(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f)
{
  if (!a)
    take();
  else
    after_call += with_registers(a - 1, f, e, d, c, b);
  return a * b + c * d + e * f + after_call;
}

static void registers_of_some(void) { after_call += with_registers(9, 2, 3, 4, 5, 6); }

static void frames_with_registers(void **state)
{
  (void)state;
  call_and_compare(registers_of_some, 12);
}

OPAQUE static void jump_to_take(void) { take(); }
OPAQUE static void jump_once_more(void) { jump_to_take(); }
static void jump_twice(void) { jump_once_more(), after_call++; }

static void tail_calls(void **state)
{
  (void)state;
  call_and_compare(jump_twice, 2);
}

/* It does not come back, so what follows its call is another function's. */
static jmp_buf place_to_go;
OPAQUE _Noreturn static void take_and_leave(void)
{
  take();
  longjmp(place_to_go, 1);
}
OPAQUE _Noreturn static void end_with_call(void) { take_and_leave(); }
static void leave(void)
{
  if (!setjmp(place_to_go))
    end_with_call();
}

static void calls_that_end_a_function(void **state)
{
  (void)state;
  call_and_compare(leave, 3);
}

static int compare(const void *a, const void *b)
{
  (void)a, (void)b;
  take();
  after_call++;
  return 0;
}

static void sort(void)
{
  int numbers[] = {1, 2};
  qsort(numbers, 2, sizeof *numbers, compare);
  after_call++;
}

static void through_the_c_library(void **state)
{
  (void)state;
  call_and_compare(sort, 4);
}

/* ---- signals ---- */

static void handle(int number)
{
  (void)number;
  take();
  after_call++;
}

OPAQUE static void raise_it(void) { raise(SIGUSR1), after_call++; }

static void with_handler(int flags)
{
  struct sigaction action = {.sa_handler = handle, .sa_flags = flags}, old;
  assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
  call_and_compare(raise_it, 5);
  assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

static void in_a_signal(void **state)
{
  (void)state;
  with_handler(0);
}

static void on_a_stack_of_signals(void **state)
{
  (void)state;
  static char memory[256 << 10];
  stack_t alternate = {.ss_sp = memory, .ss_size = sizeof memory}, old;
  assert_int_equal(sigaltstack(&alternate, &old), 0);
  with_handler(SA_ONSTACK);
  old.ss_flags |= old.ss_sp ? 0 : SS_DISABLE;
  assert_int_equal(sigaltstack(&old, NULL), 0);
}

/* Nobody has called the instruction. */
static void at_a_fault(void)
{
  if (!setjmp(place_to_go))
    __builtin_trap();
}

static void handle_fault(int number)
{
  handle(number);
  longjmp(place_to_go, 1);
}

static void in_a_fault(void **state)
{
  (void)state;
  struct sigaction action = {.sa_handler = handle_fault, .sa_flags = SA_NODEFER}, old[2];
  if (SANITIZED)
    skip();
  assert_int_equal(sigaction(SIGILL, &action, &old[0]), 0);
  assert_int_equal(sigaction(SIGTRAP, &action, &old[1]), 0);
  call_and_compare(at_a_fault, 5);
  assert_int_equal(sigaction(SIGILL, &old[0], NULL), 0);
  assert_int_equal(sigaction(SIGTRAP, &old[1], NULL), 0);
}

/* Some libraries return from signals by code without tables. */
#ifdef __aarch64__
__asm__(".text\n\tnop\nno_tables:\tmov x8, #139\n\tsvc #0");
#else
__asm__(".text\n\tnop\nno_tables:\tmovq $15, %rax\n\tsyscall");
#endif
extern void no_tables(void) __attribute__((visibility("hidden")));

typedef struct kernel_action {
  void (*handle)(int number);
  unsigned long flags;
  void (*give_up)(void);
  unsigned long mask;
} kernel_action_t;

static void signals_without_tables(void **state)
{
  (void)state;
  enum { HAS_RESTORER = 0x04000000 };
  kernel_action_t action = {handle, HAS_RESTORER, no_tables, 0}, old;
  assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR1, &action, &old, 8), 0);
  call_and_compare(raise_it, 5);
  assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR1, &old, NULL, 8), 0);
}

/* A trap behind each instruction: beginnings and ends of functions, jumps to other modules, and the loader that finds where
 * they lead the first time. */
#if defined __x86_64__
static unsigned traps;

static void step_on(int number, siginfo_t *info, void *context)
{
  enum { TRAP_FLAG = 0x100 };
  greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
  (void)info;
  if (number == SIGUSR1)
    *flags |= TRAP_FLAG;
  if (number == SIGUSR2)
    *flags &= ~TRAP_FLAG;
  if (number != SIGTRAP)
    return;
  traps++;
  take();
  assert_are_same(3);
}

OPAQUE static unsigned with_registers_alone(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f)
{
  if (a)
    after_call += with_registers_alone(a - 1, f, e, d, c, b);
  return a * b + c * d + e * f + after_call;
}

OPAQUE static void go_by_steps(void)
{
  char text[32];
  raise(SIGUSR1);
  snprintf(text, sizeof text, "%u %g", after_call, strtod("0.5", NULL));
  with_registers_alone(3, 2, 3, 4, 5, 6);
  free(strdup(text));
  raise(SIGUSR2);
  after_call++;
}

static void at_each_instruction(void **state)
{
  (void)state;
  static const int numbers[] = {SIGUSR1, SIGTRAP, SIGUSR2};
  struct sigaction action = {.sa_sigaction = step_on, .sa_flags = SA_SIGINFO}, old[3];
  if (SANITIZED || os_tool_is_valgrind())
    skip();
  for (int i = 0; i < 3; i++)
    assert_int_equal(sigaction(numbers[i], &action, &old[i]), 0);
  go_by_steps();
  for (int i = 0; i < 3; i++)
    assert_int_equal(sigaction(numbers[i], &old[i], NULL), 0);
  assert_true(traps > 1000);
}
#else
static void at_each_instruction(void **state)
{
  (void)state;
  skip();
}
#endif

/* ---- other stacks ---- */

static void *run(void *unused)
{
  call_and_compare(recurse_a_little, 8);
  return unused;
}

static void in_a_thread(void **state)
{
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static ucontext_t outer, inner;
static char coroutine_stack[256 << 10];

static void run_coroutine(void)
{
  run(NULL);
  after_call++;
}

static void in_a_coroutine(void **state)
{
  (void)state;
  assert_int_equal(getcontext(&inner), 0);
  inner.uc_stack.ss_sp = coroutine_stack;
  inner.uc_stack.ss_size = sizeof coroutine_stack;
  inner.uc_link = &outer;
  makecontext(&inner, run_coroutine, 0);
  assert_int_equal(swapcontext(&outer, &inner), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(plain),
    cmocka_unit_test(recursion),
    cmocka_unit_test(frames_of_any_length),
    cmocka_unit_test(aligned_frames),
    cmocka_unit_test(frames_of_pages),
    cmocka_unit_test(frames_with_registers),
    cmocka_unit_test(tail_calls),
    cmocka_unit_test(calls_that_end_a_function),
    cmocka_unit_test(through_the_c_library),
    cmocka_unit_test(in_a_signal),
    cmocka_unit_test(on_a_stack_of_signals),
    cmocka_unit_test(in_a_fault),
    cmocka_unit_test(signals_without_tables),
    cmocka_unit_test(at_each_instruction),
    cmocka_unit_test(in_a_thread),
    cmocka_unit_test(in_a_coroutine),
  };
  return cmocka_run_group_tests(tests, load, NULL);
}
