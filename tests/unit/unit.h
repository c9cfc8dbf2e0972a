/* SPDX-License-Identifier: MIT
 * What the unit tests share: cmocka, the checks, children for what changes the whole process, patterns for contents. */
#ifndef UNIT_H
#define UNIT_H

#include "check/check.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED true
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* For children and threads, where a failed assert_...() of cmocka would jump out of the wrong stack. */
#define must(condition) ((condition) ? (void)0 : must_failed(__FILE__, __LINE__, #condition))
_Noreturn void must_failed(const char *file, int line, const char *condition);

/* Runs it in a child of its own; fails the test unless the child returns from it. */
void in_child(void (*run)(void *), void *argument);
void in_child_named(const char *name, void (*run)(void *), void *argument); /* for one of many */

/* The same for one that may crash: returns its status, as wait() has it. */
int end_of_child(void (*run)(void *), void *argument);

/* The test name_test, which does so; and one that does it for each of some arguments, in a child of its own. */
#define IN_CHILD(name) \
  static void name##_test(void **state) \
  { \
    (void)state; \
    in_child(name, NULL); \
  }
#define WITH(name, type, ...) \
  static void name##_test(void **state) \
  { \
    static const type arguments[] = {__VA_ARGS__}; \
    (void)state; \
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) \
      in_child(name, (void *)(uintptr_t)&arguments[i]); \
  }

/* Runs it in a child that must end with abort(), its last words on standard error containing `words`. */
void aborts_with(void (*run)(void *), void *argument, const char *words);

/* With ALL_CASES in the environment, as in the suite long, all of what is tried very often; else a third, and each third
 * failure. */
bool is_long(void);
static inline size_t some_of(size_t count) { return is_long() ? count : count / 3; }
static inline uint64_t step_of(uint64_t step) { return is_long() ? step : 3 * step; }

/* Runs it in a thread, to its end. */
void in_thread(void *(*work)(void *), void *argument);

/* The compiler acts on what it knows of sizes; a number it cannot see through keeps it from that. */
static inline size_t opaque(size_t size)
{
  __asm__ volatile("" : "+r"(size));
  return size;
}

/* Contents that say whose they are. Of large blocks only the ends and a byte here and there are written and looked at. */
void pattern_write(void *block, size_t size, uint64_t key);
bool pattern_holds(const void *block, size_t size, uint64_t key);
bool pattern_kept(const void *block, size_t size, size_t written, uint64_t key); /* the first `size` bytes of it */
bool all_zero(const void *block, size_t size);

/* A generator of numbers that are the same everywhere. */
typedef struct dice {
  uint64_t state;
} dice_t;
uint64_t dice_roll(dice_t *dice);
static inline size_t dice_below(dice_t *dice, size_t n) { return (size_t)(dice_roll(dice) % n); }

#endif
