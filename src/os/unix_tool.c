/* SPDX-License-Identifier: MIT
 *
 * Valgrind recognizes a sequence of instructions that has no effect, and handles the request that a register points to. The
 * request numbers are part of its stable interface. Valgrind does not tell which tool runs, but a tool with a malloc preloads a
 * library of its name. Tools without one (callgrind, cachegrind, none) do not watch memory, and change nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/machine.h"
#include "os/os.h"
#include "os/tool.h"
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

os_tool_t os_tool;

/* ---- valgrind ---- */

enum {
  RUNNING_ON_VALGRIND = 0x1001,
  MALLOCLIKE_BLOCK = 0x1301,
  FREELIKE_BLOCK = 0x1302,
  CREATE_MEMPOOL = 0x1303,
  DESTROY_MEMPOOL = 0x1304,
  MEMPOOL_ALLOC = 0x1305,
  MEMPOOL_FREE = 0x1306,
  MEMPOOL_CHANGE = 0x1309,
  MEMPOOL_EXISTS = 0x130a,
  CHANGE_ERR_DISABLEMENT = 0x1801,
  MEMCHECK = 'M' << 24 | 'C' << 16,
  MAKE_MEM_NOACCESS = MEMCHECK,
  MAKE_MEM_UNDEFINED,
  MAKE_MEM_DEFINED,
  HELGRIND = 'H' << 24 | 'G' << 16,
  CLEAN_MEMORY = HELGRIND, /* drd has this and the next two requests too */
  HAPPENS_BEFORE = HELGRIND + 256 + 33,
  HAPPENS_AFTER
};

/* Returns 0 without valgrind, or if its tool does not know the request. */
static uintptr_t request(unsigned what, uintptr_t first, uintptr_t second, uintptr_t third, uintptr_t fourth)
{
  const volatile uintptr_t words[] = {what, first, second, third, fourth, 0};
  uintptr_t answer = 0;
#if defined __x86_64__ && defined __LP64__
  __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
                   : "+d"(answer)
                   : "a"(words)
                   : "cc", "memory");
#elif defined __i386__
  __asm__ volatile("roll $3, %%edi\n\troll $13, %%edi\n\troll $29, %%edi\n\troll $19, %%edi\n\txchgl %%ebx, %%ebx"
                   : "+d"(answer)
                   : "a"(words)
                   : "cc", "memory");
#elif defined __aarch64__
  register uintptr_t result __asm__("x3") = answer;
  register const volatile uintptr_t *at __asm__("x4") = words;
  __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\torr x10, x10, x10"
                   : "+r"(result)
                   : "r"(at)
                   : "cc", "memory");
  answer = result;
#else
  (void)words;
#endif
  return answer;
}

/* Only memcheck marks bytes and knows blocks that are not malloc's. */
static void announce_four(unsigned what, uintptr_t first, uintptr_t second, uintptr_t third, uintptr_t fourth)
{
  if (os_tool.sees_all)
    request(what, first, second, third, fourth);
}

static void announce(unsigned what, uintptr_t first, uintptr_t second, uintptr_t third)
{
  announce_four(what, first, second, third, 0);
}

/* Returns whether LD_PRELOAD has a library whose name contains `part` and does not begin with `but` there. */
static bool is_preloaded(const char *part, const char *but)
{
  const char *names = os_environment("LD_PRELOAD");
  for (const char *at = names; at && (at = strstr(at, part)) != NULL; at++)
    if (!but || strncmp(at, but, strlen(but)) != 0)
      return true;
  return false;
}

/* Valgrind ends the program at a larger alignment. */
enum { ALIGNMENT_OF_VALGRIND = 16 << 20 };
static size_t alignment_most = SIZE_MAX;

bool os_tool_is_valgrind(void) { return request(RUNNING_ON_VALGRIND, 0, 0, 0, 0) != 0; }

static void look_for_valgrind(void)
{
  if (!os_tool_is_valgrind())
    return;
  alignment_most = ALIGNMENT_OF_VALGRIND;
  os_tool.allocates = is_preloaded("vgpreload_", "vgpreload_core");
  os_tool.sees_bytes = os_tool.sees_all = is_preloaded("vgpreload_memcheck", NULL);
  os_tool.sees_orders = is_preloaded("vgpreload_helgrind", NULL) || is_preloaded("vgpreload_drd", NULL);
}

