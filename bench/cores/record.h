/* SPDX-License-Identifier: MIT
 *
 * Included before everything else in the library's own sources, where they are compiled for `cores-recorded`: each lock that is
 * taken is counted, by the function that takes it, with the time that it is waited for and held. The sources stay as they are,
 * and the library that is installed has not an instruction of it. A function-like macro is not expanded where its name stands
 * without parentheses, so fork.c hands around the real functions. */
#ifndef RECORD_H
#define RECORD_H

#include "os/lock.h"

/* A place in the source that takes a lock. */
typedef struct record_site {
  const char *function, *lock;
} record_site_t;

/* A begin comes before the lock is asked for, a taken after it is had. */
uint64_t record_begin(void);
void record_taken(lock_t *lock, const record_site_t *site, uint64_t begin, bool waited);
void record_opens(lock_t *lock);

static inline void record_acquire(lock_t *lock, const record_site_t *site)
{
  uint64_t begin = record_begin();
  bool alone = os_single_threaded() || lock->solo, waits = !alone && !lock_try(lock);
  if (waits)
    lock_wait(lock);
  else if (alone)
    lock->word = 1;
  record_taken(lock, site, begin, waits);
}

static inline bool record_try(lock_t *lock, const record_site_t *site, bool (*attempt)(lock_t *lock))
{
  uint64_t begin = record_begin();
  bool done = attempt(lock);
  if (done)
    record_taken(lock, site, begin, false);
  return done;
}

static inline void record_wait(lock_t *lock, const record_site_t *site)
{
  uint64_t begin = record_begin();
  lock_wait(lock);
  record_taken(lock, site, begin, true);
}

static inline bool record_closure(lock_t *lock, const record_site_t *site)
{
  record_acquire(lock, site);
  return true;
}

#define RECORD_SITE(text) \
  (__extension__({ \
    static const record_site_t site_ = {__func__, text}; \
    &site_; \
  }))
#define lock_acquire(lock) record_acquire(lock, RECORD_SITE(#lock))
#define lock_release(lock) (record_opens(lock), lock_release(lock))
#define lock_try(lock)     record_try(lock, RECORD_SITE(#lock), lock_try)
#define lock_attempt(lock) record_try(lock, RECORD_SITE("attempt " #lock), lock_attempt)
#define lock_wait(lock)    record_wait(lock, RECORD_SITE(#lock))
#define lock_open(lock)    (record_opens(lock), lock_open(lock))

/* Of the locks that a fork closes. Nothing forks here. */
#define closure_acquire(kind, lock)   record_closure(lock, RECORD_SITE(#lock))
#define closure_release(lock, shared) ((void)(shared), lock_release(lock))

/* The machine that is counted for: each thread has a processor of its own, however few there are here. */
unsigned record_processor(void);
unsigned record_processors(void);
#define os_processor()  record_processor()
#define os_processors() record_processors()

#endif
