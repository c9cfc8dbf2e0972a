/* SPDX-License-Identifier: MIT
 * There are no system calls by number. */
#ifndef WINDOWS_SYSCALL_H
#define WINDOWS_SYSCALL_H

#include <errno.h>

enum { SYS_membarrier = 1 };

static inline long syscall(long number, ...) { return (void)number, errno = ENOSYS, -1; }

#endif