/* ---- sanitizers and heaptrack: symbols that only their runtimes define ---- */

void __asan_poison_memory_region(const volatile void *start, size_t size);
void __asan_unpoison_memory_region(const volatile void *start, size_t size);
void __asan_report_error(void *code, void *frame, void *stack, void *address, int writes, size_t size);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __lsan_register_root_region(const void *start, size_t size);
void __lsan_unregister_root_region(const void *start, size_t size);
void heaptrack_malloc(void *block, size_t size);
void __lsan_do_leak_check(void);
#pragma weak __asan_poison_memory_region
#pragma weak __asan_unpoison_memory_region
#pragma weak __asan_report_error
#pragma weak __tsan_acquire
#pragma weak __tsan_release
#pragma weak __lsan_register_root_region
#pragma weak __lsan_unregister_root_region
#pragma weak heaptrack_malloc
#pragma weak __lsan_do_leak_check

static bool has_address_sanitizer(void) { return __asan_poison_memory_region && __asan_unpoison_memory_region; }
static bool has_thread_sanitizer(void) { return __tsan_acquire && __tsan_release; }
static bool searches_for_leaks(void) { return __lsan_do_leak_check; }

static void look_for_runtimes(void)
{
  os_tool.allocates |= has_address_sanitizer() || has_thread_sanitizer() || searches_for_leaks() || heaptrack_malloc;
  os_tool.sees_bytes |= has_address_sanitizer();
  os_tool.sees_orders |= has_thread_sanitizer();
  os_tool.has_shadows = os_tool.sees_calls = has_thread_sanitizer();
}

#if defined UNDER_SANITIZER || defined TIDEPOOL_IS_MALLOC
enum { IS_LOOKED_FOR = 0 };
#else
enum { IS_LOOKED_FOR = 1 };
#endif

void os_look_for_tool(void)
{
  if (!IS_LOOKED_FOR)
    return;
  look_for_valgrind();
  look_for_runtimes();
}

/* ---- blocks of the C library ---- */

/* Looked up only when needed: in many programs malloc is another allocator. Static programs have no dlsym(), and a library that
 * is malloc itself would find itself. */
#pragma weak dlsym

typedef struct c_library {
  void *(*allocate)(size_t size);
  int (*allocate_aligned)(void **block, size_t alignment, size_t size);
  void (*release)(void *block);
} c_library_t;
static c_library_t c_library;

#ifdef TIDEPOOL_IS_MALLOC
bool os_tool_may_take(void) { return false; }
#else
static bool look_up(void *to, const char *name)
{
  void *found = dlsym(RTLD_DEFAULT, name);
  memcpy(to, &found, sizeof found);
  return found != NULL;
}

bool os_tool_may_take(void)
{
  if (!c_library.allocate && dlsym && look_up(&c_library.release, "free") &&
      look_up(&c_library.allocate_aligned, "posix_memalign"))
    look_up(&c_library.allocate, "malloc");
  return c_library.allocate != NULL;
}
#endif

/* Larger requests certainly fail, and the tools report them as errors of the program. */
#define LARGEST ((size_t)PTRDIFF_MAX >> (ADDRESS_BITS > 32 ? 20 : 2))

bool os_tool_serves(size_t size, size_t alignment) { return size <= LARGEST && alignment <= alignment_most; }

void *os_tool_take(size_t size, size_t alignment)
{
  void *block = NULL;
  int saved = errno;
  KEEPS_FRAME();
  if (!os_tool_serves(size, alignment))
    block = NULL;
  else if (alignment <= _Alignof(max_align_t))
    block = c_library.allocate(size);
  else if (c_library.allocate_aligned(&block, alignment, size) != 0)
    block = NULL;
  errno = saved;
  return block;
}

void os_tool_give(void *block)
{
  int saved = errno;
  KEEPS_FRAME();
  c_library.release(block);
  errno = saved;
}

/* ---- bytes ---- */

void os_tool_close(const void *start, size_t size)
{
  announce(MAKE_MEM_NOACCESS, (uintptr_t)start, size, 0);
  if (IS_LOOKED_FOR && has_address_sanitizer())
    __asan_poison_memory_region(start, size);
}

static void unpoison(const void *start, size_t size)
{
  if (IS_LOOKED_FOR && has_address_sanitizer())
    __asan_unpoison_memory_region(start, size);
}

