// SPDX-License-Identifier: MIT
//
// tidepool/tidepool.hpp: heaps and object pools for C++17 and later. Nothing but this header is needed beside libtidepool.
//
//   heap, heap_ref       a heap that ends with its scope, and a reference to any heap, the default one too
//   heap_allocator<T>    for containers: std::vector<int, tidepool::heap_allocator<int>> numbers(heap);
//   heap_resource        for std::pmr containers
//   object_pool<T>       make() constructs an object and returns a unique_ptr, whose end destructs it and puts it back
//   reuse_pool<T>        objects stay constructed between uses, and are reset
//   evicting_pool<T>     makes room by ending a live object; only handles point into it
//   handle<T>            a name for one use of an object: get() is null once that use has ended
//
// Sizes are bytes, capacities are objects. What the C headers promise holds here: heap.h and object_pool.h say what a budget
// bounds, what the flags do, and which misuse ends the program.
//
// Lifetime: a heap outlives everything in it: containers, resources, object pools. Declare it first. An object pool outlives
// the pointers it gave. A pointer that ends after its pool ends the program, as any misuse does, where that is seen. So does a
// pool that ends after its heap, or after heap::reset(). No object may end its own pool. Handles hold nothing; they may be
// asked as long as the pool lives.
//
// Threads: as in C, all threads may use one heap or pool at once, unless it is single_thread(). Moving, swapping and ending
// these objects need the other threads to stay out, as every object of C++ does.
//
// Exceptions: what cannot be served throws std::bad_alloc, options that contradict each other std::invalid_argument, whose
// what() has the text of pool_error(), an array that is longer than memory std::bad_array_new_length. Each call that throws one
// of these has a form that does not: try_..., or std::nothrow for creation, with the reason in errno. No exception passes
// through the C library: callbacks say below what becomes of theirs. Destructors and resets must not throw; if one does,
// std::terminate() is called.
//
// With -fno-exceptions what would throw calls std::abort(). With -fno-rtti two heap_resources are equal only if they are the
// same object. Without <memory_resource> (libc++ before 16) there is no heap_resource. All sources of a program that share
// objects of these classes should be compiled alike in this.
//
// Names: object_pool is also the tag of a C struct. So `using namespace tidepool` makes that name ambiguous; write
// tidepool::object_pool.
//
// Moved-from objects are empty: get() and raw() are null, and calls do what the C library does with NULL.
#ifndef TIDEPOOL_HPP
#define TIDEPOOL_HPP

#if __cplusplus < 201703L
#error "tidepool.hpp needs C++17: -std=c++17"
#endif

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <tidepool/version.h>

namespace tidepool {

class heap;
class heap_ref;
template <typename T>
class handle;

namespace detail {

// Every block is aligned to this.
inline constexpr std::size_t block_alignment = 16;

// Out of line, so that what calls them stays small.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_bad_alloc()
{
#ifdef __cpp_exceptions
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_array_length()
{
#ifdef __cpp_exceptions
  throw std::bad_array_new_length();
#else
  std::abort();
#endif
}

// For a creation that has set errno. `what` could not be made; the library says why.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_creation([[maybe_unused]] const char *what)
{
#ifdef __cpp_exceptions
  if (errno == EINVAL)
    throw std::invalid_argument(std::string(what) + ": " + pool_error());
#endif
  fail_bad_alloc();
}

// Brings an exception from a callback to whoever called the C function that called it.
class carrier {
public:
  // False: the function threw, and the exception is kept.
  template <typename Function>
  bool run(Function &&function) noexcept
  {
#ifdef __cpp_exceptions
    try {
      function();
      return true;
    } catch (...) {
      exception_ = std::current_exception();
      return false;
    }
#else
    function();
    return true;
#endif
  }

  void rethrow() const
  {
#ifdef __cpp_exceptions
    if (exception_)
      std::rethrow_exception(exception_);
#endif
  }

#ifdef __cpp_exceptions
private:
  std::exception_ptr exception_;
#endif
};

// What heap and heap_ref have in common. Self has get().
template <typename Self>
class heap_calls {
public:
  // A block of at least `bytes` bytes with undefined contents, whose address is a multiple of the alignment, a power of two.
  // std::bad_alloc: the heap is exhausted, after on_exhausted and the overflow heap.
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = block_alignment) const
  {
    void *block = try_allocate(bytes, alignment);
    if (!block)
      fail_bad_alloc();
    return block;
  }

  // The same; null with ENOMEM, or with EINVAL for an alignment that is no power of two.
  [[nodiscard]] void *try_allocate(std::size_t bytes, std::size_t alignment = block_alignment) const noexcept
  {
    const bool usual = alignment <= block_alignment && alignment != 0 && (alignment & (alignment - 1)) == 0;
    return usual ? pool_heap_alloc(raw(), bytes) : pool_heap_aligned_alloc(raw(), alignment, bytes);
  }

  // Takes back a block of this heap or of its overflow heap, from any thread. Null is no error.
  void deallocate(void *block) const noexcept { pool_heap_free(raw(), block); }

  // The size of the block that a request for so many bytes gets.
  [[nodiscard]] std::size_t good_size(std::size_t bytes) const noexcept { return pool_heap_good_size(raw(), bytes); }

  // Bytes; 0 is no limit. set_budget() returns false, and nothing has changed, if more than that is held even after a trim.
  [[nodiscard]] std::size_t budget() const noexcept { return stats().budget; }
  [[nodiscard]] bool set_budget(std::size_t bytes) const noexcept { return pool_heap_set_budget(raw(), bytes); }

  // The figures, described in stats.h; all are 0 of an empty heap. It takes locks for microseconds.
  [[nodiscard]] pool_stats_t stats() const noexcept
  {
    pool_stats_t figures = {};
    pool_heap_stats(raw(), &figures);
    return figures;
  }

  // The figures as one JSON object. The text is not of this heap's memory.
  [[nodiscard]] std::string stats_json() const
  {
    std::string text;
    for (;;) {
      const std::size_t length = pool_heap_stats_json(raw(), text.data(), text.empty() ? 0 : text.size() + 1);
      const bool whole = length <= text.size(); // other threads may have added figures since it was measured
      text.resize(length);
      if (whole)
        return text;
    }
  }

  // Writes where the live blocks of the heap were allocated to a file descriptor, in lines. False: it could not be written, and
  // errno says why.
  bool report(int fd) const noexcept { return pool_heap_report(raw(), fd); }

  // Gives idle memory beyond `keep` bytes back to the system, and returns the bytes given.
  std::size_t trim(std::size_t keep = 0) const noexcept { return pool_heap_trim(raw(), keep); }

  // Lives as long as the heap. Null for an empty heap.
  [[nodiscard]] const char *name() const noexcept { return pool_heap_name(raw()); }

  // Whether the address is in memory of this heap; whether it is inside a live block of it; and which block that is, {null, 0}
  // if none. They take any address, and may take microseconds.
  [[nodiscard]] bool owns(const void *address) const noexcept { return raw() && pool_heap_of(address) == raw(); }
  [[nodiscard]] bool is_live(const void *address) const noexcept { return owns(address) && pool_in_use(address); }
  [[nodiscard]] pool_block_t block_of(const void *address) const noexcept
  {
    pool_block_t block = {nullptr, 0, nullptr};
    if (owns(address))
      block.start = pool_block_start(address, &block.size);
    return block;
  }

  // Calls visit(const pool_block_t &) for each live block. If that returns bool, false ends the walk. The visitor may
  // deallocate the block it is given, and allocate. Other threads have to stay out of the heap. Returns false if the visitor
  // ended the walk. An exception of the visitor ends the walk and comes out of it.
  template <typename Visit>
  bool walk(Visit &&visit) const
  {
    struct visitor {
      std::remove_reference_t<Visit> *visit;
      carrier exception;
    } own = {std::addressof(visit), {}};
    const bool whole = pool_heap_walk(
      raw(),
      [](const pool_block_t *block, void *context) noexcept {
        visitor *of = static_cast<visitor *>(context);
        bool more = true;
        return of->exception.run([&] { more = visit_one(*of->visit, *block); }) && more;
      },
      &own);
    own.exception.rethrow();
    return whole;
  }

protected:
  heap_calls() noexcept = default;
  heap_calls(const heap_calls &) noexcept = default;
  heap_calls &operator=(const heap_calls &) noexcept = default;
  ~heap_calls() = default;

private:
  pool_heap_t *raw() const noexcept { return static_cast<const Self *>(this)->get(); }

  template <typename Visit>
  static bool visit_one(Visit &visit, const pool_block_t &block)
  {
    if constexpr (std::is_void_v<std::invoke_result_t<Visit &, const pool_block_t &>>) {
      std::invoke(visit, block);
      return true;
    } else {
      return static_cast<bool>(std::invoke(visit, block));
    }
  }
};

} // namespace detail

// A heap that somebody else owns; it has to outlive this. All calls are const, as those of a pointer are. It costs what a
// pointer costs. Without arguments it is the default heap, which is there always and has no budget.
class heap_ref : public detail::heap_calls<heap_ref> {
public:
  heap_ref() noexcept : heap_(pool_heap_default()) {}
  heap_ref(const heap &owner) noexcept;
  heap_ref(const heap &&) = delete; // it would end before the reference
  explicit heap_ref(pool_heap_t *raw) noexcept : heap_(raw) {}

