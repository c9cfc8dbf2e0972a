// SPDX-License-Identifier: MIT
//
// Plain checks instead of cmocka: an exception may not cross its setjmp. The last line is as cmocka's, where cases are counted.
#ifndef TESTING_H
#define TESTING_H

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures = 0;

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      failures++; \
    } \
  } while (0)

struct test_case {
  const char *name;
  void (*run)();
};

#define CASE(function) \
  { \
#function, function \
  }

template <std::size_t N>
int run_tests(const test_case (&cases)[N])
{
  for (const test_case &each : cases) {
    const int before = failures;
    each.run();
    std::printf("[  %s  ] %s\n", failures == before ? "    OK" : "FAILED", each.name);
  }
  std::printf("[==========] %zu test(s) run.\n", N);
  return failures != 0;
}

template <typename Exception, typename Function>
bool throws(Function &&function)
{
  try {
    function();
  } catch (const Exception &) {
    return true;
  }
  return false;
}

// What the exception says; "" if there is none of that type.
template <typename Exception, typename Function>
std::string said_by(Function &&function)
{
  try {
    function();
  } catch (const Exception &exception) {
    return exception.what();
  }
  return "";
}

// Whether the function ends the program by SIGABRT, with a line that has the text.
template <typename Function>
bool ends_with(const char *text, Function &&function)
{
  int ends[2];
  std::fflush(nullptr);
  if (pipe(ends))
    return false;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    function();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char some[512];
  for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;)
    said.append(some, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && said.find(text) != std::string::npos;
  if (!ended)
    std::fprintf(stderr, "status %#x, said: %s\n", static_cast<unsigned>(status), said.c_str());
  return ended;
}

#endif
