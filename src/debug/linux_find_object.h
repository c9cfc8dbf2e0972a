/* SPDX-License-Identifier: MIT
 *
 * glibc's _dl_find_object(), since 2.35: finds the module of an address without a lock, even in a signal handler. Older headers
 * and other C libraries lack it, so find_object is weak. */
#ifndef DEBUG_LINUX_FIND_OBJECT_H
#define DEBUG_LINUX_FIND_OBJECT_H

struct link_map;

typedef struct found_object {
  unsigned long long flags;
  void *start, *end;
  struct link_map *map;
  void *index; /* .eh_frame_hdr */
  unsigned long long reserved[7];
} found_object_t;

/* Returns 0, or less if no module has the address. */
extern int find_object(void *pc, found_object_t *found) __asm__("_dl_find_object") __attribute__((weak));

#endif
