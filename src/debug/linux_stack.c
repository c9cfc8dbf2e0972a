/* SPDX-License-Identifier: MIT
 *
 * Stacks of threads. If the tables cannot be walked (linux_walk.c), the unwinder of gcc and clang does it. It is in a library
 * that C programs lack. That is opened before stacks are needed: opening takes memory and the loader's locks, which an
 * allocation must not. The names of the unwinder and the loader are weak, so that static programs work without them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "base/machine.h"
#include "debug/linux_seen.h"
#include "debug/linux_tables.h"
#include "debug/linux_walk.h"
#include "debug/system.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <unwind.h>

enum { PASSED_MOST = 64 }; /* frames between `from` and this file; the manager nests some twenty */

#ifdef HAS_TABLES

void os_load_stacks(void) { seen_begin(); }

static void take_frames(const void *const *frame, const void *from, os_stack_t *stack)
{
  if (stack->most >= 2)
    walk_take(frame, from, PASSED_MOST, stack);
}

#elif defined __ARM_EABI_UNWINDER__

/* The unwinder has other names there, and tables only on request. */
void os_load_stacks(void) {}
static void take_frames(const void *const *frame, const void *from, os_stack_t *stack) { (void)frame, (void)from, (void)stack; }

#else

#pragma weak dl_iterate_phdr
#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP
#pragma weak dlopen
#pragma weak dlsym

typedef _Unwind_Reason_Code unwind_t(_Unwind_Trace_Fn visit, void *context);
typedef __typeof__(_Unwind_GetIP) get_address_t;

/* `unwind` is set last. */
static unwind_t *unwind;
static get_address_t *get_address;
static uintptr_t unwinder_start, unwinder_end; /* its module */

static void *find_in_unwinder(void *library, const char *name) { return library && dlsym ? dlsym(library, name) : NULL; }

/* This library may be the first that the loader begins, before the C library's variables have their values. */
static bool c_library_has_begun(void) { return environ || (program_invocation_name && *program_invocation_name); }

/* A static program's loader would open a second C library. Its own unwinder frees memory under a lock that a stack needs. */
static bool is_static(void) { return getauxval(AT_BASE) == 0; }

static int note_unwinder(struct dl_phdr_info *info, size_t size, void *function)
{
  (void)size;
  for (const ElfW(Phdr) *at = info->dlpi_phdr, *end = at + info->dlpi_phnum; at < end; at++) {
    uintptr_t start = info->dlpi_addr + at->p_vaddr;
    if (at->p_type != PT_LOAD || (uintptr_t)function - start >= at->p_memsz)
      continue;
    unwinder_start = start;
    unwinder_end = start + at->p_memsz;
    return 1;
  }
  return 0;
}

void os_load_stacks(void)
{
  static uint32_t tried;
  if (__atomic_load_n(&tried, __ATOMIC_RELAXED) || is_static() || !c_library_has_begun() ||
      __atomic_exchange_n(&tried, 1, __ATOMIC_RELAXED))
    return;
  int saved = errno;
  unwind_t *found = _Unwind_Backtrace;
  get_address_t *address = _Unwind_GetIP;
  if (!found || !address) {
    void *library = dlopen ? dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
    found = (unwind_t *)find_in_unwinder(library, "_Unwind_Backtrace");
    address = (get_address_t *)find_in_unwinder(library, "_Unwind_GetIP");
  }
  if (found && address) {
    get_address = address;
    if (dl_iterate_phdr)
      dl_iterate_phdr(note_unwinder, (void *)found);
    __atomic_store_n(&unwind, found, __ATOMIC_RELEASE);
  }
  errno = saved;
}

typedef struct frames {
  const void *from;
  os_stack_t *stack;
  unsigned passed;
} frames_t;

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *argument)
{
  frames_t *f = argument;
  os_stack_t *stack = f->stack;
  const void *address = (const void *)get_address(context);
  if (!stack->count && address != f->from)
    return ++f->passed < PASSED_MOST ? _URC_NO_REASON : _URC_END_OF_STACK;
  if (address)
    stack->frames[stack->count++] = address;
  return address && stack->count < stack->most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* No stack is taken for a block that the unwinder allocates: it holds a lock that the walk would wait for. */
static bool is_of_unwinder(const void *from) { return (uintptr_t)from - unwinder_start < unwinder_end - unwinder_start; }

static void take_frames(const void *const *frame, const void *from, os_stack_t *stack)
{
  static THREAD_LOCAL bool taking;
  (void)frame;
  unwind_t *by = __atomic_load_n(&unwind, __ATOMIC_ACQUIRE);
  if (!by || taking || stack->most < 2 || is_of_unwinder(from))
    return;
  int saved = errno;
  taking = true;
  by(take_frame, &(frames_t){from, stack, 0});
  taking = false;
  errno = saved;
}

#endif

/* Stores `from` alone if the unwinder does not reach it (code without tables, or a frame that was left by a tail call). */
void os_take_stack_at(const void *const *frame, const void *from, os_stack_t *stack)
{
  stack->count = 0;
  take_frames(frame, from, stack);
  if (!stack->count && from && stack->most)
    stack->frames[stack->count++] = from;
}