  [[nodiscard]] pool_heap_t *get() const noexcept { return heap_; }
  explicit operator bool() const noexcept { return heap_ != nullptr; }

  friend bool operator==(heap_ref left, heap_ref right) noexcept { return left.heap_ == right.heap_; }
  friend bool operator!=(heap_ref left, heap_ref right) noexcept { return left.heap_ != right.heap_; }

private:
  pool_heap_t *heap_;
};

// The options of a heap; heap.h describes each. Every call returns a copy with one more option set:
//     heap_options().name("requests").budget(4 << 20)
// Names, memory, size classes and what on_exhausted calls are not copied. The first and third have to last until the heap is
// made, the others as long as the heap. pool_heap_options_t itself does as well, in C++20 with designated initializers.
class heap_options {
public:
  heap_options() noexcept = default;
  explicit heap_options(const pool_heap_options_t &options) noexcept : options_(options) {}

  [[nodiscard]] heap_options name(const char *name) const noexcept { return with(&pool_heap_options_t::name, name); }
  [[nodiscard]] heap_options budget(std::size_t bytes) const noexcept { return with(&pool_heap_options_t::budget, bytes); }
  [[nodiscard]] heap_options reserve(std::size_t bytes) const noexcept { return with(&pool_heap_options_t::reserve, bytes); }
  [[nodiscard]] heap_options parent(heap_ref heap) const noexcept { return with(&pool_heap_options_t::parent, heap.get()); }
  [[nodiscard]] heap_options overflow(heap_ref to) const noexcept { return with(&pool_heap_options_t::overflow, to.get()); }
  [[nodiscard]] heap_options purge_delay_ms(unsigned n) const noexcept { return with(&pool_heap_options_t::purge_delay_ms, n); }

  [[nodiscard]] heap_options memory(void *memory, std::size_t bytes) const noexcept
  {
    return with(&pool_heap_options_t::memory, memory).with(&pool_heap_options_t::memory_size, bytes);
  }

  [[nodiscard]] heap_options size_classes(const std::size_t *sizes, std::size_t count) const noexcept
  {
    return with(&pool_heap_options_t::size_classes, sizes).with(&pool_heap_options_t::size_class_count, count);
  }

  // Called as callable(heap_ref, bytes_needed, attempt), which returns whether to try again. An exception counts as false. The
  // callable is not copied.
  template <typename Callable,
            typename = std::enable_if_t<std::is_object_v<Callable> &&
                                        std::is_invocable_r_v<bool, Callable &, heap_ref, std::size_t, unsigned>>>
  [[nodiscard]] heap_options on_exhausted(Callable &callable) const noexcept
  {
    return on_exhausted(
      [](pool_heap_t *heap, std::size_t bytes_needed, unsigned attempt, void *context) noexcept {
        bool again = false;
        detail::carrier lost;
        lost.run([&] { again = std::invoke(*static_cast<Callable *>(context), heap_ref(heap), bytes_needed, attempt); });
        return again;
      },
      const_cast<void *>(static_cast<const volatile void *>(std::addressof(callable))));
  }
  template <typename Callable>
  heap_options on_exhausted(const Callable &&) const = delete; // it would end before the heap

  // The C callback. It must not throw.
  [[nodiscard]] heap_options on_exhausted(pool_exhausted_fn *function, void *context) const noexcept
  {
    return with(&pool_heap_options_t::on_exhausted, function).with(&pool_heap_options_t::context, context);
  }

  [[nodiscard]] heap_options single_thread() const noexcept { return with_flag(POOL_HEAP_SINGLE_THREAD); }
  [[nodiscard]] heap_options prefault() const noexcept { return with_flag(POOL_HEAP_PREFAULT); }
  [[nodiscard]] heap_options lock_memory() const noexcept { return with_flag(POOL_HEAP_LOCK_MEMORY); }
  [[nodiscard]] heap_options zero_on_free() const noexcept { return with_flag(POOL_HEAP_ZERO_ON_FREE); }
  [[nodiscard]] heap_options checked() const noexcept { return with_flag(POOL_HEAP_CHECKED); }
  [[nodiscard]] heap_options sites() const noexcept { return with_flag(POOL_HEAP_SITES); }
  [[nodiscard]] heap_options guarded() const noexcept { return with_flag(POOL_HEAP_GUARDED); }
  [[nodiscard]] heap_options dense() const noexcept { return with_flag(POOL_HEAP_DENSE); }

