/* SPDX-License-Identifier: MIT
 * A check that never fails proves nothing: each invariant is damaged once, in a process that is sound before, and check.c must
 * end that process with the invariant's name. */
#include "bin/bin.h"
#include "heap/heap.h"
#include "unit.h"
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <unistd.h>

enum { SMALL = 16, MEDIUM = 9000, LARGE = 300 << 10, HUGE = 200 << 20, SOME = 400 };

static void *small[SOME];
static pool_heap_t *parent, *child, *guest;

/* Something of everything: magazines and a stock, a partial slab, a slab that purges, a large block, a spare, a huge block, a
 * cache of another heap's, a heap with a child, and a checked one of granules. */
static void set_up(void)
{
  static char memory[20000];
  must(parent = pool_heap_create(NULL));
  must(child = pool_heap_create(&(pool_heap_options_t){.parent = parent, .budget = 64 << 20}));
  for (size_t i = 0; i < SOME; i++)
    must(small[i] = pool_alloc(SMALL));
  for (size_t i = 0; i < SOME; i += 2)
    pool_free(small[i]);
  must(pool_alloc(MEDIUM) && pool_alloc(LARGE) && pool_alloc(HUGE));
  pool_free(pool_alloc(2 * LARGE));
  must(pool_heap_alloc(parent, SMALL) && pool_heap_alloc(child, SMALL));
  must(guest =
         pool_heap_create(&(pool_heap_options_t){.memory = memory, .memory_size = sizeof memory, .flags = POOL_HEAP_CHECKED}));
  must(pool_heap_alloc(guest, SMALL) && pool_heap_alloc(guest, MEDIUM));
  must(check_everything());
}

static bin_t *pool_of(size_t size) { return default_heap.bins[size_class_of(size)]; }
static run_t *slab_of(size_t size) { return pool_of(size)->current; }
static arena_t *arena(void) { return arena_of(&space_of_process, slab_of(SMALL)->start); }
static size_t a_free_unit(void) { return bits_next_set(arena()->room.map, 0, arena()->unit_count); }
static size_t unit_of_slab(void) { return (size_t)(slab_of(SMALL) - arena()->runs); }
static loaded_t *loaded(void) { return &thread_self->default_magazines.cache->of[size_class_of(SMALL)]; }
static stock_t *stock(void) { return &thread_self->default_magazines.of[size_class_of(SMALL)]; }

static void start_at_a_free_unit(void) { bit_set(arena()->start, a_free_unit()); }
static void make_a_unit_in_use_dirty(void) { bit_set(arena()->dirty, unit_of_slab()); }
static void forget_what_is_committed(void) { arena()->committed = 0; }
static void forget_what_is_used(void) { arena()->used_end = 1; }
static void count_a_dirty_unit(void) { arena()->dirty_count++; }
static void mark_a_page_huge(void) { bit_set(arena()->huge, HUGE_PAGES_MOST - 1); }
static void make_a_hole_of_a_page_in_use(void) { bit_set(arena()->holes, 0); }
static void make_a_hole_beyond_the_end(void) { bit_set(arena()->holes, HUGE_PAGES_MOST - 1); }
static void move_a_run(void) { slab_of(SMALL)->start += UNIT; }
static void lengthen_a_run(void) { slab_of(SMALL)->units = arena()->unit_count; }
static void forget_a_start(void) { bit_clear(arena()->start, unit_of_slab()); }
static void forget_the_kind(void) { slab_of(SMALL)->kind = RUN_NONE; }
static void forget_the_owner(void) { default_heap.large->owner = NULL; }
static void count_a_unit(void) { space_of_process.used_units++; }
static void shorten_a_stretch(void) { arena()->room.node[1] -= (uint64_t)1 << (2 * SPAN_LENGTH_BITS); }
static void change_a_word(void) { arena()->room.node[arena()->room.leaves]++; }
static void free_a_block_more(void) { slab_of(SMALL)->free_count++; }
static void free_beyond_the_fresh_mark(void)
{
  run_t *slab = slab_of(SMALL);
  bit_set(slab->bitmap, slab->capacity - 1);
  slab->free_count++;
}
static void purge_a_block_in_use(void) { slab_of(MEDIUM)->purged = ~(word_t)0; }
static void write_the_default_plane(void) { class_map_set(arena()->base + (a_free_unit() << UNIT_LOG2), 1, true, 1); }
static void write_the_heap_plane(void) { class_map_set(arena()->base + (a_free_unit() << UNIT_LOG2), 1, false, 1); }

