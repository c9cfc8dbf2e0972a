/* SPDX-License-Identifier: MIT
 *
 * What happens when the loaded magazine is empty or full: it changes places with one of the stock, which is the thread's alone.
 * Only if the stock has none does the bin exchange one, under its lock. */
#include "thread/magazines.h"

__attribute__((aligned(MAGAZINE_BYTES))) void *magazine_sentinel[MAGAZINE_WORDS];

/* Of many threads most use a class little, and what each keeps of it adds up. So beside many threads a thread begins with
 * magazines of two blocks and no stock. They double after each eight exchanges with the bin: a thread that goes on has full
 * ones some five hundred blocks later. */
enum {
  MANY_THREADS = 5, /* with fewer, more exchanges cost more than the memory */
  SMALL_STEP_LOG2 = 3,
  SMALL_EXCHANGES = 5 << SMALL_STEP_LOG2
};

static uint8_t small_at_first(void)
{
  return __atomic_load_n(&bin_threads, __ATOMIC_RELAXED) >= MANY_THREADS ? SMALL_EXCHANGES : 0;
}

/* Every class begins with the sentinel, so that its first pop and its first push find the slow path. */
void magazines_init(magazines_t *magazines, cache_t *cache, unsigned number)
{
  uint8_t small = small_at_first();
  *magazines = (magazines_t){.cache = cache, .number = (uint8_t)number};
  magazines_forget(cache);
  for (unsigned c = 0; c <= CLASS_CACHED; c++)
    magazines->of[c].seen = MAGAZINE_SENTINEL;
  for (unsigned c = 0; small && c <= CLASS_CACHED; c++) /* seldom: a loop of its own costs others nothing */
    magazines->of[c].small = small;
}

/* What was in the cache is lost: this is for a new one, and for a thread that must not use its own any more. */
void magazines_forget(cache_t *cache)
{
  for (unsigned c = 0; c <= CLASS_CACHED; c++) {
    OWNER_STORE(cache->of[c].top, NULL);
    OWNER_STORE(cache->of[c].below, MAGAZINE_SENTINEL);
  }
}

/* ---- the stock ---- */

/* These two are settled under the bin's lock and read without it: any value that they ever had will do. */
static unsigned magazine_capacity(const bin_t *bin) { return __atomic_load_n(&bin->magazine_capacity, __ATOMIC_RELAXED); }
static unsigned stock_most(const bin_t *bin) { return __atomic_load_n(&bin->stock_most, __ATOMIC_RELAXED); }

/* Returns the capacity of the next magazine, for an exchange with the bin. */
COLD static unsigned small_capacity(stock_t *stock, unsigned most)
{
  unsigned capacity = 2u << ((SMALL_EXCHANGES - stock->small) >> SMALL_STEP_LOG2);
  stock->small--;
  return capacity < most ? capacity : most;
}

