// SPDX-License-Identifier: MIT
//
// Heaps as objects: how they begin, move and end, and what comes out of callbacks.
#include "testing.h"
#include <tidepool/tidepool.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using tidepool::heap;
using tidepool::heap_options;
using tidepool::heap_ref;

std::size_t heaps_there()
{
  const std::string text = [] {
    std::string json(pool_stats_json(nullptr, 0), ' ');
    pool_stats_json(json.data(), json.size() + 1);
    return json;
  }();
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("\"cpp-", at)) != std::string::npos; at++)
    count++;
  return count;
}

void test_a_heap_ends_with_its_scope()
{
  {
    heap one(heap_options().name("cpp-one"));
    CHECK(one && heaps_there() == 1 && std::string(one.name()) == "cpp-one");
    CHECK(one.allocate(1000));
  }
  CHECK(heaps_there() == 0);
}

void test_creation_that_fails()
{
  CHECK(said_by<std::invalid_argument>([] { heap bad(heap_options().budget(1)); }).find("tidepool::heap: budget is 1, less") ==
        0);
  CHECK(throws<std::bad_alloc>([] {
    heap parent(heap_options().budget(64 << 10));
    heap child(heap_options().parent(parent).reserve(1 << 20));
  }));
  errno = 0;
  const heap none(std::nothrow, heap_options().budget(1));
  CHECK(!none && errno == EINVAL);
  const heap full(std::nothrow, heap_options().reserve(std::size_t(-1) / 8 * 3));
  CHECK(!full && errno == ENOMEM);
}

void test_moves_and_swaps()
{
  heap one(heap_options().name("cpp-one")), two(heap_options().name("cpp-two"));
  pool_heap_t *const first = one.get(), *const second = two.get();
  heap taken(std::move(one));
  CHECK(!one && taken.get() == first && heaps_there() == 2);
  swap(taken, two);
  CHECK(taken.get() == second && two.get() == first);
  heap &same = taken;
  taken = std::move(same);
  CHECK(taken.get() == second && heaps_there() == 2);
  taken = std::move(two);
  CHECK(taken.get() == first && !two && heaps_there() == 1);
  two = std::move(one);
  CHECK(!two);
  heap again(taken.release());
  CHECK(!taken && again.get() == first && heaps_there() == 1);
  again = heap(heap_options().name("cpp-three"));
  CHECK(heaps_there() == 1);
}

// A heap that was moved from answers as NULL does in C.
void test_an_empty_heap()
{
  heap empty(nullptr);
  CHECK(!empty && !empty.name() && !empty.try_allocate(10) && !empty.try_allocate(10, 64));
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(empty.allocate(10)); }));
  CHECK(!empty.set_budget(1 << 20) && empty.budget() == 0 && empty.stats().held_bytes == 0 && empty.trim() == 0);
  CHECK(!empty.walk([](const pool_block_t &) {}) && !empty.owns(&empty) && !empty.is_live(nullptr));
  CHECK(empty.stats_json() == "null" && empty.good_size(10) == 0 && !empty.block_of(&empty).start);
  empty.deallocate(nullptr);
  empty.reset();
}

void test_blocks()
{
  heap one(heap_options().budget(1 << 20));
  for (std::size_t alignment = 1; alignment <= 65536; alignment *= 2) {
    void *block = one.allocate(100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0 && one.is_live(block) && one.owns(block));
    const pool_block_t found = one.block_of(static_cast<char *>(block) + 50);
    CHECK(found.start == block && found.size >= 100);
    CHECK(!heap_ref().owns(block) && !heap_ref().is_live(block));
    one.deallocate(block);
    CHECK(!one.is_live(block));
  }
  errno = 0;
  CHECK(!one.try_allocate(100, 3) && errno == EINVAL);
  CHECK(!one.try_allocate(100, 0) && !one.try_allocate(100, 48));
  errno = 0;
  CHECK(!one.try_allocate(2 << 20) && errno == ENOMEM);
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(one.allocate(2 << 20)); }));
  CHECK(one.good_size(100) == 112 && one.budget() == 1 << 20);
  CHECK(one.set_budget(2 << 20) && one.budget() == 2 << 20 && !one.set_budget(1));
  static_cast<void>(one.allocate(100));
  CHECK(one.stats().live_blocks == 1);
  one.reset();
  CHECK(one.stats().live_blocks == 0 && one.stats_json().find("\"budget\"") != std::string::npos);
}

void test_the_default_heap()
{
  const heap_ref all;
  CHECK(all.get() == pool_heap_default() && all == heap_ref() && all);
  void *block = all.allocate(100);
  CHECK(all.is_live(block) && pool_heap_of(block) == all.get());
  all.deallocate(block);
}

void test_a_heap_in_a_buffer()
{
  alignas(64) static std::array<unsigned char, 64 << 10> buffer;
  heap one(heap_options().memory(buffer.data(), buffer.size()));
  const auto *block = static_cast<unsigned char *>(one.allocate(1000));
  CHECK(block >= buffer.data() && block < buffer.data() + buffer.size());
}

void test_a_walk()
{
  heap one;
  std::set<void *> blocks, seen;
  for (int i = 0; i < 100; i++)
    blocks.insert(one.allocate(200));
  CHECK(one.walk([&](const pool_block_t &block) { seen.insert(block.start); }) && seen == blocks);
  int visited = 0;
  CHECK(!one.walk([&](const pool_block_t &) { return ++visited < 10; }) && visited == 10);
  CHECK(one.walk([&](const pool_block_t &block) { one.deallocate(block.start); }) && one.stats().live_blocks == 0);
}

