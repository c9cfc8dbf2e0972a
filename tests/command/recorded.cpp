// SPDX-License-Identifier: MIT
//
// What test_record.py has recorded of C++: each round calls five kinds of new and their delete, and one new without.
#include <cstdlib>
#include <new>
#include <vector>

struct alignas(64) wide {
  char bytes[128];
};

#ifdef REPLACED
// The usual two; those of the library call them.
void *operator new(std::size_t size)
{
  void *block = std::malloc(size);
  if (!block)
    throw std::bad_alloc();
  return block;
}
void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, std::size_t) noexcept { std::free(block); }
#endif

int main(int argc, char **argv)
{
  unsigned long rounds = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0;
  static void *volatile kept;
  for (unsigned long i = 0; i < rounds; i++) {
    ::operator delete(::operator new(40));
    ::operator delete[](::operator new[](41));
    ::operator delete(::operator new(42, std::nothrow), std::nothrow);
    ::operator delete(::operator new(128, std::align_val_t(64)), std::align_val_t(64));
    wide *volatile one = new wide;
    delete one;
    kept = ::operator new(10);
  }
  return rounds && !kept;
}
