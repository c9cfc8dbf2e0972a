/* SPDX-License-Identifier: MIT
 *
 * A thread pops from its loaded magazine and pushes to it, while another reads the entries (magazines.h, readers.c). The
 * processor may let each word be seen when it likes, but a published pointer after the words that were stored before it. Block 1
 * is live from before the reader comes. The others are 2 and 3, and 0 ends the entries.
 *
 *   The reader never finds the live block, although its word may still be above the entries.
 *
 * fails: -DNOT_PUBLISHED */
#define WORDS 4
#define STEPS 5
#define NONE 9

byte word[WORDS], below, top;         /* what the other thread sees */
byte own[WORDS], own_below, own_top;  /* what the owner sees */
byte late[WORDS] = NONE, late_below = NONE, late_top = NONE; /* stored, and not seen yet */

/* Each word is stored in order with itself. */
#define SEE_WORD(i) if :: late[i] != NONE -> word[i] = late[i]; late[i] = NONE :: else fi
#define SEE_ALL SEE_WORD(0); SEE_WORD(1); SEE_WORD(2); SEE_WORD(3)
#define SEE(place) if :: late_##place != NONE -> place = late_##place; late_##place = NONE :: else fi
/* With an ordinary store the reader finds the live block. */
#ifdef NOT_PUBLISHED
#define PUBLISH
#else
#define PUBLISH SEE_ALL
#endif

proctype processor()
{
end:
  do
  :: atomic { late[1] != NONE -> SEE_WORD(1) }
  :: atomic { late[2] != NONE -> SEE_WORD(2) }
  :: atomic { late[3] != NONE -> SEE_WORD(3) }
  :: atomic { late_below != NONE -> SEE(below) }
  :: atomic { late_top != NONE -> SEE(top) }
  od
}

proctype owner()
{
  byte steps, popped[WORDS], count;
  popped[0] = 2;
  count = 1;
  do
  :: steps == STEPS -> break
  :: steps < STEPS && own_top -> /* pop */
    d_step {
      popped[count] = own_top; count++;
      SEE(top); own_top = own[own_below]; late_top = own_top;
      SEE(below); own_below = own_below - 1; late_below = own_below;
      steps++
    }
  :: steps < STEPS && count && own_below < WORDS - 1 -> /* push */
    d_step {
      count--;
      SEE_WORD(own_below + 1); own[own_below + 1] = own_top; late[own_below + 1] = own_top;
      SEE(top); own_top = popped[count]; late_top = own_top;
      PUBLISH; SEE(below); own_below = own_below + 1; late_below = own_below;
      steps++
    }
  od
}

proctype reader()
{
  byte at, entry;
  entry = top;
  assert(entry != 1);
  at = below;
  do
  :: entry = word[at]; assert(entry != 1); if :: !entry || !at -> break :: else -> at-- fi
  od
}

/* The magazine had 3, 1 and 2, of which the last two were popped: entry 2 is still the word of block 1. */
init
{
  atomic {
    word[1] = 0; word[2] = 1; own[1] = 0; own[2] = 1;
    word[3] = 1; own[3] = 1;
    top = 3; own_top = 3; below = 1; own_below = 1;
    run processor(); run owner(); run reader()
  }
}
