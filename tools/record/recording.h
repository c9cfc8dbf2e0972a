/* SPDX-License-Identifier: MIT
 *
 * The form of a recording. It is a file of chunks of RECORDING_CHUNK bytes, in the byte order of the machine that wrote it. The
 * first chunk is the head. Each of the others belongs to one stream and is read by itself: a recording that was cut off, or
 * whose program was killed, is read as far as it goes. Nothing is written behind a chunk's last event, so it ends with a 0.
 *
 * A stream is what one thread writes to, and when that has ended, another. Its chunks stand in the file in the order in which
 * they were written, and its times never decrease.
 *
 * Numbers are of variable length: seven bits in each byte, the lowest first, and the eighth is set in all but the last
 * (LEB128). A difference may be negative: its sign is the lowest bit then (zigzag). In a chunk a time is the difference to that
 * of the event before, and an address, of which eight bytes are one, that to the address before; both begin with what stands at
 * the chunk's head, and with 0.
 *
 * Events of threads are put in one order by their times. What is allocated has the time after the call, and what is freed that
 * before it: so a block is never there twice, and never freed before it was there. A realloc() has both: somebody else may get
 * its old block before it ends, and may have had its new one after it began. */
#ifndef RECORDING_H
#define RECORDING_H

#include <stdint.h>

#define RECORDING_MAGIC "tidepool" /* without its 0 */

enum {
  RECORDING_VERSION = 1,
  RECORDING_BYTE_ORDER = 0x01020304,
  RECORDING_CHUNK = 64 << 10,
  RECORDING_FRAMES_MOST = 32,
  RECORDING_SITES_MOST = 1 << 20, /* no number of a site is larger */
  RECORDING_EVENT_MOST = 80,      /* bytes; of sites and modules: each has its own */
  RECORDING_NAME_MOST = 4096,
  RECORDING_HEAPS_MOST = (1 << 20) - 1,  /* no number of a heap is larger */
  RECORDING_THREADS_MOST = (1 << 22) - 1 /* the highest number of one; later ones have it, too */
};

typedef struct recording_head {
  char magic[8];
  uint32_t byte_order;
  uint32_t version;
  uint32_t pid;
  uint32_t frames_most;
  uint64_t started_ns; /* since 1970 */
  uint64_t ended_ns;   /* since it began; 0: it goes on, or was killed */
  uint32_t error;      /* what ended it before the program did, as errno has it on Linux; 0: nothing */
  uint32_t words;      /* of the command, each with a 0 behind it: as many as there is room for */
} recording_head_t;

typedef struct recording_chunk {
  uint32_t mark; /* RECORDING_CHUNK_MARK, set last: a chunk without it has nothing in it */
  uint32_t stream;
  uint64_t from_ns; /* not after the first event, nor before what its stream has already */
  uint32_t thread;  /* that writes here, until an event says otherwise */
  uint32_t number;  /* in its stream, from 1 on */
} recording_chunk_t;

/* The head's chunk ends with this. Where chunks have no numbers a command's words may be there. */
typedef struct recording_foot {
  uint64_t process_began;     /* as /proc/self/stat has it; 0: it is not known */
  uint64_t processes, clocks; /* the namespaces of the process, as inodes of /proc/self/ns; 0: it is not known */
  uint64_t began_ns;          /* CLOCK_MONOTONIC when the recording began */
  uint64_t begun_chunks;      /* how many others than the head */
} recording_foot_t;

enum { RECORDING_CHUNK_MARK = 0x6b6e6863, RECORDING_FOOT_AT = RECORDING_CHUNK - (int)sizeof(recording_foot_t) };

/* What follows each: T a time, A an address, N a number. */
typedef enum recording_op {
  RECORDING_END,
  RECORDING_ALLOC,   /* T A N N        address, size, site */
  RECORDING_ZEROED,  /* T A N N        the same, of calloc() */
  RECORDING_ALIGNED, /* T A N N N      the same, and the logarithm of the alignment */
  RECORDING_FREE,    /* T A */
  RECORDING_REALLOC, /* T A N A N N    the old address, how many nanoseconds it took, the new address, size, site */
  RECORDING_FAILED,  /* T N N          size, site: there was no memory */
  RECORDING_SITE,    /* N N N...       its number, how many frames, each the difference to the one before, innermost first */
  RECORDING_MODULE,  /* N N N N bytes  what is added to the addresses of its file; where it starts, its bytes; its name */
  RECORDING_THREAD,  /* N              which thread writes here from now on */
  RECORDING_HEAP, /* T N N N N N bytes  its number, its parent's, its kind, its budget or the size of its objects; its name */
  RECORDING_IN,   /* N              of which heap is what is allocated here from now on, in this chunk */
  RECORDING_FINE, /*                addresses are whole ones from here on, in this chunk */
  RECORDING_DROP, /* T N            all blocks of a heap end, and those of its object pools */
  RECORDING_OPS
} recording_op_t;

/* Heap 0 is malloc(), which nothing describes, and RECORDING_HEAPS_MOST all that there was no room for. Of the others what
 * describes one may come after blocks of it, in the stream of another thread. A heap that is described once more is another, at
 * the address of one whose blocks have all ended. What is reallocated is of the heap that the chunk is in then. */
typedef enum recording_kind { RECORDING_KIND_HEAP, RECORDING_KIND_OBJECT_POOL, RECORDING_KINDS } recording_kind_t;

#endif
