/* SPDX-License-Identifier: MIT
 * The slow paths of a magazine. A loaded magazine that is empty or full is swapped with one of the thread's own stock. Only if
 * the stock has none does the bin exchange one, under its lock. */
#include "thread/magazines.h"

enum { EXCHANGES_PER_DOUBLING = 8, MAGAZINE_DOUBLINGS = 5 };

__attribute__((aligned(MAGAZINE_BYTES))) void *magazine_sentinel[MAGAZINE_WORDS];

/* Every class begins with the sentinel, so that its first pop and its first push take the slow path. */
void magazines_init(magazines_t *magazines, cache_t *cache, unsigned number, allowance_t *allowance, bool others_flush)
{
  *magazines = (magazines_t){.cache = cache,
                             .number = (uint8_t)number,
                             .allowance = allowance ? allowance : &allowance_of_nobody,
                             .others_flush = others_flush};
  magazines_forget(cache);
  for (unsigned c = 0; c <= CLASS_CACHED; c++)
    magazines->of[c].seen = MAGAZINE_SENTINEL;
}

/* For a new cache, and for a thread that must no longer use its own. The contents are lost. */
void magazines_forget(cache_t *cache)
{
  for (unsigned c = 0; c <= CLASS_CACHED; c++) {
    OWNER_STORE(cache->of[c].top, NULL);
    OWNER_STORE(cache->of[c].below, MAGAZINE_SENTINEL);
  }
}

/* ---- the allowance ---- */

/* Written under the bin's lock, and read without it, because any earlier value will do. */
static unsigned capacity_of(const bin_t *bin) { return __atomic_load_n(&bin->magazine_capacity, __ATOMIC_RELAXED); }
static unsigned stock_most(const bin_t *bin) { return __atomic_load_n(&bin->stock_most, __ATOMIC_RELAXED); }

/* A loaded magazine has one more block beside it. */
static size_t counted(const bin_t *bin, unsigned capacity) { return MAGAZINE_BYTES + (capacity + 1) * (size_t)bin->block_size; }

/* Only the owner adds bytes, so only the owner may have to check its allowance. */
NOINLINE static void count_shared(allowance_t *allowance, ptrdiff_t bytes)
{
  __atomic_fetch_add(&allowance->of_heaps, (size_t)bytes, __ATOMIC_RELAXED);
  if (bytes > 0 && allowance_left(allowance) < 0)
    allowance_look_soon(allowance);
}

static inline void count_cached(magazines_t *magazines, ptrdiff_t bytes)
{
  if (unlikely(magazines->others_flush))
    count_shared(magazines->allowance, bytes);
  else
    allowance_use(magazines->allowance, bytes);
}

/* All magazines of a class count as much as the largest. */
NOINLINE static void note_capacity(magazines_t *magazines, const bin_t *bin, unsigned capacity)
{
  stock_t *stock = &magazines->of[bin->size_class];
  size_t price = counted(bin, capacity);
  if (price <= stock->price)
    return;
  count_cached(magazines, (ptrdiff_t)(stock->magazines * (price - stock->price)));
  stock->price = (uint32_t)price;
}

static inline void count_new(magazines_t *magazines, const bin_t *bin, stock_t *stock, unsigned capacity)
{
  if (unlikely(!stock->price))
    note_capacity(magazines, bin, capacity);
  stock->magazines++;
  count_cached(magazines, stock->price);
}

static bool is_tight(const magazines_t *magazines) { return __atomic_load_n(&magazines->allowance->tight, __ATOMIC_RELAXED); }

/* Returns the capacity of the class's largest magazine; 0 if there is none. */
static unsigned capacity_so_far(const magazines_t *magazines, const bin_t *bin)
{
  uint32_t price = magazines->of[bin->size_class].price;
  return price ? (price - MAGAZINE_BYTES) / bin->block_size - 1 : 0;
}

/* Returns the capacity at which the next thread counts a magazine of the class that this one gives to the bin. */
static unsigned capacity_to_leave(const magazines_t *magazines, const bin_t *bin)
{
  return likely(!is_tight(magazines)) ? capacity_of(bin) : capacity_so_far(magazines, bin);
}

static void count_given(magazines_t *magazines, const bin_t *bin, unsigned given)
{
  stock_t *stock = &magazines->of[bin->size_class];
  count_cached(magazines, -(ptrdiff_t)given * stock->price);
  stock->magazines = (uint8_t)(stock->magazines - given);
  if (!stock->magazines)
    stock->price = 0, stock->exchanges = 0;
}

