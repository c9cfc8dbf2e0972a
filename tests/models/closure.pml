/* SPDX-License-Identifier: MIT
 *
 * A fork that takes none of the locks of a kind (os/lock.h). Whoever acquires one looks whether the kind is closed once it has
 * the lock; the fork closes the kind and then looks at each lock. Both are locked instructions or barriers, so memory is in
 * order here. Locks 0 and 1 are of one kind and of different levels, as a budget and its parent's: a thread that has the inner
 * one takes the outer one without a look, and the fork passes the inner one first. Lock 2 is of another kind, as a depot's: it is
 * acquired alone or by a thread that has lock 0, as a bin's, and the fork closes its kind when it has passed those.
 *
 *   at the fork no thread has changed anything half; everybody comes to an end */
#define THREADS 2
#define KIND(l) ((l) / 2)

bool closed[2], queue[2];
bool word[3];
bool half[3];   /* what the lock protects is being changed */
byte inside[3];
bool forked;

inline acquire(l) { atomic { !word[l] -> word[l] = true } }

inline closure_acquire(l)
{
  acquire(l);
  do
  :: !closed[KIND(l)] -> break
  :: else ->
    word[l] = false;
    atomic { !queue[KIND(l)] -> queue[KIND(l)] = true };
    queue[KIND(l)] = false;
    acquire(l)
  od
}

inline change(l)
{
  inside[l]++;
  assert(inside[l] == 1);
  half[l] = true;
  half[l] = false;
  inside[l]--
}

/* One changes both levels, one the outer alone, or the inner alone; one what is of two kinds, or of the second alone. */
active [THREADS] proctype user()
{
  byte turn;
  do
  :: turn == 2 -> break
  :: turn < 2 ->
    if
    :: closure_acquire(0);
      acquire(1);
      half[0] = true;
      change(1);
      half[0] = false;
      word[0] = false;
      word[1] = false
    :: closure_acquire(1);
      change(1);
      word[1] = false
    :: closure_acquire(0);
      change(0);
      word[0] = false
    :: closure_acquire(0);
      half[0] = true;
      closure_acquire(2);
      change(2);
      word[2] = false;
      half[0] = false;
      word[0] = false
    :: closure_acquire(2);
      change(2);
      word[2] = false
    fi;
    turn++
  od
}

inline close(k)
{
  atomic { !queue[k] -> queue[k] = true };
  closed[k] = true
}

inline open(k)
{
  closed[k] = false;
  queue[k] = false
}

inline pass(l)
{
  if
  :: !word[l] -> skip
  :: else -> acquire(l); word[l] = false
  fi
}

active proctype forking()
{
  close(0);
  pass(0);
  pass(1);
  close(1);
  pass(2);
  assert(!half[0] && !half[1] && !half[2]);
  forked = true;
  assert(!half[0] && !half[1] && !half[2]);
  open(1);
  open(0)
}