static void have_a_block_out(void) { pool_of(SMALL)->outstanding++; }
static void count_a_slab(void) { pool_of(SMALL)->slab_count++; }
static void put_into_another_list(void) { slab_of(SMALL)->list = SLAB_RESET; }
static void lose_a_slab(void)
{
  bin_t *bin = pool_of(MEDIUM);
  must(bin->slab_count == 1);
  default_heap.budget.held -= run_bytes(bin->current);
  memset(bin->slabs, 0, sizeof bin->slabs);
  bin->current = NULL;
  bin->slab_count = bin->partial_count = 0;
  bin->capacity = bin->outstanding = bin->idle = 0;
}
static void leave_magazines_uncounted(void)
{
  depots_begin(pool_of(SMALL));
  pool_of(SMALL)->depots.of[0].uncounted++;
  pool_of(SMALL)->depots.count--;
}
static void count_a_magazine(void) { pool_of(SMALL)->depots.count++; }
static void shrink_the_magazines(void) { pool_of(SMALL)->magazine_capacity = 1; }
static void lift_the_low_mark(void)
{
  depots_begin(pool_of(SMALL));
  pool_of(SMALL)->depots.of[0].low = 1000;
}
/* A fork would not look at these. */
static void use_depots_that_are_in_no_list(void) { pool_of(SMALL)->depots.shards = DEPOT_SHARDS; }
static void have_depots_that_are_not_in_use(void)
{
  static depot_t depots[DEPOT_SHARDS];
  pool_of(SMALL)->depots.of = depots;
}
/* What it put into a depot stays there for ever. */
static void be_due_no_more(void)
{
  bin_t *bin = pool_of(SMALL);
  unsigned k = bin->magazine_capacity;
  void **floor = bin_new_magazine(bin, k, 0);
  *floor = NULL;
  must(bin_take(bin, floor + 1, k, NULL) == k);
  bin_give_magazine(bin, floor + k, 0);
  bin->due = false;
}
static void have_an_idle_block(void) { pool_of(MEDIUM)->idle++; }

static void point_inside_a_block(void) { loaded()->top = (char *)loaded()->top + 8; }
static void point_nowhere(void) { loaded()->top = small; }
static void point_at_another_class(void) { loaded()->top = slab_of(MEDIUM)->start; }
static void hold_a_block_twice(void) { *loaded()->below = loaded()->top; }
static void hold_a_fresh_block(void) { loaded()->top = slab_of(SMALL)->start + (slab_of(SMALL)->capacity - 1) * SMALL; }
static void fill_the_magazine_beyond_its_floor(void)
{
  void **floor = loaded()->below;
  size_t next = 1;
  while ((uintptr_t)floor & (MAGAZINE_BYTES - 1) && *floor)
    floor--;
  for (; (uintptr_t)floor & (MAGAZINE_BYTES - 1); floor--, next += 2)
    *floor = small[next]; /* a block in use, so it is in no other place */
}
static void write_into_the_magazine_of_all(void) { magazine_sentinel[5] = small; }
static void count_a_full_magazine(void) { stock()->count++; }
static void have_a_magazine_without_a_bin(void) { thread_self->default_magazines.cache->of[0].top = small; }

static void count_a_thread(void) { bin_threads++; }
static void lead_back_to_nobody(void) { thread_self->previous = thread_self; }
static void be_no_thread_of_the_list(void)
{
  static thread_t other;
  other = *thread_self;
  thread_self = &other;
}
static heap_cache_t *first_cache(void) { return thread_next_cache(thread_self, NULL); }
static void cache_a_heap_that_is_gone(void) { first_cache()->heap = (pool_heap_t *)small; }
static void cache_a_heap_twice(void) { first_cache()->heap = thread_next_cache(thread_self, first_cache())->heap; }
static void count_a_cache(void) { thread_self->cache_count++; }
static void be_due_in_no_list(void) { thread_self->due_first->due = false; }
static void count_a_cache_that_is_due(void) { thread_self->due_count++; }
static void not_lead_back_from_the_end(void) { thread_self->due_last = NULL; }
static void put_a_heap_into_a_wrong_slot(void) { thread_self->heap_at[(cache_slot_of(parent) + 1) % CACHE_SLOTS] = parent; }

