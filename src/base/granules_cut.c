/* SPDX-License-Identifier: MIT
 *
 * Cuts blocks from granules and frees them. Runs of zeros are read by whole words. A run that is longer than a page skips
 * unused pages, a word of them at a time. */
#include "base/granule_rows.h"
#include "base/granules.h"

enum {
  PAGE_WORDS = GRANULE_PAGE / WORD_BITS,
  TRIES = 2,              /* windows of the request's own class, whose stretches may be too short */
  LAST_TRIES = 32,        /* windows of that class if no higher class has a stretch */
  ALIGNED_TRIES = 8,      /* windows of an aligned request's own class, whose stretches may begin in the wrong place */
  ALIGNED_LAST_TRIES = 32 /* windows of higher classes, if no stretch is long enough wherever it begins */
};

/* ---- runs of zeros ---- */

/* Returns the beginning of the free stretch that granule `i` is in: behind the last 1 below, or granule 0. */
static size_t first_of_stretch(const granules_t *g, size_t i)
{
  size_t w = i / WORD_BITS;
  word_t ones = g->map[w] & ~(word_t)0 >> (WORD_BITS - 1 - i % WORD_BITS);
  while (!ones && w) {
    if (w % PAGE_WORDS == 0) {
      size_t page = bits_previous_set(g->used, w / PAGE_WORDS - 1);
      if (!bit_test(g->used, page))
        return 0;
      w = (page + 1) * PAGE_WORDS;
    }
    ones = g->map[--w];
  }
  return ones ? w * WORD_BITS + highest_bit(ones) + 1 : 0;
}

/* Returns the end of the free stretch that begins at `i`, or with the granule before `i`; `i` if there is none. */
static inline size_t free_behind(const granules_t *g, size_t i)
{
  word_t ones = granules_bits(g, i);
  return (likely(ones) ? i + lowest_bit(ones) : granules_next_one(g, i)) - 1;
}

/* Returns the number of zeros from `i` on, at most WORD_BITS + 1. */
static inline size_t zeros_at(const granules_t *g, size_t i)
{
  word_t ones = granules_bits(g, i);
  return likely(ones) ? lowest_bit(ones) : (size_t)WORD_BITS + !bit_test(g->map, i + WORD_BITS);
}

/* Returns the beginnings of free stretches in word `w`: a zero between a one and another zero. A word has few of them. */
static inline word_t stretches_of_word(const granules_t *g, size_t w)
{
  word_t word = g->map[w], before = g->map[(ptrdiff_t)w - 1], next = g->map[w + 1];
  return (word << 1 | before >> (WORD_BITS - 1)) & ~(word | word >> 1 | next << (WORD_BITS - 1));
}

/* Finds the lowest free stretch of `least` to `end` - 1 granules that begins in word `w`; `end` is at most WORD_BITS. */
static ALWAYS_INLINE bool find_in_word(const granules_t *g, size_t w, size_t least, size_t end, word_t left, granule_fit_t *fit)
{
  for (; left; left &= left - 1) {
    size_t at = lowest_bit(left), length = zeros_at(g, w * WORD_BITS + at) - 1;
    if (length - least < end - least) {
      fit->from = w * WORD_BITS + at;
      fit->to = fit->from + length;
      return true;
    }
  }
  return false;
}

/* ---- stretches in the rows ---- */

static ALWAYS_INLINE void add_stretch(granules_t *g, unsigned c, size_t from)
{
  if (c >= CLASS_FIRST)
    row_add(g, c, window_of(c, from));
}

void granules_note_free(granules_t *g, size_t from, size_t to) { add_stretch(g, length_class(to - from), from); }

static inline bool has_in_word(const granules_t *g, size_t w, unsigned c)
{
  granule_fit_t fit;
  return find_in_word(g, w, least_of[c], least_of[c + 1], stretches_of_word(g, w), &fit);
}

/* Call it after the bits of the stretch have changed. Another stretch of its class may begin in the same word. */
static ALWAYS_INLINE void remove_stretch(granules_t *g, unsigned c, size_t from)
{
  if (c >= CLASS_FIRST && (c >= CLASS_LONG || !has_in_word(g, from / WORD_BITS, c)))
    row_remove(g, c, window_of(c, from));
}

/* ---- finding a place ---- */

/* Finds the stretch of a long class that begins in a window. Returns false if it is too short. */
NOINLINE static bool find_long(const granules_t *g, unsigned c, size_t window, size_t count, granule_fit_t *fit)
{
  fit->from = first_of_stretch(g, ((window + 1) << (WORD_LOG2 + doubling_of(c))) - 1);
  fit->to = free_behind(g, fit->from + 1);
  fit->alone = true;
  return fit->to - fit->from >= count;
}

