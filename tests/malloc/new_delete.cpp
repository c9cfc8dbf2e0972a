// SPDX-License-Identifier: MIT
//
// Every form of operator new and delete. Plain checks instead of cmocka: an exception may not cross its setjmp.
#include "new_handlers.h"
#include "ours.h"

#include <malloc.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

static int failures = 0;

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      failures++; \
    } \
  } while (0)

static const std::size_t sizes[] = {0, 1, 8, 16, 17, 100, 1000, 5000, 40000, 1 << 20};
static const std::size_t alignments[] = {1, 8, 16, 32, 64, 256, 4096, 1 << 16, 1 << 20};

static bool serves(void *block, std::size_t size, std::size_t alignment = 8)
{
  if (!seen(block) || reinterpret_cast<std::uintptr_t>(block) % alignment != 0)
    return false;
  if (malloc_usable_size(block) < size)
    return false;
  std::memset(block, 0x42, size);
  return true;
}

static void test_plain_forms()
{
  for (std::size_t size : sizes) {
    void *block = ::operator new(size);
    CHECK(serves(block, size));
    ::operator delete(block);
    block = ::operator new(size);
    CHECK(serves(block, size));
    ::operator delete(block, size);
    block = ::operator new[](size);
    CHECK(serves(block, size));
    ::operator delete[](block);
    block = ::operator new[](size);
    CHECK(serves(block, size));
    ::operator delete[](block, size);
  }
  ::operator delete(nullptr);
  ::operator delete[](nullptr);
  ::operator delete(nullptr, std::size_t(8));
}

static void test_nothrow_forms()
{
  for (std::size_t size : sizes) {
    void *block = ::operator new(size, std::nothrow);
    CHECK(serves(block, size));
    ::operator delete(block, std::nothrow);
    block = ::operator new[](size, std::nothrow);
    CHECK(serves(block, size));
    ::operator delete[](block, std::nothrow);
  }
}

static void test_aligned_forms()
{
  for (std::size_t size : sizes) {
    for (std::size_t bytes : alignments) {
      const auto alignment = static_cast<std::align_val_t>(bytes);
      void *block = ::operator new(size, alignment);
      CHECK(serves(block, size, bytes));
      ::operator delete(block, alignment);
      block = ::operator new(size, alignment);
      CHECK(serves(block, size, bytes));
      ::operator delete(block, size, alignment);
      block = ::operator new[](size, alignment);
      CHECK(serves(block, size, bytes));
      ::operator delete[](block, alignment);
      block = ::operator new[](size, alignment);
      CHECK(serves(block, size, bytes));
      ::operator delete[](block, size, alignment);
      block = ::operator new(size, alignment, std::nothrow);
      CHECK(serves(block, size, bytes));
      ::operator delete(block, alignment, std::nothrow);
      block = ::operator new[](size, alignment, std::nothrow);
      CHECK(serves(block, size, bytes));
      ::operator delete[](block, alignment, std::nothrow);
    }
  }
}

// Sizes the compiler cannot see through, so that it does not warn of them.
static std::size_t impossible()
{
  volatile std::size_t size = std::numeric_limits<std::size_t>::max() - 100;
  return size;
}

static void test_throwing_forms_throw()
{
  const auto alignment = static_cast<std::align_val_t>(64);
  for (int i = 0; i < 100; i++) {
    CHECK(throws_bad_alloc([] { return ::operator new(impossible()); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](impossible()); }));
    CHECK(throws_bad_alloc([&] { return ::operator new(impossible(), alignment); }));
    CHECK(throws_bad_alloc([&] { return ::operator new[](impossible(), alignment); }));
  }
}

static void test_nothrow_forms_return_null()
{
  const auto alignment = static_cast<std::align_val_t>(64);
  CHECK(!seen(::operator new(impossible(), std::nothrow)));
  CHECK(!seen(::operator new[](impossible(), std::nothrow)));
  CHECK(!seen(::operator new(impossible(), alignment, std::nothrow)));
  CHECK(!seen(::operator new[](impossible(), alignment, std::nothrow)));
}

