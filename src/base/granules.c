/* SPDX-License-Identifier: MIT
 *
 * What is read from the bits is runs of ones, by whole words. A run that is longer than a page passes over pages that are not
 * used, 64 at a time. */
#include "base/granules.h"
#include <string.h>

enum {
  PAGE_WORDS = GRANULE_PAGE / WORD_BITS,
  CLASSES = 64,
  CLASS_STEPS = 4,              /* to a doubling */
  CLASS_FIRST = GRANULES_LEAST, /* shorter stretches are of no use */
  CLASS_EXACT = 8,              /* stretches that are shorter have a class for each length */
  CLASS_LONG = 20,              /* of WORD_BITS granules */
  SHORT_ROWS = CLASS_LONG - CLASS_FIRST,
  LONG_MOST = (CLASSES - CLASS_LONG) / CLASS_STEPS, /* doublings */
  TRIES = 4,      /* stretches of the request's own class that are looked at: they may be too short */
  LAST_TRIES = 32 /* the same where there is no longer one */
};

/* ---- classes ---- */

static inline unsigned length_class(size_t length)
{
  if (length < CLASS_EXACT)
    return (unsigned)length;
  unsigned log2 = log2_floor(length);
  return (unsigned)min_size(CLASS_STEPS * (log2 - 2) + (length >> (log2 - 2)), CLASSES - 1);
}

/* The shortest length of a short class; that of the next one is where the class ends. */
static const uint8_t least_of[CLASS_LONG + 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64};

/* ---- rows ---- */

/* A window of the classes of one doubling has 2^(6+k) granules, so k doublings further there are so many fewer of them. That is
 * reckoned for 2 `words`, of which a doubling takes the larger half, and one more in each row. */
static inline unsigned doubling_of(unsigned c) { return c < CLASS_LONG ? 0 : (c - CLASS_LONG) / CLASS_STEPS; }

static inline size_t row_bits(const granules_t *g, unsigned c) { return ((g->words - 1u) >> doubling_of(c)) + 1u; }

static size_t long_rows_end(size_t words, unsigned k) { return CLASS_STEPS * (2 * words - (2 * words >> k) + k); }

static inline size_t row_begin(const granules_t *g, unsigned c)
{
  if (c < CLASS_LONG)
    return (size_t)(c - CLASS_FIRST) * g->words;
  unsigned k = doubling_of(c);
  return (size_t)SHORT_ROWS * g->words + long_rows_end(g->words, k) + c % CLASS_STEPS * row_bits(g, c);
}

static inline size_t window_of(unsigned c, size_t from) { return from >> (6 + doubling_of(c)); }

/* Returns the first bit in [from, end); `end`: none. */
static inline size_t next_in_row(const granules_t *g, size_t from, size_t end)
{
  size_t w = from / WORD_BITS;
  uint64_t word = g->rows[w] & ~(uint64_t)0 << from % WORD_BITS;
  while (!word && ++w * WORD_BITS < end)
    word = g->rows[w];
  return word ? min_size(w * WORD_BITS + (size_t)__builtin_ctzll(word), end) : end;
}

/* ---- runs of ones ---- */

/* Returns the first 0 at or behind `i`. The last is behind the end. */
static inline size_t next_zero(const granules_t *g, size_t i)
{
  size_t w = i / WORD_BITS;
  uint64_t zeros = ~g->map[w] & ~(uint64_t)0 << i % WORD_BITS;
  while (!zeros) {
    if (++w % PAGE_WORDS == 0) {
      size_t pages = (g->count + GRANULE_PAGE - 1) / GRANULE_PAGE, page = bits_next_set(g->used, w / PAGE_WORDS, pages);
      if (page == pages)
        return g->count + 1;
      w = page * PAGE_WORDS;
    }
    zeros = ~g->map[w];
  }
  return w * WORD_BITS + (size_t)__builtin_ctzll(zeros);
}

/* Returns where the free stretch begins that granule `i` is in: behind the last 0 below, or at the beginning of all. */
static inline size_t first_of_stretch(const granules_t *g, size_t i)
{
  size_t w = i / WORD_BITS;
  uint64_t zeros = ~g->map[w] & ~(uint64_t)0 >> (WORD_BITS - 1 - i % WORD_BITS);
  while (!zeros && w) {
    if (w % PAGE_WORDS == 0) {
      size_t page = bits_previous_set(g->used, w / PAGE_WORDS - 1);
      if (!bit_test(g->used, page))
        return 0;
      w = (page + 1) * PAGE_WORDS;
    }
    zeros = ~g->map[--w];
  }
  return zeros ? w * WORD_BITS + log2_floor(zeros) + 1 : 0;
}

