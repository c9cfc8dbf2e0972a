// SPDX-License-Identifier: MIT
//
// A program with names that match anything, at global scope and beside the type of the objects: the header must not find them
// by their arguments. It is linked with a source that was compiled without exceptions and RTTI (bare.cpp).
struct object_pool;
template <typename T, typename... Any>
void drain(Any &&...) = delete;
template <typename... Any>
void end_and_put(Any &&...) = delete;
template <typename... Any>
void put_each(Any &&...) = delete;
bool is_draining(const object_pool *);
bool is_draining(object_pool *);
bool is_to_end(object_pool *, const void *);
bool is_to_end_rare(object_pool *, const void *, bool);

#include "bare.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace user {

template <typename... Any>
void construct_at(Any &&...) = delete;
template <typename... Any>
void destroy_at(Any &&...) = delete;
template <typename... Any>
void swap(Any &&...) = delete;
template <typename... Any>
void move(Any &&...) = delete;
template <typename... Any>
void forward(Any &&...) = delete;
template <typename... Any>
void put_all(Any &&...) = delete;
template <typename... Any>
void invoke(Any &&...) = delete;
template <typename... Any>
void addressof(Any &&...) = delete;

struct thing {
  std::string text = "a text that is longer than what a string holds in itself";
  ~thing() {}
  thing() = default;
  thing(const thing &) = default;
  thing &operator=(const thing &) = default;
  void operator&() = delete;
  friend void operator,(const thing &, const thing &) = delete;
};

// A pool of a type within that type.
struct parent {
  tidepool::object_pool<parent> children{tidepool::pool_options().capacity(1)};
};

} // namespace user

template <std::size_t alignment>
static bool is_aligned()
{
  struct alignas(alignment) strict {
    char byte;
  };
  tidepool::object_pool<strict> pool(tidepool::pool_options().capacity(3));
  const auto one = pool.make(), two = pool.make();
  std::vector<strict, tidepool::heap_allocator<strict>> some(2), none(0);
  const void *const all[] = {one.get(), two.get(), some.data()};
  for (const void *each : all)
    if (reinterpret_cast<std::uintptr_t>(each) % alignment != 0)
      return false;
  return true;
}

static bool pools_of_things(tidepool::heap &heap)
{
  using user::thing;
  const auto options = tidepool::pool_options().capacity(4).heap(heap);
  tidepool::object_pool<thing> made(options);
  auto one = made.make(), two = made.make();
  std::swap(one, two);
  made.put(one.release());
  static_cast<void>(made.make().release());
  two.reset();
  made.put_all();
  auto reset = [](thing &) {};
  tidepool::reuse_pool<thing> reused(options, reset, OBJECT_POOL_RESET_ON_PUT);
  const auto again = reused.get();
  tidepool::evicting_pool<thing> evicting(options.capacity(1), [](auto &pool) { return std::addressof(*pool.begin()); });
  const auto first = evicting.make(), second = evicting.make();
  return made.live() == 0 && reused.live() == 1 && !first && second;
}

static bool containers_of_things(tidepool::heap &heap)
{
  using user::thing;
  std::vector<thing, tidepool::heap_allocator<thing>> some(3, thing(), heap), other(heap);
  other = some;
  other.push_back(other[0]);
  std::swap(some, other);
  std::map<int, thing, std::less<>, tidepool::heap_allocator<std::pair<const int, thing>>> map(heap);
  map[1] = some[3];
  return map[1].text == other[0].text;
}

static bool pools_that_are_shared_and_held()
{
  std::optional<tidepool::object_pool<std::string>> pool(tidepool::pool_options().capacity(3));
  const std::shared_ptr<std::string> shared = pool->make("shared");
  tidepool::object_pool<std::string>::const_iterator at = pool->begin();
  return *at == "shared" && pool->live() == 1;
}

int main()
{
  tidepool::heap heap;
  const user::parent parent;
  tidepool::object_pool<std::string> pool(tidepool::pool_options().capacity(2));
  return is_aligned<4096>() && is_aligned<65536>() && is_aligned<std::size_t(1) << 21>() && pools_of_things(heap) &&
             containers_of_things(heap) && pools_that_are_shared_and_held() && bare_source_works(heap, pool)
           ? 0
           : 1;
}
