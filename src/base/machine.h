/* SPDX-License-Identifier: MIT
 *
 * What differs between machines of 64 and of 32 bits, in one place: how the few addresses of the latter are divided.
 *
 * With 64 bits an eighth of the address space is the window of the manager, and slots of 1 GiB are so few that a table has one
 * word for each. With 32 bits the window is three eighths of 3 or 4 GiB, since every block of a size class lies in it. The
 * slots are small there: a heap with a reserve has some for itself, and the first 2 MiB of each are for records. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

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
  SLOTS_MOST = 1 << 7, /* 4 GiB, all that there is */
  METADATA_SLOTS = 3   /* where these are full, metadata goes elsewhere */
};
#endif

_Static_assert(sizeof(void *) * 8 == ADDRESS_BITS && sizeof(size_t) == sizeof(void *) && sizeof(long) == sizeof(void *),
               "addresses, sizes and long have one length: __builtin_clzl() takes a size");

/* A function may end with a jump to another, and so keep the address that the program's call returns to, if that one has no
 * more arguments in memory than itself. Machines of 32 bits have few registers for them. There a function with many is told
 * what called it (CALLER_IS_TOLD), and one with up to three has them in registers, where that can be had. A firmware asks
 * nobody where a block was allocated. */
#ifdef TIDEPOOL_EMBEDDED
#define CALLER_IS_TOLD 0
#else
#define CALLER_IS_TOLD (UINTPTR_MAX <= UINT32_MAX)
#endif
#ifdef __i386__
#define BY_REGISTER __attribute__((regparm(3)))
#else
#define BY_REGISTER
#endif

#endif
