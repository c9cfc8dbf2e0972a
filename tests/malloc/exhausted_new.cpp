// SPDX-License-Identifier: MIT
//
// operator new where there is nothing left, not even for the loader: takes all there is in ever smaller blocks. The program
// limits its address space and starts itself anew, so that the library is under the limit from the beginning; as a plug-in of
// late_runtime, with -DPLUG_IN, it is limited there.
//
// usage: exhausted_new
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

static int handler_calls;

static void throw_bad_alloc()
{
  handler_calls++;
  throw std::bad_alloc();
}

static void *last;

static bool keep(void *block)
{
  if (block) {
    *static_cast<void **>(block) = last;
    last = block;
  }
  return block;
}

// Each of the forms takes what is left of a size and then returns null, once for each call of the handler.
static bool take_all(std::size_t size)
{
  const auto alignment = static_cast<std::align_val_t>(16);
  int before = handler_calls;
  while (keep(::operator new(size, std::nothrow)))
    ;
  while (keep(::operator new[](size, std::nothrow)))
    ;
  while (keep(::operator new(size, alignment, std::nothrow)))
    ;
  while (keep(::operator new[](size, alignment, std::nothrow)))
    ;
  return handler_calls == before + 4;
}

static bool throwing_form_throws(std::size_t size)
{
  try {
    for (;;)
      keep(::operator new(size));
  } catch (const std::bad_alloc &) {
    return true;
  }
}

static void give_back_all()
{
  while (last) {
    void *block = last;
    last = *static_cast<void **>(block);
    ::operator delete(block);
  }
}

extern "C" const char *late_runtime_run();

const char *late_runtime_run()
{
  const char *failure = nullptr;
  try { // The runtime's thread-local data, without which the loader would end the program.
    throw_bad_alloc();
  } catch (const std::bad_alloc &) {}
  std::set_new_handler(throw_bad_alloc);
  for (std::size_t size = 1 << 16; size >= 16; size /= 4) // first whole units, so that no small block finds room
    if (!take_all(size))
      failure = "a form did not ask the handler, or asked it again";
  if (!throwing_form_throws(16))
    failure = "nothing was thrown";
  std::set_new_handler(nullptr);
  give_back_all();
  return failure;
}

#ifndef PLUG_IN
#include "ours.h"

static const std::size_t limit = std::size_t(256) << 20;

int main(int, char **argv)
{
  if (!std::getenv("EXHAUSTED_NEW_LIMITED")) {
    rlimit now = {limit, limit};
    setenv("EXHAUSTED_NEW_LIMITED", "1", 1);
    if (setrlimit(RLIMIT_AS, &now) != 0)
      return 1;
    execv("/proc/self/exe", argv);
    return 1;
  }
  for (int round = 0; round < 2; round++) {
    const char *failure = late_runtime_run();
    if (failure) {
      std::fprintf(stderr, "failed: %s\n", failure);
      return 1;
    }
  }
  return 0;
}
#endif
