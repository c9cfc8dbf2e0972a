/* SPDX-License-Identifier: MIT
 *
 * What the unit tests use of cmocka, for a C library for which there is none: Debian's cmocka is one of glibc's. The names are
 * cmocka's, and so are the lines at the end. An assertion that fails leaves its test by longjmp(). A signal ends the program,
 * which is a failure as well. */
#ifndef CMOCKA_H
#define CMOCKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct CMUnitTest {
  const char *name;
  void (*run)(void **state);
  void *state; /* what the test begins with, if not NULL */
};

/* A fixture is called once for all tests of a program, and returns 0. */
typedef int cmocka_fixture_t(void **state);
#define cmocka_unit_test(function) cmocka_unit_test_prestate(function, NULL)
#define cmocka_unit_test_prestate(function, state) \
  { \
#function, function, state \
  }
#define cmocka_run_group_tests(tests, setup, teardown) cmocka_run_group_tests_name(#tests, tests, setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
  cmocka_run(name, tests, sizeof(tests) / sizeof *(tests), setup, teardown)
int cmocka_run(const char *group, const struct CMUnitTest *tests, size_t count, cmocka_fixture_t *setup,
               cmocka_fixture_t *teardown);

/* Called behind the first fixture, if it is set. */
extern void (*cmocka_before_first)(void);

#define HERE                       __FILE__, __LINE__
#define NUMBER(value)              ((uintmax_t)(value))
#define ADDRESS(value)             ((uintmax_t)(uintptr_t)(value))
#define assert_true(condition)     cmocka_check((condition) ? true : false, HERE, #condition)
#define assert_false(condition)    cmocka_check((condition) ? false : true, HERE, "!(" #condition ")")
#define assert_null(pointer)       cmocka_check((pointer) == NULL, HERE, #pointer " == NULL")
#define assert_non_null(pointer)   cmocka_check((pointer) != NULL, HERE, #pointer " != NULL")
#define assert_int_equal(a, b)     cmocka_compare(NUMBER(a), NUMBER(b), true, HERE, #a " == " #b)
#define assert_int_not_equal(a, b) cmocka_compare(NUMBER(a), NUMBER(b), false, HERE, #a " != " #b)
#define assert_ptr_equal(a, b)     cmocka_compare(ADDRESS(a), ADDRESS(b), true, HERE, #a " == " #b)
#define assert_ptr_not_equal(a, b) cmocka_compare(ADDRESS(a), ADDRESS(b), false, HERE, #a " != " #b)
#define assert_in_range(value, least, most) \
  cmocka_check_range(NUMBER(value), NUMBER(least), NUMBER(most), HERE, #value " in " #least " to " #most)
#define assert_string_equal(a, b)       cmocka_compare_text(a, b, true, HERE, #a " is " #b)
#define assert_string_not_equal(a, b)   cmocka_compare_text(a, b, false, HERE, #a " is not " #b)
#define assert_memory_equal(a, b, size) cmocka_compare_bytes(a, b, size, HERE, #a " is " #b)
#define fail()                          cmocka_check(false, HERE, "fail()")
#define fail_msg(...) \
  do { \
    char cmocka_words[1000]; \
    snprintf(cmocka_words, sizeof cmocka_words, __VA_ARGS__); \
    cmocka_check(false, HERE, cmocka_words); \
  } while (0)
#define skip() cmocka_skip()

void cmocka_check(bool holds, const char *file, int line, const char *what);
void cmocka_check_range(uintmax_t value, uintmax_t least, uintmax_t most, const char *file, int line, const char *what);
void cmocka_compare(uintmax_t a, uintmax_t b, bool equal, const char *file, int line, const char *what);
void cmocka_compare_text(const char *a, const char *b, bool equal, const char *file, int line, const char *what);
void cmocka_compare_bytes(const void *a, const void *b, size_t size, const char *file, int line, const char *what);
_Noreturn void cmocka_skip(void);

void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