  operator pool_heap_options_t() const noexcept { return options_; } // a copy: no reference into what may end before it

private:
  template <typename Field>
  heap_options with(Field pool_heap_options_t::*field, Field value) const noexcept
  {
    heap_options next = *this;
    next.options_.*field = value;
    return next;
  }

  heap_options with_flag(unsigned flag) const noexcept { return with(&pool_heap_options_t::flags, options_.flags | flag); }

  pool_heap_options_t options_ = {};
};

// A heap that ends with this object, and all its blocks with it: whatever lives in them must be gone, or not mind. Its address
// is of no account: it may move while containers and pools are in the heap. Making one takes microseconds.
class heap : public detail::heap_calls<heap> {
public:
  // std::invalid_argument: the options contradict each other, or the budget or buffer is too small. std::bad_alloc: there is no
  // memory.
  heap() : heap(pool_heap_options_t{}) {}
  explicit heap(const pool_heap_options_t &options) : heap(std::nothrow, options)
  {
    if (!heap_)
      detail::fail_creation("tidepool::heap");
  }

  // Empty on failure, with EINVAL or ENOMEM.
  heap(const std::nothrow_t &, const pool_heap_options_t &options) noexcept : heap_(pool_heap_create(&options)) {}

  // Takes over a heap of pool_heap_create(). Null is an empty heap.
  explicit heap(pool_heap_t *owned) noexcept : heap_(owned) {}

  heap(heap &&other) noexcept : heap_(other.release()) {}
  heap &operator=(heap &&other) noexcept
  {
    heap taken(std::move(other));
    swap(*this, taken);
    return *this;
  }
  heap(const heap &) = delete;
  heap &operator=(const heap &) = delete;
  ~heap() { pool_heap_destroy(heap_); }

  friend void swap(heap &left, heap &right) noexcept { std::swap(left.heap_, right.heap_); }

  [[nodiscard]] pool_heap_t *get() const noexcept { return heap_; }
  [[nodiscard]] pool_heap_t *release() noexcept { return std::exchange(heap_, nullptr); }
  explicit operator bool() const noexcept { return heap_ != nullptr; }

  // Ends every block, and every object pool in the heap without its destructors. The memory stays held for reuse. Containers
  // and pools that were in it must be gone, or released.
  void reset() noexcept { pool_heap_reset(heap_); }

private:
  pool_heap_t *heap_;
};

inline heap_ref::heap_ref(const heap &owner) noexcept : heap_(owner.get()) {}

// An allocator whose memory comes from a heap. Copies, also those of other types, share the heap, and are equal if that is the
// same. Without arguments it is the default heap's.
//
// A container that is copied is on the heap of its source; one that is assigned to keeps its own heap. What is moved or swapped
// takes its heap along, so neither copies an element.
//
// Cost: allocate() adds a test of the length and one for null to pool_heap_alloc(); deallocate() is pool_heap_free().
template <typename T>
class heap_allocator {
  static_assert(std::is_same_v<T, std::remove_cv_t<T>> && !std::is_reference_v<T>, "an allocator's type is not const");

public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  heap_allocator() noexcept : heap_allocator(heap_ref()) {}
  heap_allocator(heap_ref heap) noexcept : heap_(heap.get()) {}
  heap_allocator(const tidepool::heap &heap) noexcept : heap_(heap.get()) {}
  heap_allocator(const tidepool::heap &&) = delete; // it would end before the allocator
  template <typename U>
  heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.heap().get())
  {}

  // Memory for `count` objects, aligned for them however strictly. std::bad_array_new_length: no size_t holds their bytes.
  // std::bad_alloc: the heap is exhausted.
  [[nodiscard]] T *allocate(std::size_t count)
  {
    if constexpr (sizeof(T) > 1)
      if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
        detail::fail_array_length();
    void *block;
    if constexpr (alignof(T) > detail::block_alignment)
      block = pool_heap_aligned_alloc(heap_, alignof(T), count * sizeof(T));
    else
      block = pool_heap_alloc(heap_, count * sizeof(T));
    if (!block)
      detail::fail_bad_alloc();
    return static_cast<T *>(block);
  }

  void deallocate(T *block, std::size_t) noexcept { pool_heap_free(heap_, block); }

  // As many objects as a block can be long: PTRDIFF_MAX bytes.
  [[nodiscard]] static constexpr size_type max_size() noexcept
  {
    return static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / (sizeof(T) ? sizeof(T) : 1);
  }

  [[nodiscard]] heap_allocator select_on_container_copy_construction() const noexcept { return *this; }

  [[nodiscard]] heap_ref heap() const noexcept { return heap_ref(heap_); }

private:
  pool_heap_t *heap_;
};

template <typename T, typename U>
[[nodiscard]] bool operator==(const heap_allocator<T> &left, const heap_allocator<U> &right) noexcept
{
  return left.heap() == right.heap();
}

template <typename T, typename U>
[[nodiscard]] bool operator!=(const heap_allocator<T> &left, const heap_allocator<U> &right) noexcept
{
  return left.heap() != right.heap();
}

#ifdef __cpp_lib_memory_resource

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wweak-vtables" // there is no source file to have the table
#endif

// A memory resource for std::pmr containers. Two are equal if their heap is the same. allocate() throws std::bad_alloc when the
// heap is exhausted.
class POOL_API heap_resource final : public std::pmr::memory_resource {
public:
  heap_resource() noexcept = default;
  explicit heap_resource(heap_ref heap) noexcept : heap_(heap) {}

  [[nodiscard]] heap_ref heap() const noexcept { return heap_; }

private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override { return heap_.allocate(bytes, alignment); }
  void do_deallocate(void *block, std::size_t, std::size_t) override { heap_.deallocate(block); }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
  {
#ifdef __cpp_rtti
    const auto *that = dynamic_cast<const heap_resource *>(&other);
    return that && that->heap_ == heap_;
#else
    return this == &other;
#endif
  }

  heap_ref heap_;
};

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif

// The options of an object pool; object_pool.h describes each. The size and the alignment are those of the type, without
// padding between objects that an array would not have. The name is copied when the pool is made.
//     pool_options().name("sparks").capacity(1000).single_thread()
class pool_options {
public:
  pool_options() noexcept = default;

  [[nodiscard]] pool_options name(const char *name) const noexcept { return with(&object_pool_options_t::name, name); }
  [[nodiscard]] pool_options capacity(std::size_t n) const noexcept { return with(&object_pool_options_t::capacity, n); }
  [[nodiscard]] pool_options heap(heap_ref heap) const noexcept { return with(&object_pool_options_t::heap, heap.get()); }

  // When it is full the pool gets more memory, up to so many objects; 0 is no limit. Else it fails then, or overflows.
  [[nodiscard]] pool_options grow(std::size_t max_capacity = 0) const noexcept
  {
    return with(&object_pool_options_t::when_full, OBJECT_POOL_GROW).with(&object_pool_options_t::max_capacity, max_capacity);
  }

