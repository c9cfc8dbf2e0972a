/* SPDX-License-Identifier: MIT
 *
 * The lock of os/lock.h and lock.c: one word, 0 free, 1 held, 2 held and somebody may sleep. A sleep begins only if the word
 * still has the value that the sleeper saw. The library's sleep ends after some milliseconds at the latest; the model's does
 * not, so that a lost wake-up is an end state in which somebody sleeps, which spin reports.
 *
 *   never two inside; everybody comes to an end */
#define THREADS 3
#define TURNS 2

byte word, inside;
bool asleep[THREADS];

#define NOBODY_SLEEPS (!asleep[0] && !asleep[1] && !asleep[2])

/* Of those who sleep, whichever. */
inline wake_one()
{
  atomic {
    if
    :: asleep[0] -> asleep[0] = false
    :: asleep[1] -> asleep[1] = false
    :: asleep[2] -> asleep[2] = false
    :: NOBODY_SLEEPS -> skip
    fi
  }
}

active [THREADS] proctype thread()
{
  byte turn, was;
  bool in;
  do
  :: turn == TURNS -> break
  :: turn < TURNS ->
    atomic { in = (word == 0); if :: in -> word = 1 :: else -> skip fi }   /* lock_try */
    do
    :: in -> break
    :: !in ->
      atomic { was = word; word = 2 }                                      /* lock_wait */
      if
      :: was == 0 -> in = true
      :: else ->
        atomic { if :: word == 2 -> asleep[_pid] = true :: else -> skip fi }
        !asleep[_pid]
      fi
    od;
    inside++;
    assert(inside == 1);
    inside--;
    atomic { was = word; word = 0 }                                        /* lock_release */
    if
    :: was == 2 -> wake_one()
    :: else -> skip
    fi;
    turn++
  od
}
