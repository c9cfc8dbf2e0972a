// SPDX-License-Identifier: MIT
//
// What must not compile: each of the macros below makes one line of it. Without any of them it compiles.
#include <tidepool/tidepool.hpp>

#include <string>
#include <vector>

struct enemy {
  int health;
};
class private_end {
  ~private_end() = default;
};
struct throwing_end {
  ~throwing_end() noexcept(false) {}
};

int main()
{
  tidepool::heap heap;
  tidepool::object_pool<std::string> texts(tidepool::pool_options().capacity(1));
  tidepool::object_pool<enemy> enemies(tidepool::pool_options().capacity(1));
  tidepool::reuse_pool<enemy> reused(tidepool::pool_options().capacity(1));
  auto enemy_of_pool = enemies.make();
  auto reused_enemy = reused.get();
  tidepool::handle<enemy> name = enemies.handle_of(enemy_of_pool.get());

#ifdef COPY_HEAP
  tidepool::heap copy(heap);
#endif
#ifdef COPY_POOL
  tidepool::object_pool<enemy> copy(enemies);
#endif
#ifdef REFERENCE_TO_A_HEAP_THAT_ENDS
  tidepool::heap_ref reference{tidepool::heap()};
#endif
#ifdef ALLOCATOR_OF_A_HEAP_THAT_ENDS
  std::vector<int, tidepool::heap_allocator<int>> numbers{tidepool::heap()};
#endif
#ifdef CALLBACK_THAT_ENDS
  tidepool::heap_options().on_exhausted([](tidepool::heap_ref, std::size_t, unsigned) { return false; });
#endif
#ifdef HEAP_FROM_POINTER
  heap = heap.get();
#endif
#ifdef RESET_THROUGH_A_REFERENCE
  tidepool::heap_ref(heap).reset();
#endif
#ifdef PUT_OTHER
  texts.put(enemy_of_pool.get());
#endif
#ifdef MAKE_OTHER
  tidepool::object_pool<std::string>::pointer text = enemies.make();
#endif
#ifdef MAKE_WITH_WRONG_ARGUMENTS
  auto wrong = enemies.make("text");
#endif
#ifdef MAKE_AND_FORGET
  enemies.make();
#endif
#ifdef OVERFLOW_TO_OTHER
  tidepool::object_pool<std::string> before(tidepool::pool_options().capacity(1), enemies);
#endif
#ifdef REUSED_FOR_MADE
  enemy_of_pool = std::move(reused_enemy);
#endif
#ifdef HANDLE_OF_OTHER
  tidepool::handle<std::string> other = name;
#endif
#ifdef EVICTED_POINTER
  tidepool::evicting_pool<enemy> evicting(tidepool::pool_options().capacity(1), nullptr);
  enemy *pointer = evicting.make();
#endif
#ifdef POOL_OF_CONST
  tidepool::object_pool<const enemy> constants(tidepool::pool_options().capacity(1));
#endif
#ifdef POOL_OF_ARRAYS
  tidepool::object_pool<enemy[3]> arrays(tidepool::pool_options().capacity(1));
#endif
#ifdef POOL_OF_REFERENCES
  tidepool::object_pool<enemy &> references(tidepool::pool_options().capacity(1));
#endif
#ifdef PRIVATE_DESTRUCTOR
  tidepool::object_pool<private_end> privates(tidepool::pool_options().capacity(1));
#endif
#ifdef THROWING_DESTRUCTOR
  tidepool::object_pool<throwing_end> throwing(tidepool::pool_options().capacity(1));
#endif
#ifdef ALLOCATOR_OF_CONST
  tidepool::heap_allocator<const enemy> constants(heap);
#endif
#ifdef CHANGE_THROUGH_CONST
  const auto &asked = enemies;
  asked.begin()->health = 1;
#endif
  return name ? 0 : 1;
}
