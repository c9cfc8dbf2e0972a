/* SPDX-License-Identifier: MIT
 * The functions of os.h that remain without an operating system. The firmware's hooks replace the rest. */
#include "os/os.h"
#include <errno.h>
#include <tidepool/embedded.h>

int pool_embedded_errno;

__attribute__((weak)) void pool_embedded_lock(void) {}
__attribute__((weak)) void pool_embedded_unlock(void) {}

__attribute__((weak)) void pool_embedded_abort(const char *call, const void *address, const char *what)
{
  (void)call, (void)address, (void)what;
  __builtin_trap();
}

/* Large blocks are rounded to pages. Without pages the unit is the alignment of a block. */
size_t os_page_size(void) { return 16; }

/* Object pools return idle arrays on request, never by the clock. */
uint64_t os_now_ms(void) { return 0; }
