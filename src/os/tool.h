/* SPDX-License-Identifier: MIT
 *
 * Tools that look at the memory of a program: the tools of valgrind, the sanitizers of gcc and clang, heaptrack. They put their
 * own malloc in place of the C library's, and know of a block what they were told by that. Of a manager that takes one mapping
 * and cuts it they see nothing. So a heap may have its blocks from that malloc (heap/tool_source.h), and what cannot come from
 * there is announced to the tool here. No build needs anything of the tools: valgrind is asked by instructions that do nothing
 * elsewhere, and sanitizers by weak names. */
#ifndef OS_TOOL_H
#define OS_TOOL_H

#include "base/bits.h"
#include "base/features.h"

typedef struct os_tool {
  bool allocates;   /* there is one with a malloc of its own */
  bool sees_bytes;  /* and it knows of each byte whether the program may use it */
  bool sees_orders; /* or what threads do to each other, and in which order */
  bool sees_calls;  /* and of the library no lock, but its calls of memset() and others */
  bool has_shadows; /* at addresses all over, but for the topmost: the program may map nothing there */
  bool sees_all;    /* its search for leaks goes through all memory of the process, and not through malloc's alone */
} os_tool_t;
extern INTERNAL os_tool_t os_tool;

/* Looks which tool is there. Library and program are what they are: a second call finds the same. A library that is compiled
 * with a sanitizer itself, or that is malloc itself, finds none. */
void os_look_for_tool(void);

/* The program is run by valgrind, whatever its tool. */
bool os_tool_is_valgrind(void);

/* False: this library is malloc itself, and there is no other. */
bool os_tool_may_take(void);

/* Valgrind ends a program that asks for a larger alignment, and all tools complain of a size that nobody can have. */
bool os_tool_serves(size_t size, size_t alignment);

/* A block of the C library, or of the tool that stands for it; a power of two. NULL: there is none. */
void *os_tool_take(size_t size, size_t alignment);

/* The tool says so of what is none. */
void os_tool_give(void *block);

/* What the program may do with these bytes: nothing; only write them at first, as those of a new block; everything. */
void os_tool_close(const void *start, size_t size);
void os_tool_open_new(const void *start, size_t size);
void os_tool_open(const void *start, size_t size);

/* What this thread does to closed bytes until it ends is nothing to report. It nests. */
void os_tool_begin_silence(void);
void os_tool_end_silence(void);

/* Blocks in memory of the program. They belong together by what `owner` is the address of: when that ends, so do they. A block
 * is closed before it begins, new then, and closed when it ends. So are OS_TOOL_ZONE bytes on both sides of it. What is none,
 * and ends, the tool reports. */
enum { OS_TOOL_ZONE = 16 };
void os_tool_begin_blocks(const void *owner, bool in_block); /* `in_block`: the owner is in a block that the tool knows */
void os_tool_end_blocks(const void *owner, bool in_block);
void os_tool_begin_block(const void *owner, const void *block, size_t size);
void os_tool_end_block(const void *owner, const void *block, size_t size);

/* What threads did to these bytes, and which locks were there, is over: they are another's. */
void os_tool_forget(const void *start, size_t size);

void os_tool_leave_block(const void *owner, const void *block); /* what is in it is announced by itself */
void os_tool_report_block(const void *owner, const void *block);

/* Memory of the manager that leads to what is the program's: a search for leaks begins there, too. */
void os_tool_begin_root(const void *start, size_t size);
void os_tool_end_root(const void *start, size_t size);

/* What the thread has done until it leaves an address comes before what another does that has met it there. */
void os_tool_leave_order(const void *address);
void os_tool_meet_order(const void *address);

/* The function has a frame on the stack, by which a sanitizer follows the calls that led to an allocation. */
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
