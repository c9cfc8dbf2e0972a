/* SPDX-License-Identifier: MIT
 * Programs that leak, or seem to: those of leaking.c have the calls of pool.h or of malloc, those of leaking_heaps.c have heaps
 * and object pools. */
#ifndef LEAKING_H
#define LEAKING_H

/* The compiler must not see through the calls, nor make jumps of them. */
#define OPAQUE __attribute__((noinline, noclone))

/* A name of NULL ends a table. */
typedef struct program {
  const char *name;
  void (*run)(void);
} program_t;
extern const program_t heap_programs[];

#endif
