/* SPDX-License-Identifier: MIT
 * Pages for blocks that lie by themselves: never two in one place, zeroed where that is said, and had again. The system may
 * refuse any of them. */
#include "debug/sample_pages.h"
#include "os_fake.h"
#include "unit.h"

enum { PLACES = 200, MODEL_STEPS = 20000 };
#define MIB ((size_t)1 << 20)

typedef struct place {
  char *at;
  size_t size;
  uint64_t key;
} place_t;

static void no_overlap(const place_t *places, const place_t *with)
{
  for (size_t i = 0; i < PLACES; i++)
    must(&places[i] == with || !places[i].at || places[i].at + places[i].size <= with->at ||
         with->at + with->size <= places[i].at);
}

static void step(place_t *places, dice_t *dice)
{
  place_t *place = &places[dice_below(dice, PLACES)];
  bool zeroed = false;
  if (place->at) {
    must(pattern_holds(place->at, place->size, place->key));
    sample_pages_give(place->at, place->size);
    place->at = NULL;
    return;
  }
  place->size = os_fake.page_size * (1 + dice_below(dice, (size_t)1 << dice_below(dice, 8)));
  place->at = sample_pages_take(place->size, &zeroed);
  must(place->at || os_fake.fail_kinds);
  if (!place->at)
    return;
  must((uintptr_t)place->at % os_fake.page_size == 0 && (!zeroed || all_zero(place->at, place->size)));
  no_overlap(places, place);
  pattern_write(place->at, place->size, place->key = dice_roll(dice));
}

static void model(void *argument)
{
  static place_t places[PLACES];
  dice_t dice = {*(const uint64_t *)argument};
  size_t taken = 0;
  os_fake_heal();
  for (size_t i = 0; i < MODEL_STEPS; i++) {
    if (i % 100 == 0)
      os_fake.fail_kinds = dice_below(&dice, 3) ? 0 : 1u << OS_PURGE | (dice_below(&dice, 2) ? 1u << OS_OPEN : 0);
    if (i % 1000 == 999)
      sample_pages_trim();
    step(places, &dice);
  }
  os_fake_heal();
  for (size_t i = 0; i < PLACES; i++)
    if (places[i].at) {
      taken += places[i].size;
      sample_pages_give(places[i].at, places[i].size);
    }
  must(taken != 0);
  sample_pages_trim();
  must(sample_pages_kept() == 0);
}

static void at_random(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++)
    in_child(model, &seed);
}

/* What free pages keep is bounded by what is taken, or a MiB. */
static void little_is_kept(void *unused)
{
  static char *all[2000];
  bool zeroed;
  (void)unused;
  os_fake_heal();
  size_t page = os_fake.page_size, mapped = os_fake.mapped_bytes;
  for (size_t i = 0; i < 2000; i++) {
    must((all[i] = sample_pages_take(page, &zeroed)) && zeroed);
    all[i][0] = 1;
  }
  for (size_t i = 0; i < 2000; i++) {
    sample_pages_give(all[i], page);
    must(sample_pages_kept() <= max_size(MIB, page * (2000 - i)));
  }
  must(sample_pages_kept() <= MIB && os_fake.mapped_bytes >= mapped);
  must(sample_pages_take(page, &zeroed) == all[0]);
}

static void kept(void **state)
{
  (void)state;
  in_child(little_is_kept, NULL);
}

/* Each of what is needed for the first is refused once; then it is there. */
static void refused(void *unused)
{
  bool zeroed;
  (void)unused;
  os_fake_heal();
  size_t mapped = os_fake.mapped_bytes;
  uint64_t first = os_fake.calls + 1, n = first;
  for (void *at = NULL; !at; n++) {
    os_fake.reserved_most = n == first; /* where the first try is refused, so are shorter ones */
    os_fake.fail_from = os_fake.calls + 1 + (n - first);
    os_fake.fail_to = os_fake.fail_from + 1;
    uint64_t failed = os_fake.failed;
    at = sample_pages_take(os_fake.page_size, &zeroed);
    must(!at == (os_fake.failed > failed));
    must(at || n > first + 1 || os_fake.mapped_bytes == mapped);
  }
  must(n - first >= 3 && zeroed);
}

/* A limit on addresses that was set late shows as a refusal: then a small part of what there is is taken. */
static void limited_late(void *unused)
{
  bool zeroed;
  size_t bytes;
  (void)unused;
  os_fake_heal();
  os_fake.reserved_most = ADDRESS_BITS == 64 ? 100 * MIB : 50 * MIB;
  must(sample_pages_take(os_fake.page_size, &zeroed) && zeroed);
  sample_pages_stretch(&bytes);
  must(bytes == 2 * MIB);
}

static void late_limits(void **state)
{
  (void)state;
  in_child(limited_late, NULL);
}

static void refusals(void **state)
{
  (void)state;
  in_child(refused, NULL);
}

/* There is an end to them. */
static void all_taken(void *unused)
{
  bool zeroed;
  char *first = NULL, *last = NULL, *at;
  size_t count = 0, bytes = 256 * os_fake.page_size;
  (void)unused;
  os_fake_heal();
  for (; (at = sample_pages_take(bytes, &zeroed)) != NULL; last = at, count++)
    first = first ? first : at;
  must(count > 16 && last == first + (count - 1) * bytes);
  must(!sample_pages_take(bytes, &zeroed));
  sample_pages_give(first, bytes);
  must(sample_pages_take(bytes, &zeroed) == first && zeroed == false);
}

static void the_end(void **state)
{
  (void)state;
  in_child(all_taken, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(at_random),   cmocka_unit_test(kept),    cmocka_unit_test(refusals),
    cmocka_unit_test(late_limits), cmocka_unit_test(the_end),
  };
  return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
