// SPDX-License-Identifier: MIT
//
// tidepool/tidepool.hpp: heaps and object pools for C++17 and later. It needs libtidepool and no other library.
//
//     tidepool::heap heap(tidepool::heap_options().name("cache").budget(64 << 20));
//     std::vector<int, tidepool::heap_allocator<int>> numbers(heap);
//
//     tidepool::object_pool<spark> sparks(tidepool::pool_options().capacity(1000));
//     auto spark = sparks.make();     a unique_ptr, which puts the object back
//
//   heap, heap_ref       a heap that ends with its scope, and a reference to any heap
//   heap_allocator<T>    for containers
//   heap_resource        for std::pmr containers
//   object_pool<T>       make() constructs an object; its unique_ptr destructs it and puts it back
//   reuse_pool<T>        objects stay constructed between uses, and are reset
//   evicting_pool<T>     makes room by ending a live object; only handles point to objects
//   handle<T>            identifies one use of an object: get() is null once that use has ended
//
// All sizes are in bytes, all capacities in objects. heap.h and object_pool.h describe budgets, flags and misuse; their
// promises hold here, too.
//
// Lifetime: declare a heap before the containers, resources and object pools in it, and a pool before the pointers to its
// objects. A pointer that ends after its pool ends the program, where that is detected. So does a pool that ends after its
// heap, or after heap::reset(). No object may end its own pool. Handles own nothing; they may be asked as long as the pool
// lives.
//
// Threads: all threads may use one heap or pool at once, unless it is single_thread(). Move, swap and destroy these objects
// only when no other thread uses them.
//
// Exceptions: a request that cannot be served throws std::bad_alloc. Options that contradict each other throw
// std::invalid_argument with the text of pool_error(). An array that is too long throws std::bad_array_new_length. Each such
// call has a form that sets errno instead: try_..., or std::nothrow for creation. No exception passes through the C library;
// the comments of callbacks say what happens to theirs. A destructor or reset that throws calls std::terminate().
//
// Compilers: with -fno-exceptions, calls that would throw call std::abort(). With -fno-rtti two heap_resources are equal only
// if they are the same object. Without <memory_resource> (libc++ before 16) there is no heap_resource. Compile all sources that
// share these objects with the same of these settings.
//
// Names: a C struct is called object_pool, too. Write tidepool::object_pool: with `using namespace tidepool` the name is
// ambiguous.
//
// A moved-from object is empty: get() and raw() are null, and calls do what the C library does with NULL.
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

// Out of line, so that callers stay small.
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

// For a failed creation of `what`, which has set errno.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_creation([[maybe_unused]] const char *what)
{
#ifdef __cpp_exceptions
  if (errno == EINVAL)
    throw std::invalid_argument(std::string(what) + ": " + pool_error());
#endif
  fail_bad_alloc();
}

// Carries an exception of a callback past the C function that called it.
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

