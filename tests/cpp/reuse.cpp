// SPDX-License-Identifier: MIT
//
// Pools whose objects stay constructed between uses, and pools that take a live object from its user.
#include "counted.h"

namespace {

// ---- objects that stay constructed ----

void test_reuse()
{
  counted::made = 0;
  {
    reuse_pool<counted> pool(four);
    counted *address;
    {
      const auto one = pool.get();
      address = one.get();
      one->value = 9;
    }
    CHECK(counted::alive == 1 && pool.live() == 0);
    const auto again = pool.get();
    CHECK(again.get() == address && again->value == 9 && counted::made == 1);
    auto b = pool.get(), c = pool.get(), d = pool.try_get();
    CHECK(d && !pool.try_get() && throws<std::bad_alloc>([&] { pool.get().reset(); }) && counted::made == 4);
  }
  CHECK(counted::alive == 0);
}

void test_reset()
{
  int resets = 0;
  auto make = [next = 0]() mutable { return std::make_unique<int>(next++); };
  auto reset = [&resets](std::unique_ptr<int> &object) {
    resets++;
    *object += 100;
  };
  for (auto time : {OBJECT_POOL_RESET_ON_GET, OBJECT_POOL_RESET_ON_PUT}) {
    resets = 0;
    reuse_pool<std::unique_ptr<int>> pool(four, make, reset, time);
    std::unique_ptr<int> *one = pool.get().release();
    CHECK(**one == 0 && resets == 0);
    pool.put(one);
    CHECK(resets == (time == OBJECT_POOL_RESET_ON_PUT));
    CHECK(**pool.get() == 100);
    reuse_pool<std::unique_ptr<int>> moved(std::move(pool)); // the hooks do not move
    CHECK(**moved.get() == 200 && !pool.try_get());
    pool = std::move(moved);
    auto &same = pool;
    pool = std::move(same);
    const auto first = pool.get(), second = pool.get();
    CHECK(**first == 300 && **second == 1);
  }
}

void test_makers_that_throw()
{
  bool failing = true;
  auto make = [&failing] {
    if (failing)
      throw std::runtime_error("no connection");
    return std::string("made");
  };
  auto keep = [](std::string &) {};
  reuse_pool<std::string> pool(four, make, keep);
  CHECK(throws<std::runtime_error>([&] { pool.get().reset(); }) && throws<std::runtime_error>([&] { pool.try_get().reset(); }));
  std::string *some[4];
  CHECK(throws<std::runtime_error>([&] { static_cast<void>(pool.get_batch(some, 4)); }) && pool.live() == 0);
  CHECK(!object_pool_get(pool.raw())); // C code gets NULL, and nobody gets its exception later
  failing = false;
  CHECK(pool.get_batch(some, 4) == 4 && *some[3] == "made" && !pool.try_get());
  pool.put_batch(some, 4);
  counted::fails_in = 3;
  reuse_pool<counted> counts(four);
  counted *all[4];
  CHECK(throws<std::runtime_error>([&] { static_cast<void>(counts.get_batch(all, 4)); }));
  CHECK(counts.live() == 0 && counted::alive == 2 && counts.get_batch(all, 4) == 4);
}

struct immovable {
  explicit immovable(int given) : value(given) {}
  immovable(immovable &&) = delete;
  int value;
};

void test_what_cannot_move_is_made_in_place()
{
  auto make = [] { return immovable(4); };
  auto keep = [](immovable &) {};
  reuse_pool<immovable> pool(four, make, keep);
  CHECK(pool.get()->value == 4);
}

void test_reuse_overflow_and_heap()
{
  heap memory(heap_options().budget(1 << 20));
  {
    auto reset = [](std::string &text) { text = "reset"; };
    reuse_pool<std::string> behind(pool_options().capacity(1).heap(memory));
    reuse_pool<std::string> pool(pool_options().capacity(1).heap(memory), behind, reset);
    auto a = pool.get(), b = pool.get();
    CHECK(!pool.try_get() && behind.live() == 1);
    a.reset();
    b.reset();
    CHECK(*(a = pool.get()) == "reset" && (b = pool.get())->empty());
  }
  CHECK(memory.stats().live_blocks == 0); // the hooks were there too
}

// The front pool makes its objects without an exception, also as the end of a chain; the overflow pool does not.
void test_an_overflow_pool_that_throws()
{
  auto make = []() -> int { throw std::runtime_error("no connection"); };
  auto keep = [](int &) {};
  reuse_pool<int> behind(four, make, keep);
  reuse_pool<int> between(pool_options().capacity(1), behind), front(pool_options().capacity(1), between);
  auto a = front.get(), b = front.get();
  CHECK(throws<std::runtime_error>([&] { front.get().reset(); }));
  CHECK(throws<std::runtime_error>([&] { front.try_get().reset(); }));
  int *some[3];
  CHECK(throws<std::runtime_error>([&] { static_cast<void>(front.get_batch(some, 3)); }));
  reuse_pool<int> moved(std::move(front));
  CHECK(throws<std::runtime_error>([&] { moved.get().reset(); }) && behind.live() == 0);
  a.reset();
  CHECK(throws<std::runtime_error>([&] { static_cast<void>(moved.get_batch(some, 3)); }) && moved.live() == 0);
  b.reset();
}

void test_a_pool_within_the_making_of_another()
{
  reuse_pool<counted> inner(four);
  auto make = [&inner] {
    counted::fails_in = 1;
    CHECK(throws<std::runtime_error>([&] { inner.get().reset(); }));
    return std::string("outer");
  };
  auto keep = [](std::string &) {};
  reuse_pool<std::string> outer(four, make, keep);
  CHECK(*outer.get() == "outer");
}

void test_release_leaves_the_pool_to_the_heap()
{
  heap memory;
  auto keep = [](counted &) {};
  reuse_pool<counted> pool(four.heap(memory), keep);
  pool.get().reset();
  object_pool<counted> other(four.heap(memory));
  static_cast<void>(other.make().release());
  CHECK(pool.release() && other.release());
  memory.reset();
  CHECK(counted::alive == 2); // as in C: no destructors
  counted::alive = 0;
}

// ---- eviction ----

counted *lowest(evicting_pool<counted> &pool)
{
  return &*std::min_element(pool.begin(), pool.end(), [](const counted &a, const counted &b) { return a.value < b.value; });
}

void test_eviction()
{
  {
    evicting_pool<counted> pool(four, lowest);
    std::vector<handle<counted>> names;
    for (int i = 0; i < 10; i++)
      names.push_back(pool.make(i));
    CHECK(counted::alive == 4 && pool.live() == 4);
    for (std::size_t i = 0; i < 10; i++)
      CHECK(i < 6 ? !names[i] : names[i].get()->value == static_cast<int>(i));
    CHECK(pool.put(names[7]) && !pool.put(names[7]) && !pool.put(names[0]) && counted::alive == 3);
    CHECK(pool.make(20) && names[6]); // there was room
    evicting_pool<counted> moved(std::move(pool));
    CHECK(moved.make(21) && !names[6] && !pool.try_make());
    evicting_pool<counted> &same = moved;
    moved = std::move(same);
    CHECK(moved.live() == 4 && moved.put(names[9]));
    moved.put_all();
    CHECK(counted::alive == 0 && !names[8]);
    CHECK(moved.make(1));
  }
  CHECK(counted::alive == 0);
}

void test_choosers_that_name_nobody_or_throw()
{
  evicting_pool<counted> nobody(pool_options().capacity(1), [](evicting_pool<counted> &) -> counted * { return nullptr; });
  const auto kept = nobody.make(1);
  CHECK(!nobody.try_make(2).index() && throws<std::bad_alloc>([&] { nobody.make(2); }) && kept);
  evicting_pool<counted> throwing(pool_options().capacity(1),
                                  [](evicting_pool<counted> &) -> counted * { throw std::runtime_error("chooser"); });
  const auto still = throwing.make(1);
  CHECK(throws<std::runtime_error>([&] { throwing.make(2); }) && still);
  evicting_pool<counted> pool(pool_options().capacity(1), lowest);
  const auto gone = pool.make(1);
  counted::fails_in = 1;
  CHECK(throws<std::runtime_error>([&] { pool.make(2); }) && !gone && pool.live() == 0 && pool.make(3));
}

// Its constructor and its destructor make others in the same pool, which must not evict what is only half there.
struct greedy {
  explicit greedy(evicting_pool<greedy> &in, int more) : pool(in)
  {
    if (more > 0)
      refused += !pool.try_make(pool, more - 1).index();
  }
  ~greedy()
  {
    own_put_worked += pool.put(self);
    refused += !pool.try_make(pool, 0).index();
  }
  evicting_pool<greedy> &pool;
  handle<greedy> self;
  std::string text = "a text that is longer than what a string holds in itself";
  static int refused, own_put_worked;
};
int greedy::refused, greedy::own_put_worked;

void test_no_eviction_within_constructors_and_destructors()
{
  evicting_pool<greedy> pool(pool_options().capacity(2), [](evicting_pool<greedy> &in) { return &*in.begin(); });
  auto one = pool.make(pool, 5);
  CHECK(greedy::refused == 1 && pool.live() == 2);
  one.get()->self = one;
  greedy::refused = 0;
  const auto two = pool.make(pool, 0); // evicts one of them, whose destructor finds no room
  CHECK(greedy::refused >= 1 && two && pool.live() == 2);
  if (one)
    CHECK(pool.put(one));
  CHECK(greedy::own_put_worked == 0);
}

void test_a_victim_that_is_none_ends_the_program()
{
  CHECK(ends_with("not a live object of pool \"cpp\"", [] {
    static counted alone;
    evicting_pool<counted> pool(pool_options().name("cpp").capacity(1), [](evicting_pool<counted> &) { return &alone; });
    pool.make(1);
    pool.make(2);
  }));
}

} // namespace

int main()
{
  return run_tests({
    CASE(test_reuse),
    CASE(test_reset),
    CASE(test_makers_that_throw),
    CASE(test_what_cannot_move_is_made_in_place),
    CASE(test_reuse_overflow_and_heap),
    CASE(test_an_overflow_pool_that_throws),
    CASE(test_a_pool_within_the_making_of_another),
    CASE(test_release_leaves_the_pool_to_the_heap),
    CASE(test_eviction),
    CASE(test_choosers_that_name_nobody_or_throw),
    CASE(test_no_eviction_within_constructors_and_destructors),
    CASE(test_a_victim_that_is_none_ends_the_program),
  });
}
