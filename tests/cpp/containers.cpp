// SPDX-License-Identifier: MIT
//
// The standard containers on heaps: within a budget, to its end, and with everything back afterwards.
#include "testing.h"
#include <tidepool/tidepool.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <scoped_allocator>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using tidepool::heap;
using tidepool::heap_allocator;
using tidepool::heap_options;

template <typename T>
using vector = std::vector<T, heap_allocator<T>>;
using text = std::basic_string<char, std::char_traits<char>, heap_allocator<char>>;

const std::size_t BUDGET = 4 << 20;

// Adds to the container until the heap is exhausted, checks what it holds, and lets it end: all is back then.
template <typename Make, typename Add>
void fill(Make make, Add add)
{
  heap memory(heap_options().budget(BUDGET));
  for (int round = 0; round < 2; round++) {
    {
      auto container = make(memory);
      bool exhausted = false;
      std::size_t added = 0;
      while (!exhausted && added < BUDGET) {
        const std::size_t before = container.size();
        try {
          add(container, static_cast<int>(added));
          added++;
        } catch (const std::bad_alloc &) {
          exhausted = true;
          CHECK(container.size() == before); // the strong guarantee
        }
      }
      CHECK(exhausted && added > 10000 && container.size() == added);
      const pool_stats_t now = memory.stats();
      CHECK(now.held_bytes <= BUDGET && now.live_blocks > 0 && now.exhausted_count > 0);
    }
    CHECK(memory.stats().live_blocks == 0 && memory.stats().live_bytes == 0);
  }
}

void test_vector()
{
  fill([](heap &memory) { return vector<int>(memory); }, [](auto &c, int i) { c.push_back(i); });
  heap memory;
  std::vector<bool, heap_allocator<bool>> bits(1000, true, memory);
  CHECK(memory.stats().live_blocks == 1 && bits[999]);
}

void test_deque()
{
  fill([](heap &memory) { return std::deque<int, heap_allocator<int>>(memory); }, [](auto &c, int i) { c.push_back(i); });
}

void test_list()
{
  fill([](heap &memory) { return std::list<int, heap_allocator<int>>(memory); }, [](auto &c, int i) { c.push_back(i); });
}

void test_map()
{
  using map = std::map<int, int, std::less<int>, heap_allocator<std::pair<const int, int>>>;
  fill([](heap &memory) { return map(memory); }, [](auto &c, int i) { c[i * 7919] = i; });
}

void test_unordered_map()
{
  using map = std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, heap_allocator<std::pair<const int, int>>>;
  fill([](heap &memory) { return map(memory); }, [](auto &c, int i) { c[i * 7919] = i; });
}

void test_string()
{
  fill([](heap &memory) { return text(memory); }, [](auto &c, int i) { c += static_cast<char>('a' + i % 26); });
}

// What is in the container is in the heap too.
void test_nested()
{
  using inner = heap_allocator<text>;
  fill([](heap &memory) { return std::vector<text, std::scoped_allocator_adaptor<inner>>(inner(memory)); },
       [](auto &c, int) { c.emplace_back("a text that is longer than what a string holds in itself"); });
}

void test_copies_and_moves()
{
  heap one, two;
  vector<int> first(1000, 7, one), second(10, 3, two);
  const int *const data = first.data();
  vector<int> copy(first);
  CHECK(copy.get_allocator() == first.get_allocator() && one.is_live(copy.data()));
  copy = second; /* keeps its own heap */
  CHECK(copy == second && one.is_live(copy.data()));
  swap(first, second); /* both take their heap along */
  CHECK(second.data() == data && one.is_live(second.data()) && two.is_live(first.data()));
  first = std::move(second);
  CHECK(first.data() == data && first.get_allocator() == heap_allocator<int>(one));
  vector<int> third(std::move(first), two); /* asked for: the elements move one by one */
  CHECK(third.data() != data && two.is_live(third.data()) && third.size() == 1000);
  vector<int> fourth(std::move(third));
  third.assign(5, 1); /* what was moved from is still of that heap */
  CHECK(two.is_live(third.data()) && two.is_live(fourth.data()));
  vector<int> &same = fourth;
  fourth = same;
  CHECK(fourth.size() == 1000);
}

void test_containers_move_while_their_heap_does()
{
  heap other(nullptr), one;
  vector<int> numbers(1000, 7, one);
  other = std::move(one);
  numbers.resize(5000, 8);
  CHECK(other.is_live(numbers.data()) && !one);
}

void test_the_allocator_itself()
{
  heap one, two;
  const heap_allocator<int> of_one(one), of_two(two), any;
  const heap_allocator<std::string> rebound(of_one);
  CHECK(of_one == heap_allocator<int>(rebound) && of_one == rebound && of_one != of_two && !(of_one != rebound));
  CHECK(any.heap() == tidepool::heap_ref() && of_one.heap() == one && of_one.select_on_container_copy_construction() == of_one);
  heap_allocator<int> assigned;
  assigned = of_two;
  CHECK(assigned == of_two);
  const heap_allocator<int> moved(std::move(assigned));
  CHECK(moved == assigned); // as an allocator that was moved from has to
  int *block = assigned.allocate(100);
  CHECK(two.is_live(block) && two.block_of(block).size >= 400);
  heap_allocator<int>(of_two).deallocate(block, 100);
  int *nothing = assigned.allocate(0);
  CHECK(nothing);
  assigned.deallocate(nothing, 0);
}