/* Only full magazines come here, so word 0 need not say how far the entries reach (C2). */
static void stock_push(stock_t *stock, void **magazine)
{
  magazine_link(magazine, stock->full, 0);
  stock->full = magazine;
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

/* Returns the floor of an empty magazine: one of the stock, which costs no lock, else one of the bin. NULL: no memory. */
static void **stock_empty(magazines_t *magazines, bin_t *bin, unsigned capacity)
{
  stock_t *stock = &magazines->of[bin->size_class];
  void **magazine = stock->empties;
  if (!magazine)
    return bin_new_magazine(bin, capacity, magazines->number);
  stock->empties = magazine_below(magazine);
  return magazine_floor(magazine, capacity);
}

static void **last_word(void **magazine) { return magazine + MAGAZINE_WORDS - 1; }

/* Loads the magazine whose entries reach up to `top`. With `top` at its floor it is an empty one. */
static void load(loaded_t *loaded, void **top)
{
  OWNER_STORE(loaded->top, *top);
  OWNER_STORE(loaded->below, top - 1);
}

/* Before the loaded magazine goes to the bin: another thread may have it, and give its blocks out, before this one goes on. Who
 * reads here meanwhile, or for ever in the child of a fork, must not find them. The top entry stays: it is beside. */
static void leave_loaded(loaded_t *loaded) { OWNER_STORE(loaded->below, MAGAZINE_SENTINEL); }

/* A magazine of the stock costs no lock, so it comes before the bin. The one that was used up stays with the thread then, for
 * its next overflow; otherwise it goes to the bin in exchange. */
void *magazines_refill(magazines_t *magazines, bin_t *bin)
{
  unsigned c = bin->size_class;
  loaded_t *loaded = &magazines->cache->of[c];
  stock_t *stock = &magazines->of[c];
  void **empty = loaded->below != MAGAZINE_SENTINEL ? loaded->below + 1 : NULL, **top; /* its floor */
  if (stock->full) {
    top = last_word(stock_pop(stock));
    if (empty)
      stock_keep_empty(stock, magazine_of(empty));
  } else {
    unsigned capacity = magazine_capacity(bin);
    if (unlikely(stock->small))
      capacity = small_capacity(stock, capacity);
    leave_loaded(loaded);
    top = bin_exchange_empty(bin, empty, capacity, magazines->number);
    if (!top)
      return NULL;
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
  OWNER_STORE(loaded->below, floor);
}

/* Comes here if the stock is full, if it has no empty magazine, or if none is loaded. Without memory for an empty magazine a
 * full one goes to the bin and is empty afterwards, so that the system refuses once for each magazine, not for each block. If
 * there is not even a full one, the block goes to the bin alone. */
NOINLINE static void overflow_to_bin(magazines_t *magazines, bin_t *bin, void *block)
{
  loaded_t *loaded = &magazines->cache->of[bin->size_class];
  stock_t *stock = &magazines->of[bin->size_class];
  void **full = loaded->below, **floor = NULL, *top = loaded->top;
  unsigned capacity = magazine_capacity(bin), most = stock_most(bin);
  if (unlikely(stock->small)) {
    capacity = small_capacity(stock, capacity);
    most = 0;
  }
  if (full == MAGAZINE_SENTINEL || stock->count < most)
    floor = stock_empty(magazines, bin, capacity);
  if (!floor && (stock->count || full != MAGAZINE_SENTINEL)) {
    void **given = stock->count ? last_word(stock_pop(stock)) : full;
    if (given == full)
      leave_loaded(loaded);
    floor = bin_exchange_full(bin, given, capacity, magazines->number);
    full = given == full ? MAGAZINE_SENTINEL : full;
  }
  if (unlikely(!floor)) {
    bin_put(bin, &block, 1);
    return;
  }
  if (full != MAGAZINE_SENTINEL)
    stock_push(stock, magazine_of(full));
  load_two(loaded, floor, top, block);
  /* The class has shrunk since, and with it the stock that it may have. One magazine goes each time, until that is so. */
  if (stock->count > stock_most(bin))
    bin_give_magazine(bin, last_word(stock_pop(stock)), magazines->number);
}

/* The common case needs nothing of the bin: the stock has room, and an empty magazine. */
void magazines_overflow(magazines_t *magazines, bin_t *bin, void *block)
{
  loaded_t *loaded = &magazines->cache->of[bin->size_class];
  stock_t *stock = &magazines->of[bin->size_class];
  void **full = loaded->below, **empty = stock->empties;
  if (unlikely(full == MAGAZINE_SENTINEL || stock->count >= stock_most(bin) || !empty)) {
    overflow_to_bin(magazines, bin, block);
    return;
  }
  stock->empties = magazine_below(empty);
  stock_push(stock, magazine_of(full));
  load_two(loaded, magazine_floor(empty, magazine_capacity(bin)), loaded->top, block);
}

/* The empty magazines go back too: another thread may need one just now. */
static void stock_shrink(magazines_t *magazines, bin_t *bin, unsigned keep)
{
  stock_t *stock = &magazines->of[bin->size_class];
  while (stock->count > keep)
    bin_give_magazine(bin, last_word(stock_pop(stock)), magazines->number);
  while (stock->empties) {
    void **magazine = stock->empties;
    stock->empties = magazine_below(magazine);
    bin_drop_magazine(bin, magazine, magazines->number);
  }
}

/* The top entry stands beside the magazine, which may have no word left for it, so it goes back by itself. */
void magazines_flush(magazines_t *magazines, bin_t *bin)
{
  unsigned c = bin->size_class;
  loaded_t *loaded = &magazines->cache->of[c];
  stock_shrink(magazines, bin, 0);
  if (loaded->below == MAGAZINE_SENTINEL)
    return;
  void *top = loaded->top, **below = loaded->below;
  OWNER_STORE(loaded->top, NULL);
  OWNER_STORE(loaded->below, MAGAZINE_SENTINEL);
  if (top)
    bin_put(bin, &top, 1);
  else
    *++below = NULL;
  bin_give_magazine(bin, below, magazines->number);
}

/* The entries are of blocks that have ended, so none of them goes back to a slab. */
void magazines_drop(magazines_t *magazines, bin_t *bin)
{
  unsigned c = bin->size_class;
  loaded_t *loaded = &magazines->cache->of[c];
  stock_t *stock = &magazines->of[c];
  while (stock->full)
    bin_drop_magazine(bin, stock_pop(stock), magazines->number);
  stock_shrink(magazines, bin, 0);
  if (loaded->below != MAGAZINE_SENTINEL)
    bin_drop_magazine(bin, loaded->below + !loaded->top, magazines->number);
  OWNER_STORE(loaded->top, NULL);
  OWNER_STORE(loaded->below, MAGAZINE_SENTINEL);
}

/* A class whose magazine is just where it was at the last tick was not used, and is flushed. Of one that was used go the full
 * magazines that were never reached. */
void magazines_tick(magazines_t *magazines, bin_t *bin)
{
  stock_t *stock = &magazines->of[bin->size_class];
  void **below = magazines->cache->of[bin->size_class].below;
  bool idle = below != MAGAZINE_SENTINEL && below == stock->seen;
  if (idle) {
    magazines_flush(magazines, bin);
    stock->small = small_at_first();
  } else if (stock->low)
    stock_shrink(magazines, bin, stock->count - stock->low);
  stock->seen = below;
  stock->low = stock->count;
}

/* ---- for others ---- */

/* Readers beside the owner read whole words, which may change at any moment; what they find is exact when the owner is quiet.
 * So the loads are volatile, and the thread sanitizer is not asked about them. The links change too. They may lead a reader
 * into other magazines, but nowhere else, and not for ever.
 *
 * A block that is live all the while is never found. It was popped before the reader came, so it can only be in a word that is
 * old. From a pointer that the reader has loaded since, each way down meets a NULL before such a word: what the record lists is
 * nobody else's (leave_loaded()), below a floor is a NULL, an empty magazine ends with one, and what the slabs fill was
 * cleared. */

typedef void visit_fn(const void *block, void *context);

/* Visits entries from `top` down. Word 0 ends the visit if the NULL below the entries was missed. */
READS_BESIDE_OWNER static size_t each_entry(void *volatile *top, visit_fn *visit, void *context)
{
  size_t n = 0;
  void *entry;
  for (; (uintptr_t)top & (MAGAZINE_BYTES - 1) && (entry = *top) != NULL; top--, n++)
    visit(entry, context);
  return n;
}

/* Visits all entries of a class, and returns how many there are. */
READS_BESIDE_OWNER static size_t each(const magazines_t *magazines, unsigned c, visit_fn *visit, void *context)
{
  const volatile loaded_t *loaded = &magazines->cache->of[c];
  const volatile stock_t *stock = &magazines->of[c];
  void *volatile *magazine = stock->full;
  void *top = loaded->top, **below = loaded->below;
  size_t n = 0;
  for (unsigned i = stock->count; i && magazine; i--) {
    n += each_entry(magazine + MAGAZINE_WORDS - 1, visit, context);
    magazine = (void *volatile *)round_down((uintptr_t)magazine[0], MAGAZINE_BYTES);
  }
  if (!top)
    return n;
  visit(top, context);
  return n + 1 + each_entry(below, visit, context);
}

/* A pop or a push moves both words of its class. */
READS_BESIDE_OWNER uint64_t magazines_stamp(const magazines_t *magazines)
{
  uint64_t stamp = 0;
  for (unsigned c = 1; c <= CLASS_CACHED; c++) {
    const volatile loaded_t *loaded = &magazines->cache->of[c];
    stamp = (stamp ^ (uintptr_t)loaded->top ^ (uint64_t)(uintptr_t)loaded->below << 20) * 0x9e3779b97f4a7c15u;
  }
  return stamp;
}

/* A loaded magazine counts even if it is empty: only a flush gives it back. */
READS_BESIDE_OWNER bool magazines_any(const magazines_t *magazines)
{
  for (unsigned c = 1; c <= CLASS_CACHED; c++) {
    const volatile loaded_t *loaded = &magazines->cache->of[c];
    const volatile stock_t *stock = &magazines->of[c];
    if (loaded->below != MAGAZINE_SENTINEL || stock->full)
      return true;
  }
  return false;
}

static void just_count(const void *block, void *unused)
{
  (void)block;
  (void)unused;
}

size_t magazines_count(const magazines_t *magazines, unsigned size_class)
{
  return each(magazines, size_class, just_count, NULL);
}

typedef struct search {
  const void *block;
  bool found;
} search_t;

static void compare(const void *block, void *search)
{
  search_t *s = search;
  s->found |= s->block == block;
}

bool magazines_hold(const magazines_t *magazines, unsigned size_class, const void *block)
{
  search_t search = {block, false};
  each(magazines, size_class, compare, &search);
  return search.found;
}

void magazines_each(const magazines_t *magazines, unsigned size_class, visit_fn *visit, void *context)
{
  each(magazines, size_class, visit, context);
}
