// SPDX-License-Identifier: MIT
//
// Loses a block of each form of new; leaks_of_new.py has what is said of them.
#include <cstdlib>
#include <new>

namespace {

void *volatile last;
volatile int calls;

void forget(void *block)
{
  if (!block)
    std::abort();
  last = block;
  last = nullptr;
}

} // namespace

// Not static: the name is in the program's table, whatever the compiler makes of it.
#define LOSES(name, block) \
  extern "C" __attribute__((noinline)) void name(); \
  void name() \
  { \
    forget(block); \
    calls = calls + 1; \
  }
constexpr std::align_val_t wide{64};
LOSES(by_new, ::operator new(100))
LOSES(by_array_new, ::operator new[](200))
LOSES(by_nothrow_new, ::operator new(300, std::nothrow))
LOSES(by_nothrow_array_new, ::operator new[](400, std::nothrow))
LOSES(by_aligned_new, ::operator new(500, wide))
LOSES(by_aligned_array_new, ::operator new[](600, wide))
LOSES(by_aligned_nothrow_new, ::operator new(700, wide, std::nothrow))
// On a 32-bit machine some words of text lead into a block of 5 MiB.
LOSES(by_large_new, ::operator new(sizeof(void *) > 4 ? 5 << 20 : 300 << 10))

int main()
{
  by_new(), by_array_new(), by_nothrow_new(), by_nothrow_array_new();
  by_aligned_new(), by_aligned_array_new(), by_aligned_nothrow_new(), by_large_new();
  ::operator delete(::operator new(100)); // registers hold another block then
  volatile char words[32 << 10];          // and the stack none
  for (volatile char &word : words)
    word = 0;
  return 0;
}