struct alignas(4096) page {
  char bytes[4096];
};
struct alignas(32) vector_register {
  float of[8];
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
struct zero {
  int none[0];
};
#pragma GCC diagnostic pop

template <typename T>
void check_alignment(heap &memory)
{
  vector<T> objects(memory);
  std::list<T, heap_allocator<T>> nodes(memory);
  for (int i = 0; i < 100; i++) {
    objects.emplace_back();
    nodes.emplace_back();
    CHECK(reinterpret_cast<std::uintptr_t>(&objects.front()) % alignof(T) == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(&nodes.back()) % alignof(T) == 0);
  }
}

void test_alignment()
{
  heap memory;
  check_alignment<page>(memory);
  check_alignment<vector_register>(memory);
  check_alignment<char>(memory);
  zero *block = heap_allocator<zero>(memory).allocate(std::numeric_limits<std::size_t>::max());
  CHECK(memory.is_live(block));
  heap_allocator<zero>(memory).deallocate(block, 1);
  CHECK(memory.stats().live_blocks == 0);
}

void test_lengths_that_overflow()
{
  heap memory;
  volatile std::size_t unforeseen = std::numeric_limits<std::size_t>::max(); // or the compiler warns of it
  const std::size_t most = unforeseen;
  heap_allocator<int> ints(memory);
  heap_allocator<char> chars(memory);
  heap_allocator<page> pages(memory);
  CHECK(throws<std::bad_array_new_length>([&] { static_cast<void>(ints.allocate(most / 4 + 1)); }));
  CHECK(throws<std::bad_array_new_length>([&] { static_cast<void>(ints.allocate(most)); }));
  CHECK(throws<std::bad_array_new_length>([&] { static_cast<void>(pages.allocate(most / 4096 + 1)); }));
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(ints.allocate(most / 4)); }));
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(pages.allocate(most / 4096)); }));
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(chars.allocate(most)); }));
  CHECK(throws<std::length_error>([&] { vector<int>(memory).reserve(most / 4); }));
}

void test_shared_pointers()
{
  heap memory;
  {
    auto shared = std::allocate_shared<std::string>(heap_allocator<std::string>(memory), "shared");
    const std::weak_ptr<std::string> weak = shared;
    CHECK(memory.is_live(shared.get()) && *shared == "shared");
    shared.reset();
    CHECK(memory.stats().live_blocks == 1); // the weak one holds its record
  }
  CHECK(memory.stats().live_blocks == 0);
}

struct thrower {
  static int left;
  thrower() { count_down(); }
  thrower(const thrower &) { count_down(); }
  static void count_down()
  {
    if (--left < 0)
      throw std::runtime_error("no more");
  }
};
int thrower::left;

void test_constructors_that_throw()
{
  heap memory;
  for (int after = 0; after < 20; after++) {
    thrower::left = after;
    CHECK(throws<std::runtime_error>([&] {
      std::list<thrower, heap_allocator<thrower>> objects(memory);
      vector<thrower> more(memory);
      for (;;) {
        objects.emplace_back();
        more.emplace_back();
      }
    }));
    CHECK(memory.stats().live_blocks == 0);
  }
}

#ifdef __cpp_lib_memory_resource
void test_resource()
{
  heap memory(heap_options().budget(BUDGET));
  tidepool::heap_resource resource(memory);
  for (int round = 0; round < 2; round++) {
    {
      std::pmr::map<int, std::pmr::string> texts(&resource);
      CHECK(throws<std::bad_alloc>([&] {
        for (int i = 0;; i++)
          texts.emplace(i, "a text that is longer than what a string holds in itself");
      }));
      CHECK(texts.size() > 10000 && memory.is_live(texts.begin()->second.data()) && memory.stats().held_bytes <= BUDGET);
    }
    CHECK(memory.stats().live_blocks == 0);
  }
  for (std::size_t alignment = 1; alignment <= 16384; alignment *= 2) {
    void *block = resource.allocate(100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
    resource.deallocate(block, 100, alignment);
  }
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(resource.allocate(BUDGET + 1, 8)); }));
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(resource.allocate(BUDGET + 1, 4096)); }));
}

void test_resources_are_equal()
{
  heap one, two;
  tidepool::heap_resource first(one), second(one), third(two), any;
  CHECK(first == second && first != third && any != first && any == tidepool::heap_resource());
  CHECK(first != *std::pmr::new_delete_resource() && *std::pmr::new_delete_resource() != first);
  std::pmr::vector<int> numbers({1, 2, 3}, &first), same(&second), other(&third);
  const int *data = numbers.data();
  same = std::move(numbers);
  CHECK(same.data() == data); // equal resources: nothing is copied
  other = std::move(same);
  CHECK(other.data() != data && two.is_live(other.data()));
  std::pmr::unsynchronized_pool_resource above(&first);
  std::pmr::list<int> nodes({1, 2, 3}, &above);
  CHECK(one.stats().live_blocks > 0);
}
#endif

} // namespace

int main()
{
  return run_tests({
    CASE(test_vector),
    CASE(test_deque),
    CASE(test_list),
    CASE(test_map),
    CASE(test_unordered_map),
    CASE(test_string),
    CASE(test_nested),
    CASE(test_copies_and_moves),
    CASE(test_containers_move_while_their_heap_does),
    CASE(test_the_allocator_itself),
    CASE(test_alignment),
    CASE(test_lengths_that_overflow),
    CASE(test_shared_pointers),
    CASE(test_constructors_that_throw),
#ifdef __cpp_lib_memory_resource
    CASE(test_resource),
    CASE(test_resources_are_equal),
#endif
  });
}
