/* SPDX-License-Identifier: MIT
 *
 * A site is where the program allocates or frees: the return address of the call, and as many of its callers' as the option
 * `sites` asks for. Each distinct site is stored once, for good, and has a number that fits in the head of a block.
 *
 * The library's own functions are no sites: the program's call reaches the function that takes its return address only by tail
 * calls, or passes the address along. So the library is compiled with tail calls, whatever options a parent project uses. Built
 * alone without optimization it has none, and a site may be in the library. */
#ifndef SITES_H
#define SITES_H

#include "base/bits.h"
#include "debug/system.h"
#include "heap/debug_hooks.h"
#include "os/lock.h"

enum {
  SITE_BITS = 26,
  SITES_END = 1 << SITE_BITS, /* beyond all numbers */
  SITE_FRAMES_MOST = OS_STACK_MOST,
  PROFILE_FRAMES = OS_STACK_MOST
};

/* Returns the site of a call that returns to this address, under sites_lock if it is new. 0: no memory, or no address. */
site_t site_of_caller(const void *caller);

/* site_of_caller() with up to `frames` addresses, whatever the option says. */
site_t site_of_stack_of(const void *caller, unsigned frames);

static inline site_t site_of(const void *caller) { return site_of_caller(caller); }

/* Returns the number of addresses, the innermost first. */
size_t site_frames(site_t site, const void *const **frames);

static inline const void *site_address(site_t site)
{
  const void *const *frames;
  return site_frames(site, &frames) ? frames[0] : NULL;
}

/* The next message names these sites. */
void sites_say(site_t allocated, site_t freed);

extern lock_t sites_lock;

/* The addresses for readers outside the process. A site is the number of the first unit of its record. A chunk has
 * 2^SITE_CHUNK_LOG2 units, and numbers below *taken belong to records. */
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
