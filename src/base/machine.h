/* SPDX-License-Identifier: MIT
 * What a build is for: the machine, the features, and the compiler's thread-local data. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* ---- machine ----
 *
 * The differences between 64-bit and 32-bit machines: how the address space is divided.
 *
 * The manager's window is one eighth of a 64-bit address space. Slots of 1 GiB are so few that a table has one word for each.
 * With 32 bits the window is three eighths of 3 or 4 GiB, since every slab but those in callers' memory lies in it. Slots are
 * small there, because a heap with a reserve needs some for itself, and the first 2 MiB of each slot are for records. */

#if UINTPTR_MAX > UINT32_MAX
enum {
  ADDRESS_BITS = 64,
  SLOT_LOG2 = 30, /* 1 GiB */
  SLOTS_MOST = 1 << 12 /* 4 TiB */,
  METADATA_SLOTS = 15
};
#else
enum {
  ADDRESS_BITS = 32,
  SLOT_LOG2 = 25,      /* 32 MiB */
  SLOTS_MOST = 1 << 7, /* 4 GiB, the whole address space */
  METADATA_SLOTS = 3   /* metadata goes elsewhere when these are full */
};
#endif

_Static_assert(sizeof(void *) * 8 == ADDRESS_BITS && sizeof(size_t) == sizeof(void *), "addresses and sizes have one length");

/* On 32-bit ARM, the lowest bit of a function's or return address marks Thumb code. It is not part of the place. */
#ifdef __arm__
enum { CODE_ALIGNMENT = 2 };
#else
enum { CODE_ALIGNMENT = 1 };
#endif

/* A function that ends with a tail call keeps the return address of the program's call, which names the allocation site. A tail
 * call must not need more stack arguments than its caller has. 32-bit machines pass few arguments in registers; a function with
 * up to three gets them in registers on i386. It is hidden there, because gcc would reach it through the GOT, for which no
 * register is left in a tail call. */
#ifdef __i386__
#define BY_REGISTER __attribute__((regparm(3), visibility("hidden")))
#else
#define BY_REGISTER
#endif

/* INTERNAL is for variables of hot paths: accessed without the GOT. A program may define what is REPLACEABLE. Windows has
 * another format of object files, in which modules share the names that a list has, and no other. */
#ifdef __ELF__
#define INTERNAL    __attribute__((visibility("hidden")))
#define REPLACEABLE __attribute__((weak))
#else
#define INTERNAL
#define REPLACEABLE
#endif

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define NOINLINE    __attribute__((noinline))
#define COLD        __attribute__((noinline, cold))

/* For arrays that every start of a process writes, or their first words. In the shared libraries the linker sorts variables by
 * alignment, so these lie together, and a start touches fewer pages. */
#define TOUCHED_AT_START _Alignas(512)

/* Marks a rare step of a fast path in a header, with NOINLINE or COLD. Each file has its own copy, so the compiler knows which
 * registers it preserves, and the fast path saves none. A get of an object pool has two to four instructions less. */
#define OWN_COPY static __attribute__((unused))

/* Marks a function that reads, without a lock, data that its owner may change at any moment. The race is intended: the result
 * is only a statistic, or is checked again. The thread sanitizer skips such functions. */
#define READS_BESIDE_OWNER __attribute__((noinline, no_sanitize("thread")))

/* ---- features ----
 *
 * The features of a build. The profile `embedded` has no operating system: heaps live in memory of their callers, and there is
 * no default heap, no thread start or exit, and no fork. HAS_SYSTEM is a value for an `if`, so every build compiles every line.
 * The compiler drops the code that a profile does not need. */

#ifdef TIDEPOOL_EMBEDDED
enum { HAS_SYSTEM = 0 };
#define ALWAYS_INLINE inline
#else
enum { HAS_SYSTEM = 1 };
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif

/* Firmware may be built without some features (meson option embedded_without). Such a library refuses to create a heap or
 * object pool that asks for a missing feature, so later calls need no check. */
#ifndef TIDEPOOL_EMBEDDED_WITHOUT
#define TIDEPOOL_EMBEDDED_WITHOUT 0
#endif
enum {
  WITHOUT_CHECKS = 1,
  WITHOUT_HOOKS = 2,
  WITHOUT_GROWTH = 4,
  WITHOUT_EVICTION = 8,
  WITHOUT_OVERFLOW = 16,
  WITHOUT_HOT_OBJECTS = 32,
  WITHOUT_SPEED = 64,
  HAS_CHECKS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_CHECKS),
  HAS_HOOKS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_HOOKS),
  HAS_GROWTH = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_GROWTH),
  HAS_EVICTION = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_EVICTION),
  HAS_OVERFLOW = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_OVERFLOW),
  HAS_HOT_OBJECTS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_HOT_OBJECTS),
  HAS_SPEED = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_SPEED) /* code of granules that only saves instructions */
};

/* ---- thread-local data ----
 *
 * Thread-local data of the fast path, accessed with the fewest instructions of gcc and clang.
 *
 * On x86-64, __seg_fs addresses a field of an initial-exec variable as %fs:offset(,index,8) once the variable's offset is
 * loaded. Compilers would load %fs:0 and add instead: one more dependent load. Elsewhere, and under sanitizers, which do not
 * understand it, it is an ordinary pointer. */

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