  [[nodiscard]] pool_options single_thread() const noexcept { return with_flag(OBJECT_POOL_SINGLE_THREAD); }
  [[nodiscard]] pool_options checked() const noexcept { return with_flag(OBJECT_POOL_CHECKED); }

  operator object_pool_options_t() const noexcept { return options_; } // a copy: no reference into what may end before it

private:
  template <typename Field>
  pool_options with(Field object_pool_options_t::*field, Field value) const noexcept
  {
    pool_options next = *this;
    next.options_.*field = value;
    return next;
  }

  pool_options with_flag(unsigned flag) const noexcept { return with(&object_pool_options_t::flags, options_.flags | flag); }

  object_pool_options_t options_ = {};
};

namespace detail {

template <typename T>
object_pool_options_t options_for(const pool_options &given, object_pool_t *overflow) noexcept
{
  object_pool_options_t options = given;
  options.object_size = sizeof(T) ? sizeof(T) : alignof(T);
  options.alignment = alignof(T);
  if (overflow) {
    // A pool that is to grow as well contradicts itself: it is given a policy that needs more, and the library says what is
    // wrong.
    options.when_full = options.when_full == OBJECT_POOL_FAIL ? OBJECT_POOL_OVERFLOW : OBJECT_POOL_EVICT;
    options.overflow = overflow;
  }
  return options;
}

// What there is of a pool whose policy lacks what it needs: null, with EINVAL and the library's text.
inline object_pool_t *lacking_pool(object_pool_policy_t policy) noexcept
{
  object_pool_options_t options = {};
  options.object_size = options.capacity = 1;
  options.when_full = policy;
  return object_pool_create(&options);
}

template <typename T>
T *object_at(void *place) noexcept
{
  return std::launder(static_cast<T *>(place));
}

// Puts a place back where no object has come to be.
class unused_place {
public:
  unused_place(object_pool_t *pool, void *place) noexcept : pool_(pool), place_(place) {}
  unused_place(const unused_place &) = delete;
  unused_place &operator=(const unused_place &) = delete;
  ~unused_place()
  {
    if (place_)
      object_pool_put(pool_, place_);
  }
  void is_used() noexcept { place_ = nullptr; }

private:
  object_pool_t *pool_;
  void *place_;
};

// T(arguments), or T{arguments} for a type that has no such constructor: an aggregate before C++20.
template <typename T, typename... Arguments>
T *construct_at(object_pool_t *pool, void *place, Arguments &&...arguments)
{
  unused_place until_made(pool, place);
  T *object;
  if constexpr (std::is_constructible_v<T, Arguments...>)
    object = ::new (place) T(std::forward<Arguments>(arguments)...);
  else
    object = ::new (place) T{std::forward<Arguments>(arguments)...};
  until_made.is_used();
  return object;
}

// All live objects of a pool are being destructed, one after the other, in this thread. Those that own others of the same pool
// put them meanwhile, in any order. Such a put does nothing: the walk comes to each object once.
struct draining {
  const object_pool_t *pool;
  const void *object;
  draining *outer;
};

// The innermost. It is visible beyond a shared library, so that all of a program see the same.
POOL_API inline draining *&innermost_draining() noexcept
{
  static thread_local draining *innermost = nullptr;
  return innermost;
}

inline bool is_draining(const object_pool_t *pool) noexcept
{
  const draining *at = innermost_draining();
  while (at && at->pool != pool)
    at = at->outer;
  return at != nullptr;
}

[[gnu::cold, gnu::noinline]] inline bool is_to_end_rare(object_pool_t *pool, const void *object, bool own) noexcept
{
  const draining *innermost = innermost_draining();
  for (const draining *at = innermost; at; at = at->outer)
    if (at->object == object || (own && at->pool == pool))
      return false;
  if (own || object_pool_handle(pool, object).index) // it may live where the pool overflows to
    return true;
  if (!innermost)
    object_pool_put(pool, const_cast<void *>(object)); // ends the program with its line
  return false;
}

// Whether the object is to be destructed and put: it is live, and no drain will come to it. A destructor must never run on what
// is no object, so this is asked first.
inline bool is_to_end(object_pool_t *pool, const void *object) noexcept
{
  const bool own = object_pool_in_use(pool, object);
  return (own && !innermost_draining()) || detail::is_to_end_rare(pool, object, own);
}

template <typename T>
void end_and_put(object_pool_t *pool, T *object) noexcept
{
  if constexpr (!std::is_trivially_destructible_v<T>) {
    if (!detail::is_to_end(pool, object))
      return;
    std::destroy_at(object);
  }
  object_pool_put(pool, object);
}

template <typename T>
void drain(object_pool_t *pool) noexcept
{
  draining own = {pool, nullptr, innermost_draining()};
  innermost_draining() = &own;
  for (void *at = nullptr; (at = object_pool_next(pool, at)) != nullptr;) {
    own.object = at;
    std::destroy_at(object_at<T>(at));
    object_pool_put(pool, at);
  }
  innermost_draining() = own.outer;
}

template <typename T>
void put_all(object_pool_t *pool) noexcept
{
  if constexpr (std::is_trivially_destructible_v<T>)
    object_pool_put_all(pool);
  else if (pool)
    detail::drain<T>(pool);
}

// A place for an object, null if there is none; none while the pool is drained.
template <typename T>
void *take_place(object_pool_t *pool) noexcept
{
  if constexpr (!std::is_trivially_destructible_v<T>)
    if (innermost_draining() && detail::is_draining(pool)) {
      errno = ENOMEM;
      return nullptr;
    }
  return object_pool_get(pool);
}

// An array of pointers to T is none of pointers to void: they go through a short one.
inline constexpr std::size_t batch_length = 64;

template <typename T>
void put_each(object_pool_t *pool, T *const *objects, std::size_t count) noexcept
{
  void *some[batch_length];
  while (count > 0) {
    const std::size_t length = count < batch_length ? count : batch_length;
    for (std::size_t i = 0; i < length; i++)
      some[i] = objects[i];
    object_pool_put_batch(pool, some, length);
    objects += length;
    count -= length;
  }
}

} // namespace detail

// A forward iterator over the live objects of a pool, by address. The object it is at may be put, and others made and put:
// those are met if their address is higher. Objects whose constructor or destructor is running are met, too.
template <typename T>
class pool_iterator {
public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = std::remove_cv_t<T>;
  using difference_type = std::ptrdiff_t;
  using pointer = T *;
  using reference = T &;

  pool_iterator() noexcept = default;
  pool_iterator(const object_pool_t *pool, void *at) noexcept : pool_(pool), at_(at) {}
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  pool_iterator(const pool_iterator<U> &other) noexcept : pool_(other.pool_), at_(other.at_)
  {}

