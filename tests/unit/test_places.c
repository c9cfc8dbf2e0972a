/* SPDX-License-Identifier: MIT
 * debug/places.h and the stacks of os.h: what this program's own functions are called, and where they are. */
#include "base/bits.h"
#include "debug/places.h"
#include "debug/system.h"
#include "os/os.h"
#include "unit.h"
#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>

/* The compiler must not see through the calls. */
#define OPAQUE __attribute__((noinline, noclone))
static volatile int depth_of_calls, line_of_call;

OPAQUE static const void *where_it_returns(void)
{
  depth_of_calls++;
  return __builtin_return_address(0);
}

OPAQUE static const void *a_static_function(void)
{
  enum { LINE = __LINE__ + 1 };
  const void *address = where_it_returns();
  line_of_call = LINE;
  depth_of_calls++;
  return address;
}

OPAQUE const void *a_global_function(void);
OPAQUE const void *a_global_function(void)
{
  const void *address = where_it_returns();
  depth_of_calls++;
  return address;
}

static const char *said(const place_t *place)
{
  static char line[256];
  text_t text = {line, sizeof line, 0};
  place_say(&text, place);
  text_finish(&text);
  return line;
}

static void assert_begins(const char *text, const char *beginning)
{
  if (strncmp(text, beginning, strlen(beginning)) != 0)
    fail_msg("%s does not begin with %s", text, beginning);
}

static void assert_has(const char *text, const char *part)
{
  if (!strstr(text, part))
    fail_msg("%s does not have %s in it", text, part);
}

static void names(void **state)
{
  (void)state;
  place_t places[] = {{.address = a_static_function()}, {.address = a_global_function()}};
  errno = 77;
  places_find(places, 2);
  assert_int_equal(errno, 77);
  assert_string_equal(places[0].function, "a_static_function");
  assert_begins(said(&places[0]), "a_static_function+0x");
  assert_has(said(&places[0]), " (test_places)");
  assert_string_equal(places[1].function, "a_global_function");
  assert_true(places[0].offset > 0 && places[0].offset < 4096 && places[0].module == places[1].module);
}

/* A function that does not return ends with a call: the address behind it is the next function's. */
static void a_call_is_before_its_return(void **state)
{
  (void)state;
  place_t place = {.address = (const char *)(uintptr_t)a_static_function};
  places_find(&place, 1);
  assert_string_not_equal(place.function, "a_static_function");
  place.address = (const char *)place.address + CODE_ALIGNMENT;
  places_find(&place, 1);
  assert_string_equal(place.function, "a_static_function");
  assert_int_equal(place.offset, CODE_ALIGNMENT);
}

static void of_a_library(void **state)
{
  (void)state;
  place_t place = {.address = (const char *)(uintptr_t)qsort + 1};
  places_find(&place, 1);
  assert_true(place.file[0] && place.module);
}

static void nowhere(void **state)
{
  static char data[16];
  void *mapped = os_map(os_page_size(), 1), *const addresses[] = {NULL, (char *)mapped + 16, &state, data + 1};
  for (size_t i = 0; i < 4; i++) {
    place_t place = {.address = addresses[i]};
    places_find(&place, 1);
    assert_string_equal(place.function, "");
    places_find_lines(&place, 1);
  }
  place_t place = {.address = (char *)mapped + 16};
  char expected[32];
  text_t text = {expected, sizeof expected, 0};
  text_pointer(&text, place.address);
  text_finish(&text);
  places_find(&place, 1);
  assert_string_equal(said(&place), expected);
  assert_true(os_unmap(mapped, os_page_size()));
}

/* Where the tool is not there, the module is said. */
static void lines(void **state)
{
  (void)state;
  place_t places[70];
  for (size_t i = 0; i < 70; i++)
    places[i] = (place_t){.address = i % 2 ? a_static_function() : a_global_function()};
  places_find(places, 70);
  assert_true(places[0].has_lines);
  errno = 77;
  places_find_lines(places, 70);
  assert_int_equal(errno, 77);
  if (system("addr2line --version >/dev/null 2>&1") != 0) {
    assert_has(said(&places[1]), " (test_places)");
    return;
  }
  char expected[64];
  snprintf(expected, sizeof expected, " (test_places.c:%d)", line_of_call);
  for (size_t i = 1; i < 70; i += 2)
    assert_has(said(&places[i]), expected);
  assert_begins(said(&places[69]), "a_static_function+0x");
}

