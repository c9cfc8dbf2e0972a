/* SPDX-License-Identifier: MIT
 *
 * Thread-local data of the fast path, accessed with the fewest instructions of gcc and clang.
 *
 * On x86-64, __seg_fs addresses a field of an initial-exec variable as %fs:offset(,index,8) once the variable's offset is
 * loaded. Compilers would load %fs:0 and add instead: one more dependent load. Elsewhere, and under sanitizers, which do not
 * understand it, it is an ordinary pointer. */
#ifndef OS_THREAD_LOCAL_H
#define OS_THREAD_LOCAL_H

#include <stdint.h>

#ifdef TIDEPOOL_EMBEDDED
#define THREAD_LOCAL /* firmware has one copy for all contexts */
#else
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#endif

/* For variables that THREAD_POINTER names: a link-time optimizer sees no use there, and would drop the variable or its name. */
#ifdef __clang__
#define NAMED_IN_ASSEMBLY __attribute__((used))
#else
#define NAMED_IN_ASSEMBLY __attribute__((used, externally_visible))
#endif

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define UNDER_SANITIZER 1
#endif

#if defined __x86_64__ && defined __ELF__ && defined __SEG_FS && !defined UNDER_SANITIZER
#define THREAD_SPACE __seg_fs
#define THREAD_POINTER(type, variable, bytes) \
  (__extension__({ \
    uintptr_t offset_ = (bytes); \
    __asm__("addq " #variable "@gottpoff(%%rip), %0" : "+r"(offset_) : : "cc"); \
    (type __seg_fs *)offset_; \
  }))
/* Loads the value into the register that returns it. gcc would copy it there at the end. */
#define RESULT_REGISTER(value) __asm__("" : "+a"(value))
#else
#define THREAD_SPACE
#define RESULT_REGISTER(value)                ((void)0)
#define THREAD_POINTER(type, variable, bytes) ((type *)((char *)&(variable) + (bytes)))
#endif

#endif
