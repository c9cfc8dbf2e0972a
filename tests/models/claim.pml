/* SPDX-License-Identifier: MIT
 *
 * A thread claims the caches of two others (os/lock.h). By default the caches are those of a shared object pool
 * (object_pool/cache.h), with HEAPS they are magazines within reach (thread/thread.h). The stores of an owner to `busy` and
 * `hot_is_free` may stay in its processor's buffer, in their order, until it passes a barrier.
 *
 *   an object has one user; an owner and a claiming thread are never both in a cache; nothing is lost
 *   a get of a pool fails only if at some moment since it began all objects were in use, or an owner was given up
 *   a cache with objects is in the list of those that can be claimed
 *
 * holds:
 * holds: -DHEAPS
 * fails: -DNO_FENCE
 * fails: -DNO_CHECK
 * fails: -DRESUMED_EARLY
 * fails: -DHEAPS -DNO_FENCE
 * fails: -DHEAPS -DNO_CHECK
 * fails: -DHEAPS -DBUSY_LATE */
#define OBJECTS 2
#define OWNERS 2
#define CLAIMS 2
#define NOBODY 0
#define CLAIMANT 3 /* owner n is user n + 1 */
#define KEPT 2     /* in the buffer: this byte is not stored to */

bool in_use[OBJECTS], is_free[OBJECTS] = true; /* the highest bit of the uses; the bit in the array or the slab */
byte user[OBJECTS];                            /* what the program knows */
bool slot[OWNERS] = true, listed[OWNERS] = true;
bool claimed;                                  /* the pool's slot stays empty */
byte without;                                  /* gets until it is filled again, after a claim */
bool lock, claim_lock;                         /* of the pool or the bin; of all claims */
byte live[OBJECTS];                            /* gets, less those puts that have left the buffer */
bool was_full;                                 /* all objects were in use since the claiming thread's get began */
bool started;
byte finished;

typedef cache_t {
  bool busy, hot_is_free;
  byte hot;
  bool in_stock[OBJECTS];
  byte inside;
  byte buffered, buffer_busy[2], buffer_hot[2], buffer_put[2] /* which object a store makes free, and one more */
}
cache_t cache[OWNERS];

#define C cache[me]
#define ANY(of) (of[0] || of[1])

/* Magazines have no hot object. Their owners share nothing but the bin, so one of them runs. */
#ifdef HEAPS
#define RUN 1
#define TURNS 3
#define HOT KEPT
#define NOT_HOT KEPT
#define SET_HOT
#else
#define RUN OWNERS
#define TURNS 2
#define HOT 1
#define NOT_HOT 0
#define SET_HOT C.hot = o
#endif

inline drain_one(c)
{
  if :: cache[c].buffer_busy[0] != KEPT -> cache[c].busy = cache[c].buffer_busy[0] :: else fi;
  if :: cache[c].buffer_hot[0] != KEPT -> cache[c].hot_is_free = cache[c].buffer_hot[0] :: else fi;
  if :: cache[c].buffer_put[0] -> live[cache[c].buffer_put[0] - 1]-- :: else fi;
  cache[c].buffer_busy[0] = cache[c].buffer_busy[1]; cache[c].buffer_hot[0] = cache[c].buffer_hot[1];
  cache[c].buffer_put[0] = cache[c].buffer_put[1]; cache[c].buffer_put[1] = 0;
  cache[c].buffer_busy[1] = 0; cache[c].buffer_hot[1] = 0;
  cache[c].buffered--
}
inline drain(c) { atomic { do :: cache[c].buffered > 0 -> drain_one(c) :: else -> break od } }
inline store(b, h)
{
  atomic {
    if :: C.buffered == 2 -> drain_one(me) :: else fi;
    C.buffer_busy[C.buffered] = b; C.buffer_hot[C.buffered] = h; C.buffer_put[C.buffered] = (h == 1 -> o + 1 : 0); C.buffered++
  }
}

/* The owner sees its own stores. */
inline load_hot()
{
  atomic {
    seen = C.hot_is_free;
    if :: C.buffered > 0 && C.buffer_hot[0] != KEPT -> seen = C.buffer_hot[0] :: else fi;
    if :: C.buffered > 1 && C.buffer_hot[1] != KEPT -> seen = C.buffer_hot[1] :: else fi
  }
}