static granules_t *granules(void) { return &guest->region.granules; }
static void lose_a_beginning(void) { bit_set(granules()->map, 0); }
static void lose_the_end(void) { bit_set(granules()->map, granules()->count); }
/* By words, as the library does: where the lowest bits of one are is up to the machine. */
static void change_row(unsigned c, word_t cleared, word_t changed)
{
  char *row = (char *)(uintptr_t)granules_row(granules(), c).bits;
  word_t word;
  memcpy(&word, row, sizeof word);
  word = (word & ~cleared) ^ changed;
  memcpy(row, &word, sizeof word);
}
static void forget_a_free_stretch(void)
{
  for (unsigned c = 0; c < GRANULE_CLASSES; c++)
    if (granules()->classes & bit_of(c))
      change_row(c, 0xff, 0);
}
static void invent_a_free_stretch(void) { change_row(GRANULES_LEAST, 0, 1); }
static void forget_a_class(void) { granules()->classes = 0; }
static void use_an_empty_page(void) { bit_set(granules()->used, granules()->count / GRANULE_PAGE); }
static void not_use_a_page(void) { bit_clear(granules()->used, 0); }
static void count_a_live_granule(void) { granules()->live++; }
static void count_a_block(void) { granules()->blocks++; }
static void pay_for_no_page(void) { guest->budget.held = 0; }
static void write_to_a_free_granule(void) { guest->region.base[(granules_next(granules(), 2) + 600) * GRANULE] ^= 1; }

static void charge_another(void) { pool_of(SMALL)->budget = NULL; }
static void destroy_in_the_list(void) { child->mark = 0; }
static void hold_a_byte(void) { default_heap.budget.held++; }
static void hold_more_than_ever(void) { default_heap.budget.peak = 0; }
static void hold_more_than_allowed(void) { child->budget.limit = 1; }
static void count_a_large_block(void) { default_heap.large_blocks++; }
static void count_large_bytes(void) { default_heap.large_bytes++; }
static void lose_the_large_blocks(void) { default_heap.large = NULL; }
static void overfill_a_large_block(void) { default_heap.large->size = HUGE; }
static void have_an_uncounted_spare(void) { thread_self->spares.of[3][3] = default_heap.large; }
static void allow_a_byte(void) { thread_self->allowance.allowed++, thread_self->allowance.left++; }
static void use_a_byte(void) { thread_self->allowance.left--; }
static void use_a_byte_in_heaps(void) { thread_self->allowance.of_heaps++; }
static void hide_an_unused_slab(void)
{
  pool_free(pool_alloc(3000));
  heap_flush_magazines(&thread_self->default_magazines, &default_heap);
  pool_of(3000)->may_have_unused = false;
}
static void count_a_user(void) { parent->users++; }
static void lead_back_to_no_heap(void) { parent->previous = parent; }

#define DAMAGE(name, damage) \
  { \
    name, #damage, damage \
  }
