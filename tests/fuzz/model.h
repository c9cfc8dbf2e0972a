/* SPDX-License-Identifier: MIT
 * The model: of each live block where it is, how large, whose and what is in it, and of each heap what it may do. The input and
 * the contents of blocks are beside it. */
#ifndef MODEL_H
#define MODEL_H

#include "fuzz_pool.h"
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>

_Noreturn void must_failed(const char *file, int line, const char *condition);
#define must(condition) ((condition) ? (void)0 : must_failed(__FILE__, __LINE__, #condition))

enum {
  SLOTS = 192,
  HEAPS = 7, /* the default one is number 0 */
  FREED = 32,
  LARGE_LEAST = 32 << 10,
  HUGE_LEAST = 4 << 20
};

typedef struct slot {
  char *block;
  size_t size, usable;
  uint64_t key;
  unsigned heap;
} slot_t;

typedef struct known_heap {
  pool_heap_t *heap;
  bool limited, checked; /* a request may fail; blocks do not stay where they are */
  bool single, zeroes;   /* is for one thread; leaves nothing of what it takes back */
  const char *memory;    /* the caller's, or NULL */
  size_t memory_size;
  unsigned parent, overflow; /* 0: none */
} known_heap_t;

typedef struct model {
  const uint8_t *data, *end;
  slot_t slots[SLOTS];
  known_heap_t heaps[HEAPS];
  const char *freed[FREED];
  unsigned freed_next;
  size_t live_bytes;
  uint64_t keys;
  const char *op;
  const slot_t *busy;       /* its block is in a call */
  bool is_child, elsewhere; /* of a fork; in the second thread */
} model_t;

extern model_t model;

/* The input. When it has ended, all that follows is 0. */
unsigned byte(void);
size_t number(void); /* of two bytes */
size_t some_size(void);
size_t some_large_size(void);
size_t some_huge_size(void);

/* Contents. */
void fill(const slot_t *slot);
void verify(const slot_t *slot, const char *block, size_t kept); /* the first bytes of it, now at `block` */
void must_be_zero(const char *block, size_t size);
void must_be_wiped(const char *from, size_t size);

/* What is known. */
slot_t *some_slot(void);
unsigned some_heap(void);
const slot_t *slot_around(const char *address); /* NULL: no live block is there */
bool may_fail(unsigned heap, size_t size);
bool overflows_to(unsigned from, unsigned to);
bool leaves_nothing(unsigned heap); /* of what it takes back */
void answers_agree(const char *address);

/* What changes. keep() notes the answer to a request, let_go() gives a block back, forget() notes that it has gone. */
void keep(slot_t *slot, unsigned asked, char *block, size_t size, size_t alignment);
void let_go(slot_t *slot);
void forget(slot_t *slot);
void make_room(size_t size);

#endif
