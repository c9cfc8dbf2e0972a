/* SPDX-License-Identifier: MIT
 * Machine-dependent registers: at a place of the code, in a frame, and where a signal stored them. */
#ifndef DEBUG_LINUX_REGISTERS_H
#define DEBUG_LINUX_REGISTERS_H

#include "debug/linux_seen.h"
#include "debug/linux_tables.h"
#include <stddef.h>
#include <ucontext.h>

#ifdef HAS_TABLES

enum { WORD = sizeof(uintptr_t) };

#define BIT(column) ((uint64_t)1 << (column))

static inline bool is_known(const registers_t *registers, unsigned column) { return registers->known >> column & 1; }

static inline void set_register(registers_t *registers, unsigned column, uintptr_t value)
{
  registers->values[column] = value;
  registers->known |= BIT(column);
}

/* The machine may have signed the address in its highest bits. The hint does nothing elsewhere. */
static inline uintptr_t without_signature(uintptr_t address)
{
#ifdef __aarch64__
  register uintptr_t link __asm__("x30") = address;
  __asm__("hint #7" : "+r"(link)); /* xpaclri */
  return link;
#else
  return address;
#endif
}

/* Stores the registers that a call preserves, as they are at `*pc`, which is in the function that this is inlined into. */
static ALWAYS_INLINE void capture(registers_t *registers, uintptr_t *pc)
{
#ifdef __aarch64__
  uintptr_t sp;
  __asm__ volatile("adr %0, 0f\n0:\tmov %1, sp\n\tstp x19, x20, [%2, #152]\n\tstp x21, x22, [%2, #168]\n\t"
                   "stp x23, x24, [%2, #184]\n\tstp x25, x26, [%2, #200]\n\tstp x27, x28, [%2, #216]\n\t"
                   "stp x29, x30, [%2, #232]\n\tstr %1, [%2, #248]"
                   : "=&r"(*pc), "=&r"(sp)
                   : "r"(registers->values)
                   : "memory");
  registers->known = ~(BIT(19) - 1) & (BIT(COLUMNS) - 1);
#else
  __asm__ volatile("leaq 0f(%%rip), %0\n0:\tmovq %%rbx, 24(%1)\n\tmovq %%rbp, 48(%1)\n\tmovq %%rsp, 56(%1)\n\t"
                   "movq %%r12, 96(%1)\n\tmovq %%r13, 104(%1)\n\tmovq %%r14, 112(%1)\n\tmovq %%r15, 120(%1)"
                   : "=&r"(*pc)
                   : "r"(registers->values)
                   : "memory");
  registers->known = BIT(3) | BIT(6) | BIT(7) | BIT(12) | BIT(13) | BIT(14) | BIT(15);
#endif
}

/* Stores the registers as they are behind the call that returns to `from`. False: the frame is not that function's. */
static inline bool registers_of_caller_at(registers_t *registers, const void *const *frame, const void *from)
{
#ifdef __x86_64__
  uintptr_t at = (uintptr_t)frame;
  if (!frame || seen_word(at + WORD) != (uintptr_t)from)
    return false;
  registers->known = 0;
  set_register(registers, FP_COLUMN, seen_word(at));
  set_register(registers, SP_COLUMN, at + 2 * WORD);
  return true;
#else
  (void)registers, (void)frame, (void)from;
  return false;
#endif
}

/* ---- signal frames ---- */

#ifdef __aarch64__
static const uint8_t sigreturn_code[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4}; /* mov x8, #139; svc #0 */
enum { CONTEXT_AT = 128 };                                                                /* behind a siginfo_t */
static inline size_t place_in_context(unsigned column) { return offsetof(ucontext_t, uc_mcontext.regs) + column * WORD; }
static inline size_t place_of_pc(void) { return offsetof(ucontext_t, uc_mcontext.pc); }
#else
static const uint8_t sigreturn_code[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05}; /* mov $15, %rax; syscall */
enum { CONTEXT_AT = 0 };
static inline size_t place_in_context(unsigned column)
{
  static const uint8_t words[COLUMNS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                         REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  return offsetof(ucontext_t, uc_mcontext.gregs) + words[column] * (size_t)WORD;
}
static inline size_t place_of_pc(void) { return place_in_context(RETURN_COLUMN); }
#endif

#endif
#endif