static const struct damage {
  const char *name, *how;
  void (*damage)(void);
} damages[] = {
  DAMAGE("A1", start_at_a_free_unit),
  DAMAGE("A1", make_a_unit_in_use_dirty),
  DAMAGE("A1", forget_what_is_committed),
  DAMAGE("arena.used_end", forget_what_is_used),
  DAMAGE("A2", move_a_run),
  DAMAGE("A2", lengthen_a_run),
  DAMAGE("A2", forget_a_start),
  DAMAGE("A2", forget_the_kind),
  DAMAGE("A2", forget_the_owner),
  DAMAGE("A3", count_a_unit),
  DAMAGE("A4", count_a_dirty_unit),
  DAMAGE("A5", mark_a_page_huge),
  DAMAGE("A5", make_a_hole_beyond_the_end),
  DAMAGE("A6", make_a_hole_of_a_page_in_use),
  DAMAGE("F1", shorten_a_stretch),
  DAMAGE("F1", change_a_word),
  DAMAGE("R1", lose_a_beginning),
  DAMAGE("R1", lose_the_end),
  DAMAGE("R2", forget_a_free_stretch),
  DAMAGE("R2", invent_a_free_stretch),
  DAMAGE("R2", forget_a_class),
  DAMAGE("R3", use_an_empty_page),
  DAMAGE("R3", not_use_a_page),
  DAMAGE("R4", count_a_live_granule),
  DAMAGE("R4", count_a_block),
  DAMAGE("G1", pay_for_no_page),
  DAMAGE("G2", write_to_a_free_granule),
  DAMAGE("S1", free_a_block_more),
  DAMAGE("S1", free_beyond_the_fresh_mark),
  DAMAGE("S3", purge_a_block_in_use),
  DAMAGE("M1", write_the_default_plane),
  DAMAGE("M1", write_the_heap_plane),
  DAMAGE("B1", have_a_block_out),
  DAMAGE("B2", count_a_slab),
  DAMAGE("B2", put_into_another_list),
  DAMAGE("B2", lose_a_slab),
  DAMAGE("D1", count_a_magazine),
  DAMAGE("D1", leave_magazines_uncounted),
  DAMAGE("D1", shrink_the_magazines),
  DAMAGE("D1", lift_the_low_mark),
  DAMAGE("D2", be_due_no_more),
  DAMAGE("D3", use_depots_that_are_in_no_list),
  DAMAGE("D3", have_depots_that_are_not_in_use),
  DAMAGE("B3", have_an_idle_block),
  DAMAGE("B4", hide_an_unused_slab),
  DAMAGE("W1", allow_a_byte),
  DAMAGE("W2", use_a_byte),
  DAMAGE("W2", use_a_byte_in_heaps),
  DAMAGE("C1", point_inside_a_block),
  DAMAGE("C1", point_nowhere),
  DAMAGE("C1", point_at_another_class),
  DAMAGE("C1", fill_the_magazine_beyond_its_floor),
  DAMAGE("C1", write_into_the_magazine_of_all),
  DAMAGE("C1", have_a_magazine_without_a_bin),
  DAMAGE("S2", hold_a_block_twice),
  DAMAGE("S2", hold_a_fresh_block),
  DAMAGE("C2", count_a_full_magazine),
  DAMAGE("T1", count_a_thread),
  DAMAGE("T1", lead_back_to_nobody),
  DAMAGE("T1", be_no_thread_of_the_list),
  DAMAGE("thread.chains", cache_a_heap_that_is_gone),
  DAMAGE("thread.chains", cache_a_heap_twice),
  DAMAGE("thread.chains", count_a_cache),
  DAMAGE("thread.due_first", be_due_in_no_list),
  DAMAGE("thread.due_first", count_a_cache_that_is_due),
  DAMAGE("thread.due_first", not_lead_back_from_the_end),
  DAMAGE("thread.heap_at", put_a_heap_into_a_wrong_slot),
  DAMAGE("H1", charge_another),
  DAMAGE("H1", destroy_in_the_list),
  DAMAGE("H2", hold_a_byte),
  DAMAGE("H2", hold_more_than_ever),
  DAMAGE("H2", hold_more_than_allowed),
  DAMAGE("H3", count_a_large_block),
  DAMAGE("H3", count_large_bytes),
  DAMAGE("H3", lose_the_large_blocks),
  DAMAGE("H3", overfill_a_large_block),
  DAMAGE("H3", have_an_uncounted_spare),
  DAMAGE("heap.users", count_a_user),
  DAMAGE("heap.next", lead_back_to_no_heap),
};

static void break_one(void *argument)
{
  const struct damage *one = argument;
  set_up();
  one->damage();
  dprintf(STDERR_FILENO, "(%s) ", one->how);
  check_everything();
}

static void each_is_found(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    char words[64];
    snprintf(words, sizeof words, "tidepool: check: %s violated: ", damages[i].name);
    aborts_with(break_one, (void *)(uintptr_t)&damages[i], words);
  }
}

static void be_sound(void *none)
{
  (void)none;
  set_up();
}

static void what_is_sound_passes(void **state)
{
  (void)state;
  in_child(be_sound, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_sound_passes),
    cmocka_unit_test(each_is_found),
  };
  return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
