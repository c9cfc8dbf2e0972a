// SPDX-License-Identifier: MIT
//
// What late_runtime.c loads: every form of operator new, where memory is exhausted.
#include "new_handlers.h"

#include <cstddef>
#include <limits>
#include <new>

extern "C" const char *late_runtime_run();

static const auto alignment = static_cast<std::align_val_t>(64);

// A size that the compiler cannot see through.
static std::size_t impossible()
{
  volatile std::size_t size = std::numeric_limits<std::size_t>::max() / 2;
  return size;
}

static void *(*const throwing_forms[])() = {
  [] { return ::operator new(impossible()); },
  [] { return ::operator new[](impossible()); },
  [] { return ::operator new(impossible(), alignment); },
  [] { return ::operator new[](impossible(), alignment); },
};

static void *(*const nothrow_forms[])() = {
  [] { return ::operator new(impossible(), std::nothrow); },
  [] { return ::operator new[](impossible(), std::nothrow); },
  [] { return ::operator new(impossible(), alignment, std::nothrow); },
  [] { return ::operator new[](impossible(), alignment, std::nothrow); },
};

static bool throws_own(void *(*form)())
{
  try {
    seen(form());
  } catch (const OwnBadAlloc &) {
    return true;
  } catch (...) {}
  return false;
}

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      std::set_new_handler(nullptr); \
      return "failed in a plug-in: " #condition; \
    } \
  } while (0)

const char *late_runtime_run()
{
  delete static_cast<int *>(seen(new int(1)));
  for (int i = 0; i < 20; i++) {
    for (auto form : throwing_forms) {
      CHECK(throws_bad_alloc(form));
      handler_calls = 0;
      std::set_new_handler(give_up_at_the_third_call);
      CHECK(throws_bad_alloc(form));
      CHECK(handler_calls == 3);
      handler_calls = 0;
      std::set_new_handler(throw_at_the_third_call);
      CHECK(throws_own(form));
      CHECK(handler_calls == 3);
      std::set_new_handler(nullptr);
    }
    for (auto form : nothrow_forms) {
      CHECK(!seen(form()));
      handler_calls = 0;
      std::set_new_handler(give_up_at_the_third_call);
      CHECK(!seen(form()));
      CHECK(handler_calls == 3);
      handler_calls = 0;
      std::set_new_handler(throw_at_the_third_call);
      CHECK(!seen(form()));
      CHECK(handler_calls == 3);
      std::set_new_handler(nullptr);
    }
  }
  return nullptr;
}
