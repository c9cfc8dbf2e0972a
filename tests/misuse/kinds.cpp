// SPDX-License-Identifier: MIT
//
// Blocks that are freed by another call than the one that belongs to what allocated them, or with another size. With "none"
// each is freed as it should be.
//
// usage: kinds NAME
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
void free_sized(void *block, std::size_t size) __attribute__((weak));
void free_aligned_sized(void *block, std::size_t alignment, std::size_t size) __attribute__((weak));
}

namespace {

constexpr std::align_val_t alignment{64};

void *hidden(void *block)
{
  __asm__ volatile("" : "+r"(block));
  return block;
}

struct bug {
  const char *name;
  void (*run)();
};

const bug bugs[] = {
  {"new-free", [] { std::free(hidden(::operator new(40))); }},
  {"new-array-free", [] { std::free(hidden(::operator new[](40))); }},
  {"new-realloc", [] { std::free(std::realloc(hidden(::operator new(40)), 1000)); }},
  {"malloc-delete", [] { ::operator delete(hidden(std::malloc(40))); }},
  {"realloc-delete-array", [] { ::operator delete[](hidden(std::realloc(hidden(std::malloc(40)), 60))); }},
  {"new-delete-array", [] { ::operator delete[](hidden(::operator new(40))); }},
  {"new-array-delete", [] { ::operator delete(hidden(::operator new[](40))); }},
  {"nothrow-new-array-delete", [] { ::operator delete(hidden(::operator new[](40, std::nothrow))); }},
  {"aligned-new-array-delete", [] { ::operator delete(hidden(::operator new[](40, alignment)), alignment); }},
  {"new-delete-of-another-size", [] { ::operator delete(hidden(::operator new(40)), 72); }},
  {"new-array-delete-of-another-size", [] { ::operator delete[](hidden(::operator new[](40)), 72); }},
  {"aligned-new-delete-of-another-size", [] { ::operator delete(hidden(::operator new(40, alignment)), 72, alignment); }},
  {"aligned-new-delete-of-another-alignment",
   [] {
     void *block = hidden(::operator new(40, alignment));
     std::size_t wrong = 2 * (reinterpret_cast<std::size_t>(block) & -reinterpret_cast<std::size_t>(block));
     ::operator delete (block, 40, std::align_val_t{wrong});
   }},
  {"malloc-free-of-another-size", [] { free_sized(hidden(std::malloc(40)), 72); }},
  {"aligned-alloc-free-of-another-size", [] { free_aligned_sized(hidden(std::aligned_alloc(64, 64)), 64, 72); }},
};

void agree()
{
  for (std::size_t size = 0; size < 100000; size = size * 3 + 7) {
    std::free(std::realloc(hidden(std::malloc(size)), size + 1));
    free_sized(hidden(std::malloc(size)), size);
    free_sized(hidden(std::realloc(hidden(std::calloc(size, 1)), size + 9)), size + 9);
    free_aligned_sized(hidden(std::aligned_alloc(64, size)), 64, size);
    ::operator delete(hidden(::operator new(size)));
    ::operator delete(hidden(::operator new(size)), size);
    ::operator delete(hidden(::operator new(size, std::nothrow)), std::nothrow);
    ::operator delete[](hidden(::operator new[](size)));
    ::operator delete[](hidden(::operator new[](size)), size);
    ::operator delete[](hidden(::operator new[](size, std::nothrow)), std::nothrow);
    ::operator delete(hidden(::operator new(size, alignment)), alignment);
    ::operator delete(hidden(::operator new(size, alignment)), size, alignment);
    ::operator delete[](hidden(::operator new[](size, alignment)), alignment);
    ::operator delete[](hidden(::operator new[](size, alignment)), size, alignment);
  }
}

} // namespace

int main(int argc, char **argv)
{
  if (argc != 2)
    return 2;
  if (std::strcmp(argv[1], "none") == 0) {
    agree();
    return 0;
  }
  for (const bug &candidate : bugs)
    if (std::strcmp(argv[1], candidate.name) == 0) {
      candidate.run();
      return 0;
    }
  return 2;
}
