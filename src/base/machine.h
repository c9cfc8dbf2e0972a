/* SPDX-License-Identifier: MIT
 *
 * The differences between 64-bit and 32-bit machines: how the address space is divided.
 *
 * The manager's window is one eighth of a 64-bit address space. Slots of 1 GiB are so few that a table has one word for each.
 * With 32 bits the window is three eighths of 3 or 4 GiB, since every block of a size class lies in it. Slots are small there,
 * because a heap with a reserve needs some for itself, and the first 2 MiB of each slot are for records. */
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
  SLOTS_MOST = 1 << 7, /* 4 GiB, the whole address space */
  METADATA_SLOTS = 3   /* metadata goes elsewhere when these are full */
};
#endif

_Static_assert(sizeof(void *) * 8 == ADDRESS_BITS && sizeof(size_t) == sizeof(void *), "addresses and sizes have one length");

/* A function that ends with a tail call keeps the return address of the program's call, which names the allocation site. A tail
 * call must not need more stack arguments than its caller has. 32-bit machines pass few arguments in registers; a function with
 * up to three gets them in registers on i386. */
#ifdef __i386__
#define BY_REGISTER __attribute__((regparm(3)))
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

#endif
