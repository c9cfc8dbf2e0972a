/* SPDX-License-Identifier: MIT
 *
 * Reaching into the magazines of another thread (caches.h). The owner says that it is busy before it looks whether its cache is
 * in its slot; the store may stay in its processor's buffer for as long as it likes. The other one empties the slot, has a
 * barrier passed in every thread, and then waits for a while. Who finds the slot empty goes the long way, under the lock. What was
 * emptied is off the list of what can be reached; the long way puts it there again.
 *
 *   never both in the magazine; every block in one place: the magazine, its users, the bin; what has a block is in the list */
#define BLOCKS 2
#define TURNS 3

bool busy, busy_buffered, buffer_full;   /* what memory says; what the owner's buffer has for it */
bool in_slot = true, listed = true, claimed, locked;
byte in_magazine = BLOCKS, in_bin, with_user;
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
    :: in_slot -> work_in_magazine(); done = true
    :: else -> skip
    fi;
    store_busy(false);
    /* The long way: find it under the lock, put it back into its slot and the list, and be busy again; but not while it is claimed,
     * nor after it has left the list again. */
    do
    :: done -> break
    :: !done && in_magazine == 0 && with_user == 0 -> done = true   /* all is in the bin: nothing to do with a magazine */
    :: !done && (in_magazine > 0 || with_user > 0) ->
      acquire();
      drain_buffer();   /* taking a lock is a barrier */
      in_slot = true;
      listed = true;
      release();
      store_busy(true);
      if
      :: !claimed && listed && (in_magazine > 0 || with_user > 0) -> work_in_magazine(); done = true
      :: else -> skip
      fi;
      store_busy(false)
    od;
    assert(in_magazine == 0 || listed);
    turn++
  od
}

/* Twice: the second time it may find the owner on its long way. */
active proctype other()
{
  byte turn;
  bool out;
  do
  :: turn == 2 -> break
  :: turn < 2 ->
    acquire();
    if
    :: !listed -> skip    /* there is nothing to look at */
    :: else ->
      claimed = true;
      in_slot = false;
      drain_buffer();       /* os_fence_others(): a barrier in the owner's thread too */
      if
      :: !busy -> out = true
      :: out = false        /* it did not come out for so long that it is left alone */
      fi;
      if
      :: out ->
        other_inside++;
        assert(!owner_inside);
        in_bin = in_bin + in_magazine;
        in_magazine = 0;
        listed = false;
        other_inside--
      :: else -> skip
      fi;
      claimed = false
    fi;
    release();
    assert(in_bin + in_magazine + with_user <= BLOCKS);
    turn++
  od
}
