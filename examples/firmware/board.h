/* SPDX-License-Identifier: MIT
 * What the example needs of its board: to say a line, and to end. It asks the debugger for both (semihosting), which an
 * emulator answers; a product has a serial port for the one, and never does the other. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

enum { SEMIHOSTING_WRITE0 = 0x04, SEMIHOSTING_EXIT = 0x20, APPLICATION_EXIT = 0x20026 };

static inline uintptr_t ask_debugger(uintptr_t what, const void *argument)
{
#if defined __arm__
  register uintptr_t number __asm__("r0") = what;
  register const void *parameter __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(number) : "r"(parameter) : "memory");
#elif defined __riscv
  register uintptr_t number __asm__("a0") = what;
  register const void *parameter __asm__("a1") = argument;
  /* The three instructions are the mark of a question, and stand in one page. What fills up to there may be compressed. */
  __asm__ volatile(".balign 16\n.option push\n.option norvc\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n.option pop"
                   : "+r"(number)
                   : "r"(parameter)
                   : "memory");
#else
#error "this board is not known here"
#endif
  return number;
}

static inline void board_say(const char *text) { ask_debugger(SEMIHOSTING_WRITE0, text); }

__attribute__((noreturn)) static inline void board_end(int status)
{
  const uintptr_t how[2] = {APPLICATION_EXIT, (uintptr_t)status};
  for (;;)
    ask_debugger(SEMIHOSTING_EXIT, how);
}

#endif
