// SPDX-License-Identifier: MIT
//
// A level of a game in C++: everything in it lives on one heap with a budget, and ends with it. Enemies are objects of a pool,
// made and destructed, with containers of their own on the same heap. A missile keeps a handle to its enemy, which may be gone
// before it hits. Sounds are few: a new one ends the quietest.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include <tidepool/tidepool.hpp>

namespace {

template <typename T>
using vector = std::vector<T, tidepool::heap_allocator<T>>;

struct enemy {
  enemy(int given, tidepool::heap_ref memory) : health(given), path(memory) { path.assign(20, given); }
  int health;
  vector<int> path;
};

struct missile {
  tidepool::handle<enemy> target;
  int damage, frames_to_go;
};

struct sound {
  int loudness;
};

using sounds = tidepool::evicting_pool<sound>;

sound *quietest(sounds &of)
{
  return &*std::min_element(of.begin(), of.end(), [](const sound &a, const sound &b) { return a.loudness < b.loudness; });
}

// Members end in reverse: the pools before the heap that they are in.
class level {
public:
  explicit level(std::size_t budget)
      : heap_(tidepool::heap_options().name("level").budget(budget)),
        enemies_(tidepool::pool_options().name("enemies").capacity(100).heap(heap_).single_thread()),
        missiles_(tidepool::pool_options().name("missiles").grow().heap(heap_).single_thread()),
        sounds_(tidepool::pool_options().name("sounds").capacity(8).heap(heap_), quietest), army_(heap_)
  {}

  void play(int frames)
  {
    for (int frame = 0; frame < frames; frame++) {
      if (auto one = enemies_.try_make(frame % 30 + 10, heap_)) // full: this one does without
        army_.push_back(std::move(one));
      aim(frame);
      fly();
      army_.erase(std::remove_if(army_.begin(), army_.end(), [](const auto &one) { return one->health <= 0; }), army_.end());
    }
  }

  void report() const
  {
    std::printf("%zu enemies, %zu missiles, %zu sounds; %zu hit, %zu came too late; %zu of %zu bytes\n", enemies_.live(),
                missiles_.live(), sounds_.live(), hits_, late_, heap_.stats().held_bytes, heap_.budget());
  }

  bool is_good() const
  {
    return hits_ > 100 && late_ > 10 && sounds_.live() == 8 && enemies_.live() == army_.size() &&
           heap_.stats().held_bytes <= heap_.budget();
  }

private:
  // Two missiles for one enemy, the second of which may find it gone.
  void aim(int frame)
  {
    enemy *target = army_[static_cast<std::size_t>(frame) * 7 % army_.size()].get();
    for (int i = 0; i < 2; i++)
      static_cast<void>(missiles_.make(missile{enemies_.handle_of(target), 20, 3 * i}).release()); // it is found by the walk
  }

  void fly()
  {
    for (missile &each : missiles_) {
      if (each.frames_to_go-- > 0)
        continue;
      if (enemy *target = each.target.get()) {
        target->health -= each.damage;
        sounds_.make(sound{target->health});
        hits_++;
      } else {
        late_++;
      }
      missiles_.put(&each);
    }
  }

  tidepool::heap heap_;
  tidepool::object_pool<enemy> enemies_;
  tidepool::object_pool<missile> missiles_;
  sounds sounds_;
  vector<tidepool::object_pool<enemy>::pointer> army_;
  std::size_t hits_ = 0, late_ = 0;
};

} // namespace

int main()
{
  try {
    level one(1 << 20);
    one.play(1000);
    one.report();
    return one.is_good() ? 0 : 1;
  } catch (const std::bad_alloc &) {
    std::puts("the level is larger than its budget");
    return 1;
  }
}
