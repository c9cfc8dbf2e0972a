/* SPDX-License-Identifier: MIT
 * What the files of a system need of each other, and nobody else does. */
#ifndef OS_PARTS_H
#define OS_PARTS_H

#include <stdbool.h>
#include <sys/types.h>

/* os_forbid() makes calls of a thread fail that would take memory from the system or return it. Each such call asks this first:
 * returns whether it must fail, and counts it. The count shows how often a program would enter the system. */
bool os_refuses(void);

/* open() for os_append(), write() and close(), but no cancellation points: a cancelled thread would end there with the locks
 * that it holds, and abort() would not be called. They set errno. */
int os_open_to_append(const char *path);
ssize_t os_write_some(int file, const char *text, size_t length);
void os_close_appended(int file);

#endif