/* Finds a stretch of class `c` in a window. Returns false if none is long enough. */
static ALWAYS_INLINE bool find_in_window(const granules_t *g, unsigned c, size_t window, size_t count, granule_fit_t *fit)
{
  if (unlikely(c >= CLASS_LONG))
    return find_long(g, c, window, count, fit);
  word_t stretches = stretches_of_word(g, window);
  fit->alone = !(stretches & (stretches - 1));
  return find_in_word(g, window, max_size(least_of[c], count), least_of[c + 1], stretches, fit);
}

/* Tries `tries` windows of a class, in the order of addresses. */
static bool find_in_class(const granules_t *g, unsigned c, size_t count, unsigned tries, granule_fit_t *fit)
{
  word_t bits;
  size_t first = row_first(g, c, &bits);
  do
    for (; bits && tries; bits &= bits - 1, tries--)
      if (find_in_window(g, c, first + lowest_bit(bits), count, fit))
        return true;
  while (tries && row_next(g, c, &first, &bits));
  return false;
}

/* The request's own class has the best fit, but its stretches may be too short. Stretches of a higher class never are. */
static ALWAYS_INLINE bool find(const granules_t *g, size_t count, granule_fit_t *fit)
{
  unsigned own = length_class(count), c;
  uint64_t classes = g->classes >> own << own;
  word_t bits;
  if (unlikely(!classes))
    return false;
  fit->count = count;
  fit->size_class = c = lowest_of_64(classes);
  size_t first = row_first(g, c, &bits);
  if (c == own) {
    unsigned tries = TRIES;
    do {
      if (find_in_window(g, c, first + lowest_bit(bits), count, fit))
        return true;
      bits &= bits - 1;
    } while (bits && --tries);
    classes &= classes - 1;
    if (unlikely(!classes))
      return false;
    fit->size_class = c = lowest_of_64(classes);
    first = row_first(g, c, &bits);
  }
  return find_in_window(g, c, first + lowest_bit(bits), count, fit);
}

/* Tries more windows of the request's own class if no higher class has a stretch. */
bool granules_find(const granules_t *g, size_t count, granule_fit_t *fit)
{
  unsigned own = length_class(count);
  uint64_t classes = g->classes >> own, higher = classes >> 1 << 1;
  bool found = (classes & 1 && find_in_class(g, own, count, higher ? TRIES : LAST_TRIES, fit)) ||
               (higher && find_in_class(g, own + lowest_of_64(higher), count, 1, fit));
  fit->count = count;
  fit->at = fit->from;
  return found;
}

/* ---- aligned ---- */

typedef struct aligned {
  size_t count, alignment, first;
} aligned_t;

/* Finds the lowest aligned place in a stretch. Returns false if there is none. */
static bool place_aligned(const aligned_t *a, granule_fit_t *fit)
{
  fit->at = round_up(fit->from + a->first, a->alignment) - a->first;
  fit->count = a->count;
  return fit->at + a->count <= fit->to;
}

static bool find_aligned_in_window(const granules_t *g, unsigned c, size_t window, const aligned_t *a, granule_fit_t *fit)
{
  if (c >= CLASS_LONG)
    return find_long(g, c, window, a->count, fit) && place_aligned(a, fit);
  size_t least = max_size(least_of[c], a->count);
  for (word_t left = stretches_of_word(g, window); left; left &= left - 1)
    if (find_in_word(g, window, least, least_of[c + 1], left & -left, fit) && place_aligned(a, fit))
      return true;
  return false;
}

/* Returns how many tries are left. */
static unsigned find_aligned_in_class(const granules_t *g, unsigned c, unsigned tries, const aligned_t *a, granule_fit_t *fit,
                                      bool *found)
{
  word_t bits;
  if (!(g->classes >> c & 1))
    return tries;
  size_t first = row_first(g, c, &bits);
  do
    for (; bits && tries; bits &= bits - 1, tries--)
      if ((*found = find_aligned_in_window(g, c, first + lowest_bit(bits), a, fit)))
        return tries;
  while (tries && row_next(g, c, &first, &bits));
  return tries;
}

/* Aligned blocks leave aligned holes, so the request's own class comes first. Next is a stretch with room wherever it begins.
 * The last resort is shorter stretches, the longest first, because they are the likeliest to fit. */
bool granules_find_aligned(const granules_t *g, size_t count, size_t alignment, size_t first, granule_fit_t *fit)
{
  aligned_t a = {count, alignment, first};
  bool found = false;
  if (count > g->count)
    return false;
  if (!HAS_SPEED)
    return (granules_find(g, count, fit) && place_aligned(&a, fit)) ||
           (granules_find(g, count + alignment - 1, fit) && place_aligned(&a, fit));
  unsigned own = length_class(count), c = length_class(count + alignment - 1) + 1, tries = ALIGNED_LAST_TRIES;
  find_aligned_in_class(g, own, ALIGNED_TRIES, &a, fit, &found);
  if (!found)
    found = granules_find(g, count + alignment - 1, fit) && place_aligned(&a, fit);
  while (!found && tries && c-- > own)
    tries = find_aligned_in_class(g, c, tries, &a, fit, &found);
  return found;
}

