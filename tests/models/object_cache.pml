/* SPDX-License-Identifier: MIT
 *
 * Reaching for the objects in another thread's cache of a shared object pool (object_pool/cache.h). Two objects; the owner gets
 * and puts, and so do others by the pool's lock, to whom it may hand an object and who may hand it one. The stores of the owner
 * may stay in its processor's buffer, in their order, until it passes a barrier.
 *
 *   an object that is got has one user; what is claimed is its owner's or the other's, never both's; nothing is lost */
#define OBJECTS 2
#define TURNS 7
#define NOBODY 0
#define OWNER 1
#define OTHERS 2
#define NONE 0
#define FREE 1
#define CLAIMED 2

/* What memory says. uses: odd is live. A place of an object: its bit, the hot one, the stock; or with a user. */
bool odd[OBJECTS], is_free[OBJECTS] = true, in_stock[OBJECTS];
byte user[OBJECTS];
bool busy;
byte hot_is, hot;
bool claimed, locked;
byte finished;
byte inside;   /* in the stock: the owner, and the one who reaches */

/* The owner's buffer: stores of busy and hot_is, 3 where that byte is not stored to. The others are of no matter: uses and the stock are looked at by those who have
 * waited for busy, or been handed the object. */
#define BUFFER 3
byte buffered, buffer_busy[BUFFER], buffer_hot[BUFFER];

inline drain_one()
{
  if :: buffer_busy[0] != 3 -> busy = buffer_busy[0] :: else -> skip fi;
  if :: buffer_hot[0] != 3 -> hot_is = buffer_hot[0] :: else -> skip fi;
  buffer_busy[0] = buffer_busy[1]; buffer_hot[0] = buffer_hot[1];
  buffer_busy[1] = buffer_busy[2]; buffer_hot[1] = buffer_hot[2];
  buffered--
}
inline drain() { atomic { do :: buffered > 0 -> drain_one() :: else -> break od } }
inline store(b, h)
{
  atomic { do :: buffered == BUFFER -> drain_one() :: else -> break od; buffer_busy[buffered] = b; buffer_hot[buffered] = h; buffered++ }
}

/* The owner sees its own stores. */
byte seen;
inline load_hot()
{
  atomic {
    seen = hot_is;
    if :: buffered > 0 && buffer_hot[0] != 3 -> seen = buffer_hot[0] :: else -> skip fi;
    if :: buffered > 1 && buffer_hot[1] != 3 -> seen = buffer_hot[1] :: else -> skip fi;
    if :: buffered > 2 && buffer_hot[2] != 3 -> seen = buffer_hot[2] :: else -> skip fi
  }
}

inline acquire() { atomic { !locked -> locked = true } }
inline release() { locked = false }

active proctype store_buffer()
{
end:
  do
  :: atomic { buffered > 0 -> drain_one() }
  od
}

inline start_to_use(o, who)
{
  atomic { assert(user[o] == NOBODY); user[o] = who }
}

active proctype owner()
{
  byte turn, o;
  bool done;
  do
  :: turn == TURNS -> break
  :: turn < TURNS ->
    if
    :: true ->                                      /* a get */
      store(1, 3);
      load_hot();
      if
      :: seen == FREE ->
        o = hot;
        assert(!odd[o]);
        odd[o] = true;
        store(0, NONE);
        start_to_use(o, OWNER)
      :: else ->
        done = false;
        load_hot();
        if
        :: seen == NONE && !claimed ->
          inside++;
          assert(inside == 1);
          if
          :: in_stock[0] -> o = 0; in_stock[0] = false; done = true
          :: in_stock[1] -> o = 1; in_stock[1] = false; done = true
          :: else -> skip
          fi;
          if :: done -> assert(!odd[o]); odd[o] = true; hot = o :: else -> skip fi;
          inside--
        :: else -> skip
        fi;
        if
        :: done -> store(0, NONE); start_to_use(o, OWNER)
        :: else ->
          store(0, 3);
          acquire();
          drain();
          if
          :: is_free[0] -> is_free[0] = false; odd[0] = true; start_to_use(0, OWNER)
          :: is_free[1] -> is_free[1] = false; odd[1] = true; start_to_use(1, OWNER)
          :: else -> skip
          fi;
          release()
        fi
      fi
    :: user[0] == OWNER || user[1] == OWNER ->      /* a put */
      if :: user[0] == OWNER -> o = 0 :: user[1] == OWNER -> o = 1 fi;
      user[o] = NOBODY;
      if
      :: o == hot && odd[o] -> odd[o] = false; store(3, FREE)
      :: else ->
        store(1, 3);
        load_hot();
        if
        :: seen != CLAIMED && !claimed ->
          inside++;
          assert(inside == 1);
          if :: seen == FREE -> assert(!odd[hot]); in_stock[hot] = true :: else -> skip fi;
          hot = o;
          odd[o] = false;
          inside--;
          store(0, FREE)
        :: else ->
          store(0, 3);
          acquire();
          drain();
          odd[o] = false;
          is_free[o] = true;
          release()
        fi
      fi
    :: user[0] == OWNER -> drain(); user[0] = OTHERS   /* handed over: that is a barrier of the program's */
    :: user[0] == OTHERS -> user[0] = OWNER
    fi;
    turn++
  od;
  finished++
}

/* A third one gets by the lock when the pool is exhausted, and puts. */
active proctype others()
{
  byte turn, o;
  bool was_claimed;
  do
  :: turn == 2 -> break
  :: turn < 2 ->
    acquire();
    claimed = true;
    atomic { if :: hot_is == FREE -> hot_is = CLAIMED :: else -> skip fi };
    drain();                                        /* os_fence_others() */
    if
    :: !busy ->
      inside++;
      assert(inside == 1);
      for (o : 0 .. OBJECTS - 1) { if :: in_stock[o] -> in_stock[o] = false; assert(!odd[o]); is_free[o] = true :: else -> skip fi };
      if
      :: hot_is == CLAIMED -> assert(!odd[hot] && !is_free[hot]); is_free[hot] = true; hot_is = NONE
      :: else -> skip
      fi;
      inside--
    :: true -> skip                                 /* it did not come out for long */
    fi;
    atomic { if :: hot_is == CLAIMED -> hot_is = FREE :: else -> skip fi };
    claimed = false;
    if
    :: is_free[0] -> is_free[0] = false; odd[0] = true; start_to_use(0, OTHERS)
    :: is_free[1] -> is_free[1] = false; odd[1] = true; start_to_use(1, OTHERS)
    :: else -> skip
    fi;
    release();
    turn++
  od;
  finished++
}

/* At the end each object is in one place. */
active proctype census()
{
  byte o, places;
  finished == 2 && buffered == 0;
  for (o : 0 .. OBJECTS - 1) {
    places = is_free[o] + in_stock[o] + (user[o] != NOBODY) + (hot_is == FREE && hot == o);
    assert(places == 1);
    assert(odd[o] == (user[o] != NOBODY))
  }
}
