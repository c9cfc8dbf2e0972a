/* SPDX-License-Identifier: MIT
 * Mappings by pages, as POSIX has them: mman.c. Memory cannot be locked. */
#ifndef WINDOWS_MMAN_H
#define WINDOWS_MMAN_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

enum {
  PROT_NONE = 0,
  PROT_READ = 1,
  PROT_WRITE = 2,
  MAP_PRIVATE = 2,
  MAP_FIXED = 0x10,
  MAP_ANONYMOUS = 0x20,
  MAP_NORESERVE = 0x4000,
  MAP_FIXED_NOREPLACE = 0x100000,
  MADV_DONTNEED = 4,
  MREMAP_MAYMOVE = 1,
  MREMAP_FIXED = 2
};
#define MAP_FAILED ((void *)-1)

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int munmap(void *address, size_t size);
int mprotect(void *address, size_t size, int protection);
int madvise(void *address, size_t size, int advice);
void *mremap(void *address, size_t size, size_t new_size, int flags, ...);
int mincore(void *address, size_t size, unsigned char *pages); /* fails where something is not mapped; `pages` is not written */

static inline int mlock(const void *address, size_t size) { return (void)address, (void)size, errno = ENOSYS, -1; }
static inline int munlock(const void *address, size_t size) { return (void)address, (void)size, errno = ENOSYS, -1; }

#endif
