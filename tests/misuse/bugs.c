/* SPDX-License-Identifier: MIT
 *
 * Programs with one bug each, chosen by name. Built twice: against pool.h, and with MALLOC_NAMES against whatever
 * serves malloc.
 *
 * usage: bugs NAME */
#define _GNU_SOURCE
#include "bugs.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

char static_memory[256];

void *hidden(const void *address)
{
  uintptr_t value = (uintptr_t)address;
  __asm__ volatile("" : "+r"(value));
  return (void *)value;
}

char *block_of(size_t size)
{
  char *block = ALLOCATE(size);
  if (!block)
    _exit(3);
  memset(block, 1, size);
  return hidden(block);
}

void release(const void *address)
{
  RELEASE(hidden(address));
  TRIM(0);
}

void resize(const void *address)
{
  void *block = RESIZE(hidden(address), 5000);
  RELEASE(block);
  TRIM(0);
}

_Noreturn void went_on(void) { _exit(4); }

static void free_stack(void)
{
  char on_stack[64];
  memset(on_stack, 0, sizeof on_stack);
  release(on_stack + (-(uintptr_t)on_stack & 15));
}

static void free_static(void) { release(static_memory); }
static void free_code(void) { release((void *)(uintptr_t)free_static); }
static void free_low(void) { release((void *)(uintptr_t)0x10); }
static void free_wild(void) { release((void *)(uintptr_t)0x123456789000); }
static void free_noncanonical(void) { release((void *)(uintptr_t)0xdeadbeefdeadbee0); }
static void free_highest(void) { release((void *)(uintptr_t)-16); }

static void *mapping(void)
{
  void *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

static void free_mapping(void) { release(mapping()); }
static void free_inside_small(void) { release(block_of(SMALL) + 16); }
static void free_odd_address(void) { release(block_of(SMALL) + 1); }
static void free_inside_large(void) { release(block_of(LARGE) + (LARGE / 2)); }
static void free_large_off_by_16(void) { release(block_of(LARGE) + 16); }

static void free_inside_medium(void)
{
  char *block = block_of(20000);
  release(block + 4096);
}

/* In the memory of the manager, a block like others, but nobody's. */
static void free_never_allocated(void)
{
  char *block = block_of(3000);
  release(block + 3 * USABLE(block));
}

static void free_twice_in_a_row(void)
{
  char *block = block_of(SMALL);
  RELEASE(block);
  release(block);
}

static void free_twice_with_others_between(void)
{
  enum { OTHERS = 20 };
  char *block = block_of(SMALL), *others[OTHERS];
  for (int i = 0; i < OTHERS; i++)
    others[i] = block_of(SMALL);
  RELEASE(block);
  for (int i = 0; i < OTHERS; i++)
    RELEASE(others[i]);
  release(block);
}

/* No trim: the magazines run full and are emptied in the course of things. */
static void free_twice_among_thousands(void)
{
  enum { BLOCKS = 20000 };
  static char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = block_of(SMALL);
  for (int i = 0; i < BLOCKS; i++)
    RELEASE(blocks[i]);
  for (int i = 0; i < BLOCKS; i++)
    RELEASE(blocks[i]);
}

static void *release_in_thread(void *block)
{
  RELEASE(block);
  return NULL;
}

static void free_twice_in_two_threads(void)
{
  char *block = block_of(SMALL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, release_in_thread, block) != 0)
    _exit(3);
  pthread_join(thread, NULL);
  release(block);
}

/* Whoever is to end the program must come to it. */
static void *release_twice_although_cancelled(void *block)
{
  RELEASE(block);
  pthread_cancel(pthread_self());
  release(block);
  return NULL;
}

static void free_twice_in_a_cancelled_thread(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, release_twice_although_cancelled, block_of(SMALL)) != 0)
    _exit(3);
  pthread_join(thread, NULL);
}

static void free_twice_medium(void)
{
  char *block = block_of(20000);
  RELEASE(block);
  release(block);
}

static void free_twice_large(void)
{
  char *block = block_of(LARGE);
  RELEASE(block);
  release(block);
}

static void free_after_realloc_to_zero(void)
{
  char *block = block_of(SMALL);
  if (RESIZE(block, (size_t)(uintptr_t)hidden(NULL)))
    _exit(3);
  release(block);
}

static void realloc_stack(void)
{
  char on_stack[64];
  memset(on_stack, 0, sizeof on_stack);
  resize(on_stack + (-(uintptr_t)on_stack & 15));
}

static void realloc_static(void) { resize(static_memory); }
static void realloc_wild(void) { resize((void *)(uintptr_t)0x123456789000); }
static void realloc_inside_large(void) { resize(block_of(LARGE) + (LARGE / 2)); }

static void realloc_freed_large(void)
{
  char *block = block_of(LARGE);
  RELEASE(block);
  resize(block);
}

/* The rest is seen in a checked heap only, and there at once: no trim. */
static void checked_free_twice(void)
{
  char *block = block_of(SMALL);
  RELEASE(block);
  RELEASE(block);
}

