// SPDX-License-Identifier: MIT
//
// Object pools as objects: when constructors and destructors run, who owns what, and what becomes of exceptions.
#include "testing.h"
#include <tidepool/tidepool.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Not at global scope, where object_pool is the tag of a C struct.
namespace {

using tidepool::evicting_pool;
using tidepool::handle;
using tidepool::heap;
using tidepool::heap_options;
using tidepool::object_pool;
using tidepool::pool_options;
using tidepool::reuse_pool;

// Counts itself, and knows whether it is there: a second destructor, or one without a constructor, is seen.
class counted {
public:
  explicit counted(int given = 0) : value(given), self_(this)
  {
    if (fails_in > 0 && --fails_in == 0)
      throw std::runtime_error("constructor");
    alive++;
    made++;
  }
  counted(const counted &) = delete;
  counted &operator=(const counted &) = delete;
  ~counted()
  {
    CHECK(self_ == this);
    self_ = nullptr;
    alive--;
  }

  static int alive, made, fails_in;
  int value;

private:
  counted *self_;
};
int counted::alive, counted::made, counted::fails_in;

const pool_options four = pool_options().capacity(4);

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
  CHECK(throws<std::invalid_argument>([] { object_pool<int> bad{pool_options()}; }));
  CHECK(throws<std::invalid_argument>([] { object_pool<int> bad(pool_options().capacity(10).grow(5)); }));
  CHECK(throws<std::invalid_argument>([] { reuse_pool<int> bad{pool_options()}; }));
  CHECK(throws<std::invalid_argument>([] { evicting_pool<int> bad(four, nullptr); }));
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
  CHECK(throws<std::invalid_argument>([&] { object_pool<int> bad(four, empty); }));
  object_pool<int> behind(four);
  CHECK(throws<std::invalid_argument>([&] { object_pool<int> bad(pool_options().grow(), behind); }));
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

// ---- objects that own others of their pool ----

struct node {
  explicit node(std::string given) : name(std::move(given)) {}
  std::string name;
  object_pool<node>::pointer left, right;
  counted count;
};

object_pool<node>::pointer tree_of(object_pool<node> &pool, int depth)
{
  auto root = pool.make("a name that is longer than what a string holds in itself");
  if (depth > 0) {
    root->left = tree_of(pool, depth - 1);
    root->right = tree_of(pool, depth - 1);
  }
  return root;
}

void test_trees()
{
  for (const pool_options &options : {pool_options().grow(), pool_options().grow().checked()}) {
    object_pool<node> pool(options);
    tree_of(pool, 6).reset();
    CHECK(counted::alive == 0 && pool.live() == 0);
    // Children below their parent and above it, by address.
    auto children = tree_of(pool, 2);
    auto root = pool.make("root");
    root->left = std::move(children);
    root->right = tree_of(pool, 2);
    static_cast<void>(root.release());
    CHECK(counted::alive == 15);
    pool.put_all();
    CHECK(counted::alive == 0 && pool.live() == 0);
    static_cast<void>(tree_of(pool, 6).release());
  }
  CHECK(counted::alive == 0);
}

void test_rings_and_long_lists_end()
{
  {
    object_pool<node> pool(pool_options().grow());
    auto a = pool.make("a"), b = pool.make("b");
    node *first = a.get();
    b->left = std::move(a);
    first->left = std::move(b);
    auto itself = pool.make("itself");
    node *own = itself.get();
    own->right = std::move(itself);
    // A list that is too long for destructors within destructors.
    object_pool<node>::pointer head;
    for (int i = 0; i < 300000; i++) {
      auto next = pool.make("n");
      next->left = std::move(head);
      head = std::move(next);
    }
    static_cast<void>(head.release());
  }
  CHECK(counted::alive == 0);
}

void test_rings_through_an_overflow_pool_end()
{
  {
    object_pool<node> behind(pool_options().capacity(10));
    object_pool<node> pool(pool_options().capacity(1), behind);
    auto a = pool.make("a"), b = pool.make("b"), c = pool.make("c");
    node *last = c.get();
    b->left = std::move(c);
    a->left = std::move(b);
    last->left = pool.make("d");
    last->right = std::move(a);
    behind.put_all();
    CHECK(pool.live() == 0 && behind.live() == 0 && counted::alive == 0);
    pool.put_all();
  }
  CHECK(counted::alive == 0);
}

struct maker {
  explicit maker(object_pool<maker> &in) : pool(in) {}
  ~maker()
  {
    if (makes) {
      const auto other = pool.try_make(pool);
      refused += !other;
    }
  }
  object_pool<maker> &pool;
  bool makes = false;
  static int refused;
};
int maker::refused;

void test_nothing_is_made_in_a_pool_that_ends()
{
  object_pool<maker> pool(four);
  auto one = pool.make(pool);
  one->makes = true;
  one.reset();
  CHECK(maker::refused == 0 && pool.live() == 0);
  static_cast<void>(pool.make(pool).release());
  for (maker &each : pool)
    each.makes = true;
  pool.put_all();
  CHECK(maker::refused == 1 && pool.live() == 0);
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

// ---- misuse ----

void test_misuse_ends_the_program_before_a_destructor_runs()
{
  const pool_options options = pool_options().name("cpp").capacity(4);
  const char *const line = "tidepool: object_pool_put(0x", *const no_object = "not a live object of pool \"cpp\"";
  CHECK(ends_with(line, [&] {
    object_pool<counted> pool(options);
    counted *object = pool.make().release();
    pool.put(object);
    pool.put(object);
  }));
  CHECK(ends_with(no_object, [&] {
    object_pool<counted> pool(options);
    const auto object = pool.make();
    pool.put_all();
  }));
  CHECK(ends_with(no_object, [&] {
    object_pool<counted> pool(options), other(four);
    pool.put(other.make().release());
  }));
  CHECK(ends_with(no_object, [&] {
    object_pool<int> pool(options);
    int *object = pool.make().release();
    pool.put(object);
    pool.put(object);
  }));
  CHECK(ends_with("not a live object pool", [&] {
    object_pool<counted>::pointer late;
    object_pool<counted> pool(options);
    late = pool.make();
    pool = object_pool<counted>(std::nothrow, pool_options());
    late.reset();
  }));
  CHECK(ends_with("not a live object pool", [&] {
    heap memory;
    object_pool<counted> pool(options.heap(memory));
    memory.reset();
  }));
  CHECK(ends_with("written to after it was put", [&] {
    object_pool<counted> pool(options.checked());
    counted *object = pool.make().release();
    pool.put(object);
    object->value = 1;
    pool.make().reset();
  }));
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
    CASE(test_trees),
    CASE(test_rings_and_long_lists_end),
    CASE(test_rings_through_an_overflow_pool_end),
    CASE(test_nothing_is_made_in_a_pool_that_ends),
    CASE(test_types),
    CASE(test_objects_that_are_moved_in),
    CASE(test_reuse),
    CASE(test_reset),
    CASE(test_makers_that_throw),
    CASE(test_what_cannot_move_is_made_in_place),
    CASE(test_reuse_overflow_and_heap),
    CASE(test_a_pool_within_the_making_of_another),
    CASE(test_release_leaves_the_pool_to_the_heap),
    CASE(test_eviction),
    CASE(test_choosers_that_name_nobody_or_throw),
    CASE(test_no_eviction_within_constructors_and_destructors),
    CASE(test_a_victim_that_is_none_ends_the_program),
    CASE(test_misuse_ends_the_program_before_a_destructor_runs),
  });
}
