/* SPDX-License-Identifier: MIT
 *
 * Sites: where in the program a block was allocated or freed. A site is the return address of the call, and as many of its
 * callers' as the option `sites` says. Each that is different is stored once, for ever, and known by a number, which has room
 * in the head of a block.
 *
 * The library's own functions are no sites. The call that a program made reaches what takes its return address by tail calls
 * alone, or hands the address over. So the library is compiled with them whatever a parent project has for itself; built alone
 * and without optimization it has none, and the site may be in here. */
#ifndef SITES_H
#define SITES_H

#include "base/bits.h"
#include "debug/system.h"
#include "heap/heads.h"
#include "os/lock.h"

enum {
  SITE_BITS = 26,
  SITES_END = 1 << SITE_BITS, /* no number is as high */
  SITE_FRAMES_MOST = OS_STACK_MOST,
  PROFILE_FRAMES = OS_STACK_MOST
};

/* The site of a call that returns to this address. 0: there is no memory for it, or no address. Takes sites_lock if nobody was
 * there before. */
site_t site_of_caller(const void *caller);

/* The same with as many callers, whatever the option says. */
site_t site_of_stack_of(const void *caller, unsigned frames);

/* Firmware has none. */
static inline site_t site_of(const void *caller) { return HAS_SYSTEM ? site_of_caller(caller) : 0; }

/* Its addresses, the innermost first; returns how many. */
size_t site_frames(site_t site, const void *const **frames);

/* The innermost; NULL: it is not known. */
static inline const void *site_address(site_t site)
{
  const void *const *frames;
  return HAS_SYSTEM && site_frames(site, &frames) ? frames[0] : NULL;
}

extern lock_t sites_lock;

/* Where the addresses are, for whoever reads the memory of the process from outside. A site is the number of the first unit of
 * its record; so many units are in a chunk, and numbers below *taken are of records. */
enum { SITE_CHUNK_LOG2 = 13, SITE_UNIT = 8 /* bytes; a chunk has 64 KiB */ };
typedef struct site_record {
  site_t next; /* in its chain */
  uint32_t count;
  const void *frames[];
} site_record_t;
typedef struct sites_place {
  char *const *chunks;
  const uint32_t *taken;
} sites_place_t;
sites_place_t sites_place(void);

#endif
