/* SPDX-License-Identifier: MIT
 * Replaces the C library's header: these are the only functions of a C library that the profile `embedded` needs. */
#ifndef OS_EMBEDDED_STRING_H
#define OS_EMBEDDED_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);

#endif
