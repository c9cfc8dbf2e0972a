// SPDX-License-Identifier: MIT
//
// Every part of the header, instantiated: compiled without a warning in each language version, and without exceptions and RTTI.
// What is promised of the types is asserted here.
#include <tidepool/tidepool.hpp>

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

namespace {

struct plain {
  int x, y;
};

struct alignas(4096) page {
  unsigned char bytes[4096];
};

class owner {
public:
  explicit owner(std::string text) : text_(std::move(text)) {}
  owner(const owner &) = delete;
  owner &operator=(const owner &) = delete;
  std::size_t size() const { return text_.size(); }

private:
  std::string text_;
};

// Pointers of a pool within its own, still incomplete, type.
struct node {
  tidepool::object_pool<node>::pointer left, right;
  tidepool::handle<node> parent;
  std::vector<node, tidepool::heap_allocator<node>> children;
};

struct final_one final {
  virtual ~final_one() = default;
};

template <typename Type>
constexpr bool is_move_only =
  std::is_nothrow_move_constructible_v<Type> &&std::is_nothrow_move_assignable_v<Type> &&std::is_nothrow_swappable_v<Type> &&
  !std::is_copy_constructible_v<Type> && !std::is_copy_assignable_v<Type>;

static_assert(is_move_only<tidepool::heap> && is_move_only<tidepool::object_pool<owner>> &&
              is_move_only<tidepool::reuse_pool<owner>> && is_move_only<tidepool::evicting_pool<owner>>);
static_assert(sizeof(tidepool::heap) == sizeof(void *) && sizeof(tidepool::object_pool<owner>) == sizeof(void *));
static_assert(sizeof(tidepool::heap_allocator<int>) == sizeof(void *) && std::is_trivially_copyable_v<tidepool::heap_ref>);
static_assert(sizeof(tidepool::object_pool<owner>::pointer) == 2 * sizeof(void *));
static_assert(sizeof(tidepool::handle<owner>) == 16 && std::is_trivially_copyable_v<tidepool::handle<owner>>);

// A heap does not come from a pointer by itself, nor a reference from a heap that ends.
static_assert(!std::is_convertible_v<pool_heap_t *, tidepool::heap>);
static_assert(!std::is_convertible_v<pool_heap_t *, tidepool::heap_ref>);
static_assert(std::is_convertible_v<tidepool::heap &, tidepool::heap_ref>);
static_assert(!std::is_constructible_v<tidepool::heap_ref, tidepool::heap> &&
              !std::is_constructible_v<tidepool::heap_allocator<int>, tidepool::heap>);

// The requirements on allocators that can be asked for.
using allocator = tidepool::heap_allocator<int>;
using traits = std::allocator_traits<allocator>;
static_assert(std::is_same_v<traits::rebind_alloc<plain>, tidepool::heap_allocator<plain>>);
static_assert(std::is_same_v<traits::pointer, int *> && std::is_same_v<traits::size_type, std::size_t>);
static_assert(!traits::is_always_equal::value && !traits::propagate_on_container_copy_assignment::value);
static_assert(traits::propagate_on_container_move_assignment::value && traits::propagate_on_container_swap::value);
static_assert(std::is_nothrow_copy_constructible_v<allocator> && std::is_nothrow_copy_assignable_v<allocator> &&
              std::is_nothrow_move_constructible_v<allocator> && std::is_nothrow_move_assignable_v<allocator>);
static_assert(std::is_nothrow_constructible_v<allocator, const tidepool::heap_allocator<plain> &>);
static_assert(std::is_convertible_v<const tidepool::heap_allocator<plain> &, allocator>);
static_assert(std::is_nothrow_move_assignable_v<std::vector<int, allocator>>);
static_assert(std::is_same_v<decltype(allocator() == tidepool::heap_allocator<plain>()), bool>);
static_assert(sizeof(tidepool::heap_allocator<void>) == sizeof(void *));

// A pointer to a base would not be one that a pool can take back.
struct base {
  virtual ~base() = default;
};
struct derived final : base {};
static_assert(!std::is_convertible_v<tidepool::object_pool<derived>::pointer, tidepool::object_pool<base>::pointer>);

static_assert(std::is_convertible_v<tidepool::handle<int>, tidepool::handle<const int>>);
static_assert(!std::is_convertible_v<tidepool::handle<const int>, tidepool::handle<int>>);
using walk = std::iterator_traits<tidepool::object_pool<int>::iterator>;
static_assert(std::is_same_v<walk::iterator_category, std::forward_iterator_tag> && std::is_same_v<walk::reference, int &>);
static_assert(std::is_same_v<decltype(*std::declval<const tidepool::object_pool<int> &>().begin()), const int &>);

bool heaps()
{
  auto exhausted = [](tidepool::heap_ref, std::size_t, unsigned) { return false; };
  static const std::size_t sizes[] = {16, 64, 4096};
  tidepool::heap parent;
  const auto options = tidepool::heap_options().name("all").budget(8 << 20).parent(parent).on_exhausted(exhausted);
  tidepool::heap heap(options.size_classes(sizes, 3).checked().single_thread());
  tidepool::heap none(std::nothrow, tidepool::heap_options().budget(1));
  void *block = heap.allocate(100), *aligned = heap.try_allocate(100, 64);
  std::size_t visited = 0;
  bool whole = heap.walk([&](const pool_block_t &) { visited++; });
  whole = heap.walk([&](const pool_block_t &) { return visited++ < 10; }) && whole;
  bool good = !none && whole && visited == 4 && heap.is_live(block) && heap.owns(aligned);
  good = good && heap.block_of(block).start == block;
  heap.deallocate(block);
  heap.deallocate(aligned);
  good = good && heap.set_budget(16 << 20) && heap.budget() == 16 << 20 && heap.name() && !heap.stats_json().empty();
  heap.trim();
  heap.reset();
  tidepool::heap other(std::move(heap));
  swap(other, heap);
  return good && heap && !other && tidepool::heap_ref(heap) == tidepool::heap_ref(heap.get()) && tidepool::heap_ref() != heap;
}

template <typename Pool>
std::size_t visited(Pool &pool)
{
  std::size_t count = 0;
  for (auto &object : pool)
    count += pool.is_live(&object);
  return count + static_cast<std::size_t>(std::distance(pool.begin(), pool.end()));
}

bool pools()
{
  tidepool::object_pool<page> pages(tidepool::pool_options().name("pages").capacity(2).heap(tidepool::heap_ref()));
  tidepool::object_pool<plain> plains(tidepool::pool_options().grow(100).single_thread());
  tidepool::object_pool<owner> owners(tidepool::pool_options().capacity(4));
  tidepool::object_pool<owner> more_owners(tidepool::pool_options().capacity(1), owners);
  tidepool::object_pool<node> nodes(tidepool::pool_options().capacity(3).checked());
  tidepool::object_pool<final_one> finals(std::nothrow, tidepool::pool_options().capacity(1));
  auto first = owners.make("first"), second = more_owners.try_make(std::string("second"));
  auto point = plains.make(1, 2);
  auto root = nodes.make();
  root->left = nodes.make();
  root->left->parent = nodes.handle_of(root.get());
  auto last = finals.try_make();
  owner *some[8];
  const std::size_t got = owners.make_batch(some, 8, "many");
  owners.put_batch(some, got);
  plain *many[100];
  plains.put_batch(many, plains.make_batch(many, 99, plain{1, 2}));
  const tidepool::object_pool<node> &asked = nodes;
  bool good = pages.make() && visited(owners) == 2 && visited(asked) == 4 && first->size() == 5 && second && last;
  good = good && root->left->parent.get() == root.get() && got == 3 && plains.capacity() >= 100 && plains.shrink(0) < 200;
  plains.put(point.release());
  plains.put_all();
  return good && plains.live() == 0;
}

bool reuse()
{
  auto make = [] { return std::string("made"); };
  auto reset = [](std::string &text) { text.clear(); };
  tidepool::reuse_pool<plain> plains(tidepool::pool_options().capacity(2));
  tidepool::reuse_pool<std::string> texts(tidepool::pool_options().capacity(2), make, reset, OBJECT_POOL_RESET_ON_PUT);
  tidepool::reuse_pool<std::string> before(tidepool::pool_options().capacity(1), texts);
  tidepool::reuse_pool<std::string> resets(std::nothrow, tidepool::pool_options().capacity(1), texts, reset);
  auto text = texts.get(), other = before.try_get();
  std::string *some[2];
  const std::size_t got = before.get_batch(some, 2);
  before.put_batch(some, got);
  plain *point = plains.get().release();
  plains.put(point);
  plains.put_all();
  return *text == "made" && other && got == 1 && resets;
}

bool evicting()
{
  using texts = tidepool::evicting_pool<std::string>;
  texts trails(tidepool::pool_options().capacity(1), [](texts &pool) { return &*pool.begin(); });
  const tidepool::handle<std::string> first = trails.make("first"), second = trails.try_make("second");
  bool good = !first && second && second.get()->size() == 6 && trails.put(second) && !trails.put(second);
  trails.put_all();
  return good;
}

#ifdef __cpp_lib_memory_resource
bool resources()
{
  tidepool::heap heap;
  tidepool::heap_resource resource(heap), same(heap), other;
  std::pmr::vector<std::pmr::string> texts({"a", "b"}, &resource);
#ifdef __cpp_rtti
  if (resource != same)
    return false;
#endif
  return resource == resource && resource != other && resource.heap() == heap && heap.is_live(texts.data());
}
#else
bool resources() { return true; }
#endif

} // namespace

int main() { return heaps() && pools() && reuse() && evicting() && resources() ? 0 : 1; }
