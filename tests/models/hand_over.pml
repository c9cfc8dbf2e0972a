/* SPDX-License-Identifier: MIT
 *
 * Magazines change hands between two threads and a pool (magazines.c, bin.c): a full one goes to the depot, an empty one is
 * exchanged for a full one, or filled from the slab; a thread that ends gives everything back. A magazine has room for two of the six
 * blocks. Block b is the bit 1 << b of whatever holds it. It begins where much can happen: both magazines are full.
 *
 *   S2: every block is in one place, at every step: with a caller, in a magazine of a thread, in the depot, in the slab */
#define THREADS 2
#define ALL 63
#define STEPS 5

byte with_caller[THREADS], loaded[THREADS], depot, slab, moving[THREADS];
bool locked;

#define ACQUIRE atomic { !locked -> locked = true }
#define RELEASE locked = false
#define SUM (with_caller[0] + with_caller[1] + loaded[0] + loaded[1] + depot + slab + moving[0] + moving[1])
#define UNION (with_caller[0] | with_caller[1] | loaded[0] | loaded[1] | depot | slab | moving[0] | moving[1])
/* Nothing lost, and nothing in two places. */
#define EACH_ONCE (SUM == ALL && UNION == ALL)

/* One step is one store; between two of them a block is on its way, in the hands of the one who moves it. */
#define MOVE(bits, from, to) atomic { from = from - (bits); moving[me] = moving[me] + (bits) } atomic { moving[me] = moving[me] - (bits); to = to + (bits) }

#define LOWEST(set) (set & -set)
#define REST(set) (set & (set - 1))
#define IS_FULL(set) (set && REST(set) && !REST(REST(set)))

init
{
  atomic {
    loaded[0] = 3; loaded[1] = 12; with_caller[0] = 16; with_caller[1] = 32;
    run thread(0); run thread(1)
  }
}

proctype thread(byte me)
{
  byte steps, bits;
  do
  :: steps == STEPS -> break
  :: steps < STEPS ->
    if
    :: loaded[me] -> bits = LOWEST(loaded[me]); MOVE(bits, loaded[me], with_caller[me])                  /* pop */
    :: with_caller[me] && !IS_FULL(loaded[me]) -> bits = LOWEST(with_caller[me]); MOVE(bits, with_caller[me], loaded[me])   /* push */
    :: with_caller[me] && IS_FULL(loaded[me]) ->                                                             /* overflow */
      ACQUIRE;
      bits = loaded[me];
      if
      :: !depot -> MOVE(bits, loaded[me], depot)
      :: else -> MOVE(bits, loaded[me], slab)
      fi;
      RELEASE
    :: !loaded[me] ->                                                                                          /* refill */
      ACQUIRE;
      if
      :: depot -> bits = depot; MOVE(bits, depot, loaded[me])
      :: !depot && slab -> bits = LOWEST(slab); MOVE(bits, slab, loaded[me])
      :: !depot && !slab -> skip
      fi;
      RELEASE
    :: with_caller[me] -> bits = LOWEST(with_caller[me]); MOVE(bits, with_caller[me], with_caller[1 - me])   /* handed over */
    fi;
    steps++
  od;
  ACQUIRE;                                                                                                      /* the end */
  bits = loaded[me];
  if
  :: bits -> MOVE(bits, loaded[me], slab)
  :: else -> skip
  fi;
  RELEASE
}

ltl each_once { [] (UNION == 0 || EACH_ONCE) }