/* Finds the lowest free stretch of at least `least` and fewer than `end` granules, `end` at most a word of them, that begins in
 * a word. A one behind a zero and before another one begins a stretch, which may end in the next word. Few begin in a word. */
static inline size_t stretch_in(const granules_t *g, size_t w, size_t least, size_t end)
{
  uint64_t word = g->map[w], carry = w ? g->map[w - 1] >> (WORD_BITS - 1) : 0, next = g->map[w + 1];
  for (uint64_t starts = word & ~(word << 1 | carry) & (word >> 1 | next << (WORD_BITS - 1)); starts; starts &= starts - 1) {
    size_t at = (size_t)__builtin_ctzll(starts), zero;
    uint64_t zeros = ~word & ~(uint64_t)0 << at;
    if (likely(zeros))
      zero = (size_t)__builtin_ctzll(zeros);
    else
      zero = WORD_BITS + (~next ? (size_t)__builtin_ctzll(~next) : WORD_BITS);
    if (zero - 1 - at - least < end - least)
      return w * WORD_BITS + at;
  }
  return GRANULES_NONE;
}

/* ---- the index ---- */

size_t granules_row_bit(const granules_t *g, size_t from, size_t to)
{
  unsigned c = length_class(to - from);
  return c < CLASS_FIRST ? GRANULES_NONE : row_begin(g, c) + window_of(c, from);
}

static void add_stretch(granules_t *g, size_t from, size_t to)
{
  unsigned c = length_class(to - from);
  if (c < CLASS_FIRST)
    return;
  bit_set(g->rows, row_begin(g, c) + window_of(c, from));
  g->classes |= bit_of(c);
}

/* Called when the bits say already that the stretch has gone. Another one of its class may begin in the same word. */
static void remove_stretch(granules_t *g, size_t from, size_t to)
{
  unsigned c = length_class(to - from);
  if (c >= CLASS_FIRST && (c >= CLASS_LONG || stretch_in(g, from / WORD_BITS, least_of[c], least_of[c + 1]) == GRANULES_NONE))
    bit_clear(g->rows, row_begin(g, c) + window_of(c, from));
}

/* The word behind the last is read with it. Stretches of a class that was never seen have rows all the same. */
static size_t granule_map_words(size_t count) { return bits_words(count + 2) + 1; }

static size_t rows_words(size_t words)
{
  return bits_words(SHORT_ROWS * words + long_rows_end(words, (unsigned)min_size(log2_floor(words) + 1, LONG_MOST)));
}

size_t granules_rows_bits(const granules_t *g) { return rows_words(g->words) * WORD_BITS; }

size_t granules_index_bytes(size_t count)
{
  size_t words = bits_words(count), pages = (count + GRANULE_PAGE - 1) / GRANULE_PAGE;
  return (granule_map_words(count) + rows_words(words) + bits_words(pages)) * sizeof(uint64_t);
}

void granules_init(granules_t *g, void *index, size_t count)
{
  memset(index, 0, granules_index_bytes(count));
  *g = (granules_t){.map = index, .count = (uint32_t)count, .words = (uint32_t)bits_words(count)};
  g->rows = g->map + granule_map_words(count);
  g->used = g->rows + rows_words(g->words);
  bits_set(g->map, 0, count + 1);
  add_stretch(g, 0, count);
}

/* ---- finding a place ---- */

/* Looks at stretches of a class, by address, for one that is long enough. `tries` of them at most. */
static inline bool find_in_class(granules_t *g, unsigned c, size_t count, unsigned tries, granule_fit_t *fit)
{
  size_t row = row_begin(g, c), end = row + row_bits(g, c), bit = next_in_row(g, row, end);
  if (bit == end)
    g->classes &= ~bit_of(c);
  for (; tries-- && bit < end; bit = next_in_row(g, bit + 1, end)) {
    size_t window = bit - row;
    if (c < CLASS_LONG) {
      fit->from = stretch_in(g, window, max_size(least_of[c], count), least_of[c + 1]);
      if (fit->from == GRANULES_NONE)
        continue;
    } else
      fit->from = first_of_stretch(g, ((window + 1) << (6 + doubling_of(c))) - 1);
    fit->to = next_zero(g, fit->from + 1) - 1;
    if (fit->to - fit->from >= count)
      return true;
  }
  return false;
}

