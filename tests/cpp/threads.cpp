// SPDX-License-Identifier: MIT
//
// Several threads in one heap, one object pool, one reuse pool; for the thread sanitizer above all.
#include "testing.h"
#include <tidepool/tidepool.hpp>

#include <atomic>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Not at global scope, where object_pool is the tag of a C struct.
namespace {

using tidepool::heap;
using tidepool::heap_allocator;
using tidepool::heap_options;
using tidepool::object_pool;
using tidepool::pool_options;
using tidepool::reuse_pool;

enum { THREADS = 4, ROUNDS = 2000 };

template <typename Work>
void in_threads(Work work)
{
  std::vector<std::thread> threads;
  for (int i = 0; i < THREADS; i++)
    threads.emplace_back(work, i);
  for (std::thread &thread : threads)
    thread.join();
}

void test_containers_on_one_heap()
{
  heap memory(heap_options().budget(16 << 20));
  std::atomic<int> wrong{0};
  in_threads([&](int own) {
    std::map<int, int, std::less<int>, heap_allocator<std::pair<const int, int>>> numbers(memory);
    for (int i = 0; i < ROUNDS; i++)
      numbers[i] = i * own;
    for (const auto &each : numbers)
      wrong += each.second != each.first * own;
  });
  CHECK(wrong == 0 && memory.stats().live_blocks == 0);
}

struct job {
  explicit job(int number) : text(std::to_string(number) + " is the number of a job that some thread made")
  {
    if (number % 7 == 0)
      throw std::runtime_error("refused");
    alive++;
  }
  ~job() { alive--; }
  std::string text;
  static std::atomic<int> alive;
};
std::atomic<int> job::alive;

void test_one_object_pool()
{
  object_pool<job> behind(pool_options().grow());
  object_pool<job> pool(pool_options().capacity(8), behind);
  std::atomic<int> refused{0}, wrong{0};
  in_threads([&](int) {
    std::vector<object_pool<job>::pointer> own;
    job *some[10];
    for (int i = 1; i <= ROUNDS; i++) {
      try {
        own.push_back(pool.make(i));
        wrong += own.back()->text.compare(0, 1, std::to_string(i), 0, 1) != 0;
      } catch (const std::runtime_error &) {
        refused++;
      }
      if (own.size() > 10)
        own.erase(own.begin(), own.begin() + 5);
      if (i % 50 == 0)
        pool.put_batch(some, pool.make_batch(some, 10, 1));
    }
  });
  CHECK(refused == THREADS * (ROUNDS / 7) && wrong == 0 && job::alive == 0 && pool.live() == 0 && behind.live() == 0);
}

// What one thread makes another puts; handles are asked meanwhile.
void test_from_one_thread_to_another()
{
  object_pool<std::string> pool(pool_options().capacity(THREADS));
  std::atomic<std::string *> at[THREADS] = {};
  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  const auto name = pool.handle_of(pool.make("first").get());
  std::thread taker([&] {
    while (!done)
      for (auto &each : at)
        if (std::string *object = each.exchange(nullptr)) {
          wrong += object->size() != 100;
          pool.put(object);
        }
  });
  in_threads([&](int own) {
    for (int i = 0; i < ROUNDS; i++) {
      if (auto object = pool.try_make(std::size_t(100), 'x'))
        if (std::string *left = at[own].exchange(object.release()))
          pool.put(left);
      wrong += name.get() != nullptr;
    }
  });
  done = true;
  taker.join();
  CHECK(wrong == 0);
}

void test_one_reuse_pool()
{
  std::atomic<int> made{0}, failed{0};
  auto make = [&] {
    if (made++ == 1) // whoever comes first makes two
      throw std::runtime_error("second");
    return std::string(100, 'x');
  };
  auto reset = [](std::string &text) { text.assign(100, 'x'); };
  reuse_pool<std::string> pool(pool_options().capacity(2 * THREADS), make, reset);
  in_threads([&](int own) {
    for (int i = 0; i < ROUNDS; i++)
      try {
        const auto one = pool.get(), two = pool.get();
        one->assign(50, static_cast<char>('a' + own));
        two->assign(60, static_cast<char>('a' + own));
        failed += one->size() != 50;
      } catch (const std::runtime_error &) {
        failed += 1000;
      }
  });
  CHECK(failed == 1000 && made <= 2 * THREADS + 1 && pool.live() == 0);
}

// Each thread has its own walk over objects that end.
void test_pools_that_end_at_once()
{
  in_threads([](int) {
    for (int i = 0; i < 100; i++) {
      object_pool<job> pool(pool_options().capacity(20));
      job *some[20];
      static_cast<void>(pool.make_batch(some, 20, 1));
    }
  });
  CHECK(job::alive == 0);
}

} // namespace

int main()
{
  return run_tests({CASE(test_containers_on_one_heap), CASE(test_one_object_pool), CASE(test_from_one_thread_to_another),
                    CASE(test_one_reuse_pool), CASE(test_pools_that_end_at_once)});
}
