// SPDX-License-Identifier: MIT
//
// A correct program that frees by size: every form of operator new with every sized form of operator delete that may free it,
// and C's free_sized() and free_aligned_sized(). sized_delete.py runs it with all options.
#include "ours.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

// C23 has these, the C library may not.
static void free_sized(void *block, std::size_t size)
{
  static const auto act = reinterpret_cast<void (*)(void *, std::size_t)>(dlsym(RTLD_DEFAULT, "free_sized"));
  act(block, size);
}

static void free_aligned_sized(void *block, std::size_t alignment, std::size_t size)
{
  static const auto act =
    reinterpret_cast<void (*)(void *, std::size_t, std::size_t)>(dlsym(RTLD_DEFAULT, "free_aligned_sized"));
  act(block, alignment, size);
}

static const std::size_t sizes[] = {0, 1, 7, 9, 16, 24, 100, 999, 4000, 5000, 9000, 33000, 70000, 300000};
static const std::size_t alignments[] = {1, 16, 64, 4096, 1 << 15};

static std::align_val_t aligned(std::size_t alignment) { return static_cast<std::align_val_t>(alignment); }

static void *written(void *block, std::size_t size)
{
  if (!block)
    std::abort();
  return std::memset(block, 0x42, size);
}

struct block {
  void *start;
  std::size_t size, alignment;
};

typedef void *make_t(std::size_t size, std::size_t alignment);
typedef void end_t(void *start, std::size_t size, std::size_t alignment);

// What makes a block, and what ends it.
struct pair {
  make_t *make;
  end_t *end;
  bool is_aligned;
};

static void *moved(std::size_t size, std::size_t had) { return std::realloc(written(std::malloc(had), had), size); }

static const pair pairs[] = {
  {[](std::size_t n, std::size_t) { return ::operator new(n); },
   [](void *p, std::size_t n, std::size_t) { ::operator delete(p, n); }, false},
  {[](std::size_t n, std::size_t) { return ::operator new(n, std::nothrow); },
   [](void *p, std::size_t n, std::size_t) { ::operator delete(p, n); }, false},
  {[](std::size_t n, std::size_t) { return ::operator new[](n); },
   [](void *p, std::size_t n, std::size_t) { ::operator delete[](p, n); }, false},
  {[](std::size_t n, std::size_t) { return ::operator new[](n, std::nothrow); },
   [](void *p, std::size_t n, std::size_t) { ::operator delete[](p, n); }, false},
  {[](std::size_t n, std::size_t a) { return ::operator new(n, aligned(a)); },
   [](void *p, std::size_t n, std::size_t a) { ::operator delete(p, n, aligned(a)); }, true},
  {[](std::size_t n, std::size_t a) { return ::operator new(n, aligned(a), std::nothrow); },
   [](void *p, std::size_t n, std::size_t a) { ::operator delete(p, n, aligned(a)); }, true},
  {[](std::size_t n, std::size_t a) { return ::operator new[](n, aligned(a)); },
   [](void *p, std::size_t n, std::size_t a) { ::operator delete[](p, n, aligned(a)); }, true},
  {[](std::size_t n, std::size_t a) { return ::operator new[](n, aligned(a), std::nothrow); },
   [](void *p, std::size_t n, std::size_t a) { ::operator delete[](p, n, aligned(a)); }, true},
  {[](std::size_t n, std::size_t) { return std::malloc(n); }, [](void *p, std::size_t n, std::size_t) { free_sized(p, n); },
   false},
  {[](std::size_t n, std::size_t) { return std::calloc(n, 1); }, [](void *p, std::size_t n, std::size_t) { free_sized(p, n); },
   false},
  {[](std::size_t n, std::size_t) { return moved(n + !n, n / 3 + 1); },
   [](void *p, std::size_t n, std::size_t) { free_sized(p, n + !n); }, false},
  {[](std::size_t n, std::size_t) { return moved(n + !n, n + 5); },
   [](void *p, std::size_t n, std::size_t) { free_sized(p, n + !n); }, false},
  {[](std::size_t n, std::size_t) { return moved(n + !n, 3 * n + 100); },
   [](void *p, std::size_t n, std::size_t) { free_sized(p, n + !n); }, false},
  {[](std::size_t n, std::size_t a) { return std::aligned_alloc(a, n); },
   [](void *p, std::size_t n, std::size_t a) { free_aligned_sized(p, a, n); }, true},
};

// The blocks of one pair are live together, and half of them are freed by another thread.
static void live(const pair &by)
{
  std::vector<block> blocks;
  for (std::size_t size : sizes)
    for (std::size_t alignment : alignments)
      if (by.is_aligned || alignment == 1)
        blocks.push_back({written(by.make(size, alignment), size), size, alignment});
  auto end = [&](std::size_t from) {
    for (std::size_t i = from; i < blocks.size(); i += 2)
      by.end(blocks[i].start, blocks[i].size, blocks[i].alignment);
  };
  end(0);
  std::thread(end, 1).join();
}

// What the compiler and the library make of types: sized forms of their own choice.
template <std::size_t Size, std::size_t Alignment = 1>
struct alignas(Alignment) object {
  char bytes[Size];
};

struct counted {
  std::string text;
  ~counted() { text.clear(); }
};

template <typename T>
static void types()
{
  std::unique_ptr<T> one(new T);
  std::unique_ptr<T[]> some(new T[3]);
  std::vector<T> many(100);
  auto shared = std::make_shared<T>();
  std::map<int, T> named;
  for (int i = 0; i < 10; i++)
    named[i] = T();
}

int main()
{
  for (const pair &by : pairs)
    live(by);
  for (std::size_t i = 0; i < 2; i++) {
    types<char>();
    types<object<9>>();
    types<object<24>>();
    types<object<1000>>();
    types<object<64, 64>>();
    types<object<300, 128>>();
    types<counted>();
    types<std::string>();
  }
  std::puts("ok");
  return 0;
}