static void write_after_free_of(size_t size)
{
  char *block = block_of(size);
  RELEASE(block);
  block[10] = 'x';
  for (int i = 0; i < 100000; i++)
    block_of(size);
}

static void write_after_free(void) { write_after_free_of(SMALL); }

static void overrun_of(size_t size)
{
  char *block = block_of(size);
  block[size] = 'x';
  RELEASE(block);
}

static void overrun(void) { overrun_of(SMALL); }
static void overrun_large(void) { overrun_of(LARGE - 8); }

static void overrun_seen_by_realloc(void)
{
  char *block = block_of(SMALL);
  block[SMALL] = 'x';
  RELEASE(RESIZE(block, 100000));
}

/* Seen by a look at exit alone. */
static void exits_with_a_block_twice(void)
{
  char *block = block_of(SMALL), *other = block_of(SMALL);
  RELEASE(block);
  RELEASE(other);
  RELEASE(hidden(block));
}

static void read_after_free(void)
{
  char *block = block_of(SMALL);
  RELEASE(block);
  exit(((volatile char *)hidden(block))[10]);
}

static void read_past_the_end(void)
{
  volatile char *block = block_of(SMALL);
  exit(block[112]);
}

static void write_of_nothing(void)
{
  char *block = hidden(ALLOCATE(0));
  *block = 1;
}

/* ---- what must be seen at once: the program does not go on ---- */

static void at_once_odd(void) { RELEASE(hidden(block_of(SMALL) + 1)), went_on(); }
static void at_once_off_by_eight(void) { RELEASE(hidden(block_of(5000) + 8)), went_on(); }
static void at_once_realloc_odd(void) { RELEASE(RESIZE(hidden(block_of(SMALL) + 3), SMALL)), went_on(); }

static void twice_at_once(size_t size)
{
  char *other = block_of(size), *block = block_of(size);
  RELEASE(other);
  RELEASE(block);
  RELEASE(hidden(block));
  went_on();
}

static void at_once_twice_small(void) { twice_at_once(SMALL); }
static void at_once_twice_medium(void) { twice_at_once(5000); }
static void at_once_twice_large(void) { twice_at_once(100000); }
/* A block of more than 8 MiB is a mapping on a 32-bit machine, of which nothing is known once it is freed. */
static void at_once_twice_huge(void) { twice_at_once(sizeof(void *) > 4 ? 9 << 20 : 7 << 20); }

static const bug_t bugs[] = {
  {"free-stack", free_stack},
  {"free-static", free_static},
  {"free-code", free_code},
  {"free-low", free_low},
  {"free-wild", free_wild},
  {"free-noncanonical", free_noncanonical},
  {"free-highest", free_highest},
  {"free-mapping", free_mapping},
  {"free-inside-small", free_inside_small},
  {"free-odd-address", free_odd_address},
  {"at-once-odd", at_once_odd},
  {"at-once-off-by-eight", at_once_off_by_eight},
  {"at-once-realloc-odd", at_once_realloc_odd},
  {"at-once-twice-small", at_once_twice_small},
  {"at-once-twice-medium", at_once_twice_medium},
  {"at-once-twice-large", at_once_twice_large},
  {"at-once-twice-huge", at_once_twice_huge},
  {"free-inside-medium", free_inside_medium},
  {"free-inside-large", free_inside_large},
  {"free-large-off-by-16", free_large_off_by_16},
  {"free-never-allocated", free_never_allocated},
  {"free-twice-in-a-row", free_twice_in_a_row},
  {"free-twice-with-others-between", free_twice_with_others_between},
  {"free-twice-among-thousands", free_twice_among_thousands},
  {"free-twice-in-two-threads", free_twice_in_two_threads},
  {"free-twice-in-a-cancelled-thread", free_twice_in_a_cancelled_thread},
  {"free-twice-medium", free_twice_medium},
  {"free-twice-large", free_twice_large},
  {"free-after-realloc-to-zero", free_after_realloc_to_zero},
  {"realloc-stack", realloc_stack},
  {"realloc-static", realloc_static},
  {"realloc-wild", realloc_wild},
  {"realloc-inside-large", realloc_inside_large},
  {"realloc-freed-large", realloc_freed_large},
  {"checked-free-twice", checked_free_twice},
  {"write-after-free", write_after_free},
  {"overrun", overrun},
  {"overrun-large", overrun_large},
  {"overrun-seen-by-realloc", overrun_seen_by_realloc},
  {"exits-with-a-block-twice", exits_with_a_block_twice},
  {"read-after-free", read_after_free},
  {"read-past-the-end", read_past_the_end},
  {"write-of-nothing", write_of_nothing},
  {NULL, NULL},
};

static void run_if_there(const bug_t *bug, const char *name)
{
  for (; bug->name; bug++)
    if (strcmp(name, bug->name) == 0) {
      bug->run();
      exit(0);
    }
}

int main(int argc, char **argv)
{
  if (argc == 2) {
    run_if_there(bugs, argv[1]);
#ifndef MALLOC_NAMES
    run_if_there(pool_bugs, argv[1]);
#endif
  }
  fputs("usage: bugs NAME\n", stderr);
  return 2;
}
