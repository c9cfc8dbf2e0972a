/* SPDX-License-Identifier: MIT
 *
 * What late_runtime.c loads: something that is no runtime but looks like one. It has a new-handler, and forms of operator new
 * that ask those of the whole process, which are the library's, which asks these: nobody may go round in circles. */
#define _GNU_SOURCE
#include "../../src/api/new_names.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*new_handler_t)(void);
typedef void *new_t(size_t size, const void *tag);
typedef void *aligned_new_t(size_t size, size_t alignment, const void *tag);

new_handler_t _ZSt15get_new_handlerv(void);
new_t _ZnwmRKSt9nothrow_t, _ZnamRKSt9nothrow_t;
aligned_new_t _ZnwmSt11align_val_tRKSt9nothrow_t, _ZnamSt11align_val_tRKSt9nothrow_t;
const char *late_runtime_run(void);

enum { CALLS = 3, ROUNDS = 100 };
static new_handler_t handler;
static int handler_calls, passed_on;

static void give_up(void)
{
  if (++handler_calls == CALLS)
    handler = NULL;
}

new_handler_t _ZSt15get_new_handlerv(void) { return handler; }

static void *of_process(const char *name)
{
  passed_on++;
  return dlsym(RTLD_DEFAULT, name);
}

/* One passes on to itself, the other three in a circle. */
void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
  return ((new_t *)of_process(NAME_TEXT(_ZnwmRKSt9nothrow_t)))(size, tag);
}

void *_ZnamRKSt9nothrow_t(size_t size, const void *tag)
{
  return ((aligned_new_t *)of_process(NAME_TEXT(_ZnwmSt11align_val_tRKSt9nothrow_t)))(size, 64, tag);
}

void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
  return ((aligned_new_t *)of_process(NAME_TEXT(_ZnamSt11align_val_tRKSt9nothrow_t)))(size, alignment, tag);
}

void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
  (void)alignment;
  return ((new_t *)of_process(NAME_TEXT(_ZnamRKSt9nothrow_t)))(size, tag);
}

static const char *fails_in_the_end(const char *name)
{
  volatile size_t impossible = SIZE_MAX / 2;
  void *form = dlsym(RTLD_DEFAULT, name);
  handler = give_up;
  handler_calls = passed_on = 0;
  void *block =
    name[sizeof NAME_TEXT(_Znwm) - 1] == 'R' ? ((new_t *)form)(impossible, "") : ((aligned_new_t *)form)(impossible, 64, "");
  if (block)
    return "a block of an impossible size";
  if (handler_calls != CALLS)
    return "the handler was called too often or too seldom";
  return passed_on > 4 ? "it went round in circles" : NULL;
}

const char *late_runtime_run(void)
{
  static const char *const forms[] = {NAME_TEXT(_ZnwmRKSt9nothrow_t), NAME_TEXT(_ZnamRKSt9nothrow_t),
                                      NAME_TEXT(_ZnwmSt11align_val_tRKSt9nothrow_t),
                                      NAME_TEXT(_ZnamSt11align_val_tRKSt9nothrow_t)};
  const char *failure = NULL;
  for (size_t i = 0; i < ROUNDS && !failure; i++)
    failure = fails_in_the_end(forms[i % 4]);
  return failure;
}
