/* SPDX-License-Identifier: MIT
 *
 * A thread ends while a heap that it has magazines of is destroyed, and a third looks at the heap by an address (thread.c, create.c,
 * locate.c). The caches are flushed, or taken away, under threads_lock; the pool's record goes when nobody can be looking at it any
 * more: the looker holds heaps_lock, and the one who destroys takes and opens it last.
 *
 *   nothing is flushed into a pool that has ended, nobody looks at a record that is gone, the cache is taken once */
bool threads_locked, heaps_locked;
bool cached = true, listed = true, slab_there = true, record_there = true;
byte flushes;

#define ACQUIRE(lock) atomic { !lock -> lock = true }
#define RELEASE(lock) lock = false

active proctype thread_that_ends()
{
  ACQUIRE(threads_locked);
  if
  :: cached -> assert(record_there && slab_there); flushes++; cached = false
  :: else -> skip
  fi;
  RELEASE(threads_locked)
}

active proctype one_who_destroys()
{
  ACQUIRE(heaps_locked);
  listed = false;
  RELEASE(heaps_locked);
  ACQUIRE(threads_locked);
  if
  :: cached -> cached = false; flushes++   /* dropped: its blocks are gone */
  :: else -> skip
  fi;
  RELEASE(threads_locked);
  slab_there = false;
  ACQUIRE(heaps_locked);                   /* wait_for_onlookers() */
  RELEASE(heaps_locked);
  record_there = false;
  assert(flushes == 1)
}

active proctype onlooker()
{
  bool found;
  ACQUIRE(heaps_locked);
  found = slab_there;                      /* under the space's lock, where a slab goes too */
  if
  :: found -> assert(record_there)         /* its pool and heap are looked at */
  :: else -> skip
  fi;
  RELEASE(heaps_locked)
}