// The calls of both heap and heap_ref. Self has get().
template <typename Self>
class heap_calls {
public:
  // Returns a block of at least `bytes` bytes with undefined contents. Its address is a multiple of the alignment, a power of
  // two. Throws std::bad_alloc if the heap is exhausted, after on_exhausted and the overflow heap.
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = block_alignment) const
  {
    void *block = try_allocate(bytes, alignment);
    if (!block)
      fail_bad_alloc();
    return block;
  }

  // Does what allocate() does, but returns null with ENOMEM, or with EINVAL if the alignment is not a power of two.
  [[nodiscard]] void *try_allocate(std::size_t bytes, std::size_t alignment = block_alignment) const noexcept
  {
    const bool usual = alignment <= block_alignment && alignment != 0 && (alignment & (alignment - 1)) == 0;
    return usual ? pool_heap_alloc(raw(), bytes) : pool_heap_aligned_alloc(raw(), alignment, bytes);
  }

  // Frees a block of this heap or of its overflow heap, from any thread. Null is allowed.
  void deallocate(void *block) const noexcept { pool_heap_free(raw(), block); }

  // Returns the size of the block that serves a request for `bytes` bytes.
  [[nodiscard]] std::size_t good_size(std::size_t bytes) const noexcept { return pool_heap_good_size(raw(), bytes); }

  // The budget in bytes; 0 is no limit. set_budget() returns false, with the budget unchanged, if the heap holds more even
  // after a trim.
  [[nodiscard]] std::size_t budget() const noexcept { return stats().budget; }
  [[nodiscard]] bool set_budget(std::size_t bytes) const noexcept { return pool_heap_set_budget(raw(), bytes); }

  // Returns the figures that stats.h describes; all are 0 for an empty heap. It takes locks for microseconds.
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

  // Writes to a file how many blocks are live, and where they were allocated. False: errno says why it could not be written.
  // Only the debug library: EINVAL in libtidepool.
  bool report(int fd) const noexcept { return pool_heap_report(raw(), fd); }

  // Returns idle memory to the system, all but `keep` bytes, and returns how many bytes went back.
  std::size_t trim(std::size_t keep = 0) const noexcept { return pool_heap_trim(raw(), keep); }

  // The name is valid as long as the heap. Null for an empty heap.
  [[nodiscard]] const char *name() const noexcept { return pool_heap_name(raw()); }

  // owns(): whether the address is in memory of this heap. is_live(): whether it is inside a live block of the heap.
  // block_of(): that block, or {null, 0}. They accept any address, and may take microseconds.
  [[nodiscard]] bool owns(const void *address) const noexcept { return raw() && pool_heap_of(address) == raw(); }
  [[nodiscard]] bool is_live(const void *address) const noexcept { return owns(address) && pool_in_use(address); }
  [[nodiscard]] pool_block_t block_of(const void *address) const noexcept
  {
    pool_block_t block = {nullptr, 0, nullptr};
    if (owns(address))
      block.start = pool_block_start(address, &block.size);
    return block;
  }

  // Calls visit(const pool_block_t &) for each live block. A visitor that returns false stops the walk, and walk() returns
  // false. The visitor may deallocate the block that it is given, and may allocate. No other thread may use the heap meanwhile.
  // An exception of the visitor stops the walk and leaves walk().
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

// A reference to a heap, which must outlive it. It costs as much as a pointer, and like a pointer's its calls are const.
// Without arguments it refers to the default heap, which always exists and has no budget.
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

// The options of a heap; heap.h describes each. Each call returns a copy with one more option:
//     heap_options().name("requests").budget(4 << 20)
// Names, size classes, memory and the callable of on_exhausted are not copied. Names and size classes must last until the heap
// is created, memory and the callable as long as the heap. A pool_heap_options_t may be used instead, in C++20 with designated
// initializers.
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

  // The heap calls callable(heap_ref, bytes_needed, attempt), which returns whether to try again. An exception counts as false.
  // The callable is not copied. It must not lock a mutex that the allocating code may hold: see pool_exhausted_fn in heap.h.
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
  // Only the debug library has these three: EINVAL in libtidepool.
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

// A heap that ends with this object. All its blocks end, too: nothing may use them any more. It may be moved while containers
// and pools are in the heap. Creating one takes microseconds.
class heap : public detail::heap_calls<heap> {
public:
  // Throws std::invalid_argument if the options contradict each other, or the budget or buffer is too small, and std::bad_alloc
  // if there is no memory.
  heap() : heap(pool_heap_options_t{}) {}
  explicit heap(const pool_heap_options_t &options) : heap(std::nothrow, options)
  {
    if (!heap_)
      detail::fail_creation("tidepool::heap");
  }

  // Empty on failure, with EINVAL or ENOMEM.
  heap(const std::nothrow_t &, const pool_heap_options_t &options) noexcept : heap_(pool_heap_create(&options)) {}

  // Owns a heap of pool_heap_create() from now on. Null is an empty heap.
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

  // Frees every block, and ends every object pool in the heap without destructing objects. The heap keeps its slabs for reuse.
  // Containers and pools in the heap must be destroyed or released before.
  void reset() noexcept { pool_heap_reset(heap_); }

private:
  pool_heap_t *heap_;
};

inline heap_ref::heap_ref(const heap &owner) noexcept : heap_(owner.get()) {}

// An allocator for containers, whose memory comes from a heap. Copies, also of other types, share the heap. Two are equal if
// their heap is the same. Without arguments it uses the default heap.
//
// A copy of a container uses the heap of its source. A container that is assigned to keeps its own heap. Moved and swapped
// containers take their heap along, so no element is copied.
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

  // Returns memory for `count` objects, with their alignment. Throws std::bad_array_new_length if their bytes exceed a size_t,
  // and std::bad_alloc if the heap is exhausted.
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

  // The most objects that a block can hold: a block has at most PTRDIFF_MAX bytes.
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

// A memory resource for std::pmr containers. Two are equal if their heap is the same. allocate() throws std::bad_alloc if the
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

