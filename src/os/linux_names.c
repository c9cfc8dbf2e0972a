/* SPDX-License-Identifier: MIT
 * Names of mappings in /proc/PID/maps and smaps: [anon:tidepool], [anon:tidepool: HEAP]. The kernel copies them. Kernels before
 * 5.17, or built without the feature, return EINVAL, and nothing is named. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Values of <linux/prctl.h>, which some systems lack. */
enum { SET_VMA = 0x53564d41, SET_VMA_NAME = 0, NAME_SIZE = 80 };

bool os_has_names;

static void name_in_kernel(const void *address, size_t size, const char *name)
{
  int saved = errno;
  syscall(SYS_prctl, SET_VMA, SET_VMA_NAME, address, size, name);
  errno = saved;
}

/* The kernel only takes printable characters, and not all of them. */
static char known(char c) { return c < ' ' || c > '~' || c == '[' || c == ']' || c == '\\' || c == '$' || c == '`' ? '_' : c; }

void os_name_now(const void *address, size_t size, const char *name)
{
  static const char own[] = "tidepool: ";
  char room[NAME_SIZE] = "tidepool";
  if (!size)
    return;
  if (name) {
    size_t length = sizeof own - 1;
    memcpy(room, own, length);
    while (*name && length < NAME_SIZE - 1)
      room[length++] = known(*name++);
  }
  name_in_kernel(address, size, room);
}
