/* SPDX-License-Identifier: MIT */
#include "class_map.h"
#include "os/os.h"
#include "os_fake.h"
#include "unit.h"

static void before_initialisation(void *argument)
{
  (void)argument;
  int on_the_stack = 0;
  must(class_map_of(NULL) == 0);
  must(class_map_front(&on_the_stack) == 0 && class_map_heap(&on_the_stack) == 0);
  must(class_map_front(NULL) == 0 && class_map_front((void *)UINTPTR_MAX) == 0);
}

static void stub(void **state)
{
  (void)state;
  in_child(before_initialisation, NULL);
}

static void set_and_ask(char *arena, size_t size)
{
  must(class_map_open(arena, size));
  for (unsigned front = 0; front < 2; front++) {
    class_map_set(arena + 3 * UNIT, 2, front, 77);
    for (size_t i = 0; i < size; i += UNIT / 4) {
      bool inside = i >= 3 * UNIT && i < 5 * UNIT;
      must(class_map_front(arena + i) == (front && inside ? 77 : 0));
      must(class_map_heap(arena + i) == (!front && inside ? 77 : 0));
    }
    must(class_map_of(arena + 4 * UNIT) == class_map_front(arena + 4 * UNIT));
    must(class_map_of_heap_block(arena + 4 * UNIT) == class_map_heap(arena + 4 * UNIT));
    class_map_set(arena + 3 * UNIT, 2, front, 0);
    must(class_map_front(arena + 3 * UNIT) == 0 && class_map_heap(arena + 3 * UNIT) == 0);
  }
}

static void ask_anything(void)
{
  dice_t dice = {5};
  must(class_map_of(NULL) == 0);
  for (size_t i = 0; i < 1000; i++) {
    void *any = (void *)(dice_roll(&dice) >> dice_below(&dice, 64));
    must(class_map_front(any) == 0 && class_map_heap(any) == 0);
  }
  must(class_map_front((void *)UINTPTR_MAX) == 0 && class_map_heap((void *)UINTPTR_MAX) == 0);
}

static void whole(void *argument)
{
  (void)argument;
  os_fake_heal();
  must(class_map_init() && !class_map_windowed);
  ask_anything();
  set_and_ask(os_reserve(64 * MIB, 64 * MIB), 64 * MIB);
  ask_anything();
}

static void whole_map(void **state)
{
  (void)state;
  in_child(whole, NULL);
}

static void windowed(void *argument)
{
  (void)argument;
  os_fake_heal();
  os_fake.address_space_limit = 200 * MIB;
  must(class_map_init() && class_map_windowed);
  must(os_fake.reserved_bytes <= 4 * MIB);
  ask_anything();
  set_and_ask(os_reserve_at((void *)(5 * GIB), 16 * MIB), 16 * MIB);
}

static void refused_whole(void *argument)
{
  (void)argument;
  os_fake_heal();
  os_fake.fail_kinds = 1 << OS_RESERVE_ZEROES;
  must(class_map_init() && class_map_windowed);
}

static void window(void **state)
{
  (void)state;
  if (!window_is_free())
    skip();
  in_child(windowed, NULL);
  in_child(refused_whole, NULL);
}

/* Refused first, it comes up later, and what it tried in vain is not kept. */
static void nothing_at_first(void *argument)
{
  const os_call_t *kind = argument;
  os_fake_heal();
  os_fake.address_space_limit = GIB;
  os_fake.fail_kinds = (uint32_t)1 << *kind;
  must(!class_map_init());
  must(os_fake.reserved_bytes == 0);
  must(class_map_of(NULL) == 0 && class_map_front(argument) == 0);
  os_fake_heal();
  os_fake.address_space_limit = SIZE_MAX;
  must(class_map_init() && !class_map_windowed);
}

#if defined __SANITIZE_THREAD__
#define UNDER_THREAD_SANITIZER true
#else
#define UNDER_THREAD_SANITIZER false
#endif

static void refusal(void **state)
{
  (void)state;
  if (!window_is_free() || UNDER_THREAD_SANITIZER)   /* that one's own mappings go through the fake, and may not fail */
    skip();
  for (os_call_t kind = OS_RESERVE_AT; kind <= OS_COMMIT; kind += OS_COMMIT - OS_RESERVE_AT)
    in_child(nothing_at_first, &kind);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(stub),
    cmocka_unit_test(whole_map),
    cmocka_unit_test(window),
    cmocka_unit_test(refusal),
  };
  return cmocka_run_group_tests_name("class map", tests, NULL, NULL);
}
