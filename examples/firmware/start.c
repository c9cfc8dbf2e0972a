/* SPDX-License-Identifier: MIT
 * From reset to main(): variables get their first values, and the stack is where the linker script says. */
#include "board.h"

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_top[];
int main(void);

__attribute__((noreturn, used)) void start(void); /* the linker script knows it, and the assembly below */

void start(void)
{
  for (uint32_t *to = data_start, *from = data_load; to < data_end;)
    *to++ = *from++;
  for (volatile uint32_t *to = bss_start; to < (volatile uint32_t *)bss_end;)
    *to++ = 0;
  board_end(main());
}

#ifdef __arm__
__attribute__((noreturn)) static void fault(void)
{
  board_say("fault\n");
  board_end(1);
}

/* The processor begins with the first two. */
typedef union vector {
  void *address;
  void (*handler)(void);
} vector_t;
__attribute__((section(".vectors"), used)) static const vector_t vectors[16] = {
  {.address = stack_top}, {.handler = start}, {.handler = fault}, {.handler = fault},
  {.handler = fault},     {.handler = fault}, {.handler = fault}};
#else
__asm__(".section .vectors, \"ax\"\n.globl board_reset\nboard_reset: la sp, stack_top\n j start\n.text");
#endif
