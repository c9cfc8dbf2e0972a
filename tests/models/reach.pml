/* SPDX-License-Identifier: MIT
 *
 * Reaching into the magazines of another thread (thread.h). The owner says that it is busy before it looks whether its cache is
 * in its place; the store may stay in its processor's buffer for as long as it likes. The other one empties the place, has a
 * barrier passed in every thread, and then waits for a while. Who finds the place empty goes the long way, under the lock.
 *
 *   never both in the magazine; every block in one place: the magazine, its users, the pool */
#define BLOCKS 2
#define TURNS 3

bool busy, busy_buffered, buffer_full;   /* what memory says; what the owner's buffer has for it */
bool placed = true, claimed, locked;
byte in_magazine = BLOCKS, in_pool, with_user;
byte owner_inside, other_inside;

inline acquire() { atomic { !locked -> locked = true } }
inline release() { locked = false }

/* The owner's stores leave the buffer in their order, one at a time here. */
inline store_busy(value)
{
  atomic { if :: buffer_full -> busy = busy_buffered :: else -> skip fi; busy_buffered = value; buffer_full = true }
}
inline drain_buffer() { atomic { if :: buffer_full -> busy = busy_buffered; buffer_full = false :: else -> skip fi } }

/* At any time, by itself. */
active proctype store_buffer()
{
end:
  do
  :: atomic { buffer_full -> busy = busy_buffered; buffer_full = false }
  od
}

inline work_in_magazine()
{
  owner_inside++;
  assert(!other_inside);
  if
  :: in_magazine > 0 -> in_magazine--; with_user++
  :: with_user > 0 -> with_user--; in_magazine++
  :: in_magazine == 0 && with_user == 0 -> skip   /* the others have all of it: a refill, which the model has not */
  fi;
  owner_inside--
}

active proctype owner()
{
  byte turn;
  bool done;
  do
  :: turn == TURNS -> break
  :: turn < TURNS ->
    done = false;
    store_busy(true);
    if
    :: placed -> work_in_magazine(); done = true
    :: else -> skip
    fi;
    store_busy(false);
    /* The long way: find it under the lock and put it back into its place, busy again, not while it is claimed. */
    do
    :: done -> break
    :: !done && in_magazine == 0 && with_user == 0 -> done = true   /* all is in the pool: nothing to do with a magazine */
    :: !done && (in_magazine > 0 || with_user > 0) ->
      acquire();
      drain_buffer();   /* taking a lock is a barrier */
      placed = true;
      release();
      store_busy(true);
      if
      :: !claimed && (in_magazine > 0 || with_user > 0) -> work_in_magazine(); done = true
      :: else -> skip
      fi;
      store_busy(false)
    od;
    turn++
  od
}

active proctype other()
{
  bool out;
  acquire();
  claimed = true;
  placed = false;
  drain_buffer();       /* os_fence_others(): a barrier in the owner's thread too */
  if
  :: !busy -> out = true
  :: out = false        /* it did not come out for so long that it is left alone */
  fi;
  if
  :: out ->
    other_inside++;
    assert(!owner_inside);
    in_pool = in_pool + in_magazine;
    in_magazine = 0;
    other_inside--
  :: else -> skip
  fi;
  claimed = false;
  release();
  assert(in_pool + in_magazine + with_user <= BLOCKS)
}
