/* SPDX-License-Identifier: MIT
 *
 * Free objects of a shared object pool in the caches of two threads, and a third that reaches for them (object_pool/cache.h). The
 * stores of an owner to `busy` and `hot_is_free` may stay in its processor's buffer, in their order, until it passes a barrier.
 * An owner may read the pool's slot long before it acts on it.
 *
 *   an object that is got has one user; nobody else is in a cache while it is flushed; nothing is lost
 *   a get fails only if at some moment since it began all objects were in use */
#define OBJECTS 2
#define OWNERS 2
#define TURNS 3
#define REACHES 2
#define NOBODY 0
#define OTHER 3   /* owner n is user n + 1 */
#define KEPT 2    /* in the buffer: this byte is not stored to */

bool in_use[OBJECTS], is_free[OBJECTS] = true;   /* the highest bit of the uses; the bit in the array */
byte user[OBJECTS];                              /* what the program knows */
bool slot = true;                                /* caches are looked at */
byte without;                                    /* gets left before they are again, after a reach */
bool lock, caches_lock;
byte live[OBJECTS];                              /* gets, less those puts that have left the buffer */
bool was_full;                                       /* all objects were in use since the third's get began */
bool started;
byte finished;

typedef cache_t {
  bool busy, hot_is_free, claimed;
  byte hot;
  bool in_stock[OBJECTS];
  byte inside;
  byte buffered, buffer_busy[2], buffer_hot[2], buffer_put[2]   /* which object a store makes free, and one more */
}
cache_t cache[OWNERS];

#define C cache[me]

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
inline acquire() { atomic { !lock -> lock = true; drain(me) } }
inline release() { atomic { lock = false; drain(me) } }

inline start_use(o) { atomic { in_use[o] = true; live[o]++; if :: live[0] && live[1] -> was_full = true :: else fi } }
inline use(o, who) { atomic { assert(user[o] == NOBODY && in_use[o]); user[o] = who } }
inline count_get()
{
  if :: without > 0 -> without--; if :: without == 0 -> slot = true :: else fi :: else fi
}
inline take_free(who)
{
  if
  :: is_free[0] -> is_free[0] = false; start_use(0); use(0, who); count_get()
  :: !is_free[0] && is_free[1] -> is_free[1] = false; start_use(1); use(1, who); count_get()
  :: else -> skip
  fi
}

active proctype store_buffers()
{
end:
  do
  :: atomic { cache[0].buffered > 0 -> drain_one(0) }
  :: atomic { cache[1].buffered > 0 -> drain_one(1) }
  od
}

inline get()
{
  if
  :: !slot -> acquire(); take_free(me + 1); release()
  :: slot ->
    store(1, KEPT);
    if
    :: C.claimed -> store(0, KEPT); acquire(); take_free(me + 1); release()
    :: !C.claimed ->
      load_hot();
      C.inside++; assert(C.inside == 1);
      if
      :: seen ->
        o = C.hot; assert(!in_use[o]);
        start_use(o); C.inside--; store(0, 0); use(o, me + 1)
      :: !seen && (C.in_stock[0] || C.in_stock[1]) ->
        if :: C.in_stock[0] -> o = 0 :: C.in_stock[1] -> o = 1 fi;
        C.in_stock[o] = false; C.hot = o; assert(!in_use[o]);
        start_use(o); C.inside--; store(0, 0); use(o, me + 1)
      :: else -> C.inside--; store(0, KEPT); acquire(); take_free(me + 1); release()
      fi
    fi
  fi
}

inline put()
{
  user[o] = NOBODY;
  if
  :: !slot -> acquire(); atomic { in_use[o] = false; live[o]--; is_free[o] = true }; release()
  :: slot && o == C.hot && in_use[o] -> in_use[o] = false; store(KEPT, 1)
  :: slot && o != C.hot ->
    store(1, KEPT);
    if
    :: C.claimed -> store(0, KEPT); acquire(); atomic { in_use[o] = false; live[o]--; is_free[o] = true }; release()
    :: !C.claimed ->
      load_hot();
      C.inside++; assert(C.inside == 1);
      in_use[o] = false;
      if :: seen -> C.in_stock[C.hot] = true :: else fi;
      C.hot = o;
      C.inside--;
      store(0, 1)
    fi
  fi
}

proctype owner(byte me)
{
  byte turn, o;
  bool seen;
  do
  :: turn == TURNS -> break
  :: turn < TURNS ->
    if
    :: true -> get()
    :: user[0] == me + 1 -> o = 0; put()
    :: user[1] == me + 1 -> o = 1; put()
    :: user[0] == me + 1 -> drain(me); user[0] = OWNERS - me   /* handed to the other: a barrier of the program's */
    fi;
    turn++
  od;
  finished++
}

inline flush(c)
{
  cache[c].inside++; assert(cache[c].inside == 1);
  o = 0;
  do
  :: o < OBJECTS ->
    if :: cache[c].in_stock[o] -> cache[c].in_stock[o] = false; assert(!in_use[o]); is_free[o] = true :: else fi;
    o++
  :: else -> break
  od;
  if
  :: cache[c].hot_is_free ->
    assert(!in_use[cache[c].hot] && !is_free[cache[c].hot]);
    is_free[cache[c].hot] = true; cache[c].hot_is_free = false
  :: else
  fi;
  cache[c].inside--
}

inline claim(c, value) { cache[c].claimed = value }

/* Gets an object, if any is free. */
active proctype other()
{
  byte turn, o;
  started;
  do
  :: turn == REACHES -> break
  :: turn < REACHES ->
    was_full = live[0] && live[1];
    claim(0, true); claim(1, true);
    drain(0); drain(1);   /* os_fence_others() */
    !cache[0].busy; !cache[1].busy;
    atomic { !lock -> lock = true };
    flush(0); flush(1);
    if
    :: is_free[0] || is_free[1] ->
      if :: is_free[0] -> o = 0 :: else -> o = 1 fi;
      is_free[o] = false; start_use(o);
      use(o, OTHER)
    :: else -> assert(was_full)
    fi;
    slot = false; without = 2;
    lock = false;
    claim(0, false); claim(1, false);
    if :: user[0] == OTHER -> user[0] = NOBODY; atomic { !lock -> lock = true }; atomic { in_use[0] = false; live[0]--; is_free[0] = true }; lock = false
       :: user[1] == OTHER -> user[1] = NOBODY; atomic { !lock -> lock = true }; atomic { in_use[1] = false; live[1]--; is_free[1] = true }; lock = false
       :: true
    fi;
    turn++
  od;
  finished++
}

/* An object may be in a stock from the start. */
init {
  atomic {
    if :: is_free[1] -> is_free[1] = false; cache[0].in_stock[1] = true :: true fi;
    run owner(0); run owner(1);
    started = true
  }
}

/* At the end each object is in one place. */
active proctype census()
{
  byte o, places;
  finished == OWNERS + 1 && cache[0].buffered == 0 && cache[1].buffered == 0;
  for (o : 0 .. OBJECTS - 1) {
    places = is_free[o] + (user[o] != NOBODY) + cache[0].in_stock[o] + cache[1].in_stock[o] +
             (cache[0].hot_is_free && cache[0].hot == o) + (cache[1].hot_is_free && cache[1].hot == o);
    assert(places == 1);
    assert(in_use[o] == (user[o] != NOBODY))
  }
  assert(!cache[0].busy && !cache[1].busy)
}