/* A class begins small if there are many threads, and then has no stock. */
static bool is_small(const stock_t *stock)
{
  return threads_are_many() && stock->exchanges < EXCHANGES_PER_DOUBLING * MAGAZINE_DOUBLINGS;
}

/* Returns the capacity of the next magazine of a small class. */
static unsigned small_capacity(stock_t *stock) { return MAGAZINE_LEAST << stock->exchanges++ / EXCHANGES_PER_DOUBLING; }

/* One magazine may take 1/4 of the allowance. A thread that wants larger ones gets a larger allowance, if possible. Returns 0
 * if there is no room for MAGAZINE_LEAST blocks; the thread then gets single blocks from the bin. */
COLD static unsigned tight_capacity(magazines_t *magazines, const bin_t *bin, unsigned capacity)
{
  allowance_t *allowance = magazines->allowance;
  if (is_small(&magazines->of[bin->size_class]))
    capacity = (unsigned)min_size(capacity, small_capacity(&magazines->of[bin->size_class]));
  if (counted(bin, capacity) > allowance->allowed / ALLOWANCE_MAGAZINE)
    allowance_grow(allowance);
  size_t most = allowance->allowed / ALLOWANCE_MAGAZINE;
  if (counted(bin, capacity) <= most)
    return capacity;
  return counted(bin, MAGAZINE_LEAST) > most ? 0 : (unsigned)((most - MAGAZINE_BYTES) / bin->block_size - 1);
}

/* ---- the stock ---- */

/* Only full magazines enter the stock (C2). */
static void stock_push(stock_t *stock, void **magazine)
{
  magazine_link(magazine, stock->full, 0);
  OWNER_PUBLISH(stock->full, magazine);
  stock->count++;
}

/* The low mark tells the next tick how many magazines were never reached. */
static void **stock_pop(stock_t *stock)
{
  void **magazine = stock->full;
  stock->full = magazine_below(magazine);
  if (--stock->count < stock->low)
    stock->low = stock->count;
  return magazine;
}

static void stock_keep_empty(stock_t *stock, void **magazine)
{
  magazine_link_empty(magazine, stock->empties);
  stock->empties = magazine;
}

/* Returns the floor of an empty magazine, from the stock, without a lock, or from the bin. Returns NULL without memory. */
static inline __attribute__((always_inline)) void **stock_empty(magazines_t *magazines, bin_t *bin, stock_t *stock,
                                                                unsigned capacity)
{
  void **magazine = stock->empties;
  if (magazine) {
    stock->empties = magazine_below(magazine);
    return magazine_floor(magazine, capacity);
  }
  void **floor = bin_new_magazine(bin, capacity, magazines->number);
  if (floor)
    count_new(magazines, bin, stock, capacity);
  return floor;
}

/* Loads the magazine with entries up to `top`, which is the floor of an empty one. */
static void load(loaded_t *loaded, void **top)
{
  OWNER_STORE(loaded->top, *top);
  OWNER_PUBLISH(loaded->below, top - 1);
}

/* Call it before the loaded magazine goes to the bin, from where another thread may get it and hand out its blocks. Readers
 * must not find those here, now or in the child of a fork. The top entry stays, because it is beside the magazine. */
static void leave_loaded(loaded_t *loaded) { OWNER_STORE(loaded->below, MAGAZINE_SENTINEL); }

/* Refills a class under a tight allowance. The thread counts the magazine, or takes a single block without room for one. */
COLD static void *refill_tight(magazines_t *magazines, bin_t *bin, void **empty)
{
  loaded_t *loaded = &magazines->cache->of[bin->size_class];
  unsigned capacity = tight_capacity(magazines, bin, capacity_of(bin));
  if (!capacity) {
    void *block = NULL;
    magazines_flush(magazines, bin);
    bin_take(bin, &block, 1, NULL);
    return block;
  }
  if (!empty)
    count_new(magazines, bin, &magazines->of[bin->size_class], capacity);
  leave_loaded(loaded);
  void **top = bin_exchange_empty(bin, empty, capacity, magazines->number);
  if (!top) {
    count_given(magazines, bin, 1);
    return NULL;
  }
  note_capacity(magazines, bin, magazine_capacity(magazine_of(top)));
  void *block = *top;
  load(loaded, top - 1);
  return block;
}