  [[nodiscard]] reference operator*() const noexcept { return *operator->(); }
  [[nodiscard]] pointer operator->() const noexcept { return detail::object_at<T>(at_); }
  pool_iterator &operator++() noexcept
  {
    at_ = object_pool_next(pool_, at_);
    return *this;
  }
  pool_iterator operator++(int) noexcept
  {
    const pool_iterator before = *this;
    ++*this;
    return before;
  }

  friend bool operator==(const pool_iterator &left, const pool_iterator &right) noexcept { return left.at_ == right.at_; }
  friend bool operator!=(const pool_iterator &left, const pool_iterator &right) noexcept { return left.at_ != right.at_; }

private:
  template <typename>
  friend class pool_iterator;

  const object_pool_t *pool_ = nullptr;
  void *at_ = nullptr;
};

// A name for one use of an object. get() returns the object, or null once that use has ended, even if the object is in use
// again. It takes a lock, as object_pool_resolve() does. Handles repeat after 2^32 uses of one object. The pool has to be
// alive.
template <typename T>
class handle {
public:
  handle() noexcept = default; // the name of nothing
  handle(const object_pool_t *pool, object_pool_handle_t raw) noexcept : pool_(pool), raw_(raw) {}
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  handle(const handle<U> &other) noexcept : pool_(other.pool()), raw_(other.raw())
  {}

  [[nodiscard]] T *get() const noexcept
  {
    void *place = raw_.index ? object_pool_resolve(pool_, raw_) : nullptr;
    return place ? detail::object_at<T>(place) : nullptr;
  }
  explicit operator bool() const noexcept { return get() != nullptr; }

  [[nodiscard]] std::uint32_t index() const noexcept { return raw_.index; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return raw_.generation; }
  [[nodiscard]] object_pool_handle_t raw() const noexcept { return raw_; }
  [[nodiscard]] const object_pool_t *pool() const noexcept { return pool_; }

  friend bool operator==(const handle &left, const handle &right) noexcept
  {
    return left.pool_ == right.pool_ && left.raw_.index == right.raw_.index && left.raw_.generation == right.raw_.generation;
  }
  friend bool operator!=(const handle &left, const handle &right) noexcept { return !(left == right); }

private:
  const object_pool_t *pool_ = nullptr;
  object_pool_handle_t raw_ = {0, 0};
};

namespace detail {

// What all pools have: the figures, the questions, the walk, the end. `drains`: live objects are destructed at the end here,
// and not by a hook.
template <typename T, bool drains>
class pool_base {
  static_assert(std::is_object_v<T> && !std::is_array_v<T>, "an object pool is of objects, and not of arrays");
  static_assert(std::is_same_v<T, std::remove_cv_t<T>>, "an object pool is of a type that is not const");

public:
  using value_type = T;
  using iterator = pool_iterator<T>;
  using const_iterator = pool_iterator<const T>;

  pool_base(const pool_base &) = delete;
  pool_base &operator=(const pool_base &) = delete;

  // The C pool: for what this class does not have.
  [[nodiscard]] object_pool_t *raw() const noexcept { return pool_; }
  explicit operator bool() const noexcept { return pool_ != nullptr; }

  // How many objects there are, and how many are live, without those that an overflow pool served.
  [[nodiscard]] std::size_t capacity() const noexcept { return object_pool_capacity(pool_); }
  [[nodiscard]] std::size_t live() const noexcept { return object_pool_live(pool_); }

  // Gives back memory that a growing pool added and that holds no live object, as long as `capacity` objects are left, and
  // returns the new capacity.
  std::size_t shrink(std::size_t capacity) noexcept { return object_pool_shrink(pool_, capacity); }

  // Whether this is the address of a live object of this pool, not of one it overflows to. It takes any address.
  [[nodiscard]] bool is_live(const T *object) const noexcept { return object_pool_in_use(pool_, object); }

  // The handle of a live object, also of one that the overflow pool served; the name of nothing for anything else.
  [[nodiscard]] handle<T> handle_of(T *object) noexcept { return {pool_, object_pool_handle(pool_, object)}; }
  [[nodiscard]] handle<const T> handle_of(const T *object) const noexcept { return {pool_, object_pool_handle(pool_, object)}; }

  // The live objects, by address. In a pool of several threads the others must not make or put any meanwhile.
  [[nodiscard]] iterator begin() noexcept { return {pool_, object_pool_next(pool_, nullptr)}; }
  [[nodiscard]] iterator end() noexcept { return {}; }
  [[nodiscard]] const_iterator begin() const noexcept { return {pool_, object_pool_next(pool_, nullptr)}; }
  [[nodiscard]] const_iterator end() const noexcept { return {}; }

protected:
  explicit pool_base(object_pool_t *pool) noexcept : pool_(pool) {}
  pool_base(pool_base &&other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
  pool_base &operator=(pool_base &&other) noexcept
  {
    pool_base taken(std::move(other));
    std::swap(pool_, taken.pool_);
    return *this;
  }
  ~pool_base() { finish(); }

  void finish() noexcept
  {
    static_assert(std::is_nothrow_destructible_v<T>, "an object pool needs a destructor to call, which does not throw");
    object_pool_t *pool = std::exchange(pool_, nullptr);
    if constexpr (drains && !std::is_trivially_destructible_v<T>)
      if (pool)
        detail::drain<T>(pool);
    object_pool_destroy(pool);
  }

  object_pool_t *pool_;
};

} // namespace detail

// Destructs an object and puts it back. The pool has to be alive.
template <typename T>
class object_deleter {
public:
  object_deleter() noexcept = default;
  explicit object_deleter(object_pool_t *pool) noexcept : pool_(pool) {}
  void operator()(T *object) const noexcept { detail::end_and_put(pool_, object); }

private:
  object_pool_t *pool_ = nullptr;
};

// A pool whose objects are constructed when they are made and destructed when they are put.
//
// At the pool's end live objects are destructed, by address. Objects that own others of the pool may put these meanwhile, and
// may be parts of a ring: each is destructed once. Nothing can be made in the pool then.
//
// Cost: make() and put() add the constructor, the destructor and a test for null to object_pool_get() and object_pool_put(). If
// the destructor is not trivial, put() first asks object_pool_in_use(), some eighty instructions: so a pointer that was put
// before ends the program with its line, and not by a second destructor.
template <typename T>
class object_pool : public detail::pool_base<T, true> {
  using base = detail::pool_base<T, true>;

public:
  using deleter = object_deleter<T>;
  using pointer = std::unique_ptr<T, deleter>;

  // std::invalid_argument: the capacity is 0 and the pool does not grow, or the like; std::bad_alloc: the heap has not the
  // memory.
  explicit object_pool(const pool_options &options) : object_pool(std::nothrow, options) { must_be_made(); }

  // When this pool is full `overflow` serves, which has to outlive it. Pointers do not mind which of both an object is of.
  object_pool(const pool_options &options, object_pool &overflow) : object_pool(std::nothrow, options, overflow)
  {
    must_be_made();
  }

