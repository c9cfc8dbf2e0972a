/* SPDX-License-Identifier: MIT
 * The kernel below the files of os/, as the tests of it want it: old, new, or one that refuses. Where nothing is said it is
 * this one. */
#ifndef ANY_KERNEL_H
#define ANY_KERNEL_H

#define KERNEL_ITSELF
#include "kernel.h"
#include "os/os.h"
#include "unit.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { ERRNO_BEFORE = 4711, SOME_PAGES = 16 };
#define PAGE os_page_size()
#define SOME (SOME_PAGES * PAGE)

/* Error numbers; 0: this kernel's own answer. */
typedef struct kernel {
  int mmap, munmap, mremap, mprotect, mlock, munlock, clock, key, setspecific, atfork, write;
  int dontneed, dontneed_locked, populate, huge_pages; /* of madvise() */
  int prctl, getrandom, sysinfo, membarrier, prlimit, futex;
  bool address_is_a_hint; /* a kernel that does not know MAP_FIXED_NOREPLACE */
  bool may_map_over;      /* a mapping may replace others */
  bool no_auxiliary_vector;
  const char *file;     /* what is opened instead of a file of the system's */
  char *next_mapping;   /* where the next mapping is said to be; nothing is mapped */
  size_t write_most;    /* of one call; 0: any */
  size_t writable_most; /* bytes of a mapping that can be written; 0: any */
  uint64_t random;      /* what getrandom() gives; 0: this kernel's own number */
  time_t later;         /* seconds that the clock is ahead */
  int interruptions;    /* of writing, still to come */
  int processors;       /* that the process may use, from the first on; 0: this kernel's own answer */
  int getcpu;           /* an error number */
  bool rseq_has_node;   /* as far as this kernel writes it into threads' memory */
  unsigned node;
  rlim_t address_space, data;
  /* What was seen. */
  size_t mmaps, munmaps, mremaps, advices, writes, timed_waits, keys, keys_most;
  int remap_flags, futex_operation;
  size_t names;
  char name[80]; /* that memory got last */
} kernel_t;

extern kernel_t kernel;

void all_new(void); /* a kernel that knows and grants everything */
bool errno_is_kept(void);

/* The page can be read, as far as the system is concerned. */
bool is_readable(const void *page);
bool is_mapped(const void *page);
char *some_pages(void);

/* Addresses between two others that are free. */
char *free_addresses(void);

extern char order[20]; /* p P c, and l u for the streams, as a fork comes by */

#endif
