/* SPDX-License-Identifier: MIT
 * One huge block, and questions about all: sizes, contents and addresses as it is resized, also in place, and given back in
 * steps. */
#include "mappings.h"
#include "option.h"
#include "os_fake.h"

static void sizes_and_alignments(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  must(huge_bytes(0) == PAGE && huge_bytes(1) == PAGE && huge_bytes(PAGE + 1) == 2 * PAGE);
  for (size_t alignment = 1; alignment <= 64 * MIB; alignment *= 4)
    for (size_t size = 0; size < 100 * MIB; size = size * 3 + 5000) {
      bool zeroed = false;
      huge_t *huge = huge_take(size, alignment, &owner, &owned, &zeroed);
      must(huge && zeroed && huge_size(huge) == huge_bytes(size) &&
           (uintptr_t)huge_start(huge) % max_size(alignment, PAGE) == 0);
      must(all_is_known());
      huge_start(huge)[0] = huge_start(huge)[huge_size(huge) - 1] = 1;
      huge_give(huge);
      must(all_is_known() && bytes_of(&owner) == 0 && huge_left_bytes() == 0);
    }
}

/* The memory of a long one goes before its addresses, in steps, of which there are not very many however long it is. One
 * mapping is unmapped at once where little is in it. */
enum { LONGEST_STEPS = ADDRESS_BITS == 64 ? OS_PURGE_STEPS_MOST : 12 };
#define LONGEST ((size_t)LONGEST_STEPS * OS_PURGE_STEP * (ADDRESS_BITS == 64 ? 64 : 1))
static void given_back_in_steps(void *argument)
{
  static const struct {
    size_t size, steps;
  } sizes[] = {{MIB, 0}, {OS_PURGE_STEP, 0}, {(size_t)OS_PURGE_STEP * 3 + MIB, 4}, {LONGEST, LONGEST_STEPS}};
  (void)argument;
  window_up();
  have_records();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    bool zeroed;
    huge_t *huge = huge_take(sizes[i].size, 1, &owner, &owned, &zeroed);
    must(huge);
    uint64_t purges = os_fake.count[OS_PURGE], unmaps = os_fake.count[OS_UNMAP];
    huge_give(huge);
    must(os_fake.count[OS_PURGE] - purges == sizes[i].steps && os_fake.count[OS_UNMAP] - unmaps == 1);
    must(ranges_left() == 0);
  }
  huge_t *huge = take((size_t)OS_PURGE_STEP * 3);
  uint64_t purges = os_fake.count[OS_PURGE];
  must(huge_resize(huge, MIB, true) && os_fake.count[OS_PURGE] - purges == 3);
  huge_give(huge);
}

/* Wherever it lies, its contents come along. */
static void resized(void *argument)
{
  const bool *remaps = argument;
  dice_t dice = {2};
  window_up();
  have_records();
  huge_t *huge = take(MIB), *wall = take(MIB);
  pattern_write(huge_start(huge), MIB, 1);
  size_t size = MIB;
  for (size_t i = 0; i < 200; i++) {
    size_t next = 1 + dice_below(&dice, 6 * MIB), kept = min_size(size, next);
    bool may_move = dice_below(&dice, 2);
    char *start = huge_start(huge);
    os_fake.fail_kinds = *remaps ? 0 : 1 << OS_REMAP;
    bool done = huge_resize(huge, next, may_move);
    os_fake_heal();
    must(done || (huge_start(huge) == start && huge_size(huge) == huge_bytes(size) && (!may_move || !*remaps)));
    must(may_move || huge_start(huge) == start);
    must(pattern_kept(huge_start(huge), done ? kept : size, size, i + 1));
    if (done && !*remaps && next < size)
      must(huge_size(huge) >= huge_bytes(next));
    else if (done)
      must(huge_size(huge) == huge_bytes(next));
    size = done ? huge_size(huge) : size;
    pattern_write(huge_start(huge), size, i + 2);
    must(all_is_known());
  }
  huge_give(huge);
  huge_give(wall);
}

