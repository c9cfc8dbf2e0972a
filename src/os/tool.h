/* SPDX-License-Identifier: MIT
 *
 * Tools that watch the memory of a program: valgrind's tools, the sanitizers of gcc and clang, heaptrack. They replace the C
 * library's malloc, and only know the blocks of that. They do not see blocks that a manager cuts from a mapping. So a heap may
 * take its blocks from the tool's malloc (heap/large.h), and other blocks are announced here. Builds need nothing of the
 * tools: valgrind's requests are instructions that do nothing elsewhere, and the sanitizers' functions are weak symbols. */
#ifndef OS_TOOL_H
#define OS_TOOL_H

#include "base/bits.h"
#include "base/machine.h"

typedef struct os_tool {
  bool allocates;   /* a tool with its own malloc is present */
  bool sees_bytes;  /* the tool knows for each byte whether the program may access it */
  bool sees_orders; /* the tool follows the order of accesses between threads */
  bool sees_calls;  /* the tool sees calls of memset() and others from the library, but not its locks */
  bool
    has_shadows; /* the tool has shadow memory everywhere except in the topmost addresses, so the program must not map there */
  bool sees_all; /* the tool's leak search covers all memory of the process, not only malloc's */
} os_tool_t;
#ifdef TIDEPOOL_EMBEDDED
enum { HAS_TOOLS = 0 };
static const os_tool_t os_tool;
#else
enum { HAS_TOOLS = 1 };
extern INTERNAL os_tool_t os_tool;
#endif

/* Detects the tool, once. Libraries that are built with a sanitizer, or are malloc themselves, find none. */
void os_look_for_tool(void);

/* Returns whether valgrind runs the program, with any of its tools. */
bool os_tool_is_valgrind(void);

/* Returns false if this library is malloc itself, so there is no other. */
bool os_tool_may_take(void);

/* Returns whether os_tool_take() can serve the request. Valgrind ends programs at larger alignments. */
bool os_tool_serves(size_t size, size_t alignment);

/* Allocates a block from the C library or the tool's malloc; `alignment` is a power of two. Returns NULL if it fails. */
void *os_tool_take(size_t size, size_t alignment);

/* Frees a block of os_tool_take(). The tool reports other addresses. */
void os_tool_give(void *block);

/* These say that the program must not access the bytes, must write them before it reads, or may access them. */
void os_tool_close(const void *start, size_t size);
void os_tool_open_new(const void *start, size_t size);
void os_tool_open(const void *start, size_t size);

/* The tool does not report this thread's accesses to closed bytes between these calls. They nest. */
void os_tool_begin_silence(void);
void os_tool_end_silence(void);

/* Blocks in memory of the program. They form a group with the address `owner`, and end with it. A block, and OS_TOOL_ZONE bytes
 * on each side, are closed before it begins and after it ends. The tool reports the end of other addresses. */
enum { OS_TOOL_ZONE = 16 };
void os_tool_begin_blocks(const void *owner, bool in_block); /* `in_block`: the owner is in a block that the tool knows */
void os_tool_end_blocks(const void *owner, bool in_block);
void os_tool_begin_block(const void *owner, const void *block, size_t size);
void os_tool_end_block(const void *owner, const void *block, size_t size);

/* Makes the tool forget the accesses and locks in these bytes, which get a new use. */
void os_tool_forget(const void *start, size_t size);

void os_tool_leave_block(const void *owner, const void *block); /* objects in it are announced one by one */
void os_tool_report_block(const void *owner, const void *block);

/* The leak search of the tool also begins in this memory of the manager, because it has pointers to the program's memory. */
void os_tool_begin_root(const void *start, size_t size);
void os_tool_end_root(const void *start, size_t size);

/* Code before os_tool_leave_order() happens before code of other threads after os_tool_meet_order() of the address. */
void os_tool_leave_order(const void *address);
void os_tool_meet_order(const void *address);

/* Forces a frame on the stack, so that a sanitizer can unwind the calls that led to an allocation. */
#ifdef TIDEPOOL_IS_MALLOC
enum { MAY_BE_FOLLOWED = 0 };
#else
enum { MAY_BE_FOLLOWED = HAS_TOOLS };
#endif
#define KEEPS_FRAME() \
  do { \
    if (MAY_BE_FOLLOWED) \
      __asm__ volatile("" : : "r"(__builtin_frame_address(0))); \
  } while (0)

/* ---- probes ----
 *
 * Probes (USDT), where bpftrace, perf, SystemTap, gdb and system-wide profilers can watch a running process. A probe is a no-op
 * instruction, and a note in the file with its address and its arguments. docs/tools.md lists the probes. SystemTap's header
 * makes them; builds without it have none. */

#ifdef TIDEPOOL_PROBES
#include <sys/sdt.h>
#define PROBE1(provider, name, a)       DTRACE_PROBE1(provider, name, a)
#define PROBE2(provider, name, a, b)    DTRACE_PROBE2(provider, name, a, b)
#define PROBE3(provider, name, a, b, c) DTRACE_PROBE3(provider, name, a, b, c)
#else
#define PROBE1(provider, name, a)       ((void)(a))
#define PROBE2(provider, name, a, b)    ((void)(a), (void)(b))
#define PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

/* The linker drops code from the malloc library that only heaps and object pools call. A note would keep it. */
#ifdef TIDEPOOL_IS_MALLOC
#define POOL_PROBE2(provider, name, a, b)    ((void)(a), (void)(b))
#define POOL_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#else
#define POOL_PROBE2(provider, name, a, b)    PROBE2(provider, name, a, b)
#define POOL_PROBE3(provider, name, a, b, c) PROBE3(provider, name, a, b, c)
#endif

#endif