// The options of an object pool; object_pool.h describes each. The size and the alignment are those of the type, and objects
// have no more padding than in an array. The name is copied when the pool is created.
//     pool_options().name("sparks").capacity(1000).single_thread()
class pool_options {
public:
  pool_options() noexcept = default;

  [[nodiscard]] pool_options name(const char *name) const noexcept { return with(&object_pool_options_t::name, name); }
  [[nodiscard]] pool_options capacity(std::size_t n) const noexcept { return with(&object_pool_options_t::capacity, n); }
  [[nodiscard]] pool_options heap(heap_ref heap) const noexcept { return with(&object_pool_options_t::heap, heap.get()); }

  // A full pool allocates more memory, up to max_capacity objects; 0 is no limit. Otherwise it fails, or overflows.
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
    // Growth and overflow exclude each other: such a pool gets a policy that lacks its callback, so that the library reports
    // the error.
    options.when_full = options.when_full == OBJECT_POOL_FAIL ? OBJECT_POOL_OVERFLOW : OBJECT_POOL_EVICT;
    options.overflow = overflow;
  }
  return options;
}

// Fails with the library's EINVAL and text for a policy that lacks its callback or pool. Returns null.
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

// Puts a place back unless an object was constructed there.
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

// Constructs T(arguments), or T{arguments} for a type without such a constructor: an aggregate before C++20.
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

// While this exists, its thread destructs all live objects of a pool. Objects that own others of the pool put them meanwhile,
// in any order. Such a put does nothing, because the walk destructs each object once.
struct draining {
  const object_pool_t *pool;
  const void *object;
  draining *outer;
};

// The innermost drain. It is visible beyond a shared library, so that all parts of a program share it.
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

// Whether to destruct and put the object: it is live, and no drain will do so. This is asked before the destructor runs, which
// must not run on anything else.
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

// Returns a place for an object; null if there is none, or while the pool is drained.
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

// Pointers to T are copied through a short array, because an array of them is not an array of void pointers.
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

// A forward iterator over the live objects of a pool, by address. Objects, the current one too, may be put, and others made. It
// visits new objects at higher addresses, and objects whose constructor or destructor is running.
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

// Identifies one use of an object. get() returns the object, or null once that use has ended, even if the object is in use
// again. The pool must be alive. get() takes a lock, as object_pool_resolve() does. Handles repeat after 2^32 uses of one
// object.
template <typename T>
class handle {
public:
  handle() noexcept = default; // of no object
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

// The parts that all pools share: figures, questions, the walk, the end. `drains`: this class destructs live objects at the
// end, instead of a hook.
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

  // The C pool, for calls that this class does not have.
  [[nodiscard]] object_pool_t *raw() const noexcept { return pool_; }
  explicit operator bool() const noexcept { return pool_ != nullptr; }

  // capacity(): how many objects there are. live(): how many are live, without those that an overflow pool served.
  [[nodiscard]] std::size_t capacity() const noexcept { return object_pool_capacity(pool_); }
  [[nodiscard]] std::size_t live() const noexcept { return object_pool_live(pool_); }

  // Frees arrays that a growing pool added and that have no live object, as long as `capacity` objects remain. Returns the new
  // capacity.
  std::size_t shrink(std::size_t capacity) noexcept { return object_pool_shrink(pool_, capacity); }

  // Returns whether this is the address of a live object of this pool, but not of its overflow pool. It accepts any address.
  [[nodiscard]] bool is_live(const T *object) const noexcept { return object_pool_in_use(pool_, object); }

  // Returns the handle of a live object, of this pool or served by its overflow pool; that of no object for anything else.
  [[nodiscard]] handle<T> handle_of(T *object) noexcept { return {pool_, object_pool_handle(pool_, object)}; }
  [[nodiscard]] handle<const T> handle_of(const T *object) const noexcept { return {pool_, object_pool_handle(pool_, object)}; }

  // The live objects, by address. Other threads must not make or put any meanwhile.
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

// Destructs an object and puts it back. The pool must be alive.
template <typename T>
class object_deleter {
public:
  object_deleter() noexcept = default;
  explicit object_deleter(object_pool_t *pool) noexcept : pool_(pool) {}
  void operator()(T *object) const noexcept { detail::end_and_put(pool_, object); }

private:
  object_pool_t *pool_ = nullptr;
};

// A pool whose objects are constructed by make() and destructed by put().
//
// The end of the pool destructs live objects, by address. Objects that own others of the pool may put them meanwhile, also in a
// ring: each is destructed once. No object can be made then.
//
// Cost: make() and put() add the constructor, the destructor and a test for null to object_pool_get() and object_pool_put(). If
// the destructor is not trivial, put() first calls object_pool_in_use(), some eighty instructions. So a second put ends the
// program with its line, before a second destructor runs.
template <typename T>
class object_pool : public detail::pool_base<T, true> {
  using base = detail::pool_base<T, true>;

public:
  using deleter = object_deleter<T>;
  using pointer = std::unique_ptr<T, deleter>;