static void throw_own() { throw std::string("own"); }

static void test_new_handler_is_called()
{
  const auto alignment = static_cast<std::align_val_t>(4096);
  void *(*const forms[])() = {
    [] { return ::operator new(impossible()); },
    [] { return ::operator new[](impossible()); },
    [] { return ::operator new(impossible(), std::nothrow); },
    [] { return ::operator new[](impossible(), std::nothrow); },
  };
  for (auto form : forms) {
    handler_calls = 0;
    std::set_new_handler(give_up_at_the_third_call);
    try {
      CHECK(!seen(form()));
    } catch (const std::bad_alloc &) {}
    CHECK(handler_calls == 3);
  }
  handler_calls = 0;
  std::set_new_handler(give_up_at_the_third_call);
  CHECK(throws_bad_alloc([&] { return ::operator new(impossible(), alignment); }));
  CHECK(handler_calls == 3);
}

static void test_new_handler_may_throw_its_own()
{
  std::set_new_handler(throw_own);
  bool caught = false;
  try {
    seen(::operator new(impossible()));
  } catch (const std::string &text) {
    caught = text == "own";
  }
  CHECK(caught);
  std::set_new_handler(nullptr);
}

static void *(*const nothrow_forms[])() = {
  [] { return ::operator new(impossible(), std::nothrow); },
  [] { return ::operator new[](impossible(), std::nothrow); },
  [] { return ::operator new(impossible(), static_cast<std::align_val_t>(64), std::nothrow); },
  [] { return ::operator new[](impossible(), static_cast<std::align_val_t>(64), std::nothrow); },
};

static void throw_bad_alloc() { throw std::bad_alloc(); }

// What the handler throws is caught there: whoever called would not expect it, and the compiler neither.
static void test_nothrow_forms_catch_what_the_handler_throws()
{
  for (int i = 0; i < 100; i++)
    for (auto form : nothrow_forms) {
      std::set_new_handler(throw_bad_alloc);
      CHECK(!seen(form()));
      handler_calls = 0;
      std::set_new_handler(throw_at_the_third_call);
      CHECK(!seen(form()));
      CHECK(handler_calls == 3);
      CHECK(std::get_new_handler() == throw_at_the_third_call);
      std::set_new_handler(nullptr);
      CHECK(!seen(form()));
    }
}

// A handler that asks for memory itself, without wanting an exception, gets none at any depth.
enum { DEEP = 10 };
static int depth, returned;

static void ask_again_then_throw()
{
  if (++depth < DEEP) {
    CHECK(!seen(nothrow_forms[depth % 4]()));
    returned++;
  }
  throw OwnBadAlloc();
}

static void test_nothrow_forms_inside_the_handler()
{
  std::set_new_handler(ask_again_then_throw);
  for (auto form : nothrow_forms) {
    depth = returned = 0;
    CHECK(!seen(form()));
    CHECK(depth == DEEP && returned == DEEP - 1);
  }
  depth = 0;
  bool caught = false;
  try {
    seen(::operator new(impossible()));
  } catch (const OwnBadAlloc &) {
    caught = true;
  }
  CHECK(caught);
  std::set_new_handler(nullptr);
}

// A handler that makes room: the system gives no address space until it is called. So far apart no blocks are at hand, as long
// as none is given back.
static const auto far_apart = static_cast<std::align_val_t>(std::size_t(sizeof(void *) > 4 ? 512 : 64) << 20);
static rlimit address_space;

static void make_room()
{
  handler_calls++;
  setrlimit(RLIMIT_AS, &address_space);
}

