// SPDX-License-Identifier: MIT
//
// The end of a pool: what is live is destructed once, whatever it refers to; and misuse ends the program before a destructor
// runs.
#include "counted.h"

namespace {

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
    CASE(test_trees),
    CASE(test_rings_and_long_lists_end),
    CASE(test_rings_through_an_overflow_pool_end),
    CASE(test_nothing_is_made_in_a_pool_that_ends),
    CASE(test_misuse_ends_the_program_before_a_destructor_runs),
  });
}