/* ---- the longest ---- */

static size_t longest_in_window(const granules_t *g, unsigned c, size_t window)
{
  size_t longest = 0;
  granule_fit_t fit;
  if (c >= CLASS_LONG)
    return find_long(g, c, window, 0, &fit) ? fit.to - fit.from : 0;
  for (word_t left = stretches_of_word(g, window); left; left &= left - 1) {
    size_t length = zeros_at(g, window * WORD_BITS + lowest_bit(left)) - 1;
    longest = length < least_of[c + 1] ? max_size(longest, length) : longest;
  }
  return longest;
}

/* Tries as many windows of the highest class as granules_find() does, so granules_find() finds the result. */
size_t granules_longest(const granules_t *g)
{
  size_t longest = 0;
  word_t bits;
  if (!g->classes)
    return 0;
  unsigned c = highest_of_64(g->classes), tries = LAST_TRIES;
  size_t first = row_first(g, c, &bits);
  do
    for (; bits && tries; bits &= bits - 1, tries--)
      longest = max_size(longest, longest_in_window(g, c, first + lowest_bit(bits)));
  while (tries && row_next(g, c, &first, &bits));
  return longest;
}

/* ---- taking and giving ---- */

size_t granules_unused(const granules_t *g, size_t from, size_t to)
{
  size_t page = granules_page(from), end = granules_page(to - 1) + 1;
  if (likely(end - page == 1))
    return granules_page_price(g, page);
  size_t sum = (end - page - bits_count(g->used, page, end)) * GRANULE_PAGE;
  return bit_test(g->used, end - 1) ? sum : sum - (end * GRANULE_PAGE - granules_page_end(g, end - 1));
}

/* Returns the stretch that would be free if the kept block at `kept` and those behind it, up to a live block, were given. */
static granule_piece_t piece_from(const granules_t *g, size_t kept)
{
  granule_piece_t piece = {.from = kept ? first_of_stretch(g, kept - 1) : 0, .to = kept};
  for (size_t end; piece.to < g->count && granules_begins(g, piece.to); piece.to = free_behind(g, end)) {
    end = granules_end(g, piece.to);
    if (!granules_is_kept(g, piece.to, end))
      break;
  }
  return piece;
}

/* Every kept block is tried as the first of its piece, so each piece is found. */
granule_piece_t granules_longest_piece(const granules_t *g)
{
  granule_fit_t fit;
  size_t count = granules_longest(g);
  granule_piece_t longest = {0, 0};
  if (count && granules_find(g, count, &fit))
    longest = (granule_piece_t){fit.at, fit.at + count};
  for (uint32_t lengths = granules_can_keep(g) ? granules_kept_of(g)[KEPT_LENGTHS] : 0; lengths; lengths &= lengths - 1) {
    granule_piece_t piece = piece_from(g, granules_kept_of(g)[lowest_bit(lengths) + 1u] - 1);
    if (piece.to - piece.from > longest.to - longest.from)
      longest = piece;
  }
  return longest;
}

/* Most blocks are at most WORD_BITS granules. They span at most two words; writing both costs less than a branch. */
static inline word_t ones(size_t count) { return ~(word_t)0 >> (WORD_BITS - count); }

static inline void clear_bits(word_t *map, size_t from, size_t to)
{
  if (unlikely(to - from > WORD_BITS)) {
    bits_clear(map, from, to);
    return;
  }
  word_t *word = map + from / WORD_BITS, mask = ones(to - from);
  word[0] &= ~(mask << from % WORD_BITS);
  word[1] &= ~(mask >> 1 >> (WORD_BITS - 1 - from % WORD_BITS));
}

static inline void set_bits(word_t *map, size_t from, size_t to)
{
  if (unlikely(to - from > WORD_BITS)) {
    bits_set(map, from, to);
    return;
  }
  word_t *word = map + from / WORD_BITS, mask = ones(to - from);
  word[0] |= mask << from % WORD_BITS;
  word[1] |= mask >> 1 >> (WORD_BITS - 1 - from % WORD_BITS);
}

static inline bool pages_are_used(const granules_t *g, size_t from, size_t to)
{
  size_t page = granules_page(from), last = granules_page(to - 1);
  return likely(page == last) ? bit_test(g->used, page) : bits_next_clear(g->used, page, last + 1) > last;
}