/* The request's own class has the best fit, but what is tried there may be too short. A stretch of a higher class never is. If
 * there is none, more is tried. */
bool granules_find(granules_t *g, size_t count, granule_fit_t *fit)
{
  unsigned own = length_class(count);
  uint64_t higher = own < CLASSES - 1 ? g->classes & ~(uint64_t)1 << own : 0;
  fit->count = count;
  bool found = g->classes >> own & 1 && find_in_class(g, own, count, TRIES, fit);
  for (; !found && higher; higher &= higher - 1)
    found = find_in_class(g, (unsigned)__builtin_ctzll(higher), count, 1, fit);
  if (!found)
    found = g->classes >> own & 1 && find_in_class(g, own, count, LAST_TRIES, fit);
  fit->at = fit->from;
  return found;
}

/* What begins at no multiple of the alignment is cut from a stretch that has room for it wherever it begins. */
bool granules_find_aligned(granules_t *g, size_t count, size_t alignment, size_t first, granule_fit_t *fit)
{
  if (count > g->count || alignment > g->count || !granules_find(g, count + alignment - 1, fit))
    return false;
  fit->at = round_up(fit->from + first, alignment) - first;
  fit->count = count;
  return true;
}

/* As granules_find() does: in the highest class it looks at as many stretches, so it finds no longer one. */
size_t granules_longest(granules_t *g)
{
  size_t longest = 0;
  for (uint64_t classes = g->classes; classes && !longest; classes = g->classes & (bit_of(log2_floor(classes)) - 1)) {
    granule_fit_t fit;
    for (unsigned c = log2_floor(classes); find_in_class(g, c, longest + 1, LAST_TRIES, &fit);)
      longest = fit.to - fit.from;
  }
  return longest;
}

/* ---- taking and giving ---- */

static inline size_t page_of(size_t i) { return i / GRANULE_PAGE; }
static inline size_t end_of_page(const granules_t *g, size_t page) { return min_size((page + 1) * GRANULE_PAGE, g->count); }
static inline size_t price_of(const granules_t *g, size_t page)
{
  return bit_test(g->used, page) ? 0 : end_of_page(g, page) - page * GRANULE_PAGE;
}

size_t granules_unused(const granules_t *g, size_t from, size_t to)
{
  size_t sum = 0;
  for (size_t page = page_of(from); page <= page_of(to - 1); page++)
    sum += price_of(g, page);
  return sum;
}

/* A word is nearly always enough. */
static inline void clear_bits(uint64_t *map, size_t from, size_t to)
{
  if (from / WORD_BITS == to / WORD_BITS)
    map[from / WORD_BITS] &= ~(bit_of(to) - bit_of(from));
  else
    bits_clear(map, from, to);
}

static inline void set_bits(uint64_t *map, size_t from, size_t to)
{
  if (from / WORD_BITS == to / WORD_BITS)
    map[from / WORD_BITS] |= bit_of(to) - bit_of(from);
  else
    bits_set(map, from, to);
}

static inline void note_used(granules_t *g, size_t from, size_t to)
{
  for (size_t page = page_of(from); page <= page_of(to - 1); page++)
    bit_set(g->used, page);
}

void granules_take(granules_t *g, const granule_fit_t *fit)
{
  size_t at = fit->at, to = at + fit->count;
  clear_bits(g->map, at + 1, to);
  note_used(g, at, to);
  remove_stretch(g, fit->from, fit->to);
  if (at != fit->from)
    add_stretch(g, fit->from, at);
  if (to != fit->to)
    add_stretch(g, to, fit->to);
  g->live += (uint32_t)fit->count;
  g->blocks++;
  g->taken_end = (uint32_t)max_size(g->taken_end, to);
}

/* The bits of [from, to) are ones now. A page that lies in the free stretch as a whole is not used any more. */
static size_t join_free(granules_t *g, size_t from, size_t to)
{
  size_t low = from && bit_test(g->map, from - 1) ? first_of_stretch(g, from - 1) : from;
  size_t high = to < g->count && bit_test(g->map, to + 1) ? next_zero(g, to + 1) - 1 : to, emptied = 0;
  for (size_t page = page_of(from); page <= page_of(to - 1); page++)
    if (low <= page * GRANULE_PAGE && high >= end_of_page(g, page)) {
      bit_clear(g->used, page);
      emptied += end_of_page(g, page) - page * GRANULE_PAGE;
    }
  if (low != from)
    remove_stretch(g, low, from);
  if (high != to)
    remove_stretch(g, to, high);
  add_stretch(g, low, high);
  return emptied;
}

