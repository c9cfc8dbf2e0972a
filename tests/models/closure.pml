/* SPDX-License-Identifier: MIT
 *
 * A fork that takes none of the locks of a kind (os/closure.h). Whoever acquires one looks whether the kind is closed once it has
 * the lock; the fork closes the kind and then looks at each lock. Both are locked instructions or barriers, so memory is in
 * order here. Two locks are of different levels, as a budget and its parent's: a thread that has the inner one takes the outer
 * one without a look, and the fork passes the inner one first.
 *
 *   at the fork no thread has changed anything half; everybody comes to an end */
#define THREADS 2

bool closed, queue;
bool word[2];
bool half[2];   /* what the lock protects is being changed */
byte inside[2];
bool forked;

inline acquire(l) { atomic { !word[l] -> word[l] = true } }

inline closure_acquire(l)
{
  acquire(l);
  do
  :: !closed -> break
  :: else ->
    word[l] = false;
    atomic { !queue -> queue = true };
    queue = false;
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

/* One changes both levels, one the outer alone, or the inner alone. */
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
    fi;
    turn++
  od
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
  atomic { !queue -> queue = true };
  closed = true;
  pass(0);
  pass(1);
  assert(!half[0] && !half[1]);
  forked = true;
  assert(!half[0] && !half[1]);
  closed = false;
  queue = false
}
