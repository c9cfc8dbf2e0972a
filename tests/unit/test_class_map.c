/* SPDX-License-Identifier: MIT
 * The window comes up or does not, its slots are opened one after the other, and the map says of every address there is what
 * was written for it. */
#include "os/os.h"
#include "os_fake.h"
#include "space/class_map.h"
#include "unit.h"
#include <sys/mman.h>

enum { A_CLASS = 77, BYTES_OF_SLOT = 2 * (1 << (SLOT_LOG2 - UNIT_LOG2)) }; /* of both planes */

static bool knows_nothing_of(const void *address)
{
  return class_map_of(address) == 0 && class_map_of_heap_block(address) == 0;
}

static void knows_nothing(void)
{
  dice_t dice = {5};
  int on_the_stack = 0;
  must(knows_nothing_of(NULL) && knows_nothing_of((void *)UINTPTR_MAX) && knows_nothing_of((void *)(UINTPTR_MAX - 15)));
  must(knows_nothing_of(&on_the_stack) && knows_nothing_of(&class_window));
  for (size_t i = 0; i < 100000; i++) {
    uintptr_t any = dice_roll(&dice) >> dice_below(&dice, 64);
    must(knows_nothing_of((void *)any));
    must(knows_nothing_of((void *)(class_window.start + any)) && knows_nothing_of((void *)(class_window.start - any)));
  }
}

/* ---- the window ---- */

static void before_initialisation(void *argument)
{
  size_t size;
  (void)argument;
  must(window_slots_open() == 0 && window_slots_most() == 0 && !window_metadata(&size));
  knows_nothing();
}

static void chosen(void *argument)
{
  size_t size;
  (void)argument;
  os_fake_heal();
  must(window_init());
  must(class_window.start % SLOT == 0 && window_slots_open() == 0);
  must(window_slots_most() > 200 && window_slots_most() <= SLOTS_MOST);
  char *metadata = window_metadata(&size);
  must(metadata + size == window_slot(0) && size % SLOT == 0);
  must((char *)class_window.map - MAP_PLANE + SLOT == metadata);
  must(os_fake.mapped_bytes == BYTES_OF_SLOT && os_fake.count[OS_MAP] == 0);
  knows_nothing();
  window_t window = class_window;
  uint64_t calls = os_fake.calls;
  must(window_init() && os_fake.calls == calls && !memcmp(&window, &class_window, sizeof window));
}

/* Somebody is there, or there is no memory for either plane: the next stretch may do. */
static void chosen_again(void *argument)
{
  const uint64_t *failing = argument;
  os_fake_heal();
  os_fake.occupied = *failing % 2;
  uint64_t failed = os_fake.failed;
  os_fake.fail_from = os_fake.calls + 1;
  os_fake.fail_to = os_fake.calls + *failing;
  must(window_init() && os_fake.failed - failed == *failing - 1);
  must(os_fake.mapped_bytes == BYTES_OF_SLOT);
  must(window_open(1) && knows_nothing_of(window_slot(0)));
  knows_nothing();
}

static void second_plane_refused(void *argument)
{
  const bool *occupied = argument;
  os_fake_heal();
  os_fake.occupied = *occupied;
  os_fake.fail_from = os_fake.calls + 2;
  os_fake.fail_to = os_fake.calls + 3;
  must(window_init() && os_fake.count[OS_UNMAP] == 1 && os_fake.mapped_bytes == BYTES_OF_SLOT);
}

static void nothing_at_first(void *argument)
{
  size_t size;
  (void)argument;
  os_fake_heal();
  os_fake.fail_kinds = 1 << OS_MAP_AT;
  must(!window_init() && !window_init());
  must(os_fake.mapped_bytes == 0 && os_fake.failed >= 4 && !window_metadata(&size) && window_slots_most() == 0);
  knows_nothing();
  os_fake_heal();
  must(window_init() && window_open(1));
}

static void the_window(void **state)
{
  (void)state;
  in_child(before_initialisation, NULL);
  in_child(chosen, NULL);
  in_child(nothing_at_first, NULL);
  for (uint64_t failing = 1; failing <= 4; failing++)
    in_child(chosen_again, &failing);
  for (unsigned occupied = 0; occupied < 2; occupied++)
    in_child(second_plane_refused, &(bool){occupied});
}

/* ---- slots ---- */

static void set_and_ask(char *from)
{
  enum { FIRST = 3, END = 5 };
  for (unsigned front = 0; front < 2; front++) {
    class_map_set(from + FIRST * UNIT, END - FIRST, front, A_CLASS);
    for (size_t i = 0; i < 8 * UNIT; i += 16) {
      unsigned inside = i >= FIRST * UNIT && i < END * UNIT ? A_CLASS : 0;
      must(class_map_of(from + i) == (front ? inside : 0));
      must(class_map_of_heap_block(from + i) == (front ? 0 : inside));
    }
    for (size_t i = FIRST * UNIT - 20; i < FIRST * UNIT + 40; i++) /* no block is there */
      must(i % 16 == 0 || knows_nothing_of(from + i));
    class_map_set(from + FIRST * UNIT, END - FIRST, front, 0);
    must(knows_nothing_of(from + FIRST * UNIT));
  }
}