void os_tool_open_new(const void *start, size_t size)
{
  announce(MAKE_MEM_UNDEFINED, (uintptr_t)start, size, 0);
  unpoison(start, size);
}

void os_tool_open(const void *start, size_t size)
{
  announce(MAKE_MEM_DEFINED, (uintptr_t)start, size, 0);
  unpoison(start, size);
}

/* The sanitizers only check code compiled with them, and the library is not. */
void os_tool_begin_silence(void) { announce(CHANGE_ERR_DISABLEMENT, 1, 0, 0); }
void os_tool_end_silence(void) { announce(CHANGE_ERR_DISABLEMENT, (uintptr_t)-1, 0, 0); }

/* ---- blocks in memory of the program ---- */

/* A heap must be destroyed before its memory is reused. If the program forgets that, memcheck would end at the second pool of
 * the same address, so the old one ends here.
 *
 * Memcheck searches no leaks while no malloc block is live, so the first byte of the owner is announced as one. */
void os_tool_begin_blocks(const void *owner, bool in_block)
{
  if (os_tool.sees_all && request(MEMPOOL_EXISTS, (uintptr_t)owner, 0, 0, 0))
    os_tool_end_blocks(owner, in_block);
  if (!in_block) {
    announce(MALLOCLIKE_BLOCK, (uintptr_t)owner, 1, 0);
    announce(MAKE_MEM_DEFINED, (uintptr_t)owner, 1, 0);
  }
  announce(CREATE_MEMPOOL, (uintptr_t)owner, OS_TOOL_ZONE, 0);
}

void os_tool_end_blocks(const void *owner, bool in_block)
{
  announce(DESTROY_MEMPOOL, (uintptr_t)owner, 0, 0);
  if (in_block)
    return;
  announce(FREELIKE_BLOCK, (uintptr_t)owner, 0, 0);
  announce(MAKE_MEM_DEFINED, (uintptr_t)owner, 1, 0);
}

void os_tool_begin_block(const void *owner, const void *block, size_t size)
{
  announce(MEMPOOL_ALLOC, (uintptr_t)owner, (uintptr_t)block, size);
  unpoison(block, size);
}

void os_tool_forget(const void *start, size_t size)
{
  if (os_tool.sees_orders)
    request(CLEAN_MEMORY, (uintptr_t)start, size, 0, 0);
}

void os_tool_end_block(const void *owner, const void *block, size_t size)
{
  announce(MEMPOOL_FREE, (uintptr_t)owner, (uintptr_t)block, 0);
  os_tool_close(block, size);
}

/* Memcheck reports a block within another. So this block shrinks to its first byte. */
void os_tool_leave_block(const void *owner, const void *block)
{
  announce_four(MEMPOOL_CHANGE, (uintptr_t)owner, (uintptr_t)block, (uintptr_t)block, 1);
}

void os_tool_report_block(const void *owner, const void *block)
{
  announce(MEMPOOL_FREE, (uintptr_t)owner, (uintptr_t)block, 0);
  if (IS_LOOKED_FOR && has_address_sanitizer() && __asan_report_error)
    __asan_report_error(__builtin_return_address(0), __builtin_frame_address(0), (void *)(uintptr_t)&owner,
                        (void *)(uintptr_t)block, true, 1);
}

/* Memcheck searches all of the manager's memory anyway. */
static bool has_roots(void)
{
  return IS_LOOKED_FOR && os_tool.allocates && __lsan_register_root_region && __lsan_unregister_root_region;
}

void os_tool_begin_root(const void *start, size_t size)
{
  if (has_roots())
    __lsan_register_root_region(start, size);
}

void os_tool_end_root(const void *start, size_t size)
{
  if (has_roots())
    __lsan_unregister_root_region(start, size);
}

/* ---- orders ---- */

void os_tool_leave_order(const void *address)
{
  if (os_tool.sees_orders)
    request(HAPPENS_BEFORE, (uintptr_t)address, 0, 0, 0);
  if (IS_LOOKED_FOR && has_thread_sanitizer())
    __tsan_release((void *)(uintptr_t)address);
}

void os_tool_meet_order(const void *address)
{
  if (os_tool.sees_orders)
    request(HAPPENS_AFTER, (uintptr_t)address, 0, 0, 0);
  if (IS_LOOKED_FOR && has_thread_sanitizer())
    __tsan_acquire((void *)(uintptr_t)address);
}