// One place in the program, also where a compiler unrolls the loop that it is called in. Without the optimizer the functions of
// the header are functions of the program too, and the place is in the one that calls the library.
__attribute__((noinline)) void *block_of_test_a_report(heap &from) { return from.allocate(1000); }
#ifdef __OPTIMIZE__
const char *const caller = "test_a_report";
#else
const char *const caller = "try_allocate";
#endif

void test_a_report()
{
  std::FILE *file = std::tmpfile();
  CHECK(file);
  heap one(heap_options().name("cpp-reported").sites());
  for (int i = 0; i < 3; i++)
    CHECK(block_of_test_a_report(one));
  CHECK(one.report(fileno(file)) && !one.report(-1));
  std::rewind(file);
  std::string text(4096, ' ');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  CHECK(text.find("heap \"cpp-reported\": 3 blocks, 3,000 bytes live\n") == 0);
  const std::size_t place = text.find("3,000 bytes in 3 blocks from ");
  CHECK(place != std::string::npos && text.find(caller, place) != std::string::npos); // and nothing of the library
  const heap empty(std::nothrow, heap_options().budget(1));
  CHECK(!empty.report(fileno(stderr)));
}

void test_an_exception_comes_out_of_a_walk()
{
  heap one;
  for (int i = 0; i < 100; i++)
    static_cast<void>(one.allocate(200));
  int visited = 0;
  const auto visit = [&](const pool_block_t &) {
    if (++visited == 10)
      throw std::runtime_error("tenth");
  };
  CHECK(throws<std::runtime_error>([&] { one.walk(visit); }) && visited == 10);
  CHECK(one.stats().live_blocks == 100 && one.allocate(200));
}

void test_on_exhausted()
{
  std::vector<void *> blocks;
  std::size_t calls = 0;
  bool throwing = false;
  auto drop_one = [&](heap_ref from, std::size_t bytes_needed, unsigned attempt) {
    calls++;
    CHECK(bytes_needed >= 100000 && attempt < 64);
    if (throwing)
      throw std::runtime_error("lost");
    if (blocks.empty())
      return false;
    from.deallocate(blocks.back());
    blocks.pop_back();
    return true;
  };
  heap one(heap_options().budget(1 << 20).on_exhausted(drop_one));
  for (int i = 0; i < 100; i++)
    blocks.push_back(one.allocate(100000));
  CHECK(calls > 80 && blocks.size() < 11);
  throwing = true;
  std::size_t more = 0;
  while (one.try_allocate(100000))
    more++;
  CHECK(more < 11);
  CHECK(throws<std::bad_alloc>([&] { static_cast<void>(one.allocate(100000)); }));
}

bool give_up(pool_heap_t *, std::size_t, unsigned, void *context)
{
  ++*static_cast<int *>(context);
  return false;
}

void test_c_options()
{
  int calls = 0;
  pool_heap_options_t options = {};
  options.name = "cpp-c";
  options.budget = 1 << 20;
  heap one(options), two(heap_options(options).on_exhausted(give_up, &calls).budget(2 << 20));
  CHECK(std::string(one.name()) == "cpp-c" && two.budget() == 2 << 20);
  CHECK(!two.try_allocate(4 << 20) && calls == 1);
}

void test_overflow_and_parent()
{
  heap parent(heap_options().budget(8 << 20)), spare;
  heap one(heap_options().budget(1 << 20).parent(parent).overflow(spare));
  void *block = one.allocate(4 << 20);
  CHECK(spare.is_live(block) && !one.owns(block));
  one.deallocate(block);
  CHECK(one.allocate(1000) && parent.stats().children_bytes > 0);
}

void test_every_option_is_passed_on()
{
  static const std::size_t sizes[] = {16, 48};
  const heap_options flags = heap_options().single_thread().prefault().lock_memory().zero_on_free().checked().dense();
  const pool_heap_options_t &options = // a copy: no reference into what has ended
    flags.name("n").budget(1).reserve(2).purge_delay_ms(3).size_classes(sizes, 2).memory(&failures, 4);
  const pool_heap_options_t got = heap_options(options);
  CHECK(got.budget == 1 && got.reserve == 2 && got.purge_delay_ms == 3 && std::string(got.name) == "n");
  CHECK(got.size_classes == sizes && got.size_class_count == 2);
  CHECK(got.memory == &failures && got.memory_size == 4 && got.flags == (31 | POOL_HEAP_DENSE));
}

void test_misuse_ends_the_program()
{
  CHECK(ends_with("not a live heap", [] {
    heap one;
    const heap_ref left(one);
    one = heap(nullptr);
    static_cast<void>(left.try_allocate(100));
  }));
  CHECK(ends_with("still the parent", [] {
    auto parent = std::make_unique<heap>();
    heap child(heap_options().parent(*parent));
    parent.reset();
  }));
}

} // namespace

int main()
{
  return run_tests({CASE(test_a_heap_ends_with_its_scope), CASE(test_creation_that_fails), CASE(test_moves_and_swaps),
                    CASE(test_an_empty_heap), CASE(test_blocks), CASE(test_the_default_heap), CASE(test_a_heap_in_a_buffer),
                    CASE(test_a_walk), CASE(test_a_report), CASE(test_an_exception_comes_out_of_a_walk),
                    CASE(test_on_exhausted), CASE(test_c_options), CASE(test_overflow_and_parent),
                    CASE(test_every_option_is_passed_on), CASE(test_misuse_ends_the_program)});
}
