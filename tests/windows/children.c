/* SPDX-License-Identifier: MIT
 *
 * Children of unit.h, without fork(): the program starts itself again. The child does what precedes the first test, and then
 * calls the function in place of the tests. It gets the function, and the argument if that is in the program, by their distance
 * from its start. Of an argument elsewhere it gets a copy, in which pointers hold only if they point into the program. What
 * tests before did is not there. */
#include "unit.h"
#include <fcntl.h>
#include <io.h>
#include <windows.h>

enum { COPIED = 512, STUCK_MS = 600000, ABORTED = 3, START_TRIES = 5 /* wine 8.0 once refused a child */ };
static const char variable[] = "UNIT_CHILD";

typedef enum kind { NUMBER, IN_PROGRAM, COPY } kind_t;
typedef struct order {
  uint64_t run, argument; /* distances, but for a number */
  kind_t kind;
  unsigned char copy[COPIED];
} order_t;

static char *start_of_program(void) { return (char *)GetModuleHandleA(NULL); }

static bool is_in_program(const void *address)
{
  MEMORY_BASIC_INFORMATION pages;
  return VirtualQuery(address, &pages, sizeof pages) && (char *)pages.AllocationBase == start_of_program();
}

/* Copies as much as there is. NULL is a number. */
static void set_argument(order_t *order, const void *argument)
{
  MEMORY_BASIC_INFORMATION pages;
  order->argument = (uint64_t)(uintptr_t)argument;
  if (is_in_program(argument)) {
    order->kind = IN_PROGRAM;
    order->argument -= (uint64_t)(uintptr_t)start_of_program();
  } else if (VirtualQuery(argument, &pages, sizeof pages) && pages.State == MEM_COMMIT) {
    order->kind = COPY;
    memcpy(order->copy, argument,
           min_size((size_t)((char *)pages.BaseAddress + pages.RegionSize - (const char *)argument), COPIED));
  }
}

static HANDLE start(void (*run)(void *), void *argument, HANDLE standard_error)
{
  order_t order = {.run = (uint64_t)((char *)run - start_of_program())};
  char text[2 * sizeof order + 1], *at = text;
  set_argument(&order, argument);
  for (size_t i = 0; i < sizeof order; i++)
    at += sprintf(at, "%02x", ((unsigned char *)&order)[i]);
  STARTUPINFOA startup = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES};
  PROCESS_INFORMATION child;
  char program[MAX_PATH];
  startup.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
  startup.hStdError = standard_error ? standard_error : GetStdHandle(STD_ERROR_HANDLE);
  fflush(NULL);
  assert_true(GetModuleFileNameA(NULL, program, sizeof program) && SetEnvironmentVariableA(variable, text));
  BOOL started = FALSE;
  for (unsigned i = 0; !started && i < START_TRIES; i++) {
    Sleep(i * 100);
    started = CreateProcessA(program, GetCommandLineA(), NULL, NULL, TRUE, 0, NULL, NULL, &startup, &child);
  }
  DWORD error = GetLastError();
  SetEnvironmentVariableA(variable, NULL);
  if (!started)
    print_error("the child cannot be started: error %lu\n", error);
  assert_true(started);
  CloseHandle(child.hThread);
  return child.hProcess;
}

static int wait_for(HANDLE child)
{
  DWORD code = 0;
  if (WaitForSingleObject(child, STUCK_MS) != WAIT_OBJECT_0)
    TerminateProcess(child, 99);
  WaitForSingleObject(child, INFINITE);
  assert_true(GetExitCodeProcess(child, &code));
  CloseHandle(child);
  return (int)code;
}

static void begin_as_child(void)
{
  static order_t order;
  const char *text = getenv(variable);
  if (!text)
    return;
  for (size_t i = 0; i < sizeof order; i++) {
    unsigned byte;
    must(sscanf(text + 2 * i, "%2x", &byte) == 1);
    ((unsigned char *)&order)[i] = (unsigned char)byte;
  }
  char *base = start_of_program();
  void (*run)(void *) = (void (*)(void *))(uintptr_t)(base + order.run);
  run(order.kind == COPY ? order.copy : (void *)((order.kind == IN_PROGRAM ? (uintptr_t)base : 0) + (uintptr_t)order.argument));
  fflush(NULL);
  _exit(0);
}

__attribute__((constructor)) static void look_whether_child(void) { cmocka_before_first = begin_as_child; }

/* An exit code, where wait() has a status. */
int end_of_child(void (*run)(void *), void *argument) { return wait_for(start(run, argument, NULL)); }

void in_child(void (*run)(void *), void *argument) { in_child_named("", run, argument); }

void in_child_named(const char *name, void (*run)(void *), void *argument)
{
  int code = end_of_child(run, argument);
  if (code)
    print_error("%s: the child ended with code %#x\n", name, (unsigned)code);
  assert_int_equal(code, 0);
}

void aborts_with(void (*run)(void *), void *argument, const char *words)
{
  SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
  HANDLE from, to;
  char said[4096];
  assert_true(CreatePipe(&from, &to, &inherited, 0));
  HANDLE child = start(run, argument, to);
  CloseHandle(to);
  size_t length = 0;
  for (DWORD n;
       length < sizeof said - 1 && ReadFile(from, said + length, (DWORD)(sizeof said - 1 - length), &n, NULL) && n > 0;)
    length += n;
  CloseHandle(from);
  said[length] = 0;
  int code = wait_for(child);
  if (code != ABORTED || !strstr(said, words))
    print_error("code %#x, said: %s, expected: %s\n", (unsigned)code, said, words);
  assert_int_equal(code, ABORTED);
  assert_non_null(strstr(said, words));
}