/* Whatever does not work when it is resized: nothing changed, or it has become smaller for all that anybody can see. */
static void resized_in_vain(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  huge_t *huge = take(2 * MIB);
  pattern_write(huge_start(huge), 2 * MIB, 1);
  os_fake.fail_kinds = 1 << OS_REMAP | 1 << OS_MAP;
  char *start = huge_start(huge);
  must(!huge_resize(huge, 3 * MIB, true) && !huge_resize(huge, 3 * MIB, false) &&
       !huge_resize(huge, (size_t)15 << (ADDRESS_BITS - 4), true));
  must(huge_start(huge) == start && huge_size(huge) == 2 * MIB && pattern_holds(start, 2 * MIB, 1) && all_is_known());
  must(huge_resize(huge, 2 * MIB - 1, true) && huge_size(huge) == 2 * MIB && pattern_holds(start, 2 * MIB, 1));
  must(huge_resize(huge, MIB, true) && huge_start(huge) == start && huge_size(huge) == 2 * MIB);
  must(pattern_kept(start, MIB, 2 * MIB, 1) && all_zero(start + MIB, MIB) && all_is_known());
  os_fake_heal();
  must(!huge_resize(huge, (size_t)15 << (ADDRESS_BITS - 4), true) && pattern_kept(huge_start(huge), MIB, 2 * MIB, 1));
  must(huge_resize(huge, MIB, false) && huge_size(huge) == MIB && all_is_known());
  huge_give(huge);
}

static const char *asked_for;

static void note(huge_t *huge, void *context)
{
  must(asked_for >= huge_start(huge) && asked_for < huge_start(huge) + huge_size(huge));
  *(huge_t **)context = huge;
}

static huge_t *ask(const char *address)
{
  huge_t *found = NULL;
  asked_for = address;
  must(huge_ask(address, note, &found) == (found != NULL));
  return found;
}

static void questions(void *argument)
{
  (void)argument;
  window_up();
  bool zeroed;
  huge_t *a = huge_take(3 * MIB, 1, &owner, &owned, &zeroed), *b = huge_take(MIB, 1, &other_owner, &others, &zeroed);
  huge_t *region = huge_take(2 * MIB, 1, &owner, NULL, &zeroed);
  must(!ask(NULL) && !ask((char *)UINTPTR_MAX) && !ask((char *)&owner));
  must(!ask(huge_start(region))); /* until it is one */
  huge_hide(region, false);
  huge_t *all[] = {a, b, region};
  for (size_t i = 0; i < 3; i++)
    for (size_t at = 0; at < huge_size(all[i]); at += at % 2 ? 8191 : 1)
      must(ask(huge_start(all[i]) + at) == all[i]);
  must(ask(huge_start(a) - 1) != a && ask(huge_start(a) + huge_size(a)) != a);
  must(huge_next(&owner, NULL) == a && !huge_next(&owner, huge_start(a) + 1) && huge_next(&other_owner, NULL) == b);
  huge_hide(region, true);
  must(!ask(huge_start(region)) && !ask(huge_start(region) + MIB));
  char *was = huge_start(a);
  huge_give(a);
  must(!ask(was) && !ask(was + MIB) && !huge_next(&owner, NULL));
  huge_give(region);
  huge_t *again = take(2 * MIB);
  must(ask(huge_start(again)) == again && huge_next(&owner, NULL) == again); /* not hidden any more, and no region */
}

/* Unmapped or not, each byte that the system takes counts once. */
static void given(void *argument)
{
  (void)argument;
  window_up();
  have_records();
  uint64_t before = huge_purged_bytes();
  huge_t *huge = take(8 * MIB);
  must(huge_resize(huge, 6 * MIB, false) && huge_purged_bytes() == before + 2 * MIB);
  os_fake.fail_kinds = 1 << OS_REMAP;
  must(huge_resize(huge, 5 * MIB, false) && huge_purged_bytes() == before + 3 * MIB);
  os_fake_heal();
  huge_give(huge);
  must(huge_purged_bytes() == before + 9 * MIB);
  have_left(8 * MIB);
  before = huge_purged_bytes();
  os_fake.fail_kinds = 1 << OS_UNMAP | 1 << OS_PURGE;
  must(huge_unmap_left() == 0 && huge_purged_bytes() == before && huge_left_bytes() == 8 * MIB);
  os_fake.fail_kinds = 1 << OS_UNMAP;
  must(huge_unmap_left() == 8 * MIB && huge_purged_bytes() == before + 8 * MIB && huge_left_bytes() == 0);
  os_fake_heal();
  must(ranges_left() == 1 && huge_unmap_left() == 0 && huge_purged_bytes() == before + 8 * MIB && ranges_left() == 0);
}

IN_CHILD(sizes_and_alignments)
IN_CHILD(given_back_in_steps)

IN_CHILD(given)

WITH(resized, bool, false, true)
IN_CHILD(resized_in_vain)

IN_CHILD(questions)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sizes_and_alignments_test), cmocka_unit_test(given_test),
    cmocka_unit_test(given_back_in_steps_test),  cmocka_unit_test(resized_test),
    cmocka_unit_test(resized_in_vain_test),      cmocka_unit_test(questions_test),
  };
  return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