  // Empty on failure, with EINVAL or ENOMEM.
  object_pool(const std::nothrow_t &, const pool_options &options) noexcept : base(create(options, nullptr)) {}
  object_pool(const std::nothrow_t &, const pool_options &options, object_pool &overflow) noexcept
      : base(overflow ? create(options, overflow.pool_) : detail::lacking_pool(OBJECT_POOL_OVERFLOW))
  {}

  // Gives up the pool without ending it.
  [[nodiscard]] object_pool_t *release() noexcept { return std::exchange(this->pool_, nullptr); }

  // A new object. std::bad_alloc: the pool is full, and does not grow or overflow. If the constructor throws, the object is
  // free again, and the exception comes out.
  template <typename... Arguments>
  [[nodiscard]] pointer make(Arguments &&...arguments)
  {
    pointer made = try_make(std::forward<Arguments>(arguments)...);
    if (!made)
      detail::fail_bad_alloc();
    return made;
  }

  // The same; null if the pool is full.
  template <typename... Arguments>
  [[nodiscard]] pointer try_make(Arguments &&...arguments) noexcept(std::is_nothrow_constructible_v<T, Arguments...>)
  {
    void *place = detail::take_place<T>(this->pool_);
    if (!place)
      return pointer(nullptr, deleter(this->pool_));
    return pointer(detail::construct_at<T>(this->pool_, place, std::forward<Arguments>(arguments)...), deleter(this->pool_));
  }

  // Stores up to `count` new objects, each made of the same arguments, and returns how many: fewer if the pool is full. They
  // are the caller's, until put() or put_batch(). If a constructor throws, all that this call made are put back, and the
  // exception comes out. It is faster than one by one: the lock is taken once for 64.
  template <typename... Arguments>
  [[nodiscard]] std::size_t make_batch(T **objects, std::size_t count, const Arguments &...arguments)
  {
    batch made(this->pool_, objects);
    while (made.count < count) {
      const std::size_t asked = count - made.count < detail::batch_length ? count - made.count : detail::batch_length;
      const std::size_t got = take_places(made.places, asked);
      for (made.next = 0, made.got = got; made.next < got;) {
        void *place = made.places[made.next++]; // from here on construct_at puts it back
        objects[made.count] = detail::construct_at<T>(this->pool_, place, arguments...);
        made.count++;
      }
      if (got < asked)
        break;
    }
    return made.keep();
  }

  // Destructs a live object and takes it back, whose unique_ptr was released. Anything else ends the program.
  void put(T *object) noexcept { detail::end_and_put(this->pool_, object); }

  // Destructs and takes back `count` objects.
  void put_batch(T *const *objects, std::size_t count) noexcept
  {
    if constexpr (std::is_trivially_destructible_v<T>)
      detail::put_each(this->pool_, objects, count);
    else
      for (std::size_t i = 0; i < count; i++)
        detail::end_and_put(this->pool_, objects[i]);
  }

  // Destructs and takes back all live objects of this pool, without those that the overflow pool served. No unique_ptr and no
  // other thread may have any of them still. Objects may put others meanwhile, and make none. It takes O(capacity / 64) if the
  // destructor is trivial.
  void put_all() noexcept { detail::put_all<T>(this->pool_); }

private:
  // What a make_batch() has so far; its end puts all of it back.
  struct batch {
    batch(object_pool_t *in, T **made) noexcept : pool(in), objects(made) {}
    batch(const batch &) = delete;
    batch &operator=(const batch &) = delete;
    ~batch()
    {
      while (next < got)
        object_pool_put(pool, places[next++]);
      while (count > 0)
        detail::end_and_put(pool, objects[--count]);
    }
    std::size_t keep() noexcept { return std::exchange(count, 0); }

    object_pool_t *pool;
    T **objects;
    std::size_t count = 0, next = 0, got = 0;
    void *places[detail::batch_length];
  };

  std::size_t take_places(void **places, std::size_t count) noexcept
  {
    if constexpr (!std::is_trivially_destructible_v<T>)
      if (detail::innermost_draining() && detail::is_draining(this->pool_))
        return 0;
    return object_pool_get_batch(this->pool_, places, count);
  }

  static object_pool_t *create(const pool_options &given, object_pool_t *overflow) noexcept
  {
    const object_pool_options_t options = detail::options_for<T>(given, overflow);
    return object_pool_create(&options);
  }

  void must_be_made() const
  {
    if (!*this)
      detail::fail_creation("tidepool::object_pool");
  }
};

// A pool that, when it is full, ends a live object of its user's to make room for the next: the quietest sound, the oldest
// trail.
//
// A pointer to an object that may be evicted would become one to another object, so make() returns a handle. A handle's get()
// is null once its object was evicted. A pointer of get() is good until the next make(). All of it is for one thread alone,
// since no other could be using an object safely while this one ends it.
//
// The chooser is called as choose(pool), and returns a live object of the pool or null. What it throws comes out of make(), and
// nothing has changed. The victim is destructed before the new object is constructed. If that throws, both are gone. A
// constructor or destructor of an object may make others, but evicts none: it fails if the pool is full.
template <typename T>
class evicting_pool : public detail::pool_base<T, true> {
  using base = detail::pool_base<T, true>;

public:
  using chooser = std::function<T *(evicting_pool &)>;

  // std::invalid_argument: there is no chooser, or as object_pool; std::bad_alloc: the heap has not the memory. A pool that may
  // grow does so first. The pool is single_thread().
  evicting_pool(const pool_options &options, chooser choose) : evicting_pool(std::nothrow, options, std::move(choose))
  {
    if (!*this)
      detail::fail_creation("tidepool::evicting_pool");
  }

  // Empty on failure, with EINVAL or ENOMEM.
  evicting_pool(const std::nothrow_t &, const pool_options &options, chooser choose) noexcept
      : base(create(options, choose)), choose_(std::move(choose))
  {}

  evicting_pool(evicting_pool &&) noexcept = default;
  evicting_pool &operator=(evicting_pool &&other) noexcept
  {
    evicting_pool taken(std::move(other));
    std::swap(this->pool_, taken.pool_);
    choose_.swap(taken.choose_);
    return *this;
  }
  ~evicting_pool() { this->finish(); } // while the chooser is there

  // A new object. std::bad_alloc: the pool is full, and the chooser named no victim. No argument may refer to what is in an
  // object that may be the victim: it ends first.
  template <typename... Arguments>
  handle<T> make(Arguments &&...arguments)
  {
    const handle<T> made = try_make(std::forward<Arguments>(arguments)...);
    if (!made.index())
      detail::fail_bad_alloc();
    return made;
  }

  // The same; the name of nothing if there is no room.
  template <typename... Arguments>
  [[nodiscard]] handle<T> try_make(Arguments &&...arguments)
  {
    void *place = take();
    if (!place)
      return {};
    const in_work now(*this, place);
    return this->handle_of(detail::construct_at<T>(this->pool_, place, std::forward<Arguments>(arguments)...));
  }