static void test_handler_that_makes_room()
{
  if (std::getenv("EMULATED"))
    return; // an emulator takes no limit for the program, as it would be one for itself
  void *(*const forms[])() = {
    [] { return ::operator new(1000, far_apart); },
    [] { return ::operator new[](1000, far_apart); },
    [] { return ::operator new(1000, far_apart, std::nothrow); },
    [] { return ::operator new[](1000, far_apart, std::nothrow); },
  };
  const char *options = std::getenv("TIDEPOOL_OPTIONS");
  const bool has_addresses = options && std::strstr(options, "guarded=1"); // from its start on
  getrlimit(RLIMIT_AS, &address_space);
  const rlimit none = {1 << 20, address_space.rlim_max};
  std::set_new_handler(make_room);
  std::vector<void *> blocks;
  for (auto form : forms) {
    handler_calls = 0;
    setrlimit(RLIMIT_AS, &none);
    void *block = seen(form());
    setrlimit(RLIMIT_AS, &address_space);
    CHECK(block && handler_calls == !has_addresses);
    blocks.push_back(block);
  }
  for (std::size_t i = 0; i < blocks.size(); i++)
    if (i % 2)
      ::operator delete[](blocks[i], far_apart);
    else
      ::operator delete(blocks[i], far_apart);
  std::set_new_handler(nullptr);
}

static void test_nothrow_forms_in_threads()
{
  std::set_new_handler(throw_bad_alloc);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([] {
      for (int round = 0; round < 200; round++)
        for (auto form : nothrow_forms)
          if (seen(form()))
            std::_Exit(1);
    });
  for (auto &thread : threads)
    thread.join();
  std::set_new_handler(nullptr);
}

struct alignas(128) Wide {
  char bytes[200];
};

struct Throwing {
  std::string text = "long enough not to be kept inside the object itself";
  Throwing() { throw 1; }
};

static void test_expressions()
{
  for (int i = 0; i < 1000; i++) {
    std::unique_ptr<Wide> one(new Wide);
    std::unique_ptr<Wide[]> many(new Wide[7]);
    CHECK(reinterpret_cast<std::uintptr_t>(one.get()) % 128 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(many.get()) % 128 == 0);
    try {
      delete new Throwing;
      CHECK(false);
    } catch (int) {}
  }
}

static void test_containers()
{
  std::map<int, std::string> map;
  for (int i = 0; i < 20000; i++)
    map[i * 7919 % 20011] = std::string(static_cast<std::size_t>(i % 100), 'x');
  std::vector<std::vector<int>> vectors;
  for (int i = 0; i < 500; i++)
    vectors.emplace_back(static_cast<std::size_t>(i), i);
  std::size_t sum = 0;
  for (const auto &pair : map)
    sum += pair.second.size();
  for (const auto &vector : vectors)
    sum += vector.size();
  CHECK(map.size() == 20000);
  CHECK(sum == 20000 / 100 * 4950 + 499 * 500 / 2);
}

struct AtThreadExit {
  std::vector<int> numbers;
  ~AtThreadExit() { numbers.assign(10000, 1); }
};

static thread_local AtThreadExit at_thread_exit;

static void test_thread_local_destructors()
{
  for (int i = 0; i < 500; i++)
    std::thread([] { at_thread_exit.numbers.push_back(1); }).join();
}

// new keeps errno, also when it frees.
static void test_errno()
{
  errno = 4711;
  void *block = ::operator new(1000);
  CHECK(errno == 4711);
  ::operator delete(block);
  CHECK(errno == 4711);
}

struct Global {
  std::string *text = new std::string(1000, 'g');
  ~Global()
  {
    CHECK(text->size() == 1000);
    delete text;
    if (failures)
      std::_Exit(1);
  }
};

static Global global;

int main()
{
  test_plain_forms();
  test_nothrow_forms();
  test_aligned_forms();
  test_throwing_forms_throw();
  test_nothrow_forms_return_null();
  test_new_handler_is_called();
  test_new_handler_may_throw_its_own();
  test_nothrow_forms_catch_what_the_handler_throws();
  test_nothrow_forms_inside_the_handler();
  test_nothrow_forms_in_threads();
  test_handler_that_makes_room();
  test_expressions();
  test_containers();
  test_thread_local_destructors();
  test_errno();
  return failures != 0;
}