/* A magazine of the stock needs no lock, so it comes first. The thread then keeps the empty one; else the bin gets it. */
void *magazines_refill(magazines_t *magazines, bin_t *bin)
{
  unsigned c = bin->size_class;
  loaded_t *loaded = &magazines->cache->of[c];
  stock_t *stock = &magazines->of[c];
  void **empty = loaded->below != MAGAZINE_SENTINEL ? loaded->below + 1 : NULL, **top;
  __asm__("" : "+r"(stock)); /* keeps the compiler from computing it again at each use */
  if (stock->full) {
    top = magazine_last(stock_pop(stock));
    if (empty)
      stock_keep_empty(stock, magazine_of(empty));
  } else {
    if (unlikely(is_tight(magazines)))
      return refill_tight(magazines, bin, empty);
    if (unlikely(!empty))
      count_new(magazines, bin, stock, capacity_of(bin));
    leave_loaded(loaded);
    top = bin_exchange_empty(bin, empty, capacity_of(bin), magazines->number);
    if (unlikely(!top)) {
      count_given(magazines, bin, 1);
      return NULL;
    }
  }
  void *block = *top;
  load(loaded, top - 1);
  return block;
}

/* Loads an empty magazine with two blocks, as two pushes would. Every magazine has room for them. */
static void load_two(loaded_t *loaded, void **floor, void *first, void *second)
{
  magazine_end_at(floor);
  if (first)
    *++floor = first;
  OWNER_STORE(loaded->top, second);
  OWNER_PUBLISH(loaded->below, floor);
}

/* Returns whether the allowance has room for one more magazine. A larger stock would take room from other classes. */
static inline bool allows_magazine(const magazines_t *magazines, const stock_t *stock)
{
  allowance_t *allowance = magazines->allowance;
  return likely(allowance->left >= (ptrdiff_t)stock->price) ||
         (allowance_grow(allowance) && allowance->left >= (ptrdiff_t)stock->price);
}

/* Runs if the stock is full, if it has no empty magazine, or if no magazine is loaded. Without memory for an empty magazine, a
 * full one goes to the bin and comes back empty, so the system refuses once for each magazine, not for each block. If there is
 * no full one either, the block goes to the bin alone. `left` is the capacity that a magazine left to the bin has. */
static inline __attribute__((always_inline)) void exchange_full(magazines_t *magazines, bin_t *bin, void *block,
                                                                unsigned capacity, unsigned most, unsigned left)
{
  loaded_t *loaded = &magazines->cache->of[bin->size_class];
  stock_t *stock = &magazines->of[bin->size_class];
  void **full = loaded->below, **floor = NULL, **given = NULL;
  __asm__("" : "+r"(stock)); /* keeps the compiler from computing it again at each use */
  if (full == MAGAZINE_SENTINEL || (stock->count < most && (stock->empties || allows_magazine(magazines, stock))))
    floor = stock_empty(magazines, bin, stock, capacity);
  if (!floor) {
    if (likely(stock->count)) {
      given = magazine_last(stock_pop(stock));
    } else if (full != MAGAZINE_SENTINEL) {
      given = full;
      full = MAGAZINE_SENTINEL;
      leave_loaded(loaded);
    } else {
      bin_put(bin, &block, 1);
      return;
    }
    magazine_link(magazine_of(given), NULL, left);
    floor = bin_exchange_full(bin, given, capacity, magazines->number);
  }
  if (full != MAGAZINE_SENTINEL)
    stock_push(stock, magazine_of(full));
  load_two(loaded, floor, loaded->top, block);
  /* The class has shrunk, and its stock with it. One magazine goes each time. */
  if (stock->count > most) {
    given = stock_pop(stock);
    magazine_link(given, NULL, left);
    bin_give_magazine(bin, magazine_last(given), magazines->number);
    count_given(magazines, bin, 1);
  }
}

/* Exchanges a full magazine under a tight allowance. Without room for a magazine, the block goes to the bin alone. */
COLD static void overflow_tight(magazines_t *magazines, bin_t *bin, void *block)
{
  unsigned capacity = tight_capacity(magazines, bin, capacity_of(bin));
  if (!capacity) {
    magazines_flush(magazines, bin);
    bin_put(bin, &block, 1);
    return;
  }
  note_capacity(magazines, bin, capacity);
  unsigned most = is_small(&magazines->of[bin->size_class]) ? 0 : stock_most(bin);
  exchange_full(magazines, bin, block, capacity, most, capacity_to_leave(magazines, bin));
}

NOINLINE static void overflow_to_bin(magazines_t *magazines, bin_t *bin, void *block)
{
  unsigned capacity = capacity_of(bin);
  if (unlikely(is_tight(magazines)))
    overflow_tight(magazines, bin, block);
  else
    exchange_full(magazines, bin, block, capacity, stock_most(bin), capacity);
}