  // Throws std::invalid_argument if the options contradict each other, such as a capacity of 0 without growth, and
  // std::bad_alloc if the heap does not have the memory.
  explicit object_pool(const pool_options &options) : object_pool(std::nothrow, options) { must_be_made(); }

  // `overflow` serves when this pool is full, and must outlive it. Pointers work for objects of both.
  object_pool(const pool_options &options, object_pool &overflow) : object_pool(std::nothrow, options, overflow)
  {
    must_be_made();
  }

  // Empty on failure, with EINVAL or ENOMEM.
  object_pool(const std::nothrow_t &, const pool_options &options) noexcept : base(create(options, nullptr)) {}
  object_pool(const std::nothrow_t &, const pool_options &options, object_pool &overflow) noexcept
      : base(overflow ? create(options, overflow.pool_) : detail::lacking_pool(OBJECT_POOL_OVERFLOW))
  {}

  // Gives up ownership without ending the pool.
  [[nodiscard]] object_pool_t *release() noexcept { return std::exchange(this->pool_, nullptr); }

  // Returns a new object. Throws std::bad_alloc if the pool is full and does not grow or overflow. If the constructor throws,
  // the object is free again, and the exception leaves make().
  template <typename... Arguments>
  [[nodiscard]] pointer make(Arguments &&...arguments)
  {
    pointer made = try_make(std::forward<Arguments>(arguments)...);
    if (!made)
      detail::fail_bad_alloc();
    return made;
  }

  // Does the same, but returns null if the pool is full.
  template <typename... Arguments>
  [[nodiscard]] pointer try_make(Arguments &&...arguments) noexcept(std::is_nothrow_constructible_v<T, Arguments...>)
  {
    void *place = detail::take_place<T>(this->pool_);
    if (!place)
      return pointer(nullptr, deleter(this->pool_));
    return pointer(detail::construct_at<T>(this->pool_, place, std::forward<Arguments>(arguments)...), deleter(this->pool_));
  }

  // Makes up to `count` objects of the same arguments into `objects`, and returns how many: fewer if the pool is full. The
  // caller owns them, until put() or put_batch(). If a constructor throws, all objects of this call are put back, and the
  // exception leaves it. This is faster than single calls: the lock is taken once for 64.
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

  // Destructs and puts back a live object whose unique_ptr was released. Anything else ends the program.
  void put(T *object) noexcept { detail::end_and_put(this->pool_, object); }

  // Destructs and puts back `count` objects.
  void put_batch(T *const *objects, std::size_t count) noexcept
  {
    if constexpr (std::is_trivially_destructible_v<T>)
      detail::put_each(this->pool_, objects, count);
    else
      for (std::size_t i = 0; i < count; i++)
        detail::end_and_put(this->pool_, objects[i]);
  }

  // Destructs and puts back all live objects of this pool, but not those that an overflow pool served. No unique_ptr and no
  // other thread may still use any of them. Objects may put others meanwhile, but make none. It takes O(capacity / 64) if the
  // destructor is trivial.
  void put_all() noexcept { detail::put_all<T>(this->pool_); }

private:
  // The objects that a make_batch() has so far; the destructor puts them back.
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

// A pool that makes room by ending a live object when it is full: the quietest sound, the oldest trail.
//
// make() returns a handle, because a pointer would lead to another object after an eviction. A handle's get() is null once its
// object was evicted. A pointer of get() is valid until the next make(). The pool is for one thread: no other could use an
// object safely while this one ends it.
//
// choose(pool) returns a live object of the pool, or null. Its exceptions leave make(), with nothing changed. The victim is
// destructed before the new object is constructed; if that throws, both are gone. A constructor or destructor of an object may
// make others, but evicts none: make() fails there if the pool is full.
template <typename T>
class evicting_pool : public detail::pool_base<T, true> {
  using base = detail::pool_base<T, true>;

public:
  using chooser = std::function<T *(evicting_pool &)>;

  // Throws std::invalid_argument if there is no chooser, and what object_pool's constructor throws. A pool that may grow does
  // so before it evicts. The pool is single_thread().
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

