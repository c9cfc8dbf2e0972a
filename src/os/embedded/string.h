/* SPDX-License-Identifier: MIT
 * In place of the C library's: all that the profile `embedded` asks of one. */
#ifndef OS_EMBEDDED_STRING_H
#define OS_EMBEDDED_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);

#endif