/* The common case does not need the bin: the stock has room, and an empty magazine. */
void magazines_overflow(magazines_t *magazines, bin_t *bin, void *block)
{
  loaded_t *loaded = &magazines->cache->of[bin->size_class];
  stock_t *stock = &magazines->of[bin->size_class];
  void **full = loaded->below, **empty = stock->empties;
  if (unlikely(full == MAGAZINE_SENTINEL || stock->count >= stock_most(bin) || !empty || is_tight(magazines))) {
    overflow_to_bin(magazines, bin, block);
    return;
  }
  stock->empties = magazine_below(empty);
  stock_push(stock, magazine_of(full));
  load_two(loaded, magazine_floor(empty, capacity_of(bin)), loaded->top, block);
}

/* Gives full magazines beyond `keep`, and all empty ones, which another thread may need, to the bin. Returns how many. */
static unsigned stock_give(magazines_t *magazines, bin_t *bin, unsigned keep)
{
  stock_t *stock = &magazines->of[bin->size_class];
  unsigned given = 0, left = capacity_to_leave(magazines, bin);
  for (; stock->count > keep; given++) {
    void **magazine = stock_pop(stock);
    magazine_link(magazine, NULL, left);
    bin_give_magazine(bin, magazine_last(magazine), magazines->number);
  }
  for (; stock->empties; given++) {
    void **magazine = stock->empties;
    stock->empties = magazine_below(magazine);
    bin_drop_magazine(bin, magazine, magazines->number);
  }
  return given;
}

/* The top entry is beside the magazine, which may have no word left for it, so it goes back alone. */
void magazines_flush(magazines_t *magazines, bin_t *bin)
{
  unsigned c = bin->size_class, given = stock_give(magazines, bin, 0);
  loaded_t *loaded = &magazines->cache->of[c];
  if (loaded->below != MAGAZINE_SENTINEL) {
    void *top = loaded->top, **below = loaded->below;
    OWNER_STORE(loaded->top, NULL);
    OWNER_STORE(loaded->below, MAGAZINE_SENTINEL);
    if (top)
      bin_put(bin, &top, 1);
    else
      *++below = NULL;
    magazine_link(magazine_of(below), NULL, capacity_to_leave(magazines, bin));
    bin_give_magazine(bin, below, magazines->number);
    given++;
  }
  if (given)
    count_given(magazines, bin, given);
}

/* The blocks of the entries have ended, so none goes back to a slab. */
void magazines_drop(magazines_t *magazines, bin_t *bin)
{
  unsigned c = bin->size_class, given = 0;
  loaded_t *loaded = &magazines->cache->of[c];
  stock_t *stock = &magazines->of[c];
  for (; stock->full; given++)
    bin_drop_magazine(bin, stock_pop(stock), magazines->number);
  given += stock_give(magazines, bin, 0);
  if (loaded->below != MAGAZINE_SENTINEL) {
    bin_drop_magazine(bin, loaded->below + !loaded->top, magazines->number);
    given++;
  }
  OWNER_STORE(loaded->top, NULL);
  OWNER_STORE(loaded->below, MAGAZINE_SENTINEL);
  if (given)
    count_given(magazines, bin, given);
}

/* A class whose `below` has not moved was unused, and is flushed. Used classes give up magazines that were never reached. */
void magazines_tick(magazines_t *magazines, bin_t *bin)
{
  stock_t *stock = &magazines->of[bin->size_class];
  void **below = magazines->cache->of[bin->size_class].below;
  bool idle = below != MAGAZINE_SENTINEL && below == stock->seen;
  if (idle)
    magazines_flush(magazines, bin);
  else if (stock->magazines && !is_tight(magazines)) /* a tight thread counts each magazine when it gets it */
    note_capacity(magazines, bin, capacity_of(bin));
  if (!idle && stock->low)
    count_given(magazines, bin, stock_give(magazines, bin, stock->count - stock->low));
  stock->seen = below;
  stock->low = stock->count;
}

size_t magazines_counted(const magazines_t *magazines, const bin_t *bin)
{
  const stock_t *stock = &magazines->of[bin->size_class];
  return (size_t)stock->magazines * stock->price;
}

/* The entries of a loaded magazine end at its last word if it is full. */
size_t magazines_most(const magazines_t *magazines, const bin_t *bin)
{
  const loaded_t *loaded = &magazines->cache->of[bin->size_class];
  size_t most = __atomic_load_n(&bin->magazine_most, __ATOMIC_RELAXED);
  size_t room = loaded->top ? (size_t)(magazine_last(magazine_of(loaded->below)) - loaded->below) : most + 1;
  return magazines->of[bin->size_class].count * most + most + 1 - room;
}
