/* SPDX-License-Identifier: MIT
 *
 * _dl_find_object() of the C library of GNU since 2.35: which module an address is in, without a lock, also in a handler of
 * signals. The headers of an older library lack it, and so does another one: find_object is weak. */
#ifndef OS_LINUX_FIND_OBJECT_H
#define OS_LINUX_FIND_OBJECT_H

struct link_map;

typedef struct found_object {
  unsigned long long flags;
  void *start, *end;
  struct link_map *map;
  void *index; /* .eh_frame_hdr */
  unsigned long long reserved[7];
} found_object_t;

/* 0, or less: it is in none. */
extern int find_object(void *pc, found_object_t *found) __asm__("_dl_find_object") __attribute__((weak));

#endif