static void extent_is(size_t slots)
{
  must(window_slots_open() == slots);
  must(window_slot_of(window_slot(0)) == 0 && window_slot_of(window_slot(slots)) == slots);
  must(window_slot_of(window_slot(0) - 1) >= window_slots_most() && window_slot_of(NULL) >= window_slots_most());
  must(!slots || window_slot_of(window_slot(slots) - 1) == slots - 1);
  must(window_holds(window_offset(window_slot(0))) == (slots > 0));
  must(!window_holds(window_offset(window_slot(slots))) && !window_holds(window_offset(window_slot(0) - 16)));
  must(!slots || window_holds(window_offset(window_slot(slots) - 16)));
  for (size_t odd = 1; odd < 16; odd++)
    must(!window_holds(window_offset(window_slot(0) + odd)) &&
         (!slots || !window_holds(window_offset(window_slot(slots) - odd))));
}

/* The last unit of each slot has the slot's number for a class, in one plane or the other. */
static void mark(size_t slot) { class_map_set(window_slot(slot + 1) - UNIT, 1, slot % 2, (unsigned)(slot % 100 + 1)); }

static void marks_are_there(size_t slots)
{
  for (size_t slot = 0; slot < slots; slot++) {
    const char *last = window_slot(slot + 1) - 16;
    unsigned expected = (unsigned)(slot % 100 + 1);
    must(class_map_of(last) == (slot % 2 ? expected : 0) && class_map_of_heap_block(last) == (slot % 2 ? 0 : expected));
  }
}

static void opened_in_steps(void *argument)
{
  size_t page = *(const size_t *)argument, open = 0;
  os_fake_heal();
  os_fake.page_size = page;
  must(window_init());
  extent_is(0);
  knows_nothing();
  for (size_t end = 1; end <= 200; end += end / 4 + 1) {
    must(window_open(end));
    extent_is(end);
    must(os_fake.mapped_bytes == round_up(end * BYTES_OF_SLOT / 2, page) * 2);
    for (; open < end; open++) {
      must(knows_nothing_of(window_slot(open)) && knows_nothing_of(window_slot(open + 1) - 16));
      set_and_ask(window_slot(open));
      mark(open);
    }
    must(window_open(end / 2 + 1) && window_slots_open() == end); /* those are open */
    marks_are_there(open);
  }
  must(!window_open(window_slots_most() + 1) && !window_open(SIZE_MAX));
  must(window_open(window_slots_most()));
  extent_is(window_slots_most());
  marks_are_there(open);
  knows_nothing_of(window_slot(window_slots_most()));
}

/* What fails in any way can be had later, as if it had not been tried. */
static void opened_at_last(void *argument)
{
  const uint64_t *failures = argument;
  os_fake_heal();
  must(window_init() && window_open(2));
  mark(0);
  mark(1);
  for (size_t end = 3; end < 20; end += 3) {
    size_t open = window_slots_open();
    os_fake.fail_from = os_fake.calls + failures[0];
    os_fake.fail_to = os_fake.fail_from + failures[1];
    os_fake.occupied = end % 2;
    must(!window_open(end) && window_slots_open() == open);
    must(knows_nothing_of(window_slot(open)));
    marks_are_there(open);
    os_fake_heal();
    must(window_open(end));
    extent_is(end);
    must(os_fake.mapped_bytes == end * BYTES_OF_SLOT);
    for (; open < end; open++) {
      must(knows_nothing_of(window_slot(open)) && knows_nothing_of(window_slot(open + 1) - 16));
      mark(open);
    }
    marks_are_there(end);
  }
}

/* A mapping of somebody else's where the map would go on. */
static void in_the_way(void *argument)
{
  const bool *front = argument;
  os_fake_heal();
  must(window_init() && window_open(3));
  char *at = (char *)class_window.map - (*front ? 0 : MAP_PLANE) + 5 * (BYTES_OF_SLOT / 2);
  must(mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
  *at = 1;
  must(window_open(5) && !window_open(6) && !window_open(100) && window_slots_open() == 5);
  must(*at == 1 && knows_nothing_of(window_slot(5)));
  munmap(at, 4096);
  must(window_open(6) && knows_nothing_of(window_slot(5)));
}

static void the_slots(void **state)
{
  static const uint64_t failures[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 9}};
  (void)state;
  for (size_t page = 4 * KIB; page <= 64 * KIB; page *= 4)
    in_child(opened_in_steps, &page);
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
    in_child(opened_at_last, (void *)(uintptr_t)failures[i]);
  for (unsigned front = 0; front < 2; front++)
    in_child(in_the_way, &(bool){front});
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_window),
    cmocka_unit_test(the_slots),
  };
  return cmocka_run_group_tests_name("class map", tests, NULL, NULL);
}