size_t granules_give(granules_t *g, size_t from, size_t to)
{
  set_bits(g->map, from + 1, to);
  g->live -= (uint32_t)(to - from);
  g->blocks--;
  return join_free(g, from, to);
}

size_t granules_shorten(granules_t *g, size_t to, size_t new_to)
{
  set_bits(g->map, new_to, to);
  g->live -= (uint32_t)(to - new_to);
  return join_free(g, new_to, to);
}

size_t granules_behind(const granules_t *g, size_t to)
{
  return to < g->count && bit_test(g->map, to + 1) ? next_zero(g, to + 1) - 1 - to : 0;
}

void granules_lengthen(granules_t *g, size_t to, size_t new_to)
{
  size_t end = to + granules_behind(g, to);
  clear_bits(g->map, to, new_to);
  note_used(g, to, new_to);
  remove_stretch(g, to, end);
  if (new_to != end)
    add_stretch(g, new_to, end);
  g->live += (uint32_t)(new_to - to);
  g->taken_end = (uint32_t)max_size(g->taken_end, new_to);
}

/* ---- questions ---- */

size_t granules_end(const granules_t *g, size_t from) { return bits_next_set(g->map, from + 1, g->count + 1); }

/* A block's bits are a one and zeros, so the last one at or below any of its granules is its first. */
size_t granules_around(const granules_t *g, size_t i)
{
  if (i >= g->count || (bit_test(g->map, i) && bit_test(g->map, i + 1)))
    return GRANULES_NONE;
  return bits_previous_set(g->map, i);
}

/* A free stretch ends where the next block begins, or at the end. */
size_t granules_next(const granules_t *g, size_t i)
{
  if (i < g->count && !bit_test(g->map, i))
    i = bits_next_set(g->map, i, g->count);
  if (i < g->count && bit_test(g->map, i + 1))
    i = next_zero(g, i + 1) - 1;
  return i < g->count ? i : GRANULES_NONE;
}

/* ---- where not everything can be paid for ---- */

/* Returns where the first free stretch at or behind `i` begins, and its end; GRANULES_NONE: there is none. `i` is where a block
 * or a stretch begins. */
static size_t next_stretch(const granules_t *g, size_t i, size_t *end)
{
  while (granules_begins(g, i))
    i = granules_end(g, i);
  if (i >= g->count)
    return GRANULES_NONE;
  *end = next_zero(g, i + 1) - 1;
  return i;
}

/* Only the pages at the two ends of a stretch may be used already, so a block costs the least at one of its ends. */
bool granules_find_within(const granules_t *g, size_t count, size_t room, granule_fit_t *fit)
{
  size_t end = 0;
  for (size_t from = 0; (from = next_stretch(g, from, &end)) != GRANULES_NONE; from = end) {
    if (end - from < count)
      continue;
    size_t at = granules_unused(g, from, from + count) <= room ? from : end - count;
    if (granules_unused(g, at, at + count) > room)
      continue;
    *fit = (granule_fit_t){.at = at, .count = count, .from = from, .to = end};
    return true;
  }
  return false;
}

/* These return how much of a stretch can be paid for from its beginning on, and from its end. */
static size_t longest_from_low(const granules_t *g, size_t from, size_t to, size_t room)
{
  size_t at = from;
  for (size_t page = page_of(from); at < to && price_of(g, page) <= room; page++) {
    room -= price_of(g, page);
    at = min_size(to, end_of_page(g, page));
  }
  return at - from;
}

static size_t longest_from_high(const granules_t *g, size_t from, size_t to, size_t room)
{
  size_t at = to;
  for (size_t page = page_of(to - 1); at > from && price_of(g, page) <= room; page--) {
    room -= price_of(g, page);
    at = max_size(from, page * GRANULE_PAGE);
  }
  return to - at;
}

size_t granules_longest_within(const granules_t *g, size_t room)
{
  size_t longest = 0, end = 0;
  for (size_t from = 0; (from = next_stretch(g, from, &end)) != GRANULES_NONE; from = end)
    longest = max_size(longest, max_size(longest_from_low(g, from, end, room), longest_from_high(g, from, end, room)));
  return longest;
}
