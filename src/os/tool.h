/* SPDX-License-Identifier: MIT
 *
 * Tools that watch the memory of a program: valgrind's tools, the sanitizers of gcc and clang, heaptrack. They replace the C
 * library's malloc, and only know the blocks of that. They do not see blocks that a manager cuts from a mapping. So a heap may
 * take its blocks from the tool's malloc (heap/tool_source.h), and other blocks are announced here. Builds need nothing of the
 * tools: valgrind's requests are instructions that do nothing elsewhere, and the sanitizers' functions are weak symbols. */
#ifndef OS_TOOL_H
#define OS_TOOL_H

#include "base/bits.h"
#include "base/features.h"

typedef struct os_tool {
  bool allocates;   /* a tool with its own malloc is present */
  bool sees_bytes;  /* the tool knows for each byte whether the program may access it */
  bool sees_orders; /* the tool follows the order of accesses between threads */
  bool sees_calls;  /* the tool sees calls of memset() and others from the library, but not its locks */
  bool
    has_shadows; /* the tool has shadow memory everywhere except in the topmost addresses, so the program must not map there */
  bool sees_all; /* the tool's leak search covers all memory of the process, not only malloc's */
} os_tool_t;
extern INTERNAL os_tool_t os_tool;

/* Detects the tool. A second call finds the same tool. A library built with a sanitizer, or one that is malloc itself, finds
 * none. */
void os_look_for_tool(void);

/* Returns whether valgrind runs the program, with any of its tools. */
bool os_tool_is_valgrind(void);

/* Returns false if this library is malloc itself, so there is no other. */
bool os_tool_may_take(void);

/* Returns whether os_tool_take() can serve the request. Valgrind ends the program at larger alignments, and all tools report
 * sizes that cannot succeed. */
bool os_tool_serves(size_t size, size_t alignment);

/* Allocates a block from the C library or from its replacement by the tool; `alignment` is a power of two. Returns NULL if it
 * fails. */
void *os_tool_take(size_t size, size_t alignment);

/* Frees such a block. The tool reports other addresses. */
void os_tool_give(void *block);

/* Tell the tool that the program must not access these bytes; that it must write them first, as in a new block; that it may
 * access them. */
void os_tool_close(const void *start, size_t size);
void os_tool_open_new(const void *start, size_t size);
void os_tool_open(const void *start, size_t size);

/* The tool does not report this thread's accesses to closed bytes between these calls. They nest. */
void os_tool_begin_silence(void);
void os_tool_end_silence(void);

/* Blocks in memory of the program. They form a group with the address `owner`, and end with it. A block is closed before it
 * begins and after it ends, as are OS_TOOL_ZONE bytes on each side of it. The tool reports the end of an address that is not a
 * block. */
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

/* Everything that one thread did before os_tool_leave_order() happens before the code of another thread that follows
 * os_tool_meet_order() of the same address. */
void os_tool_leave_order(const void *address);
void os_tool_meet_order(const void *address);

/* Forces a frame on the stack, so that a sanitizer can unwind the calls that led to an allocation. */
#ifdef TIDEPOOL_IS_MALLOC
enum { MAY_BE_FOLLOWED = 0 };
#else
enum { MAY_BE_FOLLOWED = HAS_SYSTEM };
#endif
#define KEEPS_FRAME() \
  do { \
    if (MAY_BE_FOLLOWED) \
      __asm__ volatile("" : : "r"(__builtin_frame_address(0))); \
  } while (0)

#endif