  // Destructs the object and takes it back. It returns false, and does nothing, if that use has ended, or is just ending.
  bool put(const handle<T> &name) noexcept
  {
    T *object = name.pool() == this->pool_ ? name.get() : nullptr;
    return object && end_one(object);
  }

  // Destructs and takes back all objects.
  void put_all() noexcept { detail::put_all<T>(this->pool_); }

private:
  // The objects whose constructor or destructor is running.
  class in_work {
  public:
    in_work(evicting_pool &pool, const void *object) noexcept : pool_(pool), object_(object), outer_(pool.in_work_)
    {
      pool.in_work_ = this;
    }
    in_work(const in_work &) = delete;
    in_work &operator=(const in_work &) = delete;
    ~in_work() { pool_.in_work_ = outer_; }
    const void *object() const noexcept { return object_; }
    const in_work *outer() const noexcept { return outer_; }

  private:
    evicting_pool &pool_;
    const void *object_;
    const in_work *outer_;
  };

  static object_pool_t *create(const pool_options &given, const chooser &choose) noexcept
  {
    if (!choose)
      return detail::lacking_pool(OBJECT_POOL_EVICT);
    const object_pool_options_t options = detail::options_for<T>(given.single_thread(), nullptr);
    return object_pool_create(&options);
  }

  bool end_one(T *object) noexcept
  {
    for (const in_work *at = in_work_; at; at = at->outer())
      if (at->object() == object)
        return false;
    const in_work now(*this, object);
    if (!detail::is_to_end(this->pool_, object))
      return false;
    std::destroy_at(object);
    object_pool_put(this->pool_, object);
    return true;
  }

  void *take()
  {
    void *place = detail::take_place<T>(this->pool_);
    if (place || !this->pool_ || in_work_ || detail::is_draining(this->pool_))
      return place;
    T *victim = choose_(*this);
    return victim && end_one(victim) ? detail::take_place<T>(this->pool_) : nullptr;
  }

  chooser choose_;
  const in_work *in_work_ = nullptr;
};

// Puts an object back, which stays constructed. The pool has to be alive.
template <typename T>
class reuse_deleter {
public:
  reuse_deleter() noexcept = default;
  explicit reuse_deleter(object_pool_t *pool) noexcept : pool_(pool) {}
  void operator()(T *object) const noexcept { object_pool_put(pool_, object); }

private:
  object_pool_t *pool_ = nullptr;
};

namespace detail {

// What a get() is waiting for in this thread may throw in a hook.
POOL_API inline carrier *&innermost_carrier() noexcept
{
  static thread_local carrier *innermost = nullptr;
  return innermost;
}

class carrying {
public:
  carrying() noexcept : outer_(innermost_carrier()) { innermost_carrier() = &own_; }
  carrying(const carrying &) = delete;
  carrying &operator=(const carrying &) = delete;
  ~carrying() { innermost_carrier() = outer_; }
  void rethrow() const { own_.rethrow(); }

private:
  carrier own_;
  carrier *outer_;
};

// As new T, without parentheses.
struct default_initialized {};
struct no_reset {};

struct reuse_hooks_base {
  void (*dispose)(reuse_hooks_base *hooks) noexcept;
  pool_heap_t *heap;
};

// What a reuse_pool calls. It lies in the heap of the pool, since pools move.
template <typename T, typename Make, typename Reset>
struct reuse_hooks : reuse_hooks_base {
  reuse_hooks(pool_heap_t *in, Make &&making, Reset &&resetting)
      : reuse_hooks_base{end, in}, make(std::move(making)), reset(std::move(resetting))
  {}

  static void end(reuse_hooks_base *base) noexcept
  {
    pool_heap_t *heap = base->heap;
    std::destroy_at(static_cast<reuse_hooks *>(base));
    pool_heap_free(heap, base);
  }

  static bool construct(void *place, void *context) noexcept
  {
    carrier lost;
    carrier *to = innermost_carrier() ? innermost_carrier() : &lost;
    return to->run([&] {
      if constexpr (std::is_same_v<Make, default_initialized>)
        ::new (place) T;
      else
        ::new (place) T(std::invoke(static_cast<reuse_hooks *>(context)->make));
    });
  }

  static void reset_one(void *place, void *context) noexcept
  {
    if constexpr (!std::is_same_v<Reset, no_reset>)
      std::invoke(static_cast<reuse_hooks *>(context)->reset, *object_at<T>(place));
  }

  static void destruct(void *place, void *) noexcept { std::destroy_at(object_at<T>(place)); }

  Make make;
  Reset reset;
};

struct reuse_hooks_deleter {
  void operator()(reuse_hooks_base *hooks) const noexcept { hooks->dispose(hooks); }
};

} // namespace detail

// A pool whose objects stay constructed between uses: what is dear to make is made once, before the first use, and destructed
// when the pool ends or shrinks.
//
// `make` is called as make() and returns what an object is constructed of; without it the object is made as by `new T`. `reset`
// is called as reset(T &) between uses, at one of two times: lazily, just before the next use, or as soon as the object is put.
// Both are called with no lock held, and by several threads at once if these share the pool.
//
// A checked() pool destructs each object that is put, and makes it anew.
//
// Cost: without make and reset, and with a type that needs neither constructor nor destructor, get() and put are those of C.
// Hooks take some three hundred instructions for both.
template <typename T>
class reuse_pool : public detail::pool_base<T, false> {
  using base = detail::pool_base<T, false>;
  template <typename Reset>
  using if_reset = std::enable_if_t<std::is_invocable_v<Reset &, T &>>;
  template <typename Make>
  using if_make = std::enable_if_t<std::is_same_v<T, std::invoke_result_t<Make &>> ||
                                   std::is_constructible_v<T, std::invoke_result_t<Make &>>>;

public:
  using deleter = reuse_deleter<T>;
  using pointer = std::unique_ptr<T, deleter>;

