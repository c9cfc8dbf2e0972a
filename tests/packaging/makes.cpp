// SPDX-License-Identifier: MIT
// A program of C++ that makes objects in every way, runs out of memory in both, and has no call of malloc.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

struct alignas(256) wide {
  char bytes[256];
};

static int handled;

static void give_up()
{
  if (++handled == 3)
    std::set_new_handler(nullptr);
}

static bool is_refused(std::size_t size)
{
  try {
    delete[] new char[size];
    return false;
  } catch (const std::bad_alloc &) {
    return true;
  }
}

int main()
{
  std::vector<std::string> lines;
  for (int i = 0; i < 1000; i++)
    lines.push_back(std::string(static_cast<std::size_t>(i), 'x'));
  std::unique_ptr<wide> one(new wide);
  std::unique_ptr<wide[]> many(new wide[3]);
  volatile std::size_t too_much = SIZE_MAX / 4;
  std::set_new_handler(give_up);
  bool refused = is_refused(too_much) && handled == 3 && new (std::nothrow) char[too_much] == nullptr;
  try {
    lines.at(too_much);
    refused = false;
  } catch (const std::out_of_range &) {}
  bool aligned =
    reinterpret_cast<std::uintptr_t>(one.get()) % 256 == 0 && reinterpret_cast<std::uintptr_t>(many.get()) % 256 == 0;
  std::puts(refused && aligned ? "made" : "wrong");
  return refused && aligned ? 0 : 1;
}
