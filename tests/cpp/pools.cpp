// SPDX-License-Identifier: MIT
//
// Object pools as objects: when constructors and destructors run, who owns what, and what becomes of exceptions.
#include "counted.h"

namespace {

void test_make_and_end()
{
  object_pool<counted> pool(four);
  counted *address;
  {
    const auto one = pool.make(7);
    address = one.get();
    CHECK(one->value == 7 && counted::alive == 1 && pool.live() == 1 && pool.capacity() == 4 && pool.is_live(address));
  }
  CHECK(counted::alive == 0 && pool.live() == 0 && !pool.is_live(address));
  auto released = pool.make(8).release();
  CHECK(released == address && counted::alive == 1);
  pool.put(released);
  CHECK(counted::alive == 0 && pool.live() == 0);
}

void test_a_full_pool()
{
  object_pool<counted> pool(four);
  std::vector<object_pool<counted>::pointer> all;
  for (int i = 0; i < 4; i++)
    all.push_back(pool.make(i));
  errno = 0;
  CHECK(!pool.try_make() && errno == ENOMEM && throws<std::bad_alloc>([&] { pool.make().reset(); }));
  all.pop_back();
  CHECK(pool.make());
}

void test_creation_that_fails()
{
  using wrong = std::invalid_argument;
  const std::string no_capacity = ": capacity is 0, which needs when_full to be OBJECT_POOL_GROW";
  const std::string no_overflow = ": overflow is NULL, with OBJECT_POOL_OVERFLOW";
  CHECK(said_by<wrong>([] { object_pool<int> bad{pool_options()}; }) == "tidepool::object_pool" + no_capacity);
  CHECK(said_by<wrong>([] { object_pool<int> bad(pool_options().capacity(10).grow(5)); }) ==
        "tidepool::object_pool: max_capacity is 5, less than capacity, 10");
  CHECK(said_by<wrong>([] { reuse_pool<int> bad{pool_options()}; }) == "tidepool::reuse_pool" + no_capacity);
  CHECK(said_by<wrong>([] { evicting_pool<int> bad(four, nullptr); }) ==
        "tidepool::evicting_pool: choose_victim is NULL, with OBJECT_POOL_EVICT");
  CHECK(throws<std::bad_alloc>([] {
    heap memory(heap_options().budget(64 << 10));
    object_pool<int> bad(pool_options().capacity(1 << 20).heap(memory));
  }));
  heap memory(heap_options().budget(256 << 10));
  auto reset = [kept = std::string(1000, 'x')](std::string &) { CHECK(kept.size() == 1000); };
  errno = 0;
  reuse_pool<std::string> none(std::nothrow, pool_options().capacity(1 << 20).heap(memory), reset);
  CHECK(!none && errno == ENOMEM && memory.stats().live_blocks == 0);
  object_pool<int> empty(std::nothrow, pool_options());
  CHECK(!empty && errno == EINVAL);
  CHECK(said_by<wrong>([&] { object_pool<int> bad(four, empty); }) == "tidepool::object_pool" + no_overflow);
  reuse_pool<int> empty_too(std::nothrow, pool_options());
  CHECK(said_by<wrong>([&] { reuse_pool<int> bad(four, empty_too); }) == "tidepool::reuse_pool" + no_overflow);
  object_pool<int> behind(four);
  CHECK(said_by<wrong>([&] { object_pool<int> bad(pool_options().capacity(4).grow(), behind); }) ==
        "tidepool::object_pool: overflow is set, but when_full is not OBJECT_POOL_OVERFLOW");
}

void test_an_empty_pool()
{
  object_pool<counted> empty(std::nothrow, pool_options());
  CHECK(!empty && !empty.try_make() && throws<std::bad_alloc>([&] { empty.make().reset(); }));
  CHECK(empty.live() == 0 && empty.capacity() == 0 && empty.shrink(0) == 0 && empty.begin() == empty.end());
  CHECK(!empty.is_live(nullptr) && !empty.handle_of(static_cast<counted *>(nullptr)));
  counted *some[2];
  CHECK(empty.make_batch(some, 2) == 0);
  empty.put_all();
  counted alone;
  empty.put(&alone);
}

void test_moves()
{
  object_pool<counted> one(four);
  auto object = one.make(1);
  const auto name = one.handle_of(object.get());
  object_pool<counted> other(std::move(one));
  CHECK(!one && other.live() == 1 && name.get() == object.get());
  object.reset();
  CHECK(other.live() == 0 && !name);
  object_pool<counted> &same = other;
  other = std::move(same);
  CHECK(other && other.make(2));
  std::swap(one, other);
  CHECK(!other && one.capacity() == 4);
  static_cast<void>(one.make(3).release());
  one = object_pool<counted>(four); // the old one ends, with what is live
  CHECK(counted::alive == 0 && one.live() == 0);
  object_pool_t *raw = one.release();
  CHECK(!one);
  object_pool_destroy(raw);
}

void test_what_is_live_at_the_end_is_destructed()
{
  {
    object_pool<counted> pool(pool_options().grow());
    for (int i = 0; i < 1000; i++)
      static_cast<void>(pool.make(i).release());
    CHECK(counted::alive == 1000);
  }
  CHECK(counted::alive == 0);
}

void test_a_constructor_that_throws()
{
  for (const pool_options &options : {four, four.checked()}) {
    object_pool<counted> pool(options);
    const auto kept = pool.make();
    for (int i = 0; i < 100; i++) {
      counted::fails_in = 1;
      CHECK(throws<std::runtime_error>([&] { pool.make().reset(); }));
    }
    CHECK(counted::alive == 1 && pool.live() == 1);
    const auto a = pool.make(), b = pool.make(), c = pool.make();
    CHECK(!pool.try_make());
  }
}

void test_batches()
{
  object_pool<counted> pool(pool_options().capacity(1000));
  counted *some[1000];
  CHECK(pool.make_batch(some, 300, 7) == 300 && counted::alive == 300 && some[299]->value == 7);
  CHECK(pool.make_batch(some + 300, 1000 - 300) == 700 && pool.live() == 1000);
  CHECK(pool.make_batch(some, 1) == 0);
  pool.put_batch(some, 1000);
  CHECK(counted::alive == 0 && pool.live() == 0 && pool.make_batch(some, 0) == 0);
  for (int in : {1, 64, 65, 100, 200}) {
    counted::fails_in = in;
    CHECK(throws<std::runtime_error>([&] { static_cast<void>(pool.make_batch(some, 200)); }));
    CHECK(counted::alive == 0 && pool.live() == 0);
  }
  CHECK(pool.make_batch(some, 1000) == 1000);
  pool.put_all();
  CHECK(counted::alive == 0 && pool.live() == 0);
}

void test_walk_and_put()
{
  object_pool<counted> pool(pool_options().capacity(100));
  for (int i = 0; i < 100; i++)
    static_cast<void>(pool.make(i).release());
  std::set<int> seen;
  counted *before = nullptr;
  for (counted &object : pool) {
    CHECK(before < &object);
    before = &object;
    seen.insert(object.value);
    if (object.value % 2)
      pool.put(&object);
    if (object.value == 50)
      for (counted &other : pool)
        if (other.value % 3 == 0)
          pool.put(&other);
  }
  CHECK(seen.size() == 100 - 17 && pool.live() == 33); // 51 to 99 by three were put before the walk came to them
  const object_pool<counted> &asked = pool;
  CHECK(std::count_if(asked.begin(), asked.end(), [](const counted &object) { return object.value % 2 == 0; }) == 33);
  CHECK(std::find_if(pool.begin(), pool.end(), [](counted &object) { return object.value == 3; }) == pool.end());
}

void test_handles()
{
  object_pool<counted> pool(four);
  auto object = pool.make(1);
  const handle<counted> name = pool.handle_of(object.get()), copy = name;
  CHECK(name.get() == object.get() && name && copy == name && name.index() != 0);
  counted *address = object.get();
  object.reset();
  CHECK(!name.get() && !name);
  object = pool.make(2);
  CHECK(object.get() == address && !name.get()); // the same object, in another use
  CHECK(pool.handle_of(object.get()) != name && pool.handle_of(object.get()).generation() != name.generation());
  counted alone;
  const handle<counted> nothing;
  CHECK(!pool.handle_of(&alone) && !nothing.get() && nothing == handle<counted>());
  const object_pool<counted> &asked = pool;
  const handle<const counted> const_name = asked.handle_of(object.get());
  CHECK(const_name.get() == address && handle<const counted>(pool.handle_of(address)) == const_name);
  pool.put(object.release());
  CHECK(!const_name);
}

void test_overflow()
{
  object_pool<counted> behind(pool_options().capacity(2));
  {
    object_pool<counted> pool(pool_options().capacity(1), behind);
    auto a = pool.make(1), b = pool.make(2), c = pool.make(3);
    CHECK(!pool.try_make() && pool.live() == 1 && behind.live() == 2);
    CHECK(pool.handle_of(b.get()).get() == b.get() && behind.is_live(b.get()) && !pool.is_live(b.get()));
    b.reset();
    CHECK(behind.live() == 1 && counted::alive == 2);
    static_cast<void>(c.release());
  }
  CHECK(counted::alive == 1 && behind.live() == 1); // what it overflowed with stays there
}

void test_growth_and_a_budget()
{
  heap memory(heap_options().budget(1 << 20));
  {
    object_pool<counted> pool(pool_options().grow().heap(memory));
    std::size_t made = 0;
    while (auto object = pool.try_make())
      made += object.release() != nullptr;
    CHECK(made > 10000 && memory.stats().held_bytes <= 1 << 20 && counted::alive == static_cast<int>(made));
    pool.put_all();
    CHECK(pool.shrink(0) < made);
  }
  CHECK(memory.stats().live_blocks == 0);
}

// ---- types of all kinds ----

struct alignas(4096) page {
  unsigned char bytes[4096];
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
struct zero {
  int none[0];
};
#pragma GCC diagnostic pop
struct empty_one {};
struct three {
  char bytes[3];
};
struct aggregate {
  int x;
  std::string text;
};
struct own_operators {
  static void *operator new(std::size_t) = delete;
  static void operator delete(void *) {}
  own_operators *operator&() = delete;
  int value = 5;
};

template <typename T>
std::size_t stride_of()
{
  object_pool<T> pool(pool_options().capacity(100));
  std::vector<std::uintptr_t> addresses;
  for (int i = 0; i < 100; i++)
    addresses.push_back(reinterpret_cast<std::uintptr_t>(pool.make().release()));
  std::sort(addresses.begin(), addresses.end());
  for (std::uintptr_t address : addresses)
    CHECK(address % alignof(T) == 0);
  CHECK(std::adjacent_find(addresses.begin(), addresses.end()) == addresses.end());
  CHECK(std::distance(pool.begin(), pool.end()) == 100);
  pool.put_all();
  return addresses[1] - addresses[0];
}

void test_types()
{
  CHECK(stride_of<page>() == 4096 && stride_of<three>() == 3 && stride_of<empty_one>() == 1 && stride_of<char>() == 1);
  CHECK(stride_of<std::string>() == sizeof(std::string) && stride_of<int *>() == sizeof(int *) && stride_of<zero>() == 4);
  object_pool<aggregate> aggregates(four);
  CHECK(aggregates.make(1, "text")->text == "text" && aggregates.make()->x == 0);
  object_pool<own_operators> special(four);
  auto one = special.make();
  CHECK(one->value == 5 && std::addressof(*special.begin()) == one.get());
  object_pool<const char *> pointers(four);
  CHECK(std::string(*pointers.make("literal")) == "literal");
}

void test_objects_that_are_moved_in()
{
  object_pool<std::unique_ptr<counted>> pool(four);
  auto inner = std::make_unique<counted>(3);
  const auto outer = pool.make(std::move(inner));
  CHECK((*outer)->value == 3 && !inner);
}

} // namespace

int main()
{
  return run_tests({
    CASE(test_make_and_end),
    CASE(test_a_full_pool),
    CASE(test_creation_that_fails),
    CASE(test_an_empty_pool),
    CASE(test_moves),
    CASE(test_what_is_live_at_the_end_is_destructed),
    CASE(test_a_constructor_that_throws),
    CASE(test_batches),
    CASE(test_walk_and_put),
    CASE(test_handles),
    CASE(test_overflow),
    CASE(test_growth_and_a_budget),
    CASE(test_types),
    CASE(test_objects_that_are_moved_in),
  });
}