  // Empty on failure, with EINVAL or ENOMEM. When the pool is full `overflow` serves, which has to outlive it.
  reuse_pool(const std::nothrow_t &, const pool_options &options) : base(nullptr)
  {
    create(options, nullptr, detail::default_initialized(), detail::no_reset());
  }
  template <typename Reset, typename = if_reset<Reset>>
  reuse_pool(const std::nothrow_t &, const pool_options &options, Reset reset,
             object_pool_reset_time_t time = OBJECT_POOL_RESET_ON_GET)
      : base(nullptr)
  {
    create(options, nullptr, detail::default_initialized(), std::move(reset), time);
  }
  template <typename Make, typename Reset, typename = if_make<Make>, typename = if_reset<Reset>>
  reuse_pool(const std::nothrow_t &, const pool_options &options, Make make, Reset reset,
             object_pool_reset_time_t time = OBJECT_POOL_RESET_ON_GET)
      : base(nullptr)
  {
    create(options, nullptr, std::move(make), std::move(reset), time);
  }
  reuse_pool(const std::nothrow_t &, const pool_options &options, reuse_pool &overflow) : base(nullptr)
  {
    create_before(overflow, options, detail::default_initialized(), detail::no_reset());
  }
  template <typename Reset, typename = if_reset<Reset>>
  reuse_pool(const std::nothrow_t &, const pool_options &options, reuse_pool &overflow, Reset reset,
             object_pool_reset_time_t time = OBJECT_POOL_RESET_ON_GET)
      : base(nullptr)
  {
    create_before(overflow, options, detail::default_initialized(), std::move(reset), time);
  }
  template <typename Make, typename Reset, typename = if_make<Make>, typename = if_reset<Reset>>
  reuse_pool(const std::nothrow_t &, const pool_options &options, reuse_pool &overflow, Make make, Reset reset,
             object_pool_reset_time_t time = OBJECT_POOL_RESET_ON_GET)
      : base(nullptr)
  {
    create_before(overflow, options, std::move(make), std::move(reset), time);
  }

  // The same arguments without std::nothrow: std::invalid_argument, std::bad_alloc, and what copying make and reset throws.
  template <typename... More>
  explicit reuse_pool(const pool_options &options, More &&...more)
      : reuse_pool(std::nothrow, options, std::forward<More>(more)...)
  {
    if (!*this)
      detail::fail_creation("tidepool::reuse_pool");
  }

  reuse_pool(reuse_pool &&) noexcept = default;
  reuse_pool &operator=(reuse_pool &&other) noexcept
  {
    reuse_pool taken(std::move(other));
    std::swap(this->pool_, taken.pool_);
    std::swap(hooks_, taken.hooks_);
    std::swap(may_throw_, taken.may_throw_);
    return *this;
  }
  ~reuse_pool() { this->finish(); } // while the hooks are there

  // Gives up the pool without ending it. What make and reset hold stays in the pool's heap.
  [[nodiscard]] object_pool_t *release() noexcept
  {
    static_cast<void>(hooks_.release());
    return std::exchange(this->pool_, nullptr);
  }

  // An object. std::bad_alloc: the pool is full, and does not grow or overflow. What the making of the object throws comes out,
  // and the object is free again.
  [[nodiscard]] pointer get()
  {
    pointer got = try_get();
    if (!got)
      detail::fail_bad_alloc();
    return got;
  }

  // The same; null if the pool is full.
  [[nodiscard]] pointer try_get() { return own(may_throw_ ? get_carrying() : object_pool_get(this->pool_)); }

  // Stores up to `count` objects, and returns how many: fewer if the pool is full. They are the caller's until put() or
  // put_batch(). If the making of one throws, all are put back, and the exception comes out.
  [[nodiscard]] std::size_t get_batch(T **objects, std::size_t count)
  {
    if (!may_throw_)
      return get_some(objects, count);
    const detail::carrying exception;
    const std::size_t got = get_some(objects, count);
    if (got < count) {
      unless_kept back = {*this, objects, got};
      exception.rethrow();
      back.count = 0;
    }
    return got;
  }

  // Takes a live object back. Anything else ends the program.
  void put(T *object) noexcept { object_pool_put(this->pool_, object); }
  void put_batch(T *const *objects, std::size_t count) noexcept { detail::put_each(this->pool_, objects, count); }

  // Takes back all live objects of this pool. No unique_ptr may have any of them still.
  void put_all() noexcept { object_pool_put_all(this->pool_); }

private:
  struct unless_kept {
    reuse_pool &pool;
    T **objects;
    std::size_t count;
    ~unless_kept() { pool.put_batch(objects, count); }
  };

  // Out of line, so that nothing is saved for it where nothing can throw.
  [[gnu::noinline]] void *get_carrying()
  {
    const detail::carrying exception;
    void *place = object_pool_get(this->pool_);
    if (!place)
      exception.rethrow();
    return place;
  }

  pointer own(void *place) const noexcept
  {
    return pointer(place ? detail::object_at<T>(place) : nullptr, deleter(this->pool_));
  }

  std::size_t get_some(T **objects, std::size_t count) noexcept
  {
    void *some[detail::batch_length];
    std::size_t all = 0;
    while (all < count) {
      const std::size_t asked = count - all < detail::batch_length ? count - all : detail::batch_length;
      const std::size_t got = object_pool_get_batch(this->pool_, some, asked);
      for (std::size_t i = 0; i < got; i++)
        objects[all + i] = detail::object_at<T>(some[i]);
      all += got;
      if (got < asked)
        break;
    }
    return all;
  }

  template <typename Make, typename Reset>
  void create_before(reuse_pool &overflow, const pool_options &given, Make &&make, Reset &&reset,
                     object_pool_reset_time_t time = OBJECT_POOL_RESET_ON_GET)
  {
    if (overflow)
      create(given, overflow.pool_, std::move(make), std::move(reset), time);
    else
      this->pool_ = detail::lacking_pool(OBJECT_POOL_OVERFLOW);
  }

  template <typename Make, typename Reset>
  void create(const pool_options &given, object_pool_t *overflow, Make &&make, Reset &&reset,
              object_pool_reset_time_t time = OBJECT_POOL_RESET_ON_GET)
  {
    using hooks = detail::reuse_hooks<T, Make, Reset>;
    constexpr bool makes = !std::is_same_v<Make, detail::default_initialized>;
    constexpr bool resets = !std::is_same_v<Reset, detail::no_reset>;
    object_pool_options_t options = detail::options_for<T>(given, overflow);
    if constexpr (makes || resets) {
      pool_heap_t *heap = options.heap ? options.heap : pool_heap_default();
      void *place = heap_ref(heap).try_allocate(sizeof(hooks), alignof(hooks));
      if (!place)
        return;
      std::unique_ptr<void, free_in> until_made(place, free_in{heap});
      hooks *made = ::new (place) hooks(heap, std::move(make), std::move(reset));
      static_cast<void>(until_made.release());
      hooks_.reset(made);
      options.context = made;
    }
    if (makes || !std::is_trivially_default_constructible_v<T>)
      options.construct = hooks::construct;
    if (resets)
      options.reset = hooks::reset_one;
    if (!std::is_trivially_destructible_v<T>)
      options.destruct = hooks::destruct;
    options.reset_time = time;
    may_throw_ = makes || !std::is_nothrow_default_constructible_v<T>;
    this->pool_ = object_pool_create(&options);
    if (!this->pool_) {
      const int error = errno;
      hooks_.reset();
      errno = error;
    }
  }

  struct free_in {
    pool_heap_t *heap;
    void operator()(void *block) const noexcept { pool_heap_free(heap, block); }
  };

  std::unique_ptr<detail::reuse_hooks_base, detail::reuse_hooks_deleter> hooks_;
  bool may_throw_ = false;
};

} // namespace tidepool

#endif