/* Locked instructions drain the buffer. */
inline acquire(which) { atomic { !which -> which = true; drain(me) } }
inline release(which) { atomic { which = false; drain(me) } }

inline come_inside(c) { cache[c].inside++; assert(cache[c].inside == 1) }
inline go_outside(c) { cache[c].inside-- }

inline start_use(o) { atomic { in_use[o] = true; live[o]++; if :: live[0] && live[1] -> was_full = true :: else fi } }
inline use(o, who) { atomic { assert(user[o] == NOBODY && in_use[o]); user[o] = who } }
inline count_get()
{
  if
  :: without > 0 ->
    without--;
#ifdef RESUMED_EARLY
    if :: without == 0 -> slot[0] = true; slot[1] = true :: else fi
#else
    if :: without == 0 && !claimed -> slot[0] = true; slot[1] = true :: else fi
#endif
  :: else
  fi
}
inline take_free(who)
{
  if
  :: is_free[0] -> is_free[0] = false; start_use(0); use(0, who); count_get()
  :: !is_free[0] && is_free[1] -> is_free[1] = false; start_use(1); use(1, who); count_get()
  :: else -> skip
  fi
}
inline give_free() { atomic { in_use[o] = false; live[o]--; is_free[o] = true } }

/* ---- the owner, who is busy and has found the slot full ---- */

inline take_cached()
{
  atomic {
    load_hot();
    come_inside(me);
    if
    :: seen -> o = C.hot; done = true
    :: !seen && C.in_stock[0] -> o = 0; C.in_stock[0] = false; done = true
    :: !seen && C.in_stock[1] -> o = 1; C.in_stock[1] = false; done = true
    :: else
    fi;
    if :: done -> assert(!in_use[o]); SET_HOT; start_use(o) :: else fi
  };
  go_outside(me);
  if :: done -> store(0, NOT_HOT); use(o, me + 1) :: else -> store(0, KEPT) fi
}

inline give_cached()
{
  atomic {
    load_hot();
    come_inside(me);
    in_use[o] = false;
#ifdef HEAPS
    live[o]--; C.in_stock[o] = true
#else
    if :: seen -> C.in_stock[C.hot] = true :: else fi;
    C.hot = o
#endif
  };
  go_outside(me);
  store(0, HOT);
  done = true
}

/* ---- the owner ---- */

/* Under the lock of all claims, which a claiming thread holds from the first slot that it empties to the last flush. */
inline enter_slowly()
{
  acquire(claim_lock);
  slot[me] = true;
  listed[me] = true;
#ifdef BUSY_LATE
  release(claim_lock);
  store(1, KEPT)
#else
  store(1, KEPT);
  release(claim_lock)
#endif
}

/* Under the pool's lock, but not under that of all claims, so the owner must look at the slot. */
inline refill()
{
  store(1, KEPT);
  if
  :: slot[me] && !ANY(C.in_stock) && ANY(is_free) ->
    atomic {
      come_inside(me);
      if :: is_free[0] -> is_free[0] = false; C.in_stock[0] = true :: else -> is_free[1] = false; C.in_stock[1] = true fi
    };
    go_outside(me)
  :: else
  fi;
  store(0, KEPT)
}

#ifdef NO_CHECK
#define LOOK_AT_SLOT(work) store(1, KEPT); work
#else
#define LOOK_AT_SLOT(work) store(1, KEPT); if :: slot[me] -> work :: else -> store(0, KEPT) fi
#endif

inline get()
{
  done = false;
  if :: slot[me] -> LOOK_AT_SLOT(take_cached()) :: true fi;
#ifdef HEAPS
  if :: !done && ANY(C.in_stock) -> enter_slowly(); take_cached() :: else fi;
#endif
  if
  :: !done -> atomic { !lock -> drain(me); take_free(me + 1) }
#ifndef HEAPS
  :: !done && slot[me] -> atomic { !lock -> lock = true; drain(me); take_free(me + 1) }; refill(); release(lock)
#endif
  :: done
  fi
}

inline put()
{
  done = false;
  user[o] = NOBODY;
  if
#ifdef HEAPS
  :: slot[me] -> LOOK_AT_SLOT(give_cached())
#else
  :: slot[me] && o == C.hot && in_use[o] -> in_use[o] = false; store(KEPT, 1); done = true
  :: slot[me] && o != C.hot -> LOOK_AT_SLOT(give_cached())
#endif
  :: true
  fi;
  if
  :: !done ->
#ifdef HEAPS
    enter_slowly(); give_cached()
#else
    atomic { !lock -> drain(me); give_free() }
#endif
  :: else
  fi
}