  // Returns a new object. Throws std::bad_alloc if the pool is full and the chooser names no victim. No argument may refer into
  // a possible victim, which ends first.
  template <typename... Arguments>
  handle<T> make(Arguments &&...arguments)
  {
    const handle<T> made = try_make(std::forward<Arguments>(arguments)...);
    if (!made.index())
      detail::fail_bad_alloc();
    return made;
  }

  // Does what make() does, but returns the handle of no object if there is no room.
  template <typename... Arguments>
  [[nodiscard]] handle<T> try_make(Arguments &&...arguments)
  {
    void *place = take();
    if (!place)
      return {};
    const in_work now(*this, place);
    return this->handle_of(detail::construct_at<T>(this->pool_, place, std::forward<Arguments>(arguments)...));
  }

  // Destructs the object and puts it back. It does nothing and returns false if that use has ended, or is just ending.
  bool put(const handle<T> &name) noexcept
  {
    T *object = name.pool() == this->pool_ ? name.get() : nullptr;
    return object && end_one(object);
  }

  // Destructs and puts back all objects.
  void put_all() noexcept { detail::put_all<T>(this->pool_); }

private:
  // An object whose constructor or destructor is running.
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

// Puts an object back, which stays constructed. The pool must be alive.
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

// Stores exceptions of hooks for this thread's innermost get(), which rethrows them.
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

// Constructs an object as `new T` does, without parentheses.
struct default_initialized {};
struct no_reset {};

struct reuse_hooks_base {
  void (*dispose)(reuse_hooks_base *hooks) noexcept;
  pool_heap_t *heap;
};

// The callables of a reuse_pool. They lie in the heap of the pool, because pools move.
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

// A pool whose objects stay constructed between uses. An expensive object is constructed once, before its first use, and
// destructed when the pool ends or shrinks.
//
// make() returns the value that an object is constructed from; without it the object is constructed as by `new T`. reset(T &)
// is called between uses, either just before the next use or at the put. The pool holds no lock meanwhile, and calls both from
// several threads at once if these share the pool.
//
// A checked() pool destructs each object at its put, and constructs it anew.
//
// Cost: without make and reset, and for a type that needs neither constructor nor destructor, get() and put() cost as in C.
// With hooks, both together take some three hundred instructions more.
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

  // Empty on failure, with EINVAL or ENOMEM. `overflow` serves when the pool is full, and must outlive it.
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

  // The constructors without std::nothrow throw std::invalid_argument, std::bad_alloc, and what copying make and reset throws.
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

  // Gives up ownership without ending the pool. The objects make and reset stay in the pool's heap.
  [[nodiscard]] object_pool_t *release() noexcept
  {
    static_cast<void>(hooks_.release());
    return std::exchange(this->pool_, nullptr);
  }

  // Returns an object. Throws std::bad_alloc if the pool is full and does not grow or overflow. If make or the constructor
  // throws, the object is free again, and the exception leaves get().
  [[nodiscard]] pointer get()
  {
    pointer got = try_get();
    if (!got)
      detail::fail_bad_alloc();
    return got;
  }

  // Does the same, but returns null if the pool is full.
  [[nodiscard]] pointer try_get() { return own(may_throw_ ? get_carrying() : object_pool_get(this->pool_)); }

  // Gets up to `count` objects into `objects`, and returns how many: fewer if the pool is full. The caller owns them until
  // put() or put_batch(). If make or a constructor throws, all are put back, and the exception leaves this call.
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

  // Puts a live object back. Anything else ends the program.
  void put(T *object) noexcept { object_pool_put(this->pool_, object); }
  void put_batch(T *const *objects, std::size_t count) noexcept { detail::put_each(this->pool_, objects, count); }

  // Puts back all live objects of this pool. No unique_ptr may still own any of them.
  void put_all() noexcept { object_pool_put_all(this->pool_); }

private:
  struct unless_kept {
    reuse_pool &pool;
    T **objects;
    std::size_t count;
    ~unless_kept() { pool.put_batch(objects, count); }
  };

  // Out of line, so that callers save no registers for it where nothing can throw.
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
    if (!overflow) {
      this->pool_ = detail::lacking_pool(OBJECT_POOL_OVERFLOW);
      return;
    }
    create(given, overflow.pool_, std::move(make), std::move(reset), time);
    may_throw_ = may_throw_ || overflow.may_throw_; // the overflow pool makes its objects itself
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