static inline void note_used(granules_t *g, size_t from, size_t to)
{
  size_t page = granules_page(from), last = granules_page(to - 1);
  if (likely(page == last))
    bit_set(g->used, page);
  else
    bits_set(g->used, page, last + 1);
}

/* The rest of a stretch is often of the same class and in the same window; then the row does not change. `alone`: no other
 * stretch of its class is known to begin in its word. */
static ALWAYS_INLINE void shorten_stretch(granules_t *g, unsigned c, size_t from, size_t to, size_t new_from, bool alone)
{
  unsigned is = length_class(to - new_from);
  size_t window = window_of(c, from);
  if (c == is && c >= CLASS_LONG && window == window_of(is, new_from))
    return;
  if (likely(alone || c >= CLASS_LONG || !has_in_word(g, from / WORD_BITS, c)))
    row_remove(g, c, window);
  add_stretch(g, is, new_from);
}

static inline void count_taken(granules_t *g, size_t count, size_t to)
{
  g->live += (uint32_t)count;
  g->blocks++;
  if (unlikely(g->taken_end < to))
    g->taken_end = (uint32_t)to;
}

void granules_take(granules_t *g, const granule_fit_t *fit)
{
  size_t at = fit->at, to = at + fit->count;
  set_bits(g->map, at + 1, to);
  note_used(g, at, to);
  shorten_stretch(g, length_class(fit->to - fit->from), fit->from, fit->to, to, false);
  if (at != fit->from)
    add_stretch(g, length_class(at - fit->from), fit->from);
  count_taken(g, fit->count, to);
}

size_t granules_cut(granules_t *g, size_t count, granules_open_fn *open, void *context)
{
  granule_fit_t fit;
  if (unlikely(!find(g, count, &fit)))
    return GRANULES_NONE;
  size_t at = fit.from, to = at + count;
  if (unlikely(!pages_are_used(g, at, to))) {
    if (!open(context, at, to))
      return GRANULES_NONE;
    note_used(g, at, to);
  }
  set_bits(g->map, at + 1, to);
  shorten_stretch(g, fit.size_class, at, fit.to, to, fit.alone);
  count_taken(g, count, to);
  return at;
}

/* Marks pages unused that are entirely within the free stretch [low, high). */
NOINLINE static size_t note_unused(granules_t *g, size_t from, size_t to, size_t low, size_t high)
{
  size_t last = granules_page(to - 1);
  size_t first = max_size(granules_page(from), granules_page(low + GRANULE_PAGE - 1));
  size_t end = high >= granules_page_end(g, last) ? last + 1 : granules_page(high);
  if (first >= end)
    return 0;
  bits_clear(g->used, first, end);
  return granules_page_end(g, end - 1) - first * GRANULE_PAGE;
}

/* Returns the beginning of the free stretch that ends at `i`; `i` if there is none. One word is nearly always enough. */
static inline size_t free_below(const granules_t *g, size_t i)
{
  const word_t *word = g->map + i / WORD_BITS;
  word_t ones = word[0] << 1 << (WORD_BITS - 1 - i % WORD_BITS) | word[-1] >> i % WORD_BITS;
  return likely(ones) ? i - (WORD_BITS - 1 - highest_bit(ones)) : first_of_stretch(g, i - 1);
}

/* The bits of [from, to) are already zeros. */
static ALWAYS_INLINE size_t join_free(granules_t *g, size_t from, size_t to)
{
  size_t low = free_below(g, from), high = free_behind(g, to);
  unsigned c = length_class(high - low), lower = length_class(from - low);
  size_t emptied = high - low >= GRANULE_PAGE || high == g->count ? note_unused(g, from, to, low, high) : 0;
  if (high != to)
    remove_stretch(g, length_class(high - to), to);
  if (lower == c)
    return emptied;
  if (low != from)
    remove_stretch(g, lower, low);
  add_stretch(g, c, low);
  return emptied;
}

size_t granules_give(granules_t *g, size_t from, size_t to)
{
  clear_bits(g->map, from + 1, to);
  g->live -= (uint32_t)(to - from);
  g->blocks--;
  return join_free(g, from, to);
}

size_t granules_shorten(granules_t *g, size_t to, size_t new_to)
{
  clear_bits(g->map, new_to, to);
  g->live -= (uint32_t)(to - new_to);
  return join_free(g, new_to, to);
}

size_t granules_behind(const granules_t *g, size_t to) { return free_behind(g, to) - to; }

void granules_lengthen(granules_t *g, size_t to, size_t new_to)
{
  size_t end = to + granules_behind(g, to);
  set_bits(g->map, to, new_to);
  note_used(g, to, new_to);
  remove_stretch(g, length_class(end - to), to);
  add_stretch(g, length_class(end - new_to), new_to);
  g->live += (uint32_t)(new_to - to);
  g->taken_end = (uint32_t)max_size(g->taken_end, new_to);
}