proctype owner(byte me)
{
  byte turn, o;
  bool seen, done;
  do
  :: turn == TURNS -> break
  :: turn < TURNS ->
    if
    :: true -> get()
    :: user[0] == me + 1 -> o = 0; put()
    :: user[1] == me + 1 -> o = 1; put()
    :: RUN == 2 && user[0] == me + 1 -> drain(me); user[0] = OWNERS - me /* handed to the other: a barrier of the program's */
    fi;
    turn++
  od;
  finished++
}

active proctype store_buffers()
{
end:
  do
  :: atomic { cache[0].buffered > 0 -> drain_one(0) }
  :: atomic { cache[1].buffered > 0 -> drain_one(1) }
  od
}

/* ---- the claiming thread ---- */

inline flush(c)
{
  atomic {
    come_inside(c);
    for (o : 0 .. OBJECTS - 1) {
      if :: cache[c].in_stock[o] -> cache[c].in_stock[o] = false; assert(!in_use[o]); is_free[o] = true :: else fi
    }
  };
  if
  :: cache[c].hot_is_free ->
    assert(!in_use[cache[c].hot] && !is_free[cache[c].hot]);
    is_free[cache[c].hot] = true; cache[c].hot_is_free = false
  :: else
  fi;
  listed[c] = false;
  go_outside(c)
}

/* A signal handler may have interrupted the owner, and wait. */
inline wait_for(c) { if :: !cache[c].busy -> out[c] = true :: cache[c].busy -> out[c] = false; given_up = true fi }

/* Gets an object, if any is free. */
active proctype claimant()
{
  byte turn, o;
  bool out[OWNERS], given_up;
  started;
  do
  :: turn == CLAIMS -> break
  :: turn < CLAIMS ->
    was_full = live[0] && live[1];
    given_up = false;
#ifdef HEAPS
    atomic { !claim_lock -> claim_lock = true };
    slot[0] = false; slot[1] = false;
#else
    atomic { !lock -> slot[0] = false; slot[1] = false; claimed = true };
#endif
#ifndef NO_FENCE
    drain(0); drain(1); /* os_fence_others() */
#endif
    wait_for(0); wait_for(1);
    atomic { !lock -> lock = true };
    if :: out[0] && listed[0] -> flush(0) :: else fi;
    if :: out[1] && listed[1] -> flush(1) :: else fi;
    atomic {
      if
      :: is_free[0] -> is_free[0] = false; start_use(0); use(0, CLAIMANT)
      :: !is_free[0] && is_free[1] -> is_free[1] = false; start_use(1); use(1, CLAIMANT)
#ifdef HEAPS
      :: else
#else
      :: else -> assert(was_full || given_up)
#endif
      fi;
#ifdef HEAPS
      claim_lock = false;
#else
      claimed = false; without = 2;
      listed[0] = true; listed[1] = true;
#endif
      lock = false
    };
    if
    :: user[0] == CLAIMANT -> user[0] = NOBODY; atomic { !lock -> o = 0; give_free() }
    :: user[1] == CLAIMANT -> user[1] = NOBODY; atomic { !lock -> o = 1; give_free() }
    :: true
    fi;
    turn++
  od;
  finished++
}

/* An object may be in a stock from the start. */
init {
  atomic {
    if :: is_free[1] = false; cache[0].in_stock[1] = true :: true fi;
    run owner(0);
    if :: RUN == 2 -> run owner(1) :: else fi;
    started = true
  }
}

/* At the end each object is in one place. */
active proctype census()
{
  byte o, places;
  finished == RUN + 1 && cache[0].buffered == 0 && cache[1].buffered == 0;
  for (o : 0 .. OBJECTS - 1) {
    places = is_free[o] + (user[o] != NOBODY) + cache[0].in_stock[o] + cache[1].in_stock[o] +
             (cache[0].hot_is_free && cache[0].hot == o) + (cache[1].hot_is_free && cache[1].hot == o);
    assert(places == 1);
    assert(in_use[o] == (user[o] != NOBODY));
    assert((!cache[0].in_stock[o] || listed[0]) && (!cache[1].in_stock[o] || listed[1]))
  }
  assert(!cache[0].busy && !cache[1].busy)
}