static void without_the_tool(void **state)
{
  (void)state;
  char *path = getenv("PATH") ? strdup(getenv("PATH")) : NULL;
  place_t place = {.address = a_static_function()};
  places_find(&place, 1);
  setenv("PATH", "/nowhere", 1);
  places_find_lines(&place, 1);
  assert_has(said(&place), " (test_places)");
  if (path)
    setenv("PATH", path, 1);
  free(path);
}

/* The linker puts this in the place of the C library's. */
static unsigned long has_more_rights;
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type) { return type == AT_SECURE ? has_more_rights : __real_getauxval(type); }

/* In a set-user-ID program the tool would be any program that the user has put there. */
static void no_tool_of_the_user(void **state)
{
  (void)state;
  place_t place = {.address = a_static_function()};
  places_find(&place, 1);
  assert_true(place.has_lines);
  has_more_rights = 1;
  errno = 77;
  assert_true(os_is_privileged());
  places_find_lines(&place, 1);
  has_more_rights = 0;
  assert_int_equal(errno, 77);
  assert_has(said(&place), " (test_places)");
  assert_false(os_is_privileged());
}

/* ---- stacks ---- */

OPAQUE static void innermost(os_stack_t *stack)
{
  depth_of_calls++;
  os_take_stack(__builtin_return_address(0), stack);
  depth_of_calls++;
}

OPAQUE static void middle(os_stack_t *stack)
{
  innermost(stack);
  depth_of_calls++;
}

OPAQUE static void outermost(os_stack_t *stack)
{
  middle(stack);
  depth_of_calls++;
}

static void stack_of_one(void **state)
{
  (void)state;
  os_stack_t stack = {.most = OS_STACK_MOST};
  place_t place;
  outermost(&stack); /* nothing was opened yet */
  assert_int_equal(stack.count, 1);
  place.address = stack.frames[0];
  places_find(&place, 1);
  assert_string_equal(place.function, "middle");
}

static void stack_of_many(void **state)
{
  (void)state;
  os_stack_t stack = {.most = 3};
  place_t places[3];
#ifdef __arm__
  skip(); /* os_take_stack() has no unwinder there */
#endif
  /* A static program has no loader: what it loads nevertheless knows nothing of the program's own code. */
  if (!getauxval(AT_BASE) || !dlopen("libgcc_s.so.1", RTLD_NOW))
    skip();
  errno = 77;
  os_load_stacks();
  outermost(&stack);
  assert_int_equal(errno, 77);
  assert_int_equal(stack.count, 3);
  for (size_t i = 0; i < 3; i++)
    places[i].address = stack.frames[i];
  places_find(places, 3);
  assert_string_equal(places[0].function, "middle");
  assert_string_equal(places[1].function, "outermost");
  assert_string_equal(places[2].function, "stack_of_many");
  stack.most = 1;
  outermost(&stack);
  assert_true(stack.count == 1 && stack.frames[0] == places[0].address);
}

static void from_elsewhere(void **state)
{
  (void)state;
  os_load_stacks();
  os_stack_t stack = {.most = 4};
  os_take_stack(&stack, &stack);
  assert_true(stack.count == 1 && stack.frames[0] == &stack);
  os_take_stack(NULL, &stack);
  assert_int_equal(stack.count, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(names),
    cmocka_unit_test(a_call_is_before_its_return),
    cmocka_unit_test(of_a_library),
    cmocka_unit_test(nowhere),
    cmocka_unit_test(lines),
    cmocka_unit_test(without_the_tool),
    cmocka_unit_test(no_tool_of_the_user),
    cmocka_unit_test(stack_of_one),
    cmocka_unit_test(stack_of_many),
    cmocka_unit_test(from_elsewhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
